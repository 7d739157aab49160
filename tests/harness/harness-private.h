/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "harness.h"

#define HARNESS_NAME "org.hypeman.VGPU1"
#define HARNESS_PATH "/org/hypeman/VGPU1"

/* ---- Directories and logs ---- */

/* A new directory in TMPDIR that every user may enter. The caller frees the name and calls remove_tree(). */
char *make_directory(const char *purpose);
void remove_tree(const char *directory);

/* Shows file @path, headed by @what, if the test aborts; and no longer. @path must live until then. */
void log_show_on_abort(const char *what, const char *path);
void log_forget(const char *path);

/* ---- Processes ---- */

typedef struct Process Process;

typedef struct {
    const char *source;
    const char *target;
} Bind;

typedef struct {
    const char *const *argv; /* the program is looked up in PATH */
    char **environment;      /* NULL: ours */
    const char *log;         /* stdout and stderr are appended to it */
    int stdout_fd;           /* if > 0, stdout goes there instead */
    const Bind *binds;       /* made in a mount namespace of its own; ends with an empty one; NULL: none */
    void (*on_end)(gpointer data);
    gpointer data;
} ProcessOptions;

/* Starts it. It dies with the test. @on_end is called from the main context. */
Process *process_new(const ProcessOptions *options);

/* The same for a process forked by the caller. */
Process *process_new_for_pid(pid_t pid);

/* Ends it by SIGKILL if it still runs. */
void process_free(Process *process);

pid_t process_pid(const Process *process);
gboolean process_is_running(Process *process);
void process_signal(Process *process, int signal_number);

/* Waits half a minute for its end: the exit status, or 128 + signal. */
int process_wait(Process *process, const char *what);

/* ---- Connections ---- */

/* Connects to @address, or over @fd (which is taken) if it is not -1, as @uid of this process. */
GDBusConnection *connect_as(const char *address, int fd, uid_t uid);

/* A call of the bus's own object; NULL when it fails. */
GVariant *bus_ask(GDBusConnection *connection, const char *interface, const char *method, GVariant *arguments,
                  const char *reply_type);

/* ---- What a client hears ---- */

typedef struct History History;

/* Notes what passes over @connection, in its order. */
History *history_new(GDBusConnection *connection);
void history_free(History *history);
History *client_get_history(Client *client);
