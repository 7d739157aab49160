/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib.h>

/* One dictionary of a list that came, went or changed. */
typedef struct {
    char *name;       /* the value of its naming key */
    GVariant *before; /* a{sv}: NULL when it came; else all of it when it went, or the keys that changed */
    GVariant *after;  /* the same, NULL when it went; a key that is missing in one of the two was not there */
} VgpuChange;

/* What differs between two lists (aa{sv}) whose dictionaries are told apart by the string at @key: first what
 * went, then what changed or came in the order of @after. A list of VgpuChange, which frees them. */
GPtrArray *vgpu_diff(GVariant *before, GVariant *after, const char *key);
