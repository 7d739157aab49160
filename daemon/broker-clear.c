/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Taking back: take the device, withdraw access, clear, read back, let go, drop the record. */
#include "broker-internal.h"

#include "error.h"
#include "journal.h"

#include <errno.h>
#include <string.h>

#define FIRST_PAUSE_MS 5
#define LAST_PAUSE_MS (30 * 1000)
#define CLEAR_FOR_US (15 * G_USEC_PER_SEC)
#define CLEAR_PAUSE_MS 500 /* between two writes of one clear, at the most */

/* One operation; its id is looked up again after each step. */
typedef struct {
    VgpuBroker *broker;
    char *id;
    VgpuEnding ending;
    VgpuBrokerDone done;
    gpointer user_data;
    gint64 began;
    guint pause_ms;

    /* A worker's, while it works: */
    const VgpuFramework *framework;
    VgpuDevice *expected; /* what the record says */
    gboolean just_set;    /* by the call that took it: what cannot be read there is ours */
    gboolean was_failed;  /* and stays so, unless it is cleared */
    gboolean written;     /* by an earlier run of the service, which did not live to hear the answer */
    VgpuTarget *target;
    VgpuTake *take;
    VgpuAnswer answer;
    char *still;    /* the type that was read after a clear */
    gboolean unset; /* nothing is set there any more */
    gboolean lost;  /* it is another device now */
    char **holders;
    GError *error;
} Clear;

static void
clear_free(Clear *clear)
{
    g_clear_pointer(&clear->expected, vgpu_device_free);
    g_clear_pointer(&clear->target, vgpu_target_free);
    g_clear_pointer(&clear->take, vgpu_take_free);
    g_clear_error(&clear->error);
    g_strfreev(clear->holders);
    g_free(clear->still);
    g_free(clear->id);
    g_free(clear);
}

/* Tells whoever asked, and ends the operation. */
static void
finish(Clear *clear, const VgpuAssignment *assignment, const GError *error)
{
    if (clear->done)
        clear->done(assignment, error, clear->user_data);
    clear_free(clear);
}

static void
finish_busy(Clear *clear, const VgpuAssignment *assignment)
{
    g_autoptr(GError) error = NULL;

    vgpu_assignment_set_busy(assignment, &error);
    finish(clear, NULL, error);
}

VgpuEnding
broker_own_ending(const VgpuAssignment *assignment)
{
    return assignment->ending != VGPU_ENDING_NONE ? assignment->ending : VGPU_ENDING_OWNER_VANISHED;
}

static gboolean
on_try_again(gpointer user_data)
{
    Guard *guard = user_data;
    VgpuAssignment *assignment = vgpu_assignments_get(guard->broker->assignments, guard->id);

    guard->timer = 0;
    broker_clear(guard->broker, assignment, broker_own_ending(assignment), NULL, NULL);
    return G_SOURCE_REMOVE;
}

void
broker_clear_later(VgpuBroker *broker, VgpuAssignment *assignment)
{
    Guard *guard = broker_guard(broker, assignment);

    guard->pause_ms = CLAMP(guard->pause_ms * 2, FIRST_PAUSE_MS, LAST_PAUSE_MS);
    g_clear_handle_id(&guard->timer, g_source_remove);
    guard->timer = g_timeout_add(guard->pause_ms, on_try_again, guard);
}

/* The nodes as they are now must be those of the record, before they are opened and after. */
static void
prove_unused(Clear *clear, const char *name)
{
    const VgpuDevice *expected = clear->expected;
    const VgpuDir *vfio = clear->framework->group_before_set ? clear->target->slot : clear->target->device;
    g_autoptr(VgpuDevice) now = vgpu_device_new(expected->slot, expected->uuid);

    vgpu_device_read_nodes(now, vfio, clear->target->device);
    clear->lost =
        expected->node_inode != 0 && ((now->node_inode != 0 && now->node_inode != expected->node_inode) ||
                                      now->iommu_group != expected->iommu_group);
    if (clear->lost)
        return;
    clear->take = vgpu_usage_take(name, now->iommu_group, now->device_node,
                                  !clear->framework->group_before_set, &clear->holders, &clear->error);
    if (!clear->take)
        return;
    clear->lost = vgpu_iommu_group(vfio) != now->iommu_group || clear->take->node_inode != now->node_inode;
    if (clear->lost)
        g_clear_pointer(&clear->take, vgpu_take_free);
}

