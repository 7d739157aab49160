/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "config.h"
#include "owners.h"
#include "placement.h"
#include "store.h"
#include "worker.h"

#include <glib.h>
#include <systemd/sd-event.h>

/* The order in which things are done: assign and clear, step by step, over the rooms below. All functions are
 * for the main thread. */
typedef struct _VgpuBroker VgpuBroker;

/* What the broker tells; never from within a call of the functions below that answers through a callback. */
typedef struct {
    /* A scan was made, or a record changed: what the properties say may be different now. */
    void (*changed)(gpointer user_data);
    void (*removed)(const char *id, VgpuEnding ending, gpointer user_data);
} VgpuBrokerHooks;

/* Everything is borrowed and must outlive the broker. @bus_id: of the bus, for the state file. */
VgpuBroker *vgpu_broker_new(const VgpuConfig *config, VgpuStore *store, VgpuOwners *owners,
                            VgpuWorker *worker, sd_event *event, const char *bus_id,
                            const VgpuBrokerHooks *hooks, gpointer user_data);
void vgpu_broker_free(VgpuBroker *broker);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(VgpuBroker, vgpu_broker_free)

/* Takes up what the state file says: keeps what has an owner, clears what has none or was never answered. The
 * service must own its name and its lock. */
void vgpu_broker_start(VgpuBroker *broker);

/* From now on nothing new is started; writes under way go on. */
void vgpu_broker_stop(VgpuBroker *broker);

/* The host as it is now: borrowed until the next call of any function here. Without @fresh, a scan of the
 * last 200 ms that nothing has made stale will do. Errors when nothing can be read. */
gboolean vgpu_broker_look(VgpuBroker *broker, gboolean fresh, VgpuHost *ret_host, GError **error);

/* The host of the last look, without looking again; FALSE when there was none. */
gboolean vgpu_broker_last_look(VgpuBroker *broker, VgpuHost *ret_host);

/* Somebody reads names of profiles or cards, or asks for some: what the last look could not tell is asked
 * for. Does not wait; what comes of it is a change. */
void vgpu_broker_want_names(VgpuBroker *broker);

/* Looks again, and ends what was lost. For device events. */
void vgpu_broker_rescan(VgpuBroker *broker);

/* udev has processed an event of the device @name of @subsystem. */
void vgpu_broker_device_event(VgpuBroker *broker, const char *subsystem, const char *name);

/* Checks @request against the last look, before anybody is asked and before anything is done; *@ret_name is
 * the exact profile name, or NULL when no card shows it now. Errors as of vgpu_placement_resolve(), and
 * INVALID_ARGS. */
gboolean vgpu_broker_check(VgpuBroker *broker, const VgpuRequest *request, char **ret_name, GError **error);

/* The answer of Plan (a{sv}, floating). */
GVariant *vgpu_broker_plan(VgpuBroker *broker, const VgpuRequest *request, GError **error);

/* NULL, with UNKNOWN_ASSIGNMENT, when there is none that anybody was told of. Borrowed. */
const VgpuAssignment *vgpu_broker_find(VgpuBroker *broker, const char *id, GError **error);

/* @assignment is borrowed and NULL on failure, when @error is set. Called exactly once, perhaps before the
 * function that got it returns. */
typedef void (*VgpuBrokerDone)(const VgpuAssignment *assignment, const GError *error, gpointer user_data);

/* Assigns to @caller, who must be authorized and held in owners. Nothing calls back when @caller vanishes
 * meanwhile? It does, with an error. */
void vgpu_broker_assign(VgpuBroker *broker, const VgpuCaller *caller, const VgpuRequest *request,
                        VgpuBrokerDone done, gpointer user_data);

/* Clears and forgets, for somebody who may. */
void vgpu_broker_release(VgpuBroker *broker, const char *id, VgpuBrokerDone done, gpointer user_data);

/* Makes @caller, who may, the owner. */
const VgpuAssignment *vgpu_broker_adopt(VgpuBroker *broker, const char *id, const VgpuCaller *caller,
                                        GError **error);

/* Clears @device (an address or a UUID, any spelling) that is nobody's, for @caller, who may. */
void vgpu_broker_reclaim(VgpuBroker *broker, const char *device, const VgpuCaller *caller,
                         VgpuBrokerDone done, gpointer user_data);

/* Releases all that @name holds. */
void vgpu_broker_owner_vanished(VgpuBroker *broker, const char *name);

/* How many assignments count in the limit of @uid, and how many it may have. */
gboolean vgpu_broker_is_at_limit(VgpuBroker *broker, guint32 uid, GError **error);
