/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* An open device is never cleared; one that nobody uses always comes back. */
#include "host.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define CARD "0000:3b:00.0"
#define T4 "0000:65:00.0"
#define VF "0000:3b:00.4"
#define NOBODY 65534

typedef struct {
    Host *host;
    Bed *bed;
    Client *client;  /* owns what is assigned */
    Client *watcher; /* stays */
} Fixture;

static void
set_up_with(Fixture *fixture, const BedOptions *options)
{
    fixture->host = host_new(options);
    fixture->bed = host_bed(fixture->host);
    bed_add_card(fixture->bed, "l40s", CARD, 4);
    bed_add_card(fixture->bed, "t4", T4, 0);
    host_start(fixture->host, NULL);
    fixture->client = client_new(fixture->host, 0);
    fixture->watcher = client_new(fixture->host, 0);
    client_listen(fixture->watcher);
}

static void
set_up(Fixture *fixture, gconstpointer data)
{
    set_up_with(fixture, NULL);
}

static void
tear_down(Fixture *fixture, gconstpointer data)
{
    g_clear_pointer(&fixture->client, client_free);
    client_free(fixture->watcher);
    host_free(fixture->host);
}

static void
leave(Fixture *fixture)
{
    g_clear_pointer(&fixture->client, client_free);
}

static char *
assign(Fixture *fixture)
{
    return client_must_assign(fixture->client, "L40S-2Q", NULL, NULL);
}

static guint
writes(Fixture *fixture)
{
    return bed_trace_count(fixture->bed, BED_TRACE_WRITE, NULL, NULL);
}

/* However it is held: Release says InUse and writes nothing, the owner leaves and it lingers, it is closed
 * and comes back. */
static void
test_held(Fixture *fixture, gconstpointer how)
{
    g_autofree char *id = assign(fixture);
    BedHolder *holder = bed_hold_full(fixture->bed, VF, (BedHold)GPOINTER_TO_INT(how), NULL, 0, NULL);
    g_autoptr(GError) error = NULL;
    guint before = writes(fixture);

    g_assert_nonnull(holder);
    g_assert_false(client_release(fixture->client, id, &error));
    assert_error(error, "InUse");
    g_assert_true(client_state_is(fixture->watcher, id, "in-use"));
    leave(fixture);
    wait_for(client_state_is(fixture->watcher, id, "lingering"));
    g_assert_cmpuint(writes(fixture), ==, before);
    g_assert_cmpuint(bed_vf_type(fixture->bed, VF), ==, 1148);
    bed_let_go(holder);
    wait_for(client_was_removed(fixture->watcher, id, "owner-vanished"));
    g_assert_cmpuint(bed_vf_type(fixture->bed, VF), ==, 0);
}

static void
test_release_names_the_holder(Fixture *fixture, gconstpointer data)
{
    g_autofree char *id = assign(fixture);
    BedHolder *holder = bed_hold_full(fixture->bed, VF, BED_HOLD_VM, "qemu-kvm", 0, NULL);
    g_autofree char *who = g_strdup_printf("%d qemu-kvm", bed_holder_pid(holder));
    g_autoptr(GVariant) row = NULL;
    g_autoptr(GVariant) holders = NULL;
    g_autoptr(GError) error = NULL;
    const char *first;

    g_assert_false(client_release(fixture->client, id, &error));
    assert_error(error, "InUse");
    g_assert_nonnull(strstr(error->message, who));
    row = client_assignment(fixture->watcher, id);
    holders = g_variant_lookup_value(row, "Holders", G_VARIANT_TYPE("as"));
    g_variant_get_child(holders, 0, "&s", &first);
    g_assert_cmpstr(first, ==, who);
    bed_let_go(holder);
}

static void
test_in_use_is_shown_live(Fixture *fixture, gconstpointer data)
{
    g_autofree char *id = assign(fixture);
    BedHolder *holder;
    guint before;

    g_assert_true(client_state_is(fixture->watcher, id, "assigned"));
    wait_for(client_changes(fixture->watcher, "Assignments") > 0);
    before = client_changes(fixture->watcher, "Assignments");
    holder = bed_hold(fixture->bed, VF);
    wait_for(client_changes(fixture->watcher, "Assignments") > before);
    g_assert_true(client_state_is(fixture->watcher, id, "in-use"));
    before = client_changes(fixture->watcher, "Assignments");
    bed_let_go(holder);
    wait_for(client_changes(fixture->watcher, "Assignments") > before);
    g_assert_true(client_state_is(fixture->watcher, id, "assigned"));
}

