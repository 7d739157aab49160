/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "hold.h"

#include "agent.h"
#include "failure.h"
#include "request.h"
#include "settle.h"
#include "value.h"
#include "watch.h"

struct VgpuHold {
    const VgpuInvocation *invocation;
    sd_bus *bus;
    sd_event *event;
    VgpuWatch *watch;
    char *self; /* our unique name */
    GPtrArray *held;
    int verdict;

    bool following, service_gone, cut_off, ended;
    const char *consequence;
    void (*on_end)(VgpuHold *hold, void *data);
    void *data;
};

static void
held_free(void *data)
{
    VgpuHeld *held = data;
    g_free(held->id);
    g_variant_unref(held->assignment);
    g_free(held);
}

static void
end_if_empty(VgpuHold *hold)
{
    if (hold->ended || (hold->held->len > 0 && !hold->cut_off))
        return;
    hold->ended = true;
    hold->on_end(hold, hold->data);
}

static VgpuHeld *
find(VgpuHold *hold, const char *id)
{
    for (unsigned i = 0; i < hold->held->len; i++) {
        VgpuHeld *held = hold->held->pdata[i];
        if (!g_strcmp0(held->id, id))
            return held;
    }
    return NULL;
}

/* @held is ours no more, for @reason. */
static void
drop(VgpuHold *hold, VgpuHeld *held, const char *reason, int verdict)
{
    g_autofree char *profile = vgpu_value_of(held->assignment, "Profile");
    g_autofree char *device = vgpu_value_of(held->assignment, "Device");

    vgpu_say("the vGPU %s on %s, assignment %s, %s%s", profile ? profile : "of unknown profile",
             device ? device : "an unknown device", held->id, reason, hold->consequence);
    hold->verdict = MAX(hold->verdict, verdict);
    g_ptr_array_remove(hold->held, held);
}

static void
on_removed(const char *id, const char *reason, void *data)
{
    VgpuHold *hold = data;
    VgpuHeld *held = find(hold, id);

    if (!held || !hold->following)
        return;
    g_autofree char *text = g_strdup_printf("is no longer assigned (%s)", reason);
    drop(hold, held, text, g_strcmp0(reason, "released") ? VGPU_EXIT_FAILED : VGPU_EXIT_DONE);
    end_if_empty(hold);
}

static GVariant *
row_of_id(GVariant *rows, const char *id)
{
    GVariantIter iter;
    GVariant *row;

    g_variant_iter_init(&iter, rows);
    while ((row = g_variant_iter_next_value(&iter))) {
        if (!g_strcmp0(vgpu_value_string(row, "Id"), id))
            return row;
        g_variant_unref(row);
    }
    return NULL;
}

/* Compares what is held with the service's list. What is missing there was signalled, except by a service
 * that is new and knows nothing of it. */
static void
compare(VgpuHold *hold, GVariant *rows, bool service_is_new)
{
    for (unsigned i = hold->held->len; i-- > 0;) {
        VgpuHeld *held = hold->held->pdata[i];
        g_autoptr(GVariant) row = row_of_id(rows, held->id);
        const char *owner = row ? vgpu_value_string(row, "Owner") : NULL;
        if (!row && service_is_new) {
            drop(hold, held, "is unknown to the service since it is back", VGPU_EXIT_FAILED);
        } else if (owner && g_strcmp0(owner, hold->self)) {
            g_autofree char *text = g_strdup_printf("was taken over by %s", owner);
            drop(hold, held, text, VGPU_EXIT_DONE);
        }
    }
    end_if_empty(hold);
}

static int
on_rows(sd_bus_message *reply, void *data, sd_bus_error *failed)
{
    g_autoptr(GVariant) rows = vgpu_bus_read_property(reply, "aa{sv}");
    if (rows)
        compare(data, rows, false);
    return 0;
}

static int
on_rows_of_new_service(sd_bus_message *reply, void *data, sd_bus_error *failed)
{
    g_autoptr(GVariant) rows = vgpu_bus_read_property(reply, "aa{sv}");
    if (rows)
        compare(data, rows, true);
    return 0;
}

static void
on_changed(const char *property, GVariant *value, void *data)
{
    VgpuHold *hold = data;
    if (hold->following && !g_strcmp0(property, "Assignments"))
        vgpu_bus_get_async(hold->bus, "Assignments", on_rows, hold);
}

static void
on_service(bool there, void *data)
{
    VgpuHold *hold = data;

    /* A service that was started for our first call is not news. */
    if (!hold->following || there != hold->service_gone)
        return;
    hold->service_gone = !there;
    if (!hold->invocation->quiet)
        vgpu_say(there ? "the vGPU service is back"
                       : "the vGPU service has gone: what it assigned stays so until it is back");
    if (there)
        vgpu_bus_get_async(hold->bus, "Assignments", on_rows_of_new_service, hold);
}

