/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "framework.h"

#include <glib.h>

/* Who may open a group node: one entry for one user in its ACL. Nothing else of a device is ever opened to
 * anybody. All functions look at the node through one descriptor and touch it only when it is still the one
 * that was recorded (number and inode). They do not block; main thread. Errors are of VGPU_ERROR,
 * DEVICE_FAILED. */

/* Lets @uid read and write @device's group node. Entries of other named users are removed, and logged; those
 * of groups stay. FALSE when there is no such node or it is another one. */
gboolean vgpu_access_grant(const VgpuDevice *device, guint32 uid, GError **error);

/* Removes the entries of all named users, and logs them: for root, who needs none. */
gboolean vgpu_access_close(const VgpuDevice *device, GError **error);

/* Takes @uid's entry off the node. A node that is gone or is another one has none of ours: TRUE. */
gboolean vgpu_access_withdraw(const VgpuDevice *device, guint32 uid, GError **error);

/* Whether @uid's entry is there and in force: udev may have put a mode over it, which leaves the entry and
 * zeroes the mask (seen on Linux 6.12 with systemd 252). */
gboolean vgpu_access_stands(const VgpuDevice *device, guint32 uid);
