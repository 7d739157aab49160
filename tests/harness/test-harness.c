/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The harness keeps its own promises: otherwise a test that passes means nothing. */
#include "harness.h"

#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <systemd/sd-journal.h>
#include <unistd.h>

#define ASSIGN "org.hypeman.VGPU1.assign"
#define MANAGE "org.hypeman.VGPU1.manage"
#define POLKIT "org.freedesktop.PolicyKit1"
#define ALLOW_INTERACTION 1

typedef struct {
    Bus *bus;
    Client *root;
    Client *user;
} Fixture;

static void
set_up(Fixture *fixture, gconstpointer data)
{
    fixture->bus = bus_new(NULL);
    fixture->root = client_new(fixture->bus, 0);
    fixture->user = client_new(fixture->bus, HARNESS_NOBODY);
}

static void
tear_down(Fixture *fixture, gconstpointer data)
{
    client_free(fixture->user);
    client_free(fixture->root);
    bus_free(fixture->bus);
}

static guint
ask_bus_number(Client *client, const char *method, const char *name)
{
    g_autoptr(GVariant) reply =
        call_finish(client_start_to(client, "org.freedesktop.DBus", "/org/freedesktop/DBus",
                                    "org.freedesktop.DBus", method, g_variant_new("(s)", name)),
                    NULL);
    guint number = G_MAXUINT;

    if (reply)
        g_variant_get(reply, "(u)", &number);
    return number;
}

static guint
request_name(Client *client, const char *name)
{
    g_autoptr(GVariant) reply =
        call_finish(client_start_to(client, "org.freedesktop.DBus", "/org/freedesktop/DBus",
                                    "org.freedesktop.DBus", "RequestName", g_variant_new("(su)", name, 4)),
                    NULL);
    guint result = 0;

    if (reply)
        g_variant_get(reply, "(u)", &result);
    return result;
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

static void
test_wait_in_vain(void)
{
    if (g_test_subprocess()) {
        gboolean never = FALSE;

        wait_for_up_to(0.01, never);
        return;
    }
    g_test_trap_subprocess(NULL, 0, 0);
    g_test_trap_assert_failed();
    g_test_trap_assert_stderr("*waited in vain for: never*");
}

/* ---- The bus ---- */

static void
test_bus_knows_users(Fixture *fixture, gconstpointer data)
{
    g_assert_cmpuint(ask_bus_number(fixture->root, "GetConnectionUnixUser", client_name(fixture->user)), ==,
                     HARNESS_NOBODY);
    g_assert_cmpuint(ask_bus_number(fixture->user, "GetConnectionUnixUser", client_name(fixture->root)), ==,
                     0);
}

static void
test_bus_has_the_policy(Fixture *fixture, gconstpointer data)
{
    g_assert_cmpuint(request_name(fixture->user, "org.hypeman.VGPU1"), ==, 0);
    g_assert_cmpuint(request_name(fixture->user, POLKIT), ==, 0);
    g_assert_cmpuint(request_name(fixture->root, "org.example.Other"), ==, 0);
    g_assert_cmpuint(request_name(fixture->root, "org.hypeman.VGPU1"), ==, 1);
}

static void
test_bus_dies(Fixture *fixture, gconstpointer data)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(Client) again = NULL;
    Call *call;

    bus_stop(fixture->bus, SIGKILL);
    wait_for(g_dbus_connection_is_closed(client_connection(fixture->user)));
    call = client_start(fixture->user, "Release", g_variant_new("(s)", "id"));
    g_assert_null(call_finish(call, &error));
    g_assert_error(error, G_IO_ERROR, G_IO_ERROR_CLOSED);
    bus_start(fixture->bus);
    again = client_new(fixture->bus, HARNESS_NOBODY);
    g_assert_cmpuint(bus_connections(fixture->bus), ==, 1);
}

static void
test_bus_counts(Fixture *fixture, gconstpointer data)
{
    g_assert_cmpuint(bus_match_rules(fixture->bus, client_name(fixture->user)), ==, 0);
    client_listen(fixture->user);
    g_assert_cmpuint(bus_match_rules(fixture->bus, client_name(fixture->user)), ==, 1);
    g_assert_cmpuint(bus_connections(fixture->bus), ==, 2);
    client_close(fixture->user);
    wait_for(bus_connections(fixture->bus) == 1);
}

