/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib.h>

/* What dictionaries (a{sv}) of the bus hold, as text for people. All texts are printable and the caller's
 * to free; NULL means absent. */

/* Any value: numbers in digits, arrays of strings joined by commas, other arrays as their length. */
char *vgpu_value_text(GVariant *value);

/* The value of @key in @row. */
char *vgpu_value_of(GVariant *row, const char *key);

/* The size in MiB at @key: "512M", or "48G" where that is exact. */
char *vgpu_value_size(GVariant *row, const char *key);

/* The time in microseconds at @key, in local time. */
char *vgpu_value_time(GVariant *row, const char *key);

/* The string at @key as it was sent: not printable, owned by @row. */
const char *vgpu_value_string(GVariant *row, const char *key);
