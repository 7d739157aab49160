/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "memory.h"

/* What memory.c, which learns, and memory-text.c, which writes it down, share. */

typedef struct {
    GArray *devices;    /* of guint64, two a slot: its inode and that of what its driver made in it */
    GPtrArray *types;   /* of VgpuType: what the card has shown, with the sizes it told itself */
    gboolean whole;     /* it was seen empty, so that types are all */
    char *largest;      /* id of the largest undivided type while it was empty; NULL when unknown */
    VgpuNvmlCard *nvml; /* what NVML said of it; NULL when it did not */

    /* Not on disk: */
    gboolean asked;                 /* NVML was asked about it */
    const VgpuFramework *framework; /* of the last scan; NULL when it offers nothing */
    GPtrArray *known;               /* of VgpuType: all sources together */
} Seen;

struct _VgpuMemory {
    GHashTable *cards; /* address -> Seen */
    guint version;
};

Seen *memory_seen_new(void);
void memory_seen_free(Seen *seen);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Seen, memory_seen_free)