static void
test_bus_takes_more_configuration(void)
{
    g_autoptr(Bus) bus = bus_new("<limit name=\"max_match_rules_per_connection\">1</limit>");
    g_autoptr(Client) client = client_new(bus, 0);
    g_autoptr(GError) error = NULL;

    client_listen(client);
    g_assert_null(call_finish(client_start_to(client, "org.freedesktop.DBus", "/org/freedesktop/DBus",
                                              "org.freedesktop.DBus", "AddMatch",
                                              g_variant_new("(s)", "type='signal'")),
                              &error));
    assert_error(error, "org.freedesktop.DBus.Error.LimitsExceeded");
}

/* ---- Clients ---- */

static void
test_client_process(Fixture *fixture, gconstpointer data)
{
    g_autoptr(Client) client = client_new_process(fixture->bus, HARNESS_NOBODY);
    g_autofree char *name = g_strdup(client_name(client));
    g_autofree char *owner = NULL;
    pid_t pid = client_pid(client);

    g_assert_cmpint(pid, !=, getpid());
    g_assert_cmpuint(ask_bus_number(fixture->root, "GetConnectionUnixProcessID", name), ==, (guint)pid);
    g_assert_cmpuint(ask_bus_number(fixture->root, "GetConnectionUnixUser", name), ==, HARNESS_NOBODY);
    owner = bus_owner(fixture->bus, name);
    g_assert_cmpstr(owner, ==, name);
    client_kill(client);
    wait_for(bus_connections(fixture->bus) == 2);
    g_assert_null(bus_owner(fixture->bus, name));
}

/* ---- polkit ---- */

static Call *
start_question(Client *asker, const char *subject, const char *action, guint flags, const char *cancellation)
{
    GVariant *arguments = g_variant_new(
        "((s@a{sv})s@a{ss}us)", "system-bus-name", g_variant_new_parsed("{'name': <%s>}", subject), action,
        g_variant_new_parsed("{'profile': 'NVIDIA L40S-2Q', 'gpu': '0000:3b:00.0'}"), flags, cancellation);

    return client_start_to(asker, POLKIT, "/org/freedesktop/PolicyKit1/Authority",
                           "org.freedesktop.PolicyKit1.Authority", "CheckAuthorization", arguments);
}

/* "yes", "no", "challenge" or "dismissed", or the name of the error. The caller frees it. */
static char *
finish_question(Call *call)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(GVariant) reply = call_finish(call, &error);
    g_autoptr(GVariant) details = NULL;
    gboolean yes, challenge;

    if (!reply)
        return error_name(error);
    g_variant_get(reply, "((bb@a{ss}))", &yes, &challenge, &details);
    if (g_variant_lookup(details, "polkit.dismissed", "s", NULL))
        return g_strdup("dismissed");
    return g_strdup(yes ? "yes" : challenge ? "challenge" : "no");
}

#define assert_answer(call, expected)                                                                        \
    do {                                                                                                     \
        g_autofree char *_answer = finish_question(call);                                                    \
        g_assert_cmpstr(_answer, ==, (expected));                                                            \
    } while (0)

static Call *
ask(Fixture *fixture, const char *action)
{
    return start_question(fixture->root, client_name(fixture->user), action, 0, "");
}

static void
test_polkit_answers(Fixture *fixture, gconstpointer data)
{
    static const struct {
        PolkitAnswer mode;
        const char *answer;
    } cases[] = {
        {POLKIT_ALLOW, "yes"},
        {POLKIT_DENY, "no"},
        {POLKIT_CHALLENGE, "challenge"},
        {POLKIT_DISMISS, "dismissed"},
        {POLKIT_ERROR, "org.freedesktop.PolicyKit1.Error.Failed"},
    };
    g_autoptr(MockPolkit) polkit = mock_polkit_new(fixture->bus);

    assert_answer(ask(fixture, ASSIGN), "yes");
    for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
        mock_polkit_set(polkit, cases[i].mode);
        assert_answer(ask(fixture, ASSIGN), cases[i].answer);
    }
    g_assert_cmpuint(mock_polkit_asked(polkit), ==, 1 + G_N_ELEMENTS(cases));
    g_assert_cmpuint(mock_polkit_open(polkit), ==, 0);
}

