/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "bed.h"

#include <acl/libacl.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/acl.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* The bed against KERNEL's tables: each answer, through the mount, as any program gets it. */

#define PF "0000:3b:00.0"
#define VF0 "0000:3b:00.4"
#define VF1 "0000:3b:00.5"
#define T4 "0000:65:00.0"
#define UUID "11111111-2222-3333-4444-555555555555"
#define UUID2 "11111111-2222-3333-4444-666666666666"
#define VFIO_GROUP_GET_DEVICE_FD 0x3b6a

/* 0 or the errno of one write. */
static int
write_error(Bed *bed, const char *path, const char *value)
{
    g_autofree char *real = bed_path(bed, path);
    int fd = open(real, O_WRONLY | O_CLOEXEC);
    int error = 0;

    if (fd < 0)
        return errno;
    if (write(fd, value, strlen(value)) < 0)
        error = errno;
    close(fd);
    return error;
}

static int
set_type(Bed *bed, const char *vf, const char *value)
{
    g_autofree char *path = g_build_filename(vf, "nvidia/current_vgpu_type", NULL);

    return write_error(bed, path, value);
}

static char *
read_text(Bed *bed, const char *path)
{
    g_autofree char *real = bed_path(bed, path);
    char *text = NULL;

    g_assert_true(g_file_get_contents(real, &text, NULL, NULL));
    return text;
}

static int
read_error(Bed *bed, const char *path)
{
    g_autofree char *real = bed_path(bed, path);
    int fd = open(real, O_RDONLY | O_CLOEXEC);
    char byte;
    int error = 0;

    if (fd < 0)
        return errno;
    if (read(fd, &byte, 1) < 0)
        error = errno;
    close(fd);
    return error;
}

static void
assert_reads(Bed *bed, const char *path, const char *expected)
{
    g_autofree char *text = read_text(bed, path);

    g_assert_cmpstr(text, ==, expected);
}

/* A file of tests/data without our own lines. */
static char *
data_text(const char *name)
{
    g_autofree char *path = g_build_filename(BED_DATA_DIR, name, NULL);
    g_autofree char *text = NULL;
    const char *at;

    g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
    for (at = text; *at == '#'; at = strchr(at, '\n') + 1)
        continue;
    return g_strdup(at);
}

static Bed *
bed_with_l40s(void)
{
    Bed *bed = bed_new(NULL);

    bed_add_card(bed, "l40s", PF, -1);
    return bed;
}

static int
open_node(Bed *bed, const char *where)
{
    g_autofree char *node = bed_group_node(bed, where);
    g_autofree char *path = bed_path(bed, node);
    int fd = open(path, O_RDWR | O_CLOEXEC);

    return fd < 0 ? -errno : fd;
}

/* ---- Catalogues ---- */

static void
test_catalogue_free(void)
{
    g_autoptr(Bed) bed = bed_with_l40s();
    g_autofree char *expected = data_text("l40s-creatable.list");

    assert_reads(bed, VF0 "/nvidia/creatable_vgpu_types", expected);
    assert_reads(bed, VF0 "/nvidia/current_vgpu_type", "0\n");
}

static void
test_catalogue_after_one(void)
{
    g_autoptr(Bed) bed = bed_with_l40s();
    g_autofree char *same_size = data_text("l40s-after-2q.list");
    g_autofree char *header = data_text("l40s-full-header-only.list");

    g_assert_cmpint(set_type(bed, VF0, "1148"), ==, 0);
    assert_reads(bed, VF0 "/nvidia/current_vgpu_type", "1148\n");
    assert_reads(bed, VF0 "/nvidia/creatable_vgpu_types", header);
    assert_reads(bed, VF1 "/nvidia/creatable_vgpu_types", same_size);
    g_assert_cmpint(set_type(bed, VF0, "0"), ==, 0);
    {
        g_autofree char *all = data_text("l40s-creatable.list");

        assert_reads(bed, VF1 "/nvidia/creatable_vgpu_types", all);
    }
}

/* KERNEL's list of how many fit on an L40S. */
static void
test_catalogue_full(void)
{
    static const struct {
        unsigned type;
        unsigned fit;
    } sizes[] = {{1147, 32}, {1148, 24}, {1149, 16}, {1150, 12}, {1151, 8},
                 {1152, 6},  {1153, 4},  {1154, 3},  {1155, 2},  {1156, 1}};
    g_autofree char *header = data_text("l40s-full-header-only.list");

    for (guint i = 0; i < G_N_ELEMENTS(sizes); i++) {
        g_autoptr(Bed) bed = bed_with_l40s();
        g_auto(GStrv) vfs = bed_vfs(bed, PF);
        g_autofree char *type = g_strdup_printf("%u\n", sizes[i].type);

        g_assert_cmpuint(g_strv_length(vfs), ==, 32);
        for (guint k = 0; k < sizes[i].fit; k++)
            g_assert_cmpint(set_type(bed, vfs[k], type), ==, 0);
        g_assert_cmpuint(bed_vfs_set(bed, PF), ==, sizes[i].fit);
        if (sizes[i].fit < 32) {
            g_autofree char *last = g_strdup_printf("%s/nvidia/creatable_vgpu_types", vfs[31]);

            assert_reads(bed, last, header);
            g_assert_cmpint(set_type(bed, vfs[31], type), ==, EIO);
        }
    }
}

static void
test_catalogue_mixed(void)
{
    g_autoptr(Bed) bed = bed_with_l40s();

    bed_mix_sizes(bed, PF, TRUE);
    g_assert_cmpint(set_type(bed, VF0, "1155"), ==, 0);
    g_assert_cmpint(set_type(bed, VF1, "1148"), ==, 0);
    /* 26 of 48 GB are used. */
    g_assert_cmpint(set_type(bed, "0000:3b:00.6", "1155"), ==, EIO);
    {
        g_autofree char *text = read_text(bed, "0000:3b:00.6/nvidia/creatable_vgpu_types");

        g_assert_nonnull(strstr(text, "NVIDIA L40S-16Q"));
        g_assert_null(strstr(text, "NVIDIA L40S-24Q"));
    }
}

static void
test_catalogue_verbatim(void)
{
    g_autoptr(Bed) bed = bed_with_l40s();
    static const char *const odd[] = {"", "ID : x\r\n1148 : NVIDIA L40S-2Q\r\n", "no header at all\n",
                                      "1148:x"};

    for (guint i = 0; i < G_N_ELEMENTS(odd); i++) {
        bed_catalogue_says(bed, PF, odd[i]);
        assert_reads(bed, VF0 "/nvidia/creatable_vgpu_types", odd[i]);
        bed_catalogue_says(bed, VF1, "mine");
        assert_reads(bed, VF1 "/nvidia/creatable_vgpu_types", "mine");
        bed_catalogue_says(bed, VF1, NULL);
        assert_reads(bed, VF1 "/nvidia/creatable_vgpu_types", odd[i]);
    }
    bed_attribute_fails(bed, VF0 "/nvidia/creatable_vgpu_types", EIO);
    g_assert_cmpint(read_error(bed, VF0 "/nvidia/creatable_vgpu_types"), ==, EIO);
    g_assert_cmpint(read_error(bed, VF1 "/nvidia/creatable_vgpu_types"), ==, 0);
}

static void
test_catalogue_models(void)
{
    g_autoptr(Bed) bed = bed_new(NULL);
    g_autofree char *a10 = data_text("a10-creatable.list");
    g_autofree char *h200x = data_text("h200x-partial.list");

    bed_add_card(bed, "a10", "0000:17:00.0", 2);
    bed_add_card(bed, "h200x", "0001:c8:00.0", 2);
    assert_reads(bed, "0000:17:00.4/nvidia/creatable_vgpu_types", a10);
    assert_reads(bed, "0001:c8:00.4/nvidia/creatable_vgpu_types", h200x);
}

/* ---- The errno table of vendor VFIO ---- */

static void
test_set_errors(void)
{
    g_autoptr(Bed) bed = bed_with_l40s();
    static const char *const bad[] = {"x", "-1", "11 48", "1148x", " 1148", "0x47c", "\n", "99999999999"};

    for (guint i = 0; i < G_N_ELEMENTS(bad); i++)
        g_assert_cmpint(set_type(bed, VF0, bad[i]), ==, EINVAL);
    g_assert_cmpint(set_type(bed, VF0, "4711"), ==, EIO);
    g_assert_cmpint(set_type(bed, VF0, "0"), ==, EPERM);
    assert_reads(bed, VF0 "/nvidia/current_vgpu_type", "0\n");

    g_assert_cmpint(set_type(bed, VF0, "1148"), ==, 0);
    g_assert_cmpint(set_type(bed, VF0, "1148"), ==, EPERM);
    g_assert_cmpint(set_type(bed, VF0, "1147"), ==, EPERM);
    g_assert_cmpint(set_type(bed, VF1, "1147"), ==, EIO);
    assert_reads(bed, VF0 "/nvidia/current_vgpu_type", "1148\n");
}

