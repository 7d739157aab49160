/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "mock.h"

#include <string.h>

#include "private-bus.h"
#include "record.h"

#define NAME "org.hypeman.VGPU1"
#define OBJECT "/org/hypeman/VGPU1"

typedef struct {
    unsigned calls;
    GVariant *arguments;
    bool interactive;
    unsigned good; /* calls before it fails */
    char *error, *message;
    bool delayed;
} Member;

struct Mock {
    PrivateBus *bus;
    GDBusNodeInfo *node;
    GDBusConnection *connection;
    unsigned object_id, vanish_id;
    GHashTable *properties; /* name -> GVariant */
    GHashTable *members;    /* name -> Member */
    GPtrArray *assignments; /* GVariantDict, as handed out */
    GPtrArray *waiting;     /* GDBusMethodInvocation of delayed calls */
    GVariant *plan;
    unsigned next;
    bool open, slow;
};

static void
member_free(void *data)
{
    Member *member = data;
    g_clear_pointer(&member->arguments, g_variant_unref);
    g_free(member->error);
    g_free(member->message);
    g_free(member);
}

static Member *
member_of(const Mock *mock, const char *name)
{
    Member *member = g_hash_table_lookup(mock->members, name);
    if (!member) {
        member = g_new0(Member, 1);
        g_hash_table_insert(mock->members, g_strdup(name), member);
    }
    return member;
}

static void
signal_change(Mock *mock, const char *property)
{
    bool with_value = !strcmp(property, "Framework");
    GVariantBuilder changed, invalidated;

    g_variant_builder_init(&changed, G_VARIANT_TYPE_VARDICT);
    g_variant_builder_init(&invalidated, G_VARIANT_TYPE_STRING_ARRAY);
    if (with_value)
        g_variant_builder_add(&changed, "{sv}", property, g_hash_table_lookup(mock->properties, property));
    else
        g_variant_builder_add(&invalidated, "s", property);
    g_dbus_connection_emit_signal(mock->connection, NULL, OBJECT, "org.freedesktop.DBus.Properties",
                                  "PropertiesChanged",
                                  g_variant_new("(sa{sv}as)", NAME, &changed, &invalidated), NULL);
}

void
mock_end(Mock *mock, const char *id, const char *reason)
{
    g_autofree char *kept = g_strdup(id);
    mock_forget(mock, id);
    g_dbus_connection_emit_signal(mock->connection, NULL, OBJECT, NAME, "AssignmentRemoved",
                                  g_variant_new("(ss)", kept, reason), NULL);
    signal_change(mock, "Assignments");
}

void
mock_forget(Mock *mock, const char *id)
{
    GVariantDict *dict = record_find(mock->assignments, id);
    g_assert_nonnull(dict);
    g_ptr_array_remove(mock->assignments, dict);
}

static void
take_back(Mock *mock, GVariantDict *dict)
{
    g_autofree char *id = g_strdup(record_text(dict, "Id"));

    if (mock->open || mock->slow) {
        g_variant_dict_insert(dict, "State", "s", mock->open ? "lingering" : "releasing");
        signal_change(mock, "Assignments");
    } else {
        mock_end(mock, id, "owner-vanished");
    }
}

static void
on_vanished(GDBusConnection *connection, const char *sender, const char *path, const char *interface,
            const char *signal_name, GVariant *parameters, void *data)
{
    Mock *mock = data;
    const char *name, *before, *after;

    g_variant_get(parameters, "(&s&s&s)", &name, &before, &after);
    if (*after)
        return;
    for (unsigned i = mock->assignments->len; i-- > 0;)
        if (!g_strcmp0(record_text(mock->assignments->pdata[i], "Owner"), name))
            take_back(mock, mock->assignments->pdata[i]);
}

void
mock_clear(Mock *mock)
{
    for (unsigned i = mock->assignments->len; i-- > 0;) {
        g_autofree char *id = g_strdup(record_text(mock->assignments->pdata[i], "Id"));
        if (!g_strcmp0(record_text(mock->assignments->pdata[i], "State"), "releasing"))
            mock_end(mock, id, "owner-vanished");
    }
}

