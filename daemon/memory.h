/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "inventory.h"

#include <glib.h>

/* What each card has shown since its devices last changed. A full card lists nothing, so the names of what
 * is set on it, and what it could take when empty, can only be remembered. A type id means something on its
 * own card only: nothing is ever borrowed from another. Pure; main thread. */
typedef struct _VgpuMemory VgpuMemory;

VgpuMemory *vgpu_memory_new(void);
void vgpu_memory_free(VgpuMemory *memory);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(VgpuMemory, vgpu_memory_free)

/* Learns from a scan, forgets what was seen on cards whose devices are others now, and fills in the names and
 * sizes of
 * @inventory's vGPUs that the scan could not tell. To be called once, before anybody else sees @inventory. */
void vgpu_memory_learn(VgpuMemory *memory, VgpuInventory *inventory);

/* All types that the card @address has shown (array of VgpuType, borrowed), NULL when none. */
const GPtrArray *vgpu_memory_types(VgpuMemory *memory, const char *address);
