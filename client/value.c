/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "value.h"

#include "error.h"

char *
vgpu_value_text(GVariant *value)
{
    if (g_variant_is_of_type(value, G_VARIANT_TYPE_STRING))
        return vgpu_text_printable(g_variant_get_string(value, NULL));
    if (g_variant_is_of_type(value, G_VARIANT_TYPE_STRING_ARRAY)) {
        g_autofree const char **texts = g_variant_get_strv(value, NULL);
        g_autofree char *joined = g_strjoinv(",", (char **)texts);
        return vgpu_text_printable(joined);
    }
    if (g_variant_is_of_type(value, G_VARIANT_TYPE_ARRAY))
        return g_strdup_printf("%" G_GSIZE_FORMAT, g_variant_n_children(value));
    g_autofree char *text = g_variant_print(value, FALSE);
    return vgpu_text_printable(text);
}

char *
vgpu_value_of(GVariant *row, const char *key)
{
    g_autoptr(GVariant) value = g_variant_lookup_value(row, key, NULL);
    return value ? vgpu_value_text(value) : NULL;
}

char *
vgpu_value_size(GVariant *row, const char *key)
{
    guint64 size;
    if (!g_variant_lookup(row, key, "t", &size))
        return NULL;
    if (size >= 1024 && size % 1024 == 0)
        return g_strdup_printf("%" G_GUINT64_FORMAT "G", size / 1024);
    return g_strdup_printf("%" G_GUINT64_FORMAT "M", size);
}

char *
vgpu_value_time(GVariant *row, const char *key)
{
    guint64 time;
    if (!g_variant_lookup(row, key, "t", &time) || time > G_MAXINT64)
        return NULL;
    g_autoptr(GDateTime) date = g_date_time_new_from_unix_local((gint64)(time / G_USEC_PER_SEC));
    return date ? g_date_time_format(date, "%Y-%m-%d %H:%M:%S") : NULL;
}

const char *
vgpu_value_string(GVariant *row, const char *key)
{
    const char *text = NULL;
    /* "&s" points into the serialised value, which @row keeps. */
    return g_variant_lookup(row, key, "&s", &text) ? text : NULL;
}
