/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <systemd/sd-daemon.h>

#include "bus.h"
#include "failure.h"
#include "hold.h"
#include "news.h"
#include "signals.h"
#include "watch.h"

typedef struct {
    VgpuJson json;
    sd_bus *bus;
    sd_event *event;
    VgpuWatch *watch;
    GVariant *rows[VGPU_N_LISTS]; /* as last told */
    char *framework;
    bool service_is_new; /* what it no longer knows was not signalled */
} Monitor;

static void
monitor_clear(Monitor *monitor)
{
    g_clear_pointer(&monitor->watch, vgpu_watch_free);
    if (monitor->bus)
        sd_bus_detach_event(monitor->bus);
    g_clear_pointer(&monitor->bus, sd_bus_flush_close_unref);
    g_clear_pointer(&monitor->event, sd_event_unref);
    for (VgpuList list = 0; list < VGPU_N_LISTS; list++)
        g_clear_pointer(&monitor->rows[list], g_variant_unref);
    g_free(monitor->framework);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Monitor, monitor_clear)

/* Tells what changed in a list, and keeps it as the state that is known. */
static void
take_rows(Monitor *monitor, VgpuList list, GVariant *rows)
{
    g_autoptr(GPtrArray) changes = vgpu_diff(monitor->rows[list], rows, vgpu_list_key(list));

    if (list == VGPU_LIST_PROFILES) {
        vgpu_news_tell_profiles(monitor->json, changes);
    } else {
        for (unsigned i = 0; i < changes->len; i++) {
            const VgpuChange *change = changes->pdata[i];
            /* That an assignment ended is a signal, which says why. */
            if (list != VGPU_LIST_ASSIGNMENTS || change->after || monitor->service_is_new)
                vgpu_news_tell_change(monitor->json, list, change);
        }
    }
    g_variant_unref(monitor->rows[list]);
    monitor->rows[list] = g_variant_ref(rows);
}

static int
take_reply(Monitor *monitor, VgpuList list, sd_bus_message *reply)
{
    g_autoptr(GVariant) rows = vgpu_bus_read_property(reply, "aa{sv}");
    if (rows)
        take_rows(monitor, list, rows);
    return 0;
}

static int
on_assignments(sd_bus_message *reply, void *data, sd_bus_error *failed)
{
    Monitor *monitor = data;
    take_reply(monitor, VGPU_LIST_ASSIGNMENTS, reply);
    monitor->service_is_new = false;
    return 0;
}

static int
on_gpus(sd_bus_message *reply, void *data, sd_bus_error *failed)
{
    return take_reply(data, VGPU_LIST_GPUS, reply);
}

static int
on_profiles(sd_bus_message *reply, void *data, sd_bus_error *failed)
{
    return take_reply(data, VGPU_LIST_PROFILES, reply);
}

static const sd_bus_message_handler_t reply_handlers[VGPU_N_LISTS] = {on_assignments, on_gpus, on_profiles};

static void
take_framework(Monitor *monitor, const char *framework)
{
    g_autofree char *text = NULL;

    if (!g_strcmp0(monitor->framework, framework))
        return;
    text = g_strdup_printf("framework changed: %s -> %s", monitor->framework, framework);
    vgpu_news_tell(monitor->json, text,
                   g_variant_new_parsed("{'Property': <'Framework'>, 'Change': <'changed'>,"
                                        " 'Before': <%s>, 'After': <%s>}",
                                        monitor->framework, framework));
    g_free(monitor->framework);
    monitor->framework = g_strdup(framework);
}

static int
on_framework(sd_bus_message *reply, void *data, sd_bus_error *failed)
{
    g_autoptr(GVariant) value = vgpu_bus_read_property(reply, "s");
    if (value)
        take_framework(data, g_variant_get_string(value, NULL));
    return 0;
}