static void
on_disconnected(void *data)
{
    VgpuHold *hold = data;

    if (!hold->following)
        return;
    hold->cut_off = true;
    hold->verdict = VGPU_EXIT_FAILED;
    vgpu_say("the connection to the bus is lost, and what was held with it%s", hold->consequence);
    end_if_empty(hold);
}

static const VgpuWatchFuncs watch_funcs = {on_removed, on_changed, on_service, on_disconnected};

VgpuHold *
vgpu_hold_new(const VgpuInvocation *invocation, GError **error)
{
    g_autoptr(VgpuHold) hold = g_new0(VgpuHold, 1);
    const char *self = NULL;

    hold->invocation = invocation;
    hold->held = g_ptr_array_new_with_free_func(held_free);
    hold->bus = vgpu_bus_open(invocation->host, error);
    if (!hold->bus)
        return NULL;
    hold->watch = vgpu_watch_new(hold->bus, &watch_funcs, hold, error);
    if (!hold->watch)
        return NULL;
    int r = sd_bus_get_unique_name(hold->bus, &self);
    if (r >= 0)
        r = sd_event_new(&hold->event);
    if (r >= 0)
        r = sd_bus_attach_event(hold->bus, hold->event, SD_EVENT_PRIORITY_NORMAL);
    if (r < 0) {
        vgpu_bus_set_error(error, NULL, r);
        return NULL;
    }
    hold->self = g_strdup(self);
    return g_steal_pointer(&hold);
}

static void
disconnect(VgpuHold *hold)
{
    g_clear_pointer(&hold->watch, vgpu_watch_free);
    if (hold->bus)
        sd_bus_detach_event(hold->bus);
    g_clear_pointer(&hold->bus, sd_bus_flush_close_unref);
}

void
vgpu_hold_free(VgpuHold *hold)
{
    if (!hold)
        return;
    disconnect(hold);
    g_clear_pointer(&hold->event, sd_event_unref);
    g_ptr_array_unref(hold->held);
    g_free(hold->self);
    g_free(hold);
}

static void
keep(VgpuHold *hold, const char *id, GVariant *assignment)
{
    VgpuHeld *held = g_new0(VgpuHeld, 1);
    held->id = g_strdup(id);
    held->assignment = g_variant_ref(assignment);
    g_ptr_array_add(hold->held, held);
}

bool
vgpu_hold_assign(VgpuHold *hold, GError **error)
{
    g_autoptr(sd_bus_message) call = vgpu_request_new(hold->bus, "Assign", hold->invocation, error);
    g_autoptr(sd_bus_message) reply = call ? vgpu_bus_call(hold->bus, call, error) : NULL;
    g_autoptr(GVariant) id = reply ? vgpu_bus_read(reply, "s", error) : NULL;
    g_autoptr(GVariant) assignment = id ? vgpu_bus_read(reply, "a{sv}", error) : NULL;

    if (assignment)
        keep(hold, g_variant_get_string(id, NULL), assignment);
    return assignment;
}

bool
vgpu_hold_adopt(VgpuHold *hold, const char *id, GError **error)
{
    bool may_ask = !hold->invocation->no_ask_password;
    g_autoptr(sd_bus_message) call = vgpu_bus_new_call(hold->bus, "Adopt", may_ask, error);
    if (!call)
        return false;
    int r = sd_bus_message_append(call, "s", id);
    if (r < 0) {
        vgpu_bus_set_error(error, NULL, r);
        return false;
    }
    g_autoptr(sd_bus_message) reply = vgpu_bus_call(hold->bus, call, error);
    g_autoptr(GVariant) assignment = reply ? vgpu_bus_read(reply, "a{sv}", error) : NULL;
    if (assignment)
        keep(hold, id, assignment);
    return assignment;
}

GPtrArray *
vgpu_hold_held(const VgpuHold *hold)
{
    return hold->held;
}

sd_event *
vgpu_hold_event(const VgpuHold *hold)
{
    return hold->event;
}

void
vgpu_hold_follow(VgpuHold *hold, const char *consequence, void (*ended)(VgpuHold *hold, void *data),
                 void *data)
{
    hold->consequence = consequence;
    hold->on_end = ended;
    hold->data = data;
    hold->following = true;
}

int
vgpu_hold_verdict(const VgpuHold *hold)
{
    return hold->verdict;
}

int
vgpu_hold_end(VgpuHold *hold)
{
    g_autoptr(VgpuSettle) settle = NULL;

    /* Another ssh for a second connection may ask for a password: there nobody waits. */
    if (hold->held->len > 0 && !hold->cut_off && !hold->invocation->host)
        settle = vgpu_settle_new(hold->self, hold->held);
    disconnect(hold);
    return settle ? vgpu_settle_wait(settle) : VGPU_EXIT_DONE;
}
