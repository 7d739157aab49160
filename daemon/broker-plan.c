/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What can be said of a request before anything is done. */
#include "broker-internal.h"

#include "describe.h"
#include "error.h"
#include "mdev.h"

VgpuPolicy
broker_policy(const VgpuBroker *broker)
{
    return broker->config->pack ? VGPU_POLICY_PACK : VGPU_POLICY_SPREAD;
}

gboolean
broker_check_on(VgpuBroker *broker, const VgpuHost *host, const VgpuRequest *request, char **ret_name,
                GError **error)
{
    g_autoptr(GError) unknown = NULL;
    g_autofree char *name = vgpu_placement_resolve(host, request->profile, &unknown);

    if (unknown) {
        g_propagate_error(error, g_steal_pointer(&unknown));
        return FALSE;
    }
    if (request->gpu && !vgpu_inventory_find_card(host->inventory, request->gpu)) {
        g_set_error(error, VGPU_ERROR, VGPU_ERROR_INVALID_ARGS,
                    "there is no GPU %s: see GPUs for those there are", request->gpu);
        return FALSE;
    }
    if (request->device && !vgpu_inventory_find_slot(host->inventory, request->device, NULL)) {
        g_set_error(error, VGPU_ERROR, VGPU_ERROR_INVALID_ARGS,
                    "%s is neither a virtual function with vGPUs nor an mdev parent: for a whole card the "
                    "option is gpu",
                    request->device);
        return FALSE;
    }
    if (request->uuid && (vgpu_inventory_find_device(host->inventory, NULL, request->uuid) ||
                          vgpu_assignments_find_device(broker->assignments, NULL, request->uuid) ||
                          vgpu_mdev_uuid_is_taken(request->uuid))) {
        g_set_error(error, VGPU_ERROR, VGPU_ERROR_INVALID_ARGS,
                    "the UUID %s is taken by another mdev: choose another", request->uuid);
        return FALSE;
    }
    *ret_name = g_steal_pointer(&name);
    return TRUE;
}

gboolean
vgpu_broker_check(VgpuBroker *broker, const VgpuRequest *request, char **ret_name, GError **error)
{
    VgpuHost host;

    if (!vgpu_broker_look(broker, FALSE, &host, error))
        return FALSE;
    vgpu_broker_want_names(broker);
    return broker_check_on(broker, &host, request, ret_name, error);
}

GVariant *
vgpu_broker_plan(VgpuBroker *broker, const VgpuRequest *request, GError **error)
{
    g_autofree char *name = NULL;
    g_autoptr(GHashTable) reasons = NULL;
    VgpuCandidate candidate;
    VgpuHost host;
    gboolean found;

    if (!vgpu_broker_look(broker, FALSE, &host, error) ||
        !broker_check_on(broker, &host, request, &name, error))
        return NULL;
    vgpu_broker_want_names(broker);
    found = vgpu_placement_choose(&host, request, name, broker_policy(broker), NULL, &candidate, &reasons);
    return vgpu_describe_plan(&host, request, name, found ? &candidate : NULL, reasons);
}
