/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "bed-private.h"
#include "world.h"

#include <errno.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

double
bed_slow(void)
{
    const char *text = g_getenv("VGPU_TEST_SLOW");
    double slow = text ? g_ascii_strtod(text, NULL) : 1;

    return slow >= 1 ? slow : 1;
}

gint64
bed_deadline(double seconds)
{
    return g_get_monotonic_time() + (gint64)(seconds * bed_slow() * G_USEC_PER_SEC);
}

/* ---- What a process on the bed needs ---- */

static int
find_sanitizer(struct dl_phdr_info *info, size_t size, void *data)
{
    char **ret_path = data;

    if (!*ret_path && strstr(info->dlpi_name, "libasan.so"))
        *ret_path = g_strdup(info->dlpi_name);
    return 0;
}

char *
bed_preload(void)
{
    g_autofree char *sanitizer = NULL;

    /* Where we have the sanitizer as a library, so has what we start, and it must come first. */
    dl_iterate_phdr(find_sanitizer, &sanitizer);
    return g_strconcat(sanitizer ? sanitizer : "", sanitizer ? ":" : "", BED_PRELOAD ":" BED_UMOCKDEV, NULL);
}

char **
bed_environ(Bed *bed, char **base)
{
    char **environment = base ? g_strdupv(base) : g_get_environ();
    g_autofree char *preload = bed_preload();

    environment = g_environ_setenv(environment, "UMOCKDEV_DIR", bed->root, TRUE);
    return g_environ_setenv(environment, "LD_PRELOAD", preload, TRUE);
}

const char *
bed_root(Bed *bed)
{
    return bed->root;
}

void
bed_settle(Bed *bed)
{
    herald_settle(bed->herald);
}

/* ---- Making and unmaking ---- */

static void
make_dir(const char *parent, const char *name)
{
    g_autofree char *path = g_build_filename(parent, name, NULL);

    if (mkdir(path, 0755) < 0)
        g_error("bed: %s cannot be made: %s", path, g_strerror(errno));
}

static void
bind_into_root(Bed *bed, const char *path)
{
    g_autofree char *from = g_strconcat(bed->mount, path, NULL);
    g_autofree char *to = g_strconcat(bed->root, path, NULL);

    if (mount(from, to, NULL, MS_BIND, NULL) < 0)
        g_error("bed: %s cannot be mounted on %s: %s", from, to, g_strerror(errno));
}

static void
make_skeleton(Bed *bed)
{
    static const char *const dirs[] = {
        "/sys/bus/pci/devices",     "/sys/bus/pci/drivers", "/sys/class/vfio-dev", "/sys/devices/virtual",
        "/sys/kernel/iommu_groups", "/sys/module",          "/dev/vfio",
    };

    bed->tree = node_dir(bed, NULL, "");
    for (guint i = 0; i < G_N_ELEMENTS(dirs); i++)
        node_at(bed, dirs[i], TRUE);
    if (!bed->options.no_groups) {
        node_at(bed, "/sys/class/vfio", TRUE);
        node_device(bed, node_at(bed, "/dev/vfio", TRUE), "vfio", NODE_CONTAINER, 0666, NULL);
    }
    if (bed->options.cdev)
        node_at(bed, "/dev/vfio/devices", TRUE);
    if (bed->options.mdev_bus)
        node_at(bed, "/sys/class/mdev_bus", TRUE);
}

/* Nodes of the bed that are plain files beside the mount, with the numbers that the preload shows. */
static void
make_plain_node(Bed *bed, const char *name, const char *link_name, const char *number, mode_t mode)
{
    g_autofree char *link = g_build_filename(bed->root, "dev", ".node", link_name, NULL);

    g_assert_no_errno(symlink(number, link));
    if (name) {
        g_autofree char *path = g_build_filename(bed->root, "dev", name, NULL);

        g_assert_true(g_file_set_contents(path, "", 0, NULL));
        g_assert_no_errno(chmod(path, mode));
    }
}

static void
device_free(gpointer data)
{
    Device *device = data;

    g_clear_pointer(&device->cdev_openings, g_ptr_array_unref);
    g_clear_pointer(&device->vfs, g_ptr_array_unref);
    g_clear_pointer(&device->mdevs, g_ptr_array_unref);
    g_clear_pointer(&device->removers, g_ptr_array_unref);
    g_free(device->catalogue);
    g_free(device->params);
    g_free(device->name);
    g_free(device);
}

static void
group_free(gpointer data)
{
    Group *group = data;

    g_ptr_array_unref(group->devices);
    g_free(group);
}

