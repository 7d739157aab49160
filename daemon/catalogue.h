/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib.h>

/* One line of `creatable_vgpu_types`: a type that can be set on this virtual function now. */
typedef struct {
    guint32 id; /* never 0: writing 0 clears */
    char *name; /* printable, never empty */
} VgpuCatalogueRow;

void vgpu_catalogue_row_free(VgpuCatalogueRow *row);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(VgpuCatalogueRow, vgpu_catalogue_row_free)

/* Reads the @length bytes of @text, which need not end with a NUL, and gives the rows in their order (the
 * array owns them, the caller owns the array; never NULL). A row is `ID : NAME`, parted at the first colon;
 * the header may be missing or read otherwise, lines may end with CR LF. A row that cannot be understood is
 * skipped and counted in @ret_bad_rows (may be NULL): no decimal id from 1 to 2^32-1, no name, a name over
 * 255 bytes, a NUL byte, an id seen before with another name (the first wins). Pure; any thread. */
GPtrArray *vgpu_catalogue_parse(const char *text, gsize length, guint *ret_bad_rows);
