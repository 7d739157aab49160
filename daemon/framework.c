/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "framework.h"

#include "number.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const VgpuFramework *const frameworks[] = {&vgpu_vendor_vfio, &vgpu_mdev};

/* What changed and what may be repeated, for both drivers. Sources: NVIDIA's vendor VFIO driver R525, and
 * drivers/vfio/mdev of Linux. A set that was refused has changed nothing and is never undone: what stands
 * there then is somebody else's. A clear may be repeated only after EBUSY and EPERM; after any other errno
 * the driver may have freed its book-keeping, and a second write would free it again. */
static const struct {
    int err;
    VgpuAnswer set;
    VgpuAnswer clear;
} answers[] = {
    /* errno    set                     clear */
    {EPERM, VGPU_ANSWER_NEXT_SLOT, VGPU_ANSWER_IN_USE},  /* has a type already / is open */
    {EACCES, VGPU_ANSWER_NEXT_SLOT, VGPU_ANSWER_FAILED}, /* a sandbox or a read-only /sys */
    {EROFS, VGPU_ANSWER_NEXT_SLOT, VGPU_ANSWER_FAILED},  /* */
    {EBUSY, VGPU_ANSWER_NEXT_SLOT, VGPU_ANSWER_RETRY},   /* its plugin still exits */
    {EAGAIN, VGPU_ANSWER_NEXT_SLOT, VGPU_ANSWER_GONE},   /* mdev: being removed by somebody else */
    {EEXIST, VGPU_ANSWER_NEXT_SLOT, VGPU_ANSWER_FAILED}, /* mdev: the UUID exists on some parent */
    {ENODEV, VGPU_ANSWER_NEXT_SLOT, VGPU_ANSWER_GONE},   /* the slot is going */
    {ENOENT, VGPU_ANSWER_NEXT_SLOT, VGPU_ANSWER_GONE},   /* the slot has gone */
    {EIO, VGPU_ANSWER_NEXT_CARD, VGPU_ANSWER_FAILED},    /* full, other size, unknown / perhaps half done */
    {ENOSPC, VGPU_ANSWER_NEXT_CARD, VGPU_ANSWER_FAILED}, /* mdev: full */
    {EINVAL, VGPU_ANSWER_NEXT_CARD, VGPU_ANSWER_FAILED}, /* not a number, not a UUID */
};

VgpuAnswer
vgpu_answer_to_set(int err)
{
    for (gsize i = 0; i < G_N_ELEMENTS(answers); i++) {
        if (answers[i].err == err)
            return answers[i].set;
    }
    return VGPU_ANSWER_NEXT_CARD;
}

VgpuAnswer
vgpu_answer_to_clear(int err, const char *still)
{
    for (gsize i = 0; i < G_N_ELEMENTS(answers); i++) {
        if (answers[i].err != err)
            continue;
        /* EPERM is also what a slot without a type answers; and what is clear needs no second write. */
        if ((err == EPERM || err == EBUSY) && !still)
            return VGPU_ANSWER_DONE;
        return answers[i].clear;
    }
    return VGPU_ANSWER_FAILED;
}

const VgpuFramework *
vgpu_framework_by_name(const char *name)
{
    for (gsize i = 0; i < G_N_ELEMENTS(frameworks); i++) {
        if (g_strcmp0(frameworks[i]->name, name) == 0)
            return frameworks[i];
    }
    return NULL;
}

char *
vgpu_framework_type_id(const VgpuFramework *framework, guint32 number)
{
    return g_strdup_printf("%s%u", framework->type_prefix, number);
}

const VgpuFramework *
vgpu_framework_probe(const VgpuDir *slot)
{
    for (gsize i = 0; i < G_N_ELEMENTS(frameworks); i++) {
        if (frameworks[i]->probe(slot))
            return frameworks[i];
    }
    return NULL;
}

guint64
vgpu_framework_attributes_inode(const VgpuFramework *framework, const VgpuDir *slot)
{
    g_autoptr(VgpuDir) attributes = vgpu_dir_open_at(slot, framework->attributes, NULL);

    return attributes ? attributes->inode : 0;
}

VgpuType *
vgpu_type_new(const char *id, const char *name)
{
    VgpuType *type = g_new0(VgpuType, 1);

    type->id = g_strdup(id);
    type->name = g_strdup(name);
    return type;
}

void
vgpu_type_free(VgpuType *type)
{
    g_free(type->id);
    g_free(type->name);
    g_free(type);
}

