/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib.h>

/* A virtual machine with a vGPU does not survive a suspend of its host: logind is asked to block sleep for as
 * long as there is a reason, and says when the host prepares to sleep all the same. Main thread. */
typedef struct _VgpuSleep VgpuSleep;

/* @inhibit FALSE: only listens. @resumed is called when the host is awake again. A host without logind never
 * sleeps as far as this knows. The caller frees it. */
VgpuSleep *vgpu_sleep_new(gboolean inhibit, void (*resumed)(gpointer user_data), gpointer user_data);
void vgpu_sleep_free(VgpuSleep *sleep);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(VgpuSleep, vgpu_sleep_free)

/* Blocks sleep for the reason @why, a sentence that logind shows to people; NULL: no longer. */
void vgpu_sleep_block(VgpuSleep *sleep, const char *why);

/* Whether the host prepares to sleep. */
gboolean vgpu_sleep_is_near(const VgpuSleep *sleep);
