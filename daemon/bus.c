/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "bus.h"

#include <errno.h>
#include <string.h>

static int
append_children(sd_bus_message *message, GVariant *value, char type, const char *contents)
{
    GVariantIter iter;
    GVariant *child;
    int r = sd_bus_message_open_container(message, type, contents);

    g_variant_iter_init(&iter, value);
    while (r >= 0 && (child = g_variant_iter_next_value(&iter))) {
        r = vgpu_bus_append(message, child);
        g_variant_unref(child);
    }
    return r < 0 ? r : sd_bus_message_close_container(message);
}

static int
append_basic(sd_bus_message *message, GVariant *value)
{
    switch (g_variant_classify(value)) {
    case G_VARIANT_CLASS_STRING:
        return sd_bus_message_append(message, "s", g_variant_get_string(value, NULL));
    case G_VARIANT_CLASS_BOOLEAN:
        return sd_bus_message_append(message, "b", g_variant_get_boolean(value));
    case G_VARIANT_CLASS_INT32:
        return sd_bus_message_append(message, "i", g_variant_get_int32(value));
    case G_VARIANT_CLASS_UINT32:
        return sd_bus_message_append(message, "u", g_variant_get_uint32(value));
    case G_VARIANT_CLASS_UINT64:
        return sd_bus_message_append(message, "t", g_variant_get_uint64(value));
    default:
        return -EINVAL;
    }
}

int
vgpu_bus_append(sd_bus_message *message, GVariant *value)
{
    const char *type = g_variant_get_type_string(value);
    g_autofree char *inside = NULL;

    switch (*type) {
    case 'a':
        return append_children(message, value, 'a', type + 1);
    case '{':
        inside = g_strndup(type + 1, strlen(type) - 2);
        return append_children(message, value, 'e', inside);
    case 'v': {
        g_autoptr(GVariant) child = g_variant_get_variant(value);
        return append_children(message, value, 'v', g_variant_get_type_string(child));
    }
    default:
        return append_basic(message, value);
    }
}
