/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "bus.h"
#include "host.h"

/* The polkit that does as it is told, behind host_polkit() and polkit_…(). It answers while the test waits.
 */
typedef struct MockPolkit MockPolkit;

/* Nobody has polkit's name yet. @bus must live longer. */
MockPolkit *mock_polkit_new(Bus *bus);
void mock_polkit_free(MockPolkit *polkit);

/* Takes the name, or with POLKIT_GONE drops the connection, and with it all open questions. */
void mock_polkit_set(MockPolkit *polkit, PolkitMode mode);
