/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the service did not hand out is not its to touch, and what it did can go from under it. */
#include "host.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#define CARD "0000:3b:00.0"
#define OTHER "0000:5e:00.0"
#define T4 "0000:65:00.0"
#define VF "0000:3b:00.4"
#define NEXT "0000:3b:00.5"
#define UUID "c1b7b4a4-4c1b-4f5d-9d2e-6a5f0c3e7a11"
#define NOBODY 65534

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
    bed_add_card(fixture->bed, "l40s", CARD, 4);
    bed_add_card(fixture->bed, "t4", T4, 0);
    host_start(fixture->host, NULL);
    fixture->client = client_new(fixture->host, 0);
    client_listen(fixture->client);
}

static void
tear_down(Fixture *fixture, gconstpointer data)
{
    g_clear_pointer(&fixture->client, client_free);
    host_free(fixture->host);
}

static gboolean
reclaim(Fixture *fixture, const char *device, GError **error)
{
    g_autoptr(GVariant) reply = client_call(fixture->client, "Reclaim", g_variant_new("(s)", device), error);

    return reply != NULL;
}

static void
make_foreign(Fixture *fixture)
{
    g_assert_cmpint(bed_set_by_hand(fixture->bed, VF, 1148), ==, 0);
    g_assert_cmpint(bed_create_by_hand(fixture->bed, T4, "nvidia-231", UUID), ==, 0);
}

static guint
touches_of_foreign(Fixture *fixture)
{
    return bed_trace_count(fixture->bed, BED_TRACE_WRITE | BED_TRACE_OPEN, VF, NULL) +
           bed_trace_count(fixture->bed, BED_TRACE_WRITE | BED_TRACE_OPEN, UUID, NULL);
}

static void
test_never_touched(Fixture *fixture, gconstpointer data)
{
    make_foreign(fixture);
    for (guint i = 0; i < 6; i++) {
        g_autoptr(Client) client = client_new(fixture->host, 0);
        g_autofree char *id = client_must_assign(client, i % 2 ? "L40S-2Q" : "T4-2Q", NULL, NULL);

        if (i % 3 == 0)
            g_assert_true(client_release(client, id, NULL));
    }
    bed_uevent(fixture->bed, VF, "change");
    g_assert_cmpint(host_stop(fixture->host, SIGKILL), ==, 128 + SIGKILL);
    host_start(fixture->host, NULL);
    wait_for(client_assignments(fixture->client) == 0);
    g_assert_cmpint(host_stop(fixture->host, SIGTERM), ==, 0);
    host_start(fixture->host, NULL);
    g_assert_cmpuint(touches_of_foreign(fixture), ==, 0);
    g_assert_cmpuint(bed_vf_type(fixture->bed, VF), ==, 1148);
    g_assert_true(bed_exists(fixture->bed, UUID));
}

static void
test_reclaim(Fixture *fixture, gconstpointer data)
{
    g_autoptr(GError) error = NULL;

    make_foreign(fixture);
    g_assert_true(reclaim(fixture, "3B:00.4", &error));
    g_assert_no_error(error);
    g_assert_cmpuint(bed_vf_type(fixture->bed, VF), ==, 0);
    g_assert_true(reclaim(fixture, UUID, &error));
    g_assert_no_error(error);
    g_assert_false(bed_exists(fixture->bed, UUID));
    g_assert_cmpuint(client_assignments(fixture->client), ==, 0);
}