/* The close event comes before the node is free. */
static void
test_close_comes_early(Fixture *fixture, gconstpointer data)
{
    g_autofree char *id = assign(fixture);
    BedHolder *holder;

    bed_close_early(fixture->bed, VF, 60);
    holder = bed_hold(fixture->bed, VF);
    leave(fixture);
    wait_for(client_state_is(fixture->watcher, id, "lingering"));
    bed_let_go(holder);
    wait_for(client_was_removed(fixture->watcher, id, "owner-vanished"));
    g_assert_cmpuint(bed_vf_type(fixture->bed, VF), ==, 0);
}

/* After many tries in vain the next one is seconds away: it is the close that brings the device back at once.
 */
static void
test_close_is_waited_for(Fixture *fixture, gconstpointer data)
{
    g_autofree char *id = assign(fixture);
    BedHolder *holder = bed_hold(fixture->bed, VF);
    gint64 next_try_comes;

    leave(fixture);
    /* The VM's open, and eleven of ours with pauses from 5 ms to 2.5 s between them. */
    g_assert_true(bed_trace_wait(fixture->bed, BED_TRACE_OPEN, VF, NULL, 12, 30));
    next_try_comes = g_get_monotonic_time() + 5 * G_USEC_PER_SEC;
    bed_let_go(holder);
    wait_for(bed_vf_type(fixture->bed, VF) == 0);
    g_assert_cmpint(g_get_monotonic_time(), <, next_try_comes);
}

static void
test_five_hundred_times(Fixture *fixture, gconstpointer data)
{
    for (guint i = 0; i < 500; i++) {
        g_autofree char *id = NULL;
        g_autoptr(GVariant) row = NULL;
        BedHolder *holder;
        const char *vf;

        fixture->client = fixture->client ? fixture->client : client_new(fixture->host, 0);
        id = client_must_assign(fixture->client, "L40S-2Q", NULL, &row);
        vf = row_string(row, "Device");
        if (i % 10 == 0)
            bed_close_early(fixture->bed, vf, 60);
        holder = bed_hold(fixture->bed, vf);
        leave(fixture);
        wait_for(client_state_is(fixture->watcher, id, "lingering"));
        g_assert_cmpuint(bed_vf_type(fixture->bed, vf), ==, 1148);
        bed_let_go(holder);
        wait_for(bed_vf_type(fixture->bed, vf) == 0);
        bed_no_more_faults(fixture->bed);
        wait_for(client_was_removed(fixture->watcher, id, "owner-vanished"));
    }
}

static void
test_unknown_is_preserved(Fixture *fixture, gconstpointer data)
{
    g_autofree char *id = assign(fixture);
    g_autoptr(GError) error = NULL;
    g_autofree char *log = NULL;
    guint before = writes(fixture);

    bed_open_fails(fixture->bed, VF, EPERM);
    g_assert_false(client_release(fixture->client, id, &error));
    assert_error(error, "UsageUnknown");
    g_assert_nonnull(strstr(error->message, "DeviceAllow="));
    g_assert_cmpuint(writes(fixture), ==, before);
    leave(fixture);
    wait_for(client_state_is(fixture->watcher, id, "lingering"));
    bed_open_fails(fixture->bed, VF, 0);
    wait_for(client_was_removed(fixture->watcher, id, "owner-vanished"));
}

static void
test_kept_busy_without_a_holder(Fixture *fixture, gconstpointer data)
{
    g_autofree char *id = assign(fixture);
    g_autoptr(GError) error = NULL;

    bed_keep_busy(fixture->bed, VF, TRUE);
    g_assert_false(client_release(fixture->client, id, &error));
    assert_error(error, "InUse");
    leave(fixture);
    wait_for(client_state_is(fixture->watcher, id, "lingering"));
    bed_keep_busy(fixture->bed, VF, FALSE);
    wait_for(client_was_removed(fixture->watcher, id, "owner-vanished"));
}

