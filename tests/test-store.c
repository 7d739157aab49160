/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "store.h"

#include <glib/gstdio.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define BOOT "5d1f0b2c4a5e4c0f9b7e6d3a2c1b0f9e"
#define BUS "0f9e8d7c6b5a49382716059483726150"

typedef struct {
    char *directory;
    char *state;
    VgpuStore *store;
} Fixture;

static void
set_up(Fixture *fixture, gconstpointer data)
{
    g_autoptr(GError) error = NULL;

    fixture->directory = g_dir_make_tmp("vgpu-store-XXXXXX", &error);
    g_assert_no_error(error);
    fixture->state = g_build_filename(fixture->directory, "state", NULL);
    fixture->store = vgpu_store_new(fixture->directory, &error);
    g_assert_no_error(error);
}

static void
tear_down(Fixture *fixture, gconstpointer data)
{
    g_autoptr(GDir) dir = g_dir_open(fixture->directory, 0, NULL);
    const char *name;

    while ((name = g_dir_read_name(dir))) {
        g_autofree char *path = g_build_filename(fixture->directory, name, NULL);
        g_unlink(path);
    }
    g_rmdir(fixture->directory);
    vgpu_store_free(fixture->store);
    g_free(fixture->directory);
    g_free(fixture->state);
}

static VgpuAssignment *
whole_record(void)
{
    VgpuAssignment *a = vgpu_assignment_new();

    a->id = g_strdup("0123456789abcdef0123456789abcdef");
    a->state = VGPU_STATE_LINGERING;
    a->framework = &vgpu_mdev;
    a->card = g_strdup("0000:65:00.0");
    a->device = vgpu_device_new("0000:65:00.0", "c1b7b4a4-4c1b-4f5d-9d2e-6a5f0c3e7a11");
    a->device->type_id = g_strdup("nvidia-231");
    a->device->name = g_strdup("GRID T4-2Q");
    a->device->framebuffer_mib = 2048;
    a->device->iommu_group = 71;
    a->device->group_node = g_strdup("/dev/vfio/71");
    a->device->device_node = g_strdup("/dev/vfio/devices/vfio3");
    a->device->inode = G_GUINT64_CONSTANT(18446744073709551615);
    a->device->node_inode = 4711;
    a->owner = g_strdup(":1.42");
    a->owner_gone = TRUE;
    a->uid = 4294967294u;
    a->pid = 4242;
    a->label = g_strdup(" win11; [x]=y \\ \xc3\xa9 ");
    a->since = G_GINT64_CONSTANT(1796000000000000);
    a->ending = VGPU_ENDING_RELEASED;
    a->error = g_strdup("EBUSY");
    a->may_repeat = TRUE;
    a->access = TRUE;
    a->told = TRUE;
    return a;
}

static void
assert_same(const VgpuAssignment *a, const VgpuAssignment *b)
{
    g_assert_cmpstr(a->id, ==, b->id);
    g_assert_cmpint(a->state, ==, b->state);
    g_assert_true(a->framework == b->framework);
    g_assert_cmpstr(a->card, ==, b->card);
    g_assert_cmpstr(a->device->slot, ==, b->device->slot);
    g_assert_cmpstr(a->device->uuid, ==, b->device->uuid);
    g_assert_cmpstr(a->device->type_id, ==, b->device->type_id);
    g_assert_cmpstr(a->device->name, ==, b->device->name);
    g_assert_cmpuint(a->device->framebuffer_mib, ==, b->device->framebuffer_mib);
    g_assert_cmpint(a->device->iommu_group, ==, b->device->iommu_group);
    g_assert_cmpstr(a->device->group_node, ==, b->device->group_node);
    g_assert_cmpstr(a->device->device_node, ==, b->device->device_node);
    g_assert_cmpuint(a->device->inode, ==, b->device->inode);
    g_assert_cmpuint(a->device->node_inode, ==, b->device->node_inode);
    g_assert_cmpstr(a->owner, ==, b->owner);
    g_assert_cmpint(a->owner_gone, ==, b->owner_gone);
    g_assert_cmpuint(a->uid, ==, b->uid);
    g_assert_cmpuint(a->pid, ==, b->pid);
    g_assert_cmpstr(a->label, ==, b->label);
    g_assert_cmpint(a->since, ==, b->since);
    g_assert_cmpint(a->ending, ==, b->ending);
    g_assert_cmpstr(a->error, ==, b->error);
    g_assert_cmpint(a->may_repeat, ==, b->may_repeat);
    g_assert_cmpint(a->access, ==, b->access);
    g_assert_cmpint(a->told, ==, b->told);
    g_assert_cmpint(a->foreign, ==, b->foreign);
}