static void
test_reclaim_of_open(Fixture *fixture, gconstpointer data)
{
    static const char *const devices[] = {VF, UUID};

    make_foreign(fixture);
    for (gsize i = 0; i < G_N_ELEMENTS(devices); i++) {
        BedHolder *vm = bed_hold(fixture->bed, devices[i]);
        g_autoptr(GError) error = NULL;

        g_assert_false(reclaim(fixture, devices[i], &error));
        assert_error(error, "InUse");
        bed_let_go(vm);
    }
    /* A refusal does not make it ours: nothing happens when it is closed. */
    g_assert_cmpuint(client_assignments(fixture->client), ==, 0);
    g_assert_cmpint(host_stop(fixture->host, SIGTERM), ==, 0);
    host_start(fixture->host, NULL);
    g_assert_cmpuint(bed_trace_count(fixture->bed, BED_TRACE_WRITE, NULL, NULL), ==, 0);
    g_assert_cmpuint(bed_vf_type(fixture->bed, VF), ==, 1148);
}

/* It was proved unused, but its turn to be written comes after another write on its card. By then somebody
 * has cleared it, or (@data) has set it anew. */
static void
test_reclaim_of_what_changes(Fixture *fixture, gconstpointer data)
{
    Pending *assign, *reclaim_of_vf;
    g_autoptr(GError) error = NULL;
    g_autoptr(GVariant) reply = NULL;
    g_autoptr(GVariant) assigned = NULL;

    make_foreign(fixture);
    bed_stall(fixture->bed, NEXT, BED_SET);
    assign = client_start(fixture->client, "Assign",
                          g_variant_new_parsed("('L40S-2Q', {'device': <'" NEXT "'>})"));
    g_assert_true(bed_wait_stalled(fixture->bed, NEXT, 10));
    reclaim_of_vf = client_start(fixture->client, "Reclaim", g_variant_new("(s)", VF));
    g_assert_true(bed_trace_wait(fixture->bed, BED_TRACE_OPEN, VF, NULL, 1, 10));
    g_assert_cmpint(bed_set_by_hand(fixture->bed, VF, 0), ==, 0);
    if (data)
        g_assert_cmpint(bed_set_by_hand(fixture->bed, VF, 1146), ==, 0);
    bed_resume(fixture->bed, NEXT);
    reply = client_finish(reclaim_of_vf, &error);
    if (data) {
        assert_error(error, "InvalidArgs");
        g_assert_nonnull(strstr(error->message, "nothing was reclaimed"));
    } else {
        g_assert_no_error(error);
    }
    assigned = client_finish(assign, NULL);
    g_assert_nonnull(assigned);
    g_assert_cmpuint(bed_vf_type(fixture->bed, VF), ==, data ? 1146 : 0);
    g_assert_cmpuint(bed_trace_count(fixture->bed, BED_TRACE_WRITE, VF, NULL), ==, 0);
}

static void
test_reclaim_of_nothing(Fixture *fixture, gconstpointer data)
{
    static const char *const devices[] = {VF, UUID, "0000:99:00.0", "", "../../etc", "T4"};

    for (gsize i = 0; i < G_N_ELEMENTS(devices); i++) {
        g_autoptr(GError) error = NULL;

        g_assert_false(reclaim(fixture, devices[i], &error));
        assert_error(error, "InvalidArgs");
    }
    g_assert_cmpuint(bed_trace_count(fixture->bed, BED_TRACE_WRITE | BED_TRACE_OPEN, NULL, NULL), ==, 0);
}

static void
test_reclaim_of_somebodys(Fixture *fixture, gconstpointer data)
{
    g_autofree char *id = client_must_assign(fixture->client, "L40S-2Q", NULL, NULL);
    g_autoptr(GError) error = NULL;

    g_assert_false(reclaim(fixture, VF, &error));
    assert_error(error, "InvalidArgs");
    g_assert_nonnull(strstr(error->message, id));
    g_assert_cmpuint(bed_vf_type(fixture->bed, VF), ==, 1148);
}

