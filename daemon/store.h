/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "assignments.h"

#include <glib.h>

/* The state file in the runtime directory: what was handed out, so that a service killed at any instruction
 * finds it again. The format is private and versioned; a checksum tells a whole file from a torn one. The
 * file is replaced atomically. Main thread. */
typedef struct _VgpuStore VgpuStore;

/* @directory: the runtime directory, made when missing. The caller frees the store. */
VgpuStore *vgpu_store_new(const char *directory, GError **error);
void vgpu_store_free(VgpuStore *store);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(VgpuStore, vgpu_store_free)

/* Where it is, and of which boot; borrowed. */
const char *vgpu_store_directory(const VgpuStore *store);
const char *vgpu_store_boot_id(const VgpuStore *store);

/* Takes the lock file, so that no second service runs on the same state: FALSE with an error when another
 * process has it. Held until the process ends. */
gboolean vgpu_store_lock(VgpuStore *store, GError **error);

/* What the records are valid for. */
typedef struct {
    gboolean same_boot; /* FALSE: the host was booted since, the file is void */
    gboolean same_bus;  /* FALSE: another bus; all owners have vanished */
} VgpuStoreAge;

/* Adds the records of the file to @assignments. A missing file is an empty one. FALSE: the file could not be
 * understood; it was set aside under another name, which the error tells, and nothing was added. Records of
 * another boot are not added. @bus_id: of the bus as it is now. */
gboolean vgpu_store_load(VgpuStore *store, const char *bus_id, VgpuAssignments *assignments,
                         VgpuStoreAge *ret_age, GError **error);

/* Replaces the file with what @assignments says now. After a failure the old file still stands. */
gboolean vgpu_store_save(VgpuStore *store, const char *bus_id, VgpuAssignments *assignments, GError **error);

/* A mark on disk: for assignment @id a write is under way that must not be repeated as long as nobody knows
 * what came of it. A load drops the marks of all but those that are being released. Any thread. */
gboolean vgpu_store_mark(VgpuStore *store, const char *id, GError **error);
void vgpu_store_unmark(VgpuStore *store, const char *id);
gboolean vgpu_store_is_marked(VgpuStore *store, const char *id);

/* The text of the file, and back; for the two functions above and for tests. @boot_id is the host's. */
char *vgpu_store_format(VgpuAssignments *assignments, const char *boot_id, const char *bus_id);
gboolean vgpu_store_parse(const char *text, gsize length, const char *boot_id, const char *bus_id,
                          VgpuAssignments *assignments, VgpuStoreAge *ret_age, GError **error);