/* Nobody gets in between the proof and the clear. */
static void
test_taken_until_cleared(Fixture *fixture, gconstpointer data)
{
    g_autofree char *id = assign(fixture);
    g_autoptr(GVariant) reply = NULL;
    Pending *pending;
    int refused = 0;

    bed_stall(fixture->bed, VF, BED_CLEAR);
    pending = client_start(fixture->client, "Release", g_variant_new("(s)", id));
    g_assert_true(bed_wait_stalled(fixture->bed, VF, 10));
    g_assert_null(bed_hold_full(fixture->bed, VF, BED_HOLD_VM, NULL, 0, &refused));
    g_assert_cmpint(refused, ==, EBUSY);
    g_assert_true(client_state_is(fixture->watcher, id, "releasing"));
    bed_resume(fixture->bed, VF);
    reply = client_finish(pending, NULL);
    g_assert_nonnull(reply);
}

static void
test_second_release_is_busy(Fixture *fixture, gconstpointer data)
{
    g_autofree char *id = assign(fixture);
    g_autoptr(GVariant) reply = NULL;
    g_autoptr(GVariant) adopted = NULL;
    g_autoptr(GError) error = NULL;
    g_autoptr(GError) adopt_error = NULL;
    Pending *pending;

    bed_stall(fixture->bed, VF, BED_CLEAR);
    pending = client_start(fixture->client, "Release", g_variant_new("(s)", id));
    g_assert_true(bed_wait_stalled(fixture->bed, VF, 10));
    g_assert_false(client_release(fixture->watcher, id, &error));
    assert_error(error, "Busy");
    adopted = client_call(fixture->watcher, "Adopt", g_variant_new("(s)", id), &adopt_error);
    assert_error(adopt_error, "Busy");
    bed_resume(fixture->bed, VF);
    reply = client_finish(pending, NULL);
    g_assert_nonnull(reply);
    g_assert_cmpuint(bed_trace_count(fixture->bed, BED_TRACE_WRITE, VF, "0"), ==, 1);
}

static void
test_driver_says_in_use(Fixture *fixture, gconstpointer data)
{
    g_autofree char *id = assign(fixture);
    g_autoptr(GError) error = NULL;

    bed_fail(fixture->bed, VF, BED_CLEAR, EPERM, 1);
    g_assert_false(client_release(fixture->client, id, &error));
    assert_error(error, "InUse");
    g_assert_cmpuint(bed_vf_type(fixture->bed, VF), ==, 1148);
    g_clear_error(&error);
    g_assert_true(client_release(fixture->client, id, &error));
    g_assert_no_error(error);
}

/* The driver says EPERM because nothing is set any more: somebody else has cleared it a moment ago. */
static void
test_eperm_and_reads_none(Fixture *fixture, gconstpointer data)
{
    g_autofree char *id = assign(fixture);
    g_autoptr(GError) error = NULL;

    bed_fail_half(fixture->bed, VF, BED_CLEAR, EPERM, 1);
    g_assert_true(client_release(fixture->client, id, &error));
    g_assert_no_error(error);
    g_assert_true(client_was_removed(fixture->watcher, id, "released") ||
                  client_state_is(fixture->watcher, id, ""));
}

static void
test_busy_plugin(Fixture *fixture, gconstpointer data)
{
    g_autofree char *id = assign(fixture);
    g_autoptr(GVariant) reply = NULL;
    g_autoptr(GError) error = NULL;
    Pending *pending;

    bed_clear_busy_for(fixture->bed, VF, 6000);
    pending = client_start(fixture->client, "Release", g_variant_new("(s)", id));
    g_assert_true(bed_trace_wait(fixture->bed, BED_TRACE_WRITE, VF, "0", 3, 10));
    g_variant_unref(client_get(fixture->watcher, "GPUs")); /* others are answered */
    g_assert_false(pending_is_done(pending));
    reply = client_finish(pending, &error);
    g_assert_no_error(error);
    g_assert_cmpuint(bed_vf_type(fixture->bed, VF), ==, 0);
}

