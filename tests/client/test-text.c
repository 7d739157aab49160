/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The pure parts of vgpuctl: what a command is told, what changed, how things are written. */
#include <string.h>

#include "diff.h"
#include "expand.h"
#include "fixture.h"
#include "format.h"
#include "hold.h"
#include "value.h"

static void
held_free(void *data)
{
    VgpuHeld *held = data;
    g_free(held->id);
    g_variant_unref(held->assignment);
    g_free(held);
}

static GVariant *
parse(const char *text)
{
    g_autoptr(GError) error = NULL;
    GVariant *value = g_variant_parse(NULL, text, NULL, NULL, &error);
    g_assert_no_error(error);
    g_variant_get_data(value);
    return value;
}

/* A list of what is held, from assignments as GVariant text, ended by NULL. */
static GPtrArray *
hold(const char *first, ...)
{
    GPtrArray *held = g_ptr_array_new_with_free_func(held_free);
    va_list texts;

    va_start(texts, first);
    for (const char *text = first; text; text = va_arg(texts, const char *)) {
        VgpuHeld *one = g_new0(VgpuHeld, 1);
        one->id = g_strdup_printf("id%u", held->len);
        one->assignment = parse(text);
        g_ptr_array_add(held, one);
    }
    va_end(texts);
    return held;
}

static void
test_expand(void)
{
    static const struct {
        const char *words, *wanted;
    } lines[] = {
        {"qemu -device {qemu}", "qemu -device vfio-pci,sysfsdev=/a -device vfio-pci,sysfsdev=/b"},
        {"qemu -device {qemu},id={device} x", "qemu -device vfio-pci,sysfsdev=/a,id=/a "
                                              "-device vfio-pci,sysfsdev=/b,id=/b x"},
        {"cmd --d={device} -v", "cmd --d=/a --d=/b -v"},
        {"cmd a {device}", "cmd a /a /b"},
        {"cmd {device}", "cmd /a /b"},
        {"-cmd {device}", "-cmd /a /b"},
        {"cmd -- {device}", "cmd -- /a /b"},
        {"cmd -x{device} {device}", "cmd -x/a -x/b /a /b"},
        {"{device} {device}", "{device} /a /b"},
        {"cmd {} {dev {device", "cmd {} {dev {device"},
    };
    g_autoptr(GPtrArray) held = hold("{'DevicePath': <'/a'>}", "{'DevicePath': <'/b'>}", NULL);

    for (size_t i = 0; i < G_N_ELEMENTS(lines); i++) {
        g_auto(GStrv) split = g_strsplit(lines[i].words, " ", -1);
        g_autoptr(GPtrArray) words = g_ptr_array_new();
        for (char **word = split; *word; word++)
            g_ptr_array_add(words, *word);
        g_auto(GStrv) expanded = vgpu_expand_command(words, held, NULL);
        g_autofree char *joined = g_strjoinv(" ", expanded);
        g_assert_cmpstr(joined, ==, lines[i].wanted);
    }
}

/* A path that looks like a placeholder, or like two of QEMU's options, stays one path. */
static void
test_expand_values(void)
{
    g_autoptr(GPtrArray) held = hold("{'DevicePath': <'/{uuid},x'>, 'UUID': <'u'>}", NULL);
    static const char *const words[] = {"cmd", "{device}", "{qemu}"};
    g_autoptr(GPtrArray) list = g_ptr_array_new();
    for (size_t i = 0; i < G_N_ELEMENTS(words); i++)
        g_ptr_array_add(list, (char *)words[i]);
    g_auto(GStrv) expanded = vgpu_expand_command(list, held, NULL);
    g_assert_cmpstr(expanded[1], ==, "/{uuid},x");
    g_assert_cmpstr(expanded[2], ==, "vfio-pci,sysfsdev=/{uuid},,x");
}