static void
test_polkit_by_action(Fixture *fixture, gconstpointer data)
{
    g_autoptr(MockPolkit) polkit = mock_polkit_new(fixture->bus);

    mock_polkit_set_action(polkit, MANAGE, POLKIT_DENY);
    assert_answer(ask(fixture, MANAGE), "no");
    assert_answer(ask(fixture, ASSIGN), "yes");
}

static void
test_polkit_records(Fixture *fixture, gconstpointer data)
{
    g_autoptr(MockPolkit) polkit = mock_polkit_new(fixture->bus);
    g_autofree char *details = NULL;
    const PolkitQuestion *question;

    assert_answer(
        start_question(fixture->root, client_name(fixture->user), MANAGE, ALLOW_INTERACTION, "cancel-7"),
        "yes");
    question = mock_polkit_question(polkit, 0);
    g_assert_cmpstr(question->sender, ==, client_name(fixture->root));
    g_assert_cmpstr(question->subject_kind, ==, "system-bus-name");
    g_assert_cmpstr(question->subject_name, ==, client_name(fixture->user));
    g_assert_cmpstr(question->action, ==, MANAGE);
    g_assert_cmpuint(question->flags, ==, ALLOW_INTERACTION);
    g_assert_cmpstr(question->cancellation_id, ==, "cancel-7");
    details = mock_polkit_last_details(polkit);
    g_assert_cmpstr(details, ==, "gpu=0000:3b:00.0 profile=NVIDIA L40S-2Q");
    g_assert_cmpint(mock_polkit_state(polkit, 0), ==, POLKIT_ANSWERED);
}

static void
test_polkit_hangs(Fixture *fixture, gconstpointer data)
{
    g_autoptr(MockPolkit) polkit = mock_polkit_new(fixture->bus);
    Call *first, *second;

    mock_polkit_set(polkit, POLKIT_HANG);
    first = ask(fixture, ASSIGN);
    second = ask(fixture, ASSIGN);
    wait_for(mock_polkit_open(polkit) == 2);
    /* polkit answers others meanwhile, and nobody has answered these. */
    mock_polkit_set(polkit, POLKIT_DENY);
    assert_answer(ask(fixture, ASSIGN), "no");
    g_assert_false(call_is_done(first));
    mock_polkit_answer(polkit, 1, POLKIT_ALLOW);
    assert_answer(second, "yes");
    g_assert_false(call_is_done(first));
    mock_polkit_answer_all(polkit, POLKIT_DISMISS);
    assert_answer(first, "dismissed");
}

static Call *
start_cancel(Client *asker, const char *cancellation)
{
    return client_start_to(asker, POLKIT, "/org/freedesktop/PolicyKit1/Authority",
                           "org.freedesktop.PolicyKit1.Authority", "CancelCheckAuthorization",
                           g_variant_new("(s)", cancellation));
}

static void
test_polkit_cancel(Fixture *fixture, gconstpointer data)
{
    g_autoptr(MockPolkit) polkit = mock_polkit_new(fixture->bus);
    g_autoptr(GVariant) cancelled = NULL;
    Call *call;

    mock_polkit_set(polkit, POLKIT_HANG);
    call = start_question(fixture->root, client_name(fixture->user), ASSIGN, 0, "c1");
    wait_for(mock_polkit_open(polkit) == 1);
    /* Only who asked may cancel. */
    g_assert_null(call_finish(start_cancel(fixture->user, "c1"), NULL));
    g_assert_cmpuint(mock_polkit_cancelled(polkit), ==, 0);
    cancelled = call_finish(start_cancel(fixture->root, "c1"), NULL);
    g_assert_nonnull(cancelled);
    g_assert_cmpuint(mock_polkit_cancelled(polkit), ==, 1);
    assert_answer(call, "org.freedesktop.PolicyKit1.Error.Cancelled");
}

