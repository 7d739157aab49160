/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "capacity.h"

#include <glib.h>

/* Where a vGPU would go: a scan and a request in, a candidate or reasons out. Pure; main thread. */

typedef enum {
    VGPU_POLICY_DEFAULT, /* as configured */
    VGPU_POLICY_SPREAD,  /* the card with the least assigned framebuffer */
    VGPU_POLICY_PACK,    /* the fullest card that still takes it */
} VgpuPolicy;

/* What a caller asks for. All strings may be NULL but profile. */
typedef struct {
    char *profile; /* as the caller spells it */
    char *gpu;     /* address of the only card, kernel spelling */
    char *device;  /* of the only virtual function or parent */
    VgpuPolicy policy;
    gboolean has_numa_node;
    int numa_node;
    char *uuid;
    char *label;
    gboolean for_root; /* the caller's uid is 0 */
    char *asked;       /* the exact name that polkit was asked about; NULL when none was known */
} VgpuRequest;

VgpuRequest *vgpu_request_new(const char *profile);
VgpuRequest *vgpu_request_copy(const VgpuRequest *request);
void vgpu_request_free(VgpuRequest *request);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(VgpuRequest, vgpu_request_free)

/* What has been tried for one request already; sets of char *, NULL for none. */
typedef struct {
    GHashTable *slots;
    GHashTable *cards;
} VgpuTried;

typedef struct {
    const VgpuCard *card;
    const VgpuSlot *slot;
    const VgpuType *type;
} VgpuCandidate;

/* The exact name of the profile that @argument means: the name itself, one short spelling, or a type id with
 * one name on all cards that know it. NULL without an error when a card of which not all is known could still
 * have it. Errors: NO_FRAMEWORK, UNKNOWN_PROFILE with near names, INVALID_ARGS when it means several.
 * The caller frees it. */
char *vgpu_placement_resolve(const VgpuHost *host, const char *argument, GError **error);

/* The next candidate for profile @name (NULL: none can be found). FALSE when there is none; then
 * *@ret_reasons, which may be NULL, is a new table of card address -> sentence. */
gboolean vgpu_placement_choose(const VgpuHost *host, const VgpuRequest *request, const char *name,
                               VgpuPolicy policy, const VgpuTried *tried, VgpuCandidate *ret_candidate,
                               GHashTable **ret_reasons);

/* How many more of profile @name fit on the cards that @request allows; FALSE when that is unknown. */
gboolean vgpu_placement_remaining(const VgpuHost *host, const VgpuRequest *request, const char *name,
                                  guint *ret_count);

/* All profile names that a card shows or has shown, each once, as people count. Array of char *, owned. */
GPtrArray *vgpu_placement_names(const VgpuHost *host);
