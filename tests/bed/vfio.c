/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "bed-private.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* IOMMU groups, VFIO's class devices, the nodes, and who may open them. */

/* Linux' ioctl numbers: _IO(';', 100 + n). */
#define VFIO_GROUP_GET_DEVICE_FD 0x3b6a
#define VFIO_DEVICE_BIND_IOMMUFD 0x3b76

#define FIRST_GROUP 40
#define GROUP_MAJOR 235
#define CDEV_MAJOR 509

/* The lowest number that no group has, as the kernel's own allocator gives. */
static unsigned
free_group_number(Bed *bed)
{
    for (unsigned number = FIRST_GROUP;; number++) {
        gboolean taken = FALSE;

        for (guint i = 0; i < bed->groups->len; i++)
            taken |= ((Group *)bed->groups->pdata[i])->number == number;
        if (!taken)
            return number;
    }
}

static unsigned
free_group_minor(Bed *bed)
{
    for (unsigned minor = 0;; minor++) {
        gboolean taken = FALSE;

        for (guint i = 0; i < bed->groups->len; i++) {
            Group *group = bed->groups->pdata[i];

            taken |= group->class_dev && group->minor == minor;
        }
        if (!taken)
            return minor;
    }
}

static int
free_vfio_number(Bed *bed)
{
    for (int number = 0;; number++) {
        gboolean taken = FALSE;
        GHashTableIter iter;
        gpointer device;

        g_hash_table_iter_init(&iter, bed->devices);
        while (g_hash_table_iter_next(&iter, NULL, &device))
            taken |= ((Device *)device)->vfio_dev == number;
        if (!taken)
            return number;
    }
}

Group *
group_new(Bed *bed)
{
    Group *group = g_new0(Group, 1);
    g_autofree char *name = NULL;

    group->number = free_group_number(bed);
    group->noiommu = bed->options.noiommu;
    group->devices = g_ptr_array_new();
    name = g_strdup_printf("%u", group->number);
    group->dir = node_dir(bed, node_at(bed, "/sys/kernel/iommu_groups", TRUE), name);
    node_dir(bed, group->dir, "devices");
    if (group->noiommu)
        node_text(bed, group->dir, "name", 0444, "vfio-noiommu\n");
    else
        node_text(bed, group->dir, "type", 0644, "DMA\n");
    g_ptr_array_add(bed->groups, group);
    return group;
}

void
group_add(Bed *bed, Group *group, Device *device)
{
    device->group = group;
    g_ptr_array_add(group->devices, device);
    node_link(bed, device->dir, "iommu_group", group->dir);
    node_link(bed, node_child(group->dir, "devices"), device->name, device->dir);
}

/* umockdev finds a node's number in a link of this name. */
static char *
number_link(Bed *bed, Node *node)
{
    g_autofree char *path = node_path(node);
    char *name = g_strdup(path + strlen("/dev/"));
    char *link;

    g_strdelimit(name, "/", '_');
    link = g_build_filename(bed->root, "dev", ".node", name, NULL);
    g_free(name);
    return link;
}

static void
node_number(Bed *bed, Node *node, unsigned major, unsigned minor)
{
    g_autofree char *link = number_link(bed, node);
    g_autofree char *number = g_strdup_printf("%u:%u", major, minor);

    unlink(link);
    g_assert_no_errno(symlink(number, link));
}

static void
device_node_remove(Bed *bed, Node *node)
{
    g_autofree char *link = number_link(bed, node);

    unlink(link);
    herald_gone(bed, node);
    node_remove(bed, node);
}

static void
opening_forget_devices(Opening *opening)
{
    for (guint i = 0; opening->opened && i < opening->group->devices->len; i++) {
        Device *device = opening->group->devices->pdata[i];

        if (device->opens > 0)
            device->opens--;
    }
    opening->opened = FALSE;
}

static void
group_class_remove(Bed *bed, Group *group)
{
    Node *link;

    if (!group->class_dev)
        return;
    herald_uevent(bed, group->class_dev, "remove", NULL);
    link = node_child(node_at(bed, "/sys/class/vfio", TRUE), group->class_dev->name);
    node_remove(bed, link);
    node_remove(bed, group->class_dev);
    group->class_dev = NULL;
    if (group->node)
        device_node_remove(bed, group->node);
    group->node = NULL;
    /* An opening of the old node does not keep the new one busy, nor the devices open. */
    if (group->opening)
        opening_forget_devices(group->opening);
    group->opening = NULL;
    group->busy_until = 0;
}

