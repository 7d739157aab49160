/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Who may do what, and what polkit's silence means. */
#include "host.h"

#include <string.h>

#define CARD "0000:3b:00.0"
#define VF "0000:3b:00.4"
#define T4 "0000:af:00.0"
#define UUID "c1b7b4a4-4c1b-4f5d-9d2e-6a5f0c3e7a11"
#define NOBODY 65534
#define SOMEBODY 1 /* the bus wants a user that exists */
#define ALLOW_INTERACTION 1

typedef struct {
    Host *host;
    Bed *bed;
    Client *root;
    Client *user;
} Fixture;

/* @data: one more card, of the kind of that name. */
static void
set_up(Fixture *fixture, gconstpointer data)
{
    fixture->host = host_new(NULL);
    fixture->bed = host_bed(fixture->host);
    bed_add_card(fixture->bed, "l40s", CARD, 12);
    if (data)
        bed_add_card(fixture->bed, data, T4, 0);
    host_start(fixture->host, NULL);
    fixture->root = client_new(fixture->host, 0);
    fixture->user = client_new(fixture->host, NOBODY);
}

static void
tear_down(Fixture *fixture, gconstpointer data)
{
    g_clear_pointer(&fixture->root, client_free);
    g_clear_pointer(&fixture->user, client_free);
    host_free(fixture->host);
}

static void
assert_untouched(Fixture *fixture)
{
    g_autoptr(GVariant) rows = client_get(fixture->root, "Assignments");

    g_assert_cmpuint(g_variant_n_children(rows), ==, 0);
    g_assert_cmpuint(bed_trace_count(fixture->bed, BED_TRACE_WRITE | BED_TRACE_OPEN, NULL, NULL), ==, 0);
}

/* Assign by the plain user must fail with @error_text's name and write nothing. */
static void
assert_refused(Fixture *fixture, gboolean interactive, const char *name)
{
    g_autoptr(GError) error = NULL;
    GVariant *arguments = g_variant_new_parsed("('L40S-2Q', @a{sv} {})");
    g_autoptr(GVariant) reply = interactive
                                    ? client_call_interactive(fixture->user, "Assign", arguments, &error)
                                    : client_call(fixture->user, "Assign", arguments, &error);

    g_assert_null(reply);
    assert_error(error, name);
    assert_untouched(fixture);
}

static void
test_allowed(Fixture *fixture, gconstpointer data)
{
    g_autoptr(GVariant) row = NULL;
    g_autofree char *id = NULL;

    host_polkit(fixture->host, POLKIT_YES);
    id = client_must_assign(fixture->user, "1148", "{'gpu': <'3b:00.0'>, 'label': <'mine'>}", &row);
    g_assert_cmpint(row_number(row, "UID"), ==, NOBODY);
    g_assert_cmpstr(polkit_last_action(fixture->host), ==, "org.hypeman.VGPU1.assign");
    g_assert_cmpstr(polkit_last_details(fixture->host), ==, "gpu=0000:3b:00.0 profile=NVIDIA L40S-2Q");
    g_assert_cmpuint(polkit_last_flags(fixture->host), ==, 0);
}

static void
test_everybody_is_asked_about(Fixture *fixture, gconstpointer data)
{
    g_autofree char *id = NULL;

    host_polkit(fixture->host, POLKIT_YES);
    id = client_must_assign(fixture->root, "L40S-2Q", NULL, NULL);
    g_assert_cmpuint(polkit_asked(fixture->host), ==, 1);
}

static void
test_denied(Fixture *fixture, gconstpointer data)
{
    host_polkit(fixture->host, POLKIT_NO);
    assert_refused(fixture, FALSE, "AccessDenied");
    assert_refused(fixture, TRUE, "AccessDenied");
}

static void
test_challenge(Fixture *fixture, gconstpointer data)
{
    host_polkit(fixture->host, POLKIT_CHALLENGE);
    assert_refused(fixture, FALSE, "InteractiveAuthorizationRequired");
    g_assert_cmpuint(polkit_last_flags(fixture->host), ==, 0);
    assert_refused(fixture, TRUE, "AccessDenied");
    g_assert_cmpuint(polkit_last_flags(fixture->host), ==, ALLOW_INTERACTION);
}

static void
test_dismissed(Fixture *fixture, gconstpointer data)
{
    host_polkit(fixture->host, POLKIT_DISMISSED);
    assert_refused(fixture, TRUE, "AccessDenied");
}

