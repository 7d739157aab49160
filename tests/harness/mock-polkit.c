/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "host-private.h"

#include <string.h>

struct MockPolkit {
    Bus *bus;
    GDBusConnection *connection; /* owns the name; NULL while it is gone */
    guint object;
    PolkitMode mode;
    GPtrArray *open; /* of GDBusMethodInvocation */
    guint asked;
    guint cancelled;
    char *last_action;
    char *last_details;
    guint last_flags;
};

static void
answer(GDBusMethodInvocation *invocation, gboolean yes, gboolean challenge, gboolean dismissed)
{
    GVariantBuilder details = G_VARIANT_BUILDER_INIT(G_VARIANT_TYPE("a{ss}"));

    if (dismissed)
        g_variant_builder_add(&details, "{ss}", "polkit.dismissed", "true");
    g_dbus_method_invocation_return_value(invocation, g_variant_new("((bba{ss}))", yes, challenge, &details));
}

static void
note_question(MockPolkit *polkit, GVariant *arguments)
{
    g_autoptr(GVariant) details = NULL;
    GString *text = g_string_new(NULL);
    GVariantIter iter;
    const char *key, *value;

    polkit->asked++;
    g_free(polkit->last_action);
    g_free(polkit->last_details);
    g_variant_get_child(arguments, 1, "s", &polkit->last_action);
    g_variant_get_child(arguments, 3, "u", &polkit->last_flags);
    details = g_variant_get_child_value(arguments, 2);
    g_variant_iter_init(&iter, details);
    while (g_variant_iter_next(&iter, "{&s&s}", &key, &value))
        g_string_append_printf(text, "%s%s=%s", text->len > 0 ? " " : "", key, value);
    polkit->last_details = g_string_free(text, FALSE);
}

static void
on_polkit_call(GDBusConnection *connection, const char *sender, const char *path, const char *interface,
               const char *method, GVariant *arguments, GDBusMethodInvocation *invocation, gpointer user_data)
{
    MockPolkit *polkit = user_data;

    if (strcmp(method, "CancelCheckAuthorization") == 0) {
        polkit->cancelled++;
        g_dbus_method_invocation_return_value(invocation, NULL);
        return;
    }
    note_question(polkit, arguments);
    switch (polkit->mode) {
    case POLKIT_HANG:
        g_ptr_array_add(polkit->open, invocation);
        break;
    case POLKIT_CHALLENGE:
        answer(invocation, FALSE, TRUE, FALSE);
        break;
    case POLKIT_DISMISSED:
        answer(invocation, FALSE, FALSE, TRUE);
        break;
    default:
        answer(invocation, polkit->mode == POLKIT_YES, FALSE, FALSE);
    }
}

static GVariant *
on_polkit_get(GDBusConnection *connection, const char *sender, const char *path, const char *interface,
              const char *property, GError **error, gpointer user_data)
{
    if (strcmp(property, "BackendFeatures") == 0)
        return g_variant_new_uint32(1);
    return g_variant_new_string("mock");
}

static const char polkit_xml[] =
    "<node><interface name='org.freedesktop.PolicyKit1.Authority'>"
    "<method name='CheckAuthorization'><arg type='(sa{sv})' direction='in'/><arg type='s' direction='in'/>"
    "<arg type='a{ss}' direction='in'/><arg type='u' direction='in'/><arg type='s' direction='in'/>"
    "<arg type='(bba{ss})' direction='out'/></method>"
    "<method name='CancelCheckAuthorization'><arg type='s' direction='in'/></method>"
    "<property name='BackendName' type='s' access='read'/><property name='BackendVersion' type='s' "
    "access='read'/>"
    "<property name='BackendFeatures' type='u' access='read'/><signal name='Changed'/>"
    "</interface></node>";

static void
own_name(MockPolkit *polkit)
{
    static const GDBusInterfaceVTable vtable = {on_polkit_call, on_polkit_get, NULL, {0}};
    g_autoptr(GDBusNodeInfo) node = g_dbus_node_info_new_for_xml(polkit_xml, NULL);
    g_autoptr(GVariant) reply = NULL;
    g_autoptr(GError) error = NULL;

    polkit->connection = bus_connect(polkit->bus, 0);
    polkit->object =
        g_dbus_connection_register_object(polkit->connection, "/org/freedesktop/PolicyKit1/Authority",
                                          node->interfaces[0], &vtable, polkit, NULL, &error);
    g_assert_no_error(error);
    reply = g_dbus_connection_call_sync(polkit->connection, "org.freedesktop.DBus", "/org/freedesktop/DBus",
                                        "org.freedesktop.DBus", "RequestName",
                                        g_variant_new("(su)", "org.freedesktop.PolicyKit1", 4),
                                        G_VARIANT_TYPE("(u)"), G_DBUS_CALL_FLAGS_NONE, -1, NULL, &error);
    g_assert_no_error(error);
}

void
mock_polkit_set(MockPolkit *polkit, PolkitMode mode)
{
    polkit->mode = mode;
    if (mode != POLKIT_GONE && !polkit->connection)
        own_name(polkit);
    if (mode == POLKIT_GONE && polkit->connection) {
        g_ptr_array_set_size(polkit->open, 0);
        g_dbus_connection_unregister_object(polkit->connection, polkit->object);
        g_dbus_connection_close_sync(polkit->connection, NULL, NULL);
        g_clear_object(&polkit->connection);
    }
}

MockPolkit *
mock_polkit_new(Bus *bus)
{
    MockPolkit *polkit = g_new0(MockPolkit, 1);

    polkit->bus = bus;
    polkit->open = g_ptr_array_new_with_free_func(g_object_unref);
    return polkit;
}

void
mock_polkit_free(MockPolkit *polkit)
{
    mock_polkit_set(polkit, POLKIT_GONE);
    g_ptr_array_unref(polkit->open);
    g_free(polkit->last_action);
    g_free(polkit->last_details);
    g_free(polkit);
}

guint
polkit_open(Host *host)
{
    return host_get_mock_polkit(host)->open->len;
}

guint
polkit_asked(Host *host)
{
    return host_get_mock_polkit(host)->asked;
}

guint
polkit_cancelled(Host *host)
{
    return host_get_mock_polkit(host)->cancelled;
}

const char *
polkit_last_action(Host *host)
{
    return host_get_mock_polkit(host)->last_action;
}

const char *
polkit_last_details(Host *host)
{
    return host_get_mock_polkit(host)->last_details;
}

guint
polkit_last_flags(Host *host)
{
    return host_get_mock_polkit(host)->last_flags;
}

void
polkit_answer(Host *host, gboolean yes)
{
    GPtrArray *open = host_get_mock_polkit(host)->open;

    while (open->len > 0)
        answer(g_ptr_array_steal_index(open, 0), yes, FALSE, FALSE);
}
