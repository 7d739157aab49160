/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "bed-private.h"

#include <errno.h>
#include <string.h>

/* What is there, without the mount; single files; and what other tools do. */

gboolean
bed_exists(Bed *bed, const char *where)
{
    gboolean there;

    g_mutex_lock(&bed->lock);
    there = device_find(bed, where) != NULL;
    g_mutex_unlock(&bed->lock);
    return there;
}

unsigned
bed_vf_type(Bed *bed, const char *vf)
{
    unsigned type;

    g_mutex_lock(&bed->lock);
    type = device_get(bed, vf)->type;
    g_mutex_unlock(&bed->lock);
    return type;
}

static unsigned
vfs_set(Bed *bed, const char *card)
{
    unsigned n = 0;
    GHashTableIter iter;
    gpointer data;

    g_hash_table_iter_init(&iter, bed->devices);
    while (g_hash_table_iter_next(&iter, NULL, &data))
        n += ((Device *)data)->type != 0 && device_matches(data, card);
    return n;
}

static unsigned
count_mdevs(Bed *bed, const char *parent)
{
    unsigned n = 0;
    GHashTableIter iter;
    gpointer data;

    g_hash_table_iter_init(&iter, bed->devices);
    while (g_hash_table_iter_next(&iter, NULL, &data))
        n += ((Device *)data)->kind == DEVICE_MDEV && device_matches(data, parent);
    return n;
}

static unsigned
type_of_vf(Bed *bed, const char *vf)
{
    Device *device = device_find(bed, vf);

    return device ? device->type : G_MAXUINT;
}

unsigned
bed_vfs_set(Bed *bed, const char *card)
{
    unsigned n;

    g_mutex_lock(&bed->lock);
    n = vfs_set(bed, card);
    g_mutex_unlock(&bed->lock);
    return n;
}

/* Until @count of @where is @n. Whatever changes it wakes us: a write, its answer, a hand. */
static gboolean
wait_count(Bed *bed, unsigned (*count)(Bed *bed, const char *where), const char *where, unsigned n,
           double seconds)
{
    gint64 deadline = bed_deadline(seconds);
    gboolean reached;

    g_mutex_lock(&bed->lock);
    while (!(reached = count(bed, where) == n))
        if (!g_cond_wait_until(&bed->changed, &bed->lock, deadline))
            break;
    reached = reached || count(bed, where) == n;
    g_mutex_unlock(&bed->lock);
    return reached;
}

gboolean
bed_wait_type(Bed *bed, const char *vf, unsigned type, double seconds)
{
    return wait_count(bed, type_of_vf, vf, type, seconds);
}

gboolean
bed_wait_vfs_set(Bed *bed, const char *card, unsigned n, double seconds)
{
    return wait_count(bed, vfs_set, card, n, seconds);
}

gboolean
bed_wait_mdevs(Bed *bed, const char *parent, unsigned n, double seconds)
{
    return wait_count(bed, count_mdevs, parent, n, seconds);
}

char **
bed_vfs(Bed *bed, const char *card)
{
    GPtrArray *names = g_ptr_array_new();
    Device *device;

    g_mutex_lock(&bed->lock);
    device = device_get(bed, card);
    for (guint i = 0; device->vfs && i < device->vfs->len; i++)
        g_ptr_array_add(names, g_strdup(((Device *)device->vfs->pdata[i])->name));
    g_mutex_unlock(&bed->lock);
    g_ptr_array_add(names, NULL);
    return (char **)g_ptr_array_free(names, FALSE);
}

