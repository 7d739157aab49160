/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "bed-private.h"

#include <string.h>

/* Devices by name, and what every PCI function and every entry of a class has in /sys. */

Device *
device_new(Bed *bed, DeviceKind kind, const char *name)
{
    Device *device = g_new0(Device, 1);

    if (g_hash_table_contains(bed->devices, name))
        g_error("bed: there is a %s already", name);
    device->bed = bed;
    device->kind = kind;
    device->name = g_strdup(name);
    device->vfio_dev = -1;
    device->cdev_openings = g_ptr_array_new();
    g_ptr_array_add(bed->graveyard, device);
    g_hash_table_insert(bed->devices, device->name, device);
    return device;
}

Device *
device_find(Bed *bed, const char *where)
{
    Node *node;

    if (!g_str_has_prefix(where, "/dev/"))
        return g_hash_table_lookup(bed->devices, where);
    node = node_at(bed, where, FALSE);
    if (node && node->kind == NODE_CDEV)
        return node->owner;
    if (node && node->kind == NODE_GROUP && ((Group *)node->owner)->devices->len > 0)
        return ((Group *)node->owner)->devices->pdata[0];
    return NULL;
}

Device *
device_get(Bed *bed, const char *where)
{
    Device *device = device_find(bed, where);

    if (!device)
        g_error("bed: there is no %s", where);
    return device;
}

gboolean
device_matches(Device *device, const char *where)
{
    if (!where || strcmp(where, device->name) == 0)
        return TRUE;
    if (g_str_has_prefix(where, "/dev/"))
        return device_find(device->bed, where) == device;
    return (device->parent && strcmp(where, device->parent->name) == 0) ||
           (device->card && strcmp(where, device->card->name) == 0);
}

void
device_node_register(Bed *bed, Node *dir, const char *subsystem, const char *links, const char *uevent)
{
    node_text(bed, dir, "uevent", 0644, uevent);
    node_link(bed, dir, "subsystem", node_at(bed, subsystem, TRUE));
    node_link(bed, node_at(bed, links, TRUE), dir->name, dir);
}

static void
hex_attr(Bed *bed, Node *dir, const char *name, unsigned digits, unsigned value)
{
    g_autofree char *text = g_strdup_printf("0x%0*x\n", (int)digits, value);

    node_text(bed, dir, name, 0444, text);
}

void
pci_register(Bed *bed, Device *device, uint16_t vendor, uint16_t id, uint32_t class, int numa,
             const char *driver)
{
    g_autofree char *root = g_strdup_printf("/sys/devices/pci%.7s", device->name);
    g_autofree char *uevent = g_strdup_printf(
        "DRIVER=%s\nPCI_CLASS=%X\nPCI_ID=%04X:%04X\nPCI_SUBSYS_ID=%04X:0000\nPCI_SLOT_NAME=%s\n"
        "MODALIAS=pci:v%08Xd%08Xsv%08Xsd00000000bc%02Xsc%02Xi%02X\n",
        driver, class, vendor, id, vendor, device->name, vendor, id, vendor, class >> 16, class >> 8 & 0xff,
        class & 0xff);
    g_autofree char *numa_text = g_strdup_printf("%d\n", numa);
    g_autofree char *driver_path = g_strdup_printf("/sys/bus/pci/drivers/%s", driver);
    Node *driver_dir = node_at(bed, driver_path, TRUE);

    device->dir = node_dir(bed, node_at(bed, root, TRUE), device->name);
    hex_attr(bed, device->dir, "vendor", 4, vendor);
    hex_attr(bed, device->dir, "device", 4, id);
    hex_attr(bed, device->dir, "subsystem_vendor", 4, vendor);
    hex_attr(bed, device->dir, "subsystem_device", 4, 0);
    hex_attr(bed, device->dir, "class", 6, class);
    hex_attr(bed, device->dir, "revision", 2, 0xa1);
    node_text(bed, device->dir, "numa_node", 0644, numa_text);
    node_text(bed, device->dir, "driver_override", 0644, "(null)\n");
    node_text(bed, device->dir, "remove", 0200, "");
    node_text(bed, device->dir, "enable", 0644, "1\n");
    device_node_register(bed, device->dir, "/sys/bus/pci", "/sys/bus/pci/devices", uevent);

    if (!node_child(driver_dir, "bind")) {
        node_text(bed, driver_dir, "bind", 0200, "");
        node_text(bed, driver_dir, "unbind", 0200, "");
        node_text(bed, driver_dir, "new_id", 0200, "");
    }
    node_link(bed, device->dir, "driver", driver_dir);
    node_link(bed, driver_dir, device->name, device->dir);
}

void
pci_unregister(Bed *bed, Device *device)
{
    Node *driver = node_child(device->dir, "driver");
    g_autofree char *name = driver ? g_path_get_basename(driver->text) : NULL;
    g_autofree char *path = name ? g_build_filename("/sys/bus/pci/drivers", name, NULL) : NULL;

    vfio_unregister(bed, device);
    group_leave(bed, device);
    herald_uevent(bed, device->dir, "remove", NULL);
    if (path)
        node_remove(bed, node_child(node_at(bed, path, TRUE), device->name));
    node_remove(bed, node_child(node_at(bed, "/sys/bus/pci/devices", TRUE), device->name));
    node_remove(bed, device->dir);
    device->gone = TRUE;
    g_hash_table_remove(bed->devices, device->name);
}
