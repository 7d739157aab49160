/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "harness-private.h"

#include <errno.h>
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
    void (*on_end)(gpointer data);
    gpointer data;
};

static void
reap(Process *process)
{
    int status;

    if (process->ended || waitpid(process->pid, &status, WNOHANG) != process->pid)
        return;
    process->ended = TRUE;
    process->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static gboolean
on_pidfd(int fd, GIOCondition condition, gpointer data)
{
    Process *process = data;

    reap(process);
    if (!process->ended)
        return G_SOURCE_CONTINUE;
    process->source = 0;
    if (process->on_end)
        process->on_end(process->data);
    return G_SOURCE_REMOVE;
}

Process *
process_new_for_pid(pid_t pid)
{
    Process *process = g_new0(Process, 1);

    process->pid = pid;
    process->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    g_assert_no_errno(process->pidfd);
    process->source = g_unix_fd_add(process->pidfd, G_IO_IN, on_pidfd, process);
    return process;
}

/* From here to exec in the child: nothing but system calls, for other threads may hold any lock. */
static void
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
            GIVE_UP("harness: a directory cannot be mounted over the system's");
    }
}

static void
become(const ProcessOptions *options, const char *program, int log)
{
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (dup2(log, STDERR_FILENO) < 0 ||
        dup2(options->stdout_fd > 0 ? options->stdout_fd : log, STDOUT_FILENO) < 0)
        GIVE_UP("harness: no output");
    if (options->binds)
        make_binds(options->binds);
    execve(program, (char *const *)options->argv, options->environment ? options->environment : environ);
    GIVE_UP("harness: the program cannot be run");
}

Process *
process_new(const ProcessOptions *options)
{
    g_autofree char *program = g_find_program_in_path(options->argv[0]);
    int log = open(options->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    Process *process;
    pid_t pid;

    if (!program)
        g_error("there is no program %s", options->argv[0]);
    g_assert_no_errno(log);
    pid = fork();
    g_assert_no_errno(pid);
    if (pid == 0)
        become(options, program, log);
    close(log);
    process = process_new_for_pid(pid);
    process->on_end = options->on_end;
    process->data = options->data;
    return process;
}

pid_t
process_pid(const Process *process)
{
    return process->pid;
}

gboolean
process_is_running(Process *process)
{
    reap(process);
    return !process->ended;
}

void
process_signal(Process *process, int signal_number)
{
    if (process_is_running(process))
        kill(process->pid, signal_number);
}

int
process_wait(Process *process, const char *what)
{
    g_autofree char *end = g_strdup_printf("the end of %s", what);
    g_autoptr(Wait) wait = wait_begin(30, end, __FILE__, __LINE__);

    while (process_is_running(process))
        wait_step(wait);
    return process->status;
}

void
process_free(Process *process)
{
    if (process->source > 0)
        g_source_remove(process->source);
    if (process_is_running(process)) {
        kill(process->pid, SIGKILL);
        waitpid(process->pid, NULL, 0);
    }
    close(process->pidfd);
    g_free(process);
}
