/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "pci-address.h"

#include <string.h>

static const struct {
    const char *text;
    VgpuPciAddress address;
    const char *kernel;
} spellings[] = {
    {"0000:3b:00.0", {0, 0x3b, 0, 0}, "0000:3b:00.0"},
    {"00000000:3B:00.0", {0, 0x3b, 0, 0}, "0000:3b:00.0"},
    {"0000:3B:00.0", {0, 0x3b, 0, 0}, "0000:3b:00.0"},
    {"3b:00.0", {0, 0x3b, 0, 0}, "0000:3b:00.0"},
    {"3B:1F.7", {0, 0x3b, 0x1f, 7}, "0000:3b:1f.7"},
    {"0001:00:02.3", {1, 0, 2, 3}, "0001:00:02.3"},
    {"ffff:ff:1f.7", {0xffff, 0xff, 0x1f, 7}, "ffff:ff:1f.7"},
    {"10000:01:00.0", {0x10000, 1, 0, 0}, "10000:01:00.0"},
    {"00010000:01:00.0", {0x10000, 1, 0, 0}, "10000:01:00.0"},
    {"ffffffff:01:00.0", {0xffffffff, 1, 0, 0}, "ffffffff:01:00.0"},
};

static const char *const not_addresses[] = {
    "",
    ":",
    "0000",
    "0000:",
    "0000:3b",
    "0000:3b:00",
    "0000:3b:00.",
    "0000:3b:00.8",
    "0000:3b:20.0",
    "0000:3b:00.00",
    "0000:3b:00.0 ",
    " 0000:3b:00.0",
    "0000:3b:00.0\n",
    "0000:3b:00.0x",
    "0000:3b:0.0",
    "0000:b:00.0",
    "000:3b:00.0",
    "00:3b:00.0",
    "3:00.0",
    "3b:00:0",
    "0000.3b.00.0",
    "0000:3b:-1.0",
    "0000:+b:00.0",
    "0x00:3b:00.0",
    "0000:0x3b:00.0",
    "000000000:3b:00.0",
    "100000000:3b:00.0",
    "0000:3g:00.0",
    "0000::3b:00.0",
    "0000:3b:00.0/../../etc",
    "../0000:3b:00.0",
    "\xef\xbc\x90:00.0",
    "83a4a92c-4f5c-4a0e-9d5c-d1ab0bd3b1a2",
};

static void
test_spellings(void)
{
    for (gsize i = 0; i < G_N_ELEMENTS(spellings); i++) {
        VgpuPciAddress address;

        g_assert_true(vgpu_pci_address_parse(spellings[i].text, &address));
        g_assert_cmphex(address.domain, ==, spellings[i].address.domain);
        g_assert_cmphex(address.bus, ==, spellings[i].address.bus);
        g_assert_cmphex(address.slot, ==, spellings[i].address.slot);
        g_assert_cmphex(address.function, ==, spellings[i].address.function);

        g_autofree char *formatted = vgpu_pci_address_format(&address);
        g_autofree char *normal = vgpu_pci_address_normalize(spellings[i].text);
        g_assert_cmpstr(formatted, ==, spellings[i].kernel);
        g_assert_cmpstr(normal, ==, spellings[i].kernel);
    }
}

static void
test_nothing_else(void)
{
    for (gsize i = 0; i < G_N_ELEMENTS(not_addresses); i++) {
        VgpuPciAddress address = {1, 2, 3, 4};

        if (vgpu_pci_address_parse(not_addresses[i], &address))
            g_error("“%s” was taken for an address", not_addresses[i]);
        g_assert_cmphex(address.domain, ==, 1);
        g_assert_cmphex(address.bus, ==, 2);
        g_assert_cmphex(address.slot, ==, 3);
        g_assert_cmphex(address.function, ==, 4);
        g_assert_null(vgpu_pci_address_normalize(not_addresses[i]));
    }
    g_assert_false(vgpu_pci_address_parse(NULL, NULL));
    g_assert_null(vgpu_pci_address_normalize(NULL));
}

/* Every prefix of an address, and every address with one byte replaced: no byte is read past the end (the
 * sanitizers look), and what is taken for an address has the kernel's spelling when written out again. */
static void
test_bounded(void)
{
    const char *whole = "00010000:3b:1f.7";

    for (gsize length = 0; length < strlen(whole); length++) {
        g_autofree char *prefix = g_strndup(whole, length);
        g_assert_null(vgpu_pci_address_normalize(prefix));
    }
    for (gsize at = 0; at < strlen(whole); at++) {
        for (int byte = 1; byte < 256; byte++) {
            g_autofree char *text = g_strdup(whole);
            text[at] = (char)byte;
            g_autofree char *normal = vgpu_pci_address_normalize(text);
            g_autofree char *again = vgpu_pci_address_normalize(normal);
            g_assert_cmpstr(normal, ==, again);
            if (normal && at >= 8) {
                g_autofree char *lower = g_ascii_strdown(text + 3, -1);
                g_assert_cmpstr(normal, ==, lower);
            }
        }
    }
    g_autofree char *endless = g_strnfill(64 * 1024, '0');
    g_assert_null(vgpu_pci_address_normalize(endless));
}

static void
test_numeric_order(void)
{
    /* Ascending; equal spellings are in one row. */
    static const char *const ascending[][2] = {
        {"0000:00:02.0", "00:02.0"},
        {"0000:08:00.4", "00000000:08:00.4"},
        {"0000:08:00.7", "08:00.7"},
        {"0000:08:01.0", "0000:08:01.0"},
        {"0000:08:10.0", "0000:08:10.0"},
        {"0000:3b:00.0", "0000:3B:00.0"},
        {"0000:af:00.0", "AF:00.0"},
        {"0001:01:00.0", "00000001:01:00.0"},
        {"ffff:01:00.0", "FFFF:01:00.0"},
        {"10000:01:00.0", "00010000:01:00.0"}, /* by letters it would be before ffff: */
        {"", ""},
        {"0000:3b", "0000:3b"},
        {"GPU-1", "GPU-1"},
        {NULL, NULL},
    };

    for (gsize i = 0; i < G_N_ELEMENTS(ascending); i++) {
        for (gsize j = 0; j < G_N_ELEMENTS(ascending); j++) {
            int order = vgpu_pci_address_compare_text(ascending[i][0], ascending[j][1]);
            VgpuPciAddress a, b;

            g_assert_cmpint((order > 0) - (order < 0), ==, (i > j) - (i < j));
            if (vgpu_pci_address_parse(ascending[i][0], &a) && vgpu_pci_address_parse(ascending[j][1], &b)) {
                order = vgpu_pci_address_compare(&a, &b);
                g_assert_cmpint((order > 0) - (order < 0), ==, (i > j) - (i < j));
            }
        }
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/pci-address/common-spellings-are-read", test_spellings);
    g_test_add_func("/pci-address/nothing-else-is-an-address", test_nothing_else);
    g_test_add_func("/pci-address/damaged-text-is-bounded", test_bounded);
    g_test_add_func("/pci-address/order-is-numeric", test_numeric_order);
    return g_test_run();
}