Bed *
bed_new(const BedOptions *options)
{
    static unsigned count;
    Bed *bed = g_new0(Bed, 1);
    const char *world = world_dir();
    sigset_t all, before;

    if (!world)
        g_error("bed: bed_new() works below bed_main() only");
    if (options)
        bed->options = *options;
    bed->options.cdev |= bed->options.no_groups;
    g_mutex_init(&bed->lock);
    g_cond_init(&bed->changed);
    /* Short: the monitors' socket names have to fit into 108 bytes. */
    bed->root = g_strdup_printf("%s/bed%u", world, ++count);
    bed->mount = g_build_filename(bed->root, "k", NULL);
    bed->nodes = g_hash_table_new_full(g_int64_hash, g_int64_equal, NULL, (GDestroyNotify)node_free);
    bed->devices = g_hash_table_new(g_str_hash, g_str_equal);
    bed->graveyard = g_ptr_array_new_with_free_func(device_free);
    bed->old_groups = g_ptr_array_new_with_free_func(group_free);
    bed->groups = g_ptr_array_new();
    bed->openings = g_hash_table_new_full(NULL, NULL, opening_free, NULL);
    bed->type_lists = g_ptr_array_new_with_free_func((GDestroyNotify)g_ptr_array_unref);
    bed->parked = g_ptr_array_new();
    bed->trace = g_ptr_array_new_with_free_func((GDestroyNotify)trace_entry_free);
    bed->violations = g_ptr_array_new_with_free_func(g_free);
    bed->holders = g_ptr_array_new();
    bed->binds = g_ptr_array_new_with_free_func(g_free);

    make_dir(world, strrchr(bed->root, '/') + 1);
    /* Monitors of any user make their sockets here. */
    g_assert_no_errno(chmod(bed->root, 01777));
    make_dir(bed->root, "k");
    make_dir(bed->root, "sys");
    make_dir(bed->root, "dev");
    make_dir(bed->root, "dev/vfio");
    make_dir(bed->root, "dev/.node");
    make_skeleton(bed);
    if (!bed->options.no_groups)
        make_plain_node(bed, NULL, "vfio_vfio", "10:196", 0);
    if (bed->options.cdev)
        make_plain_node(bed, "iommu", "iommu", "10:127", 0660);

    /* Signals are for the test, not for these threads. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bed->clock = clock_new(bed);
    bed->herald = herald_new(bed);
    bed->door = door_new(bed->root);
    driver_start(bed);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    bind_into_root(bed, "/sys");
    bind_into_root(bed, "/dev/vfio");
    return bed;
}

static void
unmount_all(Bed *bed)
{
    g_autofree char *sys = g_build_filename(bed->root, "sys", NULL);
    g_autofree char *vfio = g_build_filename(bed->root, "dev/vfio", NULL);

    for (guint i = bed->binds->len; i > 0; i--)
        umount2(bed->binds->pdata[i - 1], MNT_DETACH);
    umount2(vfio, MNT_DETACH);
    umount2(sys, MNT_DETACH);
    umount2(bed->mount, MNT_DETACH);
}

void
bed_free(Bed *bed)
{
    if (!bed)
        return;
    while (bed->holders->len > 0)
        bed_kill_holder(bed->holders->pdata[0]);
    g_mutex_lock(&bed->lock);
    writes_abandon(bed);
    g_mutex_unlock(&bed->lock);
    unmount_all(bed);
    clock_free(bed->clock);
    herald_free(bed->herald);
    door_free(bed->door);
    driver_stop(bed);
    world_remove(bed->root);

    for (guint i = 0; i < bed->groups->len; i++)
        group_free(bed->groups->pdata[i]);
    g_ptr_array_unref(bed->groups);
    g_ptr_array_unref(bed->old_groups);
    g_ptr_array_unref(bed->parked);
    g_hash_table_unref(bed->openings);
    g_hash_table_unref(bed->devices);
    g_ptr_array_unref(bed->graveyard);
    g_hash_table_unref(bed->nodes);
    g_ptr_array_unref(bed->type_lists);
    g_ptr_array_unref(bed->trace);
    g_ptr_array_unref(bed->violations);
    g_ptr_array_unref(bed->holders);
    g_ptr_array_unref(bed->binds);
    g_clear_pointer(&bed->faults, g_ptr_array_unref);
    g_cond_clear(&bed->changed);
    g_mutex_clear(&bed->lock);
    g_free(bed->mount);
    g_free(bed->root);
    g_free(bed);
}