/* In a worker: opens all that belongs to the record and proves that it is the same device, unused. */
static void
take_job(VgpuJob *job, gpointer data)
{
    Clear *clear = data;
    const VgpuDevice *expected = clear->expected;
    g_autoptr(GError) error = NULL;
    const char *name = expected->uuid ? expected->uuid : expected->slot;
    g_autofree char *type_id = NULL;

    clear->target = vgpu_target_open(clear->framework, expected->slot, expected->uuid, &error);
    if (!clear->target && error->code != ENOENT && error->code != ENODEV) {
        clear->error = g_error_new(VGPU_ERROR, VGPU_ERROR_USAGE_UNKNOWN, "%s cannot be proved unused: %s",
                                   name, error->message);
        return;
    }
    if (!clear->target || !clear->target->device) {
        clear->unset = clear->target != NULL; /* an mdev that is no more */
        clear->lost = TRUE;
        return;
    }
    type_id = clear->framework->read(clear->target, &error);
    if (error && error->code != ENOENT && error->code != ENODEV) {
        clear->error = g_error_new(VGPU_ERROR, VGPU_ERROR_USAGE_UNKNOWN, "%s cannot be proved unused: %s",
                                   name, error->message);
        return;
    }
    clear->unset = !type_id && !error;
    clear->lost = g_strcmp0(type_id, expected->type_id) != 0 ||
                  (expected->inode != 0 && expected->inode != clear->target->device->inode);
    if (clear->lost)
        return;
    prove_unused(clear, name);
}

/* Its turn to be written may have come long after it was taken. That keeps VMs out, but nobody who writes to
 * /sys: what was cleared meanwhile needs no write, and what was set meanwhile must not get one. */
static gboolean
needs_write(Clear *clear)
{
    g_autoptr(GError) unreadable = NULL;
    g_autofree char *type_id = clear->framework->read(clear->target, &unreadable);

    if (unreadable) {
        /* Nothing has been written yet, by this run. */
        clear->answer = clear->written ? VGPU_ANSWER_FAILED : VGPU_ANSWER_RETRY;
        if (unreadable->code == ENOENT || unreadable->code == ENODEV)
            clear->answer = VGPU_ANSWER_GONE;
        if (!clear->just_set)
            clear->error = g_steal_pointer(&unreadable);
        return clear->just_set;
    }
    clear->answer = type_id ? VGPU_ANSWER_GONE : VGPU_ANSWER_DONE;
    if (g_strcmp0(type_id, clear->expected->type_id) != 0)
        return FALSE;
    if (!clear->written)
        return TRUE;
    clear->answer = VGPU_ANSWER_FAILED;
    clear->error =
        g_error_new(VGPU_SYSFS_ERROR, EIO,
                    "the service was killed while it was cleared, and must not ask its driver twice");
    return FALSE;
}

/* In a worker: the write, and what stands there afterwards. */
static void
clear_job(VgpuJob *job, gpointer data)
{
    Clear *clear = data;
    VgpuStore *store = clear->broker->store;
    int keep_fd = clear->take ? clear->take->fd : -1;
    g_autoptr(GError) unreadable = NULL;
    gboolean written;

    if (clear->began == 0)
        clear->began = g_get_monotonic_time(); /* not before its turn has come */
    g_clear_error(&clear->error);
    g_clear_pointer(&clear->still, g_free);
    if (!needs_write(clear))
        return;
    if (clear->framework->clear_once && !vgpu_store_mark(store, clear->id, &clear->error)) {
        clear->answer = VGPU_ANSWER_RETRY; /* nothing was written */
        return;
    }
    written = clear->framework->clear(clear->target, job, keep_fd, &clear->error);
    clear->still = clear->framework->read(clear->target, &unreadable);
    if (written && !clear->still && !unreadable) {
        clear->answer = VGPU_ANSWER_DONE;
    } else if (written) {
        clear->answer = VGPU_ANSWER_FAILED;
        clear->error = unreadable ? g_steal_pointer(&unreadable)
                                  : g_error_new(VGPU_SYSFS_ERROR, EIO, "%s was cleared but still reads %s",
                                                clear->target->device->path, clear->still);
    } else if (unreadable && clear->error->code == EPERM) {
        clear->answer = VGPU_ANSWER_FAILED; /* the two meanings of EPERM cannot be told apart */
    } else {
        clear->answer = vgpu_answer_to_clear(clear->error->code, clear->still);
    }
    if (clear->answer != VGPU_ANSWER_FAILED) /* that one stays until it is recorded */
        vgpu_store_unmark(store, clear->id);
}

