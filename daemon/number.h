/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib.h>

/* Reads @text, which must be decimal digits and nothing else, of a value up to @most. FALSE leaves
 * @ret_number as it was. Not g_ascii_string_to_unsigned(): until GLib has made its locale, that one takes an
 * errno of another thread's making (a futex's EAGAIN) for a failure of its own, and what is then not read
 * counts as gone. Pure; any thread. */
gboolean vgpu_number_parse(const char *text, guint64 most, guint64 *ret_number);
