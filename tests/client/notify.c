/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "notify.h"

#include <glib-unix.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static gboolean
on_message(int fd, GIOCondition condition, void *data)
{
    Notify *notify = data;
    char text[4096];
    ssize_t n = recv(fd, text, sizeof text, MSG_DONTWAIT);

    if (n > 0) {
        g_string_append_len(notify->messages, text, n);
        g_string_append_c(notify->messages, '\n');
    }
    return G_SOURCE_CONTINUE;
}

Notify *
notify_new(const Mock *mock)
{
    Notify *notify = g_new0(Notify, 1);
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    notify->path = g_build_filename(mock_directory(mock), "notify", NULL);
    notify->messages = g_string_new(NULL);
    g_strlcpy(address.sun_path, notify->path, sizeof address.sun_path);
    notify->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    g_assert_cmpint(bind(notify->fd, (struct sockaddr *)&address, sizeof address), ==, 0);
    notify->source = g_unix_fd_add(notify->fd, G_IO_IN, on_message, notify);
    return notify;
}

void
notify_free(Notify *notify)
{
    g_source_remove(notify->source);
    close(notify->fd);
    g_free(notify->path);
    g_string_free(notify->messages, TRUE);
    g_free(notify);
}
