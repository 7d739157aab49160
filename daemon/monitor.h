/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib.h>
#include <systemd/sd-event.h>

/* Device events that may mean other cards, slots or vGPUs, as one call when they have calmed down: the
 * driver's directory on a virtual function comes after the last event that speaks of it, so the call is a
 * little late on purpose. Main thread. */
typedef struct _VgpuMonitor VgpuMonitor;

typedef void (*VgpuMonitorFunc)(gpointer user_data);

/* Each event as it comes; both may be NULL. */
typedef void (*VgpuMonitorEvent)(const char *subsystem, const char *name, gpointer user_data);

/* NULL with an error when udev cannot be listened to. The caller frees it. */
VgpuMonitor *vgpu_monitor_new(sd_event *event, VgpuMonitorFunc func, VgpuMonitorEvent each,
                              gpointer user_data, GError **error);
void vgpu_monitor_free(VgpuMonitor *monitor);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(VgpuMonitor, vgpu_monitor_free)
