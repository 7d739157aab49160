/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "assignments.h"
#include "inventory.h"
#include "nvml.h"

#include <glib.h>

/* What is known of each card beyond the last scan, until its devices change. A full card lists nothing, so
 * the names of what is set on it, and what it could take when empty, can only be remembered or asked for. A
 * type id means something on its own card only: nothing is ever borrowed from another. The sources of a name,
 * in their order: what the card lists, what it has listed, the record of what was handed out here, NVML. Of a
 * size: NVML, the mdev description, the name. Pure; main thread. */
typedef struct _VgpuMemory VgpuMemory;

VgpuMemory *vgpu_memory_new(void);
void vgpu_memory_free(VgpuMemory *memory);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(VgpuMemory, vgpu_memory_free)

/* Learns from a scan, forgets what was known of cards whose devices are others now, and fills in the names
 * and sizes of @inventory that the scan could not tell. @assignments may be NULL. To be called once, before
 * anybody else sees @inventory. */
void vgpu_memory_learn(VgpuMemory *memory, VgpuInventory *inventory, VgpuAssignments *assignments);

/* All types that the card @address is known to offer at one time or another (array of VgpuType, borrowed
 * until the next change), NULL when none: those it has shown and, as long as it has not been seen empty,
 * those that NVML names. */
const GPtrArray *vgpu_memory_types(VgpuMemory *memory, const char *address);

/* Whether those are all: the card was seen empty, or NVML has told. If not, it may have other profiles too.
 */
gboolean vgpu_memory_is_whole(VgpuMemory *memory, const char *address);

/* The framebuffer of the card @address in MiB, 0 when unknown: the largest undivided type that NVML names or
 * that the card offered while it was empty. */
guint64 vgpu_memory_framebuffer(VgpuMemory *memory, const char *address);

/* What NVML calls the card; borrowed, NULL when unknown. */
const char *vgpu_memory_card_name(VgpuMemory *memory, const char *address);

/* The cards of the last scan that NVML may know and was not asked about since their devices changed; from now
 * on they count as asked about. Free with g_strfreev(). */
char **vgpu_memory_take_unasked(VgpuMemory *memory, const VgpuInventory *inventory);

/* Takes NVML's answer (array of VgpuNvmlCard, which is left empty). What is said of a card whose devices have
 * changed since it was asked about is dropped. TRUE when something is known now that was not. */
gboolean vgpu_memory_take_answer(VgpuMemory *memory, GPtrArray *cards);

/* Grows whenever what vgpu_memory_format() writes may have changed. */
guint vgpu_memory_version(const VgpuMemory *memory);

/* Everything as the text of a file, which is good for this boot only. The caller frees it. */
char *vgpu_memory_format(const VgpuMemory *memory, const char *boot_id);

/* Takes the @length bytes of such a text into the empty @memory. FALSE with an error, and nothing taken, when
 * it cannot be understood; a text of another boot is void, which is no error. */
gboolean vgpu_memory_parse(VgpuMemory *memory, const char *text, gsize length, const char *boot_id,
                           GError **error);
