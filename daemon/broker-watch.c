/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What is done about an assignment over time: its node is watched, and who has it open is looked up for
 * people. */
#include "broker-internal.h"

void
broker_guard_free(gpointer data)
{
    Guard *guard = data;

    g_clear_handle_id(&guard->timer, g_source_remove);
    g_clear_pointer(&guard->watch, vgpu_watch_free);
    g_free(guard->id);
    g_free(guard);
}

Guard *
broker_guard(VgpuBroker *broker, const VgpuAssignment *assignment)
{
    Guard *guard = g_hash_table_lookup(broker->guards, assignment->id);

    if (!guard) {
        guard = g_new0(Guard, 1);
        guard->broker = broker;
        guard->id = g_strdup(assignment->id);
        g_hash_table_insert(broker->guards, guard->id, guard);
    }
    return guard;
}

/* Who has a device open, for people. */
typedef struct {
    VgpuBroker *broker;
    char *id;
    char *nodes[3];
    char **holders;
} HolderScan;

static void
holders_job(VgpuJob *job, gpointer data)
{
    HolderScan *look = data;

    look->holders = vgpu_usage_holders((const char *const *)look->nodes, NULL);
}

static void
on_holders(gpointer data, gpointer user_data)
{
    HolderScan *look = data;
    VgpuAssignment *assignment = vgpu_assignments_get(look->broker->assignments, look->id);
    gboolean again = FALSE;
    gboolean missed = GPOINTER_TO_INT(user_data);

    if (assignment && !assignment->busy &&
        (assignment->state == VGPU_STATE_IN_USE || (missed && assignment->state == VGPU_STATE_ASSIGNED))) {
        Guard *guard = broker_guard(look->broker, assignment);

        if (missed)
            vgpu_assignment_event(assignment, look->holders[0] ? VGPU_EVENT_OPENED : VGPU_EVENT_CLOSED, NULL);
        g_strfreev(assignment->holders);
        assignment->holders = g_steal_pointer(&look->holders);
        if (guard->watch)
            vgpu_watch_set_holders(guard->watch, (const char *const *)assignment->holders);
        look->broker->hooks->changed(look->broker->user_data);
    }
    if (assignment) {
        Guard *guard = broker_guard(look->broker, assignment);

        again = guard->look_again && assignment->state == VGPU_STATE_IN_USE;
        missed = guard->look_missed;
        guard->looking = FALSE;
        guard->look_again = FALSE;
        guard->look_missed = FALSE;
    }
    if (again)
        broker_look_for_holders(look->broker, assignment, missed);
    g_strfreev(look->holders);
    g_free(look->nodes[0]);
    g_free(look->nodes[1]);
    g_free(look->id);
    g_free(look);
}

void
broker_look_for_holders(VgpuBroker *broker, const VgpuAssignment *assignment, gboolean missed)
{
    HolderScan *look;
    Guard *guard = broker_guard(broker, assignment);
    guint n = 0;

    /* One at a time: whoever opens and closes in a loop keeps one thread busy, not a thousand. */
    guard->look_again = guard->looking;
    guard->look_missed |= guard->looking && missed;
    if (guard->looking)
        return;
    guard->looking = TRUE;
    look = g_new0(HolderScan, 1);

    look->broker = broker;
    look->id = g_strdup(assignment->id);
    if (assignment->device->group_node)
        look->nodes[n++] = g_strdup(assignment->device->group_node);
    if (assignment->device->device_node)
        look->nodes[n] = g_strdup(assignment->device->device_node);
    vgpu_worker_run(broker->worker, NULL, holders_job, look, on_holders, GINT_TO_POINTER(missed));
}

static void
on_opened_or_closed(VgpuWatchEvent event, gpointer user_data)
{
    Guard *guard = user_data;
    VgpuBroker *broker = guard->broker;
    VgpuAssignment *assignment = vgpu_assignments_get(broker->assignments, guard->id);
    VgpuState before = assignment->state;
    VgpuDuty duty;

    /* One that is being assigned without being busy waits for its clear: see clear_what_is_taken(). */
    if (assignment->busy || assignment->state == VGPU_STATE_ASSIGNING) {
        guard->closed |=
            event == VGPU_WATCH_CLOSED || (event == VGPU_WATCH_HOLDER_ENDED && assignment->owner_gone);
        guard->ended |= event == VGPU_WATCH_HOLDER_ENDED;
        return;
    }
    if (event == VGPU_WATCH_HOLDER_ENDED && assignment->state == VGPU_STATE_IN_USE) {
        broker_look_for_holders(broker, assignment, TRUE);
        return;
    }
    duty = vgpu_assignment_event(assignment,
                                 event == VGPU_WATCH_OPENED ? VGPU_EVENT_OPENED : VGPU_EVENT_CLOSED, NULL);
    if (event != VGPU_WATCH_OPENED)
        g_clear_pointer(&assignment->holders, g_strfreev);
    if (event == VGPU_WATCH_CLOSED && guard->looking) /* what is being found is older than this */
        guard->look_again = guard->look_missed = TRUE;
    if (assignment->state != before)
        broker->hooks->changed(broker->user_data);
    if (assignment->state != before && assignment->state == VGPU_STATE_IN_USE)
        broker_look_for_holders(broker, assignment, FALSE);
    if (duty == VGPU_DUTY_CLEAR) {
        guard->pause_ms = 0; /* a new event starts the pauses over */
        broker_clear(broker, assignment, broker_own_ending(assignment), NULL, NULL);
    }
}

void
broker_watch(VgpuBroker *broker, VgpuAssignment *assignment)
{
    Guard *guard = broker_guard(broker, assignment);

    guard->closed = FALSE;
    guard->ended = FALSE;
    g_clear_pointer(&guard->watch, vgpu_watch_free);
    if (assignment->device->group_node)
        guard->watch =
            vgpu_watch_new(broker->event, assignment->device->group_node, on_opened_or_closed, guard);
}
