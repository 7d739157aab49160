/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "bus.h"
#include "failure.h"

static GVariant *read_value(sd_bus_message *message, int *ret_errno);

/* A basic value, floating; NULL for a type that no property or reply of the service has. */
static GVariant *
new_basic(char type, const void *value)
{
    switch (type) {
    case 'y':
        return g_variant_new_byte(*(const guint8 *)value);
    case 'b':
        return g_variant_new_boolean(*(const int *)value);
    case 'n':
        return g_variant_new_int16(*(const gint16 *)value);
    case 'q':
        return g_variant_new_uint16(*(const guint16 *)value);
    case 'i':
        return g_variant_new_int32(*(const gint32 *)value);
    case 'u':
        return g_variant_new_uint32(*(const guint32 *)value);
    case 'x':
        return g_variant_new_int64(*(const gint64 *)value);
    case 't':
        return g_variant_new_uint64(*(const guint64 *)value);
    case 'd':
        return g_variant_new_double(*(const double *)value);
    case 's':
        return g_variant_new_string(*(const char *const *)value);
    case 'o':
        return g_variant_new_object_path(*(const char *const *)value);
    case 'g':
        return g_variant_new_signature(*(const char *const *)value);
    default:
        return NULL;
    }
}

static GVariant *
read_basic(sd_bus_message *message, char type, int *ret_errno)
{
    union {
        guint64 number;
        double real;
        const char *text;
    } value = {0};

    int r = sd_bus_message_read_basic(message, type, &value);
    GVariant *basic = r > 0 ? new_basic(type, &value) : NULL;
    if (!basic)
        *ret_errno = r < 0 ? r : -EBADMSG;
    return basic;
}

/* The GVariant type of a container as sd_bus_message_peek_type() tells it. */
static char *
type_of_container(char type, const char *contents)
{
    switch (type) {
    case SD_BUS_TYPE_ARRAY:
        return g_strconcat("a", contents, NULL);
    case SD_BUS_TYPE_STRUCT:
        return g_strconcat("(", contents, ")", NULL);
    case SD_BUS_TYPE_DICT_ENTRY:
        return g_strconcat("{", contents, "}", NULL);
    default:
        return g_strdup("v");
    }
}

static GVariant *
read_container(sd_bus_message *message, char type, const char *contents, int *ret_errno)
{
    g_autofree char *type_string = type_of_container(type, contents);
    g_auto(GVariantBuilder) builder = G_VARIANT_BUILDER_INIT(G_VARIANT_TYPE(type_string));

    int r = sd_bus_message_enter_container(message, type, contents);
    while (r >= 0 && (r = sd_bus_message_at_end(message, false)) == 0) {
        GVariant *child = read_value(message, &r);
        if (!child)
            break;
        g_variant_builder_add_value(&builder, child);
    }
    if (r >= 0)
        r = sd_bus_message_exit_container(message);
    if (r < 0) {
        *ret_errno = r;
        return NULL;
    }
    return g_variant_builder_end(&builder);
}

/* Floating, as builders want it. */
static GVariant *
read_value(sd_bus_message *message, int *ret_errno)
{
    const char *contents = NULL;
    char type = 0;

    int r = sd_bus_message_peek_type(message, &type, &contents);
    if (r <= 0) {
        *ret_errno = r < 0 ? r : -EBADMSG;
        return NULL;
    }
    return contents ? read_container(message, type, contents, ret_errno)
                    : read_basic(message, type, ret_errno);
}

GVariant *
vgpu_bus_read(sd_bus_message *message, const char *type, GError **error)
{
    int r = 0;
    g_autoptr(GVariant) value = read_value(message, &r);

    if (!value) {
        g_set_error(error, VGPUCTL_ERROR, VGPUCTL_ERROR_FAILED,
                    "the service sent something that cannot be read: %s", g_strerror(-r));
        return NULL;
    }
    g_variant_ref_sink(value);
    if (!g_variant_is_of_type(value, G_VARIANT_TYPE(type))) {
        g_set_error(error, VGPUCTL_ERROR, VGPUCTL_ERROR_FAILED,
                    "the service sent a value of the type %s where this vgpuctl knows %s",
                    g_variant_get_type_string(value), type);
        return NULL;
    }
    /* Serialises it: texts looked up in its dictionaries then live as long as the whole. */
    g_variant_get_data(value);
    return g_steal_pointer(&value);
}