static void
test_clear_errors(void)
{
    g_autoptr(Bed) bed = bed_with_l40s();
    BedHolder *vm;
    gint64 began;

    g_assert_cmpint(set_type(bed, VF0, "1148"), ==, 0);
    vm = bed_hold(bed, VF0);
    g_assert_cmpint(set_type(bed, VF0, "0"), ==, EPERM);
    assert_reads(bed, VF0 "/nvidia/current_vgpu_type", "1148\n");

    bed_plugin_lingers(bed, VF0, 300);
    began = g_get_monotonic_time();
    bed_let_go(vm);
    g_assert_true(bed_wait_free(bed, VF0, 10));
    if (g_get_monotonic_time() < began + 200000)
        g_assert_cmpint(set_type(bed, VF0, "0"), ==, EBUSY);
    while (set_type(bed, VF0, "0") == EBUSY)
        g_usleep(1000);
    g_assert_cmpint(g_get_monotonic_time() - began, >=, 300000);
    assert_reads(bed, VF0 "/nvidia/current_vgpu_type", "0\n");

    g_assert_cmpint(set_type(bed, VF0, "1148"), ==, 0);
    bed_clear_busy_for(bed, VF0, 200);
    began = g_get_monotonic_time();
    g_assert_cmpint(set_type(bed, VF0, "0"), ==, EBUSY);
    while (set_type(bed, VF0, "0") == EBUSY)
        g_usleep(1000);
    g_assert_cmpint(g_get_monotonic_time() - began, >=, 200000);
    g_assert_cmpuint(bed_vf_type(bed, VF0), ==, 0);
}

/* While only the group is held, as the daemon does, a type can be cleared. */
static void
test_clear_under_group(void)
{
    g_autoptr(Bed) bed = bed_with_l40s();
    int fd;

    g_assert_cmpint(set_type(bed, VF0, "1148"), ==, 0);
    fd = open_node(bed, VF0);
    g_assert_cmpint(fd, >=, 0);
    g_assert_cmpint(set_type(bed, VF0, "0"), ==, 0);
    close(fd);
}

static void
test_gone_errors(void)
{
    g_autoptr(Bed) bed = bed_with_l40s();
    g_autofree char *path = bed_path(bed, VF0 "/nvidia/current_vgpu_type");
    int fd = open(path, O_RDWR | O_CLOEXEC);
    char byte;

    g_assert_cmpint(fd, >=, 0);
    bed_remove_vf(bed, VF0);
    g_assert_cmpint(write(fd, "1148", 4), ==, -1);
    g_assert_cmpint(errno, ==, ENODEV);
    g_assert_cmpint(read(fd, &byte, 1), ==, -1);
    g_assert_cmpint(errno, ==, ENODEV);
    close(fd);
    g_assert_cmpint(open(path, O_RDWR | O_CLOEXEC), ==, -1);
    g_assert_cmpint(errno, ==, ENOENT);
    g_assert_false(bed_exists(bed, VF0));
}

static void
test_vendor_attributes(void)
{
    g_autoptr(Bed) bed = bed_with_l40s();
    static const struct {
        const char *name;
        mode_t mode;
    } files[] = {{"creatable_vgpu_types", 0444}, {"current_vgpu_type", 0644}, {"vgpu_params", 0644},
                 {"gpu_instance_id", 0644},      {"placement_id", 0644},      {"warm_update", 0644}};

    for (guint i = 0; i < G_N_ELEMENTS(files); i++) {
        g_autofree char *name = g_build_filename(VF0 "/nvidia", files[i].name, NULL);
        g_autofree char *path = bed_path(bed, name);
        struct stat st;

        g_assert_no_errno(stat(path, &st));
        g_assert_cmpuint(st.st_mode & 07777, ==, files[i].mode);
        g_assert_cmpuint(st.st_uid, ==, 0);
    }
    g_assert_cmpint(write_error(bed, VF0 "/nvidia/creatable_vgpu_types", "x"), ==, EACCES);
    g_assert_cmpint(read_error(bed, VF0 "/nvidia/gpu_instance_id"), ==, ENXIO);
    g_assert_cmpint(read_error(bed, VF0 "/nvidia/placement_id"), ==, ENXIO);
    g_assert_cmpint(write_error(bed, VF0 "/nvidia/vgpu_params", "a=1"), ==, ENXIO);
    assert_reads(bed, VF0 "/nvidia/vgpu_params", "\n");
    assert_reads(bed, VF0 "/nvidia/warm_update", "0\n");
    g_assert_cmpint(set_type(bed, VF0, "1148"), ==, 0);
    assert_reads(bed, VF0 "/nvidia/gpu_instance_id", "0\n");
    g_assert_cmpint(write_error(bed, VF0 "/nvidia/vgpu_params", "a=1\n"), ==, 0);
    assert_reads(bed, VF0 "/nvidia/vgpu_params", "a=1\n");
    {
        BedHolder *vm = bed_hold(bed, VF0);

        g_assert_cmpint(write_error(bed, VF0 "/nvidia/vgpu_params", "a=2\n"), ==, EPERM);
        bed_let_go(vm);
    }
    {
        g_autofree char *pf = bed_path(bed, PF "/nvidia");

        g_assert_cmpint(access(pf, F_OK), ==, -1);
    }
}

static void
test_pci_facts(void)
{
    g_autoptr(Bed) bed = bed_new(NULL);
    BedCard odd = {BED_VENDOR_VFIO, "l40s-r550.types.tsv", .device = 0x2bb5, .total_vfs = 64,
                   .vfs = 64,       .offset = 2,           .numa_node = 1};
    g_auto(GStrv) vfs = NULL;
    g_autoptr(GHashTable) groups = g_hash_table_new(NULL, NULL);

    bed_add_card_full(bed, "00ff:fe:00.0", &odd);
    vfs = bed_vfs(bed, "00ff:fe:00.0");
    g_assert_cmpstr(vfs[0], ==, "00ff:fe:00.2");
    g_assert_cmpstr(vfs[63], ==, "00ff:fe:08.1");
    for (guint i = 0; vfs[i]; i++)
        g_hash_table_add(groups, GINT_TO_POINTER(bed_group(bed, vfs[i])));
    g_assert_cmpuint(g_hash_table_size(groups), ==, 64);
    assert_reads(bed, "00ff:fe:00.0/sriov_numvfs", "64\n");
    assert_reads(bed, "00ff:fe:00.0/vendor", "0x10de\n");
    assert_reads(bed, "00ff:fe:00.2/device", "0x2bb5\n");
    assert_reads(bed, "00ff:fe:00.2/class", "0x030200\n");
    assert_reads(bed, "00ff:fe:00.2/numa_node", "1\n");
    {
        static const struct {
            const char *link;
            const char *target;
        } links[] = {{"/sys/bus/pci/devices/00ff:fe:00.2/physfn", "/sys/devices/pci00ff:fe/00ff:fe:00.0"},
                     {"/sys/bus/pci/devices/00ff:fe:00.0/virtfn0", "/sys/devices/pci00ff:fe/00ff:fe:00.2"},
                     {"/sys/bus/pci/devices/00ff:fe:00.2/driver", "/sys/bus/pci/drivers/nvidia"},
                     {"/sys/bus/pci/devices/00ff:fe:00.2/subsystem", "/sys/bus/pci"},
                     {"/sys/bus/pci/devices/00ff:fe:00.2/vfio-dev/vfio0/subsystem", "/sys/class/vfio-dev"}};

        for (guint i = 0; i < G_N_ELEMENTS(links); i++) {
            g_autofree char *link = bed_path(bed, links[i].link);
            g_autofree char *expected = bed_path(bed, links[i].target);
            char *target = realpath(link, NULL);

            g_assert_cmpstr(target, ==, expected);
            free(target);
        }
    }
}

/* ---- Faults ---- */

static void
test_faults(void)
{
    g_autoptr(Bed) bed = bed_with_l40s();

    bed_fail(bed, VF0, BED_SET, EIO, 1);
    g_assert_cmpint(set_type(bed, VF1, "1148"), ==, 0);
    g_assert_cmpint(set_type(bed, VF0, "1148"), ==, EIO);
    g_assert_cmpint(set_type(bed, VF0, "1148"), ==, 0);

    bed_fail(bed, PF, BED_CLEAR, EIO, BED_ALWAYS);
    for (int i = 0; i < 3; i++)
        g_assert_cmpint(set_type(bed, VF0, "0"), ==, EIO);
    g_assert_cmpuint(bed_vf_type(bed, VF0), ==, 1148);
    bed_no_more_faults(bed);

    bed_fail_half(bed, NULL, BED_CLEAR, EIO, 1);
    g_assert_cmpint(set_type(bed, VF0, "0"), ==, EIO);
    g_assert_cmpuint(bed_vf_type(bed, VF0), ==, 0);
    g_assert_cmpint(set_type(bed, VF1, "0"), ==, 0);

    bed_takes_instead(bed, VF0, 1147, 1);
    g_assert_cmpint(set_type(bed, VF0, "1148"), ==, 0);
    g_assert_cmpuint(bed_vf_type(bed, VF0), ==, 1147);
    g_assert_cmpint(set_type(bed, VF0, "0"), ==, 0);

    bed_rival_sets(bed, VF0, 1150);
    g_assert_cmpint(set_type(bed, VF0, "1148"), ==, EPERM);
    assert_reads(bed, VF0 "/nvidia/current_vgpu_type", "1150\n");
}

static void
test_by_hand(void)
{
    g_autoptr(Bed) bed = bed_with_l40s();

    g_assert_cmpint(bed_set_by_hand(bed, VF0, 1148), ==, 0);
    g_assert_cmpint(bed_set_by_hand(bed, VF0, 1148), ==, -EPERM);
    assert_reads(bed, VF0 "/nvidia/current_vgpu_type", "1148\n");
    g_assert_cmpint(bed_set_by_hand(bed, VF0, 0), ==, 0);
    g_assert_cmpuint(bed_trace_count(bed, BED_TRACE_WRITE, NULL, NULL), ==, 0);
}

