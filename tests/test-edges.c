/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Stories that once went wrong. */
#include "host.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/acl.h>
#include <sys/wait.h>
#include <unistd.h>

#define CARD "0000:3b:00.0"
#define OTHER "0000:5e:00.0"
#define T4 "0000:65:00.0"
#define VF "0000:3b:00.4"
#define UUID "c1b7b4a4-4c1b-4f5d-9d2e-6a5f0c3e7a11"
#define NOBODY 65534

typedef struct {
    Host *host;
    Bed *bed;
    Client *client;
} Fixture;

static const BedOptions noiommu_with_cdev = {.noiommu = TRUE, .cdev = TRUE};

static void
set_up(Fixture *fixture, gconstpointer options)
{
    fixture->host = host_new(options);
    fixture->bed = host_bed(fixture->host);
    bed_add_card(fixture->bed, "l40s", CARD, 4);
    bed_add_card(fixture->bed, "l40s", OTHER, 4);
    bed_add_card(fixture->bed, "t4", T4, 0);
    host_start(fixture->host, NULL);
    fixture->client = client_new(fixture->host, 0);
}

static void
tear_down(Fixture *fixture, gconstpointer data)
{
    g_clear_pointer(&fixture->client, client_free);
    host_free(fixture->host);
}

static void
test_mark_cannot_be_saved(Fixture *fixture, gconstpointer data)
{
    g_autoptr(GError) error = NULL;
    Pending *pending;

    bed_stall_after(fixture->bed, VF, BED_SET);
    pending = client_start(fixture->client, "Assign", g_variant_new_parsed("('L40S-2Q', @a{sv} {})"));
    g_assert_true(bed_wait_stalled(fixture->bed, VF, 10));
    host_hide_directory(fixture->host, TRUE);
    bed_resume(fixture->bed, VF);
    g_assert_null(client_finish(pending, &error));
    g_assert_nonnull(error);
    host_hide_directory(fixture->host, FALSE);
    wait_for(bed_vf_type(fixture->bed, VF) == 0 && client_assignments(fixture->client) == 0);
}

static void
test_undo_is_refused(Fixture *fixture, gconstpointer data)
{
    g_autoptr(GError) error = NULL;

    bed_takes_instead(fixture->bed, VF, 1150, 1);
    bed_fail(fixture->bed, VF, BED_CLEAR, EPERM, 1);
    g_assert_null(client_assign(fixture->client, "L40S-2Q", "{'device': <'" VF "'>}", NULL, &error));
    assert_error(error, "DeviceFailed");
    wait_for(bed_vf_type(fixture->bed, VF) == 0 && client_assignments(fixture->client) == 0);
}

static void
test_ebusy_that_reads_none(Fixture *fixture, gconstpointer data)
{
    g_autofree char *id = client_must_assign(fixture->client, "L40S-2Q", NULL, NULL);

    bed_fail_half(fixture->bed, VF, BED_CLEAR, EBUSY, 1);
    g_assert_true(client_release(fixture->client, id, NULL));
    g_assert_cmpuint(bed_trace_count(fixture->bed, BED_TRACE_WRITE, VF, "0"), ==, 1);
}

static void
test_reclaim_cannot_be_saved(Fixture *fixture, gconstpointer data)
{
    Client *owner = client_new(fixture->host, 0);
    g_autofree char *id = client_must_assign(owner, "L40S-2Q", NULL, NULL);
    g_autoptr(GVariant) refused = NULL;
    g_autoptr(GVariant) done = NULL;
    g_autoptr(GError) error = NULL;

    bed_fail(fixture->bed, VF, BED_CLEAR, EIO, 1);
    client_free(owner);
    wait_for(client_state_is(fixture->client, id, "failed"));
    host_hide_directory(fixture->host, TRUE);
    refused = client_call(fixture->client, "Reclaim", g_variant_new("(s)", VF), &error);
    assert_error(error, "DeviceFailed");
    host_hide_directory(fixture->host, FALSE);
    /* A whole assignment on another card comes and goes: the failed one is left alone meanwhile. */
    g_free(id);
    id = client_must_assign(fixture->client, "L40S-2Q", "{'gpu': <'" OTHER "'>}", NULL);
    g_assert_true(client_release(fixture->client, id, NULL));
    g_assert_cmpuint(bed_trace_count(fixture->bed, BED_TRACE_WRITE, VF, "0"), ==, 1);
    done = client_call(fixture->client, "Reclaim", g_variant_new("(s)", VF), NULL);
    g_assert_nonnull(done);
}

static void
test_roots_node_is_closed_to_others(Fixture *fixture, gconstpointer data)
{
    g_autofree char *node = bed_group_node(fixture->bed, VF);
    g_autofree char *real = bed_path(fixture->bed, node);
    acl_t acl = acl_from_text("u::rw-,u:65534:rw-,g::---,m::rw-,o::---");
    g_autofree char *id = NULL;
    int refused = 0;

    g_assert_cmpint(acl_set_file(real, ACL_TYPE_ACCESS, acl), ==, 0);
    acl_free(acl);
    id = client_must_assign(fixture->client, "L40S-2Q", "{'device': <'" VF "'>}", NULL);
    g_assert_null(bed_hold_full(fixture->bed, VF, BED_HOLD_VM, NULL, NOBODY, &refused));
    g_assert_cmpint(refused, ==, EACCES);
}

