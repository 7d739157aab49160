/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Vendor-specific VFIO: a vGPU is a type set on an SR-IOV virtual function (NVIDIA vGPU 17 and newer on Linux
 * 6.8 and newer). File formats and answers as in NVIDIA's driver R525, seen the same on L40S and H200. */
#include "catalogue.h"
#include "framework.h"
#include "profile.h"

#define CURRENT "nvidia/current_vgpu_type"

static gboolean
vendor_probe(const VgpuDir *slot)
{
    /* A physical function never is a slot, whatever files it has. */
    return vgpu_dir_has(slot, "physfn") && vgpu_dir_has(slot, CURRENT);
}

/* @word is what the attribute reads: a decimal id, 0 for none. */
static char *
type_id_from(char *word)
{
    if (word && g_strcmp0(word, "0") == 0)
        g_clear_pointer(&word, g_free);
    return word;
}

static gboolean
list_types(const VgpuDir *dir, VgpuSlot *slot, GError **error)
{
    g_autoptr(GPtrArray) rows = NULL;
    guint bad_rows = 0;
    gsize length;
    g_autofree char *text = vgpu_dir_read(dir, "nvidia/creatable_vgpu_types", &length, error);

    if (!text)
        return FALSE;
    rows = vgpu_catalogue_parse(text, length, &bad_rows);
    if (bad_rows > 0)
        g_debug("%s: %u rows of creatable_vgpu_types could not be read", slot->address, bad_rows);
    for (guint i = 0; i < rows->len; i++) {
        VgpuCatalogueRow *row = g_ptr_array_index(rows, i);
        g_autofree char *id = g_strdup_printf("%u", row->id);
        VgpuType *type = vgpu_type_new(id, row->name);

        type->framebuffer_mib = vgpu_profile_size_mib(row->name);
        type->available = 1;
        g_ptr_array_add(slot->types, type);
    }
    return TRUE;
}

static gboolean
vendor_list(const VgpuDir *dir, VgpuSlot *slot, GHashTable *busy, GError **error)
{
    g_autofree char *word = vgpu_dir_read_word(dir, CURRENT, error);
    g_autoptr(VgpuDir) attributes = NULL;
    VgpuDevice *device;

    if (!word)
        return FALSE;
    word = type_id_from(g_steal_pointer(&word));
    if (!word) /* a slot that has a type lists the header only */
        return list_types(dir, slot, error);
    attributes = vgpu_dir_open_at(dir, "nvidia", error);
    if (!attributes)
        return FALSE;
    device = vgpu_device_new(slot->address, NULL);
    device->type_id = g_steal_pointer(&word);
    vgpu_device_read_nodes(device, dir, attributes);
    g_ptr_array_add(slot->devices, device);
    return TRUE;
}

static gboolean
vendor_open(VgpuTarget *target, GError **error)
{
    target->device = vgpu_dir_open_at(target->slot, "nvidia", error);
    return target->device != NULL;
}

static char *
vendor_read(const VgpuTarget *target, GError **error)
{
    return type_id_from(vgpu_dir_read_word(target->device, "current_vgpu_type", error));
}

static gboolean
vendor_set(VgpuTarget *target, const char *type_id, GError **error)
{
    return vgpu_dir_write(target->device, "current_vgpu_type", type_id, error);
}

static gboolean
vendor_clear(VgpuTarget *target, VgpuJob *job, int keep_fd, GError **error)
{
    return vgpu_dir_write(target->device, "current_vgpu_type", "0", error);
}

static char *
vendor_device_path(const char *slot, const char *uuid)
{
    return g_build_filename("/sys/bus/pci/devices", slot, NULL);
}

const VgpuFramework vgpu_vendor_vfio = {
    .name = "vendor-vfio",
    .attributes = "nvidia",
    .type_prefix = "",
    .probe = vendor_probe,
    .list = vendor_list,
    .open = vendor_open,
    .read = vendor_read,
    .set = vendor_set,
    .clear = vendor_clear,
    .device_path = vendor_device_path,
    .group_before_set = TRUE,
    .clear_once = TRUE,
};
