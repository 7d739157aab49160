/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "authority.h"
#include "broker.h"
#include "owners.h"
#include "sleep.h"

#include <systemd/sd-bus.h>

#define VGPU_BUS_NAME "org.hypeman.VGPU1"
#define VGPU_OBJECT_PATH "/org/hypeman/VGPU1"
#define VGPU_INTERFACE "org.hypeman.VGPU1"

/* The D-Bus object: messages in, replies and signals out. Main thread. */
typedef struct _VgpuService VgpuService;

/* All borrowed but @config's limits, which are copied; owners and broker are set by vgpu_service_start(), as
 * they call back here. Returns NULL with an error when the object cannot be exported. */
VgpuService *vgpu_service_new(sd_bus *bus, VgpuAuthority *authority, guint max_pending, GError **error);
void vgpu_service_free(VgpuService *service);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(VgpuService, vgpu_service_free)

/* Gives the rooms below; calls are answered from now on. */
void vgpu_service_start(VgpuService *service, VgpuOwners *owners, VgpuBroker *broker, VgpuSleep *sleep);

/* Answers all pending calls with an error; new ones are refused. */
void vgpu_service_stop(VgpuService *service);

/* Forgets the calls whose last step will never come, when the loop has ended. */
void vgpu_service_end(VgpuService *service);

/* Callbacks for the rooms below; @service is the user data. */
void vgpu_service_vanished(const char *name, gpointer service);
extern const VgpuBrokerHooks vgpu_service_hooks;