static void
group_class_add(Bed *bed, Group *group)
{
    g_autofree char *name = NULL;
    g_autofree char *uevent = NULL;
    g_autofree char *number = NULL;

    if (group->class_dev || bed->options.no_groups)
        return;
    group->minor = free_group_minor(bed);
    name = g_strdup_printf("%s%u", group->noiommu ? "noiommu-" : "", group->number);
    uevent = g_strdup_printf("MAJOR=%u\nMINOR=%u\nDEVNAME=vfio/%s\n", GROUP_MAJOR, group->minor, name);
    number = g_strdup_printf("%u:%u\n", GROUP_MAJOR, group->minor);

    group->node = node_device(bed, node_at(bed, "/dev/vfio", TRUE), name, NODE_GROUP, 0600, group);
    node_number(bed, group->node, GROUP_MAJOR, group->minor);
    group->class_dev = node_dir(bed, node_at(bed, "/sys/devices/virtual/vfio", TRUE), name);
    node_text(bed, group->class_dev, "dev", 0444, number);
    device_node_register(bed, group->class_dev, "/sys/class/vfio", "/sys/class/vfio", uevent);
    herald_uevent(bed, group->class_dev, "add", NULL);
}

void
group_leave(Bed *bed, Device *device)
{
    Group *group = device->group;

    if (!group)
        return;
    node_remove(bed, node_child(device->dir, "iommu_group"));
    node_remove(bed, node_child(node_child(group->dir, "devices"), device->name));
    g_ptr_array_remove(group->devices, device);
    device->group = NULL;
    if (group->devices->len == 0) {
        group_class_remove(bed, group);
        node_remove(bed, group->dir);
        g_ptr_array_remove(bed->groups, group);
        g_ptr_array_add(bed->old_groups, group);
    }
}

void
vfio_register(Bed *bed, Device *device)
{
    g_autofree char *name = NULL;
    g_autofree char *uevent = NULL;
    Node *dir;

    group_class_add(bed, device->group);

    device->vfio_dev = free_vfio_number(bed);
    name = g_strdup_printf("vfio%d", device->vfio_dev);
    dir = node_dir(bed, device->dir, "vfio-dev");
    device->vfio_dir = node_dir(bed, dir, name);
    if (bed->options.cdev) {
        g_autofree char *number = g_strdup_printf("%u:%d\n", CDEV_MAJOR, device->vfio_dev);

        device->cdev =
            node_device(bed, node_at(bed, "/dev/vfio/devices", TRUE), name, NODE_CDEV, 0600, device);
        node_number(bed, device->cdev, CDEV_MAJOR, (unsigned)device->vfio_dev);
        node_text(bed, device->vfio_dir, "dev", 0444, number);
        uevent = g_strdup_printf("MAJOR=%u\nMINOR=%d\nDEVNAME=vfio/devices/%s\n", CDEV_MAJOR,
                                 device->vfio_dev, name);
    }
    device_node_register(bed, device->vfio_dir, "/sys/class/vfio-dev", "/sys/class/vfio-dev",
                         uevent ? uevent : "");
    herald_uevent(bed, device->vfio_dir, "add", NULL);
}

void
vfio_unregister(Bed *bed, Device *device)
{
    gboolean last = TRUE;

    if (!device->vfio_dir)
        return;
    herald_uevent(bed, device->vfio_dir, "remove", NULL);
    node_remove(bed, node_child(node_at(bed, "/sys/class/vfio-dev", TRUE), device->vfio_dir->name));
    node_remove(bed, node_child(device->dir, "vfio-dev"));
    device->vfio_dir = NULL;
    device->vfio_dev = -1;
    if (device->cdev)
        device_node_remove(bed, device->cdev);
    device->cdev = NULL;

    for (guint i = 0; device->group && i < device->group->devices->len; i++)
        last &= ((Device *)device->group->devices->pdata[i])->vfio_dir == NULL;
    if (device->group && last)
        group_class_remove(bed, device->group);
}

/* ---- Opening ---- */

static char *
group_device_names(Group *group)
{
    g_autoptr(GString) names = g_string_new(NULL);

    for (guint i = 0; i < group->devices->len; i++)
        g_string_append_printf(names, "%s%s", i ? " " : "", ((Device *)group->devices->pdata[i])->name);
    return g_strdup(names->str);
}

static gboolean
cdev_is_bound(Device *device)
{
    for (guint i = 0; i < device->cdev_openings->len; i++)
        if (((Opening *)device->cdev_openings->pdata[i])->opened)
            return TRUE;
    return FALSE;
}

static int
group_may_open(Group *group, Node *node)
{
    if (node->gone || !group->class_dev)
        return -ENXIO;
    if (group->open_error)
        return -group->open_error;
    if (group->opening || group->kept_busy || group->busy_until > g_get_monotonic_time())
        return -EBUSY;
    for (guint i = 0; i < group->devices->len; i++)
        if (cdev_is_bound(group->devices->pdata[i]))
            return -EBUSY;
    return 0;
}

