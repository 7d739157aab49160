/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "bed-private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The mdev framework: parents with types, mdevs that are created and removed. */

#define UUID_LENGTH 36

/* ---- What fits ---- */

/* All parents of a card together. */
static void
count_mdevs(Bed *bed, Device *card, uint64_t mib, unsigned *ret_all, unsigned *ret_same)
{
    GHashTableIter iter;
    gpointer data;

    *ret_all = *ret_same = 0;
    g_hash_table_iter_init(&iter, bed->devices);
    while (g_hash_table_iter_next(&iter, NULL, &data)) {
        Device *mdev = data;

        if (mdev->kind != DEVICE_MDEV || mdev->card != card)
            continue;
        ++*ret_all;
        *ret_same += mdev->mdev_type->framebuffer_mib == mib;
    }
}

/* GVT-g shares out two kinds of memory; the type that fits most often tells how much there is. */
static unsigned
gvtg_available(Device *parent, Type *type)
{
    unsigned low = 0, high = 0;

    for (guint i = 0; i < parent->card->types->len; i++) {
        Type *one = parent->card->types->pdata[i];

        low = MAX(low, one->low_gm * one->max);
        high = MAX(high, one->high_gm * one->max);
    }
    for (guint i = 0; i < parent->mdevs->len; i++) {
        Type *one = ((Device *)parent->mdevs->pdata[i])->mdev_type;

        low -= MIN(low, one->low_gm);
        high -= MIN(high, one->high_gm);
    }
    return MIN(low / type->low_gm, high / type->high_gm);
}

static unsigned
type_available(Bed *bed, Device *parent, Type *type)
{
    Device *card = parent->card;
    unsigned all, same;

    if (card->framework == BED_GVTG)
        return gvtg_available(parent, type);
    count_mdevs(bed, card, type->framebuffer_mib, &all, &same);
    if (all != same || same >= type->max)
        return 0;
    if (parent->kind == DEVICE_VF)
        return parent->mdevs->len == 0 ? 1 : 0;
    return type->max - same;
}

/* ---- Attributes of a type ---- */

static int
show_available(Bed *bed, Node *node, GString *text)
{
    g_string_append_printf(text, "%u\n", type_available(bed, node->owner, node->extra));
    return 0;
}

/* The kernel takes 36 characters of hex and dashes, and perhaps a newline. */
static gboolean
parse_uuid(const char *value, char *ret_uuid)
{
    size_t length = strlen(value);

    if (length == UUID_LENGTH + 1 && value[UUID_LENGTH] == '\n')
        length--;
    if (length != UUID_LENGTH)
        return FALSE;
    for (size_t i = 0; i < UUID_LENGTH; i++) {
        gboolean dash = i == 8 || i == 13 || i == 18 || i == 23;

        if (dash ? value[i] != '-' : !g_ascii_isxdigit(value[i]))
            return FALSE;
        ret_uuid[i] = g_ascii_tolower(value[i]);
    }
    ret_uuid[UUID_LENGTH] = '\0';
    return TRUE;
}

static int
store_create(Bed *bed, Node *node, Write *write)
{
    char uuid[UUID_LENGTH + 1];
    gboolean half;
    int answer, r;

    if (!parse_uuid(write->value, uuid))
        return -EINVAL;
    answer = fault_answer(bed, node->owner, BED_CREATE, &half);
    if (answer < 0 && !half)
        return answer;
    r = mdev_create(bed, node->owner, node->extra, uuid);
    return answer < 0 ? answer : r;
}

/* ---- An mdev ---- */

static int
store_remove(Bed *bed, Node *node, Write *write)
{
    Device *mdev = node->owner;
    gboolean half;
    int answer;

    if (strcmp(write->value, "1") != 0 && strcmp(write->value, "1\n") != 0)
        return -EINVAL;
    if (mdev->removers->len > 0)
        return -ENODEV;
    answer = fault_answer(bed, mdev, BED_REMOVE, &half);
    if (answer < 0 && !half)
        return answer;
    if (device_is_referenced(mdev)) {
        if (mdev->card->remove_error)
            return -mdev->card->remove_error;
        g_ptr_array_add(mdev->removers, write);
        g_cond_broadcast(&bed->changed);
        return BED_LATER;
    }
    mdev_remove(bed, mdev);
    return answer;
}

void
mdev_unblock(Bed *bed, Device *mdev)
{
    Write *write;

    if (mdev->kind != DEVICE_MDEV || mdev->removers->len == 0 || device_is_referenced(mdev))
        return;
    write = g_ptr_array_remove_index(mdev->removers, 0);
    mdev_remove(bed, mdev);
    write_done(write, 0);
}

