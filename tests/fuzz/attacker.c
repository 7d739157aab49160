/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "attacker.h"

#include "host-private.h"

#include <fcntl.h>
#include <gio/gunixfdlist.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#define NAME "org.hypeman.VGPU1"
#define PATH "/org/hypeman/VGPU1"
#define LONG 200000
#define DEPTH_MAX 4
#define DESCRIPTORS_MAX 16 /* the bus's own limit for a message */

struct Attacker {
    GDBusConnection *connection;
    const char *const *truths;
    char *service; /* its unique name: signals and answers go there */
    guint waiting; /* for an answer */
    guint answered;
    guint granted;
    GCancellable *gone;
    int references; /* one of the owner, one of each call */
};

static const char *const interfaces[] = {
    NAME,
    NAME,
    NAME,
    "org.freedesktop.DBus.Properties",
    "org.freedesktop.DBus.Properties",
    "org.freedesktop.DBus.Introspectable",
    "org.freedesktop.DBus.Peer",
    "org.freedesktop.DBus.ObjectManager",
};
static const char *const members[] = {
    "Assign",       "Release", "Adopt",        "Plan", "Reclaim",           "Get",
    "GetAll",       "Set",     "Introspect",   "Ping", "GetMachineId",      "GetManagedObjects",
    "Assignments",  "assign",  "NoSuchMethod", "_",    "AssignmentRemoved", "PropertiesChanged",
    "x123456789_Y",
};
static const char *const paths[] = {
    PATH, PATH, PATH, PATH, PATH, PATH, "/", "/org", "/org/hypeman", PATH "/x", "/_/0", PATH "/Assignments",
};
static const char *const keys[] = {
    "gpu", "device", "placement", "numa-node", "uuid", "label", "GPU", "", "color", "gpu ", "label\n",
};
static const char *const strings[] = {
    "",
    " ",
    "0",
    "-1",
    "spread",
    "pack",
    "%s%n%s%n",
    "../../../etc/passwd",
    "/dev/vfio/40",
    "0000:3b:00.4/../0000:3b:00.5",
    "00000000000000000000000000000000",
    "ffffffffffffffffffffffffffffffff",
    "c1b7b4a4-4c1b-4f5d-9d2e-6a5f0c3e7a11",
    "C1B7B4A4-4C1B-4F5D-9D2E-6A5F0C3E7A11",
    "18446744073709551616",
    "\x1b[31mred\x1b[0m",
    "a\nb\rc\x7f",
    "\xc2\x85\xe2\x80\xae\xef\xbf\xbf",
    "nvidia-",
    "NVIDIA ",
    NAME,
    "org.freedesktop.DBus.Properties",
    "Version",
    "Profiles",
    "GPUs",
    "Assignments",
    "Framework",
};

#define ANY(array) ((array)[g_test_rand_int_range(0, G_N_ELEMENTS(array))])

static gboolean
one_in(int n)
{
    return g_test_rand_int_range(0, n) == 0;
}

/* ---- Values ---- */

static GVariant *
any_string(const Attacker *attacker)
{
    if (one_in(3))
        return g_variant_new_string(
            attacker->truths[g_test_rand_int_range(0, (gint32)g_strv_length((char **)attacker->truths))]);
    if (one_in(40)) {
        g_autofree char *letters = g_strnfill((gsize)g_test_rand_int_range(60, LONG), 'A');
        return g_variant_new_string(letters);
    }
    return g_variant_new_string(ANY(strings));
}

static GVariant *any_value(const Attacker *attacker, guint depth);

static GVariant *
any_dictionary(const Attacker *attacker, guint depth)
{
    GVariantBuilder builder = G_VARIANT_BUILDER_INIT(G_VARIANT_TYPE("a{sv}"));

    for (int n = one_in(50) ? 500 : g_test_rand_int_range(0, 4); n > 0; n--)
        g_variant_builder_add(&builder, "{sv}", ANY(keys),
                              one_in(3) ? any_value(attacker, depth + 1) : any_string(attacker));
    return g_variant_builder_end(&builder);
}

static GVariant *
any_array(const Attacker *attacker)
{
    GVariantBuilder builder = G_VARIANT_BUILDER_INIT(G_VARIANT_TYPE("as"));

    for (int n = g_test_rand_int_range(0, 5); n > 0; n--)
        g_variant_builder_add_value(&builder, any_string(attacker));
    return g_variant_builder_end(&builder);
}

