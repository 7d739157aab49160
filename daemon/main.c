/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "authority.h"
#include "broker.h"
#include "bus.h"
#include "config.h"
#include "loop.h"
#include "monitor.h"
#include "nvml.h"
#include "owners.h"
#include "service.h"
#include "sleep.h"
#include "store.h"
#include "worker.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-id128.h>

#define STOP_SECONDS 5
#define NAME_SECONDS 2

typedef struct {
    sd_event *event;
    VgpuService *service;
    VgpuBroker *broker;
    VgpuWorker *worker;
    gint64 stop_by; /* monotonic µs; 0: not asked to stop */
} Daemon;

static gboolean
fail(int r, const char *what, GError **error)
{
    g_set_error(error, G_IO_ERROR, G_IO_ERROR_FAILED, "%s: %s", what, g_strerror(-r));
    return FALSE;
}

/* Nothing is begun any more. */
static void
begin_stop(Daemon *daemon)
{
    daemon->stop_by = g_get_monotonic_time() + STOP_SECONDS * G_USEC_PER_SEC;
    vgpu_broker_stop(daemon->broker);
}

/* Writes under way may end, but nobody waits for one that does not. */
static gboolean
waits_for_writes(const Daemon *daemon)
{
    return vgpu_worker_busy(daemon->worker) > 0 && g_get_monotonic_time() < daemon->stop_by;
}

static gboolean
on_stopping(gpointer user_data)
{
    Daemon *daemon = user_data;

    if (waits_for_writes(daemon))
        return G_SOURCE_CONTINUE;
    sd_event_exit(daemon->event, EXIT_SUCCESS);
    return G_SOURCE_REMOVE;
}

static int
on_signal(sd_event_source *source, const struct signalfd_siginfo *info, void *user_data)
{
    Daemon *daemon = user_data;

    if (daemon->stop_by > 0)
        return 0;
    vgpu_service_stop(daemon->service);
    begin_stop(daemon);
    if (on_stopping(daemon))
        g_timeout_add(20, on_stopping, daemon);
    return 0;
}

static gboolean
catch_signals(Daemon *daemon, GError **error)
{
    static const int signals[] = {SIGTERM, SIGINT};

    for (gsize i = 0; i < G_N_ELEMENTS(signals); i++) {
        int r = sd_event_add_signal(daemon->event, NULL, signals[i], on_signal, daemon);
        if (r < 0)
            return fail(r, "signals cannot be caught", error);
    }
    return TRUE;
}

/* Before the first thread, so that all of them leave the signals to the loop. */
static void
block_signals(void)
{
    sigset_t signals;

    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);
}

static const char *
runtime_directory(void)
{
    const char *directory = g_getenv("RUNTIME_DIRECTORY");

    return directory && *directory ? directory : "/run/hypeman-vgpu";
}

static VgpuConfig *
load_config(const char *path)
{
    g_autoptr(GPtrArray) warnings = NULL;
    VgpuConfig *config = vgpu_config_load(path, &warnings);

    for (guint i = 0; i < warnings->len; i++)
        g_warning("%s", (char *)g_ptr_array_index(warnings, i));
    return config;
}

static const char *
system_bus_address(void)
{
    const char *address = g_getenv("DBUS_SYSTEM_BUS_ADDRESS");

    return address && *address
               ? address
               : "unix:path=/run/dbus/system_bus_socket;unix:path=/var/run/dbus/system_bus_socket";
}

static gboolean
open_bus(sd_event *event, sd_bus **ret_bus, char **ret_bus_id, GError **error)
{
    char text[SD_ID128_STRING_MAX];
    sd_id128_t id;
    int r = sd_bus_new(ret_bus);

    if (r >= 0)
        r = sd_bus_set_address(*ret_bus, system_bus_address());
    if (r >= 0)
        r = sd_bus_set_bus_client(*ret_bus, 1);
    if (r >= 0)
        r = sd_bus_set_trusted(*ret_bus, 0);
    /* Messages with descriptors are dropped by the bus: a few of them from anybody would fill its queue to
     * us. */
    if (r >= 0)
        r = sd_bus_negotiate_fds(*ret_bus, 0);
    if (r >= 0)
        r = sd_bus_start(*ret_bus);
    if (r >= 0)
        r = sd_bus_attach_event(*ret_bus, event, SD_EVENT_PRIORITY_NORMAL);
    /* Losing the bus is not "everybody has vanished": end without a touch, and let systemd start anew. */
    if (r >= 0)
        r = sd_bus_set_exit_on_disconnect(*ret_bus, 1);
    if (r >= 0)
        r = sd_bus_get_bus_id(*ret_bus, &id);
    if (r < 0)
        return fail(r, "the system bus cannot be used", error);
    *ret_bus_id = g_strdup(sd_id128_to_string(id, text));
    return TRUE;
}

/* A child that was forked an instant before the last run was killed may still have that run's connection
 * open. */
static int
request_name(sd_bus *bus)
{
    gint64 until = g_get_monotonic_time() + NAME_SECONDS * G_USEC_PER_SEC;
    int r = sd_bus_request_name(bus, VGPU_BUS_NAME, 0);

    while (r == -EEXIST && g_get_monotonic_time() < until) {
        g_usleep(20 * 1000);
        r = sd_bus_request_name(bus, VGPU_BUS_NAME, 0);
    }
    return r;
}