typedef struct {
    Bed *bed;
    const char *path;
    const char *value;
    int error;
} Writing;

static gpointer
write_in_thread(gpointer data)
{
    Writing *writing = data;

    writing->error = write_error(writing->bed, writing->path, writing->value);
    return NULL;
}

static void
test_stall(void)
{
    g_autoptr(Bed) bed = bed_with_l40s();
    Writing first = {bed, VF0 "/nvidia/current_vgpu_type", "1148", -1};
    Writing other = {bed, VF1 "/nvidia/current_vgpu_type", "1148", -1};
    GThread *thread;

    /* Before: no effect yet. */
    bed_stall(bed, VF0, BED_SET);
    thread = g_thread_new("writer", write_in_thread, &first);
    g_assert_true(bed_wait_stalled(bed, VF0, 10));
    g_assert_cmpuint(bed_vf_type(bed, VF0), ==, 0);
    write_in_thread(&other);
    g_assert_cmpint(other.error, ==, 0);
    g_assert_cmpuint(bed_trace_count(bed, BED_TRACE_WRITE, VF0, "1148"), ==, 1);
    bed_resume(bed, VF0);
    g_thread_join(thread);
    g_assert_cmpint(first.error, ==, 0);
    g_assert_cmpuint(bed_vf_type(bed, VF0), ==, 1148);

    /* After: the effect is there, the writer is not back. */
    bed_stall_after(bed, NULL, BED_CLEAR);
    first.value = "0";
    g_assert_true(bed_wait_vfs_set(bed, PF, 2, 10));
    thread = g_thread_new("writer", write_in_thread, &first);
    g_assert_true(bed_wait_type(bed, VF0, 0, 10));
    g_assert_true(bed_wait_vfs_set(bed, PF, 1, 10));
    g_assert_false(bed_wait_type(bed, VF0, 7, 0.01));
    g_assert_true(bed_wait_stalled(bed, VF0, 10));
    g_assert_cmpuint(bed_vf_type(bed, VF0), ==, 0);
    g_assert_cmpuint(bed_stalled(bed, VF1), ==, 0);
    bed_resume(bed, NULL);
    g_thread_join(thread);
    g_assert_cmpint(first.error, ==, 0);

    /* Late by itself. */
    bed_delay(bed, VF0, BED_SET, 150, 1);
    {
        gint64 began = g_get_monotonic_time();

        g_assert_cmpint(set_type(bed, VF0, "1148"), ==, 0);
        g_assert_cmpint(g_get_monotonic_time() - began, >=, 150000);
    }
}

static char
process_state(pid_t pid)
{
    g_autofree char *path = g_strdup_printf("/proc/%d/stat", (int)pid);
    g_autofree char *text = NULL;

    if (!g_file_get_contents(path, &text, NULL, NULL))
        return 0;
    return strrchr(text, ')')[2];
}

static void
wait_state(pid_t pid, char state)
{
    gint64 deadline = bed_deadline(10);

    while (process_state(pid) != state) {
        g_assert_cmpint(g_get_monotonic_time(), <, deadline);
        g_usleep(1000);
    }
}

static pid_t
write_in_child(Bed *bed, const char *path, const char *value)
{
    g_autofree char *real = bed_path(bed, path);
    pid_t pid = fork();

    if (pid == 0) {
        int fd = open(real, O_WRONLY);
        ssize_t n = write(fd, value, strlen(value));

        _exit(n < 0 ? errno : 0);
    }
    return pid;
}

static void
test_stalled_writer_cannot_be_killed(void)
{
    g_autoptr(Bed) bed = bed_with_l40s();
    int status;
    pid_t pid;

    bed_stall(bed, VF0, BED_SET);
    pid = write_in_child(bed, VF0 "/nvidia/current_vgpu_type", "1148");
    g_assert_true(bed_wait_stalled(bed, VF0, 10));
    kill(pid, SIGKILL);
    wait_state(pid, 'D');
    g_assert_cmpint(waitpid(pid, &status, WNOHANG), ==, 0);
    bed_resume(bed, VF0);
    g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
    g_assert_true(WIFSIGNALED(status));
    /* What it had asked for happened. */
    g_assert_cmpuint(bed_vf_type(bed, VF0), ==, 1148);
}

static void
test_violations(void)
{
    g_autoptr(Bed) bed = bed_with_l40s();
    g_autofree char *path = bed_path(bed, VF0 "/nvidia/creatable_vgpu_types");
    g_auto(GStrv) none = bed_violations(bed);
    g_auto(GStrv) found = NULL;
    pid_t writer, second, reader;

    g_assert_cmpuint(g_strv_length(none), ==, 0);
    bed_stall(bed, VF0, BED_SET);
    writer = write_in_child(bed, VF0 "/nvidia/current_vgpu_type", "1148");
    g_assert_true(bed_wait_stalled(bed, VF0, 10));
    reader = fork();
    if (reader == 0) {
        char byte;
        int fd = open(path, O_RDONLY);

        _exit(read(fd, &byte, 1) != 1);
    }
    waitpid(reader, NULL, 0);
    second = write_in_child(bed, VF0 "/nvidia/current_vgpu_type", "0");
    waitpid(second, NULL, 0);
    bed_resume(bed, VF0);
    waitpid(writer, NULL, 0);
    found = bed_violations(bed);
    g_assert_cmpuint(g_strv_length(found), ==, 2);
    g_assert_nonnull(strstr(found[0], "creatable_vgpu_types was read"));
    g_assert_nonnull(strstr(found[1], "current_vgpu_type was written"));
}

/* ---- Nodes ---- */

static void
test_single_opener(void)
{
    g_autoptr(Bed) bed = bed_with_l40s();
    int fd = open_node(bed, VF0);
    int copy, pair[2];
    pid_t child;
    char control[CMSG_SPACE(sizeof fd)] = {0};
    struct iovec part = {.iov_base = (char *)"x", .iov_len = 1};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);

    g_assert_cmpint(fd, >=, 0);
    g_assert_cmpint(open_node(bed, VF0), ==, -EBUSY);
    /* Unlike another group. */
    copy = open_node(bed, VF1);
    g_assert_cmpint(copy, >=, 0);
    close(copy);

    copy = dup(fd);
    close(fd);
    g_assert_cmpint(open_node(bed, VF0), ==, -EBUSY);

    child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    close(copy);
    g_assert_cmpint(open_node(bed, VF0), ==, -EBUSY);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    g_assert_true(bed_wait_free(bed, VF0, 10));

    /* A descriptor in flight, which is in nobody's table. */
    fd = open_node(bed, VF0);
    g_assert_no_errno(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    g_assert_cmpint(sendmsg(pair[0], &message, 0), ==, 1);
    close(fd);
    g_assert_cmpint(open_node(bed, VF0), ==, -EBUSY);
    close(pair[0]);
    close(pair[1]);
    g_assert_true(bed_wait_free(bed, VF0, 10));
    fd = open_node(bed, VF0);
    g_assert_cmpint(fd, >=, 0);
    close(fd);
}

static void
test_device_behind_group(void)
{
    g_autoptr(Bed) bed = bed_with_l40s();
    int fd = open_node(bed, VF0);

    g_assert_cmpint(fd, >=, 0);
    g_assert_cmpint(ioctl(fd, VFIO_GROUP_GET_DEVICE_FD, VF0), ==, -1);
    g_assert_cmpint(errno, ==, ENODEV);
    g_assert_cmpint(bed_set_by_hand(bed, VF0, 1148), ==, 0);
    g_assert_cmpint(ioctl(fd, VFIO_GROUP_GET_DEVICE_FD, VF0), ==, 0);
    g_assert_cmpint(set_type(bed, VF0, "0"), ==, EPERM);
    close(fd);
    g_assert_true(bed_wait_free(bed, VF0, 10));
    g_assert_cmpint(set_type(bed, VF0, "0"), ==, 0);
    g_assert_cmpuint(bed_trace_count(bed, BED_TRACE_DEVICE, VF0, NULL), ==, 2);
}

static gboolean
process_shows(pid_t pid, const char *path)
{
    g_autofree char *dir = g_strdup_printf("/proc/%d/fd", (int)pid);
    g_autoptr(GDir) fds = g_dir_open(dir, 0, NULL);
    struct stat node, st;
    const char *name;

    g_assert_no_errno(stat(path, &node));
    while ((name = g_dir_read_name(fds))) {
        g_autofree char *link = g_build_filename(dir, name, NULL);

        if (stat(link, &st) == 0 && st.st_dev == node.st_dev && st.st_ino == node.st_ino)
            return TRUE;
    }
    return FALSE;
}

