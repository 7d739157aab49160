/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "monitor.h"

#include <gio/gio.h>
#include <systemd/sd-device.h>

/* Quiet for this long, or this long after the first event of a storm. */
#define CALM_MS 100
#define STORM_US (2 * G_USEC_PER_SEC)

static const char *const subsystems[] = {"pci", "mdev", "vfio", "vfio-dev"};

struct _VgpuMonitor {
    sd_device_monitor *devices;
    guint timer;
    gint64 first; /* monotonic µs of the first event since the last call; 0 for none */
    VgpuMonitorFunc func;
    VgpuMonitorEvent each;
    gpointer user_data;
};

static gboolean
on_calm(gpointer user_data)
{
    VgpuMonitor *monitor = user_data;

    monitor->timer = 0;
    monitor->first = 0;
    monitor->func(monitor->user_data);
    return G_SOURCE_REMOVE;
}

static int
on_device(sd_device_monitor *devices, sd_device *device, void *user_data)
{
    VgpuMonitor *monitor = user_data;
    gint64 now = g_get_monotonic_time();
    const char *subsystem = NULL;
    const char *name = NULL;

    sd_device_get_subsystem(device, &subsystem);
    sd_device_get_sysname(device, &name);
    monitor->each(subsystem, name, monitor->user_data);
    if (monitor->first == 0)
        monitor->first = now;
    if (monitor->timer > 0 && now - monitor->first > STORM_US)
        return 0;
    g_clear_handle_id(&monitor->timer, g_source_remove);
    monitor->timer = g_timeout_add(CALM_MS, on_calm, monitor);
    return 0;
}

VgpuMonitor *
vgpu_monitor_new(sd_event *event, VgpuMonitorFunc func, VgpuMonitorEvent each, gpointer user_data,
                 GError **error)
{
    g_autoptr(VgpuMonitor) monitor = g_new0(VgpuMonitor, 1);
    int r = sd_device_monitor_new(&monitor->devices);

    monitor->func = func;
    monitor->each = each;
    monitor->user_data = user_data;
    for (gsize i = 0; r >= 0 && i < G_N_ELEMENTS(subsystems); i++)
        r = sd_device_monitor_filter_add_match_subsystem_devtype(monitor->devices, subsystems[i], NULL);
    if (r >= 0)
        r = sd_device_monitor_attach_event(monitor->devices, event);
    if (r >= 0)
        r = sd_device_monitor_start(monitor->devices, on_device, monitor);
    if (r < 0) {
        g_set_error(error, G_IO_ERROR, G_IO_ERROR_FAILED, "device events cannot be heard: %s",
                    g_strerror(-r));
        return NULL;
    }
    return g_steal_pointer(&monitor);
}

void
vgpu_monitor_free(VgpuMonitor *monitor)
{
    g_clear_handle_id(&monitor->timer, g_source_remove);
    sd_device_monitor_unref(monitor->devices);
    g_free(monitor);
}
