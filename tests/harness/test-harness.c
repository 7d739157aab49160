/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The host under test keeps its own promises: otherwise a test that passes means nothing. */
#include "host-private.h"
#include "journal.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <systemd/sd-journal.h>
#include <unistd.h>

#define CARD "0000:3b:00.0"
#define VF "0000:3b:00.4"
#define NOBODY 65534

static Host *
start_host(void)
{
    Host *host = host_new(NULL);

    bed_add_card(host_bed(host), "l40s", CARD, 2);
    host_start(host, NULL);
    return host;
}

/* ---- Waiting ---- */

static gboolean
on_event(gpointer data)
{
    *(gboolean *)data = TRUE;
    return G_SOURCE_REMOVE;
}

static void
test_wait_lets_events_run(void)
{
    gboolean happened = FALSE;

    g_idle_add(on_event, &happened);
    wait_for(happened);
}

/* ---- What must fail, in a process of its own ---- */

static void
fails_with(void (*run)(void), const char *words)
{
    if (g_test_subprocess()) {
        run();
        return;
    }
    g_test_trap_subprocess(NULL, 0, 0);
    g_test_trap_assert_failed();
    g_test_trap_assert_stderr(words);
}

static void
run_wait_in_vain(void)
{
    Host *host = start_host();
    Client *client = client_new(host, 0);
    gboolean never = FALSE;

    client_must_assign(client, "L40S-2Q", NULL, NULL);
    wait_for_up_to(0.01, never);
}

static void
test_wait_in_vain(void)
{
    fails_with(run_wait_in_vain, "*waited in vain for: never*current_vgpu_type*log of the service*");
}

static void
run_abort(void)
{
    Host *host = start_host();
    g_autofree char *path = host_file(host, "log");
    int log = open(path, O_WRONLY | O_APPEND);

    dprintf(log, "last words\n");
    abort();
}

static void
test_abort_shows_logs(void)
{
    fails_with(run_abort, "*log of the service*last words*log of dbus-daemon*");
}

static void
run_early_end(void)
{
    Host *host = start_host();

    kill(host_pid(host), SIGKILL);
    waitid(P_PID, (id_t)host_pid(host), NULL, WEXITED | WNOWAIT);
    host_free(host);
}

static void
test_early_end(void)
{
    fails_with(run_early_end, "*the service ended with 137 before the test did*");
}

/* A shell, which ends badly after the service has ended well. */
static void
run_bad_end(void)
{
    Host *host = host_new(NULL);
    g_autofree char *wrapper = host_file(host, "wrapper");

    g_assert_true(g_file_set_contents(
        wrapper, "#!/bin/sh\ntrap 'kill $!; wait; exit 3' TERM\n\"$@\" &\nwait\n", -1, NULL));
    chmod(wrapper, 0755);
    g_setenv("VGPU_TEST_WRAPPER", wrapper, TRUE);
    host_start(host, NULL);
    host_free(host);
}

static void
test_bad_end(void)
{
    fails_with(run_bad_end, "*the service ended with 3 after SIGTERM*");
}

static void
run_no_start(void)
{
    const char *const nonsense[] = {"--nonsense", NULL};

    host_start(host_new(NULL), nonsense);
}

static void
test_no_start(void)
{
    fails_with(run_no_start, "*the service ended with * instead of starting*");
}

static void
run_sanitizer(void)
{
    Host *host = start_host();
    g_autofree char *path = host_file(host, "log");
    int log = open(path, O_WRONLY | O_APPEND);

    dprintf(log, "daemon.c:1:2: runtime error: made up\n");
    host_free(host);
}

static void
test_sanitizer(void)
{
    fails_with(run_sanitizer, "*a sanitizer spoke in the service*");
}

/* Somebody reads an attribute while a write to its device is under way. */
static void
run_broken_rule(void)
{
    Host *host = start_host();
    Bed *bed = host_bed(host);
    g_autoptr(Client) client = client_new(host, 0);
    g_autofree char *path = bed_path(bed, VF "/nvidia/creatable_vgpu_types");
    Pending *pending;
    pid_t reader;

    bed_stall(bed, VF, BED_SET);
    pending = client_start(client, "Assign", g_variant_new_parsed("('L40S-2Q', @a{sv} {})"));
    wait_for(bed_stalled(bed, VF) == 1);
    reader = fork();
    if (reader == 0) {
        char byte;
        int fd = open(path, O_RDONLY);

        _exit(read(fd, &byte, 1) != 1);
    }
    waitpid(reader, NULL, 0);
    bed_resume(bed, VF);
    g_variant_unref(client_finish(pending, NULL));
    host_free(host);
}

static void
test_broken_rule(void)
{
    fails_with(run_broken_rule, "*creatable_vgpu_types was read*");
}

/* ---- The bus ---- */

