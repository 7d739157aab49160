/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Clients that mean harm: nothing changes, nothing leaks, and everybody else is served. */
#include "attacker.h"

#include <signal.h>
#include <string.h>

#define FIRST "0000:3b:00.0"
#define SECOND "0000:5e:00.0"
#define T4 "0000:65:00.0"
#define FOREIGN "0000:5e:00.6" /* set by another tool */
#define HELD "0000:3b:00.4"
#define NOBODY 65534
#define SOMEBODY 1

#define ROUNDS 4
#define STORM 1500
#define FLOOD 20000
#define CONNECTIONS 2000
#define IN_FLIGHT 100
#define MEGABYTE (1024 * 1024)

/* Nobody fills the journal. */
#define LOG_MAX (16 * 1024)

/* Room for what the heap keeps in pieces: what leaks by the block, valgrind and the sanitizers find; this
 * finds what is kept and never used again. Under a sanitizer the freed memory that it holds back comes on
 * top. */
#define MEMORY_SLACK_KIB (bed_slow() > 1 ? 24 * 1024 : 4 * 1024)

typedef struct {
    Host *host;
    Bed *bed;
    Client *good; /* root's; holds one assignment */
    char *held;
    const char *truths[11];
    char *state; /* the file, as it was */
    guint fds;
    guint match_rules;
} Fixture;

static char *
read_state(Fixture *fixture)
{
    g_autofree char *path = host_runtime_file(fixture->host, "state");
    g_autoptr(GError) error = NULL;
    char *text;

    g_file_get_contents(path, &text, NULL, &error);
    g_assert_no_error(error);
    return text;
}

/* Freed memory that a sanitizer holds back would look like a leak. */
static void
shorten_quarantine(Host *host)
{
    const char *options = g_getenv("ASAN_OPTIONS");
    g_autofree char *more = g_strconcat(options ? options : "", ":quarantine_size_mb=2", NULL);

    host_set_environment(host, "ASAN_OPTIONS", more);
}

static void
set_up(Fixture *fixture, gconstpointer data)
{
    static const char *const truths[] = {FIRST,     "0000:3b:00.5", FOREIGN,      T4,       "NVIDIA L40S-2Q",
                                         "L40S-2Q", "1148",         "GRID T4-2Q", "L40S-8Q"};

    fixture->host = host_new(NULL);
    fixture->bed = host_bed(fixture->host);
    bed_add_card(fixture->bed, "l40s", FIRST, 12);
    bed_add_card(fixture->bed, "l40s", SECOND, 12);
    bed_add_card(fixture->bed, "t4", T4, 0);
    g_assert_cmpint(bed_set_by_hand(fixture->bed, FOREIGN, 1148), ==, 0);
    shorten_quarantine(fixture->host);
    host_start(fixture->host, NULL);
    host_polkit(fixture->host, POLKIT_YES);
    fixture->good = client_new(fixture->host, 0);
    fixture->held = client_must_assign(fixture->good, "L40S-2Q", NULL, NULL);
    host_polkit(fixture->host, POLKIT_NO);
    memcpy(fixture->truths, truths, sizeof(truths));
    fixture->state = read_state(fixture);
    bed_trace_reset(fixture->bed);
}

static void
tear_down(Fixture *fixture, gconstpointer data)
{
    g_clear_pointer(&fixture->good, client_free);
    host_free(fixture->host);
    g_free(fixture->held);
    g_free(fixture->state);
}

static guint
memory_kib(Fixture *fixture)
{
    g_autofree char *path = g_strdup_printf("/proc/%d/status", host_pid(fixture->host));
    g_autofree char *text = NULL;
    const char *line;

    g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
    line = strstr(text, "VmRSS:");
    g_assert_nonnull(line);
    return (guint)g_ascii_strtoull(line + strlen("VmRSS:"), NULL, 10);
}

/* An honest client's question, and how long it took in seconds. */
static double
ask_honestly(Fixture *fixture)
{
    gint64 before = g_get_monotonic_time();
    g_autoptr(GError) error = NULL;
    g_autoptr(GVariant) all = client_call(fixture->good, "org.freedesktop.DBus.Properties.GetAll",
                                          g_variant_new("(s)", "org.hypeman.VGPU1"), &error);

    g_assert_no_error(error);
    g_assert_nonnull(all);
    return (double)(g_get_monotonic_time() - before) / G_USEC_PER_SEC;
}

