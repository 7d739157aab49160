/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib.h>

/* The exit statuses of vgpuctl; `run` passes its command's own once that was started. */
typedef enum {
    VGPU_EXIT_DONE = 0,
    VGPU_EXIT_FAILED = 1,
    VGPU_EXIT_USAGE = 2,
    VGPU_EXIT_NOT_AUTHORIZED = 3,
    VGPU_EXIT_NOTHING_FITS = 4,
    VGPU_EXIT_IN_USE = 5,
} VgpuExit;

/* What goes wrong in the client itself. What the service answers keeps its domain, VGPU_ERROR. */
#define VGPUCTL_ERROR vgpuctl_error_quark()

typedef enum {
    VGPUCTL_ERROR_FAILED,
    VGPUCTL_ERROR_USAGE,
} VgpuctlError;

GQuark vgpuctl_error_quark(void);

/* The exit status that stands for @error, of any domain. */
int vgpu_exit_status(const GError *error);

/* Prints `vgpuctl: ` and one sentence on stderr, made printable: it may hold text from the bus. */
void vgpu_say(const char *format, ...) G_GNUC_PRINTF(1, 2);
