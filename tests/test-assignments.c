/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Every cell of the state table, each a test of its own. */
#include "assignments.h"
#include "error.h"

typedef struct {
    const char *promise;
    VgpuState state;
    VgpuEvent event;
    VgpuState next;
    VgpuDuty duty;
    VgpuError refusal; /* with VGPU_DUTY_REFUSE */
    gboolean owner_gone;
} Cell;

#define S(name) VGPU_STATE_##name
#define E(name) VGPU_EVENT_##name
#define D(name) VGPU_DUTY_##name

static const Cell cells[] = {
    {"assigning/set/is-handed-over", S(ASSIGNING), E(SET), S(ASSIGNED), D(NONE)},
    {"assigning/vanished-owner/is-cleared-when-the-write-returns", S(ASSIGNING), E(OWNER_VANISHED),
     S(ASSIGNING), D(CLEAR_ONCE_SET)},
    {"assigning/release/is-unknown", S(ASSIGNING), E(RELEASE), S(ASSIGNING), D(REFUSE),
     VGPU_ERROR_UNKNOWN_ASSIGNMENT},
    {"assigning/adopt/is-unknown", S(ASSIGNING), E(ADOPTED), S(ASSIGNING), D(REFUSE),
     VGPU_ERROR_UNKNOWN_ASSIGNMENT},
    {"assigning/reclaim/is-busy", S(ASSIGNING), E(RECLAIM), S(ASSIGNING), D(REFUSE), VGPU_ERROR_BUSY},
    {"assigning/taken/is-releasing", S(ASSIGNING), E(TAKEN), S(RELEASING), D(NONE)},
    {"assigning/found-open/lingers", S(ASSIGNING), E(FOUND_OPEN), S(LINGERING), D(CLEAR_LATER)},
    {"assigning/lost/is-forgotten", S(ASSIGNING), E(LOST), S(ASSIGNING), D(FORGET)},

    {"assigned/vanished-owner/is-cleared", S(ASSIGNED), E(OWNER_VANISHED), S(ASSIGNED), D(CLEAR)},
    {"assigned/release/is-cleared", S(ASSIGNED), E(RELEASE), S(ASSIGNED), D(CLEAR)},
    {"assigned/reclaim/is-somebodys", S(ASSIGNED), E(RECLAIM), S(ASSIGNED), D(REFUSE),
     VGPU_ERROR_INVALID_ARGS},
    {"assigned/adopted/stays", S(ASSIGNED), E(ADOPTED), S(ASSIGNED), D(NONE)},
    {"assigned/opened/is-in-use", S(ASSIGNED), E(OPENED), S(IN_USE), D(NONE)},
    {"assigned/closed/stays", S(ASSIGNED), E(CLOSED), S(ASSIGNED), D(NONE)},
    {"assigned/taken/is-releasing", S(ASSIGNED), E(TAKEN), S(RELEASING), D(NONE)},
    {"assigned/found-open/is-in-use", S(ASSIGNED), E(FOUND_OPEN), S(IN_USE), D(CLEAR_LATER)},
    {"assigned/found-open-without-owner/lingers", S(ASSIGNED), E(FOUND_OPEN), S(LINGERING), D(CLEAR_LATER), 0,
     TRUE},
    {"assigned/lost/is-lost", S(ASSIGNED), E(LOST), S(ASSIGNED), D(LOSE)},

    {"in-use/vanished-owner/lingers", S(IN_USE), E(OWNER_VANISHED), S(LINGERING), D(CLEAR)},
    {"in-use/release/asks-the-kernel", S(IN_USE), E(RELEASE), S(IN_USE), D(CLEAR)},
    {"in-use/reclaim/is-somebodys", S(IN_USE), E(RECLAIM), S(IN_USE), D(REFUSE), VGPU_ERROR_INVALID_ARGS},
    {"in-use/adopted/stays", S(IN_USE), E(ADOPTED), S(IN_USE), D(NONE)},
    {"in-use/opened/stays", S(IN_USE), E(OPENED), S(IN_USE), D(NONE)},
    {"in-use/closed/is-assigned", S(IN_USE), E(CLOSED), S(ASSIGNED), D(NONE)},
    {"in-use/taken/is-releasing", S(IN_USE), E(TAKEN), S(RELEASING), D(NONE)},
    {"in-use/found-open/stays", S(IN_USE), E(FOUND_OPEN), S(IN_USE), D(CLEAR_LATER)},
    {"in-use/lost/is-lost", S(IN_USE), E(LOST), S(IN_USE), D(LOSE)},

    {"lingering/vanished-adopter/stays", S(LINGERING), E(OWNER_VANISHED), S(LINGERING), D(NONE), 0, TRUE},
    {"lingering/adopted/is-in-use", S(LINGERING), E(ADOPTED), S(IN_USE), D(NONE), 0, TRUE},
    {"lingering/release/asks-the-kernel", S(LINGERING), E(RELEASE), S(LINGERING), D(CLEAR), 0, TRUE},
    {"lingering/reclaim/asks-the-kernel", S(LINGERING), E(RECLAIM), S(LINGERING), D(CLEAR), 0, TRUE},
    {"lingering/opened/stays", S(LINGERING), E(OPENED), S(LINGERING), D(NONE), 0, TRUE},
    {"lingering/closed/is-cleared", S(LINGERING), E(CLOSED), S(LINGERING), D(CLEAR), 0, TRUE},
    {"lingering/taken/is-releasing", S(LINGERING), E(TAKEN), S(RELEASING), D(NONE), 0, TRUE},
    {"lingering/found-open/tries-again", S(LINGERING), E(FOUND_OPEN), S(LINGERING), D(CLEAR_LATER), 0, TRUE},
    {"lingering/lost/is-lost", S(LINGERING), E(LOST), S(LINGERING), D(LOSE), 0, TRUE},

    {"releasing/vanished-owner/goes-on", S(RELEASING), E(OWNER_VANISHED), S(RELEASING), D(NONE)},
    {"releasing/release/is-busy", S(RELEASING), E(RELEASE), S(RELEASING), D(REFUSE), VGPU_ERROR_BUSY},
    {"releasing/adopt/is-busy", S(RELEASING), E(ADOPTED), S(RELEASING), D(REFUSE), VGPU_ERROR_BUSY},
    {"releasing/reclaim/is-busy", S(RELEASING), E(RECLAIM), S(RELEASING), D(REFUSE), VGPU_ERROR_BUSY},
    {"releasing/cleared/ends", S(RELEASING), E(CLEARED), S(RELEASING), D(END)},
    {"releasing/driver-says-open/is-in-use", S(RELEASING), E(CLEAR_IN_USE), S(IN_USE), D(CLEAR_LATER)},
    {"releasing/driver-says-open-without-owner/lingers", S(RELEASING), E(CLEAR_IN_USE), S(LINGERING),
     D(CLEAR_LATER), 0, TRUE},
    {"releasing/busy-too-long/fails-and-tries-again", S(RELEASING), E(CLEAR_BUSY), S(FAILED), D(CLEAR_LATER)},
    {"releasing/other-errno/fails-for-good", S(RELEASING), E(CLEAR_FAILED), S(FAILED), D(NONE)},
    {"releasing/found-open-at-start/tries-again", S(RELEASING), E(FOUND_OPEN), S(RELEASING), D(CLEAR_LATER)},
    {"releasing/lost/is-lost", S(RELEASING), E(LOST), S(RELEASING), D(LOSE)},

    {"failed/vanished-owner/stays", S(FAILED), E(OWNER_VANISHED), S(FAILED), D(NONE)},
    {"failed/release/says-so", S(FAILED), E(RELEASE), S(FAILED), D(REFUSE), VGPU_ERROR_DEVICE_FAILED},
    {"failed/adopt/says-so", S(FAILED), E(ADOPTED), S(FAILED), D(REFUSE), VGPU_ERROR_DEVICE_FAILED},
    {"failed/reclaim/tries-once", S(FAILED), E(RECLAIM), S(FAILED), D(CLEAR)},
    {"failed/closed/is-not-written", S(FAILED), E(CLOSED), S(FAILED), D(NONE)},
    {"failed/found-open/stays", S(FAILED), E(FOUND_OPEN), S(FAILED), D(NONE)},
    {"failed/lost/is-lost", S(FAILED), E(LOST), S(FAILED), D(LOSE)},
};

