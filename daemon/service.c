/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "service-internal.h"

#include "bus.h"
#include "describe.h"
#include "error.h"

#include <string.h>

/* One look for all properties of one message. */
static gboolean
look(VgpuService *service, VgpuHost *host, GError **error)
{
    sd_bus_message *current = sd_bus_get_current_message(service->bus);
    gboolean same = current && current == service->looked;

    if (!same) {
        service->looked = sd_bus_message_unref(service->looked);
        service->looked = sd_bus_message_ref(current);
    }
    if (same && vgpu_broker_last_look(service->broker, host))
        return TRUE;
    return vgpu_broker_look(service->broker, FALSE, host, error);
}

static int
get_property(sd_bus *bus, const char *path, const char *interface, const char *property,
             sd_bus_message *reply, void *user_data, sd_bus_error *bus_error)
{
    VgpuService *service = user_data;
    g_autoptr(GError) error = NULL;
    g_autoptr(GVariant) value = NULL;
    VgpuHost host;

    if (service_is_stopping(service, &error) || !look(service, &host, &error))
        return sd_bus_error_setf(bus_error,
                                 error->domain == VGPU_ERROR ? vgpu_error_bus_name((VgpuError)error->code)
                                                             : vgpu_error_bus_name(VGPU_ERROR_DEVICE_FAILED),
                                 "%s", error->message);
    if (strcmp(property, "Profiles") == 0 || strcmp(property, "GPUs") == 0)
        vgpu_broker_want_names(service->broker);
    if (strcmp(property, "Framework") == 0)
        value = g_variant_new_string(vgpu_inventory_framework(host.inventory));
    else if (strcmp(property, "Profiles") == 0)
        value = vgpu_describe_profiles(&host);
    else if (strcmp(property, "GPUs") == 0)
        value = vgpu_describe_gpus(&host);
    else
        value = vgpu_describe_assignments(host.assignments);
    g_variant_ref_sink(value);
    return vgpu_bus_append(reply, value);
}

static int
get_version(sd_bus *bus, const char *path, const char *interface, const char *property, sd_bus_message *reply,
            void *user_data, sd_bus_error *error)
{
    return sd_bus_message_append(reply, "s", PACKAGE_VERSION);
}

static const sd_bus_vtable vtable[] = {
    SD_BUS_VTABLE_START(0),
    SD_BUS_PROPERTY("Version", "s", get_version, 0, SD_BUS_VTABLE_PROPERTY_CONST),
    SD_BUS_PROPERTY("Framework", "s", get_property, 0, SD_BUS_VTABLE_PROPERTY_EMITS_CHANGE),
    SD_BUS_PROPERTY("Profiles", "aa{sv}", get_property, 0, SD_BUS_VTABLE_PROPERTY_EMITS_INVALIDATION),
    SD_BUS_PROPERTY("GPUs", "aa{sv}", get_property, 0, SD_BUS_VTABLE_PROPERTY_EMITS_INVALIDATION),
    SD_BUS_PROPERTY("Assignments", "aa{sv}", get_property, 0, SD_BUS_VTABLE_PROPERTY_EMITS_INVALIDATION),
    SD_BUS_METHOD_WITH_ARGS("Assign", SD_BUS_ARGS("s", profile, "a{sv}", options),
                            SD_BUS_RESULT("s", id, "a{sv}", assignment), service_method_assign,
                            SD_BUS_VTABLE_UNPRIVILEGED),
    SD_BUS_METHOD_WITH_ARGS("Release", SD_BUS_ARGS("s", id), SD_BUS_NO_RESULT, service_method_release,
                            SD_BUS_VTABLE_UNPRIVILEGED),
    SD_BUS_METHOD_WITH_ARGS("Adopt", SD_BUS_ARGS("s", id), SD_BUS_RESULT("a{sv}", assignment),
                            service_method_adopt, SD_BUS_VTABLE_UNPRIVILEGED),
    SD_BUS_METHOD_WITH_ARGS("Plan", SD_BUS_ARGS("s", profile, "a{sv}", options), SD_BUS_RESULT("a{sv}", plan),
                            service_method_plan, SD_BUS_VTABLE_UNPRIVILEGED),
    SD_BUS_METHOD_WITH_ARGS("Reclaim", SD_BUS_ARGS("s", device), SD_BUS_NO_RESULT, service_method_reclaim,
                            SD_BUS_VTABLE_UNPRIVILEGED),
    SD_BUS_SIGNAL_WITH_ARGS("AssignmentRemoved", SD_BUS_ARGS("s", id, "s", reason), 0),
    SD_BUS_VTABLE_END,
};

/* Puts @now, which is floating, in the place of *@last; TRUE when it is another value. */
static gboolean
replace(GVariant **last, GVariant *now)
{
    g_autoptr(GVariant) old = *last;

    *last = g_variant_ref_sink(now);
    return !old || !g_variant_equal(old, now);
}

