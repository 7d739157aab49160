/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Killed at any instruction, the next start finds every device that was set. */
#include "host.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#define CARD "0000:3b:00.0"
#define T4 "0000:65:00.0"
#define VF "0000:3b:00.4"
#define VFS 6

typedef struct {
    Host *host;
    Bed *bed;
    Client *client;
} Fixture;

static void
set_up(Fixture *fixture, gconstpointer data)
{
    fixture->host = host_new(NULL);
    fixture->bed = host_bed(fixture->host);
    bed_add_card(fixture->bed, "l40s", CARD, VFS);
    bed_add_card(fixture->bed, "t4", T4, 0);
    host_start(fixture->host, NULL);
    fixture->client = client_new(fixture->host, 0);
}

static void
tear_down(Fixture *fixture, gconstpointer data)
{
    g_clear_pointer(&fixture->client, client_free);
    host_free(fixture->host);
}

static guint
devices_set(Bed *bed)
{
    g_auto(GStrv) mdevs = bed_mdevs(bed, NULL);

    return bed_vfs_set(bed, NULL) + g_strv_length(mdevs);
}

static void
restart(Fixture *fixture, int signal_number)
{
    g_assert_cmpint(host_stop(fixture->host, signal_number), ==,
                    signal_number == SIGTERM ? 0 : 128 + signal_number);
    host_start(fixture->host, NULL);
}

static void
test_owner_keeps_its_devices(Fixture *fixture, gconstpointer signal_number)
{
    g_autoptr(Client) watcher = client_new(fixture->host, 0);
    g_autofree char *first = client_must_assign(fixture->client, "L40S-2Q", NULL, NULL);
    g_autofree char *second = client_must_assign(fixture->client, "T4-2Q", NULL, NULL);
    g_autoptr(GVariant) before = client_get(watcher, "Assignments");
    g_autoptr(GVariant) after = NULL;
    guint writes = bed_trace_count(fixture->bed, BED_TRACE_WRITE, NULL, NULL);

    restart(fixture, GPOINTER_TO_INT(signal_number));
    after = client_get(watcher, "Assignments");
    g_assert_cmpvariant(before, after);
    g_assert_cmpuint(bed_trace_count(fixture->bed, BED_TRACE_WRITE, NULL, NULL), ==, writes);
    g_clear_pointer(&fixture->client, client_free);
    wait_for(devices_set(fixture->bed) == 0 && client_assignments(watcher) == 0);
}

static void
test_owner_left_meanwhile(Fixture *fixture, gconstpointer data)
{
    g_autoptr(Client) watcher = client_new(fixture->host, 0);
    g_autofree char *first = client_must_assign(fixture->client, "L40S-2Q", NULL, NULL);
    g_autofree char *second = client_must_assign(fixture->client, "T4-2Q", NULL, NULL);

    g_assert_cmpint(host_stop(fixture->host, SIGKILL), ==, 128 + SIGKILL);
    g_clear_pointer(&fixture->client, client_free);
    host_start(fixture->host, NULL);
    wait_for(devices_set(fixture->bed) == 0 && client_assignments(watcher) == 0);
}

static void
test_owner_left_but_it_is_open(Fixture *fixture, gconstpointer data)
{
    g_autoptr(Client) watcher = client_new(fixture->host, 0);
    g_autofree char *id = client_must_assign(fixture->client, "L40S-2Q", NULL, NULL);
    BedHolder *vm = bed_hold(fixture->bed, VF);

    g_assert_cmpint(host_stop(fixture->host, SIGKILL), ==, 128 + SIGKILL);
    g_clear_pointer(&fixture->client, client_free);
    host_start(fixture->host, NULL);
    wait_for(client_state_is(watcher, id, "lingering"));
    g_assert_cmpuint(bed_vf_type(fixture->bed, VF), ==, 1148);
    restart(fixture, SIGTERM);
    wait_for(client_state_is(watcher, id, "lingering"));
    bed_let_go(vm);
    wait_for(bed_vf_type(fixture->bed, VF) == 0 && client_assignments(watcher) == 0);
}

