/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "failure.h"

#include <stdio.h>

#include "error.h"

G_DEFINE_QUARK(vgpuctl - error - quark, vgpuctl_error)

static int
status_of_service_error(VgpuError code)
{
    switch (code) {
    case VGPU_ERROR_ACCESS_DENIED:
    case VGPU_ERROR_INTERACTIVE_AUTHORIZATION_REQUIRED:
        return VGPU_EXIT_NOT_AUTHORIZED;
    case VGPU_ERROR_NO_FRAMEWORK:
    case VGPU_ERROR_UNKNOWN_PROFILE:
    case VGPU_ERROR_NO_CAPACITY:
        return VGPU_EXIT_NOTHING_FITS;
    case VGPU_ERROR_IN_USE:
    case VGPU_ERROR_USAGE_UNKNOWN:
        return VGPU_EXIT_IN_USE;
    case VGPU_ERROR_UNKNOWN_ASSIGNMENT:
    case VGPU_ERROR_BUSY:
    case VGPU_ERROR_DEVICE_FAILED:
    case VGPU_ERROR_INVALID_ARGS:
    case VGPU_ERROR_LIMITS_EXCEEDED:
        break;
    }
    return VGPU_EXIT_FAILED;
}

int
vgpu_exit_status(const GError *error)
{
    if (error->domain == VGPU_ERROR)
        return status_of_service_error(error->code);
    if (g_error_matches(error, VGPUCTL_ERROR, VGPUCTL_ERROR_USAGE))
        return VGPU_EXIT_USAGE;
    return VGPU_EXIT_FAILED;
}

void
vgpu_say(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    g_autofree char *text = g_strdup_vprintf(format, arguments);
    va_end(arguments);

    g_autofree char *printable = vgpu_text_printable(text);
    /* A table that was printed before belongs above the sentence. */
    fflush(stdout);
    fprintf(stderr, "vgpuctl: %s\n", printable);
}
