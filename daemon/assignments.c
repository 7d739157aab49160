/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "assignments.h"

#include "error.h"

#include <string.h>

struct _VgpuAssignments {
    GPtrArray *list;        /* oldest first */
    GHashTable *by_id;      /* id -> VgpuAssignment, borrowed */
    GHashTable *given_back; /* slot -> guint64 */
    guint64 counter;
};

/* Pseudo states of the table. */
#define STAY (-1)
#define OPEN (-2) /* in-use with an owner, lingering without */

#define DO(next, duty)                                                                                       \
    {                                                                                                        \
        TRUE, next, VGPU_DUTY_##duty, 0                                                                      \
    }
#define NOTHING DO(STAY, NONE)
#define REFUSE(code)                                                                                         \
    {                                                                                                        \
        TRUE, STAY, VGPU_DUTY_REFUSE, VGPU_ERROR_##code                                                      \
    }

typedef struct {
    gboolean possible;
    int next;
    VgpuDuty duty;
    VgpuError code;
} Cell;

static const Cell table[][VGPU_N_EVENTS] = {
    [VGPU_STATE_ASSIGNING] =
        {
            [VGPU_EVENT_SET] = DO(VGPU_STATE_ASSIGNED, NONE),
            [VGPU_EVENT_OWNER_VANISHED] = DO(STAY, CLEAR_ONCE_SET),
            [VGPU_EVENT_ADOPTED] = REFUSE(UNKNOWN_ASSIGNMENT), /* nobody knows the id */
            [VGPU_EVENT_RELEASE] = REFUSE(UNKNOWN_ASSIGNMENT),
            [VGPU_EVENT_RECLAIM] = REFUSE(BUSY),
            [VGPU_EVENT_TAKEN] = DO(VGPU_STATE_RELEASING, NONE), /* found at start, or its set went wrong */
            [VGPU_EVENT_FOUND_OPEN] = DO(VGPU_STATE_LINGERING, CLEAR_LATER),
            [VGPU_EVENT_CLEARED] = DO(STAY, FORGET),
            [VGPU_EVENT_CLEAR_FAILED] = DO(VGPU_STATE_FAILED, NONE),
            [VGPU_EVENT_LOST] = DO(STAY, FORGET),
        },
    [VGPU_STATE_ASSIGNED] =
        {
            [VGPU_EVENT_OWNER_VANISHED] = DO(STAY, CLEAR),
            [VGPU_EVENT_ADOPTED] = NOTHING,
            [VGPU_EVENT_RELEASE] = DO(STAY, CLEAR),
            [VGPU_EVENT_RECLAIM] = REFUSE(INVALID_ARGS),
            [VGPU_EVENT_OPENED] = DO(VGPU_STATE_IN_USE, NONE),
            [VGPU_EVENT_CLOSED] = NOTHING,
            [VGPU_EVENT_TAKEN] = DO(VGPU_STATE_RELEASING, NONE),
            [VGPU_EVENT_FOUND_OPEN] = DO(OPEN, CLEAR_LATER),
            [VGPU_EVENT_LOST] = DO(STAY, LOSE),
        },
    [VGPU_STATE_IN_USE] =
        {
            [VGPU_EVENT_OWNER_VANISHED] = DO(VGPU_STATE_LINGERING, CLEAR),
            [VGPU_EVENT_ADOPTED] = NOTHING,
            [VGPU_EVENT_RELEASE] = DO(STAY, CLEAR), /* the kernel says whether it still is */
            [VGPU_EVENT_RECLAIM] = REFUSE(INVALID_ARGS),
            [VGPU_EVENT_OPENED] = NOTHING,
            [VGPU_EVENT_CLOSED] = DO(VGPU_STATE_ASSIGNED, NONE),
            [VGPU_EVENT_TAKEN] = DO(VGPU_STATE_RELEASING, NONE),
            [VGPU_EVENT_FOUND_OPEN] = DO(OPEN, CLEAR_LATER),
            [VGPU_EVENT_LOST] = DO(STAY, LOSE),
        },
    [VGPU_STATE_LINGERING] =
        {
            [VGPU_EVENT_OWNER_VANISHED] = NOTHING,
            [VGPU_EVENT_ADOPTED] = DO(VGPU_STATE_IN_USE, NONE),
            [VGPU_EVENT_RELEASE] = DO(STAY, CLEAR),
            [VGPU_EVENT_RECLAIM] = DO(STAY, CLEAR),
            [VGPU_EVENT_OPENED] = NOTHING,
            [VGPU_EVENT_CLOSED] = DO(STAY, CLEAR),
            [VGPU_EVENT_TAKEN] = DO(VGPU_STATE_RELEASING, NONE),
            [VGPU_EVENT_FOUND_OPEN] = DO(STAY, CLEAR_LATER),
            [VGPU_EVENT_LOST] = DO(STAY, LOSE),
        },
    [VGPU_STATE_RELEASING] =
        {
            [VGPU_EVENT_OWNER_VANISHED] = NOTHING,
            [VGPU_EVENT_ADOPTED] = REFUSE(BUSY),
            [VGPU_EVENT_RELEASE] = REFUSE(BUSY),
            [VGPU_EVENT_RECLAIM] = REFUSE(BUSY),
            [VGPU_EVENT_OPENED] = NOTHING,
            [VGPU_EVENT_CLOSED] = NOTHING,
            [VGPU_EVENT_TAKEN] = NOTHING, /* found at start, and taken again */
            [VGPU_EVENT_FOUND_OPEN] = DO(STAY, CLEAR_LATER),
            [VGPU_EVENT_CLEARED] = DO(STAY, END),
            [VGPU_EVENT_CLEAR_IN_USE] = DO(OPEN, CLEAR_LATER),
            [VGPU_EVENT_CLEAR_BUSY] = DO(VGPU_STATE_FAILED, CLEAR_LATER),
            [VGPU_EVENT_CLEAR_FAILED] = DO(VGPU_STATE_FAILED, NONE),
            [VGPU_EVENT_LOST] = DO(STAY, LOSE),
        },
    [VGPU_STATE_FAILED] =
        {
            [VGPU_EVENT_OWNER_VANISHED] = NOTHING,
            [VGPU_EVENT_ADOPTED] = REFUSE(DEVICE_FAILED),
            [VGPU_EVENT_RELEASE] = REFUSE(DEVICE_FAILED),
            [VGPU_EVENT_RECLAIM] = DO(STAY, CLEAR),
            [VGPU_EVENT_OPENED] = NOTHING,
            [VGPU_EVENT_CLOSED] = NOTHING,
            [VGPU_EVENT_TAKEN] = DO(VGPU_STATE_RELEASING, NONE),
            [VGPU_EVENT_FOUND_OPEN] = NOTHING,
            [VGPU_EVENT_LOST] = DO(STAY, LOSE),
        },
};

