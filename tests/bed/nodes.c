/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "bed-private.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

/* Knobs of the group nodes, and waiting for them. */

static Group *
group_get(Bed *bed, const char *where)
{
    Device *device = device_get(bed, where);

    if (!device->group)
        g_error("bed: %s has no IOMMU group", where);
    return device->group;
}

void
bed_open_fails(Bed *bed, const char *where, int error)
{
    g_mutex_lock(&bed->lock);
    group_get(bed, where)->open_error = error;
    g_mutex_unlock(&bed->lock);
}

void
bed_keep_busy(Bed *bed, const char *where, gboolean busy)
{
    Group *group;

    g_mutex_lock(&bed->lock);
    group = group_get(bed, where);
    group->kept_busy = busy;
    for (guint i = group->devices->len; !busy && i > 0; i--)
        mdev_unblock(bed, group->devices->pdata[i - 1]);
    g_cond_broadcast(&bed->changed);
    g_mutex_unlock(&bed->lock);
    bed_settle(bed);
}

void
bed_keep_busy_for(Bed *bed, const char *where, unsigned ms)
{
    g_mutex_lock(&bed->lock);
    group_get(bed, where)->busy_until = g_get_monotonic_time() + ms * (gint64)1000;
    g_mutex_unlock(&bed->lock);
}

void
bed_close_early(Bed *bed, const char *where, unsigned ms)
{
    g_mutex_lock(&bed->lock);
    group_get(bed, where)->close_lag_ms = ms;
    g_mutex_unlock(&bed->lock);
}

/* Really through the mount, so that the kernel knows of it. */
static char *
real_node(Bed *bed, const char *where)
{
    g_autofree char *node = bed_group_node(bed, where);

    if (!node)
        g_error("bed: %s has no group node", where);
    return bed_path(bed, node);
}

void
bed_chown_node(Bed *bed, const char *where, uid_t uid, gid_t gid)
{
    g_autofree char *path = real_node(bed, where);

    g_assert_no_errno(chown(path, uid, gid));
}

void
bed_reapply_mode(Bed *bed, const char *where, mode_t mode)
{
    g_autofree char *path = real_node(bed, where);
    Group *group;

    g_assert_no_errno(chmod(path, mode));
    g_mutex_lock(&bed->lock);
    group = group_get(bed, where);
    if (group->class_dev)
        herald_uevent(bed, group->class_dev, "change", NULL);
    g_mutex_unlock(&bed->lock);
    bed_settle(bed);
}

char *
bed_node_elsewhere(Bed *bed, const char *where)
{
    g_autofree char *name = NULL;
    char *path;
    Group *group;

    g_mutex_lock(&bed->lock);
    group = group_get(bed, where);
    if (!group->node)
        g_error("bed: %s has no group node", where);
    name = g_strdup_printf("%u", bed->elsewhere++);
    node_twin(bed, node_at(bed, "/elsewhere", TRUE), name, group->node);
    path = g_build_filename(bed->mount, "elsewhere", name, NULL);
    g_mutex_unlock(&bed->lock);
    return path;
}

static gboolean
group_is_open(Bed *bed, const char *where)
{
    Device *device = device_find(bed, where);
    Group *group = device ? device->group : NULL;

    if (!group)
        return FALSE;
    if (device->cdev_openings->len > 0)
        return TRUE;
    return group->opening || group->kept_busy || group->busy_until > g_get_monotonic_time();
}

gboolean
bed_wait_free(Bed *bed, const char *where, double seconds)
{
    gint64 deadline = bed_deadline(seconds);
    gboolean free;

    g_mutex_lock(&bed->lock);
    while (!(free = !group_is_open(bed, where)) && g_get_monotonic_time() < deadline)
        /* busy_until passes without a word. */
        g_cond_wait_until(&bed->changed, &bed->lock, MIN(deadline, g_get_monotonic_time() + 2000));
    g_mutex_unlock(&bed->lock);
    return free;
}
