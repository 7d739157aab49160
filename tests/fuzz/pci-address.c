/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Any lines as PCI addresses: one spelling each, and one order. */
#include "pci-address.h"

#include "fuzz.h"

#include <string.h>

#define TEXTS_MAX 8
#define LENGTH_MAX 16 /* 00000000:3b:00.0 */

static int
sign(int n)
{
    return (n > 0) - (n < 0);
}

static void
check_address(const char *text)
{
    VgpuPciAddress address = {.domain = 4711}, again;
    g_autofree char *normal = vgpu_pci_address_normalize(text);
    g_autofree char *formatted = NULL;

    if (!vgpu_pci_address_parse(text, &address)) {
        g_assert_null(normal);
        g_assert_cmpuint(address.domain, ==, 4711);
        return;
    }
    formatted = vgpu_pci_address_format(&address);
    g_assert_cmpstr(normal, ==, formatted);
    g_assert_cmpuint(strlen(text), <=, LENGTH_MAX);
    g_assert_cmpuint(strlen(normal), <=, LENGTH_MAX);
    g_assert_cmpuint(strspn(normal, "0123456789abcdef:."), ==, strlen(normal));
    g_assert_cmpuint(address.slot, <=, 0x1f);
    g_assert_cmpuint(address.function, <=, 7);
    g_assert_true(vgpu_pci_address_parse(normal, &again));
    g_assert_cmpint(vgpu_pci_address_compare(&address, &again), ==, 0);
    g_assert_cmpint(vgpu_pci_address_compare_text(text, normal), ==, 0);
}

static void
check_order(GPtrArray *texts)
{
    for (guint i = 0; i < texts->len; i++) {
        for (guint j = 0; j < texts->len; j++) {
            const char *a = texts->pdata[i], *b = texts->pdata[j];
            int order = sign(vgpu_pci_address_compare_text(a, b));

            g_assert_cmpint(order, ==, -sign(vgpu_pci_address_compare_text(b, a)));
            for (guint k = 0; order <= 0 && k < texts->len; k++) {
                if (vgpu_pci_address_compare_text(b, texts->pdata[k]) <= 0)
                    g_assert_cmpint(vgpu_pci_address_compare_text(a, texts->pdata[k]), <=, 0);
            }
        }
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    g_autoptr(GPtrArray) texts = g_ptr_array_new_with_free_func(g_free);
    char *text;

    while (texts->len < TEXTS_MAX && (text = fuzz_take_text(&data, &size, '\n'))) {
        g_ptr_array_add(texts, text);
        check_address(text);
    }
    g_ptr_array_add(texts, NULL);
    check_order(texts);
    return 0;
}