static void
test_holders(void)
{
    static const struct {
        BedHold how;
        gboolean shown;
    } ways[] = {{BED_HOLD_VM, TRUE},        {BED_HOLD_GROUP_ONLY, TRUE}, {BED_HOLD_DEVICE_ONLY, FALSE},
                {BED_HOLD_ELSEWHERE, TRUE}, {BED_HOLD_BIND_MOUNT, TRUE}, {BED_HOLD_OTHER_PIDNS, TRUE},
                {BED_HOLD_AS_ROOT, TRUE}};
    g_autoptr(Bed) bed = bed_with_l40s();
    g_autofree char *node = bed_group_node(bed, VF0);
    g_autofree char *path = bed_path(bed, node);

    g_assert_cmpint(bed_set_by_hand(bed, VF0, 1148), ==, 0);
    for (guint i = 0; i < G_N_ELEMENTS(ways); i++) {
        int error = 0;
        BedHolder *holder =
            bed_hold_full(bed, VF0, ways[i].how, "\xff", ways[i].how & BED_HOLD_AS_ROOT ? 65534 : 0, &error);
        g_autofree char *comm_path = NULL;
        g_autofree char *comm = NULL;

        g_assert_cmpint(error, ==, 0);
        g_assert_nonnull(holder);
        comm_path = g_strdup_printf("/proc/%d/comm", (int)bed_holder_pid(holder));
        g_assert_true(g_file_get_contents(comm_path, &comm, NULL, NULL));
        g_assert_cmpstr(comm, ==, "\xff\n");
        g_assert_cmpint(open_node(bed, VF0), ==, -EBUSY);
        g_assert_cmpint(process_shows(bed_holder_pid(holder), path), ==, ways[i].shown);
        g_assert_cmpint(set_type(bed, VF0, "0"), ==, ways[i].how & BED_HOLD_GROUP_ONLY ? 0 : EPERM);
        if (ways[i].how & BED_HOLD_GROUP_ONLY)
            g_assert_cmpint(bed_set_by_hand(bed, VF0, 1148), ==, 0);
        if (i % 2) {
            bed_holder_close(holder);
            g_assert_true(bed_wait_free(bed, VF0, 10));
            bed_let_go(holder);
        } else {
            bed_kill_holder(holder);
        }
        g_assert_true(bed_wait_free(bed, VF0, 10));
    }
    {
        int error = 0;

        /* Nobody else may open it. */
        g_assert_null(bed_hold_full(bed, VF0, BED_HOLD_VM, NULL, 65534, &error));
        g_assert_cmpint(error, ==, EACCES);
    }
}

static void
test_node_knobs(void)
{
    g_autoptr(Bed) bed = bed_with_l40s();
    gint64 began;
    int fd;

    bed_open_fails(bed, VF0, EPERM);
    g_assert_cmpint(open_node(bed, VF0), ==, -EPERM);
    bed_open_fails(bed, VF0, 0);
    bed_keep_busy(bed, VF0, TRUE);
    g_assert_cmpint(open_node(bed, VF0), ==, -EBUSY);
    bed_keep_busy(bed, VF0, FALSE);
    began = g_get_monotonic_time();
    bed_keep_busy_for(bed, VF0, 100);
    g_assert_cmpint(open_node(bed, VF0), ==, -EBUSY);
    while ((fd = open_node(bed, VF0)) == -EBUSY)
        g_usleep(1000);
    g_assert_cmpint(fd, >=, 0);
    g_assert_cmpint(g_get_monotonic_time() - began, >=, 100000);
    close(fd);
}

/* What the daemon must survive hundreds of times: closed, said so, and busy a little longer. */
static void
test_many_closes(void)
{
    g_autoptr(Bed) bed = bed_with_l40s();

    g_assert_cmpint(bed_set_by_hand(bed, VF0, 1148), ==, 0);
    bed_close_early(bed, VF0, 1);
    for (guint i = 0; i < 200; i++) {
        BedHolder *holder = bed_hold(bed, VF0);

        g_assert_cmpint(open_node(bed, VF0), ==, -EBUSY);
        if (i % 2)
            bed_kill_holder(holder);
        else
            bed_let_go(holder);
        g_assert_true(bed_wait_free(bed, VF0, 10));
    }
    g_assert_cmpint(set_type(bed, VF0, "0"), ==, 0);
}

static gboolean
next_event(int inotify, uint32_t mask)
{
    struct pollfd wait = {.fd = inotify, .events = POLLIN};
    char buffer[4096] __attribute__((aligned(8)));
    ssize_t n;

    if (poll(&wait, 1, (int)(10000 * bed_slow())) != 1)
        return FALSE;
    n = read(inotify, buffer, sizeof buffer);
    for (ssize_t at = 0; at < n;) {
        struct inotify_event *event = (struct inotify_event *)(void *)(buffer + at);

        if (event->mask & mask)
            return TRUE;
        at += (ssize_t)(sizeof *event + event->len);
    }
    return next_event(inotify, mask);
}

static void
test_close_event(void)
{
    g_autoptr(Bed) bed = bed_with_l40s();
    g_autofree char *node = bed_group_node(bed, VF0);
    g_autofree char *path = bed_path(bed, node);
    int inotify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    BedHolder *holder;
    struct pollfd nothing = {.fd = inotify, .events = POLLIN};

    g_assert_cmpint(bed_set_by_hand(bed, VF0, 1148), ==, 0);
    g_assert_cmpint(inotify_add_watch(inotify, path, IN_OPEN | IN_CLOSE | IN_DELETE_SELF), >=, 0);
    bed_close_early(bed, VF0, 300);
    holder = bed_hold_full(bed, VF0, BED_HOLD_DEVICE_ONLY, NULL, 0, NULL);
    g_assert_true(next_event(inotify, IN_OPEN));
    g_assert_cmpint(poll(&nothing, 1, 0), ==, 0);
    bed_let_go(holder);
    g_assert_true(next_event(inotify, IN_CLOSE));
    g_assert_cmpint(open_node(bed, VF0), ==, -EBUSY);
    g_assert_true(bed_wait_free(bed, VF0, 10));
    bed_close_early(bed, VF0, 0);

    /* A node made elsewhere says nothing to this watch. */
    while (poll(&nothing, 1, 0) == 1)
        next_event(inotify, ~0u);
    holder = bed_hold_full(bed, VF0, BED_HOLD_ELSEWHERE, NULL, 0, NULL);
    g_assert_cmpint(open_node(bed, VF0), ==, -EBUSY);
    bed_let_go(holder);
    g_assert_true(bed_wait_free(bed, VF0, 10));
    /* Our own failed open made no event either: an open that fails is none. */
    g_assert_cmpint(poll(&nothing, 1, 0), ==, 0);

    bed_remove_vf(bed, VF0);
    g_assert_true(next_event(inotify, IN_IGNORED));
    close(inotify);
}

static void
test_acl(void)
{
    g_autoptr(Bed) bed = bed_with_l40s();
    g_autofree char *node = bed_group_node(bed, VF0);
    g_autofree char *path = bed_path(bed, node);
    acl_t acl = acl_from_text("u::rw,u:65534:rw,g::-,m::rw,o::-");
    acl_t back;
    char *text;
    struct stat st;
    BedHolder *holder;
    int error = 0;

    g_assert_no_errno(acl_set_file(path, ACL_TYPE_ACCESS, acl));
    acl_free(acl);
    g_assert_no_errno(stat(path, &st));
    g_assert_cmpuint(st.st_mode & 0777, ==, 0660);
    g_assert_cmpint(bed_set_by_hand(bed, VF0, 1148), ==, 0);
    g_assert_null(bed_hold_full(bed, VF0, BED_HOLD_VM, NULL, 65533, &error));
    g_assert_cmpint(error, ==, EACCES);
    holder = bed_hold_full(bed, VF0, BED_HOLD_VM, NULL, 65534, &error);
    g_assert_nonnull(holder);

    /* udev applies its mode: the entry stays, the mask is empty; the open descriptor does not care. */
    bed_reapply_mode(bed, VF0, 0600);
    back = acl_get_file(path, ACL_TYPE_ACCESS);
    text = acl_to_any_text(back, NULL, ',', TEXT_NUMERIC_IDS);
    g_assert_cmpstr(text, ==, "user::rw-,user:65534:rw-,group::---,mask::---,other::---");
    acl_free(text);
    acl_free(back);
    g_assert_cmpint(open_node(bed, VF0), ==, -EBUSY);
    bed_let_go(holder);
    g_assert_true(bed_wait_free(bed, VF0, 10));
    g_assert_null(bed_hold_full(bed, VF0, BED_HOLD_VM, NULL, 65534, &error));
    g_assert_cmpint(error, ==, EACCES);

    /* Put back through an O_PATH descriptor, and taken away. */
    {
        int fd = open(path, O_PATH | O_CLOEXEC);
        g_autofree char *link = g_strdup_printf("/proc/self/fd/%d", fd);

        acl = acl_from_text("u::rw,u:65534:rw,g::-,m::rw,o::-");
        g_assert_no_errno(acl_set_file(link, ACL_TYPE_ACCESS, acl));
        acl_free(acl);
        holder = bed_hold_full(bed, VF0, BED_HOLD_VM, NULL, 65534, &error);
        g_assert_nonnull(holder);
        bed_let_go(holder);
        g_assert_true(bed_wait_free(bed, VF0, 10));
        acl = acl_from_text("u::rw,g::-,o::-");
        g_assert_no_errno(acl_set_file(link, ACL_TYPE_ACCESS, acl));
        acl_free(acl);
        close(fd);
        g_assert_null(bed_hold_full(bed, VF0, BED_HOLD_VM, NULL, 65534, &error));
        g_assert_cmpint(error, ==, EACCES);
    }

    bed_chown_node(bed, VF0, 65534, 65534);
    holder = bed_hold_full(bed, VF0, BED_HOLD_VM, NULL, 65534, &error);
    g_assert_nonnull(holder);
    bed_let_go(holder);
}