static void
test_polkit_ignores_cancel(Fixture *fixture, gconstpointer data)
{
    g_autoptr(MockPolkit) polkit = mock_polkit_new(fixture->bus);
    g_autoptr(GVariant) cancelled = NULL;
    Call *call;

    mock_polkit_set(polkit, POLKIT_HANG);
    mock_polkit_ignore_cancel(polkit, TRUE);
    call = start_question(fixture->root, client_name(fixture->user), ASSIGN, 0, "c1");
    wait_for(mock_polkit_open(polkit) == 1);
    cancelled = call_finish(start_cancel(fixture->root, "c1"), NULL);
    g_assert_nonnull(cancelled);
    g_assert_cmpuint(mock_polkit_cancelled(polkit), ==, 1);
    g_assert_false(call_is_done(call));
    mock_polkit_answer(polkit, 0, POLKIT_ALLOW);
    assert_answer(call, "yes");
}

static void
test_polkit_gone(Fixture *fixture, gconstpointer data)
{
    g_autoptr(MockPolkit) polkit = NULL;
    Call *call;

    assert_answer(ask(fixture, ASSIGN), "org.freedesktop.DBus.Error.ServiceUnknown");
    polkit = mock_polkit_new(fixture->bus);
    mock_polkit_set(polkit, POLKIT_HANG);
    call = ask(fixture, ASSIGN);
    wait_for(mock_polkit_open(polkit) == 1);
    mock_polkit_vanish(polkit);
    assert_answer(call, "org.freedesktop.DBus.Error.NoReply");
    g_assert_cmpint(mock_polkit_state(polkit, 0), ==, POLKIT_LOST);
    assert_answer(ask(fixture, ASSIGN), "org.freedesktop.DBus.Error.ServiceUnknown");
    mock_polkit_return(polkit);
    mock_polkit_set(polkit, POLKIT_ALLOW);
    assert_answer(ask(fixture, ASSIGN), "yes");
    g_assert_cmpuint(mock_polkit_asked(polkit), ==, 2);
}

#define NOBODY_MAY(result)                                                                                   \
    "polkit.addRule(function(action, subject) {\n"                                                           \
    "    if (action.id == '" ASSIGN "' && subject.user == 'nobody')\n"                                       \
    "        return polkit.Result." result ";\n"                                                             \
    "});\n"

static void
test_polkit_real(Fixture *fixture, gconstpointer data)
{
    g_autoptr(RealPolkit) polkit = real_polkit_new(fixture->bus, NOBODY_MAY("YES"));

    assert_answer(ask(fixture, ASSIGN), "yes");
    assert_answer(ask(fixture, MANAGE), "challenge");
    real_polkit_set_rules(polkit, NOBODY_MAY("NO"));
    assert_answer(ask(fixture, ASSIGN), "no");
    assert_answer(start_question(fixture->root, client_name(fixture->root), MANAGE, 0, ""), "yes");
}

static void
test_polkit_real_shipped(Fixture *fixture, gconstpointer data)
{
    g_autoptr(RealPolkit) polkit = real_polkit_new(fixture->bus, NULL);

    assert_answer(ask(fixture, ASSIGN), "challenge");
    assert_answer(ask(fixture, "org.example.nobody-knows"), "org.freedesktop.PolicyKit1.Error.Failed");
}

/* ---- The service ---- */

static Daemon *
start_dummy(Fixture *fixture)
{
    Daemon *daemon = daemon_new(fixture->bus, NULL);

    daemon_set_program(daemon, HARNESS_DUMMY);
    daemon_start(daemon);
    return daemon;
}

static void
test_daemon_starts(Fixture *fixture, gconstpointer data)
{
    g_autoptr(Daemon) daemon = start_dummy(fixture);
    g_autofree char *log = daemon_log(daemon);
    pid_t first = daemon_pid(daemon);

    g_assert_true(daemon_is_ready(daemon));
    g_assert_cmpstr(log, ==, "the dummy is here\n");
    g_assert_cmpuint(daemon_fds(daemon), >, 3);
    g_assert_cmpuint(daemon_threads(daemon), >, 1);
    g_assert_cmpuint(daemon_memory(daemon), >, 100);
    g_assert_cmpuint(daemon_match_rules(daemon), <, 10);
    daemon_restart(daemon, SIGKILL);
    g_assert_cmpint(daemon_pid(daemon), !=, first);
    g_assert_cmpint(daemon_stop(daemon, SIGTERM), ==, 0);
    g_assert_false(daemon_is_running(daemon));
    daemon_start(daemon);
    g_assert_cmpint(daemon_stop(daemon, SIGKILL), ==, 128 + SIGKILL);
}

