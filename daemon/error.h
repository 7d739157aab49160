/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib.h>

/* What can go wrong, in the words of the D-Bus interface. One GError domain for the whole daemon; service
 * maps each code to its bus name in one place. The message of every such error is one sentence that can be
 * shown to a person: it names the thing, the value and the way out. */
#define VGPU_ERROR vgpu_error_quark()

typedef enum {
    VGPU_ERROR_NO_FRAMEWORK,
    VGPU_ERROR_UNKNOWN_PROFILE,
    VGPU_ERROR_NO_CAPACITY,
    VGPU_ERROR_UNKNOWN_ASSIGNMENT,
    VGPU_ERROR_IN_USE,
    VGPU_ERROR_USAGE_UNKNOWN,
    VGPU_ERROR_BUSY,
    VGPU_ERROR_DEVICE_FAILED,
    VGPU_ERROR_ACCESS_DENIED,
    VGPU_ERROR_INTERACTIVE_AUTHORIZATION_REQUIRED,
    VGPU_ERROR_INVALID_ARGS,
    VGPU_ERROR_LIMITS_EXCEEDED,
} VgpuError;

GQuark vgpu_error_quark(void);

/* The D-Bus error name of @code, a static string; NULL for a code that does not exist. */
const char *vgpu_error_bus_name(VgpuError code);

/* BUSY: nothing is started any more, as the service ends. */
void vgpu_error_set_stopping(GError **error);

/* @text (or "" for NULL) as valid UTF-8 without control characters: bad bytes become U+FFFD, control
 * characters a space. For text that comes from the kernel, a process or a caller, before it goes to the bus,
 * the log or a terminal. The caller frees it. */
char *vgpu_text_printable(const char *text);