static void
test_eio_is_never_repeated(Fixture *fixture, gconstpointer data)
{
    g_autofree char *id = assign(fixture);
    g_autofree char *other = NULL;
    g_autoptr(GVariant) other_row = NULL;
    g_autoptr(GVariant) row = NULL;
    g_autoptr(GVariant) reclaimed = NULL;
    g_autoptr(GError) error = NULL;

    bed_fail(fixture->bed, VF, BED_CLEAR, EIO, 1);
    g_assert_false(client_release(fixture->client, id, &error));
    assert_error(error, "DeviceFailed");
    g_assert_true(client_state_is(fixture->watcher, id, "failed"));
    row = client_assignment(fixture->watcher, id);
    g_assert_nonnull(strstr(row_string(row, "Error"), "Input/output error"));
    g_clear_error(&error);
    g_assert_false(client_release(fixture->client, id, &error));
    assert_error(error, "DeviceFailed");
    leave(fixture);
    fixture->client = client_new(fixture->host, 0);
    bed_uevent(fixture->bed, VF, "change");
    other = client_must_assign(fixture->client, "L40S-2Q", NULL, &other_row);
    g_assert_cmpstr(row_string(other_row, "Device"), !=, VF);
    g_assert_cmpuint(bed_trace_count(fixture->bed, BED_TRACE_WRITE, VF, "0"), ==, 1);
    g_clear_error(&error);
    reclaimed = client_call(fixture->client, "Reclaim", g_variant_new("(s)", VF), &error);
    g_assert_no_error(error);
    wait_for(client_was_removed(fixture->watcher, id, "reclaimed"));
    g_assert_cmpuint(bed_trace_count(fixture->bed, BED_TRACE_WRITE, VF, "0"), ==, 2);
}

static void
test_owner_leaves_and_clear_fails(Fixture *fixture, gconstpointer data)
{
    g_autofree char *id = assign(fixture);

    bed_fail(fixture->bed, VF, BED_CLEAR, EIO, BED_ALWAYS);
    leave(fixture);
    wait_for(client_state_is(fixture->watcher, id, "failed"));
    g_assert_cmpuint(bed_trace_count(fixture->bed, BED_TRACE_WRITE, VF, "0"), ==, 1);
}

static void
test_lingering_is_adopted(Fixture *fixture, gconstpointer data)
{
    g_autofree char *id = assign(fixture);
    BedHolder *holder = bed_hold(fixture->bed, VF);
    Client *heir = client_new(fixture->host, 0);
    g_autoptr(GVariant) adopted = NULL;
    g_autoptr(GError) error = NULL;

    leave(fixture);
    wait_for(client_state_is(fixture->watcher, id, "lingering"));
    adopted = client_call(heir, "Adopt", g_variant_new("(s)", id), &error);
    g_assert_no_error(error);
    g_assert_true(client_state_is(fixture->watcher, id, "in-use"));
    bed_let_go(holder);
    wait_for(client_state_is(fixture->watcher, id, "assigned"));
    g_assert_cmpuint(bed_vf_type(fixture->bed, VF), ==, 1148);
    client_free(heir);
    wait_for(client_was_removed(fixture->watcher, id, "owner-vanished"));
}

static void
test_mdev_that_is_open(Fixture *fixture, gconstpointer data)
{
    g_autoptr(GVariant) row = NULL;
    g_autofree char *id = client_must_assign(fixture->client, "T4-2Q", NULL, &row);
    const char *uuid = row_string(row, "UUID");
    BedHolder *holder = bed_hold(fixture->bed, uuid);
    g_autoptr(GError) error = NULL;

    g_assert_false(client_release(fixture->client, id, &error));
    assert_error(error, "InUse");
    g_assert_cmpuint(bed_trace_count(fixture->bed, BED_TRACE_WRITE, uuid, NULL), ==, 0);
    leave(fixture);
    wait_for(client_state_is(fixture->watcher, id, "lingering"));
    bed_let_go(holder);
    wait_for(client_was_removed(fixture->watcher, id, "owner-vanished"));
    g_assert_false(bed_exists(fixture->bed, uuid));
}

static void
test_blocked_remove(Fixture *fixture, gconstpointer data)
{
    g_autoptr(GVariant) row = NULL;
    g_autofree char *id = client_must_assign(fixture->client, "T4-2Q", NULL, &row);
    const char *uuid = row_string(row, "UUID");
    g_autofree char *other = NULL;
    g_autofree char *vendor = NULL;
    g_autoptr(GError) error = NULL;

    bed_stall(fixture->bed, uuid, BED_REMOVE);
    leave(fixture);
    g_assert_true(bed_wait_stalled(fixture->bed, uuid, 10));
    fixture->client = client_new(fixture->host, 0);
    vendor = client_must_assign(fixture->client, "L40S-2Q", NULL, NULL);
    other = client_must_assign(fixture->client, "T4-2Q", NULL, NULL); /* after the remove has lost its turn */
    g_assert_true(client_release(fixture->client, other, &error));
    g_assert_no_error(error);
    g_assert_true(client_state_is(fixture->watcher, id, "releasing"));

    /* Neither SIGTERM nor SIGKILL waits for it, and the next start has its name and knows the device. */
    g_assert_cmpint(host_stop(fixture->host, SIGTERM), ==, 0);
    host_start(fixture->host, NULL);
    wait_for(client_state_is(fixture->watcher, id, "releasing"));
    g_assert_cmpint(host_stop(fixture->host, SIGKILL), ==, 128 + SIGKILL);
    host_start(fixture->host, NULL);
    wait_for(client_state_is(fixture->watcher, id, "releasing"));
    client_free(fixture->watcher);
    fixture->watcher = client_new(fixture->host, 0);
    client_listen(fixture->watcher);
    bed_resume(fixture->bed, uuid);
    wait_for(client_state_is(fixture->watcher, id, ""));
    g_assert_false(bed_exists(fixture->bed, uuid));
}