/* Names what would be lost. */
static void
block_sleep(VgpuService *service)
{
    g_autoptr(GString) why = g_string_new(NULL);

    for (gsize i = 0; i < g_variant_n_children(service->assignments); i++) {
        g_autoptr(GVariant) row = g_variant_get_child_value(service->assignments, i);
        const char *profile = "";
        const char *device = "";

        g_variant_lookup(row, "Profile", "&s", &profile);
        g_variant_lookup(row, "Device", "&s", &device);
        g_string_append_printf(why, "%s%s on %s", i > 0 ? ", " : "vGPUs do not survive sleep: ", profile,
                               device);
    }
    vgpu_sleep_block(service->sleep, why->len > 0 ? why->str : NULL);
}

/* Compares what the properties say with what the bus was told, and signals what differs. */
static gboolean
on_emit(gpointer user_data)
{
    VgpuService *service = user_data;
    gboolean first = service->framework == NULL;
    const char *changed[5] = {NULL};
    guint n = 0;
    g_autoptr(GError) error = NULL;
    VgpuHost host;

    if (!service->stopped && !vgpu_broker_look(service->broker, FALSE, &host, &error))
        g_warning("the host cannot be read: %s", error->message);
    service->emit = 0;
    if (service->stopped || error)
        return G_SOURCE_REMOVE;
    if (g_strcmp0(service->framework, vgpu_inventory_framework(host.inventory)) != 0) {
        g_free(service->framework);
        service->framework = g_strdup(vgpu_inventory_framework(host.inventory));
        changed[n++] = "Framework";
    }
    if (replace(&service->profiles, vgpu_describe_profiles(&host)))
        changed[n++] = "Profiles";
    if (replace(&service->gpus, vgpu_describe_gpus(&host)))
        changed[n++] = "GPUs";
    if (replace(&service->assignments, vgpu_describe_assignments(host.assignments))) {
        changed[n++] = "Assignments";
        block_sleep(service);
    }
    if (n > 0 && !first)
        sd_bus_emit_properties_changed_strv(service->bus, VGPU_OBJECT_PATH, VGPU_INTERFACE, (char **)changed);
    return G_SOURCE_REMOVE;
}

static void
on_changed(gpointer user_data)
{
    VgpuService *service = user_data;

    /* Behind everything that is ready now, so that a reply with an id is out before a signal that reveals it.
     */
    if (service->emit == 0 && !service->stopped)
        service->emit = g_idle_add_full(G_PRIORITY_LOW, on_emit, service, NULL);
}

static void
on_removed(const char *id, VgpuEnding ending, gpointer user_data)
{
    VgpuService *service = user_data;

    sd_bus_emit_signal(service->bus, VGPU_OBJECT_PATH, VGPU_INTERFACE, "AssignmentRemoved", "ss", id,
                       vgpu_ending_name(ending));
}

const VgpuBrokerHooks vgpu_service_hooks = {.changed = on_changed, .removed = on_removed};

VgpuService *
vgpu_service_new(sd_bus *bus, VgpuAuthority *authority, guint max_pending, GError **error)
{
    g_autoptr(VgpuService) service = g_new0(VgpuService, 1);
    int r;

    service->bus = sd_bus_ref(bus);
    service->authority = authority;
    service->max_pending = max_pending;
    service->calls = g_ptr_array_new();
    r = sd_bus_add_object_vtable(bus, &service->object, VGPU_OBJECT_PATH, VGPU_INTERFACE, vtable, service);
    if (r < 0) {
        g_set_error(error, G_IO_ERROR, G_IO_ERROR_FAILED, "the object cannot be put on the bus: %s",
                    g_strerror(-r));
        return NULL;
    }
    return g_steal_pointer(&service);
}

void
vgpu_service_free(VgpuService *service)
{
    g_clear_handle_id(&service->emit, g_source_remove);
    sd_bus_slot_unref(service->object);
    sd_bus_message_unref(service->looked);
    g_ptr_array_unref(service->calls);
    g_free(service->framework);
    g_clear_pointer(&service->profiles, g_variant_unref);
    g_clear_pointer(&service->gpus, g_variant_unref);
    g_clear_pointer(&service->assignments, g_variant_unref);
    sd_bus_unref(service->bus);
    g_free(service);
}

void
vgpu_service_start(VgpuService *service, VgpuOwners *owners, VgpuBroker *broker, VgpuSleep *sleep)
{
    service->owners = owners;
    service->broker = broker;
    service->sleep = sleep;
}

void
vgpu_service_stop(VgpuService *service)
{
    g_autoptr(GError) error = NULL;

    service->stopped = TRUE;
    service_is_stopping(service, &error);
    service_answer_all(service, error);
    g_clear_handle_id(&service->emit, g_source_remove);
    sd_bus_flush(service->bus);
}

void
vgpu_service_vanished(const char *name, gpointer user_data)
{
    VgpuService *service = user_data;

    service_caller_left(service, name);
    vgpu_broker_owner_vanished(service->broker, name);
}
