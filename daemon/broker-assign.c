/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Giving out: scan, choose, record, take, read again, set, read back, let go, mark the record, answer. */
#include "broker-internal.h"

#include "error.h"
#include "journal.h"
#include "pci-address.h"

#include <string.h>

#define SETTLE_MS 2000
#define SEEN_MAX 1024

/* One call of Assign; it lives until its caller has an answer. */
typedef struct {
    VgpuBroker *broker;
    VgpuCaller *caller;
    VgpuRequest *request;
    VgpuTried tried;
    VgpuBrokerDone done;
    gpointer user_data;
    char *id;        /* of the record of the present try */
    GError *refusal; /* what the last slot that was tried answered */

    /* A worker's, while it works: */
    const VgpuFramework *framework;
    guint64 slot_inode; /* of the directories as they were when it was chosen */
    guint64 attributes_inode;
    VgpuDevice *device; /* what is wanted; with what was found out about it afterwards */
    VgpuTarget *target;
    VgpuTake *take;
    VgpuAnswer answer;
    char *found; /* the type that was read back when it was another one */
    GError *error;

    gint64 began;       /* monotonic µs, of the present set */
    guint settle_timer; /* while udev is waited for */
} Attempt;

static void
attempt_clear(Attempt *attempt)
{
    g_clear_pointer(&attempt->device, vgpu_device_free);
    g_clear_pointer(&attempt->target, vgpu_target_free);
    g_clear_pointer(&attempt->take, vgpu_take_free);
    g_clear_pointer(&attempt->found, g_free);
    g_clear_pointer(&attempt->id, g_free);
    g_clear_error(&attempt->error);
}

/* Answers the caller, and ends the call. */
static void
finish(Attempt *attempt, const VgpuAssignment *assignment, const GError *error)
{
    attempt->done(assignment, error, attempt->user_data);
    attempt_clear(attempt);
    g_hash_table_unref(attempt->tried.slots);
    g_hash_table_unref(attempt->tried.cards);
    g_clear_error(&attempt->refusal);
    vgpu_caller_free(attempt->caller);
    vgpu_request_free(attempt->request);
    g_free(attempt);
}

static int
compare_addresses(gconstpointer a, gconstpointer b)
{
    return vgpu_pci_address_compare_text(a, b);
}

static void
set_no_capacity(const VgpuRequest *request, const char *name, GHashTable *reasons, GError **error)
{
    g_autoptr(GList) cards = g_list_sort(g_hash_table_get_keys(reasons), compare_addresses);
    GString *text = g_string_new(NULL);
    g_autofree char *why = NULL;

    for (GList *card = cards; card; card = card->next)
        g_string_append_printf(text, "%s%s: %s", card->prev ? "; " : "", (char *)card->data,
                               (char *)g_hash_table_lookup(reasons, card->data));
    why = g_string_free(text, FALSE);
    g_set_error(error, VGPU_ERROR, VGPU_ERROR_NO_CAPACITY, "there is no room for %s now: %s",
                name ? name : request->profile, why);
}

/* Which node the virtual function has, for whoever finds the record after a crash. */
static void
record_nodes(VgpuDevice *device)
{
    g_autoptr(VgpuTarget) target = vgpu_target_open(&vgpu_vendor_vfio, device->slot, NULL, NULL);

    if (target)
        vgpu_device_read_nodes(device, target->slot, target->device);
}