/* A file of a user's own file system that this process has open, and whose server never answers. */
typedef struct {
    char *directory;
    int server;
    int file;
} Silent;

static Silent
silent_mount(const Host *host, uid_t uid, const char *options)
{
    Silent silent = {.directory = host_file((Host *)host, "silent")};
    g_autofree char *data = NULL;

    g_assert_no_errno(g_mkdir(silent.directory, 0755));
    silent.server = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    g_assert_no_errno(silent.server);
    data = g_strdup_printf("fd=%d,rootmode=40000,user_id=%u,group_id=%u%s", silent.server, uid, uid, options);
    g_assert_no_errno(mount("silent", silent.directory, "fuse", MS_NODEV | MS_NOSUID, data));
    silent.file = open(silent.directory, O_PATH | O_CLOEXEC); /* without a word to the server */
    g_assert_no_errno(silent.file);
    return silent;
}

static void
silent_unmount(Silent *silent)
{
    close(silent->file);
    close(silent->server);
    g_assert_no_errno(umount2(silent->directory, MNT_DETACH));
    g_free(silent->directory);
}

/* The file systems of others are not asked who has a device open: one that does not answer would hold the
 * call. */
static void
test_dead_file_system(Fixture *fixture, gconstpointer data)
{
    Silent silent = silent_mount(fixture->host, 0, ",allow_other");
    g_autofree char *id = assign(fixture);
    BedHolder *vm = bed_hold(fixture->bed, VF);
    g_autofree char *who = g_strdup_printf("process %d", bed_holder_pid(vm));
    g_autoptr(GError) error = NULL;

    g_assert_false(client_release(fixture->client, id, &error));
    assert_error(error, "InUse");
    g_assert_nonnull(strstr(error->message, who));
    bed_let_go(vm);
    silent_unmount(&silent);
}

/* What root may not look at on a user's own mount is no device: it does not keep an mdev from being released.
 */
static void
test_users_mount_is_no_device(void)
{
    g_autoptr(Host) host = host_new(&(BedOptions){.cdev = TRUE});
    Client *client;
    g_autofree char *id = NULL;
    g_autoptr(GError) error = NULL;
    Silent silent;

    bed_add_card(host_bed(host), "t4", T4, 0);
    host_start(host, NULL);
    silent = silent_mount(host, NOBODY, "");
    client = client_new(host, 0);
    id = client_must_assign(client, "T4-2Q", NULL, NULL);
    g_assert_true(client_release(client, id, &error));
    g_assert_no_error(error);
    client_free(client);
    silent_unmount(&silent);
}

/* In a child: as a user, in a user namespace of its own, where it may mount. Says how far it came, 0 for all
 * the way. */
static int
mount_in_own_namespace(void)
{
    static const char *const maps[][2] = {
        {"/proc/self/setgroups", "deny"},
        {"/proc/self/uid_map", "0 65534 1"},
        {"/proc/self/gid_map", "0 65534 1"},
    };
    g_autofree char *options = NULL;
    int server;

    if (setresgid(NOBODY, NOBODY, NOBODY) < 0 || setresuid(NOBODY, NOBODY, NOBODY) < 0)
        return 1;
    prctl(PR_SET_DUMPABLE, 1);
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
        return 2;
    for (gsize i = 0; i < G_N_ELEMENTS(maps); i++) {
        int fd = open(maps[i][0], O_WRONLY | O_CLOEXEC);

        if (fd < 0 || write(fd, maps[i][1], strlen(maps[i][1])) < 0)
            return 3;
        close(fd);
    }
    server = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    options = g_strdup_printf("fd=%d,rootmode=40000,user_id=0,group_id=0", server);
    if (mount("tmp", "/tmp", "tmpfs", 0, NULL) < 0 || g_mkdir("/tmp/mount", 0755) < 0 ||
        mount("silent", "/tmp/mount", "fuse", 0, options) < 0)
        return 4;
    return open("/tmp/mount", O_PATH | O_CLOEXEC) < 0 ? 5 : 0;
}