static void
test_reclaim_that_fails(Fixture *fixture, gconstpointer data)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(GVariant) rows = NULL;
    g_autoptr(GVariant) row = NULL;

    make_foreign(fixture);
    bed_fail(fixture->bed, VF, BED_CLEAR, EIO, 1);
    g_assert_false(reclaim(fixture, VF, &error));
    assert_error(error, "DeviceFailed");
    rows = client_get(fixture->client, "Assignments");
    row = row_find(rows, "Device", VF);
    g_assert_nonnull(row);
    g_assert_cmpstr(row_string(row, "State"), ==, "failed");
    g_assert_cmpuint(bed_trace_count(fixture->bed, BED_TRACE_WRITE, VF, "0"), ==, 1);
    g_clear_error(&error);
    g_assert_true(reclaim(fixture, VF, &error));
    g_assert_cmpuint(client_assignments(fixture->client), ==, 0);
}

static void
test_cards(void)
{
    g_autoptr(Host) host = host_new(NULL);
    g_autofree char *config = host_file(host, "conf");
    g_autofree char *argument = g_strdup_printf("--config=%s", config);
    g_autoptr(Client) client = NULL;
    g_autoptr(GVariant) cards = NULL;
    g_autoptr(GError) error = NULL;
    g_autofree char *id = NULL;

    bed_add_card(host_bed(host), "l40s", CARD, 2);
    bed_add_card(host_bed(host), "l40s", OTHER, 2);
    g_assert_cmpint(bed_set_by_hand(host_bed(host), VF, 1148), ==, 0);
    g_assert_true(g_file_set_contents(config, "[VGPU]\nCards=" OTHER "\n", -1, NULL));
    host_start(host, (const char *const[]){argument, NULL});
    client = client_new(host, 0);
    cards = client_get(client, "GPUs");
    g_assert_cmpuint(g_variant_n_children(cards), ==, 1);
    g_assert_null(client_assign(client, "L40S-2Q", "{'gpu': <'" CARD "'>}", NULL, &error));
    assert_error(error, "InvalidArgs");
    g_clear_error(&error);
    {
        g_autoptr(GVariant) reply = client_call(client, "Reclaim", g_variant_new("(s)", VF), &error);

        assert_error(error, "InvalidArgs");
    }
    id = client_must_assign(client, "L40S-2Q", NULL, NULL);
    g_assert_cmpuint(bed_vfs_set(host_bed(host), OTHER), ==, 1);
    g_assert_cmpuint(bed_vf_type(host_bed(host), VF), ==, 1148);
}

/* ---- Gone, or made anew ---- */

/* As a plain user, so that there is an ACL entry to withdraw. */
static char *
assign_to_nobody(Fixture *fixture, Client **ret_user)
{
    host_polkit(fixture->host, POLKIT_YES);
    *ret_user = client_new(fixture->host, NOBODY);
    return client_must_assign(*ret_user, "L40S-2Q", NULL, NULL);
}

static void
assert_lost(Fixture *fixture, const char *id)
{
    g_autoptr(GError) error = NULL;
    guint writes = bed_trace_count(fixture->bed, BED_TRACE_WRITE, NULL, NULL);

    wait_for(client_was_removed(fixture->client, id, "lost"));
    g_assert_cmpuint(client_assignments(fixture->client), ==, 0);
    g_assert_false(client_release(fixture->client, id, &error));
    assert_error(error, "UnknownAssignment");
    g_assert_cmpuint(bed_trace_count(fixture->bed, BED_TRACE_WRITE, NULL, NULL), ==, writes);
}

static void
test_vfs_made_anew(Fixture *fixture, gconstpointer data)
{
    Client *user;
    g_autofree char *id = assign_to_nobody(fixture, &user);

    bed_disable_vfs(fixture->bed, CARD);
    bed_enable_vfs(fixture->bed, CARD, 4);
    assert_lost(fixture, id);
    client_free(user);
}

static void
test_driver_reload(Fixture *fixture, gconstpointer type)
{
    Client *user;
    g_autofree char *id = assign_to_nobody(fixture, &user);

    bed_reload_driver(fixture->bed, VF, (unsigned)GPOINTER_TO_INT(type));
    assert_lost(fixture, id);
    client_free(user);
    /* The next owner, here a tool that knows nothing of us, is untouched. */
    g_assert_cmpuint(bed_vf_type(fixture->bed, VF), ==, (guint)GPOINTER_TO_INT(type));
    g_assert_cmpuint(bed_trace_count(fixture->bed, BED_TRACE_WRITE, VF, "0"), ==, 0);
}

