/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "record.h"

#include <stdbool.h>
#include <string.h>

GVariant *
record_parse(const char *text)
{
    g_autoptr(GError) error = NULL;
    GVariant *value = g_variant_parse(NULL, text, NULL, NULL, &error);
    g_assert_no_error(error);
    return value;
}

const char *
record_text(GVariantDict *dict, const char *key)
{
    const char *text = NULL;
    return g_variant_dict_lookup(dict, key, "&s", &text) ? text : NULL;
}

GVariantDict *
record_find(GPtrArray *records, const char *id)
{
    for (unsigned i = 0; i < records->len; i++)
        if (!g_strcmp0(record_text(records->pdata[i], "Id"), id))
            return records->pdata[i];
    return NULL;
}

GVariant *
record_content(GVariantDict *dict)
{
    g_autoptr(GVariant) whole = g_variant_ref_sink(g_variant_dict_end(dict));
    g_variant_dict_init(dict, whole);
    return g_steal_pointer(&whole);
}

GVariant *
record_all(GPtrArray *records)
{
    GVariantBuilder builder;
    g_variant_builder_init(&builder, G_VARIANT_TYPE("aa{sv}"));
    for (unsigned i = 0; i < records->len; i++) {
        g_autoptr(GVariant) whole = record_content(records->pdata[i]);
        g_variant_builder_add_value(&builder, whole);
    }
    return g_variant_builder_end(&builder);
}

void
record_insert(GVariantDict *dict, const char *text)
{
    g_autoptr(GVariant) keys = record_parse(text);
    GVariantIter iter;
    const char *key;
    GVariant *value;

    g_variant_iter_init(&iter, keys);
    while (g_variant_iter_loop(&iter, "{&sv}", &key, &value))
        g_variant_dict_insert_value(dict, key, value);
}

void
record_describe(GVariantDict *dict, const char *profile, unsigned number)
{
    bool mdev = strstr(profile, "T4") != NULL;
    g_autofree char *device = g_strdup_printf("0000:3b:00.%u", number);
    g_autofree char *uuid = g_strdup_printf("00000000-0000-4000-8000-%012u", number);
    g_autofree char *path =
        g_strconcat("/sys/bus/", mdev ? "mdev" : "pci", "/devices/", mdev ? uuid : device, NULL);
    g_autofree char *node = g_strdup_printf("/dev/vfio/%u", 100 + number);

    g_variant_dict_insert(dict, "Profile", "s", profile);
    g_variant_dict_insert(dict, "Framework", "s", mdev ? "mdev" : "vendor-vfio");
    g_variant_dict_insert(dict, "Device", "s", mdev ? "0000:af:00.0" : device);
    g_variant_dict_insert(dict, "DevicePath", "s", path);
    g_variant_dict_insert(dict, "GroupNode", "s", node);
    if (mdev)
        g_variant_dict_insert(dict, "UUID", "s", uuid);
}
