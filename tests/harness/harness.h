/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gio/gio.h>
#include <sys/types.h>

/* Everything around the service under test: a bus, a polkit, the service as a process, its journal, and
 * clients. Unless said otherwise a function is called from the test's main thread, and what cannot be is an
 * assertion that ends the test. A test that aborts shows the logs of all that it started. */

typedef struct Bus Bus;
typedef struct MockPolkit MockPolkit;
typedef struct RealPolkit RealPolkit;
typedef struct Daemon Daemon;
typedef struct Journal Journal;
typedef struct Client Client;
typedef struct Call Call;

#define HARNESS_NOBODY 65534

/* ---- Waiting ---- */

/* How much slower than usual this run is: $VGPU_TEST_SLOW, 1 by default. */
double wait_slow(void);

/* Waits until @expression holds, letting everything of the main context run. It is evaluated after each event
 * and, as the last resort, each few milliseconds. The test fails after ten seconds (or @seconds) times
 * wait_slow(), saying what it waited for. */
#define wait_for(expression) wait_for_up_to(10, expression)
#define wait_for_up_to(seconds, expression)                                                                  \
    do {                                                                                                     \
        g_autoptr(Wait) _wait = wait_begin((seconds), #expression, __FILE__, __LINE__);                      \
        while (!(expression))                                                                                \
            wait_step(_wait);                                                                                \
    } while (0)

/* The same for a condition that is a function. */
#define wait_until(condition, data) wait_for((condition)(data))

/* The pieces of the above. wait_step() returns when anything has happened; it never returns after the
 * deadline. */
typedef struct Wait Wait;
Wait *wait_begin(double seconds, const char *what, const char *file, int line);
void wait_step(Wait *wait);
void wait_end(Wait *wait);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Wait, wait_end)

/* ---- The bus ---- */

/* A private dbus-daemon of type system, with the policy that the project installs. Everyone may connect;
 * nothing is activatable; root may own names below org.freedesktop. @extra: more elements for its
 * configuration (as "<limit …>"), or NULL. */
Bus *bus_new(const char *extra);

/* Ends it and removes its directory. */
void bus_free(Bus *bus);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Bus, bus_free)

/* What DBUS_SYSTEM_BUS_ADDRESS has to say. */
const char *bus_address(const Bus *bus);

/* A directory that every user may enter and the test may fill. */
const char *bus_directory(const Bus *bus);

/* Ends the dbus-daemon by @signal_number (SIGKILL: it dies as it stands) and waits for its end. */
void bus_stop(Bus *bus, int signal_number);

/* After bus_stop(): another dbus-daemon, with another bus id, at the same address. */
void bus_start(Bus *bus);

/* A connection of root's that the harness itself uses. Borrowed; another one after bus_start(). */
GDBusConnection *bus_connection(Bus *bus);

/* The unique name that owns @name, or NULL. The caller frees it. */
char *bus_owner(Bus *bus, const char *name);

/* How many match rules the bus keeps for the connection @name, and how many connections it has besides that
 * of the harness. */
guint bus_match_rules(Bus *bus, const char *name);
guint bus_connections(Bus *bus);

/* ---- polkit: one that does as it is told ---- */

typedef enum {
    POLKIT_ALLOW,
    POLKIT_DENY,
    POLKIT_CHALLENGE, /* a password is needed, and there is nobody to ask */
    POLKIT_DISMISS,   /* a person closed the dialog */
    POLKIT_ERROR,     /* org.freedesktop.PolicyKit1.Error.Failed */
    POLKIT_HANG,      /* a dialog that stays open until mock_polkit_answer() */
} PolkitAnswer;

typedef enum {
    POLKIT_OPEN,
    POLKIT_ANSWERED,
    POLKIT_CANCELLED, /* by CancelCheckAuthorization, while it was open */
    POLKIT_LOST,      /* polkit vanished while it was open */
} PolkitState;

/* One CheckAuthorization, as it came. */
typedef struct {
    char *sender;       /* who asks: unique name of the service */
    char *subject_kind; /* "system-bus-name" */
    char *subject_name; /* whom it is about: a bus name, "" for another kind */
    char *action;
    GVariant *details; /* a{ss} */
    guint flags;       /* 1: a person may be asked */
    char *cancellation_id;
} PolkitQuestion;

/* An org.freedesktop.PolicyKit1 in a thread of its own, on the bus as root when this returns. It allows all
 * at first, and answers while the test does other things. */
MockPolkit *mock_polkit_new(Bus *bus);
void mock_polkit_free(MockPolkit *polkit);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(MockPolkit, mock_polkit_free)

/* How questions are answered from now on: all, or those about one @action (which wins). */
void mock_polkit_set(MockPolkit *polkit, PolkitAnswer answer);
void mock_polkit_set_action(MockPolkit *polkit, const char *action, PolkitAnswer answer);

