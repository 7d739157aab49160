/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "framework.h"

#include <glib.h>
#include <systemd/sd-event.h>

/* Whether a vGPU is in use, by the kernel's own answer: its VFIO group node has one opener, and any open
 * device of the group, by whatever path, makes a second open fail with EBUSY (drivers/vfio/group.c; tried on
 * Linux 6.12). An open that succeeds is proof, and a lock until it is closed. */
typedef struct {
    int fd;             /* of the group node; -1 where the kernel has no groups and a scan answered */
    guint64 node_inode; /* of the node that was opened, 0 without one */
} VgpuTake;

/* Takes the device with @iommu_group and @device_node (cdev; NULL when there is none). @scan_cdev: also look
 * for a process with the cdev open, which an open group does not rule out (it may be unbound). Blocks: call
 * in a worker. Errors: VGPU_ERROR_IN_USE with the holders, VGPU_ERROR_USAGE_UNKNOWN with the reason; both
 * begin with @name, what people call the device. *@ret_holders, which may be NULL, gets those found ("pid
 * comm") when it is in use, to be freed by the caller. The caller frees the result, which lets go. */
VgpuTake *vgpu_usage_take(const char *name, int iommu_group, const char *device_node, gboolean scan_cdev,
                          char ***ret_holders, GError **error);
void vgpu_take_free(VgpuTake *take);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(VgpuTake, vgpu_take_free)

/* A user's processes may be many, and each that is named costs a descriptor while it is watched. */
#define VGPU_HOLDERS_MAX 16

/* Who has one of @nodes open (paths; NULL entries at the end only), found by device number in every
 * namespace that /proc shows: texts "pid comm", printable, VGPU_HOLDERS_MAX at most. *@ret_unreadable, which
 * may be NULL, counts the processes whose descriptors could not be read, and one more when none of @nodes is
 * there. Blocks: call in a worker. Free with g_strfreev(). */
char **vgpu_usage_holders(const char *const *nodes, guint *ret_unreadable);

/* Watches a node for its close, and processes for their end, on an event loop. Main thread. */
typedef struct _VgpuWatch VgpuWatch;
typedef enum {
    VGPU_WATCH_OPENED,
    VGPU_WATCH_CLOSED,       /* the node may take some ms more to be free */
    VGPU_WATCH_HOLDER_ENDED, /* one of those that were named; others may have it open still */
} VgpuWatchEvent;
typedef void (*VgpuWatchFunc)(VgpuWatchEvent event, gpointer user_data);

/* A watch of @node. Events say that something happened, never how often. NULL with a warning when the node
 * cannot be watched. The caller frees it. */
VgpuWatch *vgpu_watch_new(sd_event *event, const char *node, VgpuWatchFunc func, gpointer user_data);

/* Also reports HOLDER_ENDED when one of @holders ("pid comm") ends. Replaces those given before. */
void vgpu_watch_set_holders(VgpuWatch *watch, const char *const *holders);
void vgpu_watch_free(VgpuWatch *watch);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(VgpuWatch, vgpu_watch_free)