/* The record for @candidate, not yet added. */
static VgpuAssignment *
new_record(const Attempt *attempt, const VgpuCandidate *candidate)
{
    VgpuAssignment *assignment = vgpu_assignment_new();
    const VgpuSlot *slot = candidate->slot;
    gboolean is_mdev = !slot->framework->group_before_set;
    g_autofree char *uuid = NULL;

    if (is_mdev)
        uuid = attempt->request->uuid ? g_strdup(attempt->request->uuid) : g_uuid_string_random();
    assignment->id = broker_new_id();
    assignment->state = VGPU_STATE_ASSIGNING;
    assignment->framework = slot->framework;
    assignment->card = g_strdup(candidate->card->address);
    assignment->device = vgpu_device_new(slot->address, uuid);
    assignment->device->type_id = g_strdup(candidate->type->id);
    assignment->device->name = g_strdup(candidate->type->name);
    assignment->device->framebuffer_mib = candidate->type->framebuffer_mib;
    if (!is_mdev)
        record_nodes(assignment->device);
    assignment->owner = g_strdup(attempt->caller->name);
    assignment->uid = attempt->caller->uid;
    assignment->pid = attempt->caller->pid;
    assignment->label = g_strdup(attempt->request->label);
    assignment->since = g_get_real_time();
    assignment->access =
        assignment->uid != 0; /* on disk before it is given, so that it is always withdrawn */
    assignment->busy = TRUE;
    assignment->writing = TRUE;
    return assignment;
}

/* In a worker: nobody who kept a descriptor of an earlier vGPU may have it, so take the slot, and look again.
 */
static gboolean
take_unset(Attempt *attempt)
{
    g_autoptr(VgpuDevice) now = vgpu_device_new(attempt->device->slot, NULL);
    g_autofree char *type_id = NULL;

    attempt->answer = VGPU_ANSWER_NEXT_SLOT;
    vgpu_device_read_nodes(now, attempt->target->slot, attempt->target->device);
    attempt->take =
        vgpu_usage_take(now->slot, now->iommu_group, now->device_node, FALSE, NULL, &attempt->error);
    if (!attempt->take)
        return FALSE;
    type_id = attempt->framework->read(attempt->target, &attempt->error);
    if (type_id)
        attempt->error = g_error_new(VGPU_ERROR, VGPU_ERROR_DEVICE_FAILED,
                                     "somebody else set %s to %s meanwhile", now->slot, type_id);
    return !attempt->error;
}

/* In a worker, perhaps long after the choice: at the same address there may be a card by now to which the
 * same type means something else. */
static gboolean
is_what_was_chosen(Attempt *attempt)
{
    const VgpuDir *slot = attempt->target->slot;

    if (slot->inode == attempt->slot_inode &&
        vgpu_framework_attributes_inode(attempt->framework, slot) == attempt->attributes_inode)
        return TRUE;
    attempt->error = g_error_new(VGPU_ERROR, VGPU_ERROR_DEVICE_FAILED,
                                 "the device at %s has gone, and another has come", attempt->device->slot);
    return FALSE;
}

/* In a worker: set, and read back. */
static void
set_job(VgpuJob *job, gpointer data)
{
    Attempt *attempt = data;
    const VgpuFramework *framework = attempt->framework;
    VgpuDevice *device = attempt->device;
    g_autofree char *found = NULL;

    attempt->answer = VGPU_ANSWER_NEXT_SLOT;
    attempt->target = vgpu_target_open(framework, device->slot, device->uuid, &attempt->error);
    if (!attempt->target || !is_what_was_chosen(attempt) ||
        (framework->group_before_set && !take_unset(attempt)))
        return;
    attempt->began = g_get_monotonic_time(); /* events of before are of another node by the same name */
    if (!framework->set(attempt->target, device->type_id, &attempt->error)) {
        attempt->answer = vgpu_answer_to_set(attempt->error->code);
        return;
    }
    found = framework->read(attempt->target, &attempt->error);
    attempt->answer = g_strcmp0(found, device->type_id) == 0 ? VGPU_ANSWER_DONE : VGPU_ANSWER_FAILED;
    if (attempt->target->device)
        vgpu_device_read_nodes(device,
                               framework->group_before_set ? attempt->target->slot : attempt->target->device,
                               attempt->target->device);
    attempt->found = g_steal_pointer(&found);
}

static void try_next(Attempt *attempt);

/* Text of an error that is a sentence of its own. */
static void
set_device_failed(GError **error, const VgpuDevice *device, const char *what, const char *then)
{
    g_set_error(error, VGPU_ERROR, VGPU_ERROR_DEVICE_FAILED, "%s could not be set to %s (%s): %s%s",
                device->uuid ? device->uuid : device->slot, device->type_id, device->name, what,
                then ? then : "");
}

