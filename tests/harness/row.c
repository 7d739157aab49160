/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What came over the bus: rows and errors. */
#include "host.h"

#include <string.h>

#define OWN_ERRORS "org.hypeman.VGPU1.Error."

GVariant *
row_find(GVariant *rows, const char *key, const char *value)
{
    for (gsize i = 0; i < g_variant_n_children(rows); i++) {
        g_autoptr(GVariant) row = g_variant_get_child_value(rows, i);

        if (strcmp(row_string(row, key), value) == 0)
            return g_steal_pointer(&row);
    }
    return NULL;
}

const char *
row_string(GVariant *row, const char *key)
{
    const char *value = "";

    g_variant_lookup(row, key, "&s", &value);
    return value;
}

gint64
row_number(GVariant *row, const char *key)
{
    g_autoptr(GVariant) value = g_variant_lookup_value(row, key, NULL);

    if (!value)
        return -1;
    switch (g_variant_classify(value)) {
    case G_VARIANT_CLASS_UINT32:
        return g_variant_get_uint32(value);
    case G_VARIANT_CLASS_INT32:
        return g_variant_get_int32(value);
    default:
        return (gint64)g_variant_get_uint64(value);
    }
}

char *
error_name(const GError *error)
{
    g_autofree char *name = NULL;

    if (!error)
        return g_strdup("none");
    name = g_dbus_error_get_remote_error(error);
    if (!name)
        return g_strdup(error->message);
    if (g_str_has_prefix(name, OWN_ERRORS))
        return g_strdup(name + strlen(OWN_ERRORS));
    if (g_str_has_prefix(name, "org.freedesktop.DBus.Error."))
        return g_strdup(name + strlen("org.freedesktop.DBus.Error."));
    return g_steal_pointer(&name);
}
