/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib.h>
#include <systemd/sd-bus.h>

/* Which unique bus names hold something, or wait for something: one match rule for all of them, there only
 * while there is somebody to watch. Main thread. */
typedef struct _VgpuOwners VgpuOwners;

typedef void (*VgpuOwnersVanished)(const char *name, gpointer user_data);

/* Who a caller is, from the bus. */
typedef struct {
    char *name; /* unique bus name */
    guint32 uid;
    guint32 pid; /* 0 when the bus does not know it */
} VgpuCaller;

VgpuCaller *vgpu_caller_copy(const VgpuCaller *caller);
void vgpu_caller_free(VgpuCaller *caller);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(VgpuCaller, vgpu_caller_free)

/* @vanished is called for each held name that leaves the bus, perhaps more than once. The caller frees it. */
VgpuOwners *vgpu_owners_new(sd_bus *bus, VgpuOwnersVanished vanished, gpointer user_data);
void vgpu_owners_free(VgpuOwners *owners);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(VgpuOwners, vgpu_owners_free)

/* Watches @name once more; each hold is ended by one drop. Returns 0 or a negative errno. */
int vgpu_owners_hold(VgpuOwners *owners, const char *name);
void vgpu_owners_drop(VgpuOwners *owners, const char *name);

/* @caller is NULL when the bus did not say who it is, and @gone tells whether that is because the name is not
 * on the bus (any more); else the bus was too busy, and nothing is known. @caller is freed by the receiver.
 */
typedef void (*VgpuOwnersIdentified)(VgpuCaller *caller, gboolean gone, gpointer user_data);

/* Asks the bus who @name, which must be held, is. As the watch stands first, whoever leaves is either not
 * found here or reported as vanished. Returns 0 or a negative errno, and then never calls back. */
int vgpu_owners_identify(VgpuOwners *owners, const char *name, VgpuOwnersIdentified identified,
                         gpointer user_data);
