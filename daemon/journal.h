/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "assignments.h"

/* One structured journal line per change: who took what, when, and why it ended. */
#define VGPU_MESSAGE_ASSIGNED "46e202adf2cf4deba76a7cce8a16d49f"
#define VGPU_MESSAGE_ADOPTED "e77ae458bceb4bb88abfe2dad89c986b"
#define VGPU_MESSAGE_LINGERING "214dd9569e034954a98d0ac990eb4a8d"
#define VGPU_MESSAGE_FAILED "152536ce04e74fa89da673ca7a2ea149"
#define VGPU_MESSAGE_ENDED "b0da79a37e7c422d919ce038448c8010"

/* Writes the line of @message_id for @assignment, with the fields VGPU_ID, VGPU_PROFILE, VGPU_DEVICE,
 * VGPU_UID, VGPU_OWNER, VGPU_REASON and VGPU_RESULT. @reason and @result may be NULL. Any thread. */
void vgpu_journal_change(const char *message_id, const VgpuAssignment *assignment, const char *reason,
                         const char *result);