static void
check_unharmed(Fixture *fixture)
{
    g_autoptr(GVariant) rows = client_get(fixture->good, "Assignments");
    g_autofree char *state = read_state(fixture);
    g_autofree char *log = host_log(fixture->host);
    g_autofree char *trace = bed_trace_text(fixture->bed);

    if (bed_trace_count(fixture->bed, BED_TRACE_WRITE | BED_TRACE_OPEN, NULL, NULL) > 0)
        g_error("a device was touched:\n%s\nthe log:\n%s", trace, log);
    g_assert_cmpfloat(ask_honestly(fixture), <, bed_slow());
    g_assert_cmpuint(g_variant_n_children(rows), ==, 1);
    g_assert_cmpstr(state, ==, fixture->state);
    if (strchr(log, '\x1b') || strlen(log) >= LOG_MAX)
        g_error("the log has %zu bytes and begins:\n%.4000s", strlen(log), log);
}

static void
note_resources(Fixture *fixture)
{
    ask_honestly(fixture);
    fixture->fds = host_fds(fixture->host);
    fixture->match_rules = host_match_rules(fixture->host);
}

/* What is let go is let go a moment after the last answer. */
static void
check_resources(Fixture *fixture)
{
    wait_for(host_fds(fixture->host) == fixture->fds);
    wait_for(host_match_rules(fixture->host) == fixture->match_rules);
}

static void
check_memory(guint before, guint after)
{
    g_test_message("memory: %u KiB before, %u KiB after", before, after);
    g_assert_cmpuint(after, <=, before + MEMORY_SLACK_KIB);
}

static void
test_storms(Fixture *fixture, gconstpointer data)
{
    uid_t uid = (uid_t)GPOINTER_TO_UINT(data);
    guint second = 0;

    /* Root may give back what is root's: its id is a truth for others only. */
    if (uid != 0)
        fixture->truths[9] = fixture->held;
    note_resources(fixture);
    for (guint round = 1; round <= ROUNDS; round++) {
        /* A connection of its own: the bus counts as unanswered, for good, what it refuses for its
         * descriptors. */
        g_autoptr(Attacker) attacker = attacker_new(fixture->host, uid, fixture->truths);

        attacker_storm(attacker, STORM, IN_FLIGHT);
        attacker_finish(attacker);
        g_test_message("%u answers, %u with what was asked for", attacker_answered(attacker),
                       attacker_granted(attacker));
        g_assert_cmpuint(attacker_answered(attacker), >, STORM / 2);
        g_assert_cmpuint(attacker_granted(attacker), >, STORM / 50);
        check_unharmed(fixture);
        check_resources(fixture);
        if (round == 2)
            second = memory_kib(fixture);
    }
    check_memory(second, memory_kib(fixture));
    g_assert_cmpuint(polkit_asked(fixture->host), >, ROUNDS);
}

/* More than it asks to be answered: the bus says no to some of it, the service serves the rest. */
static void
test_flood(Fixture *fixture, gconstpointer data)
{
    g_autoptr(Attacker) attacker = NULL;
    guint second = 0;
    double worst = 0;

    note_resources(fixture);
    attacker = attacker_new(fixture->host, NOBODY, fixture->truths);
    for (guint round = 1; round <= ROUNDS; round++) {
        gint64 before = g_get_monotonic_time();
        double waited;

        attacker_flood(attacker, FLOOD / ROUNDS);
        waited = ask_honestly(fixture);
        worst = MAX(worst, waited);
        attacker_ask(attacker);
        attacker_finish(attacker);
        g_test_message("%d calls in %.2f s; an honest one among them took %.2f s", FLOOD / ROUNDS,
                       (double)(g_get_monotonic_time() - before) / G_USEC_PER_SEC, waited);
        check_unharmed(fixture);
        check_resources(fixture);
        if (round == 2)
            second = memory_kib(fixture);
    }
    check_memory(second, memory_kib(fixture));
    g_assert_cmpfloat(worst, <, 5 * bed_slow());
}

