/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "bus.h"
#include "command.h"

G_DEFINE_AUTOPTR_CLEANUP_FUNC(sd_event, sd_event_unref)

/* One connection to the bus and the assignments that belong to it: they last as long as it does. */
typedef struct VgpuHold VgpuHold;

typedef struct {
    char *id;
    GVariant *assignment; /* a{sv}, as it was when it was taken */
} VgpuHeld;

/* Connects. @invocation must outlive the hold. */
VgpuHold *vgpu_hold_new(const VgpuInvocation *invocation, GError **error);

/* Closes the connection without waiting for what the service does then; for failures. */
void vgpu_hold_free(VgpuHold *hold);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(VgpuHold, vgpu_hold_free)

/* Takes one more vGPU as the invocation wants it. Blocks while a person is asked. */
bool vgpu_hold_assign(VgpuHold *hold, GError **error);

/* Takes the assignment @id over. */
bool vgpu_hold_adopt(VgpuHold *hold, const char *id, GError **error);

/* What is held, as VgpuHeld; the hold's. */
GPtrArray *vgpu_hold_held(const VgpuHold *hold);

/* The loop in which the hold hears what happens to it. */
sd_event *vgpu_hold_event(const VgpuHold *hold);

/* From now on what happens to the hold is said on stderr, each sentence ending in @consequence; @ended is
 * called, once, when nothing is held any more. */
void vgpu_hold_follow(VgpuHold *hold, const char *consequence, void (*ended)(VgpuHold *hold, void *data),
                      void *data);

/* How it ended by itself: done when it was released or taken over by somebody who may, failed when it was
 * lost or the bus went. */
int vgpu_hold_verdict(const VgpuHold *hold);

/* Closes the connection, waits until the service has taken back what was held, says what stays in use, and
 * returns the exit status that stands for it. */
int vgpu_hold_end(VgpuHold *hold);
