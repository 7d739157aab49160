/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "bed-private.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* umockdev's library connects every device node that it opens to a socket below the bed, asks there what an
 * ioctl on it shall do, and ends the process if nobody answers. Our answer is always: do it yourself, for the
 * driver below the mount knows. The words are umockdev's. */

enum { ASK_IOCTL = 1, SAY_RESULT = 2, DONE = 3, RUN = 4 };

typedef struct {
    unsigned long command;
    unsigned long first;
    unsigned long second;
} Message;

struct Door {
    GThread *thread;
    GArray *fds; /* struct pollfd: stop, listener, then clients */
};

/* FALSE: the client went. */
static gboolean
serve(int fd)
{
    Message message;
    ssize_t n = recv(fd, &message, sizeof message, 0);

    if (n != sizeof message)
        return FALSE;
    /* The result comes back as first and second, the way DONE wants them. */
    message.command = message.command == ASK_IOCTL ? RUN : DONE;
    return send(fd, &message, sizeof message, MSG_NOSIGNAL) == sizeof message;
}

static gpointer
door_run(gpointer data)
{
    Door *door = data;

    for (;;) {
        struct pollfd *fds = (struct pollfd *)(void *)door->fds->data;
        guint n = door->fds->len;

        if (poll(fds, n, -1) < 0)
            continue;
        if (fds[0].revents)
            return NULL;
        for (guint i = n; i > 2; i--) {
            if (!fds[i - 1].revents || serve(fds[i - 1].fd))
                continue;
            close(fds[i - 1].fd);
            g_array_remove_index(door->fds, i - 1);
        }
        if (fds[1].revents) {
            struct pollfd client = {.fd = accept4(fds[1].fd, NULL, NULL, SOCK_CLOEXEC), .events = POLLIN};

            if (client.fd >= 0)
                g_array_append_val(door->fds, client);
        }
    }
}

Door *
door_new(const char *root)
{
    Door *door = g_new0(Door, 1);
    struct pollfd stop = {.fd = eventfd(0, EFD_CLOEXEC), .events = POLLIN};
    struct pollfd listener = {.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), .events = POLLIN};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    g_autofree char *dir = g_build_filename(root, "ioctl", NULL);

    g_assert_no_errno(mkdir(dir, 0755));
    g_snprintf(address.sun_path, sizeof address.sun_path, "%s/_default", dir);
    g_assert_no_errno(bind(listener.fd, (struct sockaddr *)&address, sizeof address));
    g_assert_no_errno(chmod(address.sun_path, 0666));
    g_assert_no_errno(listen(listener.fd, 4096));

    door->fds = g_array_new(FALSE, FALSE, sizeof(struct pollfd));
    g_array_append_val(door->fds, stop);
    g_array_append_val(door->fds, listener);
    door->thread = g_thread_new("bed-door", door_run, door);
    return door;
}

void
door_free(Door *door)
{
    uint64_t one = 1;
    struct pollfd *fds = (struct pollfd *)(void *)door->fds->data;

    g_assert_cmpint(write(fds[0].fd, &one, sizeof one), ==, sizeof one);
    g_thread_join(door->thread);
    for (guint i = 0; i < door->fds->len; i++)
        close(((struct pollfd *)(void *)door->fds->data)[i].fd);
    g_array_unref(door->fds);
    g_free(door);
}
