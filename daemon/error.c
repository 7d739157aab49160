/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "error.h"

#define OWN "org.hypeman.VGPU1.Error."
#define STANDARD "org.freedesktop.DBus.Error."

static const char *const bus_names[] = {
    [VGPU_ERROR_NO_FRAMEWORK] = OWN "NoFramework",
    [VGPU_ERROR_UNKNOWN_PROFILE] = OWN "UnknownProfile",
    [VGPU_ERROR_NO_CAPACITY] = OWN "NoCapacity",
    [VGPU_ERROR_UNKNOWN_ASSIGNMENT] = OWN "UnknownAssignment",
    [VGPU_ERROR_IN_USE] = OWN "InUse",
    [VGPU_ERROR_USAGE_UNKNOWN] = OWN "UsageUnknown",
    [VGPU_ERROR_BUSY] = OWN "Busy",
    [VGPU_ERROR_DEVICE_FAILED] = OWN "DeviceFailed",
    [VGPU_ERROR_ACCESS_DENIED] = STANDARD "AccessDenied",
    [VGPU_ERROR_INTERACTIVE_AUTHORIZATION_REQUIRED] = STANDARD "InteractiveAuthorizationRequired",
    [VGPU_ERROR_INVALID_ARGS] = STANDARD "InvalidArgs",
    [VGPU_ERROR_LIMITS_EXCEEDED] = STANDARD "LimitsExceeded",
};

G_DEFINE_QUARK(vgpu - error - quark, vgpu_error)

const char *
vgpu_error_bus_name(VgpuError code)
{
    return code < G_N_ELEMENTS(bus_names) ? bus_names[code] : NULL;
}

void
vgpu_error_set_stopping(GError **error)
{
    g_set_error(error, VGPU_ERROR, VGPU_ERROR_BUSY, "the service is being stopped: try again later");
}

char *
vgpu_text_printable(const char *text)
{
    g_autofree char *valid = g_utf8_make_valid(text ? text : "", -1);
    GString *printable = g_string_new(NULL);

    for (const char *p = valid; *p; p = g_utf8_next_char(p)) {
        gunichar c = g_utf8_get_char(p);
        g_string_append_unichar(printable, g_unichar_iscntrl(c) ? ' ' : c);
    }
    return g_string_free(printable, FALSE);
}