static gboolean
is_held_by(Client *client, const char *id, const char *who)
{
    g_autoptr(GVariant) row = client_assignment(client, id);
    g_autoptr(GVariant) holders = g_variant_lookup_value(row, "Holders", G_VARIANT_TYPE("as"));
    g_autofree const char **names = holders ? g_variant_get_strv(holders, NULL) : NULL;

    return names && g_strv_contains(names, who);
}

/* Open before and after a start, then closed while the service is down. */
static void
test_closed_meanwhile(Fixture *fixture, gconstpointer data)
{
    g_autofree char *id = client_must_assign(fixture->client, "L40S-2Q", NULL, NULL);
    BedHolder *vm = bed_hold_full(fixture->bed, VF, BED_HOLD_VM, "qemu-kvm", 0, NULL);
    g_autofree char *who = g_strdup_printf("%d qemu-kvm", bed_holder_pid(vm));

    wait_for(is_held_by(fixture->client, id, who));
    restart(fixture, SIGKILL);
    wait_for(client_state_is(fixture->client, id, "in-use"));
    g_assert_cmpint(host_stop(fixture->host, SIGKILL), ==, 128 + SIGKILL);
    bed_let_go(vm);
    host_start(fixture->host, NULL);
    wait_for(client_state_is(fixture->client, id, "assigned"));
    g_assert_cmpuint(bed_vf_type(fixture->bed, VF), ==, 1148);
}

/* Set, and the service is killed before it has answered: released though the caller lives. */
static void
test_never_answered(Fixture *fixture, gconstpointer data)
{
    Pending *pending;

    bed_stall_after(fixture->bed, VF, BED_SET);
    pending = client_start(fixture->client, "Assign", g_variant_new_parsed("('L40S-2Q', @a{sv} {})"));
    g_assert_true(bed_wait_stalled(fixture->bed, VF, 10));
    kill(host_pid(fixture->host), SIGKILL);
    bed_resume(fixture->bed, VF);
    g_assert_cmpint(host_wait(fixture->host), ==, 128 + SIGKILL);
    g_assert_cmpuint(bed_vf_type(fixture->bed, VF), ==, 1148);
    g_assert_null(client_finish(pending, NULL));
    host_start(fixture->host, NULL);
    wait_for(bed_vf_type(fixture->bed, VF) == 0);
    g_assert_cmpuint(client_assignments(fixture->client), ==, 0);
}

static void
test_bus_dies(Fixture *fixture, gconstpointer data)
{
    g_autofree char *id = client_must_assign(fixture->client, "L40S-2Q", NULL, NULL);
    int status;

    host_kill_bus(fixture->host);
    status = host_wait(fixture->host);
    g_assert_cmpint(status, !=, 0);
    g_assert_cmpint(status, <, 128);
    g_assert_cmpuint(bed_vf_type(fixture->bed, VF), ==, 1148);
}

static void
test_second_service(Fixture *fixture, gconstpointer data)
{
    g_autofree char *id = client_must_assign(fixture->client, "L40S-2Q", NULL, NULL);
    g_autofree char *state_file = host_runtime_file(fixture->host, "state");
    g_autofree char *before = NULL;
    g_autofree char *after = NULL;
    guint touches = bed_trace_count(fixture->bed, BED_TRACE_WRITE | BED_TRACE_OPEN, NULL, NULL);

    g_assert_true(g_file_get_contents(state_file, &before, NULL, NULL));
    g_assert_cmpint(host_start_second(fixture->host), ==, 1);
    g_assert_true(g_file_get_contents(state_file, &after, NULL, NULL));
    g_assert_cmpstr(before, ==, after);
    g_assert_cmpuint(bed_trace_count(fixture->bed, BED_TRACE_WRITE | BED_TRACE_OPEN, NULL, NULL), ==,
                     touches);
    g_assert_true(client_state_is(fixture->client, id, "assigned"));
}