static void
test_daemon_environment(Fixture *fixture, gconstpointer data)
{
    g_auto(GStrv) environment = g_environ_setenv(g_get_environ(), "COLOUR", "green", TRUE);
    static const char *const arguments[] = {"--tell", NULL};
    g_autoptr(Daemon) daemon = daemon_new(fixture->bus, environment);
    g_autofree char *log = NULL;

    daemon_set_program(daemon, HARNESS_DUMMY);
    daemon_set_arguments(daemon, arguments);
    daemon_set_variable(daemon, "TASTE", "sweet");
    daemon_set_config(daemon, "[VGPU]\n");
    daemon_spawn(daemon);
    g_assert_cmpint(daemon_wait(daemon), ==, 5);
    log = daemon_log(daemon);
    g_assert_cmpstr(log, ==, "green sweet [VGPU]\n");
}

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

/* In a process of its own, which is to fail. */
static void
run_to_failure(const char *release, gboolean stop)
{
    Fixture fixture = {0};
    Daemon *daemon;

    set_up(&fixture, NULL);
    daemon = start_dummy(&fixture);
    client_release(fixture.root, release, NULL);
    if (stop)
        daemon_free(daemon);
    else
        wait_for(FALSE);
}

static void
run_death(void)
{
    run_to_failure("die", FALSE);
}

static void
run_death_at_the_end(void)
{
    run_to_failure("die", TRUE);
}

static void
run_sanitizer(void)
{
    run_to_failure("misbehave", TRUE);
}

static void
run_abort(void)
{
    Fixture fixture = {0};

    set_up(&fixture, NULL);
    start_dummy(&fixture);
    abort();
}

static void
test_daemon_death(void)
{
    fails_with(run_death, "*the service ended unexpectedly, with 3*");
}

static void
test_daemon_death_at_the_end(void)
{
    /* It leaves the bus a moment before it has ended. */
    fails_with(run_death_at_the_end, "*the service ended *with 3*");
}

static void
test_daemon_sanitizer(void)
{
    fails_with(run_sanitizer, "*a sanitizer spoke in the service*");
}

static void
test_daemon_log(void)
{
    fails_with(run_abort, "*log of the service*the dummy is here*");
}

static void
test_history(Fixture *fixture, gconstpointer data)
{
    g_autoptr(Daemon) daemon = start_dummy(fixture);
    g_autofree char *id = NULL;
    g_autofree char *reason = NULL;
    g_autofree char *history = NULL;
    g_auto(GStrv) lines = NULL;
    g_autoptr(GVariant) row = NULL;
    g_autoptr(GError) error = NULL;

    client_listen(fixture->user);
    id = client_assign(fixture->user, "L40S-2Q", NULL, &row, &error);
    g_assert_no_error(error);
    g_assert_cmpstr(row_string(row, "Id"), ==, id);
    g_assert_false(client_release(fixture->user, "refuse", &error));
    assert_error(error, "InUse");
    g_assert_cmpstr(error_text(error), ==, "It is in use: stop it");
    g_assert_true(client_release(fixture->user, id, NULL));
    reason = client_wait_removed(fixture->user, id);
    g_assert_cmpstr(reason, ==, "released");
    lines = client_history(fixture->user);
    history = g_strjoinv("; ", lines);
    g_assert_cmpstr(history, ==,
                    "reply Assign id-1; changed Framework; invalidated Assignments; "
                    "error Release org.hypeman.VGPU1.Error.InUse; reply Release; removed id-1 released");
    g_assert_cmpuint(client_heard(fixture->user, "reply Release"), ==, 1);
    g_assert_cmpint(client_heard_at(fixture->user, "reply Release"), ==, 4);
    client_forget(fixture->user);
    g_assert_cmpint(client_heard_at(fixture->user, "reply Release"), ==, -1);
}

static void
test_properties(Fixture *fixture, gconstpointer data)
{
    g_autoptr(Daemon) daemon = start_dummy(fixture);
    g_autoptr(GVariant) framework = client_get(fixture->user, "Framework");
    g_autoptr(GVariant) all = client_get_all(fixture->user);
    g_autoptr(GVariant) row = client_row(fixture->user, "id-1");
    g_autofree char *state = client_state(fixture->user, "id-1");
    g_autofree char *none = client_state(fixture->user, "id-2");

    g_assert_cmpstr(g_variant_get_string(framework, NULL), ==, "none");
    g_assert_cmpuint(g_variant_n_children(all), ==, 2);
    g_assert_cmpint(row_number(row, "UID"), ==, 7);
    g_assert_cmpint(row_number(row, "PID"), ==, -1);
    g_assert_cmpstr(row_string(row, "Owner"), ==, "");
    g_assert_cmpstr(state, ==, "assigned");
    g_assert_cmpstr(none, ==, "");
}

