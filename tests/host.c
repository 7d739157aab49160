/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "host.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define NAME "org.hypeman.VGPU1"
#define PATH "/org/hypeman/VGPU1"

struct Host {
    Bed *bed;
    char *directory;
    char *address;
    char *log_path;
    char **environment; /* of the service, without the bed's */
    char *preload;
    pid_t bus;
    pid_t daemon;
    GDBusConnection *watcher; /* our own, as root */
    GDBusConnection *polkit;  /* owns polkit's name */
    guint polkit_object;
    PolkitMode mode;
    GPtrArray *open; /* of GDBusMethodInvocation */
    guint asked;
    guint cancelled;
    char *last_action;
    char *last_details;
    guint last_flags;
};

struct Client {
    int references; /* a signal on its way to it has one too */
    guint subscriptions[2];
    Host *host;
    GDBusConnection *connection;
    GHashTable *removals; /* id -> reasons */
    GHashTable *changes;  /* property -> count */
};

static Host *newest; /* for a wait in vain */

void
host_iterate(void)
{
    gint64 until = g_get_monotonic_time() + 2000;

    while (g_main_context_iteration(NULL, FALSE))
        ;
    if (g_get_monotonic_time() < until)
        g_usleep(1000); /* the pause of a re-check; what is waited for is the condition */
}

static pid_t
spawn(const char *const *argv, char **environment, int *ret_stdout, const char *log_path)
{
    int out[2] = {-1, -1};
    pid_t pid;

    if (ret_stdout)
        g_assert_cmpint(pipe2(out, O_CLOEXEC), ==, 0);
    pid = fork();
    g_assert_cmpint(pid, >=, 0);
    if (pid == 0) {
        int log = open(log_path, O_WRONLY | O_CREAT | O_APPEND, 0644);

        dup2(log, STDERR_FILENO);
        dup2(ret_stdout ? out[1] : log, STDOUT_FILENO);
        execvpe(argv[0], (char **)argv, environment);
        _exit(127);
    }
    if (ret_stdout) {
        close(out[1]);
        *ret_stdout = out[0];
    }
    return pid;
}

static char *
read_line(int fd)
{
    GString *line = g_string_new(NULL);
    char c;

    while (read(fd, &c, 1) == 1 && c != '\n')
        g_string_append_c(line, c);
    close(fd);
    return g_string_free(line, FALSE);
}

static void
start_bus(Host *host)
{
    g_autofree char *listen = g_strdup_printf("--address=unix:path=%s/bus", host->directory);
    g_autofree char *config = g_strdup_printf("--config-file=%s", TEST_BUS_CONFIG);
    const char *const argv[] = {"dbus-daemon", config, listen, "--nofork", "--print-address", NULL};
    int out;

    host->bus = spawn(argv, environ, &out, host->log_path);
    host->address = read_line(out);
    g_assert_cmpstr(host->address, !=, "");
}

static GDBusConnection *
connect_as(Host *host, uid_t uid)
{
    g_autoptr(GError) error = NULL;
    GDBusConnection *connection;

    /* Of this thread only: the bus looks at who connects. */
    if (uid != 0)
        g_assert_cmpint(syscall(SYS_setresuid, -1, uid, -1), ==, 0);
    connection = g_dbus_connection_new_for_address_sync(host->address,
                                                        G_DBUS_CONNECTION_FLAGS_AUTHENTICATION_CLIENT |
                                                            G_DBUS_CONNECTION_FLAGS_MESSAGE_BUS_CONNECTION,
                                                        NULL, NULL, &error);
    if (uid != 0)
        g_assert_cmpint(syscall(SYS_setresuid, -1, 0, -1), ==, 0);
    g_assert_no_error(error);
    g_dbus_connection_set_exit_on_close(connection, FALSE);
    return connection;
}

void
host_set_environment(Host *host, const char *name, const char *value)
{
    host->environment = value ? g_environ_setenv(host->environment, name, value, TRUE)
                              : g_environ_unsetenv(host->environment, name);
}

static void
prepare_environment(Host *host)
{
    g_autofree char *runtime = g_build_filename(host->directory, "run", NULL);

    host->environment = g_get_environ();
    host_set_environment(host, "DBUS_SYSTEM_BUS_ADDRESS", host->address);
    host_set_environment(host, "RUNTIME_DIRECTORY", runtime);
    host_set_environment(host, "G_DEBUG", "fatal-criticals");
}