/* Its mount has no flag that says that there are no devices. */
static void
test_users_namespace_is_no_device(void)
{
    g_autoptr(Host) host = host_new(&(BedOptions){.cdev = TRUE});
    Client *client;
    g_autofree char *id = NULL;
    g_autoptr(GError) error = NULL;
    int ready[2];
    char outcome = 0;
    pid_t pid;

    bed_add_card(host_bed(host), "t4", T4, 0);
    host_start(host, NULL);
    g_assert_no_errno(pipe(ready));
    pid = fork();
    g_assert_no_errno(pid);
    if (pid == 0) {
        outcome = (char)('0' + mount_in_own_namespace());
        if (write(ready[1], &outcome, 1) == 1)
            pause();
        _exit(0);
    }
    g_assert_cmpint(read(ready[0], &outcome, 1), ==, 1);
    g_assert_cmpint(outcome, ==, '0');
    client = client_new(host, 0);
    id = client_must_assign(client, "T4-2Q", NULL, NULL);
    g_assert_true(client_release(client, id, &error));
    g_assert_no_error(error);
    client_free(client);
    kill(pid, SIGKILL);
    g_assert_cmpint(waitpid(pid, NULL, 0), ==, pid);
    close(ready[0]);
    close(ready[1]);
}

static void
test_unbound_cdev(void)
{
    g_autoptr(Host) host = host_new(&(BedOptions){.cdev = TRUE});
    Bed *bed = host_bed(host);
    g_autoptr(Client) client = NULL;
    g_autoptr(GVariant) row = NULL;
    g_autoptr(GError) error = NULL;
    g_autofree char *id = NULL;
    BedHolder *holder;

    bed_add_card(bed, "t4", T4, 0);
    host_start(host, NULL);
    client = client_new(host, 0);
    id = client_must_assign(client, "T4-2Q", NULL, &row);
    g_assert_cmpstr(row_string(row, "DeviceNode"), !=, "");
    holder = bed_hold_full(bed, row_string(row, "UUID"), BED_HOLD_CDEV_UNBOUND, NULL, 0, NULL);
    g_assert_false(client_release(client, id, &error));
    assert_error(error, "InUse");
    g_assert_cmpuint(bed_trace_count(bed, BED_TRACE_WRITE, row_string(row, "UUID"), NULL), ==, 0);
    bed_let_go(holder);
    g_clear_error(&error);
    g_assert_true(client_release(client, id, &error));
}

static void
test_bound_cdev(void)
{
    g_autoptr(Host) host = host_new(&(BedOptions){.cdev = TRUE});
    Bed *bed = host_bed(host);
    g_autoptr(Client) client = NULL;
    g_autoptr(GError) error = NULL;
    g_autofree char *id = NULL;
    BedHolder *holder;

    bed_add_card(bed, "l40s", CARD, 2);
    host_start(host, NULL);
    client = client_new(host, 0);
    id = client_must_assign(client, "L40S-2Q", NULL, NULL);
    holder = bed_hold_full(bed, VF, BED_HOLD_CDEV, NULL, 0, NULL);
    g_assert_false(client_release(client, id, &error));
    assert_error(error, "InUse");
    bed_let_go(holder);
    g_clear_error(&error);
    wait_for(client_release(client, id, NULL));
}

static void
test_no_groups(void)
{
    g_autoptr(Host) host = host_new(&(BedOptions){.no_groups = TRUE});
    Bed *bed = host_bed(host);
    g_autoptr(Client) client = NULL;
    g_autoptr(Client) user = NULL;
    g_autoptr(GError) error = NULL;
    g_autofree char *id = NULL;
    BedHolder *holder;

    bed_add_card(bed, "l40s", CARD, 2);
    host_polkit(host, POLKIT_YES);
    host_start(host, NULL);
    client = client_new(host, 0);
    user = client_new(host, 65534);
    g_assert_null(client_assign(user, "L40S-2Q", NULL, NULL, &error));
    assert_error(error, "AccessDenied");
    wait_for(bed_vf_type(bed, VF) == 0);
    g_clear_error(&error);
    id = client_must_assign(client, "L40S-2Q", "{'device': <'0000:3b:00.4'>}", NULL);
    holder = bed_hold_full(bed, VF, BED_HOLD_CDEV_UNBOUND, NULL, 0, NULL);
    g_assert_false(client_release(client, id, &error));
    assert_error(error, "InUse");
    bed_let_go(holder);
    g_clear_error(&error);
    g_assert_true(client_release(client, id, &error));
}