/* A virtual function is still ours alone; an mdev, which has its group only since it exists, is taken first.
 */
static void
take_back(Attempt *attempt, VgpuAssignment *assignment, VgpuBrokerDone done, gpointer user_data)
{
    assignment->owner_gone = TRUE; /* nobody was told of it, so nobody has it */
    if (attempt->take)
        broker_clear_taken(attempt->broker, assignment, g_steal_pointer(&attempt->target),
                           g_steal_pointer(&attempt->take), done, user_data);
    else
        broker_clear(attempt->broker, assignment, VGPU_ENDING_OWNER_VANISHED, done, user_data);
}

static void
on_undone(const VgpuAssignment *assignment, const GError *failed, gpointer user_data)
{
    Attempt *attempt = user_data;
    g_autoptr(GError) error = NULL;
    g_autofree char *then = NULL;
    g_autofree char *what = attempt->found
                                ? g_strdup_printf("its driver took it and set %s instead", attempt->found)
                                : g_strdup_printf("its driver took it, but what is set cannot be read (%s)",
                                                  attempt->error ? attempt->error->message : "it is gone");

    if (failed)
        then = g_strdup_printf("; putting it back failed too: %s", failed->message);
    else
        then = g_strdup("; it was put back to none");
    set_device_failed(&error, attempt->device, what, then);
    finish(attempt, NULL, error);
}

/* A write that succeeded and left something that was not asked for. */
static void
undo(Attempt *attempt, VgpuAssignment *assignment)
{
    VgpuBroker *broker = attempt->broker;
    g_autoptr(GError) error = NULL;

    if (!attempt->found && !attempt->error) {
        set_device_failed(&error, attempt->device, "its driver took it, but nothing is set now", NULL);
        broker_forget(broker, assignment);
        finish(attempt, NULL, error);
        return;
    }
    assignment->busy = FALSE;
    assignment->writing = FALSE;
    if (attempt->found) {
        g_free(assignment->device->type_id);
        assignment->device->type_id = g_strdup(attempt->found);
    }
    take_back(attempt, assignment, on_undone, attempt);
}

/* The caller gets access, and its answer. */
static void
hand_over(Attempt *attempt, VgpuAssignment *assignment)
{
    VgpuBroker *broker = attempt->broker;
    g_autoptr(GError) error = NULL;

    if (broker->stopped) {
        /* The caller was told that the service stops; the record says that it never got an answer. */
        vgpu_error_set_stopping(&error);
        finish(attempt, NULL, error);
        return;
    }
    assignment->busy = FALSE;
    if (assignment->owner_gone) {
        g_set_error(&error, VGPU_ERROR, VGPU_ERROR_ACCESS_DENIED, "the caller left");
        take_back(attempt, assignment, NULL, NULL);
        finish(attempt, NULL, error);
        return;
    }
    if (!broker_grant(assignment, &error)) {
        take_back(attempt, assignment, NULL, NULL);
        finish(attempt, NULL, error);
        return;
    }
    g_clear_pointer(&attempt->take, vgpu_take_free);
    vgpu_assignment_event(assignment, VGPU_EVENT_SET, NULL);
    if (!broker_record(broker, &error)) {
        /* Unanswered, so it is cleared like one that was found so at a start: nobody has it. */
        assignment->owner_gone = TRUE;
        assignment->told = FALSE;
        broker_withdraw_and_log(assignment);
        broker_clear(broker, assignment, VGPU_ENDING_RELEASED, NULL, NULL);
        finish(attempt, NULL, error);
        return;
    }
    broker_watch(broker, assignment);
    vgpu_journal_change(VGPU_MESSAGE_ASSIGNED, assignment, NULL, NULL);
    finish(attempt, assignment, NULL);
    broker_changed(broker);
}