static void
test_cdev(void)
{
    BedOptions options = {.cdev = TRUE};
    g_autoptr(Bed) bed = bed_new(&options);
    g_autofree char *node = NULL;
    g_autofree char *path = NULL;
    BedHolder *unbound, *also_unbound, *bound;
    int fd, error = 0;

    bed_add_card(bed, "l40s", PF, 2);
    node = bed_device_node(bed, VF0);
    path = bed_path(bed, node);
    g_assert_no_errno(access(path, F_OK));
    g_assert_cmpint(bed_set_by_hand(bed, VF0, 1148), ==, 0);

    unbound = bed_hold_full(bed, VF0, BED_HOLD_CDEV_UNBOUND, NULL, 0, &error);
    also_unbound = bed_hold_full(bed, VF0, BED_HOLD_CDEV_UNBOUND, NULL, 0, &error);
    g_assert_true(unbound && also_unbound);
    fd = open_node(bed, VF0);
    g_assert_cmpint(fd, >=, 0);
    /* An open group keeps the cdev from being bound. */
    g_assert_null(bed_hold_full(bed, VF0, BED_HOLD_CDEV, NULL, 0, &error));
    g_assert_cmpint(error, ==, EBUSY);
    close(fd);
    g_assert_true(bed_trace_wait(bed, BED_TRACE_RELEASE, node, NULL, 1, 10));
    bound = bed_hold_full(bed, VF0, BED_HOLD_CDEV, NULL, 0, &error);
    g_assert_nonnull(bound);
    g_assert_cmpint(open_node(bed, VF0), ==, -EBUSY);
    g_assert_cmpint(set_type(bed, VF0, "0"), ==, EPERM);
    bed_let_go(bound);
    bed_let_go(unbound);
    bed_let_go(also_unbound);
    g_assert_true(bed_wait_free(bed, VF0, 10));
    g_assert_cmpint(set_type(bed, VF0, "0"), ==, 0);
}

static void
test_no_groups(void)
{
    BedOptions options = {.no_groups = TRUE};
    g_autoptr(Bed) bed = bed_new(&options);
    g_autofree char *vfio = NULL;

    bed_add_card(bed, "l40s", PF, 2);
    g_assert_null(bed_group_node(bed, VF0));
    vfio = bed_path(bed, "/sys/class/vfio");
    g_assert_cmpint(access(vfio, F_OK), ==, -1);
    {
        g_autofree char *node = bed_device_node(bed, VF0);
        g_autofree char *path = bed_path(bed, node);

        g_assert_no_errno(access(path, F_OK));
    }
}

static void
test_noiommu(void)
{
    BedOptions options = {.noiommu = TRUE};
    g_autoptr(Bed) bed = bed_new(&options);
    g_autofree char *node = NULL;
    g_autofree char *expected = NULL;

    bed_add_card(bed, "l40s", PF, 1);
    node = bed_group_node(bed, VF0);
    expected = g_strdup_printf("/dev/vfio/noiommu-%d", bed_group(bed, VF0));
    g_assert_cmpstr(node, ==, expected);
}

static void
test_shared_group(void)
{
    g_autoptr(Bed) bed = bed_with_l40s();
    g_autofree char *devices = g_strdup_printf("/sys/kernel/iommu_groups/%d/devices", bed_group(bed, VF0));
    g_autofree char *path = bed_path(bed, devices);
    g_autoptr(GDir) dir = NULL;
    guint n = 0;

    bed_share_group(bed, VF1, VF0);
    bed_share_group(bed, "0000:3b:00.1", VF0);
    g_assert_cmpint(bed_group(bed, VF1), ==, bed_group(bed, VF0));
    dir = g_dir_open(path, 0, NULL);
    while (g_dir_read_name(dir))
        n++;
    g_assert_cmpuint(n, ==, 3);
    assert_reads(bed, "0000:3b:00.1/class", "0x040300\n");
    bed_vf_without_group(bed, "0000:3b:00.6");
    g_assert_cmpint(bed_group(bed, "0000:3b:00.6"), ==, -1);
    g_assert_cmpuint(bed_inode(bed, "0000:3b:00.6/vfio-dev"), ==, 0);
}

/* ---- mdev ---- */

static int
create(Bed *bed, const char *type, const char *uuid)
{
    g_autofree char *path = g_strdup_printf(T4 "/mdev_supported_types/%s/create", type);

    return write_error(bed, path, uuid);
}

static void
test_mdev_life(void)
{
    g_autoptr(Bed) bed = bed_new(NULL);

    bed_add_card(bed, "t4", T4, 0);
    g_assert_true(bed_wait_mdevs(bed, NULL, 0, 0));
    assert_reads(bed, T4 "/mdev_supported_types/nvidia-231/name", "GRID T4-2Q\n");
    assert_reads(bed, T4 "/mdev_supported_types/nvidia-231/available_instances", "8\n");
    g_assert_cmpint(create(bed, "nvidia-231", UUID "\n"), ==, 0);
    assert_reads(bed, T4 "/mdev_supported_types/nvidia-231/available_instances", "7\n");
    assert_reads(bed, T4 "/mdev_supported_types/nvidia-234/available_instances", "0\n");
    g_assert_cmpstr(bed_mdev_type(bed, UUID), ==, "nvidia-231");
    g_assert_true(bed_wait_mdevs(bed, T4, 1, 10));
    {
        static const char *const there[] = {"/sys/bus/mdev/devices/" UUID "/mdev_type/name",
                                            "/sys/bus/mdev/devices/" UUID "/iommu_group/devices/" UUID,
                                            "/sys/class/mdev_bus/" T4
                                            "/mdev_supported_types/nvidia-231/devices/" UUID "/driver",
                                            "/sys/bus/mdev/devices/" UUID "/vfio-dev/vfio0/uevent"};
        g_autofree char *node = bed_group_node(bed, UUID);
        g_autofree char *path = bed_path(bed, node);

        for (guint i = 0; i < G_N_ELEMENTS(there); i++) {
            g_autofree char *real = bed_path(bed, there[i]);

            g_assert_no_errno(access(real, F_OK));
        }
        g_assert_no_errno(access(path, F_OK));
        g_assert_cmpint(write_error(bed, UUID "/remove", "1"), ==, 0);
        g_assert_cmpint(access(path, F_OK), ==, -1);
    }
    assert_reads(bed, T4 "/mdev_supported_types/nvidia-231/available_instances", "8\n");
    assert_reads(bed, T4 "/mdev_supported_types/nvidia-234/available_instances", "1\n");
    {
        g_auto(GStrv) mdevs = bed_mdevs(bed, NULL);

        g_assert_cmpuint(g_strv_length(mdevs), ==, 0);
    }
}

static void
test_mdev_errors(void)
{
    g_autoptr(Bed) bed = bed_new(NULL);

    bed_add_card(bed, "t4", T4, 0);
    bed_add_card(bed, "gvtg", "0000:00:02.0", 0);
    g_assert_cmpint(create(bed, "nvidia-231", "11111111-2222-3333-4444-55555555555"), ==, EINVAL);
    g_assert_cmpint(create(bed, "nvidia-231", UUID "5"), ==, EINVAL);
    g_assert_cmpint(create(bed, "nvidia-231", "1111111122222333334444455555555555555"), ==, EINVAL);
    g_assert_cmpint(create(bed, "nvidia-231", "zzzzzzzz-2222-3333-4444-555555555555"), ==, EINVAL);
    g_assert_cmpint(create(bed, "nvidia-231", UUID), ==, 0);
    g_assert_cmpint(create(bed, "nvidia-231", UUID), ==, EEXIST);
    g_assert_cmpint(write_error(bed, "0000:00:02.0/mdev_supported_types/i915-GVTg_V5_4/create", UUID), ==,
                    EEXIST);
    g_assert_cmpint(create(bed, "nvidia-234", UUID2), ==, EIO);
    g_assert_cmpint(write_error(bed, "0000:00:02.0/mdev_supported_types/i915-GVTg_V5_4/create", UUID2), ==,
                    0);
    assert_reads(bed, "0000:00:02.0/mdev_supported_types/i915-GVTg_V5_8/available_instances", "0\n");
    g_assert_cmpint(write_error(bed, "0000:00:02.0/mdev_supported_types/i915-GVTg_V5_8/create",
                                "11111111-2222-3333-4444-777777777777"),
                    ==, ENOSPC);
    g_assert_cmpint(write_error(bed, UUID "/remove", "x"), ==, EINVAL);
    bed_fail(bed, T4, BED_CREATE, EAGAIN, 1);
    g_assert_cmpint(create(bed, "nvidia-231", "11111111-2222-3333-4444-888888888888"), ==, EAGAIN);
    {
        g_autofree char *path = bed_path(bed, T4 "/mdev_supported_types/nvidia-231/create");
        int fd = open(path, O_WRONLY | O_CLOEXEC);

        bed_remove_card(bed, T4);
        g_assert_cmpint(write(fd, UUID, 36), ==, -1);
        g_assert_cmpint(errno, ==, ENODEV);
        close(fd);
    }
    {
        g_auto(GStrv) rest = bed_mdevs(bed, NULL);

        g_assert_cmpuint(g_strv_length(rest), ==, 1);
    }
}

static void
test_mdev_counts(void)
{
    g_autoptr(Bed) bed = bed_new(NULL);
    static const char *const card = "0000:01:00.0";
    g_autofree char *dump = data_text("rtx6000-unlock-after-1q.mdev.tsv");
    g_auto(GStrv) lines = g_strsplit(dump, "\n", -1);
    guint checked = 0;

    /* One 1Q on the first of four cards gives the counts that were seen. */
    bed_add_card(bed, "rtx6000", card, 0);
    bed_add_card(bed, "rtx6000", "0000:41:00.0", 0);
    g_assert_cmpint(write_error(bed, "0000:01:00.0/mdev_supported_types/nvidia-256/create", UUID), ==, 0);
    for (guint i = 0; lines[i]; i++) {
        g_auto(GStrv) halves = g_strsplit(lines[i], "\t", 2);
        g_autofree char *path = NULL;
        g_autofree char *value = NULL;

        if (!g_str_has_prefix(lines[i], "bus/pci/devices/"))
            continue;
        path = g_strconcat("/sys/", halves[0], NULL);
        value = g_strcompress(halves[1]);
        assert_reads(bed, path, value);
        checked++;
    }
    g_assert_cmpuint(checked, >, 60);
    assert_reads(bed, "0000:41:00.0/mdev_supported_types/nvidia-257/available_instances", "12\n");
}