Host *
host_new(const BedOptions *options)
{
    Host *host = g_new0(Host, 1);
    g_autoptr(GError) error = NULL;

    newest = host;
    host->bed = bed_new(options);
    host->directory = g_dir_make_tmp("host-XXXXXX", &error);
    g_assert_no_error(error);
    g_assert_cmpint(chmod(host->directory, 0755), ==, 0);
    host->log_path = g_build_filename(host->directory, "log", NULL);
    host->open = g_ptr_array_new();
    start_bus(host);
    prepare_environment(host);
    host->watcher = connect_as(host, 0);
    return host;
}

Bed *
host_bed(Host *host)
{
    return host->bed;
}

static gboolean
name_is_owned(Host *host)
{
    g_autoptr(GVariant) reply =
        g_dbus_connection_call_sync(host->watcher, "org.freedesktop.DBus", "/org/freedesktop/DBus",
                                    "org.freedesktop.DBus", "NameHasOwner", g_variant_new("(s)", NAME),
                                    G_VARIANT_TYPE("(b)"), G_DBUS_CALL_FLAGS_NONE, -1, NULL, NULL);
    gboolean owned = FALSE;

    if (reply)
        g_variant_get(reply, "(b)", &owned);
    return owned;
}

static pid_t
spawn_daemon(Host *host, const char *const *arguments)
{
    g_autoptr(GPtrArray) argv = g_ptr_array_new();
    g_auto(GStrv) environment = bed_environ(host->bed, host->environment);

    if (host->preload) {
        g_autofree char *both =
            g_strdup_printf("%s:%s", g_environ_getenv(environment, "LD_PRELOAD"), host->preload);
        environment = g_environ_setenv(environment, "LD_PRELOAD", both, TRUE);
    }
    g_ptr_array_add(argv, (gpointer)TEST_DAEMON);
    for (; arguments && *arguments; arguments++)
        g_ptr_array_add(argv, (gpointer)*arguments);
    g_ptr_array_add(argv, NULL);
    return spawn((const char *const *)argv->pdata, environment, NULL, host->log_path);
}

void
host_preload(Host *host, const char *library)
{
    g_free(host->preload);
    host->preload = g_strdup(library);
}

static int
status_of(int status)
{
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* TRUE when it has ended, and then it is no more. */
static gboolean
reap(Host *host, int *ret_status)
{
    int status;
    pid_t ended = waitpid(host->daemon, &status, WNOHANG);

    if (ended != host->daemon)
        return FALSE;
    host->daemon = 0;
    *ret_status = status_of(status);
    return TRUE;
}

char *
host_log(Host *host)
{
    char *text = NULL;

    g_file_get_contents(host->log_path, &text, NULL, NULL);
    return text ? text : g_strdup("");
}

void
host_give_up(const char *file, int line, const char *condition)
{
    g_autofree char *log = newest ? host_log(newest) : g_strdup("");
    g_autofree char *trace = newest ? bed_trace_text(newest->bed) : g_strdup("");

    g_error("%s:%d: waited in vain for: %s\nthe service said:\n%s\nwhat was written:\n%s", file, line,
            condition, log, trace);
}

static void
die_with_log(Host *host, int status)
{
    g_autofree char *log = host_log(host);

    g_error("the service ended with %d; its log:\n%s", status, log);
}

void
host_start(Host *host, const char *const *arguments)
{
    int status;

    host->daemon = spawn_daemon(host, arguments);
    wait_for(name_is_owned(host) || (reap(host, &status) && (die_with_log(host, status), FALSE)));
}

int
host_wait(Host *host)
{
    int status = -1;

    wait_for(reap(host, &status));
    return status;
}

int
host_start_second(Host *host)
{
    pid_t first = host->daemon;
    int status;

    host->daemon = spawn_daemon(host, NULL);
    status = host_wait(host);
    host->daemon = first;
    return status;
}

gboolean
host_wait_briefly(Host *host)
{
    gint64 deadline = bed_deadline(1.5);
    int status;

    while (!reap(host, &status)) {
        if (g_get_monotonic_time() > deadline)
            return FALSE;
        host_iterate();
    }
    return TRUE;
}

int
host_stop(Host *host, int signal_number)
{
    g_assert_cmpint(host->daemon, >, 0);
    kill(host->daemon, signal_number);
    return host_wait(host);
}

GDBusConnection *
host_connect(Host *host)
{
    return connect_as(host, 0);
}

pid_t
host_pid(Host *host)
{
    return host->daemon;
}

void
host_kill_bus(Host *host)
{
    kill(host->bus, SIGKILL);
    waitpid(host->bus, NULL, 0);
    host->bus = 0;
}

char *
host_file(Host *host, const char *name)
{
    return g_build_filename(host->directory, name, NULL);
}

char *
host_runtime_file(Host *host, const char *name)
{
    return g_build_filename(host->directory, "run", name, NULL);
}

guint
host_fds(Host *host)
{
    g_autofree char *path = g_strdup_printf("/proc/%d/fd", host->daemon);
    g_autoptr(GDir) dir = g_dir_open(path, 0, NULL);
    guint count = 0;

    while (dir && g_dir_read_name(dir))
        count++;
    return count;
}

guint
host_match_rules(Host *host)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(GVariant) reply = g_dbus_connection_call_sync(
        host->watcher, "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus.Debug.Stats",
        "GetConnectionStats", g_variant_new("(s)", NAME), G_VARIANT_TYPE("(a{sv})"), G_DBUS_CALL_FLAGS_NONE,
        -1, NULL, &error);
    g_autoptr(GVariant) stats = NULL;
    guint32 rules = 0;

    g_assert_no_error(error);
    stats = g_variant_get_child_value(reply, 0);
    g_assert_true(g_variant_lookup(stats, "MatchRules", "u", &rules));
    return rules;
}