static void
test_expand_environment(void)
{
    g_autoptr(GPtrArray) held = hold("{'DevicePath': <'/a'>, 'Profile': <'P Q'>, 'UUID': <'1'>}",
                                     "{'DevicePath': <'/b'>, 'Profile': <'P Q'>, 'UUID': <'2'>}", NULL);
    char **environment = g_environ_setenv(NULL, "VGPU_GROUP_NODE", "old", TRUE);
    environment = g_environ_setenv(environment, "OTHER", "stays", TRUE);
    environment = g_environ_setenv(environment, "NOTIFY_SOCKET", "/run/x", TRUE);
    g_auto(GStrv) told = vgpu_expand_environment(environment, held);

    g_assert_cmpstr(g_environ_getenv(told, "VGPU_ID"), ==, "id0 id1");
    g_assert_cmpstr(g_environ_getenv(told, "VGPU_DEVICE"), ==, "/a /b");
    g_assert_cmpstr(g_environ_getenv(told, "VGPU_UUID"), ==, "1 2");
    g_assert_cmpstr(g_environ_getenv(told, "VGPU_PROFILE"), ==, "P Q");
    g_assert_cmpstr(g_environ_getenv(told, "OTHER"), ==, "stays");
    g_assert_null(g_environ_getenv(told, "VGPU_GROUP_NODE"));
    g_assert_null(g_environ_getenv(told, "NOTIFY_SOCKET"));
}

static void
test_libvirt(void)
{
    g_autoptr(GVariant) domain = parse("{'Device': <'10000:ab:1f.7'>}");
    g_autofree char *text = vgpu_format_libvirt(domain);
    g_assert_nonnull(strstr(text, "domain='0x10000' bus='0xab' slot='0x1f' function='0x7'"));
    g_autoptr(GVariant) hostile = parse("{'UUID': <\"'/><evil x='\">}");
    g_autofree char *escaped = vgpu_format_libvirt(hostile);
    g_assert_null(strstr(escaped, "<evil"));
    g_autoptr(GVariant) odd = parse("{'Device': <'somewhere'>}");
    g_assert_null(vgpu_format_libvirt(odd));
    g_assert_null(vgpu_format_qemu(odd));
}

static void
test_sizes(void)
{
    static const struct {
        const char *row, *wanted;
    } rows[] = {
        {"{'S': <uint64 0>}", "0M"},
        {"{'S': <uint64 512>}", "512M"},
        {"{'S': <uint64 1024>}", "1G"},
        {"{'S': <uint64 1536>}", "1536M"},
        {"{'S': <uint64 96246>}", "96246M"},
        {"{'S': <uint64 49152>}", "48G"},
        {"@a{sv} {}", NULL},
        {"{'S': <'big'>}", NULL},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autoptr(GVariant) row = parse(rows[i].row);
        g_autofree char *size = vgpu_value_size(row, "S");
        g_assert_cmpstr(size, ==, rows[i].wanted);
    }
}

static void
test_diff(void)
{
    g_autoptr(GVariant) before =
        parse("[{'K': <'gone'>}, {'K': <'same'>, 'A': <1>},"
              " {'K': <'other'>, 'A': <1>, 'B': <2>, 'C': <3>}, {'X': <'no name'>}]");
    g_autoptr(GVariant) after = parse("[{'K': <'new'>, 'A': <7>}, {'K': <'same'>, 'A': <1>},"
                                      " {'K': <'other'>, 'A': <5>, 'B': <2>, 'D': <4>}, {'X': <'no'>}]");
    g_autoptr(GPtrArray) changes = vgpu_diff(before, after, "K");
    static const struct {
        const char *name, *before, *after;
    } wanted[] = {
        {"gone", "{'K': <'gone'>}", NULL},
        {"new", NULL, "{'K': <'new'>, 'A': <7>}"},
        {"other", "{'A': <1>, 'C': <3>}", "{'A': <5>, 'D': <4>}"},
    };

    g_assert_cmpuint(changes->len, ==, G_N_ELEMENTS(wanted));
    for (size_t i = 0; i < G_N_ELEMENTS(wanted); i++) {
        const VgpuChange *change = changes->pdata[i];
        g_autofree char *was = change->before ? g_variant_print(change->before, FALSE) : NULL;
        g_autofree char *is = change->after ? g_variant_print(change->after, FALSE) : NULL;
        g_assert_cmpstr(change->name, ==, wanted[i].name);
        g_assert_cmpstr(was, ==, wanted[i].before);
        g_assert_cmpstr(is, ==, wanted[i].after);
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/vgpuctl/expand/repeats-with-the-option", test_expand);
    g_test_add_func("/vgpuctl/expand/values-stay-whole", test_expand_values);
    g_test_add_func("/vgpuctl/expand/environment", test_expand_environment);
    g_test_add_func("/vgpuctl/format/libvirt", test_libvirt);
    g_test_add_func("/vgpuctl/value/sizes", test_sizes);
    g_test_add_func("/vgpuctl/diff/what-changed", test_diff);
    return g_test_run();
}
