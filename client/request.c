/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "request.h"

static int
append_options(sd_bus_message *call, const VgpuInvocation *invocation)
{
    const struct {
        const char *key, *value;
    } texts[] = {
        {"gpu", invocation->gpu},   {"device", invocation->device}, {"placement", invocation->placement},
        {"uuid", invocation->uuid}, {"label", invocation->label},
    };

    int r = sd_bus_message_open_container(call, 'a', "{sv}");
    for (size_t i = 0; r >= 0 && i < G_N_ELEMENTS(texts); i++)
        if (texts[i].value)
            r = sd_bus_message_append(call, "{sv}", texts[i].key, "s", texts[i].value);
    if (r >= 0 && invocation->has_numa_node)
        r = sd_bus_message_append(call, "{sv}", "numa-node", "i", invocation->numa_node);
    return r < 0 ? r : sd_bus_message_close_container(call);
}

sd_bus_message *
vgpu_request_new(sd_bus *bus, const char *member, const VgpuInvocation *invocation, GError **error)
{
    bool may_ask = !invocation->no_ask_password;
    g_autoptr(sd_bus_message) call = vgpu_bus_new_call(bus, member, may_ask, error);
    if (!call)
        return NULL;
    int r = sd_bus_message_append(call, "s", vgpu_invocation_first(invocation));
    if (r >= 0)
        r = append_options(call, invocation);
    if (r < 0) {
        vgpu_bus_set_error(error, NULL, r);
        return NULL;
    }
    return g_steal_pointer(&call);
}
