/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib.h>
#include <sys/types.h>

/* A program that the test has started. It dies with the test. Main thread only. */
typedef struct Process Process;

typedef struct {
    const char *source;
    const char *target;
} Bind;

typedef struct {
    const char *const *argv; /* the program is looked up in PATH */
    char **environment;      /* NULL: ours */
    const char *log;         /* stdout and stderr are appended to this file */
    int stdout_fd;           /* if > 0, stdout goes there instead */
    const Bind *binds;       /* made in a mount namespace of its own; ends with an empty one; NULL: none */
} ProcessOptions;

/* Starts it. Its end wakes the default main context. */
Process *process_new(const ProcessOptions *options);

/* Ends it by SIGKILL if it still runs. */
void process_free(Process *process);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Process, process_free)

pid_t process_pid(const Process *process);
void process_signal(Process *process, int signal_number);

/* TRUE once it has ended; *@ret_status (may be NULL) then is the exit status, or 128 + signal. */
gboolean process_has_ended(Process *process, int *ret_status);
