/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Any text as the state file, with a first line that vouches for it and without: records that are whole, and
 * that are written and read again as they were. */
#include "store.h"

#include "fuzz.h"

#include <string.h>

#define BOOT "5d1f0b2c4a5e4c0f9b7e6d3a2c1b0f9e"
#define BUS "0f9e8d7c6b5a49382716059483726150"

static void
check_whole(const VgpuAssignment *a)
{
    g_assert_cmpstr(a->id, !=, "");
    g_assert_nonnull(a->framework);
    g_assert_nonnull(a->card);
    g_assert_nonnull(a->owner);
    g_assert_nonnull(a->device);
    g_assert_nonnull(a->device->slot);
    g_assert_nonnull(a->device->type_id);
    g_assert_nonnull(vgpu_state_name(a->state));
    g_assert_nonnull(vgpu_assignment_device_name(a));
    g_assert_false(a->busy || a->writing);
}

static void
check_comes_back(VgpuAssignments *assignments)
{
    g_autofree char *text = vgpu_store_format(assignments, BOOT, BUS);
    g_autofree char *again = NULL;
    g_autoptr(VgpuAssignments) loaded = vgpu_assignments_new();
    g_autoptr(GError) error = NULL;
    VgpuStoreAge age;

    g_assert_true(vgpu_store_parse(text, strlen(text), BOOT, BUS, loaded, &age, &error));
    g_assert_no_error(error);
    g_assert_true(age.same_boot && age.same_bus);
    again = vgpu_store_format(loaded, BOOT, BUS);
    g_assert_cmpstr(text, ==, again);
}

static void
parse(const char *text, size_t size)
{
    g_autoptr(VgpuAssignments) assignments = vgpu_assignments_new();
    g_autoptr(GPtrArray) list = NULL;
    g_autoptr(GError) error = NULL;
    VgpuStoreAge age = {FALSE, FALSE};
    gboolean understood = vgpu_store_parse(text, size, BOOT, BUS, assignments, &age, &error);

    g_assert_cmpint(understood, ==, error == NULL);
    list = vgpu_assignments_list(assignments);
    if (!understood || !age.same_boot)
        g_assert_cmpuint(list->len, ==, 0);
    for (guint i = 0; i < list->len; i++) {
        check_whole(list->pdata[i]);
        g_assert_true(vgpu_assignments_get(assignments, ((VgpuAssignment *)list->pdata[i])->id) ==
                      list->pdata[i]);
    }
    check_comes_back(assignments);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    g_autoptr(VgpuAssignments) none = vgpu_assignments_new();
    g_autofree char *pattern = vgpu_store_format(none, BOOT, BUS);
    g_autofree char *sealed = NULL;
    size_t length;

    parse((const char *)data, size);
    sealed = fuzz_seal(pattern, data, size, &length);
    parse(sealed, length);
    return 0;
}
