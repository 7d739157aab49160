/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "harness-private.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

struct Bus {
    char *directory;
    char *address;
    char *config;
    char *log;
    Process *process;
    GDBusConnection *connection;
};

/* Who may own and call the service is left to its own policy, so that tests see a mistake there. */
static const char configuration[] =
    "<!DOCTYPE busconfig PUBLIC \"-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN\"\n"
    " \"http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd\">\n"
    "<busconfig>\n"
    "  <type>system</type>\n"
    "  <listen>%s</listen>\n"
    "  <auth>EXTERNAL</auth>\n"
    "  <policy context=\"default\">\n"
    "    <allow user=\"*\"/>\n"
    "    <allow send_type=\"signal\"/>\n"
    "    <allow send_requested_reply=\"true\" send_type=\"method_return\"/>\n"
    "    <allow send_requested_reply=\"true\" send_type=\"error\"/>\n"
    "    <allow receive_type=\"method_call\"/>\n"
    "    <allow receive_type=\"method_return\"/>\n"
    "    <allow receive_type=\"error\"/>\n"
    "    <allow receive_type=\"signal\"/>\n"
    "    <allow send_destination=\"org.freedesktop.DBus\"/>\n"
    "    <allow send_destination=\"org.freedesktop.PolicyKit1\"/>\n"
    "    <allow send_destination=\"org.freedesktop.login1\"/>\n"
    "  </policy>\n"
    "  <policy user=\"root\">\n"
    "    <allow own_prefix=\"org.freedesktop\"/>\n"
    "  </policy>\n"
    "  <policy user=\"polkitd\">\n"
    "    <allow own=\"org.freedesktop.PolicyKit1\"/>\n"
    "  </policy>\n"
    "  <limit name=\"auth_timeout\">120000</limit>\n"
    "  <limit name=\"max_incomplete_connections\">10000</limit>\n"
    "  <limit name=\"max_completed_connections\">100000</limit>\n"
    "  <limit name=\"max_connections_per_user\">100000</limit>\n"
    "  <limit name=\"max_names_per_connection\">10000</limit>\n"
    "  <limit name=\"max_match_rules_per_connection\">10000</limit>\n"
    "  <limit name=\"max_replies_per_connection\">100000</limit>\n"
    "  %s\n"
    "  <include>%s</include>\n"
    "</busconfig>\n";

static void
write_config(Bus *bus, const char *extra)
{
    g_autofree char *text =
        g_strdup_printf(configuration, bus->address, extra ? extra : "", HARNESS_BUS_POLICY);
    g_autoptr(GError) error = NULL;

    g_file_set_contents(bus->config, text, -1, &error);
    g_assert_no_error(error);
}

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

/* Nothing to do: that it comes is what wakes a wait. */
static void
on_name(GDBusConnection *connection, const char *sender, const char *path, const char *interface,
        const char *signal_name, GVariant *arguments, gpointer data)
{
}

void
bus_start(Bus *bus)
{
    g_autofree char *option = g_strconcat("--config-file=", bus->config, NULL);
    const char *const argv[] = {"dbus-daemon", option, "--nofork", "--nopidfile", "--print-address", NULL};
    int out[2];

    g_assert_null(bus->process);
    g_assert_no_errno(pipe2(out, O_CLOEXEC));
    bus->process = process_new(&(ProcessOptions){.argv = argv, .log = bus->log, .stdout_fd = out[1]});
    close(out[1]);
    wait_for_line(out[0]);
    close(out[0]);
    bus->connection = connect_as(bus->address, -1, 0);
    g_dbus_connection_signal_subscribe(bus->connection, "org.freedesktop.DBus", "org.freedesktop.DBus",
                                       "NameOwnerChanged", "/org/freedesktop/DBus", HARNESS_NAME,
                                       G_DBUS_SIGNAL_FLAGS_NONE, on_name, NULL, NULL);
}

Bus *
bus_new(const char *extra)
{
    Bus *bus = g_new0(Bus, 1);

    bus->directory = make_directory("bus");
    bus->address = g_strdup_printf("unix:path=%s/bus", bus->directory);
    bus->config = g_build_filename(bus->directory, "bus.conf", NULL);
    bus->log = g_build_filename(bus->directory, "bus.log", NULL);
    write_config(bus, extra);
    log_show_on_abort("dbus-daemon", bus->log);
    bus_start(bus);
    return bus;
}

void
bus_stop(Bus *bus, int signal_number)
{
    g_assert_nonnull(bus->process);
    process_signal(bus->process, signal_number);
    process_wait(bus->process, "dbus-daemon");
    g_clear_pointer(&bus->process, process_free);
    g_dbus_connection_close_sync(bus->connection, NULL, NULL);
    g_clear_object(&bus->connection);
}

void
bus_free(Bus *bus)
{
    if (bus->process)
        bus_stop(bus, SIGTERM);
    log_forget(bus->log);
    remove_tree(bus->directory);
    g_free(bus->directory);
    g_free(bus->address);
    g_free(bus->config);
    g_free(bus->log);
    g_free(bus);
}

const char *
bus_address(const Bus *bus)
{
    return bus->address;
}

const char *
bus_directory(const Bus *bus)
{
    return bus->directory;
}

GDBusConnection *
bus_connection(Bus *bus)
{
    return bus->connection;
}

char *
bus_owner(Bus *bus, const char *name)
{
    g_autoptr(GVariant) reply = NULL;
    char *owner = NULL;

    if (!bus->connection)
        return NULL;
    reply =
        bus_ask(bus->connection, "org.freedesktop.DBus", "GetNameOwner", g_variant_new("(s)", name), "(s)");
    if (reply)
        g_variant_get(reply, "(s)", &owner);
    return owner;
}

guint
bus_match_rules(Bus *bus, const char *name)
{
    g_autoptr(GVariant) reply = bus_ask(bus->connection, "org.freedesktop.DBus.Debug.Stats",
                                        "GetConnectionStats", g_variant_new("(s)", name), "(a{sv})");
    g_autoptr(GVariant) stats = NULL;
    guint rules = 0;

    if (!reply)
        g_error("the bus has no statistics about %s", name);
    stats = g_variant_get_child_value(reply, 0);
    g_assert_true(g_variant_lookup(stats, "MatchRules", "u", &rules));
    return rules;
}

guint
bus_connections(Bus *bus)
{
    g_autoptr(GVariant) reply =
        bus_ask(bus->connection, "org.freedesktop.DBus.Debug.Stats", "GetStats", NULL, "(a{sv})");
    g_autoptr(GVariant) stats = NULL;
    guint active = 0;

    g_assert_nonnull(reply);
    stats = g_variant_get_child_value(reply, 0);
    g_assert_true(g_variant_lookup(stats, "ActiveConnections", "u", &active));
    return active - 1;
}