static void
test_unreadable_state(Fixture *fixture, gconstpointer text)
{
    g_autofree char *id = client_must_assign(fixture->client, "L40S-2Q", NULL, NULL);
    g_autofree char *state_file = host_runtime_file(fixture->host, "state");
    g_autofree char *whole = NULL;
    g_autofree char *log = NULL;
    guint touches;

    g_assert_cmpint(host_stop(fixture->host, SIGTERM), ==, 0);
    g_assert_true(g_file_get_contents(state_file, &whole, NULL, NULL));
    if (text)
        g_assert_true(g_file_set_contents(state_file, text, -1, NULL));
    else
        g_assert_true(g_file_set_contents(state_file, whole, (gssize)strlen(whole) / 2, NULL));
    g_clear_pointer(&fixture->client, client_free);
    touches = bed_trace_count(fixture->bed, BED_TRACE_WRITE | BED_TRACE_OPEN, NULL, NULL);
    host_start(fixture->host, NULL);
    fixture->client = client_new(fixture->host, 0);
    g_assert_cmpuint(client_assignments(fixture->client), ==, 0);
    g_assert_cmpuint(bed_vf_type(fixture->bed, VF), ==, 1148);
    g_assert_cmpuint(bed_trace_count(fixture->bed, BED_TRACE_WRITE | BED_TRACE_OPEN, NULL, NULL), ==,
                     touches);
    log = host_log(fixture->host);
    g_assert_nonnull(strstr(log, "set aside"));
}

static void
test_stop_answers(Fixture *fixture, gconstpointer data)
{
    g_autoptr(Client) user = client_new(fixture->host, 65534);
    g_autoptr(GError) error = NULL;
    Pending *pending;

    host_polkit(fixture->host, POLKIT_HANG);
    pending = client_start(user, "Assign", g_variant_new_parsed("('L40S-2Q', @a{sv} {})"));
    wait_for(polkit_open(fixture->host) == 1);
    g_assert_cmpint(host_stop(fixture->host, SIGTERM), ==, 0);
    g_assert_null(client_finish(pending, &error));
    assert_error(error, "Busy");
    g_assert_cmpuint(devices_set(fixture->bed), ==, 0);
    host_start(fixture->host, NULL);
}

/* SIGTERM while a set is under way: it is waited for, unanswered, and released by the next start. */
static void
test_stop_during_a_write(Fixture *fixture, gconstpointer data)
{
    g_autoptr(GError) error = NULL;
    Pending *pending;

    bed_stall(fixture->bed, VF, BED_SET);
    pending = client_start(fixture->client, "Assign", g_variant_new_parsed("('L40S-2Q', @a{sv} {})"));
    g_assert_true(bed_wait_stalled(fixture->bed, VF, 10));
    kill(host_pid(fixture->host), SIGTERM);
    g_assert_null(client_finish(pending, &error));
    assert_error(error, "Busy");
    bed_resume(fixture->bed, VF);
    g_assert_cmpint(host_wait(fixture->host), ==, 0);
    host_start(fixture->host, NULL);
    wait_for(bed_vf_type(fixture->bed, VF) == 0 && client_assignments(fixture->client) == 0);
}

/* What a service leaves that has seen the owner go, has recorded something else, and was killed before it had
 * taken the device: a record that knows that its owner has gone. */
static void
test_owner_known_to_be_gone(Fixture *fixture, gconstpointer data)
{
    g_autoptr(Client) watcher = client_new(fixture->host, 0);
    g_autofree char *id = client_must_assign(fixture->client, "L40S-2Q", NULL, NULL);
    g_autofree char *path = host_runtime_file(fixture->host, "state");
    g_autofree char *text = NULL;
    g_autofree char *checksum = NULL;
    g_autofree char *sealed = NULL;
    g_autoptr(GString) body = NULL;

    g_assert_cmpint(host_stop(fixture->host, SIGKILL), ==, 128 + SIGKILL);
    g_clear_pointer(&fixture->client, client_free);
    g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
    body = g_string_new(strchr(text, '\n') + 1);
    g_assert_cmpuint(g_string_replace(body, "owner-gone=false", "owner-gone=true", 0), ==, 1);
    checksum = g_compute_checksum_for_string(G_CHECKSUM_SHA256, body->str, -1);
    sealed = g_strdup_printf("hypeman-vgpu-state 1 %s\n%s", checksum, body->str);
    g_assert_true(g_file_set_contents(path, sealed, -1, NULL));
    host_start(fixture->host, NULL);
    wait_for(devices_set(fixture->bed) == 0 && client_assignments(watcher) == 0);
}

