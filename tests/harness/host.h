/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "bed.h"

#include <gio/gio.h>

/* A host under test: the simulated hardware, a private bus, a polkit that does as it is told, and the real
 * service as a process. One thread: everything that waits lets the polkit answer meanwhile. What cannot be is
 * an assertion, and a test that aborts shows the logs of all that it started. */
typedef struct Host Host;

/* Hardware and bus, without cards and without the service. @options as of bed_new(). */
Host *host_new(const BedOptions *options);

/* Stops the service, which must still run if it was started, must have broken no rule of the kernel and given
 * a sanitizer no reason to speak, and must exit with 0. */
void host_free(Host *host);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Host, host_free)

Bed *host_bed(Host *host);

/* Starts the service and waits for its name. @arguments: more for its command line, NULL-terminated, or NULL.
 * $VGPU_TEST_WRAPPER is a command to run it under, as "valgrind -q". */
void host_start(Host *host, const char *const *arguments);

/* Starts another one beside it, which is expected to end by itself; returns its exit status, or 128 + signal.
 */
int host_start_second(Host *host);

/* A variable of the environment of later starts; NULL takes it out. A library to load into them before all
 * others, or NULL for none. */
void host_set_environment(Host *host, const char *name, const char *value);
void host_preload(Host *host, const char *library);

/* TRUE when the service ends within a second and a half times $VGPU_TEST_SLOW: for what may or may not come.
 */
gboolean host_wait_briefly(Host *host);

/* Sends @signal_number and waits for the end: the exit status, or 128 + signal. The service may be started
 * again. */
int host_stop(Host *host, int signal_number);

/* Waits for the end: as above. */
int host_wait(Host *host);

pid_t host_pid(Host *host);

/* What the service has logged since the host was made, for people. The caller frees it. */
char *host_log(Host *host);

/* Another connection of root, for a test that plays a service. The caller unrefs it. */
GDBusConnection *host_connect(Host *host);

/* SIGKILL to the bus; polkit is gone with it. Then another one, with another bus id, at the same address:
 * clients are to connect anew. */
void host_kill_bus(Host *host);
void host_start_bus(Host *host);

/* A path in a directory of this host's own, which is there from the start. The caller frees it. */
char *host_file(Host *host, const char *name);

/* A path in the service's runtime directory. The caller frees it. */
char *host_runtime_file(Host *host, const char *name);

/* The service's runtime directory is @away, so that it can write nothing there, or back. */
void host_hide_directory(Host *host, gboolean away);

/* Starts the service with the preload @library (tests/kill-after.c): it ends with SIGKILL after @step steps
 * that others can see, counted from when the returned file is there. The caller makes that file, and frees
 * its name. */
char *host_start_armed(Host *host, const char *library, guint step);

/* How many descriptors the service has open at rest, and how many match rules it has on the bus. */
guint host_fds(Host *host);
guint host_match_rules(Host *host);

/* ---- polkit ---- */

typedef enum {
    POLKIT_GONE, /* nobody has the name; the state of a new host */
    POLKIT_YES,
    POLKIT_NO,
    POLKIT_CHALLENGE, /* a password is needed, and nobody can be asked */
    POLKIT_DISMISSED,
    POLKIT_HANG, /* a dialog that stays open until polkit_answer() */
} PolkitMode;

void host_polkit(Host *host, PolkitMode mode);

/* How many questions are open, have ever been asked, and have been cancelled. */
guint polkit_open(Host *host);
guint polkit_asked(Host *host);
guint polkit_cancelled(Host *host);

/* The action, details (as "key=value key=value") and flags of the last question. Borrowed. */
const char *polkit_last_action(Host *host);
const char *polkit_last_details(Host *host);
guint polkit_last_flags(Host *host);

/* Answers all open questions. */
void polkit_answer(Host *host, gboolean yes);

/* The system's polkitd instead, until the host goes: with the project's actions, with @rules (JavaScript) as
 * its only rules (NULL: those that the project installs), and with the user @member (or NULL) in group vgpu.
 * uid 0 is always allowed. */
void host_real_polkit(Host *host, const char *rules, const char *member);

/* What asks for passwords, on all clients' behalf: an agent at the real polkit, registered as a desktop's is,
 * which like those of polkit's library shows one dialog at a time and refuses a second. */
typedef struct Agent Agent;
Agent *agent_new(Host *host);
void agent_free(Agent *agent);

/* Whether a dialog is open, and how many were refused as one was open already. */
gboolean agent_is_open(Agent *agent);
guint agent_refused(Agent *agent);