static void on_cleared(gpointer data, gpointer user_data);

static void
start_clear_job(Clear *clear, VgpuAssignment *assignment)
{
    assignment->writing = TRUE;
    vgpu_worker_run(clear->broker->worker, assignment->card, clear_job, clear, on_cleared, NULL);
}

static void
lose(Clear *clear, VgpuAssignment *assignment)
{
    g_autoptr(GError) error = NULL;
    VgpuBroker *broker = clear->broker;

    if (clear->ending == VGPU_ENDING_RECLAIMED)
        g_set_error(&error, VGPU_ERROR, VGPU_ERROR_INVALID_ARGS,
                    "%s was cleared or made anew by somebody else meanwhile, so nothing was reclaimed",
                    vgpu_assignment_device_name(assignment));
    else
        g_set_error(&error, VGPU_ERROR, VGPU_ERROR_UNKNOWN_ASSIGNMENT,
                    "%s is gone or was made anew, so assignment %s is no more",
                    vgpu_assignment_device_name(assignment), assignment->id);
    /* What was being cleared when the service was stopped, and is cleared now, has ended as it should. */
    if (clear->unset && assignment->state == VGPU_STATE_RELEASING)
        broker_end(broker, assignment, broker_own_ending(assignment));
    else if (vgpu_assignment_event(assignment, VGPU_EVENT_LOST, NULL) == VGPU_DUTY_LOSE)
        broker_end(broker, assignment, VGPU_ENDING_LOST);
    else {
        broker_withdraw_and_log(assignment);
        broker_forget(broker, assignment);
    }
    finish(clear, NULL, error);
}

/* Back to where it was: nothing has changed, and somebody is told why. */
static void
give_back(Clear *clear, VgpuAssignment *assignment, VgpuEvent event)
{
    VgpuBroker *broker = clear->broker;
    Guard *guard = broker_guard(broker, assignment);
    g_autoptr(GError) error = g_steal_pointer(&clear->error);
    VgpuDuty duty;

    if (assignment->foreign) {
        broker_forget(broker, assignment);
        finish(clear, NULL, error);
        return;
    }
    duty = vgpu_assignment_event(assignment, event, NULL);
    g_strfreev(assignment->holders);
    assignment->holders = g_steal_pointer(&clear->holders);
    if (guard->watch)
        vgpu_watch_set_holders(guard->watch, (const char *const *)assignment->holders);
    if (assignment->state == VGPU_STATE_LINGERING && !guard->said_lingering) {
        guard->said_lingering = TRUE;
        vgpu_journal_change(VGPU_MESSAGE_LINGERING, assignment, error->message, NULL);
    }
    if (assignment->state == VGPU_STATE_IN_USE || assignment->state == VGPU_STATE_ASSIGNED) {
        g_autoptr(GError) denied = NULL;

        assignment->ending = VGPU_ENDING_NONE;
        /* A refusal leaves the caller's access as it was. */
        if (event == VGPU_EVENT_CLEAR_IN_USE && !broker_grant(assignment, &denied))
            g_warning("%s", denied->message);
    }
    if (guard->closed && assignment->state != VGPU_STATE_RELEASING)
        guard->pause_ms = 0;
    /* With an owner nobody waits for the close: it is only shown. */
    if ((duty == VGPU_DUTY_CLEAR_LATER && assignment->state != VGPU_STATE_IN_USE) ||
        (assignment->state == VGPU_STATE_FAILED && assignment->may_repeat))
        broker_clear_later(broker, assignment);
    else if (guard->closed && assignment->state == VGPU_STATE_IN_USE)
        vgpu_assignment_event(assignment, VGPU_EVENT_CLOSED, NULL);
    if (guard->ended && assignment->state == VGPU_STATE_IN_USE)
        broker_look_for_holders(broker, assignment, TRUE);
    guard->closed = FALSE;
    guard->ended = FALSE;
    broker_save(broker);
    broker_changed(broker);
    finish(clear, assignment, error);
}