static GVariant *
ask_bus(GDBusConnection *connection, const char *method, GVariant *arguments)
{
    return g_dbus_connection_call_sync(connection, "org.freedesktop.DBus", "/org/freedesktop/DBus",
                                       "org.freedesktop.DBus", method, arguments, G_VARIANT_TYPE("(u)"),
                                       G_DBUS_CALL_FLAGS_NONE, -1, NULL, NULL);
}

static void
test_bus_knows_users(void)
{
    g_autoptr(Host) host = host_new(NULL);
    g_autoptr(GDBusConnection) root = host_connect(host);
    g_autoptr(Client) user = client_new(host, NOBODY);
    g_autoptr(GVariant) reply =
        ask_bus(root, "GetConnectionUnixUser", g_variant_new("(s)", client_name(user)));
    guint uid = 0;

    g_variant_get(reply, "(u)", &uid);
    g_assert_cmpuint(uid, ==, NOBODY);
}

static gboolean
may_own(GDBusConnection *connection, const char *name)
{
    g_autoptr(GVariant) reply = ask_bus(connection, "RequestName", g_variant_new("(su)", name, 4));

    return reply != NULL;
}

static void
test_bus_has_the_policy(void)
{
    g_autoptr(Host) host = host_new(NULL);
    g_autoptr(GDBusConnection) root = host_connect(host);
    g_autoptr(GDBusConnection) user = bus_connect(host_get_bus(host), NOBODY);

    g_assert_false(may_own(user, "org.hypeman.VGPU1"));
    g_assert_false(may_own(user, "org.freedesktop.PolicyKit1"));
    g_assert_false(may_own(root, "org.example.Other"));
    g_assert_true(may_own(root, "org.hypeman.VGPU1"));
}

/* Owners of another bus are gone for good: what they had is released. */
static void
test_bus_dies(void)
{
    g_autoptr(Host) host = start_host();
    g_autoptr(Client) client = client_new(host, 0);
    g_autofree char *id = client_must_assign(client, "L40S-2Q", NULL, NULL);

    host_kill_bus(host);
    g_assert_cmpint(host_wait(host), !=, 0);
    g_assert_cmpuint(bed_vf_type(host_bed(host), VF), ==, 1148);
    host_start_bus(host);
    host_start(host, NULL);
    wait_for(bed_vf_type(host_bed(host), VF) == 0);
}

/* ---- The journal ---- */

static void
test_journal(void)
{
    g_autoptr(Journal) journal = journal_new();
    g_autofree char *names = NULL;

    g_assert_cmpint(sd_journal_send("MESSAGE=one", "VGPU_ID=a", "VGPU_REASON=", NULL), ==, 0);
    g_assert_cmpint(sd_journal_send("MESSAGE=two\nlines", "VGPU_ID=b", "VGPU_ID=c", NULL), ==, 0);
    wait_for(journal_count(journal, "VGPU_ID", "b") == 1);
    g_assert_cmpuint(journal_count(journal, "VGPU_ID", "a"), ==, 1);
    g_assert_cmpstr(journal_field(journal, "VGPU_ID", "a", "MESSAGE"), ==, "one");
    g_assert_cmpstr(journal_field(journal, "VGPU_ID", "a", "VGPU_REASON"), ==, "");
    g_assert_cmpstr(journal_field(journal, "VGPU_ID", "b", "MESSAGE"), ==, "two\nlines");
    g_assert_null(journal_field(journal, "VGPU_ID", "d", "MESSAGE"));
    names = journal_names(journal, "VGPU_ID", "b");
    g_assert_true(g_str_has_suffix(names, " VGPU_ID VGPU_ID"));
}

static int
run(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/harness/wait/lets-events-run", test_wait_lets_events_run);
    g_test_add_func("/harness/wait/in-vain-shows-log-and-trace", test_wait_in_vain);
    g_test_add_func("/harness/abort/shows-logs", test_abort_shows_logs);
    g_test_add_func("/harness/service/that-does-not-start-fails-the-test", test_no_start);
    g_test_add_func("/harness/service/early-end-fails-the-test", test_early_end);
    g_test_add_func("/harness/service/bad-end-fails-the-test", test_bad_end);
    g_test_add_func("/harness/service/sanitizer-fails-the-test", test_sanitizer);
    g_test_add_func("/harness/service/broken-rule-fails-the-test", test_broken_rule);
    g_test_add_func("/harness/bus/knows-each-user", test_bus_knows_users);
    g_test_add_func("/harness/bus/has-the-installed-policy", test_bus_has_the_policy);
    g_test_add_func("/harness/bus/comes-back-as-another", test_bus_dies);
    g_test_add_func("/harness/journal/captures-fields", test_journal);
    return g_test_run();
}

int
main(int argc, char **argv)
{
    return bed_main(argc, argv, run);
}
