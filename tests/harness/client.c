/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "host-private.h"

#include <string.h>

#define NAME "org.hypeman.VGPU1"
#define PATH "/org/hypeman/VGPU1"

/* What came over the wire, in its order: GDBus gives a signal that came right behind a reply to us before
 * that reply. */
typedef struct {
    gint signals; /* PropertiesChanged with Assignments */
    gint at_reply;
} Wire;

struct Client {
    int references; /* a signal on its way to it has one too */
    guint subscriptions[2];
    GDBusConnection *connection;
    GHashTable *removals; /* id -> reasons */
    GHashTable *changes;  /* property -> count */
    guint filter;
    Wire *wire; /* also GDBus's thread's */
};

Client *
client_new(Host *host, uid_t uid)
{
    Client *client = g_new0(Client, 1);

    client->references = 1;
    client->connection = bus_connect(host_get_bus(host), uid);
    client->removals = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
    client->changes = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    return client;
}

static void
client_unref(gpointer data)
{
    Client *client = data;

    if (--client->references > 0)
        return;
    g_hash_table_unref(client->removals);
    g_hash_table_unref(client->changes);
    g_free(client);
}

void
client_free(Client *client)
{
    for (gsize i = 0; i < G_N_ELEMENTS(client->subscriptions); i++) {
        if (client->subscriptions[i] > 0)
            g_dbus_connection_signal_unsubscribe(client->connection, client->subscriptions[i]);
    }
    if (client->filter > 0)
        g_dbus_connection_remove_filter(client->connection, client->filter);
    g_clear_pointer(&client->wire, g_atomic_rc_box_release);
    g_dbus_connection_close_sync(client->connection, NULL, NULL);
    g_clear_object(&client->connection);
    client_unref(client);
}

const char *
client_name(Client *client)
{
    return g_dbus_connection_get_unique_name(client->connection);
}

struct Pending {
    gboolean done;
    GVariant *reply;
    GError *error;
};

static void
on_replied(GObject *source, GAsyncResult *result, gpointer user_data)
{
    Pending *pending = user_data;

    pending->reply = g_dbus_connection_call_finish(G_DBUS_CONNECTION(source), result, &pending->error);
    pending->done = TRUE;
}

static Pending *
start(Client *client, const char *interface, const char *method, GVariant *arguments, GDBusCallFlags flags)
{
    Pending *pending = g_new0(Pending, 1);

    g_dbus_connection_call(client->connection, NAME, PATH, interface, method, arguments, NULL,
                           flags | G_DBUS_CALL_FLAGS_NO_AUTO_START, G_MAXINT, NULL, on_replied, pending);
    return pending;
}

/* @method may carry its interface in front, "org.freedesktop.DBus.Properties.Set"; else it is our own. */
static Pending *
start_method(Client *client, const char *method, GVariant *arguments, GDBusCallFlags flags)
{
    const char *dot = strrchr(method, '.');
    g_autofree char *interface = dot ? g_strndup(method, (gsize)(dot - method)) : g_strdup(NAME);

    return start(client, interface, dot ? dot + 1 : method, arguments, flags);
}

Pending *
client_start(Client *client, const char *method, GVariant *arguments)
{
    return start_method(client, method, arguments, G_DBUS_CALL_FLAGS_NONE);
}

Pending *
client_start_interactive(Client *client, const char *method, GVariant *arguments)
{
    return start_method(client, method, arguments, G_DBUS_CALL_FLAGS_ALLOW_INTERACTIVE_AUTHORIZATION);
}

gboolean
pending_is_done(Pending *pending)
{
    return pending->done;
}

GVariant *
client_finish(Pending *pending, GError **error)
{
    GVariant *reply;

    wait_for(pending->done);
    reply = pending->reply;
    if (pending->error)
        g_propagate_error(error, pending->error);
    g_free(pending);
    return reply;
}

GVariant *
client_call(Client *client, const char *method, GVariant *arguments, GError **error)
{
    return client_finish(client_start(client, method, arguments), error);
}

GVariant *
client_call_interactive(Client *client, const char *method, GVariant *arguments, GError **error)
{
    return client_finish(client_start_interactive(client, method, arguments), error);
}

char *
client_assign(Client *client, const char *profile, const char *options, GVariant **ret_row, GError **error)
{
    GVariant *parsed = g_variant_new_parsed(options ? options : "@a{sv} {}");
    g_autoptr(GVariant) reply =
        client_call(client, "Assign", g_variant_new("(s@a{sv})", profile, parsed), error);
    char *id = NULL;

    if (!reply)
        return NULL;
    g_variant_get_child(reply, 0, "s", &id);
    if (ret_row)
        *ret_row = g_variant_get_child_value(reply, 1);
    return id;
}

char *
client_must_assign(Client *client, const char *profile, const char *options, GVariant **ret_row)
{
    g_autoptr(GError) error = NULL;
    char *id = client_assign(client, profile, options, ret_row, &error);

    g_assert_no_error(error);
    return id;
}

gboolean
client_release(Client *client, const char *id, GError **error)
{
    g_autoptr(GVariant) reply = client_call(client, "Release", g_variant_new("(s)", id), error);

    return reply != NULL;
}

GVariant *
client_get(Client *client, const char *property)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(GVariant) reply =
        client_finish(start(client, "org.freedesktop.DBus.Properties", "Get",
                            g_variant_new("(ss)", NAME, property), G_DBUS_CALL_FLAGS_NONE),
                      &error);
    GVariant *value;

    if (!reply)
        host_give_up(__FILE__, __LINE__, error->message);
    g_variant_get(reply, "(v)", &value);
    return value;
}

