/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What is remembered, as the text of a file and back. */
#include "memory-internal.h"
#include "number.h"
#include "pci-address.h"
#include "seal.h"

#include <gio/gio.h>
#include <string.h>

#define KIND "memory"
#define VERSION 1
#define HEADER "host"
#define CARD "card "
#define TYPE_FIELDS 4

/* One type as a list of its fields. */
static void
put_type(GKeyFile *file, const char *group, const char *key, const char *id, const char *name, guint64 mib,
         guint max_instances)
{
    g_autofree char *size = g_strdup_printf("%" G_GUINT64_FORMAT, mib);
    g_autofree char *most = g_strdup_printf("%u", max_instances);
    const char *const fields[TYPE_FIELDS] = {id, name, size, most};

    g_key_file_set_string_list(file, group, key, fields, TYPE_FIELDS);
}

static void
put_nvml(GKeyFile *file, const char *group, const VgpuNvmlCard *card)
{
    g_key_file_set_string(file, group, "nvml-name", card->name ? card->name : "");
    for (guint i = 0; i < card->types->len; i++) {
        const VgpuNvmlType *type = g_ptr_array_index(card->types, i);
        g_autofree char *key = g_strdup_printf("nvml-type-%u", i);
        g_autofree char *id = g_strdup_printf("%u", type->id);

        put_type(file, group, key, id, type->name ? type->name : "", type->framebuffer_mib,
                 type->max_instances);
    }
}

static void
put_card(GKeyFile *file, const char *address, const Seen *seen)
{
    g_autofree char *group = g_strconcat(CARD, address, NULL);
    g_autoptr(GStrvBuilder) builder = g_strv_builder_new();
    g_auto(GStrv) devices = NULL;

    for (guint i = 0; i < seen->devices->len; i++) {
        g_autofree char *inode =
            g_strdup_printf("%" G_GUINT64_FORMAT, g_array_index(seen->devices, guint64, i));
        g_strv_builder_add(builder, inode);
    }
    devices = g_strv_builder_end(builder);
    g_key_file_set_string_list(file, group, "devices", (const char *const *)devices, g_strv_length(devices));
    g_key_file_set_boolean(file, group, "whole", seen->whole);
    if (seen->largest)
        g_key_file_set_string(file, group, "largest", seen->largest);
    for (guint i = 0; i < seen->types->len; i++) {
        const VgpuType *type = g_ptr_array_index(seen->types, i);
        g_autofree char *key = g_strdup_printf("type-%u", i);

        put_type(file, group, key, type->id, type->name, type->framebuffer_mib, type->max_instances);
    }
    if (seen->nvml)
        put_nvml(file, group, seen->nvml);
}

char *
vgpu_memory_format(const VgpuMemory *memory, const char *boot_id)
{
    g_autoptr(GKeyFile) file = g_key_file_new();
    g_autofree char *body = NULL;
    GHashTableIter iter;
    gpointer address, seen;
    VgpuPciAddress pci;

    g_key_file_set_string(file, HEADER, "boot-id", boot_id);
    g_hash_table_iter_init(&iter, memory->cards);
    while (g_hash_table_iter_next(&iter, &address, &seen)) {
        /* Another parent of mdevs always shows its types, and may have any name. */
        if (vgpu_pci_address_parse(address, &pci))
            put_card(file, address, seen);
    }
    body = g_key_file_to_data(file, NULL, NULL);
    return vgpu_seal(KIND, VERSION, body);
}

/* ---- And back ---- */

/* The fields of the type at @key; NULL when there is none, and with an error when it makes no sense. */
static char **
get_type(GKeyFile *file, const char *group, const char *key, guint64 *ret_mib, guint *ret_max_instances,
         GError **error)
{
    gsize length = 0;
    g_auto(GStrv) fields = g_key_file_get_string_list(file, group, key, &length, NULL);
    guint64 most;

    if (!g_key_file_has_key(file, group, key, NULL))
        return NULL;
    if (!fields || length != TYPE_FIELDS || !*fields[0] ||
        !vgpu_number_parse(fields[2], G_MAXUINT64, ret_mib) ||
        !vgpu_number_parse(fields[3], G_MAXUINT, &most)) {
        g_set_error(error, G_IO_ERROR, G_IO_ERROR_INVALID_DATA, "the type %s of %s makes no sense", key,
                    group);
        return NULL;
    }
    *ret_max_instances = (guint)most;
    return g_steal_pointer(&fields);
}

