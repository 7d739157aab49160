/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib.h>

/* What /etc/hypeman-vgpu.conf says, with the default wherever it says nothing. A plain value. */
typedef struct {
    GPtrArray *cards; /* addresses (char *, kernel spelling) of the only cards to manage; NULL: all cards */
    gboolean pack;    /* Placement=pack; else spread */
    guint max_assignments_per_user;
    guint max_pending_per_user;
    gboolean inhibit_sleep;
} VgpuConfig;

void vgpu_config_free(VgpuConfig *config);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(VgpuConfig, vgpu_config_free)

/* The defaults. */
VgpuConfig *vgpu_config_new(void);

/* Reads the file at @path. There is always a configuration (the caller frees it): a missing file is the
 * defaults without a word; a file that cannot be read is the defaults and a warning. @ret_warnings (may be
 * NULL) gets an array of sentences (char *, owned by the array, which the caller owns), each with the file,
 * and the key and value or line that it is about; empty if all was well. */
VgpuConfig *vgpu_config_load(const char *path, GPtrArray **ret_warnings);

/* The same for @length bytes of @text, which need not end with a NUL; @path is only for the warnings.
 *
 * An unknown section or key, a bad value or a line that is none of those is a warning, and the default stays.
 * Not so for Cards=: a mistyped address there must not hand over the cards that were meant to be left alone,
 * so the good addresses count, and if there are none (and the value was not empty) no card is managed. */
VgpuConfig *vgpu_config_parse(const char *text, gsize length, const char *path, GPtrArray **ret_warnings);

/* Whether the card at @address (any spelling) is this service's to manage. */
gboolean vgpu_config_manages(const VgpuConfig *config, const char *address);
