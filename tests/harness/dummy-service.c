/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Something with the service's name and interface and nothing behind it, for the harness's own test. */
#include <gio/gio.h>
#include <glib-unix.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define NAME "org.hypeman.VGPU1"
#define PATH "/org/hypeman/VGPU1"

static const char introspection[] =
    "<node><interface name='" NAME "'>"
    "<method name='Assign'><arg type='s' direction='in'/><arg type='a{sv}' direction='in'/>"
    "<arg type='s' direction='out'/><arg type='a{sv}' direction='out'/></method>"
    "<method name='Release'><arg type='s' direction='in'/></method>"
    "<property name='Assignments' type='aa{sv}' access='read'/>"
    "<property name='Framework' type='s' access='read'/>"
    "<signal name='AssignmentRemoved'><arg type='s'/><arg type='s'/></signal>"
    "</interface></node>";

static guint last_id;

static void
signal_invalidated(GDBusConnection *connection)
{
    static const char *const names[] = {"Assignments", NULL};

    g_dbus_connection_emit_signal(
        connection, NULL, PATH, "org.freedesktop.DBus.Properties", "PropertiesChanged",
        g_variant_new("(s@a{sv}^as)", NAME, g_variant_new_parsed("{'Framework': <'none'>}"), names), NULL);
}

static void
assign(GDBusConnection *connection, GDBusMethodInvocation *invocation)
{
    g_autofree char *id = g_strdup_printf("id-%u", ++last_id);

    g_dbus_method_invocation_return_value(
        invocation, g_variant_new("(s@a{sv})", id, g_variant_new_parsed("{'Id': <%s>}", id)));
    signal_invalidated(connection);
}

/* Its argument says what goes wrong. */
static void
release(GDBusConnection *connection, GVariant *arguments, GDBusMethodInvocation *invocation)
{
    const char *id;

    g_variant_get(arguments, "(&s)", &id);
    if (strcmp(id, "die") == 0)
        _Exit(3);
    if (strcmp(id, "misbehave") == 0)
        g_printerr("dummy.c:1:2: runtime error: made up\n");
    if (strcmp(id, "refuse") == 0) {
        g_dbus_method_invocation_return_dbus_error(invocation, NAME ".Error.InUse", "It is in use: stop it");
        return;
    }
    g_dbus_method_invocation_return_value(invocation, NULL);
    g_dbus_connection_emit_signal(connection, NULL, PATH, NAME, "AssignmentRemoved",
                                  g_variant_new("(ss)", id, "released"), NULL);
}

static void
on_call(GDBusConnection *connection, const char *sender, const char *path, const char *interface,
        const char *method, GVariant *arguments, GDBusMethodInvocation *invocation, gpointer data)
{
    if (strcmp(method, "Assign") == 0)
        assign(connection, invocation);
    else
        release(connection, arguments, invocation);
}

static GVariant *
on_get(GDBusConnection *connection, const char *sender, const char *path, const char *interface,
       const char *property, GError **error, gpointer data)
{
    if (strcmp(property, "Framework") == 0)
        return g_variant_new_string("none");
    return g_variant_new_parsed("[{'Id': <'id-1'>, 'State': <'assigned'>, 'UID': <uint32 7>}]");
}

static void
on_bus(GDBusConnection *connection, const char *name, gpointer data)
{
    static const GDBusInterfaceVTable vtable = {.method_call = on_call, .get_property = on_get};
    g_autoptr(GDBusNodeInfo) node = g_dbus_node_info_new_for_xml(introspection, NULL);

    g_dbus_connection_register_object(connection, PATH, node->interfaces[0], &vtable, NULL, NULL, NULL);
}

static void
on_lost(GDBusConnection *connection, const char *name, gpointer data)
{
    exit(EXIT_FAILURE);
}

static gboolean
on_sigterm(gpointer loop)
{
    g_main_loop_quit(loop);
    return G_SOURCE_REMOVE;
}

/* What it was started with: two variables, the configuration; 5 if there is a runtime directory. */
static int
tell(const char *config)
{
    g_autofree char *text = NULL;

    if (!g_file_get_contents(config, &text, NULL, NULL))
        return EXIT_FAILURE;
    g_print("%s %s %s", g_getenv("COLOUR"), g_getenv("TASTE"), text);
    return g_file_test(g_getenv("RUNTIME_DIRECTORY"), G_FILE_TEST_IS_DIR) ? 5 : EXIT_FAILURE;
}

int
main(int argc, char **argv)
{
    g_autoptr(GMainLoop) loop = g_main_loop_new(NULL, FALSE);

    if (argc == 4 && strcmp(argv[1], "--config") == 0 && strcmp(argv[3], "--tell") == 0)
        return tell(argv[2]);

    g_printerr("the dummy is here\n");
    g_unix_signal_add(SIGTERM, on_sigterm, loop);
    g_bus_own_name(G_BUS_TYPE_SYSTEM, NAME, G_BUS_NAME_OWNER_FLAGS_NONE, on_bus, NULL, on_lost, NULL, NULL);
    g_main_loop_run(loop);
    return EXIT_SUCCESS;
}
