/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "capacity.h"

#include "profile.h"

#include <string.h>

/* ---- One slot ---- */

/* Devices of one IOMMU group reach each other's memory. */
static VgpuObstacle
obstacle_of_group(const VgpuHost *host, const VgpuSlot *slot, gboolean for_root)
{
    if (slot->iommu_group < 0)
        return VGPU_OBSTACLE_NO_GROUP;
    if (slot->noiommu)
        return VGPU_OBSTACLE_NO_IOMMU;
    for (char **other = slot->group_others; other && *other; other++) {
        if (vgpu_inventory_find_device(host->inventory, *other, NULL) ||
            vgpu_assignments_find_device(host->assignments, *other, NULL))
            return VGPU_OBSTACLE_GROUP_TAKEN;
        if (!for_root)
            return VGPU_OBSTACLE_GROUP_SHARED;
    }
    if (!for_root && slot->node_uid != 0)
        return VGPU_OBSTACLE_NODE_OWNED;
    return VGPU_OBSTACLE_NONE;
}

static VgpuObstacle
obstacle_of_record(const VgpuAssignment *assignment)
{
    if (assignment->state == VGPU_STATE_FAILED && !assignment->busy)
        return VGPU_OBSTACLE_FAILED;
    if (assignment->busy || assignment->writing || assignment->state == VGPU_STATE_ASSIGNING ||
        assignment->state == VGPU_STATE_RELEASING)
        return VGPU_OBSTACLE_CHANGING;
    return VGPU_OBSTACLE_HOLDS;
}

VgpuObstacle
vgpu_capacity_obstacle(const VgpuHost *host, const VgpuSlot *slot, gboolean for_root)
{
    const VgpuDevice *held = !slot->multiple && slot->devices->len > 0 ? slot->devices->pdata[0] : NULL;
    const VgpuAssignment *record = NULL;

    if (held || slot->framework->group_before_set)
        record = vgpu_assignments_find_device(host->assignments, slot->address, held ? held->uuid : NULL);
    if (slot->error)
        return VGPU_OBSTACLE_UNREADABLE;
    if (record)
        return obstacle_of_record(record);
    if (held)
        return VGPU_OBSTACLE_HOLDS;
    return slot->framework->group_before_set ? obstacle_of_group(host, slot, for_root) : VGPU_OBSTACLE_NONE;
}

const VgpuType *
vgpu_capacity_find_type(const GPtrArray *types, const char *name)
{
    for (guint i = 0; types && name && i < types->len; i++) {
        const VgpuType *type = g_ptr_array_index(types, i);
        if (strcmp(type->name, name) == 0)
            return type;
    }
    return NULL;
}

const VgpuType *
vgpu_capacity_offer(const VgpuHost *host, const VgpuSlot *slot, gboolean for_root, const char *name)
{
    const VgpuType *type = vgpu_capacity_find_type(slot->types, name);
    gboolean taken = !type || type->available == 0;

    return taken || vgpu_capacity_obstacle(host, slot, for_root) != VGPU_OBSTACLE_NONE ? NULL : type;
}

/* ---- One card ---- */

void
vgpu_capacity_slots(const VgpuHost *host, const VgpuCard *card, guint *ret_slots, guint *ret_free)
{
    *ret_slots = *ret_free = 0;
    for (guint i = 0; i < card->slots->len; i++) {
        const VgpuSlot *slot = g_ptr_array_index(card->slots, i);
        gboolean offered = vgpu_capacity_obstacle(host, slot, TRUE) == VGPU_OBSTACLE_NONE;
        guint most = slot->multiple ? 0 : 1;

        for (guint j = 0; slot->multiple && j < slot->types->len; j++) {
            const VgpuType *type = g_ptr_array_index(slot->types, j);
            most = MAX(most, type->available);
        }
        *ret_slots += most + (slot->multiple ? slot->devices->len : 0);
        *ret_free += offered ? most : 0;
    }
}

static int
compare_sizes(gconstpointer a, gconstpointer b)
{
    /* 0 is unknown, and so the largest: the difference of 1 wraps it around. */
    guint64 left = ((const VgpuSizeCount *)a)->mib - 1;
    guint64 right = ((const VgpuSizeCount *)b)->mib - 1;

    return (left > right) - (left < right);
}

static void
count_size(GArray *sizes, guint64 mib)
{
    for (guint i = 0; i < sizes->len; i++) {
        VgpuSizeCount *count = &g_array_index(sizes, VgpuSizeCount, i);
        if (count->mib == mib) {
            count->vgpus++;
            return;
        }
    }
    g_array_append_vals(sizes, &(VgpuSizeCount){mib, 1}, 1);
}