static void
test_disconnects(Fixture *fixture, gconstpointer data)
{
    guint half = 0;

    note_resources(fixture);
    host_polkit(fixture->host, POLKIT_HANG);
    for (guint i = 0; i < 600; i++) {
        Attacker *attacker = attacker_new(fixture->host, NOBODY, fixture->truths);

        attacker_ask(attacker);
        if (i % 3 == 0)
            wait_for(polkit_asked(fixture->host) - polkit_cancelled(fixture->host) >= 2);
        attacker_burst(attacker, (guint)g_test_rand_int_range(0, 20));
        attacker_free(attacker);
        if (i == 300)
            half = memory_kib(fixture);
    }
    /* All but the first question, which was answered. */
    wait_for(polkit_cancelled(fixture->host) == polkit_asked(fixture->host) - 1);
    polkit_answer(fixture->host, TRUE);
    host_polkit(fixture->host, POLKIT_NO);
    check_unharmed(fixture);
    check_resources(fixture);
    check_memory(half, memory_kib(fixture));
}

static void
test_connections_in_turn(Fixture *fixture, gconstpointer data)
{
    guint early = 0;

    note_resources(fixture);
    for (guint i = 1; i <= CONNECTIONS; i++) {
        Attacker *attacker = attacker_new(fixture->host, NOBODY, fixture->truths);

        attacker_ask(attacker);
        attacker_storm(attacker, 2, IN_FLIGHT);
        attacker_finish(attacker);
        attacker_free(attacker);
        if (i == CONNECTIONS / 10)
            early = memory_kib(fixture);
    }
    g_assert_cmpuint(polkit_asked(fixture->host), >, CONNECTIONS);
    check_unharmed(fixture);
    check_resources(fixture);
    check_memory(early, memory_kib(fixture));
}

/* Anybody may send the service a signal; only who it is from makes it true. */
static void
test_forged_vanishing(Fixture *fixture, gconstpointer data)
{
    g_autoptr(Attacker) attacker = attacker_new(fixture->host, NOBODY, fixture->truths);
    const char *good = client_name(fixture->good);

    attacker_signal(attacker, "/org/freedesktop/DBus", "org.freedesktop.DBus", "NameOwnerChanged",
                    g_variant_new("(sss)", good, good, ""));
    attacker_ask(attacker);
    attacker_finish(attacker); /* the signal came before */
    check_unharmed(fixture);
}

static void
test_forged_answers(Fixture *fixture, gconstpointer data)
{
    g_autoptr(Attacker) attacker = attacker_new(fixture->host, NOBODY, fixture->truths);

    host_polkit(fixture->host, POLKIT_HANG);
    attacker_ask(attacker);
    wait_for(polkit_open(fixture->host) == 1);
    attacker_signal(attacker, "/org/freedesktop/PolicyKit1/Authority", "org.freedesktop.PolicyKit1.Authority",
                    "Changed", g_variant_new("()"));
    for (guint32 serial = 1; serial < 64; serial++)
        attacker_reply(attacker, serial, g_variant_new_parsed("((true, false, @a{ss} {}),)"));
    ask_honestly(fixture);
    polkit_answer(fixture->host, FALSE);
    attacker_finish(attacker);
    check_unharmed(fixture);
}

static void
test_forged_sleep(Fixture *fixture, gconstpointer data)
{
    g_autoptr(Attacker) attacker = attacker_new(fixture->host, NOBODY, fixture->truths);
    g_autoptr(GError) error = NULL;
    g_autofree char *id = NULL;

    attacker_signal(attacker, "/org/freedesktop/login1", "org.freedesktop.login1.Manager", "PrepareForSleep",
                    g_variant_new("(b)", TRUE));
    attacker_ask(attacker);
    attacker_finish(attacker); /* the signal came before */
    host_polkit(fixture->host, POLKIT_YES);
    id = client_assign(fixture->good, "L40S-2Q", NULL, NULL, &error);
    g_assert_no_error(error);
}

/* ---- A full queue ---- */

