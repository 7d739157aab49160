/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <json-glib/json-glib.h>

#include "mock.h"
#include "tool.h"

/* Two L40S, one with a vGPU of ours and one of somebody else, and one card that offers nothing; three
 * profiles; assignments of root and of user 4242. */
void fixture_fill(Mock *mock);

/* Fails unless @text is in @where, and says what is there instead. */
#define ASSERT_HAS(where, text) fixture_assert_has((where)->str, text, true, G_STRLOC)
#define ASSERT_HAS_NOT(where, text) fixture_assert_has((where)->str, text, false, G_STRLOC)
void fixture_assert_has(const char *where, const char *text, bool wanted, const char *location);

/* The JSON in @text. */
JsonNode *fixture_json(const GString *text);
