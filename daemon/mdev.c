/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Mediated devices: a vGPU is made by writing a UUID to a type of its parent, a virtual function on Ampere
 * and newer, else the card itself (T4, V100, Intel GVT-g). As
 * Documentation/driver-api/vfio-mediated-device.rst and drivers/vfio/mdev of Linux say. */
#include "mdev.h"

#include "error.h"
#include "framework.h"
#include "number.h"
#include "profile.h"

#include <errno.h>
#include <string.h>

#define TYPES "mdev_supported_types"

/* A remove that takes longer gives other writes on the card their turn: it may last for ever. */
#define REMOVE_TURN_MS 2000

static gboolean
mdev_probe(const VgpuDir *slot)
{
    g_auto(GStrv) types = NULL;

    if (!vgpu_dir_has(slot, TYPES))
        return FALSE;
    types = vgpu_dir_list(slot, TYPES, NULL);
    return types && types[0];
}

static guint
read_count(const VgpuDir *dir, const char *name)
{
    g_autofree char *word = vgpu_dir_read_word(dir, name, NULL);
    guint64 count = 0;

    vgpu_number_parse(word, G_MAXUINT, &count);
    return (guint)count;
}

static VgpuType *
type_read(const VgpuDir *types, const char *id, GError **error)
{
    g_autoptr(VgpuDir) dir = vgpu_dir_open_at(types, id, error);
    g_autofree char *name = NULL;
    g_autofree char *description = NULL;
    VgpuType *type;

    if (!dir)
        return NULL;
    /* GVT-g has no name before Linux 6.1: the id then is all there is, and it reads as one. */
    name = vgpu_dir_read_word(dir, "name", NULL);
    description = vgpu_dir_read_word(dir, "description", NULL);
    if (name) {
        char *printable = vgpu_text_printable(name);
        g_free(name);
        name = printable;
    }
    type = vgpu_type_new(id, name && *name ? name : id);
    type->available = read_count(dir, "available_instances");
    if (description) {
        type->framebuffer_mib = vgpu_description_framebuffer_mib(description);
        type->max_instances = vgpu_description_max_instance(description);
    }
    if (type->framebuffer_mib == 0)
        type->framebuffer_mib = vgpu_profile_size_mib(type->name);
    return type;
}

/* FALSE when it is there and cannot be read. */
static gboolean
add_device(const VgpuDir *dir, VgpuSlot *slot, const char *uuid, GHashTable *busy, GError **error)
{
    g_autoptr(GError) missing = NULL;
    g_autoptr(VgpuDir) attributes = NULL;
    g_autoptr(VgpuDevice) device = vgpu_device_new(slot->address, uuid);
    const VgpuType *type;

    if (!busy || !g_hash_table_contains(busy, uuid)) {
        attributes = vgpu_dir_open_at(dir, uuid, &missing);
        if (attributes)
            device->type_id = vgpu_dir_link(attributes, "mdev_type", &missing);
        if (g_error_matches(missing, VGPU_SYSFS_ERROR, ENOENT))
            return TRUE; /* removed since the folder was read */
        if (missing) {
            g_propagate_error(error, g_steal_pointer(&missing));
            return FALSE;
        }
        vgpu_device_read_nodes(device, attributes, attributes);
        type = vgpu_type_find(slot->types, device->type_id);
        if (type) {
            device->name = g_strdup(type->name);
            device->framebuffer_mib = type->framebuffer_mib;
        }
    }
    g_ptr_array_add(slot->devices, g_steal_pointer(&device));
    return TRUE;
}

