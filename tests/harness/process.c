/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "process.h"

#include <fcntl.h>
#include <glib-unix.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

struct Process {
    pid_t pid;
    int pidfd;
    guint source;
    gboolean ended;
    int status;
};

/* From here to exec in the child: nothing but system calls, for other threads may hold any lock. */
static G_GNUC_NORETURN void
give_up(const char *message, size_t length)
{
    ssize_t n = write(STDERR_FILENO, message, length);

    _exit(n < 0 ? 126 : 127);
}

#define GIVE_UP(message) give_up(message "\n", sizeof message)

static void
make_binds(const Bind *binds)
{
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        GIVE_UP("harness: no mount namespace can be made");
    for (; binds->source; binds++) {
        if (mount(binds->source, binds->target, NULL, MS_BIND, NULL) < 0)
            GIVE_UP("harness: something cannot be mounted over the system's");
    }
}

static G_GNUC_NORETURN void
become(const ProcessOptions *options, const char *program, int log)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (dup2(log, STDERR_FILENO) < 0 ||
        dup2(options->stdout_fd > 0 ? options->stdout_fd : log, STDOUT_FILENO) < 0)
        GIVE_UP("harness: no output");
    if (options->binds)
        make_binds(options->binds);
    execve(program, (char *const *)options->argv, options->environment ? options->environment : environ);
    GIVE_UP("harness: the program cannot be run");
}

/* That it comes is what wakes a wait; who waits looks itself. */
static gboolean
on_end(int fd, GIOCondition condition, gpointer data)
{
    Process *process = data;

    process->source = 0;
    return G_SOURCE_REMOVE;
}

Process *
process_new(const ProcessOptions *options)
{
    Process *process = g_new0(Process, 1);
    g_autofree char *program = g_find_program_in_path(options->argv[0]);
    int log = open(options->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);

    if (!program)
        g_error("there is no program %s", options->argv[0]);
    g_assert_no_errno(log);
    process->pid = fork();
    g_assert_no_errno(process->pid);
    if (process->pid == 0)
        become(options, program, log);
    close(log);
    process->pidfd = (int)syscall(SYS_pidfd_open, process->pid, 0);
    g_assert_no_errno(process->pidfd);
    process->source = g_unix_fd_add(process->pidfd, G_IO_IN, on_end, process);
    return process;
}

pid_t
process_pid(const Process *process)
{
    return process->pid;
}

void
process_signal(Process *process, int signal_number)
{
    if (!process_has_ended(process, NULL))
        kill(process->pid, signal_number);
}

gboolean
process_has_ended(Process *process, int *ret_status)
{
    int status;

    if (!process->ended && waitpid(process->pid, &status, WNOHANG) == process->pid) {
        process->ended = TRUE;
        process->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    if (process->ended && ret_status)
        *ret_status = process->status;
    return process->ended;
}

void
process_free(Process *process)
{
    if (process->source > 0)
        g_source_remove(process->source);
    if (!process_has_ended(process, NULL)) {
        kill(process->pid, SIGKILL);
        waitpid(process->pid, NULL, 0);
    }
    close(process->pidfd);
    g_free(process);
}
