/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "agent.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* An agent that is not there after this long has no polkit to register with: go on without. */
#define READY_MS 10000

struct VgpuAgent {
    pid_t pid;
};

static bool
is_wanted(const VgpuInvocation *invocation)
{
    return !invocation->no_ask_password && !invocation->host && geteuid() != 0 && isatty(STDIN_FILENO);
}

/* This process as polkit names it: the time of its start makes the number unique. NULL without /proc. */
static char *
process_subject(void)
{
    g_autofree char *stat = NULL;
    if (!g_file_get_contents("/proc/self/stat", &stat, NULL, NULL))
        return NULL;
    /* The command may hold spaces and brackets; what follows the last one is field 3 and on. */
    const char *fields = strrchr(stat, ')');
    g_auto(GStrv) words = fields ? g_strsplit(fields, " ", -1) : NULL;
    if (!words || g_strv_length(words) < 21)
        return NULL;
    return g_strdup_printf("%d,%s", getpid(), words[20]);
}

static void
become_agent(const char *subject, int ready)
{
    g_autofree char *fd = g_strdup_printf("%d", ready);

    prctl(PR_SET_PDEATHSIG, SIGTERM);
    fcntl(ready, F_SETFD, 0);
    execlp("pkttyagent", "pkttyagent", "--process", subject, "--notify-fd", fd, "--fallback", NULL);
    _exit(127);
}

/* The agent closes its end once it is registered; one that ends closes it too. */
static void
wait_until_closed(int fd)
{
    struct pollfd entry = {.fd = fd};
    gint64 end = g_get_monotonic_time() + READY_MS * G_TIME_SPAN_MILLISECOND;

    while (poll(&entry, 1, (int)MAX((end - g_get_monotonic_time()) / G_TIME_SPAN_MILLISECOND, 0)) < 0 &&
           errno == EINTR)
        ;
}

VgpuAgent *
vgpu_agent_start(const VgpuInvocation *invocation)
{
    int ends[2];

    if (!is_wanted(invocation))
        return NULL;
    g_autofree char *subject = process_subject();
    if (!subject || pipe2(ends, O_CLOEXEC) < 0)
        return NULL;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0)
        become_agent(subject, ends[1]);
    close(ends[1]);
    if (pid > 0)
        wait_until_closed(ends[0]);
    close(ends[0]);
    if (pid < 0)
        return NULL;
    VgpuAgent *agent = g_new0(VgpuAgent, 1);
    agent->pid = pid;
    return agent;
}

void
vgpu_agent_stop(VgpuAgent *agent)
{
    if (!agent)
        return;
    kill(agent->pid, SIGTERM);
    kill(agent->pid, SIGCONT);
    while (waitpid(agent->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    g_free(agent);
}