static void
test_polkit_gone(Fixture *fixture, gconstpointer data)
{
    g_autofree char *id = NULL;

    assert_refused(fixture, FALSE, "AccessDenied");
    id = client_must_assign(fixture->root, "L40S-2Q", NULL, NULL);
}

static void
test_polkit_dies_during_the_dialog(Fixture *fixture, gconstpointer data)
{
    g_autoptr(GError) error = NULL;
    Pending *pending;

    host_polkit(fixture->host, POLKIT_HANG);
    pending = client_start(fixture->user, "Assign", g_variant_new_parsed("('L40S-2Q', @a{sv} {})"));
    wait_for(polkit_open(fixture->host) == 1);
    host_polkit(fixture->host, POLKIT_GONE);
    g_assert_null(client_finish(pending, &error));
    assert_error(error, "AccessDenied");
    assert_untouched(fixture);
}

static void
test_caller_dies_during_the_dialog(Fixture *fixture, gconstpointer data)
{
    Pending *pending;

    host_polkit(fixture->host, POLKIT_HANG);
    pending = client_start(fixture->user, "Assign", g_variant_new_parsed("('L40S-2Q', @a{sv} {})"));
    wait_for(polkit_open(fixture->host) == 1);
    g_clear_pointer(&fixture->user, client_free);
    wait_for(polkit_cancelled(fixture->host) == 1);
    polkit_answer(fixture->host, TRUE);
    /* A call of another that polkit answers afterwards shows that the late yes has arrived, and was nothing.
     */
    host_polkit(fixture->host, POLKIT_NO);
    fixture->user = client_new(fixture->host, NOBODY);
    assert_refused(fixture, FALSE, "AccessDenied");
    g_assert_null(client_finish(pending, NULL));
}

static void
test_open_dialogs_block_nobody(Fixture *fixture, gconstpointer data)
{
    Pending *pending[5];
    g_autoptr(GVariant) all = NULL;
    g_autoptr(GError) too_many = NULL;
    guint asked;

    host_polkit(fixture->host, POLKIT_HANG);
    for (guint i = 0; i < 4; i++)
        pending[i] = client_start(fixture->user, "Assign", g_variant_new_parsed("('L40S-2Q', @a{sv} {})"));
    wait_for(polkit_open(fixture->host) == 4);
    all = client_call(fixture->user, "org.freedesktop.DBus.Properties.GetAll",
                      g_variant_new("(s)", "org.hypeman.VGPU1"), NULL);
    g_assert_nonnull(all);
    asked = polkit_asked(fixture->host);
    pending[4] = client_start(fixture->user, "Assign", g_variant_new_parsed("('L40S-2Q', @a{sv} {})"));
    g_assert_null(client_finish(pending[4], &too_many));
    assert_error(too_many, "LimitsExceeded");
    g_assert_cmpuint(polkit_asked(fixture->host), ==, asked);
    for (guint i = 0; i < 4; i++)
        g_assert_false(pending_is_done(pending[i]));
    polkit_answer(fixture->host, FALSE);
    for (guint i = 0; i < 4; i++) {
        g_autoptr(GError) error = NULL;

        g_assert_null(client_finish(pending[i], &error));
        assert_error(error, "AccessDenied");
    }
    assert_untouched(fixture);
}

static void
test_limit_of_assignments(Fixture *fixture, gconstpointer data)
{
    g_autoptr(Client) other = client_new(fixture->host, SOMEBODY);
    g_autoptr(GError) error = NULL;
    g_autofree char *others = NULL;

    host_polkit(fixture->host, POLKIT_YES);
    for (guint i = 0; i < 8; i++) {
        g_autofree char *id = client_must_assign(fixture->user, "L40S-2Q", NULL, NULL);
    }
    g_assert_null(client_assign(fixture->user, "L40S-2Q", NULL, NULL, &error));
    assert_error(error, "LimitsExceeded");
    others = client_must_assign(other, "L40S-2Q", NULL, NULL);
}

static void
test_nothing_is_reserved_while_a_dialog_is_open(Fixture *fixture, gconstpointer data)
{
    Pending *pending;
    g_autofree char *id = NULL;
    g_autoptr(GVariant) reply = NULL;
    g_autoptr(GVariant) row = NULL;
    g_autoptr(GError) error = NULL;

    host_polkit(fixture->host, POLKIT_HANG);
    pending = client_start(fixture->user, "Assign",
                           g_variant_new_parsed("('L40S-2Q', {'device': <'0000:3b:00.4'>})"));
    wait_for(polkit_open(fixture->host) == 1);
    host_polkit(fixture->host, POLKIT_YES);
    id = client_must_assign(fixture->root, "L40S-2Q", "{'device': <'0000:3b:00.4'>}", &row);
    polkit_answer(fixture->host, TRUE);
    reply = client_finish(pending, &error);
    g_assert_null(reply);
    assert_error(error, "NoCapacity");
    g_assert_cmpuint(bed_vf_type(fixture->bed, VF), ==, 1148);
}

