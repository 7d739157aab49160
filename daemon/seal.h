/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib.h>

/* The first line of a file of ours in the runtime directory: `hypeman-vgpu-KIND VERSION CHECKSUM`, with a
 * checksum of all that follows. It tells a whole file from a torn one, and another version's from our own.
 * Pure; any thread. */

/* @body with its first line. The caller frees it. */
char *vgpu_seal(const char *kind, guint version, const char *body);

/* The body in the @length bytes of @text, *@ret_length bytes long and a part of @text; NULL with an error,
 * which says what is wrong with "it", when the first line does not fit. */
const char *vgpu_unseal(const char *kind, guint version, const char *text, gsize length, gsize *ret_length,
                        GError **error);
