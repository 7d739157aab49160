/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "bed-private.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Processes that have a node open. The child is forked from a process with threads, so it makes nothing but
 * system calls. */

#define VFIO_GROUP_GET_DEVICE_FD 0x3b6a
#define VFIO_DEVICE_BIND_IOMMUFD 0x3b76

struct BedHolder {
    Bed *bed;
    pid_t pid;
    int leash; /* the child ends on our word, or when we are gone */
    int word;  /* its answers */
};

typedef struct {
    char path[512];
    char comm[16];
    BedHold how;
    uid_t uid;
} Orders;

static int
hold_node(const Orders *orders, void **ret_map)
{
    unsigned long command = 0;
    int fd = open(orders->path, O_RDWR);

    if (fd < 0)
        return -errno;
    if (orders->how & BED_HOLD_CDEV)
        command = VFIO_DEVICE_BIND_IOMMUFD;
    else if (!(orders->how & (BED_HOLD_GROUP_ONLY | BED_HOLD_CDEV_UNBOUND)))
        command = VFIO_GROUP_GET_DEVICE_FD;
    if (command && ioctl(fd, command, 0) < 0)
        return -errno;
    if (orders->how & BED_HOLD_DEVICE_ONLY) {
        /* A mapping keeps the file open as the device's own descriptor does, and shows up nowhere in fd/. */
        *ret_map = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
        if (*ret_map == MAP_FAILED)
            return -errno;
        close(fd);
        return 0;
    }
    return fd;
}

static void G_GNUC_NORETURN
hold(const Orders *orders, int leash, int word)
{
    void *map = NULL;
    char byte;
    int fd;

    /* Nothing of the test's, neither its descriptors nor /dev/fuse. */
    dup2(leash, 3);
    dup2(word, 4);
    syscall(SYS_close_range, 5, ~0u, 0);
    prctl(PR_SET_NAME, orders->comm);

    if (orders->uid && !(orders->how & BED_HOLD_AS_ROOT) &&
        syscall(SYS_setresuid, orders->uid, orders->uid, orders->uid) < 0)
        _exit(1);
    fd = hold_node(orders, &map);
    if (orders->uid && (orders->how & BED_HOLD_AS_ROOT) &&
        syscall(SYS_setresuid, orders->uid, orders->uid, orders->uid) < 0)
        _exit(1);
    if (write(4, &fd, sizeof fd) != sizeof fd || fd < 0)
        _exit(1);

    while (read(3, &byte, 1) == 1 && byte != 'q') {
        if (map)
            munmap(map, 4096);
        else
            close(fd);
        if (write(4, &fd, sizeof fd) != sizeof fd)
            break;
    }
    _exit(0);
}

/* A path to the node, as @how wants it. */
static void
choose_path(Bed *bed, const char *where, BedHold how, char *ret_path, size_t size)
{
    g_autofree char *node = NULL;
    g_autofree char *path = NULL;

    if (how & (BED_HOLD_CDEV | BED_HOLD_CDEV_UNBOUND))
        node = bed_device_node(bed, where);
    else
        node = bed_group_node(bed, where);
    if (!node)
        g_error("bed: %s has no such node to hold", where);
    path = how & BED_HOLD_ELSEWHERE ? bed_node_elsewhere(bed, where) : bed_path(bed, node);
    if (how & BED_HOLD_BIND_MOUNT) {
        char *other = g_strdup_printf("%s/node%u", bed->root, bed->elsewhere++);

        g_assert_true(g_file_set_contents(other, "", 0, NULL));
        g_assert_no_errno(mount(path, other, NULL, MS_BIND, NULL));
        g_ptr_array_add(bed->binds, other);
        g_free(g_steal_pointer(&path));
        path = g_strdup(other);
    }
    g_strlcpy(ret_path, path, size);
}

BedHolder *
bed_hold_full(Bed *bed, const char *where, BedHold how, const char *comm, uid_t uid, int *ret_error)
{
    Orders orders = {.how = how, .uid = uid};
    BedHolder *holder;
    int leash[2], word[2];
    int answer = -EIO;
    long pid;

    choose_path(bed, where, how, orders.path, sizeof orders.path);
    g_strlcpy(orders.comm, comm ? comm : "qemu-system-x86", sizeof orders.comm);
    g_assert_no_errno(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, leash));
    g_assert_no_errno(pipe2(word, O_CLOEXEC));

    if (how & BED_HOLD_OTHER_PIDNS)
        pid = syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, NULL, NULL, NULL, 0);
    else
        pid = fork();
    g_assert_cmpint((int)pid, >=, 0);
    if (pid == 0)
        hold(&orders, leash[0], word[1]);
    close(leash[0]);
    close(word[1]);

    if (read(word[0], &answer, sizeof answer) != sizeof answer)
        answer = -EIO;
    if (answer < 0) {
        waitpid((pid_t)pid, NULL, 0);
        close(leash[1]);
        close(word[0]);
        if (ret_error)
            *ret_error = -answer;
        return NULL;
    }
    holder = g_new0(BedHolder, 1);
    holder->bed = bed;
    holder->pid = (pid_t)pid;
    holder->leash = leash[1];
    holder->word = word[0];
    g_ptr_array_add(bed->holders, holder);
    return holder;
}

BedHolder *
bed_hold(Bed *bed, const char *where)
{
    int error = 0;
    BedHolder *holder = bed_hold_full(bed, where, BED_HOLD_VM, NULL, 0, &error);

    if (!holder)
        g_error("bed: %s cannot be held: %s", where, g_strerror(error));
    return holder;
}

pid_t
bed_holder_pid(const BedHolder *holder)
{
    return holder->pid;
}

void
bed_holder_close(BedHolder *holder)
{
    int answer;

    g_assert_cmpint(send(holder->leash, "c", 1, MSG_NOSIGNAL), ==, 1);
    g_assert_cmpint(read(holder->word, &answer, sizeof answer), ==, sizeof answer);
}

static void
holder_end(BedHolder *holder)
{
    /* Closing alone would not do: a child of the test may have a copy. It is dead already if this fails. */
    send(holder->leash, "q", 1, MSG_NOSIGNAL);
    close(holder->leash);
    while (waitpid(holder->pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    close(holder->word);
    g_ptr_array_remove(holder->bed->holders, holder);
    g_free(holder);
}

void
bed_let_go(BedHolder *holder)
{
    holder_end(holder);
}

void
bed_kill_holder(BedHolder *holder)
{
    kill(holder->pid, SIGKILL);
    holder_end(holder);
}

gboolean
bed_user_can_open(Bed *bed, const char *where, uid_t uid)
{
    int refused = 0;
    BedHolder *holder = bed_hold_full(bed, where, BED_HOLD_GROUP_ONLY, NULL, uid, &refused);

    if (!holder) {
        g_assert_cmpint(refused, ==, EACCES);
        return FALSE;
    }
    bed_let_go(holder);
    g_assert_true(bed_wait_free(bed, where, 10));
    return TRUE;
}