VgpuType *
vgpu_type_find(const GPtrArray *types, const char *id)
{
    for (guint i = 0; id && i < types->len; i++) {
        VgpuType *type = g_ptr_array_index(types, i);
        if (strcmp(type->id, id) == 0)
            return type;
    }
    return NULL;
}

VgpuDevice *
vgpu_device_new(const char *slot, const char *uuid)
{
    VgpuDevice *device = g_new0(VgpuDevice, 1);

    device->slot = g_strdup(slot);
    device->uuid = g_strdup(uuid);
    device->iommu_group = -1;
    return device;
}

VgpuDevice *
vgpu_device_copy(const VgpuDevice *device)
{
    VgpuDevice *copy = g_memdup2(device, sizeof(*device));

    copy->slot = g_strdup(device->slot);
    copy->uuid = g_strdup(device->uuid);
    copy->type_id = g_strdup(device->type_id);
    copy->name = g_strdup(device->name);
    copy->group_node = g_strdup(device->group_node);
    copy->device_node = g_strdup(device->device_node);
    return copy;
}

void
vgpu_device_free(VgpuDevice *device)
{
    g_free(device->slot);
    g_free(device->uuid);
    g_free(device->type_id);
    g_free(device->name);
    g_free(device->group_node);
    g_free(device->device_node);
    g_free(device);
}

VgpuSlot *
vgpu_slot_new(const VgpuFramework *framework, const char *address)
{
    VgpuSlot *slot = g_new0(VgpuSlot, 1);

    slot->framework = framework;
    slot->address = g_strdup(address);
    slot->types = g_ptr_array_new_with_free_func((GDestroyNotify)vgpu_type_free);
    slot->devices = g_ptr_array_new_with_free_func((GDestroyNotify)vgpu_device_free);
    slot->iommu_group = -1;
    return slot;
}

void
vgpu_slot_free(VgpuSlot *slot)
{
    g_free(slot->address);
    g_ptr_array_unref(slot->types);
    g_ptr_array_unref(slot->devices);
    g_strfreev(slot->group_others);
    g_free(slot->error);
    g_free(slot);
}

int
vgpu_iommu_group(const VgpuDir *dir)
{
    g_autofree char *name = vgpu_dir_link(dir, "iommu_group", NULL);
    guint64 number;

    if (!vgpu_number_parse(name, G_MAXINT, &number))
        return -1;
    return (int)number;
}

void
vgpu_device_read_nodes(VgpuDevice *device, const VgpuDir *vfio, const VgpuDir *attributes)
{
    g_auto(GStrv) cdevs = vgpu_dir_list(vfio, "vfio-dev", NULL);
    struct stat st;

    device->inode = attributes->inode;
    device->iommu_group = vgpu_iommu_group(vfio);
    g_clear_pointer(&device->group_node, g_free);
    g_clear_pointer(&device->device_node, g_free);
    device->node_inode = 0;
    if (device->iommu_group >= 0) {
        g_autofree char *node = g_strdup_printf("/dev/vfio/%d", device->iommu_group);
        if (stat(node, &st) == 0) {
            device->node_inode = st.st_ino;
            device->group_node = g_steal_pointer(&node);
        }
    }
    if (cdevs && cdevs[0]) {
        g_autofree char *node = g_build_filename("/dev/vfio/devices", cdevs[0], NULL);
        if (stat(node, &st) == 0)
            device->device_node = g_steal_pointer(&node);
    }
}

VgpuDir *
vgpu_slot_open(const char *address, GError **error)
{
    g_autofree char *pci = g_build_filename("/sys/bus/pci/devices", address, NULL);
    g_autofree char *parent = g_build_filename("/sys/class/mdev_bus", address, NULL);
    VgpuDir *dir = vgpu_dir_open(pci, NULL);

    /* A parent of mdevs need not be a PCI device. */
    return dir ? dir : vgpu_dir_open(parent, error);
}

VgpuTarget *
vgpu_target_open(const VgpuFramework *framework, const char *address, const char *uuid, GError **error)
{
    g_autoptr(VgpuTarget) target = g_new0(VgpuTarget, 1);

    target->framework = framework;
    target->uuid = g_strdup(uuid);
    target->slot = vgpu_slot_open(address, error);
    if (!target->slot || !framework->open(target, error))
        return NULL;
    return g_steal_pointer(&target);
}

void
vgpu_target_free(VgpuTarget *target)
{
    g_clear_pointer(&target->slot, vgpu_dir_free);
    g_clear_pointer(&target->device, vgpu_dir_free);
    g_free(target->uuid);
    g_free(target);
}