static gboolean
mdev_list(const VgpuDir *dir, VgpuSlot *slot, GHashTable *busy, GError **error)
{
    g_autoptr(VgpuDir) types = vgpu_dir_open_at(dir, TYPES, error);
    g_auto(GStrv) ids = types ? vgpu_dir_list(types, ".", error) : NULL;
    g_auto(GStrv) names = NULL;
    guint read = 0;

    if (!ids)
        return FALSE;
    slot->multiple = !vgpu_dir_has(dir, "physfn");
    for (char **id = ids; *id; id++) {
        g_autoptr(GError) broken = NULL;
        VgpuType *type = type_read(types, *id, &broken);

        if (type) {
            g_ptr_array_add(slot->types, type);
            read++;
        } else if (!ids[1]) {
            g_propagate_error(error, g_steal_pointer(&broken));
            return FALSE;
        } else {
            g_warning("%s: type %s is passed over: %s", slot->address, *id, broken->message);
        }
    }
    names = vgpu_dir_list(dir, ".", error);
    if (!names)
        return FALSE;
    for (char **name = names; *name; name++) {
        if (g_uuid_string_is_valid(*name) && !add_device(dir, slot, *name, busy, error))
            return FALSE;
    }
    return TRUE;
}

static gboolean
mdev_open(VgpuTarget *target, GError **error)
{
    g_autoptr(GError) missing = NULL;

    g_clear_pointer(&target->device, vgpu_dir_free);
    target->device = vgpu_dir_open_at(target->slot, target->uuid, &missing);
    if (target->device || g_error_matches(missing, VGPU_SYSFS_ERROR, ENOENT))
        return TRUE;
    g_propagate_error(error, g_steal_pointer(&missing));
    return FALSE;
}

static char *
mdev_read(const VgpuTarget *target, GError **error)
{
    g_autoptr(GError) missing = NULL;
    char *type_id;

    if (!vgpu_dir_has(target->slot, target->uuid))
        return NULL;
    if (!target->device) {
        vgpu_dir_set_error(error, target->slot, target->uuid, EIO);
        return NULL;
    }
    type_id = vgpu_dir_link(target->device, "mdev_type", &missing);
    if (!type_id && !g_error_matches(missing, VGPU_SYSFS_ERROR, ENOENT))
        g_propagate_error(error, g_steal_pointer(&missing));
    return type_id;
}

static gboolean
mdev_set(VgpuTarget *target, const char *type_id, GError **error)
{
    g_autofree char *create = g_build_filename(TYPES, type_id, "create", NULL);

    if (!vgpu_dir_write(target->slot, create, target->uuid, error))
        return FALSE;
    mdev_open(target, NULL); /* it exists, whatever comes of this: what is read back decides */
    return TRUE;
}

static gboolean
mdev_clear(VgpuTarget *target, VgpuJob *job, int keep_fd, GError **error)
{
    int fd = vgpu_dir_open_for_write(target->device, "remove", error);
    int err;

    if (fd < 0)
        return FALSE;
    err = vgpu_job_write_in_child(job, fd, keep_fd, "1", REMOVE_TURN_MS);
    close(fd);
    if (err)
        vgpu_dir_set_error(error, target->device, "remove", err);
    return err == 0;
}

static char *
mdev_device_path(const char *slot, const char *uuid)
{
    return g_build_filename("/sys/bus/mdev/devices", uuid, NULL);
}

const VgpuFramework vgpu_mdev = {
    .name = "mdev",
    .attributes = TYPES,
    .type_prefix = "nvidia-",
    .probe = mdev_probe,
    .list = mdev_list,
    .open = mdev_open,
    .read = mdev_read,
    .set = mdev_set,
    .clear = mdev_clear,
    .device_path = mdev_device_path,
};

gboolean
vgpu_mdev_uuid_is_taken(const char *uuid)
{
    g_autoptr(VgpuDir) definitions = vgpu_dir_open("/etc/mdevctl.d", NULL);
    g_auto(GStrv) parents = definitions ? vgpu_dir_list(definitions, ".", NULL) : NULL;

    for (char **parent = parents; parent && *parent; parent++) {
        g_auto(GStrv) uuids = vgpu_dir_list(definitions, *parent, NULL);

        for (char **name = uuids; name && *name; name++) {
            if (g_ascii_strcasecmp(*name, uuid) == 0)
                return TRUE;
        }
    }
    return FALSE;
}