/* The kernel refused, and so has changed nothing: nothing is undone. */
static void
on_refused(Attempt *attempt, VgpuAssignment *assignment)
{
    gboolean caller_left;

    g_message("%s was not set, trying another: %s", attempt->device->slot, attempt->error->message);
    if (attempt->answer == VGPU_ANSWER_NEXT_CARD)
        g_hash_table_add(attempt->tried.cards, g_strdup(assignment->card));
    g_hash_table_add(attempt->tried.slots, g_strdup(attempt->device->slot));
    g_clear_error(&attempt->refusal);
    /* A slot that is in use, or not to be proved unused, has not failed: there is only no room on it. */
    if (attempt->error->domain == VGPU_ERROR)
        g_set_error(&attempt->refusal, VGPU_ERROR, VGPU_ERROR_NO_CAPACITY, "there is no room for %s now: %s",
                    attempt->device->name, attempt->error->message);
    else
        set_device_failed(&attempt->refusal, attempt->device, attempt->error->message, NULL);
    caller_left = assignment->owner_gone;
    broker_forget(attempt->broker, assignment);
    attempt_clear(attempt);
    if (caller_left)
        finish(attempt, NULL, attempt->refusal);
    else
        try_next(attempt);
}

static void
go_on_settled(Attempt *attempt)
{
    g_clear_handle_id(&attempt->settle_timer, g_source_remove);
    g_ptr_array_remove(attempt->broker->settling, attempt);
    hand_over(attempt, vgpu_assignments_get(attempt->broker->assignments, attempt->id));
}

static gboolean
on_settle_timeout(gpointer user_data)
{
    Attempt *attempt = user_data;

    g_message("%s: udev has not spoken of its node in time, going on without", attempt->device->uuid);
    attempt->settle_timer = 0;
    go_on_settled(attempt);
    return G_SOURCE_REMOVE;
}

static gboolean
is_settled(const Attempt *attempt)
{
    g_autofree char *group = g_strdup_printf("%d", attempt->device->iommu_group);
    const gint64 *when = g_hash_table_lookup(attempt->broker->seen, group);

    return when && *when >= attempt->began;
}

void
vgpu_broker_device_event(VgpuBroker *broker, const char *subsystem, const char *name)
{
    g_autoptr(GPtrArray) settled = g_ptr_array_new();
    gint64 *when;

    if (g_strcmp0(subsystem, "vfio") != 0)
        return;
    if (g_hash_table_size(broker->seen) >= SEEN_MAX)
        g_hash_table_remove_all(broker->seen); /* at worst somebody waits two seconds */
    when = g_new(gint64, 1);
    *when = g_get_monotonic_time();
    g_hash_table_insert(broker->seen, g_strdup(name), when);
    for (guint i = 0; i < broker->settling->len; i++) {
        if (is_settled(g_ptr_array_index(broker->settling, i)))
            g_ptr_array_add(settled, g_ptr_array_index(broker->settling, i));
    }
    for (guint i = 0; i < settled->len; i++)
        go_on_settled(g_ptr_array_index(settled, i));
}

/* The record takes what was found out. The node of a new mdev is udev's first: a mode that it sets afterwards
 * would take the caller's access away again. */
static void
settle(Attempt *attempt, VgpuAssignment *assignment)
{
    VgpuBroker *broker = attempt->broker;

    vgpu_device_free(assignment->device);
    assignment->device = vgpu_device_copy(attempt->device);
    assignment->writing = FALSE;
    if (attempt->framework->group_before_set || assignment->uid == 0 || attempt->device->iommu_group < 0) {
        hand_over(attempt, assignment);
        return;
    }
    broker_save(broker); /* with the node, before anybody is let in */
    if (is_settled(attempt)) {
        hand_over(attempt, assignment);
        return;
    }
    g_ptr_array_add(broker->settling, attempt);
    attempt->settle_timer = g_timeout_add(SETTLE_MS, on_settle_timeout, attempt);
}

static void
on_set(gpointer data, gpointer user_data)
{
    Attempt *attempt = data;
    VgpuAssignment *assignment = vgpu_assignments_get(attempt->broker->assignments, attempt->id);

    switch (attempt->answer) {
    case VGPU_ANSWER_DONE:
        settle(attempt, assignment);
        break;
    case VGPU_ANSWER_FAILED:
        undo(attempt, assignment);
        break;
    default:
        on_refused(attempt, assignment);
    }
}

