/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A host with vGPUs does not sleep, and nothing is handed out while it prepares to. */
#include "host.h"

#include <fcntl.h>
#include <gio/gunixfdlist.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#define CARD "0000:3b:00.0"

/* A logind that hands out locks, as pipes: the lock is held as long as the other end is open. */
typedef struct {
    Host *host;
    Client *client;
    GDBusConnection *logind;
    guint object;
    int pipe;    /* our end of the newest lock; -1 for none */
    guint locks; /* handed out */
    gboolean preparing;
    gboolean refuse; /* the next lock */
    guint asked;     /* how often, whether it prepares to sleep */
    char *why;
} Fixture;

static const char xml[] =
    "<node><interface name='org.freedesktop.login1.Manager'><method name='Inhibit'>"
    "<arg type='s' direction='in'/><arg type='s' direction='in'/><arg type='s' direction='in'/>"
    "<arg type='s' direction='in'/><arg type='h' direction='out'/></method>"
    "<property name='PreparingForSleep' type='b' access='read'/>"
    "<signal name='PrepareForSleep'><arg type='b'/></signal></interface></node>";

static void
on_call(GDBusConnection *connection, const char *sender, const char *path, const char *interface,
        const char *method, GVariant *arguments, GDBusMethodInvocation *invocation, gpointer user_data)
{
    Fixture *fixture = user_data;
    g_autoptr(GUnixFDList) fds = g_unix_fd_list_new();
    const char *what, *mode;
    int ends[2];

    if (fixture->refuse) {
        fixture->refuse = FALSE;
        g_dbus_method_invocation_return_dbus_error(invocation, "org.freedesktop.login1.OperationInProgress",
                                                   "the system prepares to sleep");
        return;
    }
    g_free(fixture->why);
    g_variant_get(arguments, "(&s&ss&s)", &what, NULL, &fixture->why, &mode);
    g_assert_cmpstr(what, ==, "sleep");
    g_assert_cmpstr(mode, ==, "block");
    g_assert_cmpint(pipe2(ends, O_CLOEXEC | O_NONBLOCK), ==, 0);
    if (fixture->pipe >= 0)
        close(fixture->pipe);
    fixture->pipe = ends[0];
    fixture->locks++;
    g_unix_fd_list_append(fds, ends[1], NULL);
    close(ends[1]);
    g_dbus_method_invocation_return_value_with_unix_fd_list(invocation, g_variant_new("(h)", 0), fds);
}

static GVariant *
on_get(GDBusConnection *connection, const char *sender, const char *path, const char *interface,
       const char *property, GError **error, gpointer user_data)
{
    Fixture *fixture = user_data;

    fixture->asked++;
    return g_variant_new_boolean(fixture->preparing);
}

static gboolean
is_locked(Fixture *fixture)
{
    char c;

    return fixture->pipe >= 0 && read(fixture->pipe, &c, 1) < 0;
}

static void
set_up(Fixture *fixture, gconstpointer config)
{
    static const GDBusInterfaceVTable vtable = {on_call, on_get, NULL, {0}};
    g_autoptr(GDBusNodeInfo) node = g_dbus_node_info_new_for_xml(xml, NULL);
    g_autofree char *path = NULL;
    g_autofree char *argument = NULL;

    fixture->host = host_new(NULL);
    fixture->pipe = -1;
    fixture->logind = host_connect(fixture->host);
    fixture->object = g_dbus_connection_register_object(fixture->logind, "/org/freedesktop/login1",
                                                        node->interfaces[0], &vtable, fixture, NULL, NULL);
    g_variant_unref(g_dbus_connection_call_sync(
        fixture->logind, "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus",
        "RequestName", g_variant_new("(su)", "org.freedesktop.login1", 4), NULL, G_DBUS_CALL_FLAGS_NONE, -1,
        NULL, NULL));
    bed_add_card(host_bed(fixture->host), "l40s", CARD, 2);
    path = host_file(fixture->host, "conf");
    argument = g_strconcat("--config=", path, NULL);
    g_assert_true(g_file_set_contents(path, config ? config : "", -1, NULL));
    host_start(fixture->host, (const char *const[]){argument, NULL});
    fixture->client = client_new(fixture->host, 0);
}

