/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "assignments.h"
#include "inventory.h"
#include "memory.h"

#include <glib.h>

/* What cards have and what of it is left. Pure; main thread. */

/* What there is to look at; all borrowed. */
typedef struct {
    const VgpuInventory *inventory;
    VgpuMemory *memory;
    VgpuAssignments *assignments;
} VgpuHost;

/* Why a slot can be given to nobody, whatever its type; in the order in which people are told. */
typedef enum {
    VGPU_OBSTACLE_NONE,
    VGPU_OBSTACLE_HOLDS,        /* a vGPU is on it */
    VGPU_OBSTACLE_CHANGING,     /* one is being set or cleared */
    VGPU_OBSTACLE_FAILED,       /* one could not be cleared */
    VGPU_OBSTACLE_UNREADABLE,   /* its attributes cannot be read */
    VGPU_OBSTACLE_NO_GROUP,     /* it has no IOMMU group */
    VGPU_OBSTACLE_NO_IOMMU,     /* its group has no IOMMU behind it */
    VGPU_OBSTACLE_GROUP_TAKEN,  /* a vGPU of another owner is in its group */
    VGPU_OBSTACLE_GROUP_SHARED, /* another device is in its group: for root only */
    VGPU_OBSTACLE_NODE_OWNED,   /* its group's node is some user's, who could open it: for root only */
    VGPU_N_OBSTACLES,
} VgpuObstacle;

/* What stands against giving @slot to somebody or (@for_root FALSE) to anybody. */
VgpuObstacle vgpu_capacity_obstacle(const VgpuHost *host, const VgpuSlot *slot, gboolean for_root);

/* The type with profile @name (NULL: there is none) that @slot would take now, NULL when it would not. */
const VgpuType *vgpu_capacity_offer(const VgpuHost *host, const VgpuSlot *slot, gboolean for_root,
                                    const char *name);

/* The type with profile @name among @types (array of VgpuType; both may be NULL), else NULL. */
const VgpuType *vgpu_capacity_find_type(const GPtrArray *types, const char *name);

/* Places for vGPUs that @card has in all, and those that can be given out now. */
void vgpu_capacity_slots(const VgpuHost *host, const VgpuCard *card, guint *ret_slots, guint *ret_free);

/* How many vGPUs of one size are on a card. */
typedef struct {
    guint64 mib; /* 0: of unknown size */
    guint vgpus;
} VgpuSizeCount;

/* The sizes on @card, the smallest first and the unknown last (array of VgpuSizeCount, owned). */
GArray *vgpu_capacity_sizes(const VgpuCard *card);

/* The framebuffer that is assigned on @card in MiB; FALSE when the size of something on it is unknown. */
gboolean vgpu_capacity_assigned(const VgpuCard *card, guint64 *ret_mib);

/* The framebuffer that is left on @card in MiB; FALSE when that, or what is assigned, is unknown. */
gboolean vgpu_capacity_left(const VgpuHost *host, const VgpuCard *card, guint64 *ret_mib);

/* How many more of profile @name really fit on @card (@device: on that slot of it; NULL: on all): no more
 * than slots list it, and than memory and the type's maximum leave. Where the card is itself the parent, its
 * driver counts. FALSE when that is unknown. */
gboolean vgpu_capacity_remaining(const VgpuHost *host, const VgpuCard *card, const char *device,
                                 gboolean for_root, const char *name, guint *ret_count);

/* How many vGPUs the slots of @card would take now, each by itself. */
guint vgpu_capacity_available(const VgpuHost *host, const VgpuCard *card, const char *name);