/* What polkit allowed is one profile, and a type id may mean another on a card that came since. */
static gboolean
means_the_same(const VgpuRequest *request, const char *name, GError **error)
{
    if (g_strcmp0(name, request->asked) == 0)
        return TRUE;
    if (request->asked)
        g_set_error(error, VGPU_ERROR, VGPU_ERROR_INVALID_ARGS,
                    "%s meant %s when this call was checked, and means %s now: call again", request->profile,
                    request->asked, name ? name : "nothing that is known");
    else
        g_set_error(error, VGPU_ERROR, VGPU_ERROR_BUSY,
                    "it was not known yet what %s means when this call was checked: try again",
                    request->profile);
    return FALSE;
}

/* Scan, choice and record: one step, in which nothing else runs. */
static gboolean
choose_and_record(Attempt *attempt, VgpuAssignment **ret_assignment, GError **error)
{
    VgpuBroker *broker = attempt->broker;
    g_autofree char *name = NULL;
    g_autoptr(GHashTable) reasons = NULL;
    g_autoptr(GError) invalid = NULL;
    g_autoptr(VgpuAssignment) assignment = NULL;
    VgpuCandidate candidate;
    VgpuHost host;

    if (broker->stopped) {
        vgpu_error_set_stopping(error);
        return FALSE;
    }
    if (!vgpu_broker_look(broker, TRUE, &host, error))
        return FALSE;
    /* Once more, as much may have changed since the caller was asked about. */
    if (!broker_check_on(broker, &host, attempt->request, &name, &invalid) ||
        !means_the_same(attempt->request, name, &invalid)) {
        GError **told = attempt->refusal ? &attempt->refusal : &invalid;

        g_propagate_error(error, g_steal_pointer(told));
        return FALSE;
    }
    if (!vgpu_placement_choose(&host, attempt->request, name, broker_policy(broker), &attempt->tried,
                               &candidate, &reasons)) {
        if (attempt->refusal)
            g_propagate_error(error, g_steal_pointer(&attempt->refusal));
        else
            set_no_capacity(attempt->request, name, reasons, error);
        return FALSE;
    }
    assignment = new_record(attempt, &candidate);
    if (!broker_add(broker, assignment, error)) {
        assignment = NULL; /* freed with its record */
        return FALSE;
    }
    attempt->slot_inode = candidate.slot->inode;
    attempt->attributes_inode = candidate.slot->attributes_inode;
    *ret_assignment = g_steal_pointer(&assignment);
    return TRUE;
}

static void
try_next(Attempt *attempt)
{
    VgpuBroker *broker = attempt->broker;
    g_autoptr(GError) error = NULL;
    VgpuAssignment *assignment = NULL;

    if (!choose_and_record(attempt, &assignment, &error)) {
        finish(attempt, NULL, error);
        return;
    }
    attempt->id = g_strdup(assignment->id);
    attempt->framework = assignment->framework;
    attempt->device = vgpu_device_copy(assignment->device);
    broker_changed(broker);
    vgpu_worker_run(broker->worker, assignment->card, set_job, attempt, on_set, NULL);
}

void
vgpu_broker_assign(VgpuBroker *broker, const VgpuCaller *caller, const VgpuRequest *request,
                   VgpuBrokerDone done, gpointer user_data)
{
    g_autoptr(GError) error = NULL;
    Attempt *attempt;

    if (vgpu_broker_is_at_limit(broker, caller->uid, &error)) {
        done(NULL, error, user_data);
        return;
    }
    attempt = g_new0(Attempt, 1);
    attempt->broker = broker;
    attempt->caller = vgpu_caller_copy(caller);
    attempt->request = vgpu_request_copy(request);
    attempt->tried.slots = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    attempt->tried.cards = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    attempt->done = done;
    attempt->user_data = user_data;
    try_next(attempt);
}