static void
test_comes_back_whole(Fixture *fixture, gconstpointer data)
{
    g_autoptr(VgpuAssignments) saved = vgpu_assignments_new();
    g_autoptr(VgpuAssignments) loaded = vgpu_assignments_new();
    g_autoptr(GPtrArray) list = NULL;
    g_autoptr(GError) error = NULL;
    VgpuStoreAge age;

    vgpu_assignments_add(saved, whole_record());
    g_assert_true(vgpu_store_save(fixture->store, BUS, saved, &error));
    g_assert_true(vgpu_store_load(fixture->store, BUS, loaded, &age, &error));
    g_assert_no_error(error);
    g_assert_true(age.same_boot && age.same_bus);
    list = vgpu_assignments_list(loaded);
    g_assert_cmpuint(list->len, ==, 1);
    assert_same(g_ptr_array_index(list, 0), vgpu_assignments_get(saved, "0123456789abcdef0123456789abcdef"));
}

static void
test_missing_is_empty(Fixture *fixture, gconstpointer data)
{
    g_autoptr(VgpuAssignments) loaded = vgpu_assignments_new();
    g_autoptr(GError) error = NULL;
    VgpuStoreAge age;

    g_assert_true(vgpu_store_load(fixture->store, BUS, loaded, &age, &error));
    g_assert_no_error(error);
}

static void
test_another_bus(Fixture *fixture, gconstpointer data)
{
    g_autoptr(VgpuAssignments) saved = vgpu_assignments_new();
    g_autoptr(VgpuAssignments) loaded = vgpu_assignments_new();
    g_autoptr(GPtrArray) list = NULL;
    VgpuStoreAge age;

    vgpu_assignments_add(saved, whole_record());
    g_assert_true(vgpu_store_save(fixture->store, BUS, saved, NULL));
    g_assert_true(vgpu_store_load(fixture->store, BOOT, loaded, &age, NULL));
    g_assert_true(age.same_boot);
    g_assert_false(age.same_bus);
    list = vgpu_assignments_list(loaded);
    g_assert_cmpuint(list->len, ==, 1);
}

static void
test_another_boot(void)
{
    g_autoptr(VgpuAssignments) saved = vgpu_assignments_new();
    g_autoptr(VgpuAssignments) loaded = vgpu_assignments_new();
    g_autoptr(GPtrArray) list = NULL;
    g_autofree char *text = NULL;
    VgpuStoreAge age;

    vgpu_assignments_add(saved, whole_record());
    text = vgpu_store_format(saved, BOOT, BUS);
    g_assert_true(vgpu_store_parse(text, strlen(text), BUS, BUS, loaded, &age, NULL));
    g_assert_false(age.same_boot);
    list = vgpu_assignments_list(loaded);
    g_assert_cmpuint(list->len, ==, 0);
}

/* Any cut and any changed byte is noticed, and then nothing is believed. */
static void
test_every_cut_and_change_is_noticed(void)
{
    g_autoptr(VgpuAssignments) saved = vgpu_assignments_new();
    g_autoptr(VgpuAssignments) loaded = vgpu_assignments_new();
    g_autoptr(GPtrArray) list = NULL;
    g_autofree char *text = NULL;
    VgpuStoreAge age;
    gsize length;

    vgpu_assignments_add(saved, whole_record());
    text = vgpu_store_format(saved, BOOT, BUS);
    length = strlen(text);
    for (gsize i = 0; i < length; i++) {
        g_autofree char *changed = g_strdup(text);

        g_assert_false(vgpu_store_parse(text, i, BOOT, BUS, loaded, &age, NULL));
        changed[i] ^= 0x01;
        g_assert_false(vgpu_store_parse(changed, length, BOOT, BUS, loaded, &age, NULL));
    }
    list = vgpu_assignments_list(loaded);
    g_assert_cmpuint(list->len, ==, 0);
}

static guint
count_aside(const Fixture *fixture)
{
    g_autoptr(GDir) dir = g_dir_open(fixture->directory, 0, NULL);
    const char *name;
    guint count = 0;

    while ((name = g_dir_read_name(dir)))
        count += g_str_has_prefix(name, "state.unreadable-");
    return count;
}

static void
test_unreadable_is_set_aside(Fixture *fixture, gconstpointer data)
{
    g_autoptr(VgpuAssignments) loaded = vgpu_assignments_new();
    g_autoptr(GPtrArray) list = NULL;
    g_autoptr(GError) error = NULL;
    VgpuStoreAge age;

    g_assert_true(g_file_set_contents(fixture->state, data, -1, NULL));
    g_assert_false(vgpu_store_load(fixture->store, BUS, loaded, &age, &error));
    g_assert_nonnull(error);
    g_assert_nonnull(strstr(error->message, "set aside"));
    g_assert_false(g_file_test(fixture->state, G_FILE_TEST_EXISTS));
    g_assert_cmpuint(count_aside(fixture), ==, 1);
    list = vgpu_assignments_list(loaded);
    g_assert_cmpuint(list->len, ==, 0);
}

