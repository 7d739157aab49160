/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib.h>

/* Reading and writing the kernel's files below a directory that is held open, so that what was compared is
 * what is written. Every function may block in the kernel and may be called from any thread; a VgpuDir is
 * never changed once it is open. Errors are of VGPU_SYSFS_ERROR with the errno as code, and a message that
 * begins with the full path. */
#define VGPU_SYSFS_ERROR vgpu_sysfs_error_quark()
GQuark vgpu_sysfs_error_quark(void);

typedef struct {
    int fd;
    char *path;
    guint64 inode;
} VgpuDir;

/* How many opens have failed so far, in any thread, for want of descriptors or memory: what was not found
 * meanwhile may be there. */
guint vgpu_sysfs_shortages(void);

/* Opens the directory @path (absolute). The caller frees it. */
VgpuDir *vgpu_dir_open(const char *path, GError **error);

/* Opens the directory @name below @dir. The caller frees it. */
VgpuDir *vgpu_dir_open_at(const VgpuDir *dir, const char *name, GError **error);

void vgpu_dir_free(VgpuDir *dir);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(VgpuDir, vgpu_dir_free)

/* TRUE when @name, which may have slashes, exists below @dir. */
gboolean vgpu_dir_has(const VgpuDir *dir, const char *name);

/* The whole content of file @name, 1 MiB at the most, NUL terminated; @ret_length may be NULL. */
char *vgpu_dir_read(const VgpuDir *dir, const char *name, gsize *ret_length, GError **error);

/* As vgpu_dir_read(), without white space at both ends. */
char *vgpu_dir_read_word(const VgpuDir *dir, const char *name, GError **error);

/* Writes @value in one write(2). FALSE means that the kernel refused; the message has path and value. */
gboolean vgpu_dir_write(const VgpuDir *dir, const char *name, const char *value, GError **error);

/* Opens file @name for writing, for somebody else who does the write(2). The caller closes it. */
int vgpu_dir_open_for_write(const VgpuDir *dir, const char *name, GError **error);

/* The last part of what the link @name points at, as "38" for iommu_group. */
char *vgpu_dir_link(const VgpuDir *dir, const char *name, GError **error);

/* Names in directory @name (which may be "."), without dot files, sorted by strcmp. Free with g_strfreev().
 */
char **vgpu_dir_list(const VgpuDir *dir, const char *name, GError **error);

/* Sets @error to VGPU_SYSFS_ERROR for @err, a positive errno: "<dir>/<name>: <text>". */
void vgpu_dir_set_error(GError **error, const VgpuDir *dir, const char *name, int err);