static void
tear_down(Fixture *fixture, gconstpointer data)
{
    client_free(fixture->client);
    host_free(fixture->host);
    g_dbus_connection_unregister_object(fixture->logind, fixture->object);
    g_object_unref(fixture->logind);
    if (fixture->pipe >= 0)
        close(fixture->pipe);
    g_free(fixture->why);
}

static void
test_blocked_while_assigned(Fixture *fixture, gconstpointer data)
{
    g_autofree char *id = client_must_assign(fixture->client, "L40S-2Q", NULL, NULL);

    wait_for(fixture->locks == 1 && is_locked(fixture));
    g_assert_nonnull(strstr(fixture->why, "NVIDIA L40S-2Q on 0000:3b:00.4"));
    g_assert_true(client_release(fixture->client, id, NULL));
    wait_for(!is_locked(fixture));
}

static void
test_not_asked_for(Fixture *fixture, gconstpointer data)
{
    g_autofree char *id = NULL;

    client_listen(fixture->client);
    id = client_must_assign(fixture->client, "L40S-2Q", NULL, NULL);
    wait_for(client_changes(fixture->client, "Assignments") > 0);
    g_assert_true(client_release(fixture->client, id, NULL));
    wait_for(client_changes(fixture->client, "Assignments") > 1);
    g_assert_cmpuint(fixture->locks, ==, 0);
}

static void
prepare(Fixture *fixture, gboolean sleep)
{
    fixture->preparing = sleep;
    g_dbus_connection_emit_signal(fixture->logind, NULL, "/org/freedesktop/login1",
                                  "org.freedesktop.login1.Manager", "PrepareForSleep",
                                  g_variant_new("(b)", sleep), NULL);
    g_dbus_connection_flush_sync(fixture->logind, NULL, NULL);
}

/* Tries to assign, and gives back what it got. */
static gboolean
is_busy(Fixture *fixture)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *id = client_assign(fixture->client, "L40S-2Q", NULL, NULL, &error);

    if (!id) {
        assert_error(error, "Busy");
        return TRUE;
    }
    g_assert_true(client_release(fixture->client, id, NULL));
    return FALSE;
}

static void
test_busy_before_sleep(Fixture *fixture, gconstpointer data)
{
    g_assert_false(is_busy(fixture));
    prepare(fixture, TRUE);
    wait_for(is_busy(fixture));
    prepare(fixture, FALSE);
    wait_for(!is_busy(fixture));
}

/* The signal came before the service did. */
static void
test_started_while_it_prepares(Fixture *fixture, gconstpointer data)
{
    g_assert_cmpint(host_stop(fixture->host, SIGTERM), ==, 0);
    fixture->preparing = TRUE;
    host_start(fixture->host, NULL);
    wait_for(is_busy(fixture));
    prepare(fixture, FALSE);
    wait_for(!is_busy(fixture));
}

/* logind refuses locks while it prepares: what is assigned then must not stay without one. */
static void
test_refused_once(Fixture *fixture, gconstpointer data)
{
    g_autofree char *id = NULL;
    guint asked;

    fixture->refuse = TRUE;
    id = client_must_assign(fixture->client, "L40S-2Q", NULL, NULL);
    wait_for(!fixture->refuse);
    asked = fixture->asked;
    prepare(fixture, TRUE);
    wait_for(fixture->asked > asked);
    g_assert_cmpuint(fixture->locks, ==, 0);
    prepare(fixture, FALSE);
    wait_for(fixture->locks == 1 && is_locked(fixture));
}

#define ADD(path, config, test) g_test_add(path, Fixture, config, set_up, test, tear_down)

static int
run(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    ADD("/sleep/assigned/blocks-it-and-names-what", NULL, test_blocked_while_assigned);
    ADD("/sleep/configured/off-asks-for-nothing", "[VGPU]\nInhibitSleep=no\n", test_not_asked_for);
    ADD("/sleep/prepares/assign-is-busy-until-awake", NULL, test_busy_before_sleep);
    ADD("/sleep/prepares/a-service-that-starts-then-knows", NULL, test_started_while_it_prepares);
    ADD("/sleep/refused/is-asked-again-when-awake", NULL, test_refused_once);
    return g_test_run();
}

int
main(int argc, char **argv)
{
    return bed_main(argc, argv, run);
}
