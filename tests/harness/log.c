/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "harness-private.h"

#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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
    static gsize once;

    if (g_once_init_enter(&once)) {
        for (size_t i = 0; i < sizeof deadly / sizeof deadly[0]; i++)
            signal(deadly[i], on_deadly);
        g_once_init_leave(&once, 1);
    }
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

char *
make_directory(const char *purpose)
{
    g_autofree char *template = g_strdup_printf("vgpu-%s-XXXXXX", purpose);
    g_autoptr(GError) error = NULL;
    char *directory = g_dir_make_tmp(template, &error);

    g_assert_no_error(error);
    g_assert_no_errno(chmod(directory, 0755));
    return directory;
}

static int
remove_one(const char *path, const struct stat *st, int type, struct FTW *state)
{
    return remove(path);
}

void
remove_tree(const char *directory)
{
    nftw(directory, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}