GVariant *
client_assignment(Client *client, const char *id)
{
    g_autoptr(GVariant) rows = client_get(client, "Assignments");

    return row_find(rows, "Id", id);
}

char *
client_state(Client *client, const char *id)
{
    g_autoptr(GVariant) row = client_assignment(client, id);

    return g_strdup(row ? row_string(row, "State") : "");
}

/* ---- Signals ---- */

static void
on_removed(GDBusConnection *connection, const char *sender, const char *path, const char *interface,
           const char *signal, GVariant *arguments, gpointer user_data)
{
    Client *client = user_data;
    const char *id, *reason, *before;

    g_variant_get(arguments, "(&s&s)", &id, &reason);
    before = g_hash_table_lookup(client->removals, id);
    g_hash_table_insert(client->removals, g_strdup(id),
                        before ? g_strconcat(before, " ", reason, NULL) : g_strdup(reason));
}

static void
count_change(Client *client, const char *property)
{
    guint count = GPOINTER_TO_UINT(g_hash_table_lookup(client->changes, property));

    g_hash_table_insert(client->changes, g_strdup(property), GUINT_TO_POINTER(count + 1));
}

static void
on_properties_changed(GDBusConnection *connection, const char *sender, const char *path,
                      const char *interface, const char *signal, GVariant *arguments, gpointer user_data)
{
    g_autoptr(GVariant) changed = g_variant_get_child_value(arguments, 1);
    g_autoptr(GVariant) names = g_variant_get_child_value(arguments, 2);
    g_autofree const char **invalidated = g_variant_get_strv(names, NULL);
    GVariantIter iter;
    const char *key;
    GVariant *value;

    for (const char **name = invalidated; *name; name++)
        count_change(user_data, *name);
    g_variant_iter_init(&iter, changed);
    while (g_variant_iter_next(&iter, "{&sv}", &key, &value)) {
        count_change(user_data, key);
        g_variant_unref(value);
    }
}

static guint
subscribe(Client *client, const char *interface, const char *signal, GDBusSignalCallback callback)
{
    client->references++;
    return g_dbus_connection_signal_subscribe(client->connection, NAME, interface, signal, PATH, NULL,
                                              G_DBUS_SIGNAL_FLAGS_NONE, callback, client, client_unref);
}

/* In GDBus's thread. */
static GDBusMessage *
on_wire(GDBusConnection *connection, GDBusMessage *message, gboolean incoming, gpointer user_data)
{
    Wire *wire = user_data;
    GVariant *body = g_dbus_message_get_body(message);

    if (incoming && g_dbus_message_get_message_type(message) == G_DBUS_MESSAGE_TYPE_METHOD_RETURN)
        g_atomic_int_set(&wire->at_reply, g_atomic_int_get(&wire->signals));
    if (incoming && g_strcmp0(g_dbus_message_get_member(message), "PropertiesChanged") == 0 && body) {
        g_autoptr(GVariant) invalidated = g_variant_get_child_value(body, 2);
        g_autofree const char **names = g_variant_get_strv(invalidated, NULL);

        if (g_strv_contains(names, "Assignments"))
            g_atomic_int_inc(&wire->signals);
    }
    return message;
}

void
client_listen(Client *client)
{
    g_autoptr(GVariant) synced = NULL;

    client->wire = g_atomic_rc_box_new0(Wire);
    client->filter = g_dbus_connection_add_filter(
        client->connection, on_wire, g_atomic_rc_box_acquire(client->wire), g_atomic_rc_box_release);
    client->subscriptions[0] = subscribe(client, NAME, "AssignmentRemoved", on_removed);
    client->subscriptions[1] =
        subscribe(client, "org.freedesktop.DBus.Properties", "PropertiesChanged", on_properties_changed);
    synced = client_get(client, "Version"); /* the matches stand before this comes back */
}

char *
client_removals(Client *client, const char *id)
{
    const char *reasons = g_hash_table_lookup(client->removals, id);

    return g_strdup(reasons ? reasons : "");
}

guint
client_changes(Client *client, const char *property)
{
    return GPOINTER_TO_UINT(g_hash_table_lookup(client->changes, property));
}

gboolean
client_heard_before_the_reply(Client *client)
{
    return g_atomic_int_get(&client->wire->at_reply) > 0;
}

guint
client_assignments(Client *client)
{
    g_autoptr(GVariant) rows = client_get(client, "Assignments");

    return (guint)g_variant_n_children(rows);
}

gboolean
client_state_is(Client *client, const char *id, const char *state)
{
    g_autofree char *now = client_state(client, id);

    return strcmp(now, state) == 0;
}

gboolean
client_was_removed(Client *client, const char *id, const char *reason)
{
    g_autofree char *reasons = client_removals(client, id);

    return strcmp(reasons, reason) == 0;
}

GVariant *
client_gpu(Client *client, const char *address)
{
    g_autoptr(GVariant) rows = client_get(client, "GPUs");
    GVariant *row = row_find(rows, "Address", address);

    g_assert_nonnull(row);
    return row;
}

gint64
client_gpu_number(Client *client, const char *address, const char *key)
{
    g_autoptr(GVariant) row = client_gpu(client, address);

    return row_number(row, key);
}