static void
test_noiommu(void)
{
    g_autoptr(Host) host = host_new(&(BedOptions){.noiommu = TRUE});
    g_autoptr(Client) client = NULL;
    g_autoptr(GError) error = NULL;

    bed_add_card(host_bed(host), "l40s", CARD, 2);
    host_start(host, NULL);
    client = client_new(host, 0);
    g_assert_null(client_assign(client, "L40S-2Q", NULL, NULL, &error));
    assert_error(error, "NoCapacity");
}

#define HOLD(path, how) g_test_add(path, Fixture, GINT_TO_POINTER(how), set_up, test_held, tear_down)
#define ADD(path, test) g_test_add(path, Fixture, NULL, set_up, test, tear_down)

static int
run(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    HOLD("/usage/open/by-a-vm", BED_HOLD_VM);
    HOLD("/usage/open/by-the-group-alone", BED_HOLD_GROUP_ONLY);
    HOLD("/usage/open/by-the-device-descriptor-alone", BED_HOLD_DEVICE_ONLY);
    HOLD("/usage/open/through-a-node-made-elsewhere", BED_HOLD_ELSEWHERE);
    HOLD("/usage/open/through-another-path", BED_HOLD_BIND_MOUNT);
    HOLD("/usage/open/in-another-pid-namespace", BED_HOLD_OTHER_PIDNS);
    ADD("/usage/release/names-pid-and-command", test_release_names_the_holder);
    ADD("/usage/in-use/is-shown-live", test_in_use_is_shown_live);
    ADD("/usage/lingering/close-event-comes-before-the-node-is-free", test_close_comes_early);
    ADD("/usage/lingering/close-is-waited-for-not-polled-for", test_close_is_waited_for);
    ADD("/usage/lingering/comes-back-500-times-in-a-row", test_five_hundred_times);
    ADD("/usage/lingering/is-adopted", test_lingering_is_adopted);
    ADD("/usage/unknown/is-preserved-and-says-why", test_unknown_is_preserved);
    ADD("/usage/open/by-nobody-that-a-scan-finds", test_kept_busy_without_a_holder);
    ADD("/usage/taken/nobody-gets-in-before-the-clear", test_taken_until_cleared);
    ADD("/usage/releasing/a-second-release-is-busy", test_second_release_is_busy);
    ADD("/usage/clear/eperm-that-still-reads-the-type-is-in-use", test_driver_says_in_use);
    ADD("/usage/clear/eperm-that-reads-none-is-done", test_eperm_and_reads_none);
    ADD("/usage/clear/busy-for-six-seconds-is-waited-for", test_busy_plugin);
    ADD("/usage/clear/eio-is-never-repeated", test_eio_is_never_repeated);
    ADD("/usage/clear/fails-after-the-owner-left", test_owner_leaves_and_clear_fails);
    ADD("/usage/mdev/open-one-is-kept", test_mdev_that_is_open);
    ADD("/usage/mdev/remove-that-blocks-stops-nobody", test_blocked_remove);
    ADD("/usage/open/found-beside-a-file-system-that-is-dead", test_dead_file_system);
    g_test_add_func("/usage/cdev/a-users-own-mount-is-no-device", test_users_mount_is_no_device);
    g_test_add_func("/usage/cdev/a-users-own-namespace-is-no-device", test_users_namespace_is_no_device);
    g_test_add_func("/usage/cdev/unbound-mdev-is-in-use", test_unbound_cdev);
    g_test_add_func("/usage/cdev/bound-function-is-in-use", test_bound_cdev);
    g_test_add_func("/usage/no-groups/scan-answers-and-only-root-assigns", test_no_groups);
    g_test_add_func("/usage/noiommu/is-never-offered", test_noiommu);
    return g_test_run();
}

int
main(int argc, char **argv)
{
    return bed_main(argc, argv, run);
}