static void
fail(Clear *clear, VgpuAssignment *assignment, VgpuEvent event)
{
    VgpuBroker *broker = clear->broker;
    g_autoptr(GError) error = NULL;

    g_free(assignment->error);
    assignment->error = g_strdup(clear->error->message);
    g_set_error(&error, VGPU_ERROR, VGPU_ERROR_DEVICE_FAILED, "%s could not be cleared: %s",
                vgpu_assignment_device_name(assignment), assignment->error);
    g_clear_pointer(&clear->take, vgpu_take_free);
    if (vgpu_assignment_event(assignment, event, NULL) == VGPU_DUTY_CLEAR_LATER)
        broker_clear_later(broker, assignment);
    vgpu_journal_change(VGPU_MESSAGE_FAILED, assignment, assignment->error, "failed");
    broker_watch(broker, assignment);
    broker_guard(broker, assignment)->written = FALSE;
    if (broker_save(broker))
        vgpu_store_unmark(broker->store, assignment->id);
    broker_changed(broker);
    finish(clear, assignment, error);
}

/* What has failed is not written again because its driver has refused another try: that somebody asked for.
 */
static void
stay_failed(Clear *clear, VgpuAssignment *assignment)
{
    VgpuBroker *broker = clear->broker;
    g_autoptr(GError) error = g_steal_pointer(&clear->error);
    gboolean may_repeat = assignment->may_repeat;

    vgpu_assignment_event(assignment, VGPU_EVENT_CLEAR_FAILED, NULL);
    assignment->may_repeat = may_repeat;
    if (assignment->may_repeat)
        broker_clear_later(broker, assignment);
    broker_save(broker);
    broker_changed(broker);
    finish(clear, assignment, error);
}

static gboolean
on_clear_again(gpointer data)
{
    Clear *clear = data;
    VgpuAssignment *assignment = vgpu_assignments_get(clear->broker->assignments, clear->id);

    if (clear->broker->stopped)
        return G_SOURCE_REMOVE; /* the next start finds it releasing */
    start_clear_job(clear, assignment);
    return G_SOURCE_REMOVE;
}

static void
on_cleared(gpointer data, gpointer user_data)
{
    Clear *clear = data;
    VgpuBroker *broker = clear->broker;
    VgpuAssignment *assignment = vgpu_assignments_get(broker->assignments, clear->id);

    if (clear->answer == VGPU_ANSWER_RETRY && g_get_monotonic_time() - clear->began < CLEAR_FOR_US) {
        clear->pause_ms = CLAMP(clear->pause_ms * 2, FIRST_PAUSE_MS, CLEAR_PAUSE_MS);
        g_timeout_add(clear->pause_ms, on_clear_again, clear);
        return;
    }
    assignment->busy = FALSE;
    assignment->writing = FALSE;
    switch (clear->answer) {
    case VGPU_ANSWER_DONE: {
        VgpuDuty duty = vgpu_assignment_event(assignment, VGPU_EVENT_CLEARED, NULL);

        g_clear_pointer(&clear->take, vgpu_take_free);
        if (duty == VGPU_DUTY_FORGET) {
            broker_forget(broker, assignment);
            finish(clear, NULL, NULL);
        } else {
            VgpuBrokerDone done = g_steal_pointer(&clear->done);
            gpointer asker = clear->user_data;

            /* The answer first: the signal is for those who did not ask. */
            if (done)
                done(assignment, NULL, asker);
            broker_end(broker, assignment, clear->ending);
            finish(clear, NULL, NULL);
        }
        break;
    }
    case VGPU_ANSWER_IN_USE: {
        g_autoptr(GError) refused = g_steal_pointer(&clear->error);

        clear->error = g_error_new(VGPU_ERROR, VGPU_ERROR_IN_USE, "%s is in use, says its driver: %s",
                                   vgpu_assignment_device_name(assignment), refused->message);
        g_clear_pointer(&clear->take, vgpu_take_free);
        broker_watch(broker, assignment); /* our own open and close are no news */
        if (clear->was_failed)
            stay_failed(clear, assignment);
        else
            give_back(clear, assignment, VGPU_EVENT_CLEAR_IN_USE);
        break;
    }
    case VGPU_ANSWER_GONE:
        lose(clear, assignment);
        break;
    case VGPU_ANSWER_RETRY:
        fail(clear, assignment,
             clear->was_failed && !assignment->may_repeat ? VGPU_EVENT_CLEAR_FAILED : VGPU_EVENT_CLEAR_BUSY);
        break;
    default:
        fail(clear, assignment, VGPU_EVENT_CLEAR_FAILED);
    }
}

