/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Any text as the file of what cards have shown, with a first line that vouches for it and without: it is
 * written and read again as it was. */
#include "memory.h"

#include "fuzz.h"

#include <string.h>

#define BOOT "5d1f0b2c4a5e4c0f9b7e6d3a2c1b0f9e"

static void
parse(const char *text, size_t size)
{
    g_autoptr(VgpuMemory) memory = vgpu_memory_new();
    g_autoptr(VgpuMemory) loaded = vgpu_memory_new();
    g_autofree char *before = vgpu_memory_format(memory, BOOT);
    g_autofree char *once = NULL;
    g_autofree char *twice = NULL;
    g_autoptr(GError) error = NULL;
    gboolean understood = vgpu_memory_parse(memory, text, size, BOOT, &error);

    g_assert_cmpint(understood, ==, error == NULL);
    once = vgpu_memory_format(memory, BOOT);
    if (!understood)
        g_assert_cmpstr(once, ==, before);
    g_clear_error(&error);
    g_assert_true(vgpu_memory_parse(loaded, once, strlen(once), BOOT, &error));
    g_assert_no_error(error);
    twice = vgpu_memory_format(loaded, BOOT);
    g_assert_cmpuint(strlen(once), ==, strlen(twice)); /* cards come in any order */
    vgpu_memory_types(memory, "0000:3b:00.0");
    vgpu_memory_is_whole(memory, "0000:3b:00.0");
    vgpu_memory_framebuffer(memory, "0000:3b:00.0");
    vgpu_memory_card_name(memory, "0000:3b:00.0");
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    g_autoptr(VgpuMemory) none = vgpu_memory_new();
    g_autofree char *pattern = vgpu_memory_format(none, BOOT);
    g_autofree char *sealed = NULL;
    size_t length;

    parse((const char *)data, size);
    sealed = fuzz_seal(pattern, data, size, &length);
    parse(sealed, length);
    return 0;
}