bool
mock_is_clearing(const Mock *mock)
{
    for (unsigned i = 0; i < mock->assignments->len; i++)
        if (!g_strcmp0(record_text(mock->assignments->pdata[i], "State"), "releasing"))
            return true;
    return false;
}

static guint32
uid_of(Mock *mock, const char *sender)
{
    g_autoptr(GVariant) reply = g_dbus_connection_call_sync(
        mock->connection, "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus",
        "GetConnectionUnixUser", g_variant_new("(s)", sender), NULL, 0, -1, NULL, NULL);
    guint32 uid = 0;

    /* A caller that has gone meanwhile has none. */
    if (reply)
        g_variant_get(reply, "(u)", &uid);
    return uid;
}

static void
answer_assign(Mock *mock, GDBusMethodInvocation *invocation)
{
    const char *sender = g_dbus_method_invocation_get_sender(invocation);
    GVariantDict *dict = g_variant_dict_new(NULL);
    unsigned number = ++mock->next;
    g_autofree char *id = g_strdup_printf("id-%u", number);
    const char *profile;

    g_variant_get_child(g_dbus_method_invocation_get_parameters(invocation), 0, "&s", &profile);
    g_variant_dict_insert(dict, "Id", "s", id);
    g_variant_dict_insert(dict, "State", "s", "assigned");
    record_describe(dict, profile, number);
    g_variant_dict_insert(dict, "Owner", "s", sender);
    g_variant_dict_insert(dict, "UID", "u", uid_of(mock, sender));
    g_ptr_array_add(mock->assignments, dict);
    g_dbus_method_invocation_return_value(invocation, g_variant_new("(s@a{sv})", id, record_content(dict)));
    signal_change(mock, "Assignments");
}

static void
answer_of_id(Mock *mock, GDBusMethodInvocation *invocation, bool adopt)
{
    const char *id;
    g_variant_get(g_dbus_method_invocation_get_parameters(invocation), "(&s)", &id);
    GVariantDict *dict = record_find(mock->assignments, id);

    if (!dict) {
        g_dbus_method_invocation_return_dbus_error(invocation, NAME ".Error.UnknownAssignment",
                                                   "there is no assignment of that id");
    } else if (adopt) {
        g_variant_dict_insert(dict, "Owner", "s", g_dbus_method_invocation_get_sender(invocation));
        g_dbus_method_invocation_return_value(invocation, g_variant_new("(@a{sv})", record_content(dict)));
        signal_change(mock, "Assignments");
    } else {
        g_dbus_method_invocation_return_value(invocation, NULL);
        mock_end(mock, id, "released");
    }
}

static void
handle_call(Mock *mock, GDBusMethodInvocation *invocation)
{
    const char *name = g_dbus_method_invocation_get_method_name(invocation);
    Member *member = member_of(mock, name);

    if (member->error && member->good-- == 0) {
        member->good = 0;
        g_dbus_method_invocation_return_dbus_error(invocation, member->error, member->message);
    } else if (!strcmp(name, "Assign")) {
        answer_assign(mock, invocation);
    } else if (!strcmp(name, "Plan")) {
        g_dbus_method_invocation_return_value(invocation, g_variant_new("(@a{sv})", mock->plan));
    } else if (!strcmp(name, "Reclaim")) {
        g_dbus_method_invocation_return_value(invocation, NULL);
    } else {
        answer_of_id(mock, invocation, !strcmp(name, "Adopt"));
    }
}

static void
on_call(GDBusConnection *connection, const char *sender, const char *path, const char *interface,
        const char *name, GVariant *parameters, GDBusMethodInvocation *invocation, void *data)
{
    Mock *mock = data;
    Member *member = member_of(mock, name);
    GDBusMessage *message = g_dbus_method_invocation_get_message(invocation);

    member->calls++;
    g_clear_pointer(&member->arguments, g_variant_unref);
    member->arguments = g_variant_ref(parameters);
    member->interactive =
        g_dbus_message_get_flags(message) & G_DBUS_MESSAGE_FLAGS_ALLOW_INTERACTIVE_AUTHORIZATION;
    if (member->delayed)
        g_ptr_array_add(mock->waiting, invocation);
    else
        handle_call(mock, invocation);
}