static VgpuAssignment *
new_assignment(const char *id, const char *slot, const char *uuid)
{
    VgpuAssignment *assignment = vgpu_assignment_new();

    assignment->id = g_strdup(id);
    assignment->framework = uuid ? &vgpu_mdev : &vgpu_vendor_vfio;
    assignment->card = g_strdup("0000:3b:00.0");
    assignment->device = vgpu_device_new(slot, uuid);
    assignment->device->type_id = g_strdup("1148");
    assignment->owner = g_strdup(":1.7");
    assignment->uid = 1000;
    return assignment;
}

static void
test_cell(gconstpointer data)
{
    const Cell *cell = data;
    g_autoptr(VgpuAssignment) assignment = new_assignment("id", "0000:3b:00.4", NULL);
    g_autoptr(GError) error = NULL;

    assignment->state = cell->state;
    assignment->owner_gone = cell->owner_gone;
    g_assert_cmpint(vgpu_assignment_event(assignment, cell->event, &error), ==, cell->duty);
    g_assert_cmpstr(vgpu_state_name(assignment->state), ==, vgpu_state_name(cell->next));
    if (cell->duty == VGPU_DUTY_REFUSE) {
        g_assert_error(error, VGPU_ERROR, (int)cell->refusal);
        g_assert_cmpint(assignment->owner_gone, ==, cell->owner_gone);
    } else {
        g_assert_no_error(error);
    }
}

