/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A preload that ends its process with SIGKILL right after the n-th step that others can see: a file renamed,
 * a device attribute written, a message sent. KILL_AFTER is n; steps count from when the file KILL_ARMED
 * exists. */
#include <dlfcn.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static atomic_int steps;
static pid_t self;

__attribute__((constructor)) static void
remember_self(void)
{
    self = getpid();
}

static void
step(void)
{
    const char *armed = getenv("KILL_ARMED");
    const char *after = getenv("KILL_AFTER");

    if (!armed || !after || access(armed, F_OK) < 0 || getpid() != self)
        return;
    if (atomic_fetch_add(&steps, 1) + 1 == atoi(after))
        kill(self, SIGKILL);
}

int
rename(const char *from, const char *to)
{
    int (*real)(const char *, const char *) = (int (*)(const char *, const char *))dlsym(RTLD_NEXT, "rename");
    int r = real(from, to);

    step();
    return r;
}

ssize_t
sendmsg(int fd, const struct msghdr *message, int flags)
{
    ssize_t (*real)(int, const struct msghdr *, int) =
        (ssize_t(*)(int, const struct msghdr *, int))dlsym(RTLD_NEXT, "sendmsg");
    ssize_t r = real(fd, message, flags);

    step();
    return r;
}

ssize_t
write(int fd, const void *data, size_t length)
{
    ssize_t (*real)(int, const void *, size_t) =
        (ssize_t(*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
    ssize_t r = real(fd, data, length);
    char link[64], path[4096];
    ssize_t n;

    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    n = readlink(link, path, sizeof(path) - 1);
    if (n > 0) {
        path[n] = '\0';
        if (strstr(path, "/sys/"))
            step();
    }
    return r;
}
