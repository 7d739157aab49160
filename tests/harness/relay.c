/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "relay.h"

#include <errno.h>
#include <grp.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

/* In the child, which was forked from a process with threads: system calls only. */

static void
pass_on(int from, int to)
{
    char buffer[16384];
    ssize_t n = read(from, buffer, sizeof buffer);

    if (n <= 0)
        _exit(0);
    for (ssize_t done = 0; done < n;) {
        ssize_t written = write(to, buffer + done, (size_t)(n - done));

        if (written < 0 && errno != EINTR)
            _exit(0);
        done += written > 0 ? written : 0;
    }
}

static void
become(uid_t uid, gid_t gid)
{
    if (uid != 0 && (syscall(SYS_setgroups, 0, NULL) < 0 || syscall(SYS_setresgid, gid, gid, gid) < 0 ||
                     syscall(SYS_setresuid, uid, uid, uid) < 0))
        _exit(1);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_NAME, "client");
    signal(SIGPIPE, SIG_IGN);
}

static void
relay(int ours, int bus)
{
    struct pollfd fds[] = {{.fd = ours, .events = POLLIN}, {.fd = bus, .events = POLLIN}};

    for (;;) {
        if (poll(fds, 2, -1) < 0)
            continue;
        if (fds[0].revents)
            pass_on(ours, bus);
        if (fds[1].revents)
            pass_on(bus, ours);
    }
}

static void
run(int ours, const struct sockaddr_un *address, uid_t uid, gid_t gid)
{
    int bus;

    /* Nothing of the test may stay open here: a client that lives would keep it. */
    if (dup2(ours, 3) < 0 || syscall(SYS_close_range, 4, ~0U, 0) < 0)
        _exit(1);
    become(uid, gid);
    bus = socket(AF_UNIX, SOCK_STREAM, 0);
    if (bus < 0 || connect(bus, (const struct sockaddr *)address, sizeof *address) < 0)
        _exit(1);
    relay(3, bus);
}

Process *
relay_new(const char *socket_path, uid_t uid, int *ret_fd)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct passwd *user = getpwuid(uid);
    gid_t gid = user ? user->pw_gid : (gid_t)uid;
    int ends[2];
    pid_t pid;

    g_snprintf(address.sun_path, sizeof address.sun_path, "%s", socket_path);
    g_assert_no_errno(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends));
    pid = fork();
    g_assert_no_errno(pid);
    if (pid == 0)
        run(ends[1], &address, uid, gid);
    close(ends[1]);
    *ret_fd = ends[0];
    return process_new_for_pid(pid);
}