static void
test_owner_is_remembered(void)
{
    g_autoptr(VgpuAssignment) assignment = new_assignment("id", "0000:3b:00.4", NULL);

    assignment->state = VGPU_STATE_RELEASING;
    vgpu_assignment_event(assignment, VGPU_EVENT_OWNER_VANISHED, NULL);
    g_assert_true(assignment->owner_gone);
    vgpu_assignment_event(assignment, VGPU_EVENT_CLEAR_IN_USE, NULL);
    g_assert_cmpint(assignment->state, ==, VGPU_STATE_LINGERING);
    vgpu_assignment_event(assignment, VGPU_EVENT_ADOPTED, NULL);
    g_assert_false(assignment->owner_gone);
}

static void
test_only_ebusy_may_be_repeated(void)
{
    g_autoptr(VgpuAssignment) assignment = new_assignment("id", "0000:3b:00.4", NULL);

    assignment->state = VGPU_STATE_RELEASING;
    vgpu_assignment_event(assignment, VGPU_EVENT_CLEAR_BUSY, NULL);
    g_assert_true(assignment->may_repeat);
    vgpu_assignment_event(assignment, VGPU_EVENT_FOUND_OPEN, NULL);
    g_assert_true(assignment->may_repeat);
    vgpu_assignment_event(assignment, VGPU_EVENT_TAKEN, NULL);
    vgpu_assignment_event(assignment, VGPU_EVENT_CLEAR_FAILED, NULL);
    g_assert_false(assignment->may_repeat);
}

static void
test_untold_is_hidden(void)
{
    g_autoptr(VgpuAssignment) assignment = new_assignment("id", "0000:3b:00.4", NULL);

    g_assert_false(vgpu_assignment_is_visible(assignment));
    vgpu_assignment_event(assignment, VGPU_EVENT_TAKEN, NULL);
    g_assert_false(vgpu_assignment_is_visible(assignment));
    vgpu_assignment_event(assignment, VGPU_EVENT_CLEAR_FAILED, NULL);
    g_assert_true(vgpu_assignment_is_visible(assignment));
}

static void
test_collection(void)
{
    g_autoptr(VgpuAssignments) assignments = vgpu_assignments_new();
    VgpuAssignment *vf = new_assignment("a", "0000:3b:00.4", NULL);
    VgpuAssignment *mdev = new_assignment("b", "0000:65:00.0", "c1b7b4a4-4c1b-4f5d-9d2e-6a5f0c3e7a11");

    mdev->uid = 1001;
    vgpu_assignments_add(assignments, vf);
    vgpu_assignments_add(assignments, mdev);
    g_assert_true(vgpu_assignments_get(assignments, "a") == vf);
    g_assert_null(vgpu_assignments_get(assignments, "c"));
    g_assert_true(vgpu_assignments_find_device(assignments, "0000:3b:00.4", NULL) == vf);
    /* A parent that holds mdevs is not itself a device that was handed out. */
    g_assert_null(vgpu_assignments_find_device(assignments, "0000:65:00.0", NULL));
    g_assert_true(vgpu_assignments_find_device(assignments, NULL, mdev->device->uuid) == mdev);
    g_assert_cmpuint(vgpu_assignments_count_uid(assignments, 1000), ==, 1);

    g_assert_cmpuint(vgpu_assignments_given_back(assignments, "0000:3b:00.4"), ==, 0);
    vgpu_assignments_remove(assignments, vf);
    vgpu_assignments_remove(assignments, mdev);
    g_assert_cmpuint(vgpu_assignments_given_back(assignments, "0000:3b:00.4"), >, 0);
    g_assert_cmpuint(vgpu_assignments_given_back(assignments, "0000:3b:00.4"), <,
                     vgpu_assignments_given_back(assignments, "0000:65:00.0"));
    g_assert_null(vgpu_assignments_get(assignments, "a"));
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    for (gsize i = 0; i < G_N_ELEMENTS(cells); i++) {
        g_autofree char *path = g_strconcat("/assignments/", cells[i].promise, NULL);
        g_test_add_data_func(path, &cells[i], test_cell);
    }
    g_test_add_func("/assignments/vanished-owner/is-remembered-through-a-clear", test_owner_is_remembered);
    g_test_add_func("/assignments/failed/only-ebusy-may-be-repeated", test_only_ebusy_may_be_repeated);
    g_test_add_func("/assignments/untold/is-hidden-until-it-fails", test_untold_is_hidden);
    g_test_add_func("/assignments/collection/finds-counts-and-remembers", test_collection);
    return g_test_run();
}