static void
test_cleared_by_hand(Fixture *fixture, gconstpointer data)
{
    Client *user;
    g_autofree char *id = assign_to_nobody(fixture, &user);
    int refused = 0;

    g_assert_cmpint(bed_set_by_hand(fixture->bed, VF, 0), ==, 0);
    bed_uevent(fixture->bed, VF, "change");
    assert_lost(fixture, id);
    /* Its former owner can no longer open the node. */
    g_assert_null(bed_hold_full(fixture->bed, VF, BED_HOLD_GROUP_ONLY, NULL, NOBODY, &refused));
    g_assert_cmpint(refused, ==, EACCES);
    client_free(user);
}

static void
test_mdev_removed_by_hand(Fixture *fixture, gconstpointer data)
{
    g_autoptr(GVariant) row = NULL;
    g_autofree char *id = client_must_assign(fixture->client, "T4-2Q", NULL, &row);

    g_assert_cmpint(bed_remove_by_hand(fixture->bed, row_string(row, "UUID")), ==, 0);
    assert_lost(fixture, id);
}

/* Others write into sysfs without an event: the next scan that anything causes notices. */
static void
test_noticed_by_a_read(Fixture *fixture, gconstpointer data)
{
    g_autofree char *id = client_must_assign(fixture->client, "L40S-2Q", NULL, NULL);

    g_assert_cmpint(bed_set_by_hand(fixture->bed, VF, 0), ==, 0);
    wait_for((g_variant_unref(client_get(fixture->client, "GPUs")),
              client_was_removed(fixture->client, id, "lost")));
    g_assert_cmpuint(bed_trace_count(fixture->bed, BED_TRACE_WRITE, VF, "0"), ==, 0);
}

/* The service learns of it only when it wants to clear: nothing is written. */
static void
test_found_lost_by_release(Fixture *fixture, gconstpointer data)
{
    g_autofree char *id = client_must_assign(fixture->client, "L40S-2Q", NULL, NULL);
    g_autoptr(GError) error = NULL;

    bed_mute_uevents(fixture->bed, TRUE);
    bed_reload_driver(fixture->bed, VF, 1148);
    g_assert_false(client_release(fixture->client, id, &error));
    assert_error(error, "UnknownAssignment");
    g_assert_cmpuint(bed_vf_type(fixture->bed, VF), ==, 1148);
    g_assert_cmpuint(bed_trace_count(fixture->bed, BED_TRACE_WRITE, VF, "0"), ==, 0);
    wait_for(client_was_removed(fixture->client, id, "lost"));
}

static void
test_lost_while_down(Fixture *fixture, gconstpointer data)
{
    g_autofree char *id = client_must_assign(fixture->client, "L40S-2Q", NULL, NULL);

    g_assert_cmpint(host_stop(fixture->host, SIGKILL), ==, 128 + SIGKILL);
    bed_reload_driver(fixture->bed, VF, 1148);
    host_start(fixture->host, NULL);
    wait_for(client_assignments(fixture->client) == 0);
    g_assert_cmpuint(bed_vf_type(fixture->bed, VF), ==, 1148);
    g_assert_cmpuint(bed_trace_count(fixture->bed, BED_TRACE_WRITE, VF, "0"), ==, 0);
}

static gint64
slots(Fixture *fixture, const char *address)
{
    g_autoptr(GVariant) rows = client_get(fixture->client, "GPUs");
    g_autoptr(GVariant) row = row_find(rows, "Address", address);

    return row ? row_number(row, "Slots") : -1;
}

