/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static int
width_of(int fd)
{
    struct winsize size = {0};
    if (ioctl(fd, TIOCGWINSZ, &size) < 0 || size.ws_col == 0)
        return 80;
    return size.ws_col;
}

VgpuTerminal
vgpu_terminal_look(void)
{
    VgpuTerminal terminal = {.pager_fd = -1};
    const char *name = g_getenv("TERM");
    const char *no_colour = g_getenv("NO_COLOR");

    if (!isatty(STDOUT_FILENO))
        return terminal;
    terminal.columns = width_of(STDOUT_FILENO);
    terminal.on = name && *name && strcmp(name, "dumb");
    terminal.colour = terminal.on && !(no_colour && *no_colour);
    return terminal;
}

/* The pagers to try in turn, as command lines; NULL when none is wanted. */
static char **
pagers_wanted(const VgpuInvocation *invocation)
{
    const char *wanted = g_getenv("SYSTEMD_PAGER");

    if (invocation->no_pager)
        return NULL;
    if (!wanted)
        wanted = g_getenv("PAGER");
    if (wanted && (!*wanted || !strcmp(wanted, "cat")))
        return NULL;
    const char *const pagers[] = {wanted ? wanted : "less", "less", "more", NULL};
    return g_strdupv((char **)pagers);
}

/* What is shown where no pager can be started. */
static void
copy_to_stdout(int input)
{
    char buffer[4096];
    ssize_t n;

    while ((n = read(input, buffer, sizeof buffer)) > 0)
        if (write(STDOUT_FILENO, buffer, (size_t)n) < 0)
            break;
}

/* In the child: becomes the first pager there is. */
static void
become_pager(char **pagers, const int *ends)
{
    const char *options = g_getenv("SYSTEMD_LESS");

    close(ends[1]);
    dup2(ends[0], STDIN_FILENO);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    g_setenv("LESS", options ? options : "FRSXMK", TRUE);
    if (g_get_charset(NULL))
        g_setenv("LESSCHARSET", "utf-8", FALSE);
    /* vgpuctl is often run by root: a list is to be read, not to start a shell from. */
    g_setenv("LESSSECURE", "1", TRUE);
    for (char **pager = pagers; *pager; pager++) {
        g_auto(GStrv) words = NULL;
        if (g_shell_parse_argv(*pager, NULL, &words, NULL))
            execvp(words[0], words);
    }
    copy_to_stdout(ends[0]);
    _exit(0);
}

VgpuTerminal
vgpu_terminal_open(const VgpuInvocation *invocation)
{
    VgpuTerminal terminal = vgpu_terminal_look();
    g_auto(GStrv) pagers = terminal.on ? pagers_wanted(invocation) : NULL;
    int ends[2];

    if (!pagers || pipe2(ends, O_CLOEXEC) < 0)
        return terminal;
    fflush(stdout);
    terminal.pager = fork();
    if (terminal.pager == 0)
        become_pager(pagers, ends);
    if (terminal.pager > 0) {
        terminal.pager_fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
        dup2(ends[1], STDOUT_FILENO);
    }
    close(ends[0]);
    close(ends[1]);
    return terminal;
}

void
vgpu_terminal_close(VgpuTerminal *terminal)
{
    if (terminal->pager_fd < 0)
        return;
    fflush(stdout);
    dup2(terminal->pager_fd, STDOUT_FILENO);
    close(terminal->pager_fd);
    terminal->pager_fd = -1;
    while (waitpid(terminal->pager, NULL, 0) < 0 && errno == EINTR)
        ;
}