static int
compare_names(gconstpointer a, gconstpointer b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

char **
bed_mdevs(Bed *bed, const char *parent)
{
    GPtrArray *names = g_ptr_array_new();
    GHashTableIter iter;
    gpointer data;

    g_mutex_lock(&bed->lock);
    g_hash_table_iter_init(&iter, bed->devices);
    while (g_hash_table_iter_next(&iter, NULL, &data)) {
        Device *mdev = data;

        if (mdev->kind == DEVICE_MDEV && device_matches(mdev, parent))
            g_ptr_array_add(names, g_strdup(mdev->name));
    }
    g_mutex_unlock(&bed->lock);
    g_ptr_array_sort(names, compare_names);
    g_ptr_array_add(names, NULL);
    return (char **)g_ptr_array_free(names, FALSE);
}

const char *
bed_mdev_type(Bed *bed, const char *uuid)
{
    Device *mdev;
    const char *type;

    g_mutex_lock(&bed->lock);
    mdev = device_find(bed, uuid);
    type = mdev && mdev->mdev_type ? mdev->mdev_type->sysfs : NULL;
    g_mutex_unlock(&bed->lock);
    return type;
}

int
bed_group(Bed *bed, const char *where)
{
    Device *device;
    int number;

    g_mutex_lock(&bed->lock);
    device = device_get(bed, where);
    number = device->group ? (int)device->group->number : -1;
    g_mutex_unlock(&bed->lock);
    return number;
}

char *
bed_group_node(Bed *bed, const char *where)
{
    Device *device;
    char *path;

    g_mutex_lock(&bed->lock);
    device = device_get(bed, where);
    path = device->group && device->group->node ? node_path(device->group->node) : NULL;
    g_mutex_unlock(&bed->lock);
    return path;
}

char *
bed_device_node(Bed *bed, const char *where)
{
    Device *device;
    char *path;

    g_mutex_lock(&bed->lock);
    device = device_get(bed, where);
    path = device->cdev ? node_path(device->cdev) : NULL;
    g_mutex_unlock(&bed->lock);
    return path;
}

/* ---- Single files ---- */

/* "/sys/…" as it is, or below the device that @path begins with. */
static Node *
node_of_path(Bed *bed, const char *path)
{
    g_auto(GStrv) parts = NULL;
    Node *node;

    if (*path == '/')
        return node_at(bed, path, FALSE);
    parts = g_strsplit(path, "/", -1);
    node = device_get(bed, parts[0])->dir;
    for (guint i = 1; node && parts[i]; i++)
        if (*parts[i])
            node = node_child(node, parts[i]);
    return node;
}

static Node *
node_must(Bed *bed, const char *path)
{
    Node *node = node_of_path(bed, path);

    if (!node)
        g_error("bed: there is no %s", path);
    return node;
}

char *
bed_path(Bed *bed, const char *path)
{
    g_autofree char *canonical = NULL;

    if (*path == '/')
        return g_strconcat(bed->root, path, NULL);
    g_mutex_lock(&bed->lock);
    {
        g_auto(GStrv) parts = g_strsplit(path, "/", 2);
        g_autofree char *device = node_path(device_get(bed, parts[0])->dir);

        canonical = parts[1] ? g_build_filename(device, parts[1], NULL) : g_strdup(device);
    }
    g_mutex_unlock(&bed->lock);
    return g_strconcat(bed->root, canonical, NULL);
}

uint64_t
bed_inode(Bed *bed, const char *path)
{
    Node *node;
    uint64_t inode;

    g_mutex_lock(&bed->lock);
    node = node_of_path(bed, path);
    inode = node ? node->ino : 0;
    g_mutex_unlock(&bed->lock);
    return inode;
}

void
bed_attribute_says(Bed *bed, const char *path, const char *text)
{
    Node *node;

    g_mutex_lock(&bed->lock);
    node = node_must(bed, path);
    g_free(node->says);
    node->says = g_strdup(text);
    g_mutex_unlock(&bed->lock);
}

void
bed_attribute_fails(Bed *bed, const char *path, int error)
{
    g_mutex_lock(&bed->lock);
    node_must(bed, path)->fails = error;
    g_mutex_unlock(&bed->lock);
}

void
bed_uevent(Bed *bed, const char *path, const char *action)
{
    g_mutex_lock(&bed->lock);
    herald_uevent(bed, node_must(bed, path), action, NULL);
    g_mutex_unlock(&bed->lock);
    bed_settle(bed);
}

void
bed_mute_uevents(Bed *bed, gboolean mute)
{
    g_mutex_lock(&bed->lock);
    bed->muted = mute;
    g_mutex_unlock(&bed->lock);
}

/* ---- By hand ---- */

int
bed_set_by_hand(Bed *bed, const char *vf, unsigned type)
{
    int r;

    g_mutex_lock(&bed->lock);
    r = vendor_set(bed, device_get(bed, vf), type);
    g_cond_broadcast(&bed->changed);
    g_mutex_unlock(&bed->lock);
    return r;
}

int
bed_create_by_hand(Bed *bed, const char *parent, const char *type, const char *uuid)
{
    Device *device;
    Type *found = NULL;
    int r;

    g_mutex_lock(&bed->lock);
    device = device_get(bed, parent);
    for (guint i = 0; i < device->card->types->len; i++)
        if (strcmp(((Type *)device->card->types->pdata[i])->sysfs, type) == 0)
            found = device->card->types->pdata[i];
    if (!found || !device->types_dir)
        g_error("bed: %s has no type %s", parent, type);
    r = mdev_create(bed, device, found, uuid);
    g_cond_broadcast(&bed->changed);
    g_mutex_unlock(&bed->lock);
    bed_settle(bed);
    return r;
}

int
bed_remove_by_hand(Bed *bed, const char *uuid)
{
    Device *mdev;
    int r = 0;

    g_mutex_lock(&bed->lock);
    mdev = device_find(bed, uuid);
    if (!mdev)
        r = -ENOENT;
    else if (device_is_referenced(mdev) || mdev->removers->len > 0)
        r = -EBUSY;
    else
        mdev_remove(bed, mdev);
    g_cond_broadcast(&bed->changed);
    g_mutex_unlock(&bed->lock);
    bed_settle(bed);
    return r;
}
