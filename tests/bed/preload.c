/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Both open() and open64() are defined here: no header may make one the other, or inline them. */
#undef _FILE_OFFSET_BITS
#undef _FORTIFY_SOURCE

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/netlink.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

/* Goes before umockdev's library, and mends two things there.
 *
 * Its open() connects an ioctl socket for every device node, also when the node could not be opened, and then
 * keeps the socket: fifty refused opens end the process. Its openat() does not, so nodes are opened through
 * that one.
 *
 * The socket of a uevent monitor is named after the descriptor's number, so of two processes only one would
 * hear: the process goes into the name. */

int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);

/* Not from sys/socket.h, where the address is a union of pointers. */
#define AF_NETLINK 16
struct sockaddr;
int bind(int fd, const struct sockaddr *address, unsigned length);

typedef int (*BindFunction)(int fd, const struct sockaddr *address, unsigned length);
typedef int (*OpenFunction)(const char *path, int flags, ...);

static int
open_as(const char *symbol, const char *path, int flags, mode_t mode)
{
    OpenFunction next;

    if (path && strncmp(path, "/dev/vfio/", strlen("/dev/vfio/")) == 0)
        return openat(AT_FDCWD, path, flags, mode);
    next = (OpenFunction)dlsym(RTLD_NEXT, symbol);
    if (!next) {
        errno = ENOSYS;
        return -1;
    }
    return next(path, flags, mode);
}

static mode_t
mode_of(int flags, va_list arguments)
{
    return flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(arguments, mode_t) : 0;
}

int
open(const char *path, int flags, ...)
{
    va_list arguments;
    mode_t mode;

    va_start(arguments, flags);
    mode = mode_of(flags, arguments);
    va_end(arguments);
    return open_as("open", path, flags, mode);
}

int
open64(const char *path, int flags, ...)
{
    va_list arguments;
    mode_t mode;

    va_start(arguments, flags);
    mode = mode_of(flags, arguments);
    va_end(arguments);
    return open_as("open64", path, flags, mode);
}

int
__open_2(const char *path, int flags)
{
    return open_as("__open_2", path, flags, 0);
}

int
__open64_2(const char *path, int flags)
{
    return open_as("__open64_2", path, flags, 0);
}

int
bind(int fd, const struct sockaddr *address, unsigned length)
{
    BindFunction next = (BindFunction)dlsym(RTLD_NEXT, "bind");
    const char *root = getenv("UMOCKDEV_DIR");
    char name[PATH_MAX];
    char unique[PATH_MAX];
    int r;

    if (!next) {
        errno = ENOSYS;
        return -1;
    }
    r = next(fd, address, length);
    if (r < 0 || !root || ((const struct sockaddr_nl *)(const void *)address)->nl_family != AF_NETLINK)
        return r;
    snprintf(name, sizeof name, "%s/event%d", root, fd);
    snprintf(unique, sizeof unique, "%s/event%d.%d", root, fd, (int)getpid());
    /* Not a monitor's if there is no such file. */
    rename(name, unique);
    return r;
}