static void
test_mdev_dumps(void)
{
    static const struct {
        const char *model, *address, *file;
    } cards[] = {{"t4", T4, "t4.mdev.tsv"},
                 {"v100d", "0000:47:00.0", "v100d.mdev.tsv"},
                 {"gvtg", "0000:00:02.0", "gvtg-new.mdev.tsv"}};
    g_autoptr(Bed) bed = bed_new(NULL);

    for (guint k = 0; k < G_N_ELEMENTS(cards); k++) {
        g_autofree char *dump = data_text(cards[k].file);
        g_auto(GStrv) lines = g_strsplit(dump, "\n", -1);

        bed_add_card(bed, cards[k].model, cards[k].address, 0);
        for (guint i = 0; lines[i] && *lines[i]; i++) {
            g_auto(GStrv) halves = g_strsplit(lines[i], "\t", 2);
            g_autofree char *path = g_strconcat("/sys/", halves[0], NULL);
            g_autofree char *value = g_strcompress(halves[1]);

            if (g_str_has_prefix(value, "-> ")) {
                g_autofree char *real = bed_path(bed, path);

                g_assert_no_errno(access(real, F_OK));
            } else {
                assert_reads(bed, path, value);
            }
        }
    }
    bed_add_card(bed, "gvtg-old", "0000:80:02.0", 0);
    g_assert_cmpuint(bed_inode(bed, "0000:80:02.0/mdev_supported_types/i915-GVTg_V5_4/name"), ==, 0);
    bed_add_card(bed, "plain", "0000:02:00.0", 0);
    g_assert_cmpuint(bed_inode(bed, "0000:02:00.0/mdev_supported_types"), ==, 0);
}

/* An A2: each VF takes one, of the size that the card has. */
static void
test_mdev_on_vfs(void)
{
    g_autoptr(Bed) bed = bed_new(NULL);

    bed_add_card(bed, "a2", "0000:08:00.0", -1);
    assert_reads(bed, "0000:08:00.4/mdev_supported_types/nvidia-746/available_instances", "1\n");
    g_assert_cmpint(write_error(bed, "0000:08:00.4/mdev_supported_types/nvidia-754/create", UUID), ==, 0);
    assert_reads(bed, "0000:08:00.4/mdev_supported_types/nvidia-746/available_instances", "0\n");
    assert_reads(bed, "0000:08:02.3/mdev_supported_types/nvidia-746/available_instances", "1\n");
    assert_reads(bed, "0000:08:02.3/mdev_supported_types/nvidia-745/available_instances", "0\n");
    g_assert_cmpint(write_error(bed, "0000:08:00.4/mdev_supported_types/nvidia-754/create", UUID2), ==, EIO);
}

static void
test_mdev_remove_blocks(void)
{
    g_autoptr(Bed) bed = bed_new(NULL);
    BedHolder *vm;
    pid_t pid;
    int status;

    bed_add_card(bed, "t4", T4, 0);
    g_assert_cmpint(create(bed, "nvidia-231", UUID), ==, 0);
    vm = bed_hold(bed, UUID);
    pid = write_in_child(bed, UUID "/remove", "1");
    g_assert_true(bed_wait_stalled(bed, UUID, 10));
    kill(pid, SIGKILL);
    wait_state(pid, 'D');
    g_assert_true(bed_exists(bed, UUID));
    g_assert_cmpint(write_error(bed, UUID "/remove", "1"), ==, ENODEV);
    bed_let_go(vm);
    g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
    g_assert_false(bed_exists(bed, UUID));

    /* Only the group is held: removed at once. */
    g_assert_cmpint(create(bed, "nvidia-231", UUID), ==, 0);
    vm = bed_hold_full(bed, UUID, BED_HOLD_GROUP_ONLY, NULL, 0, NULL);
    g_assert_cmpint(write_error(bed, UUID "/remove", "1\n"), ==, 0);
    bed_let_go(vm);

    /* An old driver refuses. */
    g_assert_cmpint(create(bed, "nvidia-231", UUID), ==, 0);
    bed_remove_refuses(bed, T4, EBUSY);
    vm = bed_hold(bed, UUID);
    g_assert_cmpint(write_error(bed, UUID "/remove", "1"), ==, EBUSY);
    bed_let_go(vm);
    g_assert_true(bed_wait_free(bed, UUID, 10));
    g_assert_cmpint(write_error(bed, UUID "/remove", "1"), ==, 0);
}

static void
test_mdev_unbound_cdev_blocks(void)
{
    BedOptions options = {.cdev = TRUE};
    g_autoptr(Bed) bed = bed_new(&options);
    BedHolder *vm;
    pid_t pid;

    bed_add_card(bed, "t4", T4, 0);
    g_assert_cmpint(bed_create_by_hand(bed, T4, "nvidia-231", UUID), ==, 0);
    vm = bed_hold_full(bed, UUID, BED_HOLD_CDEV_UNBOUND, NULL, 0, NULL);
    g_assert_cmpint(bed_remove_by_hand(bed, UUID), ==, -EBUSY);
    pid = write_in_child(bed, UUID "/remove", "1");
    g_assert_true(bed_wait_stalled(bed, UUID, 10));
    bed_let_go(vm);
    g_assert_cmpint(waitpid(pid, NULL, 0), ==, pid);
    g_assert_false(bed_exists(bed, UUID));
}

static void
test_mdev_definitions(void)
{
    g_autoptr(Bed) bed = bed_new(NULL);
    g_autofree char *passwd = NULL;

    bed_define_mdev(bed, T4, UUID, NULL);
    bed_define_mdev(bed, T4, UUID2, "{}");
    g_assert_no_errno(access("/etc/mdevctl.d/" T4 "/" UUID, F_OK));
    g_assert_true(g_file_get_contents("/etc/passwd", &passwd, NULL, NULL));
}

/* ---- Trace ---- */

static void
test_trace(void)
{
    g_autoptr(Bed) bed = bed_with_l40s();
    g_autoptr(GPtrArray) writes = NULL;
    const BedTraceEntry *entry;
    BedHolder *holder;
    gint64 before = g_get_monotonic_time();
    g_autofree char *node = bed_group_node(bed, VF0);
    pid_t child;

    child = write_in_child(bed, VF0 "/nvidia/current_vgpu_type", "1148\n");
    waitpid(child, NULL, 0);
    g_assert_cmpint(set_type(bed, VF0, "1148"), ==, EPERM);
    g_assert_cmpint(write_error(bed, PF "/sriov_numvfs", "0"), ==, 0);

    writes = bed_trace(bed, BED_TRACE_WRITE, VF0);
    g_assert_cmpuint(writes->len, ==, 2);
    entry = writes->pdata[0];
    g_assert_cmpstr(entry->path, ==, "/sys/devices/pci0000:3b/" VF0 "/nvidia/current_vgpu_type");
    g_assert_cmpstr(entry->value, ==, "1148\n");
    g_assert_cmpint(entry->error, ==, 0);
    g_assert_cmpint(entry->pid, ==, child);
    g_assert_cmpint(entry->began, >=, before);
    g_assert_cmpint(entry->ended, >=, entry->began);
    entry = writes->pdata[1];
    g_assert_cmpint(entry->error, ==, EPERM);
    g_assert_cmpint(entry->pid, ==, getpid());
    g_assert_cmpuint(bed_trace_count(bed, BED_TRACE_WRITE, NULL, NULL), ==, 3);
    g_assert_cmpuint(bed_trace_count(bed, BED_TRACE_WRITE, VF0, "1148"), ==, 2);
    g_assert_cmpuint(bed_trace_count(bed, BED_TRACE_WRITE, PF, "0"), ==, 1);
    g_assert_cmpuint(bed_trace_count(bed, BED_TRACE_WRITE, VF1, NULL), ==, 0);

    holder = bed_hold(bed, VF0);
    g_assert_cmpint(open_node(bed, VF0), ==, -EBUSY);
    g_assert_cmpuint(bed_trace_count(bed, BED_TRACE_OPEN, node, NULL), ==, 2);
    g_assert_cmpuint(bed_trace_count(bed, BED_TRACE_OPEN, VF0, NULL), ==, 2);
    {
        pid_t pid = bed_holder_pid(holder);
        g_autoptr(GPtrArray) releases = NULL;

        bed_let_go(holder);
        g_assert_true(bed_trace_wait(bed, BED_TRACE_RELEASE, VF0, NULL, 1, 10));
        releases = bed_trace(bed, BED_TRACE_RELEASE, VF0);
        g_assert_cmpint(((BedTraceEntry *)releases->pdata[0])->pid, ==, pid);
    }
    {
        g_autofree char *text = bed_trace_text(bed);

        g_assert_nonnull(strstr(text, "current_vgpu_type \"1148\\n\": ok"));
    }
    g_assert_false(bed_trace_wait(bed, BED_TRACE_WRITE, VF1, NULL, 1, 0.01));
    bed_trace_reset(bed);
    g_assert_cmpuint(bed_trace_count(bed, BED_TRACE_ALL, NULL, NULL), ==, 0);
}

