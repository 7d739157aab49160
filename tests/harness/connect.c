/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "harness-private.h"

#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef struct {
    const char *address;
    int fd;
    uid_t uid;
    GError *error;
} Request;

static const GDBusConnectionFlags as_client =
    G_DBUS_CONNECTION_FLAGS_AUTHENTICATION_CLIENT | G_DBUS_CONNECTION_FLAGS_MESSAGE_BUS_CONNECTION;

static GDBusConnection *
connect_over(int fd, GError **error)
{
    g_autoptr(GSocket) socket = g_socket_new_from_fd(fd, error);
    g_autoptr(GSocketConnection) stream = NULL;

    if (!socket)
        return NULL;
    stream = g_socket_connection_factory_create_connection(socket);
    return g_dbus_connection_new_sync(G_IO_STREAM(stream), NULL, as_client, NULL, NULL, error);
}

/* The kernel tells the bus the user of the thread that connects. In a thread that ends afterwards, so that
 * nothing else of this process ever runs as somebody else. */
static gpointer
run(gpointer data)
{
    Request *request = data;

    if (request->uid != 0)
        g_assert_no_errno((int)syscall(SYS_setresuid, -1, request->uid, -1));
    if (request->fd >= 0)
        return connect_over(request->fd, &request->error);
    return g_dbus_connection_new_for_address_sync(request->address, as_client, NULL, NULL, &request->error);
}

GDBusConnection *
connect_as(const char *address, int fd, uid_t uid)
{
    Request request = {address, fd, uid, NULL};
    GDBusConnection *connection = g_thread_join(g_thread_new("connect", run, &request));

    g_assert_no_error(request.error);
    /* A change of user makes a process undumpable. */
    prctl(PR_SET_DUMPABLE, 1);
    g_dbus_connection_set_exit_on_close(connection, FALSE);
    return connection;
}

GVariant *
bus_ask(GDBusConnection *connection, const char *interface, const char *method, GVariant *arguments,
        const char *reply_type)
{
    return g_dbus_connection_call_sync(connection, "org.freedesktop.DBus", "/org/freedesktop/DBus", interface,
                                       method, arguments, G_VARIANT_TYPE(reply_type), G_DBUS_CALL_FLAGS_NONE,
                                       G_MAXINT, NULL, NULL);
}
