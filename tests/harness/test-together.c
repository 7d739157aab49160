/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The real service on the bed, with all that the harness has around it. */
#include "bed.h"
#include "harness.h"

#include <signal.h>

#define CARD "0000:3b:00.0"
#define VF "0000:3b:00.4"
#define MESSAGE_ASSIGNED "46e202adf2cf4deba76a7cce8a16d49f"
#define MESSAGE_ENDED "b0da79a37e7c422d919ce038448c8010"

typedef struct {
    Bed *bed;
    Bus *bus;
    Journal *journal;
    Daemon *daemon;
} Fixture;

static void
set_up(Fixture *fixture, gconstpointer data)
{
    g_auto(GStrv) environment = NULL;

    fixture->bed = bed_new(NULL);
    bed_add_card(fixture->bed, "l40s", CARD, 4);
    fixture->bus = bus_new(NULL);
    fixture->journal = journal_new();
    environment = bed_environ(fixture->bed, NULL);
    fixture->daemon = daemon_new(fixture->bus, environment);
}

static void
tear_down(Fixture *fixture, gconstpointer data)
{
    g_auto(GStrv) violations = bed_violations(fixture->bed);
    g_autofree char *broken = g_strjoinv("; ", violations);

    daemon_free(fixture->daemon);
    journal_free(fixture->journal);
    bus_free(fixture->bus);
    bed_free(fixture->bed);
    g_assert_cmpstr(broken, ==, "");
}

static void
test_killed_client(Fixture *fixture, gconstpointer data)
{
    g_autoptr(MockPolkit) polkit = mock_polkit_new(fixture->bus);
    g_autoptr(Client) client = NULL;
    g_autoptr(Client) listener = NULL;
    g_autoptr(GVariant) row = NULL;
    g_autoptr(GError) error = NULL;
    g_autofree char *id = NULL;
    g_autofree char *reply = NULL;
    g_autofree char *reason = NULL;

    daemon_start(fixture->daemon);
    client = client_new_process(fixture->bus, HARNESS_NOBODY);
    listener = client_new(fixture->bus, 0);
    client_listen(client);
    client_listen(listener);
    id = client_assign(client, "L40S-2Q", NULL, &row, &error);
    g_assert_no_error(error);
    g_assert_cmpuint(bed_vf_type(fixture->bed, VF), ==, 1148);
    g_assert_cmpint(row_number(row, "UID"), ==, HARNESS_NOBODY);
    g_assert_cmpint(row_number(row, "PID"), ==, client_pid(client));
    g_assert_cmpstr(mock_polkit_question(polkit, 0)->subject_name, ==, client_name(client));
    /* The reply first. */
    reply = g_strdup_printf("reply Assign %s", id);
    wait_for(client_heard(client, "invalidated Assignments") > 0);
    g_assert_cmpint(client_heard_at(client, reply), >=, 0);
    g_assert_cmpint(client_heard_at(client, reply), <, client_heard_at(client, "invalidated Assignments"));
    journal_wait(fixture->journal, "MESSAGE_ID", MESSAGE_ASSIGNED);
    g_assert_cmpstr(journal_field(fixture->journal, "MESSAGE_ID", MESSAGE_ASSIGNED, "VGPU_ID"), ==, id);

    client_kill(client);
    reason = client_wait_removed(listener, id);
    g_assert_cmpstr(reason, ==, "owner-vanished");
    g_assert_cmpuint(bed_vf_type(fixture->bed, VF), ==, 0);
    journal_wait(fixture->journal, "MESSAGE_ID", MESSAGE_ENDED);
    g_assert_cmpstr(journal_field(fixture->journal, "VGPU_ID", id, "VGPU_REASON"), ==, "owner-vanished");
}

static void
test_real_polkit(Fixture *fixture, gconstpointer data)
{
    g_autoptr(RealPolkit) polkit = real_polkit_new(
        fixture->bus, "polkit.addRule(function(action, subject) {\n"
                      "    return subject.user == 'nobody' ? polkit.Result.YES : polkit.Result.NO;\n"
                      "});\n");
    g_autoptr(Client) nobody = NULL;
    g_autoptr(Client) daemon_user = NULL;
    g_autoptr(GError) error = NULL;
    g_autofree char *id = NULL;

    daemon_start(fixture->daemon);
    nobody = client_new(fixture->bus, HARNESS_NOBODY);
    daemon_user = client_new(fixture->bus, 1);
    g_assert_null(client_assign(daemon_user, "L40S-2Q", NULL, NULL, &error));
    assert_error(error, "org.freedesktop.DBus.Error.AccessDenied");
    g_clear_error(&error);
    id = client_assign(nobody, "L40S-2Q", NULL, NULL, &error);
    g_assert_no_error(error);
    g_assert_true(client_release(nobody, id, &error));
    g_assert_no_error(error);
}

static void
test_restart(Fixture *fixture, gconstpointer data)
{
    g_autoptr(MockPolkit) polkit = mock_polkit_new(fixture->bus);
    g_autoptr(Client) client = NULL;
    g_autoptr(GError) error = NULL;
    g_autofree char *id = NULL;
    g_autofree char *state = NULL;

    daemon_start(fixture->daemon);
    client = client_new(fixture->bus, 0);
    id = client_assign(client, "L40S-2Q", NULL, NULL, &error);
    g_assert_no_error(error);
    daemon_restart(fixture->daemon, SIGKILL);
    state = client_state(client, id);
    g_assert_cmpstr(state, ==, "assigned");
}

static void
test_bus_dies(Fixture *fixture, gconstpointer data)
{
    daemon_start(fixture->daemon);
    daemon_expect_end(fixture->daemon);
    bus_stop(fixture->bus, SIGKILL);
    g_assert_cmpint(daemon_wait(fixture->daemon), !=, 0);
    bus_start(fixture->bus);
    daemon_start(fixture->daemon);
}

#define ADD(path, test) g_test_add(path, Fixture, NULL, set_up, test, tear_down)

static int
run(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    ADD("/together/killed-client/loses-its-device", test_killed_client);
    ADD("/together/real-polkit/decides-by-user", test_real_polkit);
    ADD("/together/restart/keeps-the-owner", test_restart);
    ADD("/together/bus/dies-and-the-service-with-it", test_bus_dies);
    return g_test_run();
}

int
main(int argc, char **argv)
{
    return bed_main(argc, argv, run);
}
