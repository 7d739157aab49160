/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "bus.h"

#include "error.h"
#include "failure.h"

#define PROPERTIES "org.freedesktop.DBus.Properties"

/* What sd-bus takes for "no timeout"; 0 would be its default of 25 s. */
#define FOR_EVER UINT64_MAX

sd_bus *
vgpu_bus_open(const char *host, GError **error)
{
    g_autoptr(sd_bus) bus = NULL;

    int r =
        host ? sd_bus_open_system_remote(&bus, host) : sd_bus_open_system_with_description(&bus, "vgpuctl");
    /* The connection is made in the background: the first call would be told an errno alone. */
    if (r >= 0)
        r = sd_bus_get_unique_name(bus, &(const char *){NULL});
    if (r < 0) {
        g_set_error(error, VGPUCTL_ERROR, VGPUCTL_ERROR_FAILED, "the system bus%s%s cannot be reached: %s",
                    host ? " of " : "", host ? host : "", g_strerror(-r));
        return NULL;
    }
    return g_steal_pointer(&bus);
}

static bool
is_service_missing(const sd_bus_error *failed)
{
    return sd_bus_error_has_names(failed, SD_BUS_ERROR_SERVICE_UNKNOWN, SD_BUS_ERROR_NAME_HAS_NO_OWNER) ||
           g_str_has_prefix(failed->name, "org.freedesktop.DBus.Error.Spawn.") ||
           g_str_has_prefix(failed->name, "org.freedesktop.systemd1.");
}

void
vgpu_bus_set_error(GError **error, const sd_bus_error *failed, int errno_value)
{
    if (!failed || !sd_bus_error_is_set(failed)) {
        g_set_error(error, VGPUCTL_ERROR, VGPUCTL_ERROR_FAILED, "the bus failed: %s",
                    g_strerror(ABS(errno_value)));
        return;
    }
    const char *message = failed->message && *failed->message ? failed->message : failed->name;
    for (VgpuError code = 0; vgpu_error_bus_name(code); code++) {
        if (g_str_equal(failed->name, vgpu_error_bus_name(code))) {
            g_set_error_literal(error, VGPU_ERROR, code, message);
            return;
        }
    }
    if (is_service_missing(failed))
        g_set_error(error, VGPUCTL_ERROR, VGPUCTL_ERROR_FAILED,
                    "the service " VGPU_BUS_NAME " does not run and cannot be started: %s", message);
    else if (sd_bus_error_has_name(failed, SD_BUS_ERROR_NO_REPLY))
        g_set_error(error, VGPUCTL_ERROR, VGPUCTL_ERROR_FAILED,
                    "the service " VGPU_BUS_NAME " went away before it answered: %s", message);
    else
        g_set_error_literal(error, VGPUCTL_ERROR, VGPUCTL_ERROR_FAILED, message);
}

sd_bus_message *
vgpu_bus_new_call(sd_bus *bus, const char *member, bool may_ask, GError **error)
{
    g_autoptr(sd_bus_message) call = NULL;

    int r =
        sd_bus_message_new_method_call(bus, &call, VGPU_BUS_NAME, VGPU_BUS_PATH, VGPU_BUS_INTERFACE, member);
    if (r >= 0)
        r = sd_bus_message_set_allow_interactive_authorization(call, may_ask);
    if (r < 0) {
        vgpu_bus_set_error(error, NULL, r);
        return NULL;
    }
    return g_steal_pointer(&call);
}

sd_bus_message *
vgpu_bus_call(sd_bus *bus, sd_bus_message *call, GError **error)
{
    g_auto(sd_bus_error) failed = SD_BUS_ERROR_NULL;
    sd_bus_message *reply = NULL;

    int r = sd_bus_call(bus, call, FOR_EVER, &failed, &reply);
    if (r < 0) {
        vgpu_bus_set_error(error, &failed, r);
        return NULL;
    }
    return reply;
}

static sd_bus_message *
new_property_call(sd_bus *bus, const char *member, const char *property, GError **error)
{
    g_autoptr(sd_bus_message) call = NULL;

    int r = sd_bus_message_new_method_call(bus, &call, VGPU_BUS_NAME, VGPU_BUS_PATH, PROPERTIES, member);
    if (r >= 0)
        r = sd_bus_message_append(call, "s", VGPU_BUS_INTERFACE);
    if (r >= 0 && property)
        r = sd_bus_message_append(call, "s", property);
    if (r < 0) {
        vgpu_bus_set_error(error, NULL, r);
        return NULL;
    }
    return g_steal_pointer(&call);
}

GVariant *
vgpu_bus_get_all(sd_bus *bus, GError **error)
{
    g_autoptr(sd_bus_message) call = new_property_call(bus, "GetAll", NULL, error);
    g_autoptr(sd_bus_message) reply = call ? vgpu_bus_call(bus, call, error) : NULL;
    return reply ? vgpu_bus_read(reply, "a{sv}", error) : NULL;
}

/* What the variant in @reply, of Get, holds. */
static GVariant *
read_variant_of_type(sd_bus_message *reply, const char *type, GError **error)
{
    g_autoptr(GVariant) boxed = vgpu_bus_read(reply, "v", error);
    g_autoptr(GVariant) value = boxed ? g_variant_get_variant(boxed) : NULL;

    if (value && !g_variant_is_of_type(value, G_VARIANT_TYPE(type))) {
        g_set_error(error, VGPUCTL_ERROR, VGPUCTL_ERROR_FAILED,
                    "the service sent a property of the type %s where this vgpuctl knows %s",
                    g_variant_get_type_string(value), type);
        return NULL;
    }
    return g_steal_pointer(&value);
}

GVariant *
vgpu_bus_get(sd_bus *bus, const char *property, const char *type, GError **error)
{
    g_autoptr(sd_bus_message) call = new_property_call(bus, "Get", property, error);
    g_autoptr(sd_bus_message) reply = call ? vgpu_bus_call(bus, call, error) : NULL;
    return reply ? read_variant_of_type(reply, type, error) : NULL;
}

int
vgpu_bus_get_async(sd_bus *bus, const char *property, sd_bus_message_handler_t handler, void *data)
{
    g_autoptr(sd_bus_message) call = new_property_call(bus, "Get", property, NULL);
    if (!call)
        return -ENOMEM;
    int r = sd_bus_message_set_auto_start(call, false);
    return r < 0 ? r : sd_bus_call_async(bus, NULL, call, handler, data, FOR_EVER);
}

GVariant *
vgpu_bus_read_property(sd_bus_message *reply, const char *type)
{
    return sd_bus_message_is_method_error(reply, NULL) ? NULL : read_variant_of_type(reply, type, NULL);
}