static void
test_burst(Fixture *fixture, gconstpointer data)
{
    guint before;

    bed_disable_vfs(fixture->bed, CARD);
    wait_for(client_changes(fixture->client, "GPUs") > 0);
    g_assert_cmpint(slots(fixture, CARD), ==, 0);
    before = client_changes(fixture->client, "GPUs");
    bed_enable_vfs(fixture->bed, CARD, 32);
    wait_for(client_changes(fixture->client, "GPUs") > before);
    g_assert_cmpint(slots(fixture, CARD), ==, 32);
    bed_uevent(fixture->bed, T4, "change"); /* one more rescan, in which nothing is new */
    g_assert_cmpint(slots(fixture, T4), ==, 8);
    g_assert_cmpuint(client_changes(fixture->client, "GPUs"), ==, before + 1);
}

static void
test_late_attributes(Fixture *fixture, gconstpointer data)
{
    bed_disable_vfs(fixture->bed, CARD);
    bed_late_attributes(fixture->bed, 50);
    bed_enable_vfs(fixture->bed, CARD, 4);
    wait_for(slots(fixture, CARD) == 4);
}

static void
test_card_comes_and_goes(Fixture *fixture, gconstpointer data)
{
    bed_add_card(fixture->bed, "l40s", OTHER, 2);
    wait_for(client_changes(fixture->client, "GPUs") == 1);
    g_assert_cmpint(slots(fixture, OTHER), ==, 2);
    bed_remove_card(fixture->bed, OTHER);
    wait_for(client_changes(fixture->client, "GPUs") == 2);
    g_assert_cmpint(slots(fixture, OTHER), ==, -1);
}

#define ADD(path, data, test) g_test_add(path, Fixture, data, set_up, test, tear_down)

static int
run(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    ADD("/foreign/by-hand/is-never-touched", NULL, test_never_touched);
    ADD("/foreign/reclaim/clears-what-nobody-uses", NULL, test_reclaim);
    ADD("/foreign/reclaim/refuses-what-is-open-and-forgets-it", NULL, test_reclaim_of_open);
    ADD("/foreign/reclaim/of-what-was-cleared-meanwhile-writes-nothing", NULL, test_reclaim_of_what_changes);
    ADD("/foreign/reclaim/of-what-was-set-meanwhile-writes-nothing", "set", test_reclaim_of_what_changes);
    ADD("/foreign/reclaim/of-nothing-is-an-error", NULL, test_reclaim_of_nothing);
    ADD("/foreign/reclaim/of-somebodys-names-the-assignment", NULL, test_reclaim_of_somebodys);
    ADD("/foreign/reclaim/that-fails-is-listed-and-not-repeated", NULL, test_reclaim_that_fails);
    g_test_add_func("/foreign/cards/others-are-left-alone", test_cards);
    ADD("/foreign/lost/functions-made-anew", NULL, test_vfs_made_anew);
    ADD("/foreign/lost/driver-reloaded-with-no-type", GINT_TO_POINTER(0), test_driver_reload);
    ADD("/foreign/lost/driver-reloaded-with-the-same-type", GINT_TO_POINTER(1148), test_driver_reload);
    ADD("/foreign/lost/cleared-by-hand-closes-the-node", NULL, test_cleared_by_hand);
    ADD("/foreign/lost/mdev-removed-by-hand", NULL, test_mdev_removed_by_hand);
    ADD("/foreign/lost/found-by-release-writes-nothing", NULL, test_found_lost_by_release);
    ADD("/foreign/lost/cleared-by-hand-is-noticed-by-a-read", NULL, test_noticed_by_a_read);
    ADD("/foreign/lost/while-the-service-was-down", NULL, test_lost_while_down);
    ADD("/foreign/plug/a-burst-is-one-change", NULL, test_burst);
    ADD("/foreign/plug/attributes-that-come-late", NULL, test_late_attributes);
    ADD("/foreign/plug/card-comes-and-goes", NULL, test_card_comes_and_goes);
    return g_test_run();
}

int
main(int argc, char **argv)
{
    return bed_main(argc, argv, run);
}
