/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "memory.h"

#include <glib.h>

/* Where names and sizes come from that a scan does not tell: what was remembered, in a file of its own in the
 * runtime directory; NVML; the hardware database. Main thread. */
typedef struct _VgpuNames VgpuNames;

/* What the room above is told, never from within a function below: NVML has answered, and what is known may
 * be more than before. @again: somebody has asked for names meanwhile, so vgpu_names_want() is to be called.
 */
typedef void (*VgpuNamesTold)(gboolean again, gpointer user_data);

/* Takes up what an earlier run has remembered in @directory during the boot @boot_id; a file that cannot be
 * used is logged, ignored and written anew. */
VgpuNames *vgpu_names_new(const char *directory, const char *boot_id, VgpuNamesTold told, gpointer user_data);
void vgpu_names_free(VgpuNames *names);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(VgpuNames, vgpu_names_free)

/* Borrowed. */
VgpuMemory *vgpu_names_memory(VgpuNames *names);

/* Learns from a scan and fills in what it could not tell (vgpu_memory_learn()), the names of cards too. */
void vgpu_names_learn(VgpuNames *names, VgpuInventory *inventory, VgpuAssignments *assignments);

/* Somebody asks for names: NVML is asked about those cards of @inventory that it was not asked about since
 * their devices changed. Returns at once; nobody waits for the answer. */
void vgpu_names_want(VgpuNames *names, const VgpuInventory *inventory);

/* From now on nothing is asked any more, and a question under way is called off. */
void vgpu_names_stop(VgpuNames *names);