/* A cancelled question is answered with Error.Cancelled, as polkit does. With @ignore it stays open instead,
 * and can still be answered late. */
void mock_polkit_ignore_cancel(MockPolkit *polkit, gboolean ignore);

/* Drops the connection: open questions never get an answer, and nobody has the name. */
void mock_polkit_vanish(MockPolkit *polkit);

/* Comes back after mock_polkit_vanish(), with its record of questions. */
void mock_polkit_return(MockPolkit *polkit);

/* How many questions were ever asked, are open, and were cancelled. */
guint mock_polkit_asked(MockPolkit *polkit);
guint mock_polkit_open(MockPolkit *polkit);
guint mock_polkit_cancelled(MockPolkit *polkit);

/* Question number @n, from 0, which must have been asked. Lives as long as @polkit. */
const PolkitQuestion *mock_polkit_question(MockPolkit *polkit, guint n);
PolkitState mock_polkit_state(MockPolkit *polkit, guint n);

/* The newest question's details as "key=value key=value", sorted by key; "" for none. The caller frees it. */
char *mock_polkit_last_details(MockPolkit *polkit);

/* Answers the open question @n (not with POLKIT_HANG), or all of them. */
void mock_polkit_answer(MockPolkit *polkit, guint n, PolkitAnswer answer);
void mock_polkit_answer_all(MockPolkit *polkit, PolkitAnswer answer);

/* ---- polkit: the real one ---- */

/* The system's polkitd, on @bus, with the project's actions and with @rules (JavaScript) as its only rules;
 * NULL: the rules that the project installs. Needs root. uid 0 is always allowed: callers must be others. */
RealPolkit *real_polkit_new(Bus *bus, const char *rules);
void real_polkit_free(RealPolkit *polkit);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(RealPolkit, real_polkit_free)

/* Replaces the rules, and waits until polkitd has taken them. */
void real_polkit_set_rules(RealPolkit *polkit, const char *rules);

/* ---- The service ---- */

/* Not started yet. @environment: all of its environment (as of bed_environ()), or NULL for ours. The harness
 * adds DBUS_SYSTEM_BUS_ADDRESS, RUNTIME_DIRECTORY (a directory that stays over restarts) and G_DEBUG, and
 * sees to it that the sanitizer's library comes first in LD_PRELOAD. $VGPU_TEST_DAEMON names another program
 * than the one that was built, $VGPU_TEST_WRAPPER a command to run it under (as "valgrind -q"). */
Daemon *daemon_new(Bus *bus, char **environment);

/* Fails the test if the service ended unexpectedly or a sanitizer spoke; else ends it by SIGTERM and fails
 * the test if its exit status is not 0. */
void daemon_free(Daemon *daemon);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Daemon, daemon_free)

/* For the next start: another program; more arguments (NULL-terminated); a configuration file with @text
 * (without one, an empty file is used); one more variable (NULL: without it). */
void daemon_set_program(Daemon *daemon, const char *path);
void daemon_set_arguments(Daemon *daemon, const char *const *arguments);
void daemon_set_config(Daemon *daemon, const char *text);
void daemon_set_variable(Daemon *daemon, const char *name, const char *value);

/* Starts it and waits until it owns its name. From then on the test fails if it ends without
 * daemon_expect_end(). */
void daemon_start(Daemon *daemon);

/* Starts it and waits for nothing; it may end. */
void daemon_spawn(Daemon *daemon);

/* Its name is owned by this very process. */
gboolean daemon_is_ready(Daemon *daemon);
gboolean daemon_is_running(Daemon *daemon);

/* It may end from now on. */
void daemon_expect_end(Daemon *daemon);

/* Waits for its end: the exit status, or 128 + signal. */
int daemon_wait(Daemon *daemon);

/* Sends @signal_number and waits for the end: as above. It may be started again. */
int daemon_stop(Daemon *daemon, int signal_number);

/* daemon_stop() and daemon_start(). */
void daemon_restart(Daemon *daemon, int signal_number);

/* Of the running process: its pid, the number of its open descriptors, of its threads, of its match rules on
 * the bus, its resident memory in KiB. */
pid_t daemon_pid(Daemon *daemon);
guint daemon_fds(Daemon *daemon);
guint daemon_threads(Daemon *daemon);
guint daemon_match_rules(Daemon *daemon);
guint64 daemon_memory(Daemon *daemon);

/* What it has written to stdout and stderr since daemon_new(). The caller frees it. */
char *daemon_log(Daemon *daemon);

/* RUNTIME_DIRECTORY. */
const char *daemon_runtime_directory(Daemon *daemon);

/* ---- The journal ---- */

/* Takes the place of the system's journal for what is started afterwards. Only in a mount namespace of the
 * test's own, which is checked. It listens in a thread: writers never wait for the test. */
Journal *journal_new(void);
void journal_free(Journal *journal);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Journal, journal_free)

/* How many records so far have @field with @value. */
guint journal_count(Journal *journal, const char *field, const char *value);