static GVariant *
any_value(const Attacker *attacker, guint depth)
{
    guint bits = g_test_rand_bit() ? (guint)g_test_rand_int() : one_in(2) ? 0 : G_MAXUINT;

    switch (g_test_rand_int_range(0, depth < DEPTH_MAX ? 16 : 11)) {
    case 0:
        return g_variant_new_int32((gint32)bits);
    case 1:
        return g_variant_new_uint32(bits);
    case 2:
        return g_variant_new_uint64((guint64)bits << 32 | bits);
    case 3:
        return g_variant_new_int16((gint16)bits);
    case 4:
        return g_variant_new_byte((guchar)bits);
    case 5:
        return g_variant_new_boolean(bits & 1);
    case 6:
        return g_variant_new_double(bits & 1 ? -(double)NAN : G_MAXDOUBLE);
    case 7:
        return g_variant_new_object_path(ANY(paths));
    case 8:
        return g_variant_new_signature("a{sv}");
    case 9:
        return g_variant_new_handle((gint32)(bits & 3)); /* of descriptors that may be there or not */
    case 10:
        return any_array(attacker);
    case 11:
        return g_variant_new_variant(any_value(attacker, depth + 1));
    case 12:
        return any_dictionary(attacker, depth);
    case 13: {
        GVariant *both[] = {any_value(attacker, depth + 1), any_value(attacker, depth + 1)};
        return g_variant_new_tuple(both, G_N_ELEMENTS(both));
    }
    default:
        return any_string(attacker);
    }
}

/* Arguments as @member wants them, with values that it may not want. */
static GVariant *
fitting_arguments(const Attacker *attacker, const char *member)
{
    if (strcmp(member, "Assign") == 0 || strcmp(member, "Plan") == 0)
        return g_variant_new("(@s@a{sv})", any_string(attacker), any_dictionary(attacker, 0));
    if (strcmp(member, "Get") == 0)
        return g_variant_new("(s@s)", one_in(4) ? "a.b" : NAME, any_string(attacker));
    if (strcmp(member, "Set") == 0)
        return g_variant_new("(s@sv)", NAME, any_string(attacker), any_value(attacker, 0));
    if (strcmp(member, "Introspect") == 0 || strcmp(member, "Ping") == 0)
        return NULL;
    return g_variant_new("(@s)", any_string(attacker));
}

static GVariant *
any_arguments(const Attacker *attacker)
{
    GVariant *values[6];
    gsize n = 0;

    while (n < G_N_ELEMENTS(values) && !one_in(3))
        values[n++] = any_value(attacker, 0);
    return n > 0 ? g_variant_new_tuple(values, n) : NULL;
}

static void
add_descriptors(GDBusMessage *message, int n)
{
    g_autoptr(GUnixFDList) fds = g_unix_fd_list_new();
    int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

    g_assert_cmpint(fd, >=, 0);
    for (; n > 0; n--)
        g_unix_fd_list_append(fds, fd, NULL);
    close(fd);
    g_dbus_message_set_unix_fd_list(message, fds);
}

static const char *
interface_of(const char *member)
{
    static const char *const properties[] = {"Get", "GetAll", "Set", NULL};

    if (g_strv_contains(properties, member))
        return "org.freedesktop.DBus.Properties";
    if (strcmp(member, "Introspect") == 0)
        return "org.freedesktop.DBus.Introspectable";
    return strcmp(member, "Ping") == 0 ? "org.freedesktop.DBus.Peer" : NAME;
}

static GDBusMessage *
any_call(const Attacker *attacker)
{
    const char *member = ANY(members);
    const char *interface = one_in(3) ? ANY(interfaces) : interface_of(member);
    GDBusMessage *message = g_dbus_message_new_method_call(NAME, ANY(paths), interface, member);
    GVariant *arguments = one_in(3) ? any_arguments(attacker) : fitting_arguments(attacker, member);
    GDBusMessageFlags flags = G_DBUS_MESSAGE_FLAGS_NO_AUTO_START;

    if (arguments)
        g_dbus_message_set_body(message, arguments);
    if (one_in(16))
        add_descriptors(message, g_test_rand_int_range(1, 8));
    if (one_in(4))
        flags |= G_DBUS_MESSAGE_FLAGS_ALLOW_INTERACTIVE_AUTHORIZATION;
    if (one_in(5))
        flags |= G_DBUS_MESSAGE_FLAGS_NO_REPLY_EXPECTED;
    g_dbus_message_set_flags(message, flags);
    return message;
}

/* ---- Answers ---- */

typedef struct {
    Attacker *attacker;
    char *member;
} Call;

static void
attacker_unref(Attacker *attacker)
{
    if (--attacker->references > 0)
        return;
    g_object_unref(attacker->connection);
    g_object_unref(attacker->gone);
    g_free(attacker->service);
    g_free(attacker);
}