static const char *const state_names[] = {
    [VGPU_STATE_ASSIGNING] = "assigning", [VGPU_STATE_ASSIGNED] = "assigned",
    [VGPU_STATE_IN_USE] = "in-use",       [VGPU_STATE_LINGERING] = "lingering",
    [VGPU_STATE_RELEASING] = "releasing", [VGPU_STATE_FAILED] = "failed",
};

static const char *const ending_names[] = {
    [VGPU_ENDING_NONE] = "none",
    [VGPU_ENDING_RELEASED] = "released",
    [VGPU_ENDING_OWNER_VANISHED] = "owner-vanished",
    [VGPU_ENDING_RECLAIMED] = "reclaimed",
    [VGPU_ENDING_LOST] = "lost",
};

VgpuAssignment *
vgpu_assignment_new(void)
{
    return g_new0(VgpuAssignment, 1);
}

void
vgpu_assignment_free(VgpuAssignment *assignment)
{
    g_free(assignment->id);
    g_free(assignment->card);
    g_clear_pointer(&assignment->device, vgpu_device_free);
    g_free(assignment->owner);
    g_free(assignment->label);
    g_free(assignment->error);
    g_strfreev(assignment->holders);
    g_free(assignment);
}

gboolean
vgpu_assignment_is_visible(const VgpuAssignment *assignment)
{
    return assignment->told || assignment->state == VGPU_STATE_FAILED;
}

const char *
vgpu_assignment_device_name(const VgpuAssignment *assignment)
{
    return assignment->device->uuid ? assignment->device->uuid : assignment->device->slot;
}

gboolean
vgpu_assignment_has_owner(const VgpuAssignment *assignment)
{
    return !assignment->owner_gone &&
           (assignment->state == VGPU_STATE_ASSIGNED || assignment->state == VGPU_STATE_IN_USE);
}

void
vgpu_assignment_set_busy(const VgpuAssignment *assignment, GError **error)
{
    g_set_error(error, VGPU_ERROR, VGPU_ERROR_BUSY, "another operation on %s is under way: try again later",
                vgpu_assignment_device_name(assignment));
}

static void
refuse(const VgpuAssignment *assignment, VgpuError code, GError **error)
{
    const char *device = vgpu_assignment_device_name(assignment);

    switch (code) {
    case VGPU_ERROR_UNKNOWN_ASSIGNMENT:
        g_set_error(error, VGPU_ERROR, code,
                    "there is no assignment '%s': see Assignments for those there are", assignment->id);
        break;
    case VGPU_ERROR_INVALID_ARGS:
        g_set_error(error, VGPU_ERROR, code, "%s is assigned to %s: release assignment %s instead", device,
                    assignment->owner, assignment->id);
        break;
    case VGPU_ERROR_DEVICE_FAILED:
        g_set_error(error, VGPU_ERROR, code, "%s could not be cleared and needs Reclaim: %s", device,
                    assignment->error ? assignment->error : "the reason is not known");
        break;
    default:
        vgpu_assignment_set_busy(assignment, error);
    }
}

