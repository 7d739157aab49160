/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "agent.h"
#include "expand.h"
#include "failure.h"
#include "hold.h"
#include "signals.h"

/* What a shell says for a command that is there but cannot be run, and for one that is not there. */
#define STATUS_CANNOT_RUN 126
#define STATUS_NOT_FOUND 127
#define STATUS_SIGNAL 128

typedef struct {
    pid_t pid; /* of the command; 0 before it is started */
} Run;

/* What would end us and is meant for the command: all but faults of our own, job control, and the end of the
 * child. */
static sigset_t
signals_to_forward(void)
{
    static const int kept[] = {SIGKILL, SIGSTOP, SIGCHLD, SIGSEGV, SIGBUS,  SIGFPE,  SIGILL,  SIGTRAP,
                               SIGSYS,  SIGABRT, SIGTSTP, SIGTTIN, SIGTTOU, SIGCONT, SIGPIPE, SIGURG};
    sigset_t forwarded;

    sigfillset(&forwarded);
    for (size_t i = 0; i < G_N_ELEMENTS(kept); i++)
        sigdelset(&forwarded, kept[i]);
    return forwarded;
}

static int
on_signal(sd_event_source *source, const struct signalfd_siginfo *info, void *data)
{
    const Run *run = data;

    /* What the kernel sends for a key or a terminal that hangs up has reached the command already, which is
     * in our process group; and what the command itself sends is not for it. */
    if (info->ssi_code != SI_KERNEL && (pid_t)info->ssi_pid != run->pid)
        kill(run->pid, (int)info->ssi_signo);
    return 0;
}

static int
status_of(const siginfo_t *info)
{
    return info->si_code == CLD_EXITED ? info->si_status : STATUS_SIGNAL + info->si_status;
}

static int
on_exit_of_command(sd_event_source *source, const siginfo_t *info, void *data)
{
    return sd_event_exit(sd_event_source_get_event(source), status_of(info));
}

/* Whether any folder of $PATH has @name. A folder that may not be searched has exec fail with EACCES, which
 * says nothing about the command. */
static bool
is_in_path(const char *name)
{
    const char *path = g_getenv("PATH");
    g_auto(GStrv) folders = g_strsplit(path ? path : "", ":", -1);

    for (char **folder = folders; *folder; folder++) {
        g_autofree char *file = g_build_filename(**folder ? *folder : ".", name, NULL);
        if (access(file, F_OK) == 0)
            return true;
    }
    return false;
}

/* In the child. */
static void
become_command(char **words, char **environment, const sigset_t *mask)
{
    sigprocmask(SIG_SETMASK, mask, NULL);
    execvpe(words[0], words, environment);
    int failed = errno;
    if (failed == EACCES && !strchr(words[0], '/') && !is_in_path(words[0]))
        failed = ENOENT;
    vgpu_say("\"%s\" cannot be run: %s", words[0], g_strerror(failed));
    _exit(failed == ENOENT ? STATUS_NOT_FOUND : STATUS_CANNOT_RUN);
}

static int
start(Run *run, char **words, char **environment, const sigset_t *mask)
{
    fflush(stdout);
    run->pid = fork();
    if (run->pid == 0)
        become_command(words, environment, mask);
    return run->pid < 0 ? -errno : 0;
}

/* The command goes on whatever happens to the vGPU: only it knows what to save first. */
static void
on_end(VgpuHold *hold, void *data)
{
}

static int
block_child_signal(void)
{
    sigset_t child;

    /* A parent that ignores it would have the command's status thrown away. */
    signal(SIGCHLD, SIG_DFL);
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    return sigprocmask(SIG_BLOCK, &child, NULL) < 0 ? -errno : 0;
}

/* Follows the command to its end. Whatever fails here, nothing is given back before that. */
static int
follow(const Run *run, sd_event *event)
{
    siginfo_t info = {0};

    int r = sd_event_add_child(event, NULL, run->pid, WEXITED, on_exit_of_command, NULL);
    if (r >= 0)
        r = sd_event_loop(event);
    if (r >= 0)
        return r;
    vgpu_say("signals are not forwarded any more: %s", g_strerror(-r));
    while (waitid(P_PID, (id_t)run->pid, &info, WEXITED) < 0)
        if (errno != EINTR)
            return -errno;
    return status_of(&info);
}

/* Runs @words to their end; their status, or a negative errno when they could not be started. */
static int
run_command(VgpuHold *hold, char **words, char **environment)
{
    sigset_t wanted = signals_to_forward(), before;
    sd_event *event = vgpu_hold_event(hold);
    Run run = {0};

    sigprocmask(SIG_SETMASK, NULL, &before);
    int r = block_child_signal();
    if (r >= 0)
        r = vgpu_signals_take(event, &wanted, on_signal, &run, &(sigset_t){0});
    if (r >= 0)
        r = start(&run, words, environment, &before);
    if (r < 0)
        return r;
    vgpu_hold_follow(hold, ": the command keeps running", on_end, NULL);
    sd_event_set_watchdog(event, true);
    r = follow(&run, event);

    sd_notify(0, "STOPPING=1");
    /* Whoever interrupts now means the waiting for the service. */
    sigprocmask(SIG_SETMASK, &before, NULL);
    return r;
}

/* All that the invocation wants, or nothing. */
static bool
take_all(VgpuHold *hold, const VgpuInvocation *invocation, GError **error)
{
    VgpuAgent *agent = vgpu_agent_start(invocation);
    unsigned taken = 0;

    while (taken < invocation->number && vgpu_hold_assign(hold, error))
        taken++;
    vgpu_agent_stop(agent);
    if (taken == invocation->number)
        return true;
    if (taken > 0)
        g_prefix_error(error, "only %u of %u could be taken, and were given back: ", taken,
                       invocation->number);
    return false;
}

int
vgpu_run_command(const VgpuInvocation *invocation, GError **error)
{
    if (invocation->host) {
        g_set_error(error, VGPUCTL_ERROR, VGPUCTL_ERROR_USAGE,
                    "run takes no -H, its command would get another host's device: use ssh %s vgpuctl run",
                    invocation->host);
        return VGPU_EXIT_USAGE;
    }
    g_autoptr(VgpuHold) hold = vgpu_hold_new(invocation, error);
    if (!hold)
        return VGPU_EXIT_FAILED;
    bool taken = take_all(hold, invocation, error);
    GPtrArray *held = vgpu_hold_held(hold);
    g_auto(GStrv) words = taken ? vgpu_expand_command(invocation->rest, held, error) : NULL;
    if (!words) {
        vgpu_hold_end(hold);
        return VGPU_EXIT_FAILED;
    }

    g_auto(GStrv) environment = vgpu_expand_environment(g_get_environ(), held);
    sd_notifyf(0, "READY=1\nSTATUS=Running %s", words[0]);
    int status = run_command(hold, words, environment);
    vgpu_hold_end(hold);
    if (status < 0)
        vgpu_bus_set_error(error, NULL, status);
    return status;
}