static gpointer
write_with_thread_id(gpointer data)
{
    set_type(data, VF0, "1148");
    return NULL;
}

/* FUSE knows threads; the trace knows processes. */
static void
test_trace_thread(void)
{
    g_autoptr(Bed) bed = bed_with_l40s();
    g_autoptr(GPtrArray) writes = NULL;
    const BedTraceEntry *entry;

    g_thread_join(g_thread_new("writer", write_with_thread_id, bed));
    writes = bed_trace(bed, BED_TRACE_WRITE, VF0);
    entry = writes->pdata[0];
    g_assert_cmpint(entry->pid, ==, getpid());
    g_assert_cmpint(entry->tid, !=, getpid());
}

/* ---- Coming and going ---- */

static void
test_inodes_reload(void)
{
    g_autoptr(Bed) bed = bed_with_l40s();
    g_autofree char *node = bed_group_node(bed, VF0);
    uint64_t dir = bed_inode(bed, VF0);
    uint64_t nvidia = bed_inode(bed, VF0 "/nvidia");
    uint64_t group = bed_inode(bed, node);
    int number = bed_group(bed, VF0);
    g_autofree char *path = bed_path(bed, VF0);
    struct stat st;

    g_assert_no_errno(stat(path, &st));
    g_assert_cmpuint(st.st_ino, ==, dir);
    g_assert_cmpint(bed_set_by_hand(bed, VF0, 1148), ==, 0);
    bed_reload_driver(bed, VF0, 1148);
    g_assert_cmpuint(bed_inode(bed, VF0), ==, dir);
    g_assert_cmpuint(bed_inode(bed, VF0 "/nvidia"), >, nvidia);
    g_assert_cmpuint(bed_inode(bed, node), >, group);
    g_assert_cmpint(bed_group(bed, VF0), ==, number);
    assert_reads(bed, VF0 "/nvidia/current_vgpu_type", "1148\n");
    bed_reload_driver(bed, VF0, 0);
    assert_reads(bed, VF0 "/nvidia/current_vgpu_type", "0\n");

    nvidia = bed_inode(bed, VF0 "/nvidia");
    bed_disable_vfs(bed, PF);
    g_assert_false(bed_exists(bed, VF0));
    assert_reads(bed, PF "/sriov_numvfs", "0\n");
    bed_enable_vfs(bed, PF, 32);
    g_assert_cmpuint(bed_inode(bed, VF0), >, dir);
    g_assert_cmpuint(bed_inode(bed, VF0 "/nvidia"), >, nvidia);
    g_assert_no_errno(stat(path, &st));
    g_assert_cmpuint(st.st_ino, ==, bed_inode(bed, VF0));
}

static void
test_late_attributes(void)
{
    g_autoptr(Bed) bed = bed_new(NULL);
    gint64 deadline = bed_deadline(10);

    bed_late_attributes(bed, 50);
    bed_add_card(bed, "l40s", PF, 1);
    while (bed_inode(bed, VF0 "/nvidia") == 0) {
        g_assert_cmpint(g_get_monotonic_time(), <, deadline);
        g_usleep(1000);
    }
    assert_reads(bed, VF0 "/nvidia/current_vgpu_type", "0\n");
}

typedef struct {
    pid_t pid;
    int input;
    FILE *output;
} Probe;

static Probe
probe_start(Bed *bed, const char *const *arguments)
{
    g_auto(GStrv) environment = bed_environ(bed, NULL);
    g_autoptr(GError) error = NULL;
    const char *argv[16] = {BED_PROBE};
    Probe probe;
    int output;

    for (guint i = 0; arguments[i]; i++)
        argv[i + 1] = arguments[i];
    g_assert_true(g_spawn_async_with_pipes(NULL, (char **)argv, environment, G_SPAWN_DO_NOT_REAP_CHILD, NULL,
                                           NULL, &probe.pid, &probe.input, &output, NULL, &error));
    g_assert_no_error(error);
    probe.output = fdopen(output, "r");
    return probe;
}

/* The next line; the caller frees it. */
static char *
probe_line(Probe *probe)
{
    struct pollfd wait = {.fd = fileno(probe->output), .events = POLLIN};
    char line[1024];

    setvbuf(probe->output, NULL, _IONBF, 0);
    if (poll(&wait, 1, (int)(10000 * bed_slow())) != 1)
        g_error("the probe says nothing");
    if (!fgets(line, sizeof line, probe->output))
        return NULL;
    return g_strchomp(g_strdup(line));
}

static int
probe_end(Probe *probe)
{
    int status;

    close(probe->input);
    waitpid(probe->pid, &status, 0);
    fclose(probe->output);
    return status;
}

static char *
probe_once(Bed *bed, const char *const *arguments)
{
    Probe probe = probe_start(bed, arguments);
    char *line = probe_line(&probe);

    g_assert_cmpint(probe_end(&probe), ==, 0);
    return line;
}

static void
assert_event(Probe *probe, const char *expected)
{
    g_autofree char *line = probe_line(probe);

    g_assert_cmpstr(line, ==, expected);
}

static void
test_uevents(void)
{
    g_autoptr(Bed) bed = bed_new(NULL);
    Probe probe = probe_start(bed, (const char *const[]){"monitor", "pci", "mdev", "vfio", "vfio-dev", NULL});

    assert_event(&probe, "ready");
    bed_add_card(bed, "l40s", PF, 1);
    assert_event(&probe, "add pci /devices/pci0000:3b/" PF " - -");
    assert_event(&probe, "bind pci /devices/pci0000:3b/" PF " - -");
    assert_event(&probe, "add pci /devices/pci0000:3b/" VF0 " - -");
    assert_event(&probe, "add vfio /devices/virtual/vfio/41 /dev/vfio/41 -");
    assert_event(&probe, "add vfio-dev /devices/pci0000:3b/" VF0 "/vfio-dev/vfio0 - -");
    assert_event(&probe, "bind pci /devices/pci0000:3b/" VF0 " - -");

    bed_reload_driver(bed, VF0, 0);
    assert_event(&probe, "remove vfio-dev /devices/pci0000:3b/" VF0 "/vfio-dev/vfio0 - -");
    assert_event(&probe, "remove vfio /devices/virtual/vfio/41 /dev/vfio/41 -");
    assert_event(&probe, "unbind pci /devices/pci0000:3b/" VF0 " - -");
    assert_event(&probe, "add vfio /devices/virtual/vfio/41 /dev/vfio/41 -");
    assert_event(&probe, "add vfio-dev /devices/pci0000:3b/" VF0 "/vfio-dev/vfio0 - -");
    assert_event(&probe, "bind pci /devices/pci0000:3b/" VF0 " - -");

    bed_mute_uevents(bed, TRUE);
    bed_reload_driver(bed, VF0, 0);
    bed_mute_uevents(bed, FALSE);
    bed_uevent(bed, VF0, "change");
    assert_event(&probe, "change pci /devices/pci0000:3b/" VF0 " - -");

    bed_add_card(bed, "t4", T4, 0);
    assert_event(&probe, "add pci /devices/pci0000:65/" T4 " - -");
    assert_event(&probe, "change pci /devices/pci0000:65/" T4 " - registered");
    assert_event(&probe, "bind pci /devices/pci0000:65/" T4 " - -");
    /* By a write of another process; the event comes from another thread than the driver's. */
    waitpid(write_in_child(bed, T4 "/mdev_supported_types/nvidia-231/create", UUID), NULL, 0);
    assert_event(&probe, "add mdev /devices/pci0000:65/" T4 "/" UUID " - -");
    assert_event(&probe, "add vfio /devices/virtual/vfio/43 /dev/vfio/43 -");
    assert_event(&probe, "add vfio-dev /devices/pci0000:65/" T4 "/" UUID "/vfio-dev/vfio1 - -");
    g_assert_cmpint(bed_remove_by_hand(bed, UUID), ==, 0);
    assert_event(&probe, "remove vfio-dev /devices/pci0000:65/" T4 "/" UUID "/vfio-dev/vfio1 - -");
    assert_event(&probe, "remove vfio /devices/virtual/vfio/43 /dev/vfio/43 -");
    assert_event(&probe, "remove mdev /devices/pci0000:65/" T4 "/" UUID " - -");
    g_assert_cmpint(probe_end(&probe), ==, 0);
}

static gpointer
add_card_in_thread(gpointer data)
{
    bed_add_card(data, "l40s", PF, 32);
    return NULL;
}

/* More events than a socket holds, to a listener that is slow: none is lost. */
static void
test_uevents_burst(void)
{
    g_autoptr(Bed) bed = bed_new(NULL);
    Probe probe = probe_start(bed, (const char *const[]){"monitor", "vfio", NULL});
    g_autoptr(GHashTable) groups = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    gint64 deadline = bed_deadline(10);
    GThread *adder;

    assert_event(&probe, "ready");
    kill(probe.pid, SIGSTOP);
    wait_state(probe.pid, 'T');
    adder = g_thread_new("adder", add_card_in_thread, bed);
    while (!bed_exists(bed, "0000:3b:04.3")) {
        g_assert_cmpint(g_get_monotonic_time(), <, deadline);
        g_usleep(1000);
    }
    kill(probe.pid, SIGCONT);
    g_thread_join(adder);
    for (guint i = 0; i < 32; i++) {
        char *line = probe_line(&probe);

        g_assert_true(g_str_has_prefix(line, "add vfio "));
        g_hash_table_add(groups, line);
    }
    g_assert_cmpuint(g_hash_table_size(groups), ==, 32);
    g_assert_cmpint(probe_end(&probe), ==, 0);
}