static gboolean
bus_knows(GDBusConnection *connection, const char *name)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(GVariant) reply = g_dbus_connection_call_sync(
        connection, "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "NameHasOwner",
        g_variant_new("(s)", name), G_VARIANT_TYPE("(b)"), G_DBUS_CALL_FLAGS_NONE, -1, NULL, &error);
    gboolean known;

    g_assert_no_error(error);
    g_variant_get(reply, "(b)", &known);
    return known;
}

/* What the bus cannot put into the service's queue it drops, also the news that an owner has gone. The
 * service is stopped here only so that the queue fills at a certain moment. */
static void
test_full_queue(Fixture *fixture, gconstpointer data)
{
    gsize length = GPOINTER_TO_UINT(data);
    g_autoptr(Attacker) attacker = attacker_new(fixture->host, NOBODY, fixture->truths);
    g_autoptr(Attacker) second = attacker_new(fixture->host, NOBODY, fixture->truths);

    g_autoptr(GDBusConnection) watcher = host_connect(fixture->host);
    g_autofree char *good = g_strdup(client_name(fixture->good));

    g_assert_cmpuint(bed_vf_type(fixture->bed, HELD), ==, 1148);
    kill(host_pid(fixture->host), SIGSTOP);
    /* The socket first: what is in it is out of the bus's queue. */
    attacker_stuff(attacker, 4, MEGABYTE / 4);
    /* Each stays below what the bus takes from one connection. */
    attacker_stuff(attacker, length > 0 ? (guint)(100 * MEGABYTE / length) : 3, length);
    attacker_stuff(second, length > 0 ? (guint)(100 * MEGABYTE / length) : 3, length);
    g_clear_pointer(&fixture->good, client_free);
    wait_for(!bus_knows(watcher, good));
    kill(host_pid(fixture->host), SIGCONT);
    wait_for(bed_vf_type(fixture->bed, HELD) == 0);
    g_dbus_connection_close_sync(watcher, NULL, NULL);
}

/* Whatever each call is waiting for: under a sanitizer what is left of it then fails the exit status. */
static void
test_stop_in_the_middle(Fixture *fixture, gconstpointer data)
{
    g_autoptr(Attacker) attacker = attacker_new(fixture->host, NOBODY, fixture->truths);

    host_polkit(fixture->host, POLKIT_HANG);
    attacker_ask(attacker);
    attacker_ask(attacker);
    wait_for(polkit_open(fixture->host) == 2);
    kill(host_pid(fixture->host), SIGSTOP);
    attacker_burst(attacker, 100);
    kill(host_pid(fixture->host), SIGTERM);
    kill(host_pid(fixture->host), SIGCONT);
    g_assert_cmpint(host_wait(fixture->host), ==, 0);
}

/* ---- Limits ---- */

#define PENDING_MAX 4
#define ASSIGNMENTS_MAX 8

static Pending *
start_assign(Client *client)
{
    return client_start(client, "Assign", g_variant_new_parsed("('L40S-2Q', @a{sv} {})"));
}

/* Finishes @pending and says how it went: "none" for well. */
static char *
outcome(Pending *pending)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(GVariant) reply = client_finish(pending, &error);

    g_assert_cmpint(reply == NULL, ==, error != NULL);
    return error_name(error);
}

static void
test_limit_of_pending(Fixture *fixture, gconstpointer data)
{
    Client *clients[PENDING_MAX];
    Pending *asked[PENDING_MAX];
    Pending *others[PENDING_MAX];
    g_autoptr(Client) other = client_new(fixture->host, SOMEBODY);
    guint before = polkit_asked(fixture->host);

    note_resources(fixture);
    host_polkit(fixture->host, POLKIT_HANG);
    for (guint i = 0; i < PENDING_MAX; i++) {
        clients[i] = client_new(fixture->host, NOBODY);
        asked[i] = start_assign(clients[i]);
    }
    wait_for(polkit_open(fixture->host) == PENDING_MAX);
    /* From any of its connections, as often as it likes. */
    for (guint i = 0; i < 200; i++) {
        g_autofree char *refused = outcome(start_assign(clients[i % PENDING_MAX]));

        g_assert_cmpstr(refused, ==, "LimitsExceeded");
    }
    g_assert_cmpuint(polkit_asked(fixture->host), ==, before + PENDING_MAX);
    /* And nobody else is hurt. */
    for (guint i = 0; i < PENDING_MAX; i++)
        others[i] = start_assign(other);
    wait_for(polkit_open(fixture->host) == 2 * PENDING_MAX);
    polkit_answer(fixture->host, FALSE);
    for (guint i = 0; i < PENDING_MAX; i++) {
        g_autofree char *mine = outcome(asked[i]);
        g_autofree char *theirs = outcome(others[i]);

        g_assert_cmpstr(mine, ==, "AccessDenied");
        g_assert_cmpstr(theirs, ==, "AccessDenied");
        client_free(clients[i]);
    }
    check_unharmed(fixture);
    check_resources(fixture);
}

