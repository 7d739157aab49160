/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "log.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOGS_MAX 32

/* Read by a signal handler: nothing here moves. */
static struct {
    const char *what;
    const char *path;
} logs[LOGS_MAX];

static void
say(const char *text, size_t length)
{
    ssize_t n = write(STDERR_FILENO, text, length);

    (void)n; /* there is nobody left to tell */
}

/* Async-signal-safe throughout. */
static void
show_logs(void)
{
    char buffer[4096];

    for (size_t i = 0; i < LOGS_MAX; i++) {
        int fd;
        ssize_t n;

        if (!logs[i].path)
            continue;
        fd = open(logs[i].path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            continue;
        say("---- log of ", 12);
        say(logs[i].what, strlen(logs[i].what));
        say("\n", 1);
        while ((n = read(fd, buffer, sizeof buffer)) > 0)
            say(buffer, (size_t)n);
        say("---- end\n", 9);
        close(fd);
    }
}

/* SIGABRT is a failed assertion, SIGTRAP a g_error(), SIGTERM a test that took too long. */
static const int deadly[] = {SIGABRT, SIGTRAP, SIGTERM};

static void
on_deadly(int signal_number)
{
    for (size_t i = 0; i < sizeof deadly / sizeof deadly[0]; i++)
        signal(deadly[i], SIG_DFL);
    show_logs();
    /* A breakpoint would go on after a handler. */
    abort();
}

void
log_show_on_abort(const char *what, const char *path)
{
    for (size_t i = 0; i < sizeof deadly / sizeof deadly[0]; i++)
        signal(deadly[i], on_deadly);
    for (size_t i = 0; i < LOGS_MAX; i++) {
        if (logs[i].path)
            continue;
        logs[i].what = what;
        logs[i].path = path;
        return;
    }
}

void
log_forget(const char *path)
{
    for (size_t i = 0; i < LOGS_MAX; i++) {
        if (logs[i].path == path)
            logs[i].path = NULL;
    }
}
