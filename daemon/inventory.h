/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "framework.h"

#include <glib.h>

/* A physical card: the physical function of slots, an mdev parent, or an NVIDIA display controller that
 * offers nothing. */
typedef struct {
    char *address;
    char *name;                     /* as people call it; the scan leaves it NULL */
    char *modalias;                 /* for the hardware database; NULL when it is no PCI device */
    char *ids;                      /* "10de:26b9", vendor and device; NULL as above */
    gboolean nvidia;                /* NVIDIA's driver has it, so its library may know it */
    const VgpuFramework *framework; /* NULL when it offers nothing */
    int numa_node;                  /* -1 when the kernel says none */
    GPtrArray *slots;               /* of VgpuSlot, in numeric order */
    char *reason;                   /* why it offers nothing, else NULL */
} VgpuCard;

/* What one look at the host found: a plain value that never changes afterwards. */
typedef struct {
    GPtrArray *cards; /* of VgpuCard, in numeric order */
} VgpuInventory;

/* A vGPU with a write under way. Nobody may read its attributes meanwhile, so the scan takes the record's
 * word. */
typedef struct {
    const VgpuDevice *device; /* with type_id, name and framebuffer_mib of the record */
    gboolean creating;        /* an mdev that is being created: its parent's attributes are left alone too */
} VgpuBusyDevice;

/* Looks at every card that @allowed names (char * addresses; NULL for all). @busy: array of VgpuBusyDevice,
 * may be NULL. @previous: the last scan, for what cannot be read now; may be NULL. A broken device is passed
 * over or listed with its error; an error is returned only when nothing could be read. Main thread; does not
 * block beyond the kernel's own attributes. The caller frees the result. */
VgpuInventory *vgpu_inventory_scan(const GPtrArray *allowed, const GPtrArray *busy,
                                   const VgpuInventory *previous, GError **error);
void vgpu_inventory_free(VgpuInventory *inventory);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(VgpuInventory, vgpu_inventory_free)

/* "none", "mdev", "vendor-vfio" or "mixed". */
const char *vgpu_inventory_framework(const VgpuInventory *inventory);

/* Each NULL when there is none; @ret_card may be NULL. */
const VgpuCard *vgpu_inventory_find_card(const VgpuInventory *inventory, const char *address);
const VgpuSlot *vgpu_inventory_find_slot(const VgpuInventory *inventory, const char *address,
                                         const VgpuCard **ret_card);
/* @uuid NULL: the vGPU of a virtual function, else the mdev wherever it is. */
const VgpuDevice *vgpu_inventory_find_device(const VgpuInventory *inventory, const char *slot,
                                             const char *uuid);
