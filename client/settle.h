/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib.h>

/* Waits, on a connection of its own, until the service has taken back what belonged to another connection
 * that ends. Calling Release instead would hit an assignment that somebody has adopted meanwhile. */
typedef struct VgpuSettle VgpuSettle;

/* To be made before the connection @owner is closed. @held (VgpuHeld) must outlive it. NULL when the bus
 * cannot be reached once more. */
VgpuSettle *vgpu_settle_new(const char *owner, GPtrArray *held);
void vgpu_settle_free(VgpuSettle *settle);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(VgpuSettle, vgpu_settle_free)

/* Waits for it, at most 30 s, and says on stderr what stays. The exit status: done; in use when something is
 * still open; failed when a device could not be cleared or is not clear yet. */
int vgpu_settle_wait(VgpuSettle *settle);