static void
on_devices_changed(gpointer user_data)
{
    vgpu_broker_rescan(user_data);
}

static void
on_device_event(const char *subsystem, const char *name, gpointer user_data)
{
    if (name)
        vgpu_broker_device_event(user_data, subsystem, name);
}

static int
run_loop(sd_event *event)
{
    g_autoptr(GMainLoop) loop = g_main_loop_new(NULL, FALSE);
    int code = EXIT_FAILURE;
    GSource *source = vgpu_loop_attach(event, loop, &code);

    g_main_loop_run(loop);
    g_source_destroy(source);
    g_source_unref(source);
    return code;
}

/* The bus has gone. What a driver answers to a write is recorded still, as only a killed service leaves that
 * open. */
static void
let_writes_end(Daemon *daemon)
{
    begin_stop(daemon);
    if (waits_for_writes(daemon))
        g_message("the bus has gone while a write is under way: waiting for its answer");
    while (waits_for_writes(daemon)) {
        if (!g_main_context_iteration(NULL, FALSE))
            g_usleep(20 * 1000);
    }
}

static gboolean
serve(const char *config_path, int *ret_code, GError **error)
{
    g_autoptr(sd_event) event = NULL;
    g_autoptr(sd_bus) bus = NULL;
    g_autofree char *bus_id = NULL;
    g_autoptr(VgpuConfig) config = load_config(config_path);
    g_autoptr(VgpuStore) store = vgpu_store_new(runtime_directory(), error);
    g_autoptr(VgpuAuthority) authority = NULL;
    g_autoptr(VgpuWorker) worker = NULL;
    g_autoptr(VgpuService) service = NULL;
    g_autoptr(VgpuOwners) owners = NULL;
    g_autoptr(VgpuBroker) broker = NULL;
    g_autoptr(VgpuMonitor) monitor = NULL;
    g_autoptr(VgpuSleep) sleep = NULL;
    Daemon daemon = {0};
    int r;

    if (!store || !vgpu_store_lock(store, error))
        return FALSE;
    r = sd_event_default(&event);
    if (r < 0)
        return fail(r, "there is no event loop", error);
    if (!open_bus(event, &bus, &bus_id, error))
        return FALSE;
    authority = vgpu_authority_new();
    worker = vgpu_worker_new();
    service = vgpu_service_new(bus, authority, config->max_pending_per_user, error);
    if (!service)
        return FALSE;
    owners = vgpu_owners_new(bus, vgpu_service_vanished, service);
    broker = vgpu_broker_new(config, store, owners, worker, event, bus_id, &vgpu_service_hooks, service);
    sleep = vgpu_sleep_new(config->inhibit_sleep, on_devices_changed, broker);
    vgpu_service_start(service, owners, broker, sleep);
    r = request_name(bus);
    if (r < 0)
        return fail(r, "the name " VGPU_BUS_NAME " cannot be had", error);
    monitor = vgpu_monitor_new(event, on_devices_changed, on_device_event, broker, error);
    if (!monitor)
        return FALSE;
    daemon = (Daemon){event, service, broker, worker, 0};
    if (!catch_signals(&daemon, error))
        return FALSE;
    vgpu_broker_start(broker);
    *ret_code = run_loop(event);
    if (daemon.stop_by == 0)
        let_writes_end(&daemon);
    /* A thread may sit in a write that never returns and still use all this. */
    if (vgpu_worker_busy(worker) > 0)
        _exit(*ret_code);
    vgpu_service_end(service);
    sd_bus_flush(bus);
    sd_bus_close(bus);
    if (vgpu_worker_has_left_undone(worker))
        _exit(*ret_code); /* nobody would free it */
    return TRUE;
}

int
main(int argc, char **argv)
{
    gboolean version = FALSE;
    g_autofree char *config_path = NULL;
    GOptionEntry entries[] = {
        {"config", 'c', 0, G_OPTION_ARG_FILENAME, &config_path, "Read this file instead of " CONFIG_PATH,
         "FILE"},
        {"version", 0, 0, G_OPTION_ARG_NONE, &version, "Print the version and exit", NULL},
        G_OPTION_ENTRY_NULL,
    };
    g_autoptr(GOptionContext) context = g_option_context_new("- hand out vGPUs on the system bus");
    g_autoptr(GError) error = NULL;
    int code = EXIT_FAILURE;

    if (argc > 1 && strcmp(argv[1], VGPU_NVML_CHILD_ARGUMENT) == 0)
        return vgpu_nvml_child_main(argc, argv);
    g_option_context_add_main_entries(context, entries, NULL);
    if (!g_option_context_parse(context, &argc, &argv, &error)) {
        g_printerr("hypeman-vgpud: %s\n", error->message);
        return 2;
    }
    if (version) {
        g_print("hypeman-vgpud %s\n", PACKAGE_VERSION);
        return EXIT_SUCCESS;
    }
    if (argc > 1) {
        g_printerr("hypeman-vgpud: it takes no arguments but options, and not %s\n", argv[1]);
        return 2;
    }
    block_signals();
    if (!serve(config_path ? config_path : CONFIG_PATH, &code, &error)) {
        g_printerr("hypeman-vgpud: %s\n", error->message);
        return EXIT_FAILURE;
    }
    return code;
}