static void
test_device_goes_during_the_dialog(Fixture *fixture, gconstpointer data)
{
    Pending *pending;
    g_autoptr(GVariant) reply = NULL;
    g_autoptr(GError) error = NULL;

    host_polkit(fixture->host, POLKIT_HANG);
    pending = client_start(fixture->user, "Assign", g_variant_new_parsed("('L40S-2Q', @a{sv} {})"));
    wait_for(polkit_open(fixture->host) == 1);
    bed_disable_vfs(fixture->bed, CARD);
    polkit_answer(fixture->host, TRUE);
    reply = client_finish(pending, &error);
    g_assert_null(reply);
    assert_error(error, "NoFramework");
}

/* No rule has seen a name, so none is given. */
static void
test_name_is_learnt_during_the_dialog(void)
{
    g_autoptr(Host) host = host_new(NULL);
    Bed *bed = host_bed(host);
    Client *user;
    g_autoptr(GVariant) reply = NULL;
    g_autoptr(GError) error = NULL;
    Pending *pending;

    bed_add_card(bed, "l40s", CARD, 4);
    g_assert_cmpint(bed_set_by_hand(bed, "0000:3b:00.5", 1148), ==, 0);
    bed_catalogue_says(bed, CARD, "ID    : vGPU Name\n");
    host_start(host, NULL);
    host_polkit(host, POLKIT_HANG);
    user = client_new(host, NOBODY);
    pending = client_start(user, "Assign", g_variant_new_parsed("('NVIDIA L40S-2Q', @a{sv} {})"));
    wait_for(polkit_open(host) == 1);
    g_assert_cmpstr(polkit_last_details(host), ==, "");
    bed_catalogue_says(bed, CARD, NULL);
    polkit_answer(host, TRUE);
    reply = client_finish(pending, &error);
    g_assert_null(reply);
    assert_error(error, "Busy");
    client_free(user);
}

/* Both could have it when they asked. */
static void
test_uuid_is_taken_during_the_dialog(Fixture *fixture, gconstpointer data)
{
    Pending *pending;
    g_autofree char *id = NULL;
    g_autoptr(GVariant) reply = NULL;
    g_autoptr(GError) error = NULL;

    host_polkit(fixture->host, POLKIT_HANG);
    pending =
        client_start(fixture->user, "Assign", g_variant_new_parsed("('T4-2Q', {'uuid': <'" UUID "'>})"));
    wait_for(polkit_open(fixture->host) == 1);
    host_polkit(fixture->host, POLKIT_YES);
    id = client_must_assign(fixture->root, "T4-2Q", "{'uuid': <'" UUID "'>}", NULL);
    polkit_answer(fixture->host, TRUE);
    reply = client_finish(pending, &error);
    g_assert_null(reply);
    assert_error(error, "InvalidArgs");
    g_assert_nonnull(strstr(error->message, "is taken by another mdev"));
}

static void
test_release_of_anothers(Fixture *fixture, gconstpointer data)
{
    g_autofree char *id = client_must_assign(fixture->root, "L40S-2Q", NULL, NULL);
    g_autoptr(GError) error = NULL;
    guint opens = bed_trace_count(fixture->bed, BED_TRACE_OPEN, NULL, NULL);

    host_polkit(fixture->host, POLKIT_NO);
    g_assert_false(client_release(fixture->user, id, &error));
    assert_error(error, "AccessDenied");
    g_assert_cmpstr(polkit_last_action(fixture->host), ==, "org.hypeman.VGPU1.manage");
    g_assert_cmpuint(bed_trace_count(fixture->bed, BED_TRACE_OPEN, NULL, NULL), ==, opens);
    g_assert_cmpuint(bed_vf_type(fixture->bed, VF), ==, 1148);

    g_clear_error(&error);
    host_polkit(fixture->host, POLKIT_YES);
    g_assert_true(client_release(fixture->user, id, &error));
    g_assert_no_error(error);
    g_assert_cmpuint(bed_vf_type(fixture->bed, VF), ==, 0);
}