/* Two processes whose monitors have the same descriptor number. */
static void
test_uevents_two(void)
{
    g_autoptr(Bed) bed = bed_new(NULL);
    Probe probes[3];

    for (guint i = 0; i < G_N_ELEMENTS(probes); i++) {
        probes[i] = probe_start(bed, (const char *const[]){"monitor", "vfio", NULL});
        assert_event(&probes[i], "ready");
    }
    kill(probes[0].pid, SIGKILL);
    probe_end(&probes[0]);
    bed_add_card(bed, "l40s", PF, 1);
    assert_event(&probes[1], "add vfio /devices/virtual/vfio/41 /dev/vfio/41 -");
    assert_event(&probes[2], "add vfio /devices/virtual/vfio/41 /dev/vfio/41 -");
    g_assert_cmpint(probe_end(&probes[1]), ==, 0);
    g_assert_cmpint(probe_end(&probes[2]), ==, 0);
}

static void
test_preload(void)
{
    g_autoptr(Bed) bed = bed_with_l40s();
    g_autofree char *node = bed_group_node(bed, VF0);
    BedHolder *holder;

    {
        g_autofree char *line = probe_once(bed, (const char *const[]){"stat", node, NULL});

        g_assert_cmpstr(line, ==, "char 600 235:0");
    }
    {
        g_autofree char *line = probe_once(bed, (const char *const[]){"stat", "/dev/vfio/vfio", NULL});

        g_assert_cmpstr(line, ==, "char 666 10:196");
    }
    {
        g_autofree char *line = probe_once(
            bed, (const char *const[]){"device", "/sys/bus/pci/devices/" VF0 "/vfio-dev/vfio0", NULL});

        g_assert_cmpstr(line, ==,
                        "vfio-dev vfio0 /sys/devices/pci0000:3b/" VF0
                        "/vfio-dev/vfio0 /sys/devices/pci0000:3b/" VF0);
    }
    {
        g_autofree char *line = probe_once(bed, (const char *const[]){"open", node, "200", NULL});

        g_assert_cmpstr(line, ==, "0 0");
    }
    g_assert_cmpint(bed_set_by_hand(bed, VF0, 1148), ==, 0);
    holder = bed_hold(bed, VF0);
    {
        g_autofree char *line = probe_once(bed, (const char *const[]){"open", node, "200", NULL});
        g_autofree char *expected = g_strdup_printf("%d 0", EBUSY);

        g_assert_cmpstr(line, ==, expected);
    }
    bed_let_go(holder);
}

/* ---- The world ---- */

static void
test_world(void)
{
    g_autoptr(Bed) bed = bed_new(NULL);
    g_autofree char *root = g_strdup(bed_root(bed));

    g_assert_cmpint(getppid(), ==, 1);
    bed_add_card(bed, "l40s", PF, 1);
    g_assert_true(g_str_has_prefix(g_get_tmp_dir(), "/"));
    bed_free(g_steal_pointer(&bed));
    g_assert_cmpint(access(root, F_OK), ==, -1);
    {
        g_autofree char *mounts = NULL;

        g_assert_true(g_file_get_contents("/proc/self/mounts", &mounts, NULL, NULL));
        g_assert_null(strstr(mounts, "simulated-host"));
    }
}

/* A bed that goes while a writer is stalled and a holder holds leaves neither in the kernel. */
static void
test_free_under_use(void)
{
    Bed *bed = bed_with_l40s();
    g_autofree char *dir_path = bed_path(bed, VF0);
    int dir = open(dir_path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int status;
    pid_t pid;

    g_assert_cmpint(bed_set_by_hand(bed, VF1, 1148), ==, 0);
    bed_hold(bed, VF1);
    bed_stall(bed, VF0, BED_SET);
    pid = write_in_child(bed, VF0 "/nvidia/current_vgpu_type", "1148");
    g_assert_true(bed_wait_stalled(bed, VF0, 10));
    bed_free(bed);
    g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
    g_assert_cmpint(WEXITSTATUS(status), ==, ENODEV);
    g_assert_cmpint(openat(dir, "nvidia", O_RDONLY | O_CLOEXEC), ==, -1);
    close(dir);
}

static int
die_with_stalled_writer(int argc, char **argv)
{
    Bed *bed = bed_with_l40s();

    bed_stall(bed, VF0, BED_SET);
    write_in_child(bed, VF0 "/nvidia/current_vgpu_type", "1148");
    bed_wait_stalled(bed, VF0, 10);
    kill(getpid(), SIGKILL);
    return 0;
}

/* A test that dies while a writer is stalled takes the writer along, and all that was mounted. */
static void
test_world_dies(void)
{
    gint64 deadline = bed_deadline(20);
    int status = 0;
    pid_t pid = fork();

    if (pid == 0) {
        char *argv[] = {(char *)"nested", NULL};

        _exit(bed_main(1, argv, die_with_stalled_writer));
    }
    while (waitpid(pid, &status, WNOHANG) == 0) {
        g_assert_cmpint(g_get_monotonic_time(), <, deadline);
        g_usleep(1000);
    }
    g_assert_cmpint(WEXITSTATUS(status), ==, 128 + SIGKILL);
}

static int
run(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);

    g_test_add_func("/bed/vendor/catalogue/free-card-lists-all", test_catalogue_free);
    g_test_add_func("/bed/vendor/catalogue/one-vgpu-leaves-its-size", test_catalogue_after_one);
    g_test_add_func("/bed/vendor/catalogue/full-card-lists-nothing", test_catalogue_full);
    g_test_add_func("/bed/vendor/catalogue/mixed-sizes-fill-the-memory", test_catalogue_mixed);
    g_test_add_func("/bed/vendor/catalogue/any-text-verbatim", test_catalogue_verbatim);
    g_test_add_func("/bed/vendor/catalogue/other-cards-byte-exact", test_catalogue_models);
    g_test_add_func("/bed/vendor/set/errors", test_set_errors);
    g_test_add_func("/bed/vendor/clear/errors", test_clear_errors);
    g_test_add_func("/bed/vendor/clear/works-while-the-group-is-held", test_clear_under_group);
    g_test_add_func("/bed/vendor/gone/errors", test_gone_errors);
    g_test_add_func("/bed/vendor/attributes", test_vendor_attributes);
    g_test_add_func("/bed/vendor/pci-facts", test_pci_facts);
    g_test_add_func("/bed/faults/each", test_faults);
    g_test_add_func("/bed/faults/by-hand-is-not-traced", test_by_hand);
    g_test_add_func("/bed/faults/stall", test_stall);
    g_test_add_func("/bed/faults/stalled-writer-cannot-be-killed", test_stalled_writer_cannot_be_killed);
    g_test_add_func("/bed/faults/broken-rules-are-noticed", test_violations);
    g_test_add_func("/bed/node/one-opener", test_single_opener);
    g_test_add_func("/bed/node/device-behind-group", test_device_behind_group);
    g_test_add_func("/bed/node/holders", test_holders);
    g_test_add_func("/bed/node/many-closes", test_many_closes);
    g_test_add_func("/bed/node/knobs", test_node_knobs);
    g_test_add_func("/bed/node/close-event-comes-early", test_close_event);
    g_test_add_func("/bed/node/acl", test_acl);
    g_test_add_func("/bed/node/cdev", test_cdev);
    g_test_add_func("/bed/node/no-groups", test_no_groups);
    g_test_add_func("/bed/node/noiommu", test_noiommu);
    g_test_add_func("/bed/node/shared-group", test_shared_group);
    g_test_add_func("/bed/mdev/life", test_mdev_life);
    g_test_add_func("/bed/mdev/errors", test_mdev_errors);
    g_test_add_func("/bed/mdev/counts-fall-together", test_mdev_counts);
    g_test_add_func("/bed/mdev/dumps-byte-exact", test_mdev_dumps);
    g_test_add_func("/bed/mdev/one-per-vf", test_mdev_on_vfs);
    g_test_add_func("/bed/mdev/remove-blocks-while-open", test_mdev_remove_blocks);
    g_test_add_func("/bed/mdev/unbound-cdev-blocks-remove", test_mdev_unbound_cdev_blocks);
    g_test_add_func("/bed/mdev/definitions", test_mdev_definitions);
    g_test_add_func("/bed/trace/writes-and-opens", test_trace);
    g_test_add_func("/bed/trace/thread-is-told-as-process", test_trace_thread);
    g_test_add_func("/bed/plug/inodes-after-reload-and-renumbering", test_inodes_reload);
    g_test_add_func("/bed/plug/late-attributes", test_late_attributes);
    g_test_add_func("/bed/plug/uevents-reach-a-monitor", test_uevents);
    g_test_add_func("/bed/plug/burst-of-uevents-is-complete", test_uevents_burst);
    g_test_add_func("/bed/plug/uevents-reach-every-monitor", test_uevents_two);
    g_test_add_func("/bed/preload/sees-the-host", test_preload);
    g_test_add_func("/bed/world/leaves-nothing", test_world);
    g_test_add_func("/bed/world/goes-under-use", test_free_under_use);
    g_test_add_func("/bed/world/dies-with-a-stalled-writer", test_world_dies);
    return g_test_run();
}

int
main(int argc, char **argv)
{
    return bed_main(argc, argv, run);
}
