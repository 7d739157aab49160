/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Taking up what an earlier run has left. */
#include "broker-internal.h"

/* Whether the owner of a record is still there; the bus is asked until it says. */
typedef struct {
    VgpuBroker *broker;
    char *id;
    char *owner; /* who is asked about; it may be adopted meanwhile */
} Question;

static void
question_free(gpointer data)
{
    Question *question = data;

    g_free(question->id);
    g_free(question->owner);
    g_free(question);
}

static void
question_end(Question *question)
{
    g_ptr_array_remove_fast(question->broker->questions, question);
}

static void ask_for_owner(Question *question);

static gboolean
on_ask_again(gpointer user_data)
{
    ask_for_owner(user_data);
    return G_SOURCE_REMOVE;
}

static void
on_owner_identified(VgpuCaller *caller, gboolean gone, gpointer user_data)
{
    Question *question = user_data;
    VgpuAssignment *assignment = vgpu_assignments_get(question->broker->assignments, question->id);
    gboolean known = caller || gone;

    g_clear_pointer(&caller, vgpu_caller_free);
    if (!known && assignment) {
        g_timeout_add_seconds(1, on_ask_again, question); /* silence is not an absence */
        return;
    }
    if (gone)
        vgpu_broker_owner_vanished(question->broker, question->owner);
    question_end(question);
}

/* Frees @question with the answer. */
static void
ask_for_owner(Question *question)
{
    VgpuAssignment *assignment = vgpu_assignments_get(question->broker->assignments, question->id);

    if (!assignment || question->broker->stopped ||
        vgpu_owners_identify(question->broker->owners, question->owner, on_owner_identified, question) < 0)
        question_end(question);
}

/* Asks about the owner of a record; on another bus nobody is there any more. */
static void
look_for_owner(VgpuBroker *broker, const VgpuAssignment *assignment, gboolean same_bus)
{
    Question *question;

    if (!same_bus) {
        vgpu_broker_owner_vanished(broker, assignment->owner);
        return;
    }
    question = g_new0(Question, 1);
    question->broker = broker;
    question->id = g_strdup(assignment->id);
    question->owner = g_strdup(assignment->owner);
    g_ptr_array_add(broker->questions, question);
    ask_for_owner(question);
}

/* Takes up one record of an earlier run. */
static void
take_up(VgpuBroker *broker, VgpuAssignment *assignment, gboolean same_bus)
{
    vgpu_owners_hold(broker->owners, assignment->owner);
    broker_watch(broker, assignment);
    switch (assignment->state) {
    case VGPU_STATE_ASSIGNING: /* never answered, so released even if its owner lives */
        assignment->owner_gone = TRUE;
        break;
    case VGPU_STATE_RELEASING:
    case VGPU_STATE_LINGERING:
        break;
    case VGPU_STATE_FAILED:
        if (assignment->may_repeat)
            broker_clear_later(broker, assignment);
        return;
    default:
        broker_look_for_holders(broker, assignment, TRUE);
        if (!assignment->owner_gone) {
            look_for_owner(broker, assignment, same_bus);
            return;
        }
        /* The last run knew, and was killed before it had taken the device. */
    }
    broker_guard(broker, assignment)->written = vgpu_store_is_marked(broker->store, assignment->id);
    broker_withdraw_and_log(assignment);
    broker_clear(broker, assignment, broker_own_ending(assignment), NULL, NULL);
}

void
vgpu_broker_start(VgpuBroker *broker)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(GPtrArray) list = NULL;
    g_autoptr(GPtrArray) ids = g_ptr_array_new_with_free_func(g_free);
    VgpuStoreAge age;

    if (!vgpu_store_load(broker->store, broker->bus_id, broker->assignments, &age, &error))
        g_warning("the state of the last run cannot be used, and no device it speaks of is touched: %s",
                  error->message);
    else if (!age.same_boot)
        g_message("the state file is of another boot and void");
    broker->questions = g_ptr_array_new_with_free_func(question_free);
    list = vgpu_assignments_list(broker->assignments);
    for (guint i = 0; i < list->len; i++) {
        const VgpuAssignment *assignment = g_ptr_array_index(list, i);

        g_ptr_array_add(ids, g_strdup(assignment->id));
        broker_guard(broker, assignment)->said_lingering = assignment->state == VGPU_STATE_LINGERING;
    }
    for (guint i = 0; i < ids->len; i++) {
        VgpuAssignment *assignment = vgpu_assignments_get(broker->assignments, g_ptr_array_index(ids, i));
        if (assignment)
            take_up(broker, assignment, age.same_bus);
    }
    vgpu_broker_rescan(broker);
    if (age.same_boot)
        broker_save(broker);
}