static void
test_release_of_own_uid_is_free(Fixture *fixture, gconstpointer data)
{
    g_autoptr(Client) again = client_new(fixture->host, NOBODY);
    g_autofree char *id = NULL;
    g_autoptr(GError) error = NULL;

    host_polkit(fixture->host, POLKIT_YES);
    id = client_must_assign(fixture->user, "L40S-2Q", NULL, NULL);
    host_polkit(fixture->host, POLKIT_NO);
    g_assert_true(client_release(again, id, &error));
    g_assert_no_error(error);
    g_assert_cmpuint(polkit_asked(fixture->host), ==, 1);
}

static void
test_adopt_of_anothers(Fixture *fixture, gconstpointer data)
{
    g_autofree char *id = client_must_assign(fixture->root, "L40S-2Q", NULL, NULL);
    g_autoptr(GError) error = NULL;
    g_autoptr(GVariant) refused = NULL;
    g_autoptr(GVariant) adopted = NULL;
    g_autoptr(GVariant) row = NULL;

    host_polkit(fixture->host, POLKIT_NO);
    refused = client_call(fixture->user, "Adopt", g_variant_new("(s)", id), &error);
    assert_error(error, "AccessDenied");
    g_assert_cmpstr(polkit_last_action(fixture->host), ==, "org.hypeman.VGPU1.manage");
    g_clear_error(&error);
    host_polkit(fixture->host, POLKIT_YES);
    adopted = client_call(fixture->user, "Adopt", g_variant_new("(s)", id), &error);
    g_assert_no_error(error);
    row = g_variant_get_child_value(adopted, 0);
    g_assert_cmpint(row_number(row, "UID"), ==, NOBODY);
    g_clear_pointer(&fixture->user, client_free);
    wait_for(bed_vf_type(fixture->bed, VF) == 0);
}

static void
test_reclaim_needs_manage(Fixture *fixture, gconstpointer data)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(GVariant) reply = NULL;

    g_assert_cmpint(bed_set_by_hand(fixture->bed, VF, 1148), ==, 0);
    host_polkit(fixture->host, POLKIT_NO);
    reply = client_call(fixture->user, "Reclaim", g_variant_new("(s)", VF), &error);
    assert_error(error, "AccessDenied");
    g_assert_cmpstr(polkit_last_action(fixture->host), ==, "org.hypeman.VGPU1.manage");
    assert_untouched(fixture);
}

#define ADD(path, test) g_test_add(path, Fixture, NULL, set_up, test, tear_down)

static int
run(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    ADD("/authority/yes/assigns-and-polkit-hears-profile-and-gpu", test_allowed);
    ADD("/authority/root/is-asked-about-too", test_everybody_is_asked_about);
    ADD("/authority/no/writes-nothing", test_denied);
    ADD("/authority/challenge/says-whether-interaction-would-help", test_challenge);
    ADD("/authority/dismissed/writes-nothing", test_dismissed);
    ADD("/authority/gone/denies-users-and-passes-root", test_polkit_gone);
    ADD("/authority/gone/during-the-dialog-denies", test_polkit_dies_during_the_dialog);
    ADD("/authority/vanished-caller/late-yes-means-nothing", test_caller_dies_during_the_dialog);
    ADD("/authority/pending/four-dialogs-block-nobody-and-a-fifth-is-refused",
        test_open_dialogs_block_nobody);
    ADD("/authority/limit/ninth-assignment-is-refused-and-others-go-on", test_limit_of_assignments);
    ADD("/authority/dialog/reserves-nothing", test_nothing_is_reserved_while_a_dialog_is_open);
    ADD("/authority/dialog/device-that-went-meanwhile", test_device_goes_during_the_dialog);
    g_test_add_func("/authority/dialog/name-that-was-not-known-before",
                    test_name_is_learnt_during_the_dialog);
    g_test_add("/authority/dialog/uuid-that-was-taken-meanwhile", Fixture, "t4", set_up,
               test_uuid_is_taken_during_the_dialog, tear_down);
    ADD("/authority/release/of-anothers-needs-manage", test_release_of_anothers);
    ADD("/authority/release/of-own-uid-is-free", test_release_of_own_uid_is_free);
    ADD("/authority/adopt/of-anothers-needs-manage", test_adopt_of_anothers);
    ADD("/authority/reclaim/needs-manage", test_reclaim_needs_manage);
    return g_test_run();
}

int
main(int argc, char **argv)
{
    return bed_main(argc, argv, run);
}