static void
test_reclaim_is_not_ours_before_it_is_proved(void)
{
    g_autoptr(VgpuAssignments) saved = vgpu_assignments_new();
    g_autofree char *before = NULL;
    g_autofree char *after = NULL;
    VgpuAssignment *foreign = whole_record();

    foreign->foreign = TRUE;
    foreign->state = VGPU_STATE_ASSIGNING;
    vgpu_assignments_add(saved, foreign);
    before = vgpu_store_format(saved, BOOT, BUS);
    g_assert_null(strstr(before, "[assignment"));
    foreign->state = VGPU_STATE_RELEASING;
    after = vgpu_store_format(saved, BOOT, BUS);
    g_assert_nonnull(strstr(after, "[assignment"));
}

/* 0 when another process gets the lock now, 1 when it is refused as it should be. */
static int
lock_in_child(const Fixture *fixture)
{
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        g_autoptr(GError) error = NULL;
        g_autoptr(VgpuStore) second = vgpu_store_new(fixture->directory, NULL);
        gboolean locked = vgpu_store_lock(second, &error);

        _exit(locked ? 0 : strstr(error->message, "another hypeman-vgpud") ? 1 : 2);
    }
    g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
    return WEXITSTATUS(status);
}

static void
test_second_lock_is_refused(Fixture *fixture, gconstpointer data)
{
    g_autoptr(GError) error = NULL;

    g_assert_true(vgpu_store_lock(fixture->store, &error));
    g_assert_no_error(error);
    g_assert_cmpint(lock_in_child(fixture), ==, 1);
}

/* What was forked before the holder was killed does not keep the lock. */
static void
test_lock_is_not_inherited(Fixture *fixture, gconstpointer data)
{
    int locked[2];
    pid_t holder;
    pid_t heir;
    int done[2];
    char c;

    g_assert_cmpint(pipe(locked), ==, 0);
    g_assert_cmpint(pipe(done), ==, 0);
    holder = fork();
    if (holder == 0) {
        g_autoptr(VgpuStore) store = vgpu_store_new(fixture->directory, NULL);

        if (!vgpu_store_lock(store, NULL))
            _exit(1);
        heir = fork();
        if (heir == 0) {
            close(done[1]);
            _exit(read(done[0], &c, 1) < 0);
        }
        if (write(locked[1], "x", 1) == 1)
            pause();
        _exit(1);
    }
    g_assert_cmpint(read(locked[0], &c, 1), ==, 1);
    g_assert_cmpint(lock_in_child(fixture), ==, 1);
    g_assert_cmpint(kill(holder, SIGKILL), ==, 0);
    g_assert_cmpint(waitpid(holder, NULL, 0), ==, holder);
    g_assert_cmpint(lock_in_child(fixture), ==, 0);
    close(done[0]);
    close(done[1]);
    close(locked[0]);
    close(locked[1]);
}

static void
test_failed_save_keeps_the_old_file(Fixture *fixture, gconstpointer data)
{
    g_autoptr(VgpuAssignments) assignments = vgpu_assignments_new();
    g_autofree char *before = NULL;
    g_autofree char *after = NULL;
    g_autofree char *elsewhere = g_strconcat(fixture->directory, "-gone", NULL);
    g_autoptr(GError) error = NULL;

    g_assert_true(vgpu_store_save(fixture->store, BUS, assignments, &error));
    g_assert_true(g_file_get_contents(fixture->state, &before, NULL, NULL));
    vgpu_assignments_add(assignments, whole_record());
    g_assert_cmpint(g_rename(fixture->directory, elsewhere), ==, 0);
    g_assert_false(vgpu_store_save(fixture->store, BUS, assignments, &error));
    g_assert_nonnull(error);
    g_assert_cmpint(g_rename(elsewhere, fixture->directory), ==, 0);
    g_assert_true(g_file_get_contents(fixture->state, &after, NULL, NULL));
    g_assert_cmpstr(before, ==, after);
}

#define ADD(path, data, test) g_test_add(path, Fixture, data, set_up, test, tear_down)

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    ADD("/store/record/comes-back-whole", NULL, test_comes_back_whole);
    ADD("/store/missing/is-empty", NULL, test_missing_is_empty);
    ADD("/store/another-bus/keeps-records-and-says-so", NULL, test_another_bus);
    g_test_add_func("/store/another-boot/is-void", test_another_boot);
    g_test_add_func("/store/torn/every-cut-and-change-is-noticed", test_every_cut_and_change_is_noticed);
    ADD("/store/garbled/is-set-aside", "\x01\x02garbled", test_unreadable_is_set_aside);
    ADD("/store/empty/is-set-aside", "", test_unreadable_is_set_aside);
    ADD("/store/newer-version/is-set-aside", "hypeman-vgpu-state 2 00\n[host]\n",
        test_unreadable_is_set_aside);
    g_test_add_func("/store/reclaim/is-not-ours-before-it-is-proved-unused",
                    test_reclaim_is_not_ours_before_it_is_proved);
    ADD("/store/lock/second-is-refused", NULL, test_second_lock_is_refused);
    ADD("/store/lock/is-not-kept-by-a-child-of-the-killed", NULL, test_lock_is_not_inherited);
    ADD("/store/failed-save/keeps-the-old-file", NULL, test_failed_save_keeps_the_old_file);
    return g_test_run();
}