/* ---- Killed after each step ---- */

typedef struct {
    const char *profile;
    gboolean owner_stays;
    gboolean held; /* by a VM, through the kill */
} Story;

/* What is set is in records, and each of them is assigned to the client. */
static gboolean
all_are_the_clients(Fixture *fixture, Client *watcher)
{
    g_autoptr(GVariant) rows = client_get(watcher, "Assignments");

    for (gsize i = 0; i < g_variant_n_children(rows); i++) {
        g_autoptr(GVariant) row = g_variant_get_child_value(rows, i);

        if (strcmp(row_string(row, "Owner"), client_name(fixture->client)) != 0 ||
            strcmp(row_string(row, "State"), "assigned") != 0)
            return FALSE;
    }
    return devices_set(fixture->bed) == g_variant_n_children(rows);
}

/* Everything settles: what is set is recorded, and of this owner. */
static void
assert_consistent(Fixture *fixture, const Story *story, const BedHolder *vm)
{
    g_autoptr(Client) watcher = client_new(fixture->host, 0);

    if (vm) {
        g_assert_cmpuint(devices_set(fixture->bed), ==, 1);
        wait_for(client_assignments(watcher) == 1);
        return;
    }
    if (!story->owner_stays) {
        wait_for(devices_set(fixture->bed) == 0 && client_assignments(watcher) == 0);
        return;
    }
    wait_for(all_are_the_clients(fixture, watcher));
}

static BedHolder *
hold(Fixture *fixture, GVariant *row)
{
    const char *uuid = row_string(row, "UUID");

    return bed_hold(fixture->bed, *uuid ? uuid : row_string(row, "Device"));
}

/* Returns FALSE when the story went to its end before the step came. */
static gboolean
killed_after(Fixture *fixture, const Story *story, guint step)
{
    g_autofree char *arm = NULL;
    g_autofree char *id = NULL;
    g_autoptr(GVariant) row = NULL;
    BedHolder *vm = NULL;
    gboolean killed;

    g_test_message("step %u", step);
    arm = host_start_armed(fixture->host, TEST_KILL_AFTER, step);
    fixture->client = client_new(fixture->host, 0);
    if (!story->held)
        g_assert_true(g_file_set_contents(arm, "", 0, NULL));
    id = client_assign(fixture->client, story->profile, NULL, &row, NULL);
    if (id && story->held) {
        vm = hold(fixture, row);
        g_assert_true(g_file_set_contents(arm, "", 0, NULL));
    }
    if (id)
        client_release(fixture->client, id, NULL);
    if (!story->owner_stays)
        g_clear_pointer(&fixture->client, client_free);
    /* Steps that come by themselves (signals, a clear after the owner left) have this long; a step that never
     * comes ends the story. */
    killed = host_wait_briefly(fixture->host);
    if (!killed)
        g_assert_cmpint(host_stop(fixture->host, SIGKILL), ==, 128 + SIGKILL);
    host_start(fixture->host, NULL);
    assert_consistent(fixture, story, vm);
    if (vm)
        bed_let_go(vm);
    g_clear_pointer(&fixture->client, client_free);
    wait_for(devices_set(fixture->bed) == 0);
    g_assert_cmpint(host_stop(fixture->host, SIGTERM), ==, 0);
    return killed;
}