static GVariant *
on_get(GDBusConnection *connection, const char *sender, const char *path, const char *interface,
       const char *name, GError **error, void *data)
{
    Mock *mock = data;
    if (!strcmp(name, "Assignments"))
        return record_all(mock->assignments);
    return g_variant_ref(g_hash_table_lookup(mock->properties, name));
}

static const GDBusInterfaceVTable vtable = {on_call, on_get};

/* Without GLib's own follower of names, which warns when the bus has died. */
static void
own_name(Mock *mock)
{
    g_autoptr(GError) error = NULL;
    const unsigned do_not_queue = 4;
    g_autoptr(GVariant) reply = g_dbus_connection_call_sync(
        mock->connection, "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus",
        "RequestName", g_variant_new("(su)", NAME, do_not_queue), G_VARIANT_TYPE("(u)"), 0, -1, NULL, &error);
    unsigned answer = 0;

    g_assert_no_error(error);
    g_variant_get(reply, "(u)", &answer);
    g_assert_cmpuint(answer, ==, 1);
}

void
mock_start(Mock *mock)
{
    g_autoptr(GError) error = NULL;

    mock->connection = g_dbus_connection_new_for_address_sync(
        private_bus_address(mock->bus),
        G_DBUS_CONNECTION_FLAGS_AUTHENTICATION_CLIENT | G_DBUS_CONNECTION_FLAGS_MESSAGE_BUS_CONNECTION, NULL,
        NULL, &error);
    g_assert_no_error(error);
    g_dbus_connection_set_exit_on_close(mock->connection, FALSE);
    mock->object_id = g_dbus_connection_register_object(mock->connection, OBJECT, mock->node->interfaces[0],
                                                        &vtable, mock, NULL, &error);
    g_assert_no_error(error);
    mock->vanish_id = g_dbus_connection_signal_subscribe(
        mock->connection, "org.freedesktop.DBus", "org.freedesktop.DBus", "NameOwnerChanged",
        "/org/freedesktop/DBus", NULL, G_DBUS_SIGNAL_FLAGS_NONE, on_vanished, mock, NULL);
    own_name(mock);
}

void
mock_stop(Mock *mock)
{
    g_dbus_connection_signal_unsubscribe(mock->connection, mock->vanish_id);
    g_dbus_connection_unregister_object(mock->connection, mock->object_id);
    g_dbus_connection_close_sync(mock->connection, NULL, NULL);
    g_clear_object(&mock->connection);
}

Mock *
mock_new(void)
{
    Mock *mock = g_new0(Mock, 1);
    g_autofree char *xml = NULL;
    g_autoptr(GError) error = NULL;

    g_file_get_contents(g_getenv("VGPU_TEST_XML"), &xml, NULL, &error);
    g_assert_no_error(error);
    mock->node = g_dbus_node_info_new_for_xml(xml, &error);
    g_assert_no_error(error);
    mock->bus = private_bus_new();
    mock->properties =
        g_hash_table_new_full(g_str_hash, g_str_equal, g_free, (GDestroyNotify)g_variant_unref);
    mock->members = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, member_free);
    mock->assignments = g_ptr_array_new_with_free_func((GDestroyNotify)g_variant_dict_unref);
    mock->waiting = g_ptr_array_new();
    mock_start(mock);
    mock_set(mock, "Version", "'9.8.7'");
    mock_set(mock, "Framework", "'vendor-vfio'");
    mock_set(mock, "GPUs", "@aa{sv} []");
    mock_set(mock, "Profiles", "@aa{sv} []");
    mock_set_plan(mock, "@a{sv} {}");
    return mock;
}

void
mock_free(Mock *mock)
{
    mock_answer(mock);
    if (mock->connection)
        mock_stop(mock);
    private_bus_free(mock->bus);
    g_dbus_node_info_unref(mock->node);
    g_hash_table_unref(mock->properties);
    g_hash_table_unref(mock->members);
    g_ptr_array_unref(mock->assignments);
    g_ptr_array_unref(mock->waiting);
    g_variant_unref(mock->plan);
    g_free(mock);
}