int
group_open(Bed *bed, Node *node, Opening *opening)
{
    Group *group = node->owner;
    g_autofree char *devices = group_device_names(group);
    BedTraceEntry *entry;
    int r;

    opening->path = node_path(node);
    entry = trace_add(bed, BED_TRACE_OPEN, opening->path, devices, NULL, opening->tid);
    opening->pid = entry->pid;
    r = group_may_open(group, node);
    trace_end(bed, entry, -r);
    if (r < 0)
        return r;
    opening->group = group;
    group->opening = opening;
    return 0;
}

int
cdev_open(Bed *bed, Node *node, Opening *opening)
{
    Device *device = node->owner;
    BedTraceEntry *entry;

    opening->path = node_path(node);
    entry = trace_add(bed, BED_TRACE_OPEN, opening->path, device->name, NULL, opening->tid);
    opening->pid = entry->pid;
    trace_end(bed, entry, node->gone ? ENXIO : 0);
    if (node->gone)
        return -ENXIO;
    opening->device = device;
    g_ptr_array_add(device->cdev_openings, opening);
    return 0;
}

static void
device_closed(Bed *bed, Device *device)
{
    if (device->opens == 0 && device->plugin_ms > 0)
        device->plugin_until = g_get_monotonic_time() + device->plugin_ms * (gint64)1000;
    mdev_unblock(bed, device);
}

void
opening_release(Bed *bed, Opening *opening)
{
    Group *group = opening->group;
    Device *device = opening->device;
    g_autofree char *devices = group ? group_device_names(group) : device ? g_strdup(device->name) : NULL;
    BedTraceEntry *entry;

    if (!devices)
        return;
    entry = trace_add(bed, BED_TRACE_RELEASE, opening->path, devices, NULL, opening->tid);
    entry->pid = opening->pid;
    trace_end(bed, entry, 0);

    if (group) {
        if (group->opening == opening) {
            group->opening = NULL;
            if (group->close_lag_ms)
                group->busy_until = g_get_monotonic_time() + group->close_lag_ms * (gint64)1000;
        }
        if (opening->opened) {
            opening_forget_devices(opening);
            /* A removed mdev leaves the group. */
            for (guint i = group->devices->len; i > 0; i--)
                device_closed(bed, group->devices->pdata[i - 1]);
        }
    } else {
        g_ptr_array_remove(device->cdev_openings, opening);
        if (opening->opened)
            device->opens--;
        device_closed(bed, device);
    }
}

/* The vendor's driver is asked here, and only here. */
static int
device_may_open(Device *device)
{
    if (device->gone)
        return -ENODEV;
    if (device->kind == DEVICE_VF && device->type == 0)
        return -ENODEV;
    if (device->plugin_until > g_get_monotonic_time())
        return -EBUSY;
    return 0;
}

static int
group_get_device(Opening *opening)
{
    Group *group = opening->group;

    if (group->opening != opening || group->devices->len == 0)
        return -ENODEV;
    for (guint i = 0; i < group->devices->len; i++) {
        Device *device = group->devices->pdata[i];
        int r = device->kind == DEVICE_OTHER ? 0 : device_may_open(device);

        if (r < 0)
            return r;
    }
    for (guint i = 0; !opening->opened && i < group->devices->len; i++)
        ((Device *)group->devices->pdata[i])->opens++;
    opening->opened = TRUE;
    return 0;
}

static int
cdev_bind(Opening *opening)
{
    Device *device = opening->device;
    int r = device_may_open(device);

    if (r < 0)
        return r;
    if (opening->opened || cdev_is_bound(device))
        return -EINVAL;
    if (device->group && device->group->opening)
        return -EBUSY;
    opening->opened = TRUE;
    device->opens++;
    return 0;
}

int
opening_ioctl(Bed *bed, Opening *opening, unsigned cmd)
{
    g_autofree char *devices = NULL;
    BedTraceEntry *entry;
    int r;

    if (opening->group && cmd == VFIO_GROUP_GET_DEVICE_FD) {
        devices = group_device_names(opening->group);
        r = group_get_device(opening);
    } else if (opening->device && cmd == VFIO_DEVICE_BIND_IOMMUFD) {
        devices = g_strdup(opening->device->name);
        r = cdev_bind(opening);
    } else {
        return -ENOTTY;
    }
    entry = trace_add(bed, BED_TRACE_DEVICE, opening->path, devices, NULL, opening->tid);
    trace_end(bed, entry, -r);
    return r;
}

gboolean
device_is_open(Device *device)
{
    return device->opens > 0 || (device->group && device->group->kept_busy);
}

gboolean
device_is_referenced(Device *device)
{
    return device_is_open(device) || device->cdev_openings->len > 0;
}