static void
test_killed_after_each_step(gconstpointer data)
{
    const Story *story = data;
    Fixture fixture;
    guint step = 1;

    set_up(&fixture, NULL);
    g_clear_pointer(&fixture.client, client_free);
    g_assert_cmpint(host_stop(fixture.host, SIGTERM), ==, 0);
    while (killed_after(&fixture, story, step))
        step++;
    g_test_message("%u steps", step - 1);
    g_assert_cmpuint(step, >, story->held ? 1 : 5);
    host_start(fixture.host, NULL);
    fixture.client = client_new(fixture.host, 0);
    tear_down(&fixture, NULL);
}

static const Story vendor_stays = {"L40S-2Q", TRUE, FALSE};
static const Story vendor_leaves = {"L40S-2Q", FALSE, FALSE};
static const Story vendor_held = {"L40S-2Q", FALSE, TRUE};
static const Story mdev_stays = {"T4-2Q", TRUE, FALSE};
static const Story mdev_leaves = {"T4-2Q", FALSE, FALSE};
static const Story mdev_held = {"T4-2Q", FALSE, TRUE};

/* ---- Random kills under load ---- */

typedef struct {
    Client *client;
    Pending *pending;
    char *id;
} Load;

/* One client does whatever comes next for it. */
static void
act(Fixture *fixture, Load *load)
{
    g_autoptr(GVariant) reply = NULL;

    if (load->pending && !pending_is_done(load->pending))
        return;
    if (load->pending) {
        reply = client_finish(g_steal_pointer(&load->pending), NULL);
        if (reply && g_variant_n_children(reply) == 2)
            g_variant_get_child(reply, 0, "s", &load->id);
    }
    if (load->id && g_test_rand_bit()) {
        load->pending = client_start(load->client, "Release", g_variant_new("(s)", load->id));
        g_clear_pointer(&load->id, g_free);
    } else if (g_test_rand_int_range(0, 8) == 0) {
        g_clear_pointer(&load->id, g_free);
        client_free(load->client);
        load->client = client_new(fixture->host, 0);
    } else if (!load->id) {
        load->pending = client_start(
            load->client, "Assign",
            g_variant_new_parsed(g_test_rand_bit() ? "('L40S-2Q', @a{sv} {})" : "('T4-2Q', @a{sv} {})"));
    }
}

static void
run_load(Fixture *fixture, Load *loads, guint n_loads)
{
    gint64 until = g_get_monotonic_time() + g_test_rand_int_range(0, 40000);

    while (g_get_monotonic_time() < until) {
        for (guint i = 0; i < n_loads; i++)
            act(fixture, &loads[i]);
        host_iterate();
    }
}

/* Every device that is set is in a record that the bus shows. */
static gboolean
all_recorded(Fixture *fixture, Client *watcher)
{
    g_autoptr(GVariant) rows = client_get(watcher, "Assignments");
    g_auto(GStrv) vfs = bed_vfs(fixture->bed, CARD);
    g_auto(GStrv) mdevs = bed_mdevs(fixture->bed, NULL);

    for (char **vf = vfs; *vf; vf++) {
        g_autoptr(GVariant) row = row_find(rows, "Device", *vf);
        if (bed_vf_type(fixture->bed, *vf) != 0 && !row)
            return FALSE;
    }
    for (char **uuid = mdevs; *uuid; uuid++) {
        g_autoptr(GVariant) row = row_find(rows, "UUID", *uuid);
        if (!row)
            return FALSE;
    }
    return TRUE;
}