GArray *
vgpu_capacity_sizes(const VgpuCard *card)
{
    GArray *sizes = g_array_new(FALSE, FALSE, sizeof(VgpuSizeCount));

    for (guint i = 0; i < card->slots->len; i++) {
        const VgpuSlot *slot = g_ptr_array_index(card->slots, i);
        for (guint j = 0; j < slot->devices->len; j++) {
            const VgpuDevice *device = g_ptr_array_index(slot->devices, j);
            count_size(sizes, device->framebuffer_mib);
        }
    }
    g_array_sort(sizes, compare_sizes);
    return sizes;
}

gboolean
vgpu_capacity_assigned(const VgpuCard *card, guint64 *ret_mib)
{
    g_autoptr(GArray) sizes = vgpu_capacity_sizes(card);
    guint64 mib = 0;

    for (guint i = 0; i < sizes->len; i++) {
        const VgpuSizeCount *count = &g_array_index(sizes, VgpuSizeCount, i);
        if (count->mib == 0)
            return FALSE;
        mib += count->mib * count->vgpus;
    }
    *ret_mib = mib;
    return TRUE;
}

gboolean
vgpu_capacity_left(const VgpuHost *host, const VgpuCard *card, guint64 *ret_mib)
{
    guint64 total = vgpu_memory_framebuffer(host->memory, card->address);
    guint64 assigned;

    for (guint i = 0; i < card->slots->len; i++) {
        const VgpuSlot *slot = g_ptr_array_index(card->slots, i);
        if (slot->error)
            return FALSE; /* who knows what is on it */
    }
    if (total == 0 || !vgpu_capacity_assigned(card, &assigned))
        return FALSE;
    *ret_mib = total > assigned ? total - assigned : 0;
    return TRUE;
}

/* ---- How many more fit ---- */

/* vGPUs on @card that count in the maximum of @type: those of its size, whatever their series. */
static gboolean
count_alike(const VgpuCard *card, const VgpuType *type, guint *ret_count)
{
    guint count = 0;

    for (guint i = 0; i < card->slots->len; i++) {
        const VgpuSlot *slot = g_ptr_array_index(card->slots, i);

        if (slot->error)
            return FALSE;
        for (guint j = 0; j < slot->devices->len; j++) {
            const VgpuDevice *device = g_ptr_array_index(slot->devices, j);
            gboolean same_type = g_strcmp0(device->type_id, type->id) == 0;

            if (!same_type && (device->framebuffer_mib == 0 || type->framebuffer_mib == 0))
                return FALSE;
            count += same_type || device->framebuffer_mib == type->framebuffer_mib;
        }
    }
    *ret_count = count;
    return TRUE;
}

/* What memory and the maximum of @type leave on @card; FALSE when neither is known. Of a divided card only
 * its driver knows. */
static gboolean
count_room(const VgpuHost *host, const VgpuCard *card, const VgpuType *type, guint *ret_room)
{
    guint64 left;
    guint alike;
    guint64 room = G_MAXUINT;

    if (vgpu_profile_is_of_an_instance(type->name))
        return FALSE;
    if (type->framebuffer_mib > 0 && vgpu_capacity_left(host, card, &left))
        room = left / type->framebuffer_mib;
    if (type->max_instances > 0 && count_alike(card, type, &alike))
        room = MIN(room, type->max_instances - MIN(alike, type->max_instances));
    *ret_room = (guint)MIN(room, G_MAXUINT);
    return room < G_MAXUINT;
}

gboolean
vgpu_capacity_remaining(const VgpuHost *host, const VgpuCard *card, const char *device, gboolean for_root,
                        const char *name, guint *ret_count)
{
    const VgpuType *listed = NULL;
    guint listing = 0, counted = 0, room;

    for (guint i = 0; i < card->slots->len; i++) {
        const VgpuSlot *slot = g_ptr_array_index(card->slots, i);
        const VgpuType *type = vgpu_capacity_offer(host, slot, for_root, name);

        if (!type || (device && strcmp(device, slot->address) != 0))
            continue;
        counted += slot->multiple ? type->available : 0;
        listing += slot->multiple ? 0 : 1;
        listed = type;
    }
    /* Listed means that one fits, whatever is known besides. */
    if (listing <= 1)
        room = listing;
    else if (!count_room(host, card, listed, &room))
        return FALSE;
    *ret_count = counted + MIN(listing, MAX(room, listing > 0 ? 1 : 0));
    return TRUE;
}

guint
vgpu_capacity_available(const VgpuHost *host, const VgpuCard *card, const char *name)
{
    guint available = 0;

    for (guint i = 0; i < card->slots->len; i++) {
        const VgpuType *type = vgpu_capacity_offer(host, g_ptr_array_index(card->slots, i), TRUE, name);
        available += type ? type->available : 0;
    }
    return available;
}
