/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "watch.h"

#include "failure.h"

#define DRIVER "org.freedesktop.DBus"
#define DRIVER_PATH "/org/freedesktop/DBus"
#define LOCAL "org.freedesktop.DBus.Local"
#define LOCAL_PATH "/org/freedesktop/DBus/Local"

struct VgpuWatch {
    const VgpuWatchFuncs *funcs;
    void *data;
    char *service; /* unique name; NULL while there is none */
    sd_bus_slot *slots[4];
};

/* Anybody may send a signal to our unique name, and sd-bus cannot tell for whom a well-known name stands. */
static bool
is_from_service(const VgpuWatch *watch, sd_bus_message *message)
{
    return watch->service && !g_strcmp0(sd_bus_message_get_sender(message), watch->service);
}

static int
on_removed(sd_bus_message *message, void *data, sd_bus_error *failed)
{
    VgpuWatch *watch = data;
    const char *id, *reason;

    if (is_from_service(watch, message) && watch->funcs->removed &&
        sd_bus_message_read(message, "ss", &id, &reason) >= 0)
        watch->funcs->removed(id, reason, watch->data);
    return 0;
}

static void
tell_changes(VgpuWatch *watch, GVariant *changed, GVariant *invalidated)
{
    GVariantIter iter;
    const char *name;
    GVariant *value;

    g_variant_iter_init(&iter, changed);
    while (g_variant_iter_loop(&iter, "{&sv}", &name, &value))
        watch->funcs->changed(name, value, watch->data);
    g_variant_iter_init(&iter, invalidated);
    while (g_variant_iter_loop(&iter, "&s", &name))
        watch->funcs->changed(name, NULL, watch->data);
}

static int
on_changed(sd_bus_message *message, void *data, sd_bus_error *failed)
{
    VgpuWatch *watch = data;
    const char *interface;

    if (!is_from_service(watch, message) || !watch->funcs->changed ||
        sd_bus_message_read(message, "s", &interface) < 0 || g_strcmp0(interface, VGPU_BUS_INTERFACE))
        return 0;
    g_autoptr(GVariant) changed = vgpu_bus_read(message, "a{sv}", NULL);
    g_autoptr(GVariant) invalidated = changed ? vgpu_bus_read(message, "as", NULL) : NULL;
    if (invalidated)
        tell_changes(watch, changed, invalidated);
    return 0;
}

static int
on_owner(sd_bus_message *message, void *data, sd_bus_error *failed)
{
    VgpuWatch *watch = data;
    const char *name, *before, *after;

    /* The bus's own name cannot be taken by anybody else, so its sender needs no check. */
    if (g_strcmp0(sd_bus_message_get_sender(message), DRIVER) ||
        sd_bus_message_read(message, "sss", &name, &before, &after) < 0 || g_strcmp0(name, VGPU_BUS_NAME))
        return 0;
    g_free(watch->service);
    watch->service = *after ? g_strdup(after) : NULL;
    if (watch->funcs->service)
        watch->funcs->service(*after, watch->data);
    return 0;
}

static int
on_disconnected(sd_bus_message *message, void *data, sd_bus_error *failed)
{
    VgpuWatch *watch = data;
    if (watch->funcs->disconnected)
        watch->funcs->disconnected(watch->data);
    return 0;
}

/* Who has the service's name now; that nobody has is no error. */
static int
find_service(VgpuWatch *watch, sd_bus *bus)
{
    g_auto(sd_bus_error) failed = SD_BUS_ERROR_NULL;
    g_autoptr(sd_bus_message) reply = NULL;
    const char *owner;

    int r = sd_bus_call_method(bus, DRIVER, DRIVER_PATH, DRIVER, "GetNameOwner", &failed, &reply, "s",
                               VGPU_BUS_NAME);
    if (r < 0)
        return sd_bus_error_has_name(&failed, SD_BUS_ERROR_NAME_HAS_NO_OWNER) ? 0 : r;
    r = sd_bus_message_read(reply, "s", &owner);
    if (r >= 0)
        watch->service = g_strdup(owner);
    return r;
}

static int
add_matches(VgpuWatch *watch, sd_bus *bus)
{
    int r = sd_bus_match_signal(bus, &watch->slots[0], LOCAL, LOCAL_PATH, LOCAL, "Disconnected",
                                on_disconnected, watch);
    if (r >= 0)
        r = sd_bus_add_match(bus, &watch->slots[1],
                             "type='signal',sender='" DRIVER "',path='" DRIVER_PATH "',interface='" DRIVER
                             "',"
                             "member='NameOwnerChanged',arg0='" VGPU_BUS_NAME "'",
                             on_owner, watch);
    if (r >= 0)
        r = sd_bus_match_signal(bus, &watch->slots[2], VGPU_BUS_NAME, VGPU_BUS_PATH, VGPU_BUS_INTERFACE,
                                "AssignmentRemoved", on_removed, watch);
    if (r >= 0)
        r = sd_bus_match_signal(bus, &watch->slots[3], VGPU_BUS_NAME, VGPU_BUS_PATH,
                                "org.freedesktop.DBus.Properties", "PropertiesChanged", on_changed, watch);
    return r;
}

VgpuWatch *
vgpu_watch_new(sd_bus *bus, const VgpuWatchFuncs *funcs, void *data, GError **error)
{
    g_autoptr(VgpuWatch) watch = g_new0(VgpuWatch, 1);
    watch->funcs = funcs;
    watch->data = data;

    int r = add_matches(watch, bus);
    if (r >= 0)
        r = find_service(watch, bus);
    if (r < 0) {
        g_set_error(error, VGPUCTL_ERROR, VGPUCTL_ERROR_FAILED,
                    "the service cannot be followed on the bus: %s", g_strerror(-r));
        return NULL;
    }
    return g_steal_pointer(&watch);
}

void
vgpu_watch_free(VgpuWatch *watch)
{
    for (size_t i = 0; i < G_N_ELEMENTS(watch->slots); i++)
        sd_bus_slot_unref(watch->slots[i]);
    g_free(watch->service);
    g_free(watch);
}