static void
test_random_kills(Fixture *fixture, gconstpointer data)
{
    /* A sanitized build shows other things than the one that is shipped, and takes its time. */
    guint kills = bed_slow() > 1 ? 50 : 500;
    g_autoptr(Client) watcher = client_new(fixture->host, 0);
    g_autofree char *id = client_must_assign(fixture->client, "L40S-2Q", NULL, NULL);
    BedHolder *vm = bed_hold(fixture->bed, VF);
    Load loads[4] = {0};

    for (guint i = 0; i < G_N_ELEMENTS(loads); i++)
        loads[i].client = client_new(fixture->host, 0);
    for (guint i = 0; i < kills; i++) {
        run_load(fixture, loads, G_N_ELEMENTS(loads));
        g_assert_cmpint(host_stop(fixture->host, SIGKILL), ==, 128 + SIGKILL);
        host_start(fixture->host, NULL);
        wait_for(all_recorded(fixture, watcher));
        g_assert_cmpuint(bed_vf_type(fixture->bed, VF), ==, 1148);
        g_assert_cmpuint(bed_trace_count(fixture->bed, BED_TRACE_WRITE, VF, "0"), ==, 0);
        if (i == kills / 2)
            g_clear_pointer(&fixture->client, client_free);
    }
    for (guint i = 0; i < G_N_ELEMENTS(loads); i++) {
        if (loads[i].pending) {
            g_autoptr(GVariant) reply = client_finish(loads[i].pending, NULL);
        }
        g_free(loads[i].id);
        client_free(loads[i].client);
    }
    bed_let_go(vm);
    wait_for(devices_set(fixture->bed) == 0 && client_assignments(watcher) == 0);
}

#define ADD(path, data, test) g_test_add(path, Fixture, data, set_up, test, tear_down)

static int
run(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    ADD("/restart/sigterm/owner-keeps-its-devices", GINT_TO_POINTER(SIGTERM), test_owner_keeps_its_devices);
    ADD("/restart/sigkill/owner-keeps-its-devices", GINT_TO_POINTER(SIGKILL), test_owner_keeps_its_devices);
    ADD("/restart/owner-left-meanwhile/is-released", NULL, test_owner_left_meanwhile);
    ADD("/restart/owner-left-meanwhile/open-device-lingers", NULL, test_owner_left_but_it_is_open);
    ADD("/restart/owner-left-before/is-released", NULL, test_owner_known_to_be_gone);
    ADD("/restart/in-use/what-was-missed-is-noticed", NULL, test_closed_meanwhile);
    ADD("/restart/never-answered/is-released-though-the-caller-lives", NULL, test_never_answered);
    ADD("/restart/bus-dies/ends-badly-and-clears-nothing", NULL, test_bus_dies);
    ADD("/restart/second-service/refuses-to-run", NULL, test_second_service);
    ADD("/restart/state/garbled-is-set-aside", "\x7f\x03nonsense\n", test_unreadable_state);
    ADD("/restart/state/empty-is-set-aside", "", test_unreadable_state);
    ADD("/restart/state/half-written-is-set-aside", NULL, test_unreadable_state);
    ADD("/restart/state/newer-version-is-set-aside", "hypeman-vgpu-state 99 0\n[host]\n",
        test_unreadable_state);
    ADD("/restart/stop/answers-pending-calls", NULL, test_stop_answers);
    ADD("/restart/stop/waits-for-a-write-under-way", NULL, test_stop_during_a_write);
    g_test_add_data_func("/restart/killed-after-each-step/vendor-vfio-owner-stays", &vendor_stays,
                         test_killed_after_each_step);
    g_test_add_data_func("/restart/killed-after-each-step/vendor-vfio-owner-leaves", &vendor_leaves,
                         test_killed_after_each_step);
    g_test_add_data_func("/restart/killed-after-each-step/vendor-vfio-held-open", &vendor_held,
                         test_killed_after_each_step);
    g_test_add_data_func("/restart/killed-after-each-step/mdev-owner-stays", &mdev_stays,
                         test_killed_after_each_step);
    g_test_add_data_func("/restart/killed-after-each-step/mdev-owner-leaves", &mdev_leaves,
                         test_killed_after_each_step);
    g_test_add_data_func("/restart/killed-after-each-step/mdev-held-open", &mdev_held,
                         test_killed_after_each_step);
    ADD("/restart/random-kills/under-load-lose-nothing", NULL, test_random_kills);
    return g_test_run();
}

int
main(int argc, char **argv)
{
    return bed_main(argc, argv, run);
}