int
mdev_create(Bed *bed, Device *parent, Type *type, const char *uuid)
{
    Device *mdev;

    if (parent->gone)
        return -ENODEV;
    if (g_hash_table_contains(bed->devices, uuid))
        return -EEXIST;
    if (type_available(bed, parent, type) == 0)
        return parent->card->framework == BED_GVTG ? -ENOSPC : -EIO;

    mdev = device_new(bed, DEVICE_MDEV, uuid);
    mdev->card = parent->card;
    mdev->parent = parent;
    mdev->mdev_type = type;
    mdev->removers = g_ptr_array_new();
    mdev->dir = node_dir(bed, parent->dir, uuid);
    node_link(bed, mdev->dir, "mdev_type", node_child(parent->types_dir, type->sysfs));
    node_attr(bed, mdev->dir, "remove", 0200, NULL, store_remove, mdev);
    node_link(bed, mdev->dir, "driver",
              node_at(bed,
                      parent->card->framework == BED_GVTG ? "/sys/bus/mdev/drivers/vfio_mdev"
                                                          : "/sys/bus/mdev/drivers/nvidia-vgpu-vfio",
                      TRUE));
    if (parent->card->framework != BED_GVTG) {
        Node *nvidia = node_dir(bed, mdev->dir, "nvidia");

        node_text(bed, nvidia, "vgpu_params", 0644, "\n");
        node_text(bed, nvidia, "vm_name", 0444, "\n");
    }
    device_node_register(bed, mdev->dir, "/sys/bus/mdev", "/sys/bus/mdev/devices", "");
    node_link(bed, node_child(node_child(parent->types_dir, type->sysfs), "devices"), uuid, mdev->dir);
    g_ptr_array_add(parent->mdevs, mdev);

    group_add(bed, group_new(bed), mdev);
    herald_uevent(bed, mdev->dir, "add", NULL);
    vfio_register(bed, mdev);
    return 0;
}

void
mdev_remove(Bed *bed, Device *mdev)
{
    Device *parent = mdev->parent;

    vfio_unregister(bed, mdev);
    group_leave(bed, mdev);
    herald_uevent(bed, mdev->dir, "remove", NULL);
    node_remove(bed, node_child(node_at(bed, "/sys/bus/mdev/devices", TRUE), mdev->name));
    node_remove(bed, node_child(node_child(node_child(parent->types_dir, mdev->mdev_type->sysfs), "devices"),
                                mdev->name));
    node_remove(bed, mdev->dir);
    g_ptr_array_remove(parent->mdevs, mdev);
    mdev->gone = TRUE;
    g_hash_table_remove(bed->devices, mdev->name);
}

/* ---- A parent ---- */

static Node *
bus_link_dir(Bed *bed)
{
    return node_at(bed, "/sys/class/mdev_bus", TRUE);
}

void
mdev_parent_setup(Bed *bed, Device *parent)
{
    parent->types_dir = node_dir(bed, parent->dir, "mdev_supported_types");
    parent->mdevs = g_ptr_array_new();
    node_at(bed, "/sys/bus/mdev/devices", TRUE);
    for (guint i = 0; i < parent->card->types->len; i++) {
        Type *type = parent->card->types->pdata[i];
        Node *dir = node_dir(bed, parent->types_dir, type->sysfs);
        g_autofree char *name = g_strdup_printf("%s\n", type->name);

        if (!parent->card->nameless)
            node_text(bed, dir, "name", 0444, name);
        if (type->description)
            node_text(bed, dir, "description", 0444, type->description);
        node_text(bed, dir, "device_api", 0444, "vfio-pci\n");
        node_attr(bed, dir, "available_instances", 0444, show_available, NULL, parent)->extra = type;
        node_attr(bed, dir, "create", 0200, NULL, store_create, parent)->extra = type;
        node_dir(bed, dir, "devices");
    }
    node_link(bed, bus_link_dir(bed), parent->name, parent->dir);
    herald_uevent(bed, parent->dir, "change", "MDEV_STATE=registered\n");
}

void
mdev_parent_teardown(Bed *bed, Device *parent)
{
    if (!parent->types_dir)
        return;
    herald_uevent(bed, parent->dir, "change", "MDEV_STATE=unregistered\n");
    while (parent->mdevs->len > 0) {
        Device *mdev = parent->mdevs->pdata[0];

        while (mdev->removers->len > 0)
            write_done(g_ptr_array_remove_index(mdev->removers, 0), 0);
        mdev_remove(bed, mdev);
    }
    node_remove(bed, node_child(bus_link_dir(bed), parent->name));
    node_remove(bed, parent->types_dir);
    parent->types_dir = NULL;
    g_clear_pointer(&parent->mdevs, g_ptr_array_unref);
}
