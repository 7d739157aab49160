/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "agent.h"
#include "bus.h"
#include "error.h"
#include "failure.h"
#include "value.h"

/* Calls @member, which takes one text and returns nothing. */
static bool
call_with_text(const VgpuInvocation *invocation, sd_bus *bus, const char *member, const char *text,
               GError **error)
{
    g_autoptr(sd_bus_message) call = vgpu_bus_new_call(bus, member, !invocation->no_ask_password, error);
    if (!call)
        return false;
    int r = sd_bus_message_append(call, "s", text);
    if (r < 0) {
        vgpu_bus_set_error(error, NULL, r);
        return false;
    }
    g_autoptr(sd_bus_message) reply = vgpu_bus_call(bus, call, error);
    return reply;
}

/* The uid that the bus knows us by: over ssh it is not the local one. */
static bool
own_uid(sd_bus *bus, uid_t *ret_uid, GError **error)
{
    g_autoptr(sd_bus_creds) creds = NULL;
    const char *self;

    int r = sd_bus_get_unique_name(bus, &self);
    if (r >= 0)
        r = sd_bus_get_name_creds(bus, self, SD_BUS_CREDS_EUID, &creds);
    if (r >= 0)
        r = sd_bus_creds_get_euid(creds, ret_uid);
    if (r < 0)
        vgpu_bus_set_error(error, NULL, r);
    return r >= 0;
}

/* The ids that --all means: those of the calling user, for root everybody's. */
static GPtrArray *
all_ids(sd_bus *bus, GError **error)
{
    g_autoptr(GPtrArray) ids = g_ptr_array_new_with_free_func(g_free);
    g_autoptr(GVariant) rows = vgpu_bus_get(bus, "Assignments", "aa{sv}", error);
    uid_t self;

    if (!rows || !own_uid(bus, &self, error))
        return NULL;
    for (size_t i = 0; i < g_variant_n_children(rows); i++) {
        g_autoptr(GVariant) row = g_variant_get_child_value(rows, i);
        const char *id = vgpu_value_string(row, "Id");
        guint32 uid;
        if (id && (self == 0 || (g_variant_lookup(row, "UID", "u", &uid) && uid == self)))
            g_ptr_array_add(ids, g_strdup(id));
    }
    return g_steal_pointer(&ids);
}

/* Releases one after the other; says what fails, and goes on. The highest exit status. */
static int
release_each(const VgpuInvocation *invocation, sd_bus *bus, GPtrArray *ids)
{
    int worst = VGPU_EXIT_DONE;

    for (unsigned i = 0; i < ids->len; i++) {
        g_autoptr(GError) error = NULL;
        if (call_with_text(invocation, bus, "Release", ids->pdata[i], &error))
            continue;
        /* What ended between the list and the call is what --all wants. */
        if (invocation->all && g_error_matches(error, VGPU_ERROR, VGPU_ERROR_UNKNOWN_ASSIGNMENT))
            continue;
        vgpu_say("%s", error->message);
        worst = MAX(worst, vgpu_exit_status(error));
    }
    return worst;
}

int
vgpu_release_command(const VgpuInvocation *invocation, GError **error)
{
    g_autoptr(sd_bus) bus = vgpu_bus_open(invocation->host, error);
    if (!bus)
        return VGPU_EXIT_FAILED;
    g_autoptr(GPtrArray) ids = invocation->all ? all_ids(bus, error) : g_ptr_array_ref(invocation->arguments);
    if (!ids)
        return VGPU_EXIT_FAILED;
    VgpuAgent *agent = ids->len ? vgpu_agent_start(invocation) : NULL;
    int worst = release_each(invocation, bus, ids);

    vgpu_agent_stop(agent);
    return worst;
}

int
vgpu_reclaim_command(const VgpuInvocation *invocation, GError **error)
{
    g_autoptr(sd_bus) bus = vgpu_bus_open(invocation->host, error);
    VgpuAgent *agent = bus ? vgpu_agent_start(invocation) : NULL;
    const char *device = vgpu_invocation_first(invocation);
    bool done = bus && call_with_text(invocation, bus, "Reclaim", device, error);

    vgpu_agent_stop(agent);
    return done ? VGPU_EXIT_DONE : VGPU_EXIT_FAILED;
}