static void
check_log(Host *host)
{
    g_autofree char *log = host_log(host);

    if (strstr(log, "AddressSanitizer") || strstr(log, "runtime error:") || strstr(log, "LeakSanitizer"))
        g_error("a sanitizer spoke:\n%s", log);
}

void
host_free(Host *host)
{
    g_auto(GStrv) violations = bed_violations(host->bed);
    g_autofree char *broken = g_strjoinv("; ", violations);
    int status;

    if (host->daemon > 0 && reap(host, &status))
        die_with_log(host, status);
    newest = NULL;
    bed_no_more_faults(host->bed);
    if (host->daemon > 0) {
        status = host_stop(host, SIGTERM);
        if (status != 0)
            die_with_log(host, status);
    }
    check_log(host);
    g_assert_cmpstr(broken, ==, "");
    host_polkit(host, POLKIT_GONE);
    g_dbus_connection_close_sync(host->watcher, NULL, NULL);
    g_object_unref(host->watcher);
    if (host->bus > 0)
        host_kill_bus(host);
    bed_free(host->bed);
    g_ptr_array_unref(host->open);
    g_strfreev(host->environment);
    g_free(host->preload);
    g_free(host->last_action);
    g_free(host->last_details);
    g_free(host->directory);
    g_free(host->address);
    g_free(host->log_path);
    g_free(host);
}

/* ---- polkit ---- */

static void
answer(GDBusMethodInvocation *invocation, gboolean yes, gboolean challenge, gboolean dismissed)
{
    GVariantBuilder details = G_VARIANT_BUILDER_INIT(G_VARIANT_TYPE("a{ss}"));

    if (dismissed)
        g_variant_builder_add(&details, "{ss}", "polkit.dismissed", "true");
    g_dbus_method_invocation_return_value(invocation, g_variant_new("((bba{ss}))", yes, challenge, &details));
}

static void
note_question(Host *host, GVariant *arguments)
{
    g_autoptr(GVariant) details = NULL;
    GString *text = g_string_new(NULL);
    GVariantIter iter;
    const char *key, *value;

    host->asked++;
    g_free(host->last_action);
    g_free(host->last_details);
    g_variant_get_child(arguments, 1, "s", &host->last_action);
    g_variant_get_child(arguments, 3, "u", &host->last_flags);
    details = g_variant_get_child_value(arguments, 2);
    g_variant_iter_init(&iter, details);
    while (g_variant_iter_next(&iter, "{&s&s}", &key, &value))
        g_string_append_printf(text, "%s%s=%s", text->len > 0 ? " " : "", key, value);
    host->last_details = g_string_free(text, FALSE);
}