/* Seven assignments and four dialogs: a yes to all of them is one assignment more, not four. */
static void
test_limit_of_assignments(Fixture *fixture, gconstpointer data)
{
    Client *clients[ASSIGNMENTS_MAX - 1];
    Pending *asked[PENDING_MAX];
    g_autoptr(Client) other = client_new(fixture->host, SOMEBODY);
    g_autofree char *others = NULL;
    unsigned set = bed_vfs_set(fixture->bed, NULL);
    guint got = 0;

    host_polkit(fixture->host, POLKIT_YES);
    for (guint i = 0; i < ASSIGNMENTS_MAX - 1; i++) {
        g_autofree char *id = NULL;

        clients[i] = client_new(fixture->host, NOBODY);
        id = client_must_assign(clients[i], "L40S-2Q", NULL, NULL);
    }
    host_polkit(fixture->host, POLKIT_HANG);
    for (guint i = 0; i < PENDING_MAX; i++)
        asked[i] = start_assign(clients[i]);
    wait_for(polkit_open(fixture->host) == PENDING_MAX);
    polkit_answer(fixture->host, TRUE);
    for (guint i = 0; i < PENDING_MAX; i++) {
        g_autofree char *how = outcome(asked[i]);

        if (strcmp(how, "none") == 0)
            got++;
        else
            g_assert_cmpstr(how, ==, "LimitsExceeded");
    }
    g_assert_cmpuint(got, ==, 1);
    g_assert_cmpuint(bed_vfs_set(fixture->bed, NULL), ==, set + ASSIGNMENTS_MAX);
    host_polkit(fixture->host, POLKIT_YES);
    others = client_must_assign(other, "L40S-2Q", NULL, NULL);
    for (guint i = 0; i < ASSIGNMENTS_MAX - 1; i++)
        client_free(clients[i]);
    wait_for(bed_vfs_set(fixture->bed, NULL) == set + 1);
}

#define ADD(path, data, test) g_test_add(path, Fixture, GUINT_TO_POINTER(data), set_up, test, tear_down)

static int
run(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    ADD("/hostile/storm/of-a-plain-user", NOBODY, test_storms);
    ADD("/hostile/storm/of-root-whom-polkit-refuses", 0, test_storms);
    ADD("/hostile/flood/without-replies", 0, test_flood);
    ADD("/hostile/disconnects/in-the-middle-of-calls", 0, test_disconnects);
    ADD("/hostile/connections/two-thousand-in-turn", 0, test_connections_in_turn);
    ADD("/hostile/forged/end-of-an-owner", 0, test_forged_vanishing);
    ADD("/hostile/forged/answers-of-polkit", 0, test_forged_answers);
    ADD("/hostile/forged/sleep-stops-nobody", 0, test_forged_sleep);
    ADD("/hostile/full-queue/of-descriptors-hides-no-vanished-owner", 0, test_full_queue);
    ADD("/hostile/full-queue/of-bytes-hides-no-vanished-owner", MEGABYTE / 4, test_full_queue);
    ADD("/hostile/stop/in-the-middle-of-calls", 0, test_stop_in_the_middle);
    ADD("/hostile/limit/pending-calls-of-one-user-hurt-nobody-else", 0, test_limit_of_pending);
    ADD("/hostile/limit/assignments-hold-when-all-dialogs-end-at-once", 0, test_limit_of_assignments);
    return g_test_run();
}

int
main(int argc, char **argv)
{
    return bed_main(argc, argv, run);
}
