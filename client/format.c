/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "format.h"

#include <stdio.h>

#include "value.h"

char *
vgpu_format_qemu(GVariant *assignment)
{
    g_autofree char *path = vgpu_value_of(assignment, "DevicePath");
    if (!path)
        return NULL;
    /* QEMU splits at commas, and takes two for one. */
    g_auto(GStrv) parts = g_strsplit(path, ",", -1);
    g_autofree char *escaped = g_strjoinv(",,", parts);
    return g_strconcat("vfio-pci,sysfsdev=", escaped, NULL);
}

static char *
format_mdev(const char *uuid)
{
    return g_markup_printf_escaped("<hostdev mode='subsystem' type='mdev' model='vfio-pci'>\n"
                                   "  <source>\n"
                                   "    <address uuid='%s'/>\n"
                                   "  </source>\n"
                                   "</hostdev>",
                                   uuid);
}

char *
vgpu_format_libvirt(GVariant *assignment)
{
    const char *uuid = vgpu_value_string(assignment, "UUID");
    const char *device = vgpu_value_string(assignment, "Device");
    unsigned domain, bus, slot, function;
    char end;

    if (uuid)
        return format_mdev(uuid);
    if (!device || sscanf(device, "%x:%x:%x.%x%c", &domain, &bus, &slot, &function, &end) != 4)
        return NULL;
    return g_strdup_printf("<hostdev mode='subsystem' type='pci' managed='no'>\n"
                           "  <source>\n"
                           "    <address domain='0x%04x' bus='0x%02x' slot='0x%02x' function='0x%x'/>\n"
                           "  </source>\n"
                           "</hostdev>",
                           domain, bus, slot, function);
}