VgpuDuty
vgpu_assignment_event(VgpuAssignment *assignment, VgpuEvent event, GError **error)
{
    const Cell *cell = &table[assignment->state][event];

    if (!cell->possible) {
        g_critical("assignment %s cannot have event %d in state %s", assignment->id, event,
                   state_names[assignment->state]);
        return VGPU_DUTY_NONE;
    }
    if (cell->duty == VGPU_DUTY_REFUSE) {
        refuse(assignment, cell->code, error);
        return VGPU_DUTY_REFUSE;
    }
    if (event == VGPU_EVENT_OWNER_VANISHED)
        assignment->owner_gone = TRUE;
    if (event == VGPU_EVENT_ADOPTED)
        assignment->owner_gone = FALSE;
    if (event == VGPU_EVENT_SET || cell->next == VGPU_STATE_FAILED)
        assignment->told = TRUE;
    if (event == VGPU_EVENT_CLEAR_BUSY || event == VGPU_EVENT_CLEAR_FAILED)
        assignment->may_repeat = event == VGPU_EVENT_CLEAR_BUSY;
    if (cell->next == OPEN)
        assignment->state = assignment->owner_gone ? VGPU_STATE_LINGERING : VGPU_STATE_IN_USE;
    else if (cell->next != STAY)
        assignment->state = (VgpuState)cell->next;
    if (assignment->state == VGPU_STATE_LINGERING)
        assignment->told = TRUE; /* somebody has to see who keeps it */
    return cell->duty;
}

static gboolean
index_of(const char *const *names, guint n_names, const char *name, int *ret_index)
{
    for (guint i = 0; i < n_names; i++) {
        if (g_strcmp0(names[i], name) == 0) {
            *ret_index = (int)i;
            return TRUE;
        }
    }
    return FALSE;
}

const char *
vgpu_state_name(VgpuState state)
{
    return state_names[state];
}

gboolean
vgpu_state_from_name(const char *name, VgpuState *ret_state)
{
    int i;

    if (!index_of(state_names, G_N_ELEMENTS(state_names), name, &i))
        return FALSE;
    *ret_state = (VgpuState)i;
    return TRUE;
}

const char *
vgpu_ending_name(VgpuEnding ending)
{
    return ending_names[ending];
}

gboolean
vgpu_ending_from_name(const char *name, VgpuEnding *ret_ending)
{
    int i;

    if (!index_of(ending_names, G_N_ELEMENTS(ending_names), name, &i))
        return FALSE;
    *ret_ending = (VgpuEnding)i;
    return TRUE;
}

VgpuAssignments *
vgpu_assignments_new(void)
{
    VgpuAssignments *assignments = g_new0(VgpuAssignments, 1);

    assignments->list = g_ptr_array_new_with_free_func((GDestroyNotify)vgpu_assignment_free);
    assignments->by_id = g_hash_table_new(g_str_hash, g_str_equal);
    assignments->given_back = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
    return assignments;
}

void
vgpu_assignments_free(VgpuAssignments *assignments)
{
    g_hash_table_unref(assignments->given_back);
    g_hash_table_unref(assignments->by_id);
    g_ptr_array_unref(assignments->list);
    g_free(assignments);
}

void
vgpu_assignments_add(VgpuAssignments *assignments, VgpuAssignment *assignment)
{
    g_ptr_array_add(assignments->list, assignment);
    g_hash_table_insert(assignments->by_id, assignment->id, assignment);
}

void
vgpu_assignments_remove(VgpuAssignments *assignments, VgpuAssignment *assignment)
{
    guint64 *when = g_new(guint64, 1);

    *when = ++assignments->counter;
    g_hash_table_insert(assignments->given_back, g_strdup(assignment->device->slot), when);
    g_hash_table_remove(assignments->by_id, assignment->id);
    g_ptr_array_remove(assignments->list, assignment);
}

VgpuAssignment *
vgpu_assignments_get(VgpuAssignments *assignments, const char *id)
{
    return g_hash_table_lookup(assignments->by_id, id);
}

VgpuAssignment *
vgpu_assignments_find_device(VgpuAssignments *assignments, const char *slot, const char *uuid)
{
    for (guint i = 0; i < assignments->list->len; i++) {
        VgpuAssignment *assignment = g_ptr_array_index(assignments->list, i);
        const VgpuDevice *device = assignment->device;

        if (uuid ? g_strcmp0(device->uuid, uuid) == 0 : !device->uuid && g_strcmp0(device->slot, slot) == 0)
            return assignment;
    }
    return NULL;
}

GPtrArray *
vgpu_assignments_list(VgpuAssignments *assignments)
{
    GPtrArray *list = g_ptr_array_new();

    g_ptr_array_extend(list, assignments->list, NULL, NULL);
    return list;
}

guint
vgpu_assignments_count_uid(VgpuAssignments *assignments, guint32 uid)
{
    guint count = 0;

    for (guint i = 0; i < assignments->list->len; i++) {
        const VgpuAssignment *assignment = g_ptr_array_index(assignments->list, i);
        count += assignment->uid == uid;
    }
    return count;
}

guint64
vgpu_assignments_given_back(VgpuAssignments *assignments, const char *slot)
{
    const guint64 *when = g_hash_table_lookup(assignments->given_back, slot);

    return when ? *when : 0;
}