static gboolean
get_types(GKeyFile *file, const char *group, Seen *seen, GError **error)
{
    g_autoptr(GError) broken = NULL;

    for (guint i = 0; !broken; i++) {
        g_autofree char *key = g_strdup_printf("type-%u", i);
        guint64 mib;
        guint most;
        g_auto(GStrv) fields = get_type(file, group, key, &mib, &most, &broken);
        VgpuType *type;

        if (!fields)
            break;
        type = vgpu_type_new(fields[0], fields[1]);
        type->framebuffer_mib = mib;
        type->max_instances = most;
        g_ptr_array_add(seen->types, type);
    }
    if (!broken)
        return TRUE;
    g_propagate_error(error, g_steal_pointer(&broken));
    return FALSE;
}

static gboolean
get_nvml(GKeyFile *file, const char *group, Seen *seen, GError **error)
{
    g_autofree char *name = g_key_file_get_string(file, group, "nvml-name", NULL);
    g_autoptr(GError) broken = NULL;

    if (!name)
        return TRUE;
    seen->nvml = vgpu_nvml_card_new(group + strlen(CARD), *name ? name : NULL);
    for (guint i = 0; i < VGPU_NVML_TYPES_MAX; i++) {
        g_autofree char *key = g_strdup_printf("nvml-type-%u", i);
        guint64 id, mib;
        guint most;
        g_auto(GStrv) fields = get_type(file, group, key, &mib, &most, &broken);

        if (!fields)
            break;
        if (!vgpu_number_parse(fields[0], G_MAXUINT32, &id)) {
            g_set_error(&broken, G_IO_ERROR, G_IO_ERROR_INVALID_DATA, "the type %s of %s makes no sense", key,
                        group);
            break;
        }
        vgpu_nvml_card_add_type(seen->nvml, (guint32)id, *fields[1] ? fields[1] : NULL, mib, most);
    }
    if (!broken)
        return TRUE;
    g_propagate_error(error, g_steal_pointer(&broken));
    return FALSE;
}

static Seen *
get_card(GKeyFile *file, const char *group, GError **error)
{
    g_autoptr(Seen) seen = memory_seen_new();
    gsize length = 0;
    g_auto(GStrv) devices = g_key_file_get_string_list(file, group, "devices", &length, error);

    if (!devices)
        return NULL;
    for (gsize i = 0; i < length; i++) {
        guint64 inode;

        if (!vgpu_number_parse(devices[i], G_MAXUINT64, &inode)) {
            g_set_error(error, G_IO_ERROR, G_IO_ERROR_INVALID_DATA, "the devices of %s make no sense", group);
            return NULL;
        }
        g_array_append_val(seen->devices, inode);
    }
    seen->whole = g_key_file_get_boolean(file, group, "whole", NULL);
    seen->largest = g_key_file_get_string(file, group, "largest", NULL);
    if (!get_types(file, group, seen, error) || !get_nvml(file, group, seen, error))
        return NULL;
    return g_steal_pointer(&seen);
}

gboolean
vgpu_memory_parse(VgpuMemory *memory, const char *text, gsize length, const char *boot_id, GError **error)
{
    g_autoptr(GKeyFile) file = g_key_file_new();
    g_autoptr(GHashTable) cards =
        g_hash_table_new_full(g_str_hash, g_str_equal, g_free, (GDestroyNotify)memory_seen_free);
    g_auto(GStrv) groups = NULL;
    g_autofree char *boot = NULL;
    gsize body_length;
    const char *body = vgpu_unseal(KIND, VERSION, text, length, &body_length, error);

    if (!body || !g_key_file_load_from_data(file, body, body_length, G_KEY_FILE_NONE, error))
        return FALSE;
    boot = g_key_file_get_string(file, HEADER, "boot-id", NULL);
    if (g_strcmp0(boot, boot_id) != 0)
        return TRUE;
    groups = g_key_file_get_groups(file, NULL);
    for (char **group = groups; *group; group++) {
        Seen *seen;

        if (!g_str_has_prefix(*group, CARD))
            continue;
        seen = get_card(file, *group, error);
        if (!seen)
            return FALSE;
        g_hash_table_insert(cards, g_strdup(*group + strlen(CARD)), seen);
    }
    g_hash_table_unref(memory->cards);
    memory->cards = g_steal_pointer(&cards);
    return TRUE;
}
