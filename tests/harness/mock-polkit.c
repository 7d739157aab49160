/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "harness-private.h"

#include <string.h>

#define POLKIT_NAME "org.freedesktop.PolicyKit1"
#define POLKIT_PATH "/org/freedesktop/PolicyKit1/Authority"

typedef struct {
    PolkitQuestion question;
    PolkitState state;
    GDBusMethodInvocation *invocation; /* NULL once it is not open */
} Entry;

struct MockPolkit {
    Bus *bus;
    GDBusConnection *connection; /* NULL while it is gone */
    guint object;
    GMainContext *context;
    GThread *thread;
    int stop; /* atomic */

    GMutex lock; /* of all below */
    PolkitAnswer answer;
    GHashTable *by_action; /* action -> PolkitAnswer */
    gboolean ignore_cancel;
    GPtrArray *entries;
};

static const char introspection[] =
    "<node><interface name='org.freedesktop.PolicyKit1.Authority'>"
    "<method name='CheckAuthorization'>"
    "<arg type='(sa{sv})' name='subject' direction='in'/>"
    "<arg type='s' name='action_id' direction='in'/>"
    "<arg type='a{ss}' name='details' direction='in'/>"
    "<arg type='u' name='flags' direction='in'/>"
    "<arg type='s' name='cancellation_id' direction='in'/>"
    "<arg type='(bba{ss})' name='result' direction='out'/>"
    "</method>"
    "<method name='CancelCheckAuthorization'><arg type='s' name='cancellation_id' direction='in'/></method>"
    "<property name='BackendName' type='s' access='read'/>"
    "<property name='BackendVersion' type='s' access='read'/>"
    "<property name='BackendFeatures' type='u' access='read'/>"
    "<signal name='Changed'/>"
    "</interface></node>";

static void
entry_free(gpointer data)
{
    Entry *entry = data;

    g_clear_object(&entry->invocation);
    g_free(entry->question.sender);
    g_free(entry->question.subject_kind);
    g_free(entry->question.subject_name);
    g_free(entry->question.action);
    g_free(entry->question.cancellation_id);
    g_variant_unref(entry->question.details);
    g_free(entry);
}

static void
reply(Entry *entry, PolkitAnswer answer, PolkitState state)
{
    GDBusMethodInvocation *invocation = g_steal_pointer(&entry->invocation); /* the reply takes it */
    GVariantBuilder details = G_VARIANT_BUILDER_INIT(G_VARIANT_TYPE("a{ss}"));

    entry->state = state;
    if (state == POLKIT_CANCELLED) {
        g_dbus_method_invocation_return_dbus_error(invocation, POLKIT_NAME ".Error.Cancelled",
                                                   "The question was cancelled");
    } else if (answer == POLKIT_ERROR) {
        g_dbus_method_invocation_return_dbus_error(invocation, POLKIT_NAME ".Error.Failed",
                                                   "The mock was told to fail");
    } else {
        if (answer == POLKIT_DISMISS)
            g_variant_builder_add(&details, "{ss}", "polkit.dismissed", "true");
        g_dbus_method_invocation_return_value(
            invocation,
            g_variant_new("((bba{ss}))", answer == POLKIT_ALLOW, answer == POLKIT_CHALLENGE, &details));
        return;
    }
    g_variant_builder_clear(&details);
}

static Entry *
entry_new(const char *sender, GVariant *arguments, GDBusMethodInvocation *invocation)
{
    Entry *entry = g_new0(Entry, 1);
    PolkitQuestion *question = &entry->question;
    g_autoptr(GVariant) subject = NULL;

    g_variant_get(arguments, "((s@a{sv})s@a{ss}us)", &question->subject_kind, &subject, &question->action,
                  &question->details, &question->flags, &question->cancellation_id);
    question->sender = g_strdup(sender);
    if (!g_variant_lookup(subject, "name", "s", &question->subject_name))
        question->subject_name = g_strdup("");
    entry->invocation = invocation;
    return entry;
}

static PolkitAnswer
answer_for(MockPolkit *polkit, const char *action)
{
    gpointer value;

    if (g_hash_table_lookup_extended(polkit->by_action, action, NULL, &value))
        return GPOINTER_TO_INT(value);
    return polkit->answer;
}

