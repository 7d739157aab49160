/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "harness-private.h"

#include <string.h>

/* Noted in GDBus's own thread, where messages pass one after the other: callbacks of the main context come
 * later and need not keep the order between replies and signals. */
struct History {
    GDBusConnection *connection; /* borrowed: the one that is listened to */
    guint filter;

    GMutex lock;
    GHashTable *calls; /* serial -> member, of calls without an answer */
    GPtrArray *lines;
};

static void
history_clear(gpointer data)
{
    History *history = data;

    g_hash_table_unref(history->calls);
    g_ptr_array_unref(history->lines);
    g_mutex_clear(&history->lock);
}

static void
release(gpointer data)
{
    g_atomic_rc_box_release_full(data, history_clear);
}

static void
note_call(History *history, GDBusMessage *message)
{
    if (g_strcmp0(g_dbus_message_get_destination(message), HARNESS_NAME) == 0)
        g_hash_table_replace(history->calls, GUINT_TO_POINTER(g_dbus_message_get_serial(message)),
                             g_strdup(g_dbus_message_get_member(message)));
}

static void
note_answer(History *history, GDBusMessage *message)
{
    gpointer serial = GUINT_TO_POINTER(g_dbus_message_get_reply_serial(message));
    const char *member = g_hash_table_lookup(history->calls, serial);
    GVariant *body = g_dbus_message_get_body(message);
    const char *error = g_dbus_message_get_error_name(message);
    const char *id = NULL;

    if (!member)
        return;
    if (error) {
        g_ptr_array_add(history->lines, g_strdup_printf("error %s %s", member, error));
    } else if (strcmp(member, "Assign") == 0 && body &&
               g_variant_is_of_type(body, G_VARIANT_TYPE("(sa{sv})"))) {
        g_variant_get_child(body, 0, "&s", &id);
        g_ptr_array_add(history->lines, g_strdup_printf("reply Assign %s", id));
    } else {
        g_ptr_array_add(history->lines, g_strdup_printf("reply %s", member));
    }
    g_hash_table_remove(history->calls, serial);
}

static void
note_properties(History *history, GVariant *body)
{
    const char *interface, *name;
    g_autoptr(GVariantIter) changed = NULL;
    g_autoptr(GVariantIter) invalidated = NULL;

    g_variant_get(body, "(&sa{sv}as)", &interface, &changed, &invalidated);
    if (strcmp(interface, HARNESS_NAME) != 0)
        return;
    while (g_variant_iter_next(changed, "{&sv}", &name, NULL))
        g_ptr_array_add(history->lines, g_strdup_printf("changed %s", name));
    while (g_variant_iter_next(invalidated, "&s", &name))
        g_ptr_array_add(history->lines, g_strdup_printf("invalidated %s", name));
}

static void
note_signal(History *history, GDBusMessage *message)
{
    const char *member = g_dbus_message_get_member(message);
    const char *interface = g_dbus_message_get_interface(message);
    GVariant *body = g_dbus_message_get_body(message);
    const char *id, *reason;

    if (!body || g_strcmp0(g_dbus_message_get_path(message), HARNESS_PATH) != 0)
        return;
    if (strcmp(interface, HARNESS_NAME) == 0 && strcmp(member, "AssignmentRemoved") == 0 &&
        g_variant_is_of_type(body, G_VARIANT_TYPE("(ss)"))) {
        g_variant_get(body, "(&s&s)", &id, &reason);
        g_ptr_array_add(history->lines, g_strdup_printf("removed %s %s", id, reason));
    } else if (strcmp(interface, "org.freedesktop.DBus.Properties") == 0 &&
               strcmp(member, "PropertiesChanged") == 0 &&
               g_variant_is_of_type(body, G_VARIANT_TYPE("(sa{sv}as)"))) {
        note_properties(history, body);
    }
}

static GDBusMessage *
on_message(GDBusConnection *connection, GDBusMessage *message, gboolean incoming, gpointer data)
{
    History *history = data;
    GDBusMessageType type = g_dbus_message_get_message_type(message);

    g_mutex_lock(&history->lock);
    if (!incoming && type == G_DBUS_MESSAGE_TYPE_METHOD_CALL)
        note_call(history, message);
    else if (incoming && (type == G_DBUS_MESSAGE_TYPE_METHOD_RETURN || type == G_DBUS_MESSAGE_TYPE_ERROR))
        note_answer(history, message);
    else if (incoming && type == G_DBUS_MESSAGE_TYPE_SIGNAL)
        note_signal(history, message);
    g_mutex_unlock(&history->lock);
    g_main_context_wakeup(NULL);
    return message;
}

History *
history_new(GDBusConnection *connection)
{
    History *history = g_atomic_rc_box_new0(History);

    history->connection = connection;
    history->calls = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    history->lines = g_ptr_array_new_with_free_func(g_free);
    g_mutex_init(&history->lock);
    history->filter =
        g_dbus_connection_add_filter(connection, on_message, g_atomic_rc_box_acquire(history), release);
    return history;
}

void
history_free(History *history)
{
    g_dbus_connection_remove_filter(history->connection, history->filter);
    release(history);
}

void
client_listen(Client *client)
{
    g_autoptr(GVariant) reply = bus_ask(
        client_connection(client), "org.freedesktop.DBus", "AddMatch",
        g_variant_new("(s)", "type='signal',sender='" HARNESS_NAME "',path='" HARNESS_PATH "'"), "()");

    g_assert_nonnull(reply);
}

char **
client_history(Client *client)
{
    History *history = client_get_history(client);
    g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&history->lock);
    g_autoptr(GPtrArray) copy = g_ptr_array_new();

    for (guint i = 0; i < history->lines->len; i++)
        g_ptr_array_add(copy, g_strdup(g_ptr_array_index(history->lines, i)));
    g_ptr_array_add(copy, NULL);
    return (char **)g_ptr_array_free(g_steal_pointer(&copy), FALSE);
}

void
client_forget(Client *client)
{
    History *history = client_get_history(client);
    g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&history->lock);

    g_ptr_array_set_size(history->lines, 0);
}

guint
client_heard(Client *client, const char *line)
{
    g_auto(GStrv) lines = client_history(client);
    guint count = 0;

    for (char **heard = lines; *heard; heard++)
        count += strcmp(*heard, line) == 0 ? 1 : 0;
    return count;
}

int
client_heard_at(Client *client, const char *line)
{
    g_auto(GStrv) lines = client_history(client);

    for (int i = 0; lines[i]; i++) {
        if (strcmp(lines[i], line) == 0)
            return i;
    }
    return -1;
}

char *
client_removed(Client *client, const char *id)
{
    g_auto(GStrv) lines = client_history(client);
    g_autofree char *start = g_strdup_printf("removed %s ", id);

    for (char **line = lines; *line; line++) {
        if (g_str_has_prefix(*line, start))
            return g_strdup(*line + strlen(start));
    }
    return NULL;
}

char *
client_wait_removed(Client *client, const char *id)
{
    char *reason = NULL;

    wait_for((reason = client_removed(client, id)) != NULL);
    return reason;
}