/* The open dialog ends: root's password was given; or with polkit's error @error, as "Cancelled" or "Failed".
 */
void agent_permit(Agent *agent);
void agent_end(Agent *agent, const char *error);

/* ---- Clients ---- */

typedef struct Client Client;

/* A connection of its own, as @uid. */
Client *client_new(Host *host, uid_t uid);
/* Drops the connection, as a process does that ends. */
void client_free(Client *client);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Client, client_free)
const char *client_name(Client *client);

/* Calls a method of the service (another interface's with its name in front) and waits for the answer;
 * @arguments is consumed. NULL with an error. */
GVariant *client_call(Client *client, const char *method, GVariant *arguments, GError **error);

/* The same, with interactive authorization allowed. */
GVariant *client_call_interactive(Client *client, const char *method, GVariant *arguments, GError **error);

/* Starts a call; client_finish() waits for its answer and frees it. */
typedef struct Pending Pending;
Pending *client_start(Client *client, const char *method, GVariant *arguments);
Pending *client_start_interactive(Client *client, const char *method, GVariant *arguments);
gboolean pending_is_done(Pending *pending);
GVariant *client_finish(Pending *pending, GError **error);

/* Assign with @options, an a{sv} in GVariant's text format ("{'label': <'x'>}") or NULL. Returns the id,
 * which the caller frees, and in *@ret_row (may be NULL) the assignment. */
char *client_assign(Client *client, const char *profile, const char *options, GVariant **ret_row,
                    GError **error);

/* Assign that must succeed. */
char *client_must_assign(Client *client, const char *profile, const char *options, GVariant **ret_row);

gboolean client_release(Client *client, const char *id, GError **error);

/* A property of the service, without cache. */
GVariant *client_get(Client *client, const char *property);

/* The row of @rows (aa{sv}) whose @key is @value, NULL when there is none. */
GVariant *row_find(GVariant *rows, const char *key, const char *value);

/* Values of a row; the string is owned by the row, "" when missing; -1 for a missing number. */
const char *row_string(GVariant *row, const char *key);
gint64 row_number(GVariant *row, const char *key);

/* The row of assignment @id, NULL when there is none. */
GVariant *client_assignment(Client *client, const char *id);

/* Its State, "" when there is none. The caller frees it. */
char *client_state(Client *client, const char *id);

/* How many assignments the bus shows; whether @id is in @state ("" for none); whether client_listen() heard
 * of @id's end, once and for @reason. */
guint client_assignments(Client *client);
gboolean client_state_is(Client *client, const char *id, const char *state);
gboolean client_was_removed(Client *client, const char *id, const char *reason);

/* The row of the card @address, which must be there, and a number in it. */
GVariant *client_gpu(Client *client, const char *address);
gint64 client_gpu_number(Client *client, const char *address, const char *key);

/* The bus name of an error that came over the bus, without the prefix of our own ones and of the bus's:
 * "InUse", "InvalidArgs"; "none" for NULL. The caller frees it. */
char *error_name(const GError *error);
#define assert_error(error, name)                                                                            \
    do {                                                                                                     \
        g_autofree char *_name = error_name(error);                                                          \
        g_assert_cmpstr(_name, ==, name);                                                                    \
    } while (0)

/* ---- Signals, as a client hears them from client_listen() on ---- */
void client_listen(Client *client);
/* Reasons of AssignmentRemoved for @id, joined by spaces. The caller frees it. */
char *client_removals(Client *client, const char *id);
/* How many PropertiesChanged named @property. */
guint client_changes(Client *client, const char *property);
/* Whether one with Assignments came before the last reply to this client, as it came over the bus. */
gboolean client_heard_before_the_reply(Client *client);

/* ---- Waiting ---- */

/* Waits until @condition holds, letting everything run; ten seconds (or @seconds) times $VGPU_TEST_SLOW at
 * the most. */
#define wait_for(condition) wait_for_up_to(10, condition)
#define wait_for_up_to(seconds, condition)                                                                   \
    do {                                                                                                     \
        gint64 _deadline = bed_deadline(seconds);                                                            \
        while (!(condition)) {                                                                               \
            if (g_get_monotonic_time() > _deadline)                                                          \
                host_give_up(__FILE__, __LINE__, #condition);                                                \
            host_iterate();                                                                                  \
        }                                                                                                    \
    } while (0)

/* Ends the test with the logs of the newest host and what was written there. */
G_GNUC_NORETURN void host_give_up(const char *file, int line, const char *condition);

/* Lets everything that is ready run, and waits a little for more. */
void host_iterate(void);