static guint
threads(Fixture *fixture)
{
    g_autofree char *path = g_strdup_printf("/proc/%d/task", host_pid(fixture->host));
    g_autoptr(GDir) tasks = g_dir_open(path, 0, NULL);
    guint count = 0;

    while (tasks && g_dir_read_name(tasks))
        count++;
    return count;
}

static void
test_open_and_close_in_a_loop(Fixture *fixture, gconstpointer data)
{
    g_autofree char *id = client_must_assign(fixture->client, "L40S-2Q", "{'device': <'" VF "'>}", NULL);
    g_autofree char *node = bed_group_node(fixture->bed, VF);
    g_autofree char *real = bed_path(fixture->bed, node);
    pid_t pid = fork();
    guint most = 0;

    if (pid == 0) {
        for (;;) {
            int fd = open(real, O_RDWR | O_CLOEXEC);
            if (fd >= 0)
                close(fd);
        }
    }
    wait_for(
        (most = MAX(most, threads(fixture)), bed_trace_count(fixture->bed, BED_TRACE_OPEN, VF, NULL) > 2000));
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    g_assert_cmpuint(most, <, 30);
}

static void
test_cards_narrowed(Fixture *fixture, gconstpointer data)
{
    g_autofree char *config = host_file(fixture->host, "conf");
    g_autofree char *argument = g_strdup_printf("--config=%s", config);
    g_autofree char *id = client_must_assign(fixture->client, "L40S-2Q", NULL, NULL);
    BedHolder *vm = bed_hold(fixture->bed, VF);

    g_assert_true(g_file_set_contents(config, "[VGPU]\nCards=" OTHER "\n", -1, NULL));
    g_assert_cmpint(host_stop(fixture->host, SIGTERM), ==, 0);
    host_start(fixture->host, (const char *const[]){argument, NULL});
    g_assert_cmpuint(client_assignments(fixture->client), ==, 1);
    bed_let_go(vm);
    g_clear_pointer(&fixture->client, client_free);
    fixture->client = client_new(fixture->host, 0);
    wait_for(bed_vf_type(fixture->bed, VF) == 0 && client_assignments(fixture->client) == 0);
}

static void
test_noiommu_vm(Fixture *fixture, gconstpointer data)
{
    static const char *const devices[] = {VF, UUID};

    g_assert_cmpint(bed_set_by_hand(fixture->bed, VF, 1148), ==, 0);
    g_assert_cmpint(bed_create_by_hand(fixture->bed, T4, "nvidia-231", UUID), ==, 0);
    for (gsize i = 0; i < G_N_ELEMENTS(devices); i++) {
        BedHolder *vm = bed_hold(fixture->bed, devices[i]);
        g_autoptr(GError) error = NULL;
        g_autoptr(GVariant) reply =
            client_call(fixture->client, "Reclaim", g_variant_new("(s)", devices[i]), &error);

        assert_error(error, "InUse");
        bed_let_go(vm);
    }
    g_assert_cmpuint(bed_trace_count(fixture->bed, BED_TRACE_WRITE, NULL, NULL), ==, 0);
}

/* What a driver answers to a read says nothing about us: the other cards go on. */
static void
test_attribute_without_memory(Fixture *fixture, gconstpointer unused)
{
    static const char *const attributes[] = {
        "0000:5e:00.4/nvidia/creatable_vgpu_types",
        T4 "/mdev_supported_types/nvidia-231/description",
    };

    for (gsize i = 0; i < G_N_ELEMENTS(attributes); i++) {
        g_autofree char *id = NULL;
        g_autoptr(GError) error = NULL;

        bed_attribute_fails(fixture->bed, attributes[i], ENOMEM);
        id = client_must_assign(fixture->client, "L40S-2Q", "{'device': <'" VF "'>}", NULL);
        g_assert_true(client_release(fixture->client, id, &error));
        g_assert_no_error(error);
        bed_attribute_fails(fixture->bed, attributes[i], 0);
    }
}

#define ADD(path, options, test) g_test_add(path, Fixture, options, set_up, test, tear_down)

static int
run(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    ADD("/edges/unsaved/assigned-mark-leaks-nothing", NULL, test_mark_cannot_be_saved);
    ADD("/edges/unsaved/failed-clear-is-not-repeated", NULL, test_reclaim_cannot_be_saved);
    ADD("/edges/undo/refused-once-is-tried-again", NULL, test_undo_is_refused);
    ADD("/edges/clear/ebusy-that-reads-none-is-done", NULL, test_ebusy_that_reads_none);
    ADD("/edges/access/roots-node-is-closed-to-others", NULL, test_roots_node_is_closed_to_others);
    ADD("/edges/flood/open-and-close-in-a-loop-costs-one-thread", NULL, test_open_and_close_in_a_loop);
    ADD("/edges/cards/narrowed-under-an-assignment-loses-nothing", NULL, test_cards_narrowed);
    ADD("/edges/noiommu/open-device-is-in-use", &noiommu_with_cdev, test_noiommu_vm);
    ADD("/edges/attribute/one-without-memory-stops-nobody", NULL, test_attribute_without_memory);
    return g_test_run();
}

int
main(int argc, char **argv)
{
    return bed_main(argc, argv, run);
}
