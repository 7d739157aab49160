/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "pci-address.h"

#include <string.h>

/* Exactly @n_digits hexadecimal digits at *@p, which moves behind them. */
static gboolean
take_hex(const char **p, guint n_digits, guint32 *ret_value)
{
    guint32 value = 0;

    for (guint i = 0; i < n_digits; i++) {
        int digit = g_ascii_xdigit_value((*p)[i]);
        if (digit < 0)
            return FALSE;
        value = value << 4 | (guint32)digit;
    }
    *p += n_digits;
    *ret_value = value;
    return TRUE;
}

static gboolean
take_char(const char **p, char c)
{
    if (**p != c)
        return FALSE;
    (*p)++;
    return TRUE;
}

gboolean
vgpu_pci_address_parse(const char *text, VgpuPciAddress *ret_address)
{
    guint32 domain = 0, bus, slot, function;
    const char *p = text;

    if (!text)
        return FALSE;

    /* A domain is there if the first colon comes after four or more digits; `3b:00.0` has it after two. */
    gsize first = strcspn(text, ":");
    if (first >= 4 && (first > 8 || !take_hex(&p, (guint)first, &domain) || !take_char(&p, ':')))
        return FALSE;
    if (!take_hex(&p, 2, &bus) || !take_char(&p, ':') || !take_hex(&p, 2, &slot) || !take_char(&p, '.') ||
        !take_hex(&p, 1, &function) || *p != '\0')
        return FALSE;
    if (slot > 0x1f || function > 7)
        return FALSE;

    *ret_address = (VgpuPciAddress){domain, (guint8)bus, (guint8)slot, (guint8)function};
    return TRUE;
}

char *
vgpu_pci_address_format(const VgpuPciAddress *address)
{
    return g_strdup_printf("%04x:%02x:%02x.%x", address->domain, address->bus, address->slot,
                           address->function);
}

char *
vgpu_pci_address_normalize(const char *text)
{
    VgpuPciAddress address;

    return vgpu_pci_address_parse(text, &address) ? vgpu_pci_address_format(&address) : NULL;
}

int
vgpu_pci_address_compare(const VgpuPciAddress *a, const VgpuPciAddress *b)
{
    if (a->domain != b->domain)
        return a->domain < b->domain ? -1 : 1;
    if (a->bus != b->bus)
        return a->bus < b->bus ? -1 : 1;
    if (a->slot != b->slot)
        return a->slot < b->slot ? -1 : 1;
    return (int)a->function - (int)b->function;
}

int
vgpu_pci_address_compare_text(const char *a, const char *b)
{
    VgpuPciAddress address_a, address_b;
    gboolean is_a = vgpu_pci_address_parse(a, &address_a);
    gboolean is_b = vgpu_pci_address_parse(b, &address_b);

    if (is_a && is_b)
        return vgpu_pci_address_compare(&address_a, &address_b);
    if (is_a != is_b)
        return is_a ? -1 : 1;
    if (!a || !b)
        return (a == NULL) - (b == NULL);
    return strcmp(a, b);
}
