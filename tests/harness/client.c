/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "relay.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

struct Client {
    GDBusConnection *connection;
    History *history;
    Process *relay; /* NULL: the connection is this process's own */
};

struct Call {
    gboolean done;
    GVariant *reply;
    GError *error;
};

static Client *
client_over(GDBusConnection *connection, Process *relay)
{
    Client *client = g_new0(Client, 1);

    client->connection = connection;
    client->relay = relay;
    client->history = history_new(connection);
    return client;
}

Client *
client_new(Bus *bus, uid_t uid)
{
    return client_over(connect_as(bus_address(bus), -1, uid), NULL);
}

Client *
client_new_process(Bus *bus, uid_t uid)
{
    g_autofree char *path = g_build_filename(bus_directory(bus), "bus", NULL);
    int fd;
    Process *relay = relay_new(path, uid, &fd);

    return client_over(connect_as(NULL, fd, uid), relay);
}

void
client_close(Client *client)
{
    g_dbus_connection_close_sync(client->connection, NULL, NULL);
}

void
client_kill(Client *client)
{
    g_assert_nonnull(client->relay);
    process_signal(client->relay, SIGKILL);
    process_wait(client->relay, "a client");
}

void
client_free(Client *client)
{
    client_close(client);
    history_free(client->history);
    g_object_unref(client->connection);
    g_clear_pointer(&client->relay, process_free);
    g_free(client);
}

const char *
client_name(Client *client)
{
    return g_dbus_connection_get_unique_name(client->connection);
}

pid_t
client_pid(Client *client)
{
    return client->relay ? process_pid(client->relay) : getpid();
}

GDBusConnection *
client_connection(Client *client)
{
    return client->connection;
}

History *
client_get_history(Client *client)
{
    return client->history;
}

/* ---- Calls ---- */

static void
on_reply(GObject *source, GAsyncResult *result, gpointer data)
{
    Call *call = data;

    call->reply = g_dbus_connection_call_finish(G_DBUS_CONNECTION(source), result, &call->error);
    call->done = TRUE;
}

static Call *
start(Client *client, const char *destination, const char *path, const char *interface, const char *method,
      GVariant *arguments, GDBusCallFlags flags)
{
    Call *call = g_new0(Call, 1);

    g_dbus_connection_call(client->connection, destination, path, interface, method, arguments, NULL, flags,
                           G_MAXINT, NULL, on_reply, call);
    return call;
}

static Call *
start_own(Client *client, const char *method, GVariant *arguments, GDBusCallFlags flags)
{
    const char *dot = strrchr(method, '.');
    g_autofree char *interface = dot ? g_strndup(method, (gsize)(dot - method)) : g_strdup(HARNESS_NAME);

    return start(client, HARNESS_NAME, HARNESS_PATH, interface, dot ? dot + 1 : method, arguments, flags);
}

Call *
client_start(Client *client, const char *method, GVariant *arguments)
{
    return start_own(client, method, arguments, G_DBUS_CALL_FLAGS_NONE);
}

Call *
client_start_interactive(Client *client, const char *method, GVariant *arguments)
{
    return start_own(client, method, arguments, G_DBUS_CALL_FLAGS_ALLOW_INTERACTIVE_AUTHORIZATION);
}

Call *
client_start_to(Client *client, const char *destination, const char *path, const char *interface,
                const char *method, GVariant *arguments)
{
    return start(client, destination, path, interface, method, arguments, G_DBUS_CALL_FLAGS_NONE);
}

gboolean
call_is_done(Call *call)
{
    return call->done;
}

GVariant *
call_finish(Call *call, GError **error)
{
    GVariant *reply;

    wait_for_up_to(60, call->done);
    reply = call->reply;
    if (call->error)
        g_propagate_error(error, call->error);
    g_free(call);
    return reply;
}

GVariant *
client_call(Client *client, const char *method, GVariant *arguments, GError **error)
{
    return call_finish(client_start(client, method, arguments), error);
}

GVariant *
client_call_interactive(Client *client, const char *method, GVariant *arguments, GError **error)
{
    return call_finish(client_start_interactive(client, method, arguments), error);
}

/* ---- The service's methods ---- */

