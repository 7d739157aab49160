/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "bus.h"

/* What a watch tells; each may be NULL. All are called from the bus's event loop or sd_bus_process(). */
typedef struct {
    /* The assignment @id is no more. */
    void (*removed)(const char *id, const char *reason, void *data);
    /* A property has changed; its @value, or NULL when it has to be asked for. */
    void (*changed)(const char *property, GVariant *value, void *data);
    /* The service came to or left the bus. */
    void (*service)(bool there, void *data);
    /* The connection is gone, and with it everything that belonged to it. */
    void (*disconnected)(void *data);
} VgpuWatchFuncs;

/* Follows the service on one connection. Signals that somebody else sends to us in its place are not heard.
 */
typedef struct VgpuWatch VgpuWatch;

/* Hears everything that happens after it returns. @bus, @funcs and @data must outlive the watch. */
VgpuWatch *vgpu_watch_new(sd_bus *bus, const VgpuWatchFuncs *funcs, void *data, GError **error);
void vgpu_watch_free(VgpuWatch *watch);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(VgpuWatch, vgpu_watch_free)