/* Field @name of the newest record that has @field with @value; NULL: no such record or field. Lives as long
 * as @journal. */
const char *journal_field(Journal *journal, const char *field, const char *value, const char *name);

/* Waits until there is a record that has @field with @value. */
#define journal_wait(journal, field, value) wait_for(journal_count((journal), (field), (value)) > 0)

/* ---- Clients ---- */

/* A connection of its own, made by this process as @uid (which must be a user that the system knows). */
Client *client_new(Bus *bus, uid_t uid);

/* The same, made and kept by a process of its own called "client", running as @uid. */
Client *client_new_process(Bus *bus, uid_t uid);

/* Drops the connection if it is still there. */
void client_free(Client *client);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Client, client_free)

/* Drops the connection at once, whatever is under way. */
void client_close(Client *client);

/* SIGKILL to the client's own process, and waits for its end; the bus then sees the connection end. */
void client_kill(Client *client);

/* The unique name, the pid that the bus reports, and the connection (borrowed). */
const char *client_name(Client *client);
pid_t client_pid(Client *client);
GDBusConnection *client_connection(Client *client);

/* Starts a call that never times out. @method is one of the service's interface, or any with its interface in
 * front ("org.freedesktop.DBus.Properties.GetAll"). @arguments is a tuple, consumed if floating; NULL: none.
 */
Call *client_start(Client *client, const char *method, GVariant *arguments);

/* The same, allowing that a person is asked. */
Call *client_start_interactive(Client *client, const char *method, GVariant *arguments);

/* To any service. */
Call *client_start_to(Client *client, const char *destination, const char *path, const char *interface,
                      const char *method, GVariant *arguments);

gboolean call_is_done(Call *call);

/* Waits a minute at most for the answer, and frees @call. NULL with an error. */
GVariant *call_finish(Call *call, GError **error);

/* Start and finish in one. */
GVariant *client_call(Client *client, const char *method, GVariant *arguments, GError **error);
GVariant *client_call_interactive(Client *client, const char *method, GVariant *arguments, GError **error);

/* Arguments of Assign and Plan. @options is an a{sv}, consumed if floating; NULL: none. */
GVariant *client_request(const char *profile, GVariant *options);

/* The methods. @options as above; @ret_row (may be NULL) gets the assignment. Assign returns the id. NULL or
 * FALSE with an error; what is returned is the caller's. */
char *client_assign(Client *client, const char *profile, GVariant *options, GVariant **ret_row,
                    GError **error);
gboolean client_release(Client *client, const char *id, GError **error);
GVariant *client_adopt(Client *client, const char *id, GError **error);
GVariant *client_plan(Client *client, const char *profile, GVariant *options, GError **error);
gboolean client_reclaim(Client *client, const char *device, GError **error);

/* A property, and all of them (a{sv}); they never fail. */
GVariant *client_get(Client *client, const char *property);
GVariant *client_get_all(Client *client);

/* The row of assignment @id, and its State ("" without one). The caller frees them. */
GVariant *client_row(Client *client, const char *id);
char *client_state(Client *client, const char *id);

/* The row of @rows (aa{sv}) whose string @key is @value; NULL without one. The caller frees it. */
GVariant *row_find(GVariant *rows, const char *key, const char *value);

/* A value of a row (a{sv}): a string that the row owns, "" when missing; any number, -1 when missing. */
const char *row_string(GVariant *row, const char *key);
gint64 row_number(GVariant *row, const char *key);

/* ---- What a client has heard, in the order in which the bus delivered it ---- */

/* Signals of the service are heard from now on. Answers to its calls are noted always. */
void client_listen(Client *client);

/* One line each: "reply Assign ID", "reply Release", "error Release NAME", "removed ID REASON", "changed
 * PROPERTY", "invalidated PROPERTY". Free with g_strfreev(). */
char **client_history(Client *client);

/* Forgets it. */
void client_forget(Client *client);

/* How many lines equal @line, and the place of the first one (-1: none). */
guint client_heard(Client *client, const char *line);
int client_heard_at(Client *client, const char *line);

/* The reason why assignment @id went, as signalled; NULL when not. The caller frees it. */
char *client_removed(Client *client, const char *id);

/* Waits for that signal; the caller frees the reason. */
char *client_wait_removed(Client *client, const char *id);

/* ---- Errors ---- */

/* The bus name of an error that came from the bus, without the prefix of our own ones: "InUse",
 * "org.freedesktop.DBus.Error.InvalidArgs"; "" for NULL. The caller frees it. */
char *error_name(const GError *error);

/* What such an error says, without any bus name in front. Borrowed from @error. */
const char *error_text(const GError *error);

/* @error is there and has that name. */
#define assert_error(error, name)                                                                            \
    do {                                                                                                     \
        g_autofree char *_name = error_name(error);                                                          \
        g_assert_cmpstr(_name, ==, (name));                                                                  \
    } while (0)
