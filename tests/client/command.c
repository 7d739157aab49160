/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the tests have run by vgpuctl: as `command N` it names each signal that it gets, and ends with status
 * 9 after N of them; as `pkttyagent` it stands in for polkit's text agent, and writes to $AGENT_LOG what it
 * was told, that it is registered and that it was ended. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int
count_signals(int n)
{
    sigset_t all;

    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    puts("up");
    fflush(stdout);
    for (int i = 0; i < n; i++) {
        int number = sigwaitinfo(&all, NULL);
        printf("got %s\n", sigabbrev_np(number) ? sigabbrev_np(number) : "RT");
        fflush(stdout);
    }
    return 9;
}

static int
wait_for_gate(void)
{
    const char *gate = getenv("AGENT_GATE");
    char byte;
    int fd = gate ? open(gate, O_RDONLY | O_CLOEXEC) : -1;
    return fd >= 0 && read(fd, &byte, 1) == 1;
}

static int
be_agent(int argc, char **argv)
{
    FILE *log = fopen(getenv("AGENT_LOG"), "a");
    sigset_t term;
    int number;

    if (!log)
        return 1;
    setlinebuf(log);
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    sigprocmask(SIG_BLOCK, &term, NULL);
    for (int i = 1; i < argc; i++)
        fprintf(log, "%s%s", argv[i], i + 1 < argc ? " " : "\n");
    fputs("agent waits\n", stderr);
    if (!wait_for_gate())
        return 1;
    fputs("registered\n", log);
    for (int i = 1; i + 1 < argc; i++)
        if (!strcmp(argv[i], "--notify-fd"))
            close(atoi(argv[i + 1]));
    sigwait(&term, &number);
    fputs("ended\n", log);
    fclose(log);
    return 0;
}

int
main(int argc, char **argv)
{
    const char *name = strrchr(argv[0], '/');
    if (!strcmp(name ? name + 1 : argv[0], "pkttyagent"))
        return be_agent(argc, argv);
    return count_signals(argc > 1 ? atoi(argv[1]) : 1);
}