/* ---- The journal ---- */

static void
test_journal(void)
{
    g_autoptr(Journal) journal = journal_new();

    g_assert_cmpint(sd_journal_send("MESSAGE=one", "VGPU_ID=a", "VGPU_REASON=", NULL), ==, 0);
    g_assert_cmpint(sd_journal_send("MESSAGE=two\nlines", "VGPU_ID=b", NULL), ==, 0);
    journal_wait(journal, "VGPU_ID", "b");
    g_assert_cmpuint(journal_count(journal, "VGPU_ID", "a"), ==, 1);
    g_assert_cmpstr(journal_field(journal, "VGPU_ID", "a", "MESSAGE"), ==, "one");
    g_assert_cmpstr(journal_field(journal, "VGPU_ID", "a", "VGPU_REASON"), ==, "");
    g_assert_cmpstr(journal_field(journal, "VGPU_ID", "b", "MESSAGE"), ==, "two\nlines");
    g_assert_null(journal_field(journal, "VGPU_ID", "c", "MESSAGE"));
}

#define ADD(path, test) g_test_add(path, Fixture, NULL, set_up, test, tear_down)

int
main(int argc, char **argv)
{
    /* Before the first thread; and what tests leave behind goes with the namespace. */
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("tmpfs", "/mnt", "tmpfs", 0, "mode=0755") < 0) {
        g_printerr("this test needs root and mount namespaces\n");
        return 1;
    }
    g_setenv("TMPDIR", "/mnt", TRUE);
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/harness/wait/lets-events-run", test_wait_lets_events_run);
    g_test_add_func("/harness/wait/in-vain-fails-and-says-for-what", test_wait_in_vain);
    ADD("/harness/bus/knows-each-user", test_bus_knows_users);
    ADD("/harness/bus/has-the-installed-policy", test_bus_has_the_policy);
    ADD("/harness/bus/dies-and-comes-back", test_bus_dies);
    ADD("/harness/bus/counts-rules-and-connections", test_bus_counts);
    g_test_add_func("/harness/bus/takes-more-configuration", test_bus_takes_more_configuration);
    ADD("/harness/client/process-of-its-own-can-be-killed", test_client_process);
    ADD("/harness/client/history-keeps-the-order", test_history);
    ADD("/harness/client/reads-properties", test_properties);
    ADD("/harness/polkit/mock/each-answer", test_polkit_answers);
    ADD("/harness/polkit/mock/by-action", test_polkit_by_action);
    ADD("/harness/polkit/mock/records-the-question", test_polkit_records);
    ADD("/harness/polkit/mock/hangs-until-answered", test_polkit_hangs);
    ADD("/harness/polkit/mock/is-cancelled", test_polkit_cancel);
    ADD("/harness/polkit/mock/ignores-cancel-and-answers-late", test_polkit_ignores_cancel);
    ADD("/harness/polkit/mock/gone-and-back", test_polkit_gone);
    ADD("/harness/polkit/real/follows-given-rules", test_polkit_real);
    ADD("/harness/polkit/real/has-shipped-rules-and-actions-alone", test_polkit_real_shipped);
    ADD("/harness/daemon/starts-ends-and-restarts", test_daemon_starts);
    ADD("/harness/daemon/gets-what-the-test-says", test_daemon_environment);
    g_test_add_func("/harness/daemon/unexpected-end-fails-the-test", test_daemon_death);
    g_test_add_func("/harness/daemon/unexpected-end-is-found-at-the-end", test_daemon_death_at_the_end);
    g_test_add_func("/harness/daemon/sanitizer-fails-the-test", test_daemon_sanitizer);
    g_test_add_func("/harness/daemon/log-is-shown-on-abort", test_daemon_log);
    g_test_add_func("/harness/journal/captures-fields", test_journal);
    return g_test_run();
}