static void
on_changed(const char *property, GVariant *value, void *data)
{
    Monitor *monitor = data;

    if (!g_strcmp0(property, "Framework")) {
        if (value && g_variant_is_of_type(value, G_VARIANT_TYPE_STRING))
            take_framework(monitor, g_variant_get_string(value, NULL));
        else
            vgpu_bus_get_async(monitor->bus, property, on_framework, monitor);
    }
    for (VgpuList list = 0; list < VGPU_N_LISTS; list++)
        if (!g_strcmp0(property, vgpu_list_property(list)))
            vgpu_bus_get_async(monitor->bus, property, reply_handlers[list], monitor);
}

static void
on_removed(const char *id, const char *reason, void *data)
{
    const Monitor *monitor = data;
    g_autofree char *text = g_strdup_printf("assignment %s removed: %s", id, reason);

    vgpu_news_tell(
        monitor->json, text,
        g_variant_new_parsed("{'Signal': <'AssignmentRemoved'>, 'Id': <%s>, 'Reason': <%s>}", id, reason));
}

static void
on_service(bool there, void *data)
{
    Monitor *monitor = data;

    vgpu_news_tell(monitor->json, there ? "service started" : "service stopped",
                   g_variant_new_parsed("{'Service': <%s>}", there ? "started" : "stopped"));
    if (!there)
        return;
    monitor->service_is_new = true;
    vgpu_bus_get_async(monitor->bus, "Framework", on_framework, monitor);
    for (VgpuList list = 0; list < VGPU_N_LISTS; list++)
        vgpu_bus_get_async(monitor->bus, vgpu_list_property(list), reply_handlers[list], monitor);
}

static void
on_disconnected(void *data)
{
    const Monitor *monitor = data;
    vgpu_say("the connection to the bus is lost");
    sd_event_exit(monitor->event, VGPU_EXIT_FAILED);
}

static int
on_interrupt(sd_event_source *source, const struct signalfd_siginfo *info, void *data)
{
    return sd_event_exit(sd_event_source_get_event(source), VGPU_EXIT_DONE);
}

static const VgpuWatchFuncs watch_funcs = {on_removed, on_changed, on_service, on_disconnected};

/* The state that the first change is a change of. Starts the service before it is followed: that is no news.
 */
static bool
begin(Monitor *monitor, GError **error)
{
    g_autoptr(GVariant) properties = vgpu_bus_get_all(monitor->bus, error);
    if (!properties)
        return false;
    monitor->watch = vgpu_watch_new(monitor->bus, &watch_funcs, monitor, error);
    if (!monitor->watch)
        return false;
    for (VgpuList list = 0; list < VGPU_N_LISTS; list++) {
        monitor->rows[list] = vgpu_bus_get(monitor->bus, vgpu_list_property(list), "aa{sv}", error);
        if (!monitor->rows[list])
            return false;
    }
    g_autoptr(GVariant) framework = vgpu_bus_get(monitor->bus, "Framework", "s", error);
    monitor->framework = framework ? g_variant_dup_string(framework, NULL) : NULL;
    return framework;
}

static int
attach(Monitor *monitor)
{
    sigset_t wanted, before;

    sigemptyset(&wanted);
    sigaddset(&wanted, SIGINT);
    sigaddset(&wanted, SIGTERM);
    int r = sd_event_new(&monitor->event);
    if (r >= 0)
        r = sd_bus_attach_event(monitor->bus, monitor->event, SD_EVENT_PRIORITY_NORMAL);
    return r < 0 ? r : vgpu_signals_take(monitor->event, &wanted, on_interrupt, NULL, &before);
}

int
vgpu_monitor_command(const VgpuInvocation *invocation, GError **error)
{
    g_auto(Monitor) monitor = {.json = invocation->json};

    monitor.bus = vgpu_bus_open(invocation->host, error);
    if (!monitor.bus || !begin(&monitor, error))
        return VGPU_EXIT_FAILED;
    int r = attach(&monitor);
    if (r >= 0) {
        sd_notify(0, "READY=1");
        r = sd_event_loop(monitor.event);
    }
    if (r < 0)
        vgpu_bus_set_error(error, NULL, r);
    return r;
}
