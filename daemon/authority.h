/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "owners.h"

#include <gio/gio.h>
#include <glib.h>

/* polkit: asked for everyone, without blocking, cancelled when the caller goes. What cannot be answered is
 * denied; uid 0 alone passes when polkit cannot be reached. Main thread. */
typedef struct _VgpuAuthority VgpuAuthority;

VgpuAuthority *vgpu_authority_new(void);
void vgpu_authority_free(VgpuAuthority *authority);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(VgpuAuthority, vgpu_authority_free)

typedef struct {
    const char *action;
    gboolean interactive; /* a person may be asked: exactly when the message allows it */
    const char *profile;  /* for the dialog; no caller's free text. NULL for none */
    const char *gpu;
    guint waiting; /* how many others of the caller's user wait for an answer already */
} VgpuAuthorityQuestion;

/* Asks whether @caller may. @callback gets the task for vgpu_authority_check_finish(). */
void vgpu_authority_check_async(VgpuAuthority *authority, const VgpuCaller *caller,
                                const VgpuAuthorityQuestion *question, GCancellable *cancellable,
                                GAsyncReadyCallback callback, gpointer user_data);

/* TRUE: may. Else ACCESS_DENIED or INTERACTIVE_AUTHORIZATION_REQUIRED, with the reason; also when cancelled.
 */
gboolean vgpu_authority_check_finish(GAsyncResult *result, GError **error);