static void
check(MockPolkit *polkit, const char *sender, GVariant *arguments, GDBusMethodInvocation *invocation)
{
    Entry *entry = entry_new(sender, arguments, invocation);
    PolkitAnswer answer = answer_for(polkit, entry->question.action);

    g_ptr_array_add(polkit->entries, entry);
    if (answer != POLKIT_HANG)
        reply(entry, answer, POLKIT_ANSWERED);
}

static void
cancel(MockPolkit *polkit, const char *sender, GVariant *arguments, GDBusMethodInvocation *invocation)
{
    const char *id;

    g_variant_get(arguments, "(&s)", &id);
    for (guint i = 0; i < polkit->entries->len; i++) {
        Entry *entry = g_ptr_array_index(polkit->entries, i);

        if (entry->state != POLKIT_OPEN || strcmp(entry->question.cancellation_id, id) != 0 ||
            strcmp(entry->question.sender, sender) != 0)
            continue;
        if (polkit->ignore_cancel)
            entry->state = POLKIT_CANCELLED;
        else
            reply(entry, POLKIT_DENY, POLKIT_CANCELLED);
        g_dbus_method_invocation_return_value(invocation, NULL);
        return;
    }
    g_dbus_method_invocation_return_dbus_error(invocation, POLKIT_NAME ".Error.Failed",
                                               "There is no such question");
}

static void
on_call(GDBusConnection *connection, const char *sender, const char *path, const char *interface,
        const char *method, GVariant *arguments, GDBusMethodInvocation *invocation, gpointer data)
{
    MockPolkit *polkit = data;

    g_mutex_lock(&polkit->lock);
    if (strcmp(method, "CheckAuthorization") == 0)
        check(polkit, sender, arguments, invocation);
    else
        cancel(polkit, sender, arguments, invocation);
    g_mutex_unlock(&polkit->lock);
    g_main_context_wakeup(NULL);
}

static GVariant *
on_get(GDBusConnection *connection, const char *sender, const char *path, const char *interface,
       const char *property, GError **error, gpointer data)
{
    if (strcmp(property, "BackendFeatures") == 0)
        return g_variant_new_uint32(0);
    return g_variant_new_string("mock");
}

static gpointer
run(gpointer data)
{
    MockPolkit *polkit = data;

    while (!g_atomic_int_get(&polkit->stop))
        g_main_context_iteration(polkit->context, TRUE);
    return NULL;
}

static guint
register_authority(MockPolkit *polkit)
{
    static const GDBusInterfaceVTable vtable = {.method_call = on_call, .get_property = on_get};
    g_autoptr(GError) error = NULL;
    g_autoptr(GDBusNodeInfo) node = g_dbus_node_info_new_for_xml(introspection, &error);
    guint object;

    g_assert_no_error(error);
    /* Calls are handled in the context of whoever registers. */
    g_main_context_push_thread_default(polkit->context);
    object = g_dbus_connection_register_object(polkit->connection, POLKIT_PATH, node->interfaces[0], &vtable,
                                               polkit, NULL, &error);
    g_main_context_pop_thread_default(polkit->context);
    g_assert_no_error(error);
    return object;
}

void
mock_polkit_return(MockPolkit *polkit)
{
    g_autoptr(GVariant) owned = NULL;
    guint result = 0;

    g_assert_null(polkit->connection);
    polkit->connection = connect_as(bus_address(polkit->bus), -1, 0);
    polkit->object = register_authority(polkit);
    polkit->stop = FALSE;
    polkit->thread = g_thread_new("mock-polkit", run, polkit);
    owned = bus_ask(polkit->connection, "org.freedesktop.DBus", "RequestName",
                    g_variant_new("(su)", POLKIT_NAME, 4), "(u)");
    g_assert_nonnull(owned);
    g_variant_get(owned, "(u)", &result);
    g_assert_cmpuint(result, ==, 1);
}

void
mock_polkit_vanish(MockPolkit *polkit)
{
    g_assert_nonnull(polkit->connection);
    g_atomic_int_set(&polkit->stop, TRUE);
    g_main_context_wakeup(polkit->context);
    g_thread_join(polkit->thread);
    g_dbus_connection_unregister_object(polkit->connection, polkit->object);
    g_dbus_connection_close_sync(polkit->connection, NULL, NULL);
    g_clear_object(&polkit->connection);
    for (guint i = 0; i < polkit->entries->len; i++) {
        Entry *entry = g_ptr_array_index(polkit->entries, i);

        if (!entry->invocation)
            continue;
        g_clear_object(&entry->invocation);
        entry->state = POLKIT_LOST;
    }
}