const char *
mock_directory(const Mock *mock)
{
    return private_bus_directory(mock->bus);
}

const char *
mock_bus_address(const Mock *mock)
{
    return private_bus_address(mock->bus);
}

void
mock_kill_bus(Mock *mock)
{
    private_bus_kill(mock->bus);
}

void
mock_set(Mock *mock, const char *property, const char *value)
{
    g_hash_table_replace(mock->properties, g_strdup(property), record_parse(value));
    signal_change(mock, property);
}

void
mock_set_plan(Mock *mock, const char *plan)
{
    g_clear_pointer(&mock->plan, g_variant_unref);
    mock->plan = record_parse(plan);
}

void
mock_fail(Mock *mock, const char *member, unsigned good, const char *name, const char *message)
{
    Member *failing = member_of(mock, member);
    g_free(failing->error);
    g_free(failing->message);
    failing->good = good;
    failing->error = g_strdup(name);
    failing->message = g_strdup(message);
}

void
mock_delay(Mock *mock, const char *member)
{
    member_of(mock, member)->delayed = true;
}

void
mock_answer(Mock *mock)
{
    GHashTableIter iter;
    void *member;

    g_hash_table_iter_init(&iter, mock->members);
    while (g_hash_table_iter_next(&iter, NULL, &member))
        ((Member *)member)->delayed = false;
    for (unsigned i = 0; i < mock->waiting->len; i++)
        handle_call(mock, mock->waiting->pdata[i]);
    g_ptr_array_set_size(mock->waiting, 0);
}

unsigned
mock_calls(const Mock *mock, const char *member)
{
    return member_of(mock, member)->calls;
}

GVariant *
mock_last_arguments(const Mock *mock, const char *member)
{
    return member_of(mock, member)->arguments;
}

bool
mock_last_interactive(const Mock *mock, const char *member)
{
    return member_of(mock, member)->interactive;
}

unsigned
mock_assignments(const Mock *mock)
{
    return mock->assignments->len;
}

bool
mock_has(const Mock *mock, const char *id)
{
    return record_find(mock->assignments, id);
}

const char *
mock_owner(const Mock *mock, const char *id)
{
    return record_text(record_find(mock->assignments, id), "Owner");
}

void
mock_add(Mock *mock, const char *id, const char *assignment)
{
    GVariantDict *dict = g_variant_dict_new(NULL);
    g_variant_dict_insert(dict, "Id", "s", id);
    record_insert(dict, assignment);
    g_ptr_array_add(mock->assignments, dict);
    signal_change(mock, "Assignments");
}

void
mock_change(Mock *mock, const char *id, const char *keys)
{
    record_insert(record_find(mock->assignments, id), keys);
    signal_change(mock, "Assignments");
}

void
mock_set_open(Mock *mock, bool open)
{
    mock->open = open;
}

void
mock_set_slow(Mock *mock, bool slow)
{
    mock->slow = slow;
}

void
mock_sync(Mock *mock)
{
    g_autoptr(GVariant) reply =
        g_dbus_connection_call_sync(mock->connection, "org.freedesktop.DBus", "/org/freedesktop/DBus",
                                    "org.freedesktop.DBus", "GetId", NULL, NULL, 0, -1, NULL, NULL);
    g_assert_nonnull(reply);
    while (g_main_context_iteration(NULL, FALSE))
        ;
}

void
mock_forge_removed(Mock *mock, const char *destination, const char *id)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(GDBusConnection) other = g_dbus_connection_new_for_address_sync(
        private_bus_address(mock->bus),
        G_DBUS_CONNECTION_FLAGS_AUTHENTICATION_CLIENT | G_DBUS_CONNECTION_FLAGS_MESSAGE_BUS_CONNECTION, NULL,
        NULL, &error);

    g_assert_no_error(error);
    g_dbus_connection_emit_signal(other, destination, OBJECT, NAME, "AssignmentRemoved",
                                  g_variant_new("(ss)", id, "lost"), &error);
    g_assert_no_error(error);
    g_dbus_connection_flush_sync(other, NULL, &error);
    g_assert_no_error(error);
    g_dbus_connection_close_sync(other, NULL, &error);
    g_assert_no_error(error);
}
