/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib.h>

/* Where a PCI function sits. A plain value: copy it, compare it, keep it on the stack. The domain can exceed
 * 16 bits (devices behind Intel VMD are in 10000 and above). */
typedef struct {
    guint32 domain;
    guint8 bus;
    guint8 slot;
    guint8 function;
} VgpuPciAddress;

/* Reads @text in any common spelling: `0000:3b:00.0`, `00000000:3B:00.0`, and `3b:00.0` for domain 0. Nothing
 * else is an address: no white space, no `0x`, no short numbers, no slot above 1f, no function above 7. @text
 * may be NULL. FALSE leaves @ret_address as it was. */
gboolean vgpu_pci_address_parse(const char *text, VgpuPciAddress *ret_address);

/* The kernel's spelling, `0000:3b:00.0`, as in /sys/bus/pci/devices. The caller frees it. */
char *vgpu_pci_address_format(const VgpuPciAddress *address);

/* The kernel's spelling of @text, or NULL if @text is not an address (or NULL). The caller frees it. */
char *vgpu_pci_address_normalize(const char *text);

/* Numeric order, as strcmp: domain, bus, slot, function. */
int vgpu_pci_address_compare(const VgpuPciAddress *a, const VgpuPciAddress *b);

/* Numeric order of two spelled addresses; two spellings of one address are equal. A text that is not an
 * address comes after all addresses, and two of them are in byte order; NULL is the last of all. */
int vgpu_pci_address_compare_text(const char *a, const char *b);
