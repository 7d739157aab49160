/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Any text as the description of an mdev type: sizes that can be added up. */
#include "fuzz.h"
#include "profile.h"

#include <string.h>

/* Two numbers of at most 2^40, each in GiB. */
#define MOST_MIB (G_GUINT64_CONSTANT(1) << 51)

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    g_autofree char *text = g_strndup((const char *)data, size);
    guint64 mib = vgpu_description_framebuffer_mib(text);
    guint most = vgpu_description_max_instance(text);
    g_autofree char *longer = g_strconcat(text, "\n", NULL);
    g_autofree char *plain =
        g_strdup_printf("framebuffer=%" G_GUINT64_FORMAT "M, max_instance=%u", mib, most);
    g_autofree char *behind =
        g_strdup_printf("max_instance=%u, framebuffer=%" G_GUINT64_FORMAT "M\n%s", most, mib, text);

    g_assert_cmpuint(mib, <=, MOST_MIB);
    /* The newline at the end of an attribute means nothing. */
    g_assert_cmpuint(vgpu_description_framebuffer_mib(longer), ==, mib);
    g_assert_cmpuint(vgpu_description_max_instance(longer), ==, most);
    if (mib <= G_GUINT64_CONSTANT(1) << 40) {
        g_assert_cmpuint(vgpu_description_framebuffer_mib(plain), ==, mib);
        g_assert_cmpuint(vgpu_description_framebuffer_mib(behind), ==, mib);
    }
    g_assert_cmpuint(vgpu_description_max_instance(plain), ==, most);
    g_assert_cmpuint(vgpu_description_max_instance(behind), ==, most);
    /* Nor can a text say more than it has digits for. */
    if (!strpbrk(text, "123456789"))
        g_assert_cmpuint(mib + most, ==, 0);
    return 0;
}