/* It is ours alone now: put that on disk, then clear. */
static void
clear_what_is_taken(Clear *clear, VgpuAssignment *assignment)
{
    VgpuBroker *broker = clear->broker;
    VgpuState before = assignment->state;
    g_autoptr(GError) error = NULL;

    assignment->ending = clear->ending;
    vgpu_assignment_event(assignment, VGPU_EVENT_TAKEN, NULL);
    if (!broker_record(broker, &error)) {
        /* Without the record a crash would leave the next owner's device to a stale one. */
        g_warning("%s is not cleared: %s", vgpu_assignment_device_name(assignment), error->message);
        g_clear_pointer(&clear->take, vgpu_take_free);
        assignment->state = before;
        assignment->busy = FALSE;
        if (assignment->foreign) {
            broker_forget(broker, assignment);
            finish(clear, NULL, error);
            return;
        }
        broker_watch(broker, assignment);
        if (assignment->state == VGPU_STATE_FAILED ? assignment->may_repeat
                                                   : !vgpu_assignment_has_owner(assignment))
            broker_clear_later(broker, assignment);
        finish(clear, assignment, error);
        return;
    }
    broker_changed(broker);
    if (!broker_withdraw(assignment, &clear->error)) {
        /* Whoever can still open it would meet the next owner's vGPU. */
        assignment->busy = FALSE;
        fail(clear, assignment, VGPU_EVENT_CLEAR_FAILED);
        return;
    }
    start_clear_job(clear, assignment);
}

static void
on_taken(gpointer data, gpointer user_data)
{
    Clear *clear = data;
    VgpuAssignment *assignment = vgpu_assignments_get(clear->broker->assignments, clear->id);

    broker_guard(clear->broker, assignment)->taking = NULL;
    if (clear->broker->stopped) {
        /* Nothing has changed. */
        finish_busy(clear, assignment);
        return;
    }
    if (clear->take && (clear->done || !vgpu_assignment_has_owner(assignment))) {
        clear_what_is_taken(clear, assignment);
        return;
    }
    assignment->busy = FALSE;
    if (clear->take) {
        /* Adopted meanwhile: there is no reason to clear it any more. */
        g_clear_pointer(&clear->take, vgpu_take_free);
        broker_watch(clear->broker, assignment);
        finish(clear, assignment, NULL);
    } else if (clear->lost) {
        lose(clear, assignment);
    } else {
        give_back(clear, assignment, VGPU_EVENT_FOUND_OPEN);
    }
}

static Clear *
clear_new(VgpuBroker *broker, VgpuAssignment *assignment, VgpuEnding ending, VgpuBrokerDone done,
          gpointer user_data)
{
    Clear *clear = g_new0(Clear, 1);

    clear->broker = broker;
    clear->id = g_strdup(assignment->id);
    clear->ending = ending;
    clear->done = done;
    clear->user_data = user_data;
    clear->framework = assignment->framework;
    clear->expected = vgpu_device_copy(assignment->device);
    clear->was_failed = assignment->state == VGPU_STATE_FAILED;
    clear->written = broker_guard(broker, assignment)->written;
    assignment->busy = TRUE;
    g_clear_handle_id(&broker_guard(broker, assignment)->timer, g_source_remove);
    return clear;
}

void
broker_clear(VgpuBroker *broker, VgpuAssignment *assignment, VgpuEnding ending, VgpuBrokerDone done,
             gpointer user_data)
{
    g_autoptr(GError) error = NULL;
    Guard *guard = broker_guard(broker, assignment);
    Clear *clear = guard->taking;

    if (clear && done && !broker->stopped) {
        guard->taking = NULL;
        clear->done = done;
        clear->user_data = user_data;
        clear->ending = ending;
        return;
    }
    if (assignment->busy || broker->stopped) {
        vgpu_assignment_set_busy(assignment, &error);
        if (done)
            done(NULL, error, user_data);
        return;
    }
    clear = clear_new(broker, assignment, ending, done, user_data);
    guard->taking = done ? NULL : clear;
    vgpu_worker_run(broker->worker, NULL, take_job, clear, on_taken, NULL);
}

void
broker_clear_taken(VgpuBroker *broker, VgpuAssignment *assignment, VgpuTarget *target, VgpuTake *take,
                   VgpuBrokerDone done, gpointer user_data)
{
    Clear *clear = clear_new(broker, assignment, VGPU_ENDING_RELEASED, done, user_data);

    clear->just_set = TRUE;
    clear->target = target;
    clear->take = take;
    clear_what_is_taken(clear, assignment);
}
