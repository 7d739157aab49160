/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "bed-private.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

/* /etc/mdevctl.d of this mount namespace. Where the real /etc has none there is nothing to mount on, and
 * making it would leave it behind: then /etc becomes a tmpfs with the real entries mounted into it. */

#define DEFINITIONS "/etc/mdevctl.d"

static void
take_over_entry(const char *from, const char *name)
{
    g_autofree char *source = g_build_filename(from, name, NULL);
    g_autofree char *target = g_build_filename("/etc", name, NULL);
    struct stat st;

    if (lstat(source, &st) < 0)
        return;
    if (S_ISLNK(st.st_mode)) {
        g_autofree char *link = g_file_read_link(source, NULL);

        g_assert_no_errno(symlink(link, target));
        return;
    }
    if (S_ISDIR(st.st_mode))
        g_assert_no_errno(mkdir(target, 0755));
    else
        g_assert_true(g_file_set_contents(target, "", 0, NULL));
    g_assert_no_errno(mount(source, target, NULL, MS_BIND | MS_REC, NULL));
}

static void
replace_etc(Bed *bed)
{
    g_autofree char *real = g_build_filename(bed->root, "etc", NULL);
    g_autoptr(GDir) dir = NULL;
    const char *name;

    g_assert_no_errno(mkdir(real, 0755));
    g_assert_no_errno(mount("/etc", real, NULL, MS_BIND | MS_REC, NULL));
    dir = g_dir_open(real, 0, NULL);
    g_assert_nonnull(dir);
    g_assert_no_errno(mount("etc", "/etc", "tmpfs", MS_NOSUID, "mode=0755"));
    g_ptr_array_add(bed->binds, g_strdup(real));
    g_ptr_array_add(bed->binds, g_strdup("/etc"));
    while ((name = g_dir_read_name(dir)))
        take_over_entry(real, name);
    g_assert_no_errno(mkdir(DEFINITIONS, 0755));
}

static gboolean
is_ours(Bed *bed)
{
    for (guint i = 0; i < bed->binds->len; i++)
        if (strcmp(bed->binds->pdata[i], "/etc") == 0 || strcmp(bed->binds->pdata[i], DEFINITIONS) == 0)
            return TRUE;
    return FALSE;
}

void
bed_define_mdev(Bed *bed, const char *parent, const char *uuid, const char *json)
{
    g_autofree char *dir = g_build_filename(DEFINITIONS, parent, NULL);
    g_autofree char *file = g_build_filename(dir, uuid, NULL);
    struct stat st;

    if (!json)
        json = "{\n  \"mdev_type\": \"nvidia-231\",\n  \"start\": \"manual\",\n  \"attrs\": []\n}\n";
    if (!is_ours(bed)) {
        if (stat(DEFINITIONS, &st) < 0) {
            replace_etc(bed);
        } else {
            g_assert_no_errno(mount("mdevctl", DEFINITIONS, "tmpfs", MS_NOSUID, "mode=0755"));
            g_ptr_array_add(bed->binds, g_strdup(DEFINITIONS));
        }
    }
    if (mkdir(dir, 0755) < 0)
        g_assert_cmpint(errno, ==, EEXIST);
    g_assert_true(g_file_set_contents(file, json, -1, NULL));
}