/* Not "Failed", and no bare errno: each has a name that a program can act on, and a sentence. */
static void
check_error(const char *member, GDBusMessage *reply)
{
    static const char *const standard[] = {
        "AccessDenied",
        "InteractiveAuthorizationRequired",
        "InvalidArgs",
        "LimitsExceeded",
        "UnknownMethod",
        "UnknownObject",
        "UnknownInterface",
        "UnknownProperty",
        "PropertyReadOnly",
        "InconsistentMessage",
        "NotSupported", /* of the bus, for descriptors */
        NULL,
    };
    const char *name = g_dbus_message_get_error_name(reply);
    GVariant *body = g_dbus_message_get_body(reply);
    const char *text = "";

    if (strcmp(name, "org.freedesktop.DBus.Error.NoReply") == 0 ||
        strcmp(name, "org.freedesktop.DBus.Error.ServiceUnknown") == 0 ||
        strcmp(name, "org.freedesktop.DBus.Error.NameHasNoOwner") == 0) {
        g_test_message("%s: the service ended", member); /* whether it may is the test's to know */
        return;
    }
    if (body)
        g_variant_get_child(body, 0, "&s", &text);
    if (g_str_has_prefix(name, NAME ".Error."))
        g_assert_cmpstr(text, !=, "");
    else if (!g_str_has_prefix(name, "org.freedesktop.DBus.Error.") ||
             !g_strv_contains(standard, name + strlen("org.freedesktop.DBus.Error.")))
        g_error("%s was answered with %s: %s", member, name, text);
    /* The library says "Unknown property 'X'" with what the caller said, and to the caller alone. */
    if (strstr(name, ".Unknown") && !g_str_has_prefix(name, NAME ".Error."))
        return;
    for (const char *p = text; *p; p = g_utf8_next_char(p)) {
        if (g_unichar_iscntrl(g_utf8_get_char(p)))
            g_error("%s was answered with a control character: %s", member, text);
    }
    if (strlen(text) > 4096)
        g_error("%s was answered with %zu bytes: %.200s…", member, strlen(text), text);
}

static void
on_answer(GObject *source, GAsyncResult *result, gpointer user_data)
{
    static const char *const harmless[] = {
        "Plan", "Get", "GetAll", "Introspect", "Ping", "GetMachineId", "GetManagedObjects", NULL};
    Call *call = user_data;
    g_autoptr(GError) error = NULL;
    g_autoptr(GDBusMessage) reply =
        g_dbus_connection_send_message_with_reply_finish(G_DBUS_CONNECTION(source), result, &error);

    call->attacker->waiting--;
    if (reply) {
        call->attacker->answered++;
        if (g_dbus_message_get_message_type(reply) == G_DBUS_MESSAGE_TYPE_ERROR)
            check_error(call->member, reply);
        else if (g_strv_contains(harmless, call->member))
            call->attacker->granted++;
        else
            g_error("%s was granted", call->member);
    } else if (!g_cancellable_is_cancelled(call->attacker->gone)) {
        g_error("%s had no answer: %s", call->member, error->message);
    }
    attacker_unref(call->attacker);
    g_free(call->member);
    g_free(call);
}

static void
send_message(Attacker *attacker, GDBusMessage *message)
{
    g_autoptr(GError) error = NULL;
    Call *call;

    if (g_dbus_message_get_flags(message) & G_DBUS_MESSAGE_FLAGS_NO_REPLY_EXPECTED) {
        g_dbus_connection_send_message(attacker->connection, message, G_DBUS_SEND_MESSAGE_FLAGS_NONE, NULL,
                                       &error);
        g_assert_no_error(error);
        return;
    }
    call = g_new0(Call, 1);
    call->attacker = attacker;
    call->member = g_strdup(g_dbus_message_get_member(message));
    attacker->references++;
    attacker->waiting++;
    g_dbus_connection_send_message_with_reply(attacker->connection, message, G_DBUS_SEND_MESSAGE_FLAGS_NONE,
                                              (int)(60000 * bed_slow()), NULL, attacker->gone, on_answer,
                                              call);
}

/* ---- The client ---- */

static char *
find_service(GDBusConnection *connection)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(GVariant) reply = g_dbus_connection_call_sync(
        connection, "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "GetNameOwner",
        g_variant_new("(s)", NAME), G_VARIANT_TYPE("(s)"), G_DBUS_CALL_FLAGS_NONE, -1, NULL, &error);
    char *name;

    g_assert_no_error(error);
    g_variant_get(reply, "(s)", &name);
    return name;
}

