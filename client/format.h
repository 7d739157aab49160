/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib.h>

/* What a VM tool wants to be told about an assignment (a{sv}), as text to be freed. */

/* `vfio-pci,sysfsdev=…`, the value of QEMU's -device; NULL when the device's path is unknown. */
char *vgpu_format_qemu(GVariant *assignment);

/* libvirt's <hostdev>, in lines; NULL when neither a UUID nor a PCI address is known. */
char *vgpu_format_libvirt(GVariant *assignment);