static void
on_polkit_call(GDBusConnection *connection, const char *sender, const char *path, const char *interface,
               const char *method, GVariant *arguments, GDBusMethodInvocation *invocation, gpointer user_data)
{
    Host *host = user_data;

    if (strcmp(method, "CancelCheckAuthorization") == 0) {
        host->cancelled++;
        g_dbus_method_invocation_return_value(invocation, NULL);
        return;
    }
    note_question(host, arguments);
    switch (host->mode) {
    case POLKIT_HANG:
        g_ptr_array_add(host->open, invocation);
        break;
    case POLKIT_CHALLENGE:
        answer(invocation, FALSE, TRUE, FALSE);
        break;
    case POLKIT_DISMISSED:
        answer(invocation, FALSE, FALSE, TRUE);
        break;
    default:
        answer(invocation, host->mode == POLKIT_YES, FALSE, FALSE);
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
own_polkit(Host *host)
{
    static const GDBusInterfaceVTable vtable = {on_polkit_call, on_polkit_get, NULL, {0}};
    g_autoptr(GDBusNodeInfo) node = g_dbus_node_info_new_for_xml(polkit_xml, NULL);
    g_autoptr(GVariant) reply = NULL;
    g_autoptr(GError) error = NULL;

    host->polkit = connect_as(host, 0);
    host->polkit_object =
        g_dbus_connection_register_object(host->polkit, "/org/freedesktop/PolicyKit1/Authority",
                                          node->interfaces[0], &vtable, host, NULL, &error);
    g_assert_no_error(error);
    reply = g_dbus_connection_call_sync(host->polkit, "org.freedesktop.DBus", "/org/freedesktop/DBus",
                                        "org.freedesktop.DBus", "RequestName",
                                        g_variant_new("(su)", "org.freedesktop.PolicyKit1", 4),
                                        G_VARIANT_TYPE("(u)"), G_DBUS_CALL_FLAGS_NONE, -1, NULL, &error);
    g_assert_no_error(error);
}

void
host_polkit(Host *host, PolkitMode mode)
{
    host->mode = mode;
    if (mode != POLKIT_GONE && !host->polkit)
        own_polkit(host);
    if (mode == POLKIT_GONE && host->polkit) {
        g_ptr_array_set_size(host->open, 0);
        g_dbus_connection_unregister_object(host->polkit, host->polkit_object);
        g_dbus_connection_close_sync(host->polkit, NULL, NULL);
        g_clear_object(&host->polkit);
    }
}

guint
polkit_open(Host *host)
{
    return host->open->len;
}

guint
polkit_asked(Host *host)
{
    return host->asked;
}

guint
polkit_cancelled(Host *host)
{
    return host->cancelled;
}

const char *
polkit_last_action(Host *host)
{
    return host->last_action;
}

const char *
polkit_last_details(Host *host)
{
    return host->last_details;
}

guint
polkit_last_flags(Host *host)
{
    return host->last_flags;
}

void
polkit_answer(Host *host, gboolean yes)
{
    while (host->open->len > 0)
        answer(g_ptr_array_steal_index(host->open, 0), yes, FALSE, FALSE);
}

/* ---- Clients ---- */

Client *
client_new(Host *host, uid_t uid)
{
    Client *client = g_new0(Client, 1);

    client->references = 1;
    client->host = host;
    client->connection = connect_as(host, uid);
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
    return client_finish(
        start_method(client, method, arguments, G_DBUS_CALL_FLAGS_ALLOW_INTERACTIVE_AUTHORIZATION), error);
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

    g_assert_no_error(error);
    g_variant_get(reply, "(v)", &value);
    return value;
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
    g_autoptr(GVariant) value = g_variant_lookup_value(row, key, NULL);

    if (!value)
        return -1;
    switch (g_variant_classify(value)) {
    case G_VARIANT_CLASS_UINT32:
        return g_variant_get_uint32(value);
    case G_VARIANT_CLASS_INT32:
        return g_variant_get_int32(value);
    default:
        return (gint64)g_variant_get_uint64(value);
    }
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

char *
error_name(const GError *error)
{
    g_autofree char *name = NULL;

    if (!error)
        return g_strdup("none");
    name = g_dbus_error_get_remote_error(error);
    if (!name)
        return g_strdup(error->message);
    if (g_str_has_prefix(name, NAME ".Error."))
        return g_strdup(name + strlen(NAME ".Error."));
    if (g_str_has_prefix(name, "org.freedesktop.DBus.Error."))
        return g_strdup(name + strlen("org.freedesktop.DBus.Error."));
    return g_steal_pointer(&name);
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

void
client_listen(Client *client)
{
    g_autoptr(GVariant) synced = NULL;

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
