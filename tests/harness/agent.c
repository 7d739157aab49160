/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "host-private.h"

#include <polkit/polkit.h>
#include <string.h>
#include <unistd.h>

#define POLKIT "org.freedesktop.PolicyKit1"
#define POLKIT_PATH "/org/freedesktop/PolicyKit1/Authority"
#define AGENT_PATH "/org/hypeman/test/Agent"

struct Agent {
    GDBusConnection *connection;
    guint object;
    GDBusMethodInvocation *open; /* NULL when no dialog is */
    char *cookie;
    guint refused;
};

static void
call_polkit(Agent *agent, const char *method, GVariant *arguments)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(GVariant) reply =
        g_dbus_connection_call_sync(agent->connection, POLKIT, POLKIT_PATH, POLKIT ".Authority", method,
                                    arguments, NULL, G_DBUS_CALL_FLAGS_NONE, -1, NULL, &error);

    g_assert_no_error(error);
}

static void
on_agent_call(GDBusConnection *connection, const char *sender, const char *path, const char *interface,
              const char *method, GVariant *arguments, GDBusMethodInvocation *invocation, gpointer user_data)
{
    Agent *agent = user_data;

    if (strcmp(method, "CancelAuthentication") == 0) {
        g_dbus_method_invocation_return_value(invocation, NULL);
        agent_end(agent, "Cancelled");
    } else if (agent->open) {
        agent->refused++;
        g_dbus_method_invocation_return_dbus_error(invocation, POLKIT ".Error.Failed",
                                                   "An authentication session is already underway.");
    } else {
        g_free(agent->cookie);
        g_variant_get_child(arguments, 4, "s", &agent->cookie);
        agent->open = invocation;
    }
}

static const char agent_xml[] =
    "<node><interface name='org.freedesktop.PolicyKit1.AuthenticationAgent'>"
    "<method name='BeginAuthentication'><arg type='s' direction='in'/><arg type='s' direction='in'/>"
    "<arg type='s' direction='in'/><arg type='a{ss}' direction='in'/><arg type='s' direction='in'/>"
    "<arg type='a(sa{sv})' direction='in'/></method>"
    "<method name='CancelAuthentication'><arg type='s' direction='in'/></method></interface></node>";

Agent *
agent_new(Host *host)
{
    static const GDBusInterfaceVTable vtable = {on_agent_call, NULL, NULL, {0}};
    Agent *agent = g_new0(Agent, 1);
    g_autoptr(GDBusNodeInfo) node = g_dbus_node_info_new_for_xml(agent_xml, NULL);
    g_autoptr(PolkitSubject) self = polkit_unix_process_new_for_owner(getpid(), 0, 0);
    guint64 since = polkit_unix_process_get_start_time(POLKIT_UNIX_PROCESS(self));
    GVariant *subject = g_variant_new_parsed(
        "('unix-process', {'pid': <%u>, 'start-time': <%t>, 'uid': <%i>})", (guint32)getpid(), since, 0);
    g_autoptr(GError) error = NULL;

    agent->connection = bus_connect(host_get_bus(host), 0);
    agent->object = g_dbus_connection_register_object(agent->connection, AGENT_PATH, node->interfaces[0],
                                                      &vtable, agent, NULL, &error);
    g_assert_no_error(error);
    /* Root may do so for clients of any user, all of which are this process. */
    call_polkit(agent, "RegisterAuthenticationAgent",
                g_variant_new("(@(sa{sv})ss)", subject, "C", AGENT_PATH));
    return agent;
}

void
agent_free(Agent *agent)
{
    if (agent->open)
        agent_end(agent, "Cancelled");
    g_dbus_connection_unregister_object(agent->connection, agent->object);
    g_dbus_connection_close_sync(agent->connection, NULL, NULL);
    g_object_unref(agent->connection);
    g_free(agent->cookie);
    g_free(agent);
}

gboolean
agent_is_open(Agent *agent)
{
    return agent->open != NULL;
}

guint
agent_refused(Agent *agent)
{
    return agent->refused;
}

void
agent_permit(Agent *agent)
{
    GVariant *who = g_variant_new_parsed("('unix-user', {'uid': <uint32 0>})");

    g_assert_nonnull(agent->open);
    call_polkit(agent, "AuthenticationAgentResponse2", g_variant_new("(us@(sa{sv}))", 0, agent->cookie, who));
    g_dbus_method_invocation_return_value(g_steal_pointer(&agent->open), NULL);
}

void
agent_end(Agent *agent, const char *error)
{
    g_autofree char *name = g_strconcat(POLKIT ".Error.", error, NULL);

    g_assert_nonnull(agent->open);
    g_dbus_method_invocation_return_dbus_error(g_steal_pointer(&agent->open), name, "The dialog has ended.");
}