Attacker *
attacker_new(Host *host, uid_t uid, const char *const *truths)
{
    Attacker *attacker = g_new0(Attacker, 1);

    attacker->references = 1;
    attacker->truths = truths;
    attacker->gone = g_cancellable_new();
    attacker->connection = bus_connect(host_get_bus(host), uid);
    attacker->service = find_service(attacker->connection);
    return attacker;
}

void
attacker_free(Attacker *attacker)
{
    g_cancellable_cancel(attacker->gone);
    g_dbus_connection_close_sync(attacker->connection, NULL, NULL);
    attacker_unref(attacker);
}

static void
flush(Attacker *attacker)
{
    g_autoptr(GError) error = NULL;

    g_dbus_connection_flush_sync(attacker->connection, NULL, &error);
    g_assert_no_error(error);
}

void
attacker_storm(Attacker *attacker, guint n, guint most)
{
    for (guint i = 0; i < n; i++) {
        g_autoptr(GDBusMessage) message = any_call(attacker);

        while (attacker->waiting >= most)
            host_iterate();
        send_message(attacker, message);
    }
    flush(attacker);
}

void
attacker_flood(Attacker *attacker, guint n)
{
    for (guint i = 0; i < n; i++) {
        g_autoptr(GDBusMessage) message = any_call(attacker);

        g_dbus_message_set_flags(message,
                                 g_dbus_message_get_flags(message) | G_DBUS_MESSAGE_FLAGS_NO_REPLY_EXPECTED);
        send_message(attacker, message);
        if (i % 256 == 255)
            flush(attacker);
    }
    flush(attacker);
}

void
attacker_burst(Attacker *attacker, guint n)
{
    for (guint i = 0; i < n; i++) {
        g_autoptr(GDBusMessage) message = any_call(attacker);

        send_message(attacker, message);
    }
    flush(attacker);
}

void
attacker_stuff(Attacker *attacker, guint n, gsize length)
{
    g_autofree char *id = g_strnfill(length, 'A');

    for (guint i = 0; i < n; i++) {
        g_autoptr(GDBusMessage) message = g_dbus_message_new_method_call(NAME, PATH, NAME, "Release");

        g_dbus_message_set_flags(message, G_DBUS_MESSAGE_FLAGS_NO_REPLY_EXPECTED);
        g_dbus_message_set_body(message, g_variant_new("(s)", id));
        if (length == 0)
            add_descriptors(message, DESCRIPTORS_MAX);
        send_message(attacker, message);
    }
    flush(attacker);
}

void
attacker_ask(Attacker *attacker)
{
    g_autoptr(GDBusMessage) message = g_dbus_message_new_method_call(NAME, PATH, NAME, "Assign");

    g_dbus_message_set_body(message, g_variant_new_parsed("('L40S-2Q', @a{sv} {})"));
    send_message(attacker, message);
    flush(attacker);
}

void
attacker_finish(Attacker *attacker)
{
    wait_for(attacker->waiting == 0);
}

guint
attacker_answered(const Attacker *attacker)
{
    return attacker->answered;
}

guint
attacker_granted(const Attacker *attacker)
{
    return attacker->granted;
}

void
attacker_signal(Attacker *attacker, const char *path, const char *interface, const char *member,
                GVariant *arguments)
{
    g_autoptr(GDBusMessage) message = g_dbus_message_new_signal(path, interface, member);
    g_autoptr(GError) error = NULL;

    g_dbus_message_set_destination(message, attacker->service);
    g_dbus_message_set_body(message, arguments);
    g_dbus_connection_send_message(attacker->connection, message, G_DBUS_SEND_MESSAGE_FLAGS_NONE, NULL,
                                   &error);
    g_assert_no_error(error);
    flush(attacker);
}

void
attacker_reply(Attacker *attacker, guint32 serial, GVariant *arguments)
{
    g_autoptr(GDBusMessage) message = g_dbus_message_new();
    g_autoptr(GError) error = NULL;

    g_dbus_message_set_message_type(message, G_DBUS_MESSAGE_TYPE_METHOD_RETURN);
    g_dbus_message_set_destination(message, attacker->service);
    g_dbus_message_set_reply_serial(message, serial);
    g_dbus_message_set_flags(message, G_DBUS_MESSAGE_FLAGS_NO_REPLY_EXPECTED);
    g_dbus_message_set_body(message, arguments);
    g_dbus_connection_send_message(attacker->connection, message, G_DBUS_SEND_MESSAGE_FLAGS_NONE, NULL,
                                   &error);
    g_assert_no_error(error);
    flush(attacker);
}
