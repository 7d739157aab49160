/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "bus.h"

#include "log.h"
#include "process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

struct Bus {
    char *address;
    char *log;
    Process *process;
    GDBusConnection *connection; /* of root, for questions */
};

/* Returns when the bus has said where it listens: then it does. */
static void
wait_for_line(int fd)
{
    char c = 0;

    while (read(fd, &c, 1) == 1 && c != '\n')
        ;
    if (c != '\n')
        g_error("the dbus-daemon did not start");
}

void
bus_start(Bus *bus)
{
    g_autofree char *config = g_strconcat("--config-file=", TEST_BUS_CONFIG, NULL);
    g_autofree char *listen = g_strconcat("--address=", bus->address, NULL);
    const char *const argv[] = {"dbus-daemon",     config, listen, "--nofork", "--nopidfile",
                                "--print-address", NULL};
    int out[2];

    g_assert_no_errno(pipe2(out, O_CLOEXEC));
    bus->process = process_new(&(ProcessOptions){.argv = argv, .log = bus->log, .stdout_fd = out[1]});
    close(out[1]);
    wait_for_line(out[0]);
    close(out[0]);
    bus->connection = bus_connect(bus, 0);
}

Bus *
bus_new(const char *directory)
{
    Bus *bus = g_new0(Bus, 1);

    bus->address = g_strdup_printf("unix:path=%s/bus", directory);
    bus->log = g_build_filename(directory, "bus.log", NULL);
    log_show_on_abort("dbus-daemon", bus->log);
    bus_start(bus);
    return bus;
}

void
bus_kill(Bus *bus)
{
    g_clear_pointer(&bus->process, process_free);
    g_dbus_connection_close_sync(bus->connection, NULL, NULL);
    g_clear_object(&bus->connection);
}

void
bus_free(Bus *bus)
{
    if (bus->process)
        bus_kill(bus);
    log_forget(bus->log);
    g_free(bus->address);
    g_free(bus->log);
    g_free(bus);
}

const char *
bus_address(const Bus *bus)
{
    return bus->address;
}

GDBusConnection *
bus_connect(const Bus *bus, uid_t uid)
{
    g_autoptr(GError) error = NULL;
    GDBusConnection *connection;

    /* Of this thread only: the kernel tells the bus whose it is that connects. */
    if (uid != 0)
        g_assert_no_errno((int)syscall(SYS_setresuid, -1, uid, -1));
    connection = g_dbus_connection_new_for_address_sync(bus->address,
                                                        G_DBUS_CONNECTION_FLAGS_AUTHENTICATION_CLIENT |
                                                            G_DBUS_CONNECTION_FLAGS_MESSAGE_BUS_CONNECTION,
                                                        NULL, NULL, &error);
    if (uid != 0)
        g_assert_no_errno((int)syscall(SYS_setresuid, -1, 0, -1));
    g_assert_no_error(error);
    /* A change of user makes a process undumpable, which a leak check cannot do with. */
    prctl(PR_SET_DUMPABLE, 1);
    g_dbus_connection_set_exit_on_close(connection, FALSE);
    return connection;
}

GVariant *
bus_ask(Bus *bus, const char *interface, const char *method, GVariant *arguments, const char *reply_type)
{
    return g_dbus_connection_call_sync(bus->connection, "org.freedesktop.DBus", "/org/freedesktop/DBus",
                                       interface, method, arguments, G_VARIANT_TYPE(reply_type),
                                       G_DBUS_CALL_FLAGS_NONE, G_MAXINT, NULL, NULL);
}

gboolean
bus_has_owner(Bus *bus, const char *name)
{
    g_autoptr(GVariant) reply = NULL;
    gboolean owned = FALSE;

    if (bus->connection)
        reply = bus_ask(bus, "org.freedesktop.DBus", "NameHasOwner", g_variant_new("(s)", name), "(b)");
    if (reply)
        g_variant_get(reply, "(b)", &owned);
    return owned;
}

void
bus_ping(Bus *bus, const char *name)
{
    g_autoptr(GVariant) reply =
        g_dbus_connection_call_sync(bus->connection, name, "/", "org.freedesktop.DBus.Peer", "Ping", NULL,
                                    NULL, G_DBUS_CALL_FLAGS_NO_AUTO_START, G_MAXINT, NULL, NULL);
}