MockPolkit *
mock_polkit_new(Bus *bus)
{
    MockPolkit *polkit = g_new0(MockPolkit, 1);

    polkit->bus = bus;
    polkit->answer = POLKIT_ALLOW;
    polkit->by_action = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    polkit->entries = g_ptr_array_new_with_free_func(entry_free);
    polkit->context = g_main_context_new();
    g_mutex_init(&polkit->lock);
    mock_polkit_return(polkit);
    return polkit;
}

void
mock_polkit_free(MockPolkit *polkit)
{
    if (polkit->connection)
        mock_polkit_vanish(polkit);
    g_main_context_unref(polkit->context);
    g_hash_table_unref(polkit->by_action);
    g_ptr_array_unref(polkit->entries);
    g_mutex_clear(&polkit->lock);
    g_free(polkit);
}

void
mock_polkit_set(MockPolkit *polkit, PolkitAnswer answer)
{
    g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&polkit->lock);

    polkit->answer = answer;
}

void
mock_polkit_set_action(MockPolkit *polkit, const char *action, PolkitAnswer answer)
{
    g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&polkit->lock);

    g_hash_table_replace(polkit->by_action, g_strdup(action), GINT_TO_POINTER(answer));
}

void
mock_polkit_ignore_cancel(MockPolkit *polkit, gboolean ignore)
{
    g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&polkit->lock);

    polkit->ignore_cancel = ignore;
}

static guint
count_state(MockPolkit *polkit, PolkitState state)
{
    g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&polkit->lock);
    guint count = 0;

    for (guint i = 0; i < polkit->entries->len; i++)
        count += ((Entry *)g_ptr_array_index(polkit->entries, i))->state == state;
    return count;
}

guint
mock_polkit_asked(MockPolkit *polkit)
{
    g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&polkit->lock);

    return polkit->entries->len;
}

guint
mock_polkit_open(MockPolkit *polkit)
{
    return count_state(polkit, POLKIT_OPEN);
}

guint
mock_polkit_cancelled(MockPolkit *polkit)
{
    return count_state(polkit, POLKIT_CANCELLED);
}

/* With the lock. */
static Entry *
entry_at(MockPolkit *polkit, guint n)
{
    g_assert_cmpuint(n, <, polkit->entries->len);
    return g_ptr_array_index(polkit->entries, n);
}

const PolkitQuestion *
mock_polkit_question(MockPolkit *polkit, guint n)
{
    g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&polkit->lock);

    return &entry_at(polkit, n)->question;
}

PolkitState
mock_polkit_state(MockPolkit *polkit, guint n)
{
    g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&polkit->lock);

    return entry_at(polkit, n)->state;
}

static int
compare_text(gconstpointer a, gconstpointer b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

char *
mock_polkit_last_details(MockPolkit *polkit)
{
    const PolkitQuestion *question = mock_polkit_question(polkit, mock_polkit_asked(polkit) - 1);
    g_autoptr(GPtrArray) pairs = g_ptr_array_new_with_free_func(g_free);
    GVariantIter iter;
    const char *key, *value;

    g_variant_iter_init(&iter, question->details);
    while (g_variant_iter_next(&iter, "{&s&s}", &key, &value))
        g_ptr_array_add(pairs, g_strdup_printf("%s=%s", key, value));
    g_ptr_array_sort(pairs, compare_text);
    g_ptr_array_add(pairs, NULL);
    return g_strjoinv(" ", (char **)pairs->pdata);
}

void
mock_polkit_answer(MockPolkit *polkit, guint n, PolkitAnswer answer)
{
    g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&polkit->lock);
    Entry *entry = entry_at(polkit, n);

    g_assert_cmpint(answer, !=, POLKIT_HANG);
    g_assert_nonnull(entry->invocation);
    reply(entry, answer, POLKIT_ANSWERED);
}

void
mock_polkit_answer_all(MockPolkit *polkit, PolkitAnswer answer)
{
    for (guint i = 0; i < mock_polkit_asked(polkit); i++) {
        if (mock_polkit_state(polkit, i) == POLKIT_OPEN)
            mock_polkit_answer(polkit, i, answer);
    }
}