GVariant *
client_request(const char *profile, GVariant *options)
{
    return g_variant_new("(s@a{sv})", profile, options ? options : g_variant_new("a{sv}", NULL));
}

char *
client_assign(Client *client, const char *profile, GVariant *options, GVariant **ret_row, GError **error)
{
    g_autoptr(GVariant) reply = client_call(client, "Assign", client_request(profile, options), error);
    char *id = NULL;

    if (!reply)
        return NULL;
    g_variant_get_child(reply, 0, "s", &id);
    if (ret_row)
        *ret_row = g_variant_get_child_value(reply, 1);
    return id;
}

gboolean
client_release(Client *client, const char *id, GError **error)
{
    g_autoptr(GVariant) reply = client_call(client, "Release", g_variant_new("(s)", id), error);

    return reply != NULL;
}

/* The one value in a reply. */
static GVariant *
only_value(GVariant *reply)
{
    GVariant *value = reply ? g_variant_get_child_value(reply, 0) : NULL;

    g_clear_pointer(&reply, g_variant_unref);
    return value;
}

GVariant *
client_adopt(Client *client, const char *id, GError **error)
{
    return only_value(client_call(client, "Adopt", g_variant_new("(s)", id), error));
}

GVariant *
client_plan(Client *client, const char *profile, GVariant *options, GError **error)
{
    return only_value(client_call(client, "Plan", client_request(profile, options), error));
}

gboolean
client_reclaim(Client *client, const char *device, GError **error)
{
    g_autoptr(GVariant) reply = client_call(client, "Reclaim", g_variant_new("(s)", device), error);

    return reply != NULL;
}

/* ---- Its properties ---- */

GVariant *
client_get(Client *client, const char *property)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(GVariant) boxed =
        only_value(client_call(client, "org.freedesktop.DBus.Properties.Get",
                               g_variant_new("(ss)", HARNESS_NAME, property), &error));

    g_assert_no_error(error);
    return g_variant_get_variant(boxed);
}

GVariant *
client_get_all(Client *client)
{
    g_autoptr(GError) error = NULL;
    GVariant *all = only_value(client_call(client, "org.freedesktop.DBus.Properties.GetAll",
                                           g_variant_new("(s)", HARNESS_NAME), &error));

    g_assert_no_error(error);
    return all;
}

GVariant *
client_row(Client *client, const char *id)
{
    g_autoptr(GVariant) rows = client_get(client, "Assignments");

    return row_find(rows, "Id", id);
}

char *
client_state(Client *client, const char *id)
{
    g_autoptr(GVariant) row = client_row(client, id);

    return g_strdup(row ? row_string(row, "State") : "");
}

GVariant *
row_find(GVariant *rows, const char *key, const char *value)
{
    for (gsize i = 0; i < g_variant_n_children(rows); i++) {
        g_autoptr(GVariant) row = g_variant_get_child_value(rows, i);

        if (strcmp(row_string(row, key), value) == 0)
            return g_steal_pointer(&row);
    }
    return NULL;
}

const char *
row_string(GVariant *row, const char *key)
{
    const char *value = "";

    g_variant_lookup(row, key, "&s", &value);
    return value;
}

gint64
row_number(GVariant *row, const char *key)
{
    guint64 wide;
    guint32 natural;
    gint32 whole;

    if (g_variant_lookup(row, key, "t", &wide))
        return (gint64)wide;
    if (g_variant_lookup(row, key, "u", &natural))
        return natural;
    if (g_variant_lookup(row, key, "i", &whole))
        return whole;
    return -1;
}

/* ---- Errors ---- */

char *
error_name(const GError *error)
{
    g_autofree char *name = error ? g_dbus_error_get_remote_error(error) : NULL;

    if (!name)
        return g_strdup(error ? error->message : "");
    if (g_str_has_prefix(name, HARNESS_NAME ".Error."))
        return g_strdup(name + strlen(HARNESS_NAME ".Error."));
    return g_steal_pointer(&name);
}

const char *
error_text(const GError *error)
{
    const char *colon =
        g_str_has_prefix(error->message, "GDBus.Error:") ? strstr(error->message, ": ") : NULL;

    return colon ? colon + 2 : error->message;
}
