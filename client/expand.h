/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib.h>

/* What a command is told about the vGPUs it runs under. @held is the list of VgpuHeld, at least one. */

/* @words with {device}, {uuid} and {qemu} replaced; an argument with one of them comes once for each vGPU,
 * together with the option before it. Fails when a vGPU has no value for one that is used. */
char **vgpu_expand_command(GPtrArray *words, GPtrArray *held, GError **error);

/* @environment, which is taken over, with VGPU_… set: one value for each vGPU, separated by spaces. What the
 * vGPUs do not have is unset, and so is what was meant for vgpuctl alone: the service manager's socket and
 * watchdog. */
char **vgpu_expand_environment(char **environment, GPtrArray *held);
