/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Taking, holding and giving back. */
#include "host.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#define FIRST "0000:3b:00.0"
#define SECOND "0000:5e:00.0"
#define T4 "0000:65:00.0"
#define VF "0000:3b:00.4"
#define UUID "c1b7b4a4-4c1b-4f5d-9d2e-6a5f0c3e7a11"

/* Two L40S (of as many virtual functions as the test says, 32 by default) and one T4, the service, and a
 * client of root. */
typedef struct {
    Host *host;
    Bed *bed;
    Client *client;
} Fixture;

static void
set_up(Fixture *fixture, gconstpointer data)
{
    fixture->host = host_new(NULL);
    fixture->bed = host_bed(fixture->host);
    bed_add_card(fixture->bed, "l40s", FIRST, data ? GPOINTER_TO_INT(data) : 32);
    bed_add_card(fixture->bed, "l40s", SECOND, data ? GPOINTER_TO_INT(data) : 32);
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
test_spellings(Fixture *fixture, gconstpointer data)
{
    static const char *const spellings[] = {"NVIDIA L40S-2Q", "L40S-2Q", "NVIDIA_L40S-2Q", "1148"};

    for (gsize i = 0; i < G_N_ELEMENTS(spellings); i++) {
        g_autoptr(GVariant) row = NULL;
        g_autofree char *id = client_must_assign(fixture->client, spellings[i], NULL, &row);

        g_assert_cmpstr(row_string(row, "Profile"), ==, "NVIDIA L40S-2Q");
        g_assert_cmpstr(row_string(row, "TypeId"), ==, "1148");
    }
}

static void
test_spread(Fixture *fixture, gconstpointer data)
{
    static const char *const cards[] = {FIRST, SECOND, FIRST};

    for (gsize i = 0; i < G_N_ELEMENTS(cards); i++) {
        g_autoptr(GVariant) row = NULL;
        g_autofree char *id = client_must_assign(fixture->client, "L40S-2Q", NULL, &row);

        g_assert_cmpstr(row_string(row, "GPU"), ==, cards[i]);
    }
}

static void
test_pack(Fixture *fixture, gconstpointer data)
{
    for (gsize i = 0; i < 3; i++) {
        g_autoptr(GVariant) row = NULL;
        g_autofree char *id = client_must_assign(fixture->client, "L40S-2Q", "{'placement': <'pack'>}", &row);

        g_assert_cmpstr(row_string(row, "GPU"), ==, FIRST);
    }
}

static void
test_set_and_cleared(Fixture *fixture, gconstpointer data)
{
    g_autoptr(GVariant) row = NULL;
    g_autofree char *id = client_must_assign(fixture->client, "L40S-2Q", "{'label': <'win11'>}", &row);
    g_autofree char *path = g_strconcat("/sys/bus/pci/devices/", VF, NULL);
    g_autofree char *node = bed_group_node(fixture->bed, VF);

    g_assert_cmpuint(bed_vf_type(fixture->bed, VF), ==, 1148);
    g_assert_cmpstr(row_string(row, "Device"), ==, VF);
    g_assert_cmpstr(row_string(row, "DevicePath"), ==, path);
    g_assert_cmpstr(row_string(row, "GroupNode"), ==, node);
    g_assert_cmpint(row_number(row, "IOMMUGroup"), ==, bed_group(fixture->bed, VF));
    g_assert_cmpstr(row_string(row, "State"), ==, "assigned");
    g_assert_cmpstr(row_string(row, "Owner"), ==, client_name(fixture->client));
    g_assert_cmpstr(row_string(row, "Label"), ==, "win11");
    g_assert_cmpint(row_number(row, "UID"), ==, 0);
    g_assert_cmpint(row_number(row, "PID"), >, 0);
    g_assert_cmpint(row_number(row, "FramebufferMiB"), ==, 2048);
    g_assert_cmpint(ABS(row_number(row, "Since") - g_get_real_time()), <, 600 * G_USEC_PER_SEC);
    g_clear_pointer(&fixture->client, client_free);
    wait_for(bed_vf_type(fixture->bed, VF) == 0);
}

static void
test_released(Fixture *fixture, gconstpointer data)
{
    g_autofree char *id = client_must_assign(fixture->client, "L40S-2Q", NULL, NULL);
    g_autoptr(Client) listener = client_new(fixture->host, 0);
    g_autoptr(GError) error = NULL;
    g_autofree char *reasons = NULL;

    client_listen(listener);
    g_assert_true(client_release(fixture->client, id, &error));
    g_assert_no_error(error);
    g_assert_cmpuint(bed_vf_type(fixture->bed, VF), ==, 0);
    wait_for((g_free(reasons), reasons = client_removals(listener, id), *reasons));
    g_assert_cmpstr(reasons, ==, "released");
    g_assert_cmpuint(client_assignments(fixture->client), ==, 0);
    g_assert_false(client_release(fixture->client, id, &error));
    assert_error(error, "UnknownAssignment");
}

static void
test_mdev(Fixture *fixture, gconstpointer data)
{
    g_autoptr(GVariant) row = NULL;
    g_autoptr(GError) error = NULL;
    g_autofree char *id = client_must_assign(fixture->client, "T4-2Q", NULL, &row);
    g_auto(GStrv) mdevs = bed_mdevs(fixture->bed, T4);
    g_autofree char *path = g_strconcat("/sys/bus/mdev/devices/", mdevs[0], NULL);

    g_assert_cmpuint(g_strv_length(mdevs), ==, 1);
    g_assert_cmpstr(bed_mdev_type(fixture->bed, mdevs[0]), ==, "nvidia-231");
    g_assert_cmpstr(row_string(row, "UUID"), ==, mdevs[0]);
    g_assert_cmpstr(row_string(row, "DevicePath"), ==, path);
    g_assert_cmpstr(row_string(row, "Device"), ==, T4);
    g_assert_cmpuint(bed_trace_count(fixture->bed, BED_TRACE_WRITE, NULL, NULL), ==, 1);
    g_assert_true(client_release(fixture->client, id, &error));
    g_assert_false(bed_exists(fixture->bed, mdevs[0]));
}

static void
test_mdev_on_vf(void)
{
    g_autoptr(Host) host = host_new(NULL);
    g_autoptr(Client) client = NULL;
    g_autoptr(GVariant) row = NULL;
    g_autofree char *id = NULL;
    g_auto(GStrv) mdevs = NULL;

    bed_add_card(host_bed(host), "a2", "0000:08:00.0", -1);
    host_start(host, NULL);
    client = client_new(host, 0);
    id = client_must_assign(client, "A2-2Q", NULL, &row);
    g_assert_cmpstr(row_string(row, "Device"), ==, "0000:08:00.4");
    g_assert_cmpstr(row_string(row, "GPU"), ==, "0000:08:00.0");
    mdevs = bed_mdevs(host_bed(host), "0000:08:00.4");
    g_assert_cmpuint(g_strv_length(mdevs), ==, 1);
    g_clear_pointer(&client, client_free);
    wait_for(!bed_exists(host_bed(host), mdevs[0]));
}

static void
test_given_uuid(Fixture *fixture, gconstpointer data)
{
    g_autoptr(GVariant) row = NULL;
    g_autofree char *id = client_must_assign(fixture->client, "T4-2Q",
                                             "{'uuid': <'C1B7B4A4-4C1B-4F5D-9D2E-6A5F0C3E7A11'>}", &row);

    g_assert_cmpstr(row_string(row, "UUID"), ==, UUID);
    g_assert_true(bed_exists(fixture->bed, UUID));
}

static void
test_taken_uuid(Fixture *fixture, gconstpointer data)
{
    g_autoptr(GError) error = NULL;

    g_assert_cmpint(bed_create_by_hand(fixture->bed, T4, "nvidia-231", UUID), ==, 0);
    g_assert_null(client_assign(fixture->client, "T4-2Q", "{'uuid': <'" UUID "'>}", NULL, &error));
    assert_error(error, "InvalidArgs");
    g_assert_cmpuint(bed_trace_count(fixture->bed, BED_TRACE_WRITE, NULL, NULL), ==, 0);
}

static void
test_defined_uuid(Fixture *fixture, gconstpointer data)
{
    g_autoptr(GError) error = NULL;

    bed_define_mdev(fixture->bed, "0000:08:00.4", UUID, NULL);
    g_assert_null(client_assign(fixture->client, "T4-2Q", "{'uuid': <'" UUID "'>}", NULL, &error));
    assert_error(error, "InvalidArgs");
}

typedef struct {
    const char *profile; /* NULL: 64 KiB of it */
    const char *options;
    const char *error;
} Bad;

static void
test_bad_arguments(Fixture *fixture, gconstpointer data)
{
    static const Bad bad[] = {
        {"L40S-2Q", "{'colour': <'green'>}", "InvalidArgs"},
        {"", NULL, "InvalidArgs"},
        {NULL, NULL, "InvalidArgs"},
        {"L40S\n2Q", NULL, "InvalidArgs"},
        {"L40S-2Q", "{'label': <'two\\nlines'>}", "InvalidArgs"},
        {"L40S-2Q", "{'label': <''>}", "InvalidArgs"},
        {"L40S-2Q", "{'label': <'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'>}",
         "InvalidArgs"},
        {"L40S-2Q", "{'label': <7>}", "InvalidArgs"},
        {"L40S-2Q", "{'numa-node': <'0'>}", "InvalidArgs"},
        {"L40S-2Q", "{'gpu': <'card 1'>}", "InvalidArgs"},
        {"L40S-2Q", "{'gpu': <'0000:99:00.0'>}", "InvalidArgs"},
        {"L40S-2Q", "{'device': <'0000:3b:00.0'>}", "InvalidArgs"},
        {"L40S-2Q", "{'placement': <'random'>}", "InvalidArgs"},
        {"T4-2Q", "{'uuid': <'12345'>}", "InvalidArgs"},
        {"L40S-2X", NULL, "UnknownProfile"},
    };

    for (gsize i = 0; i < G_N_ELEMENTS(bad); i++) {
        g_autofree char *long_profile = g_strnfill(65536, 'Q');
        g_autoptr(GError) error = NULL;
        g_autoptr(GError) plan_error = NULL;
        const char *profile = bad[i].profile ? bad[i].profile : long_profile;
        GVariant *options = g_variant_new_parsed(bad[i].options ? bad[i].options : "@a{sv} {}");
        g_autoptr(GVariant) plan = NULL;

        g_assert_null(client_assign(fixture->client, profile, bad[i].options, NULL, &error));
        assert_error(error, bad[i].error);
        plan =
            client_call(fixture->client, "Plan", g_variant_new("(s@a{sv})", profile, options), &plan_error);
        g_assert_null(plan);
        assert_error(plan_error, bad[i].error);
    }
    g_assert_cmpuint(bed_trace_count(fixture->bed, BED_TRACE_WRITE, NULL, NULL), ==, 0);
    g_assert_cmpuint(client_assignments(fixture->client), ==, 0);
}

static void
test_options(Fixture *fixture, gconstpointer data)
{
    static const struct {
        const char *options;
        const char *device;
    } wanted[] = {
        {"{'gpu': <'0000:5e:00.0'>}", "0000:5e:00.4"},
        {"{'gpu': <'00000000:5E:00.0'>}", "0000:5e:00.5"},
        {"{'device': <'0000:5e:00.7'>}", "0000:5e:00.7"},
        {"{'numa-node': <0>}", VF},
    };

    for (gsize i = 0; i < G_N_ELEMENTS(wanted); i++) {
        g_autoptr(GVariant) row = NULL;
        g_autofree char *id = client_must_assign(fixture->client, "L40S-2Q", wanted[i].options, &row);

        g_assert_cmpstr(row_string(row, "Device"), ==, wanted[i].device);
    }
}

static void
test_plan(Fixture *fixture, gconstpointer data)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(GVariant) reply = NULL;
    g_autoptr(GVariant) full = NULL;
    g_autoptr(GVariant) row = NULL;
    g_autoptr(GVariant) reasons = NULL;
    g_autofree char *first = NULL;
    g_autofree char *second = NULL;
    const char *sentence;

    reply = client_call(fixture->client, "Plan", g_variant_new_parsed("('L40S-48Q', @a{sv} {})"), &error);
    g_assert_no_error(error);
    row = g_variant_get_child_value(reply, 0);
    g_assert_cmpstr(row_string(row, "Device"), ==, VF);
    g_assert_cmpstr(row_string(row, "GPU"), ==, FIRST);
    g_assert_cmpuint(bed_trace_count(fixture->bed, BED_TRACE_WRITE, NULL, NULL), ==, 0);
    g_assert_cmpuint(bed_trace_count(fixture->bed, BED_TRACE_OPEN, NULL, NULL), ==, 0);

    first = client_must_assign(fixture->client, "L40S-48Q", NULL, NULL);
    second = client_must_assign(fixture->client, "L40S-48Q", NULL, NULL);
    full = client_call(fixture->client, "Plan", g_variant_new_parsed("('L40S-48Q', @a{sv} {})"), &error);
    g_assert_no_error(error);
    g_clear_pointer(&row, g_variant_unref);
    row = g_variant_get_child_value(full, 0);
    reasons = g_variant_lookup_value(row, "Reasons", G_VARIANT_TYPE("a{ss}"));
    g_assert_cmpuint(g_variant_n_children(reasons), ==, 3);
    g_assert_true(g_variant_lookup(reasons, FIRST, "&s", &sentence));
    g_assert_nonnull(strstr(sentence, "49152 MiB"));
}

static void
test_no_capacity_says_why(Fixture *fixture, gconstpointer data)
{
    g_autofree char *first = client_must_assign(fixture->client, "L40S-48Q", NULL, NULL);
    g_autofree char *second = client_must_assign(fixture->client, "L40S-48Q", NULL, NULL);
    g_autoptr(GError) error = NULL;

    g_assert_null(client_assign(fixture->client, "L40S-2Q", NULL, NULL, &error));
    assert_error(error, "NoCapacity");
    g_assert_nonnull(strstr(error->message, FIRST));
    g_assert_nonnull(strstr(error->message, SECOND));
}

static void
test_other_type_is_put_back(Fixture *fixture, gconstpointer data)
{
    g_autoptr(GError) error = NULL;

    bed_takes_instead(fixture->bed, VF, 1150, 1);
    g_assert_null(client_assign(fixture->client, "L40S-2Q", NULL, NULL, &error));
    assert_error(error, "DeviceFailed");
    g_assert_nonnull(strstr(error->message, "1150"));
    g_assert_nonnull(strstr(error->message, "put back"));
    g_assert_cmpuint(bed_vf_type(fixture->bed, VF), ==, 0);
    g_assert_cmpuint(client_assignments(fixture->client), ==, 0);
}

static void
test_other_type_that_stays(Fixture *fixture, gconstpointer data)
{
    g_autoptr(GVariant) rows = NULL;
    g_autoptr(GVariant) row = NULL;
    g_autoptr(GError) error = NULL;

    bed_takes_instead(fixture->bed, VF, 1150, 1);
    bed_fail(fixture->bed, VF, BED_CLEAR, EIO, 1);
    g_assert_null(client_assign(fixture->client, "L40S-2Q", NULL, NULL, &error));
    assert_error(error, "DeviceFailed");
    g_assert_nonnull(strstr(error->message, "1150"));
    g_assert_nonnull(strstr(error->message, "Input/output error"));
    rows = client_get(fixture->client, "Assignments");
    g_assert_cmpuint(g_variant_n_children(rows), ==, 1);
    row = row_find(rows, "Device", VF);
    g_assert_cmpstr(row_string(row, "State"), ==, "failed");
    g_assert_cmpstr(row_string(row, "Error"), !=, "");
    g_assert_cmpuint(bed_trace_count(fixture->bed, BED_TRACE_WRITE, VF, "0"), ==, 1);
}

static void
test_rival(Fixture *fixture, gconstpointer data)
{
    g_autoptr(GVariant) row = NULL;
    g_autofree char *id = NULL;

    bed_rival_sets(fixture->bed, VF, 1146);
    id = client_must_assign(fixture->client, "L40S-2Q", NULL, &row);
    g_assert_cmpuint(bed_vf_type(fixture->bed, VF), ==, 1146);
    g_assert_cmpuint(bed_trace_count(fixture->bed, BED_TRACE_WRITE, VF, "0"), ==, 0);
    g_assert_cmpstr(row_string(row, "Device"), !=, VF);
}

static void
test_eio_next_card_once(Fixture *fixture, gconstpointer data)
{
    g_autoptr(GVariant) row = NULL;
    g_autofree char *id = NULL;

    bed_fail(fixture->bed, FIRST, BED_SET, EIO, BED_ALWAYS);
    id = client_must_assign(fixture->client, "L40S-2Q", NULL, &row);
    g_assert_cmpstr(row_string(row, "GPU"), ==, SECOND);
    g_assert_cmpuint(bed_trace_count(fixture->bed, BED_TRACE_WRITE, VF, NULL), ==, 1);
    g_assert_cmpuint(bed_trace_count(fixture->bed, BED_TRACE_WRITE, NULL, NULL), ==, 2);
    g_assert_cmpuint(client_assignments(fixture->client), ==, 1);
}

static void
test_eio_everywhere(Fixture *fixture, gconstpointer data)
{
    g_autoptr(GError) error = NULL;

    bed_fail(fixture->bed, NULL, BED_SET, EIO, BED_ALWAYS);
    g_assert_null(client_assign(fixture->client, "L40S-2Q", NULL, NULL, &error));
    assert_error(error, "DeviceFailed");
    g_assert_nonnull(strstr(error->message, "1148"));
    g_assert_nonnull(strstr(error->message, "current_vgpu_type"));
    g_assert_nonnull(strstr(error->message, "Input/output error"));
    g_assert_cmpuint(bed_trace_count(fixture->bed, BED_TRACE_WRITE, NULL, NULL), ==, 2);
    g_assert_cmpuint(bed_trace_count(fixture->bed, BED_TRACE_WRITE, NULL, "0"), ==, 0);
    g_assert_cmpuint(client_assignments(fixture->client), ==, 0);
}

static void
test_kept_group_descriptor(Fixture *fixture, gconstpointer data)
{
    BedHolder *holder = bed_hold_full(fixture->bed, VF, BED_HOLD_GROUP_ONLY, NULL, 0, NULL);
    g_autoptr(GError) error = NULL;
    g_autoptr(GVariant) row = NULL;
    g_autofree char *id = client_must_assign(fixture->client, "L40S-2Q", NULL, &row);

    g_assert_cmpstr(row_string(row, "Device"), ==, "0000:3b:00.5");
    g_assert_cmpuint(bed_vf_type(fixture->bed, VF), ==, 0);
    /* Where it is the only choice, it is not a failure of the device. */
    g_assert_null(client_assign(fixture->client, "L40S-2Q", "{'device': <'" VF "'>}", NULL, &error));
    assert_error(error, "NoCapacity");
    g_assert_nonnull(strstr(error->message, "is open in process"));
    bed_let_go(holder);
}

/* The service opens a group node only inside a clear, or inside Assign while the function reads 0. */
static void
test_vm_never_meets_an_open(Fixture *fixture, gconstpointer data)
{
    g_autofree char *id = client_must_assign(fixture->client, "L40S-2Q", NULL, NULL);
    g_autofree char *other = NULL;
    BedHolder *vm;

    bed_trace_reset(fixture->bed);
    g_variant_unref(client_get(fixture->client, "GPUs"));
    other = client_must_assign(fixture->client, "L40S-2Q", NULL, NULL);
    bed_uevent(fixture->bed, VF, "change");
    vm = bed_hold(fixture->bed, VF);
    g_variant_unref(client_get(fixture->client, "Assignments"));
    g_assert_cmpuint(bed_trace_count(fixture->bed, BED_TRACE_OPEN, VF, NULL), ==, 1);
    bed_let_go(vm);
}

static void
test_reply_comes_before_the_signal(Fixture *fixture, gconstpointer data)
{
    Pending *pending;
    g_autoptr(GVariant) reply = NULL;
    g_autoptr(GVariant) row = NULL;
    g_autofree char *id = NULL;

    client_listen(fixture->client);
    pending = client_start(fixture->client, "Assign", g_variant_new_parsed("('L40S-2Q', @a{sv} {})"));
    reply = client_finish(pending, NULL);
    g_assert_false(client_heard_before_the_reply(fixture->client));
    wait_for(client_changes(fixture->client, "Assignments") > 0);
    g_variant_get_child(reply, 0, "s", &id);
    row = client_assignment(fixture->client, id);
    g_assert_nonnull(row);
    g_assert_true(client_heard_before_the_reply(fixture->client)); /* of that second question */
}

static void
test_blocked_write_blocks_nobody(Fixture *fixture, gconstpointer data)
{
    g_autoptr(Client) other = client_new(fixture->host, 0);
    g_autoptr(GVariant) row = NULL;
    g_autofree char *id = NULL;
    g_autoptr(GVariant) reply = NULL;
    Pending *pending;

    bed_stall(fixture->bed, VF, BED_SET);
    pending = client_start(fixture->client, "Assign", g_variant_new_parsed("('L40S-2Q', @a{sv} {})"));
    g_assert_true(bed_wait_stalled(fixture->bed, VF, 10));
    g_variant_unref(client_get(other, "GPUs"));
    /* Another card does not wait, and the record already counts in the first card's load. */
    id = client_must_assign(other, "L40S-2Q", NULL, &row);
    g_assert_cmpstr(row_string(row, "GPU"), ==, SECOND);
    g_assert_false(pending_is_done(pending));
    bed_resume(fixture->bed, VF);
    reply = client_finish(pending, NULL);
    g_assert_nonnull(reply);
}

static void
test_caller_dies_during_the_write(Fixture *fixture, gconstpointer data)
{
    Client *dying = client_new(fixture->host, 0);
    Pending *pending;

    bed_stall(fixture->bed, VF, BED_SET);
    pending = client_start(dying, "Assign", g_variant_new_parsed("('L40S-2Q', @a{sv} {})"));
    g_assert_true(bed_wait_stalled(fixture->bed, VF, 10));
    client_free(dying);
    bed_resume(fixture->bed, VF);
    g_assert_true(bed_trace_wait(fixture->bed, BED_TRACE_WRITE, VF, "0", 1, 10));
    wait_for(bed_vf_type(fixture->bed, VF) == 0 && client_assignments(fixture->client) == 0);
    g_assert_null(client_finish(pending, NULL));
}

static void
test_adopt_by_the_same_uid(Fixture *fixture, gconstpointer data)
{
    g_autoptr(Client) watcher = client_new(fixture->host, 0);
    Client *second = client_new(fixture->host, 0);
    g_autofree char *id = client_must_assign(fixture->client, "L40S-2Q", NULL, NULL);
    g_autoptr(GError) error = NULL;
    g_autoptr(GVariant) reply = client_call(second, "Adopt", g_variant_new("(s)", id), &error);
    g_autoptr(GVariant) row = NULL;
    g_autofree char *state = NULL;

    g_assert_no_error(error);
    row = g_variant_get_child_value(reply, 0);
    g_assert_cmpstr(row_string(row, "Owner"), ==, client_name(second));
    g_clear_pointer(&fixture->client, client_free);
    fixture->client = client_new(fixture->host, 0); /* its hello comes after the other's end */
    state = client_state(fixture->client, id);
    g_assert_cmpstr(state, ==, "assigned");
    client_free(second);
    wait_for(bed_vf_type(fixture->bed, VF) == 0);
}

static void
test_odd_comm(Fixture *fixture, gconstpointer data)
{
    g_autofree char *id = client_must_assign(fixture->client, "L40S-2Q", NULL, NULL);
    BedHolder *holder = bed_hold_full(fixture->bed, VF, BED_HOLD_VM, "\xff\x01", 0, NULL);
    g_autoptr(GError) error = NULL;
    g_autoptr(GVariant) all = NULL;

    g_assert_false(client_release(fixture->client, id, &error));
    assert_error(error, "InUse");
    all = client_call(fixture->client, "org.freedesktop.DBus.Properties.GetAll",
                      g_variant_new("(s)", "org.hypeman.VGPU1"), NULL);
    g_assert_nonnull(all);
    bed_let_go(holder);
}

static void
test_hundred_clients(Fixture *fixture, gconstpointer data)
{
    g_autofree char *first = client_must_assign(fixture->client, "L40S-2Q", NULL, NULL);
    guint fds, rules;

    g_assert_true(
        client_release(fixture->client, first, NULL)); /* from now on the journal's socket is open */
    fds = host_fds(fixture->host);
    rules = host_match_rules(fixture->host);
    for (guint i = 0; i < 100; i++) {
        g_autoptr(Client) client = client_new(fixture->host, 0);
        g_autofree char *id = client_must_assign(client, i % 3 ? "L40S-2Q" : "T4-2Q", NULL, NULL);
    }
    wait_for(bed_vfs_set(fixture->bed, NULL) == 0);
    wait_for(client_assignments(fixture->client) == 0);
    wait_for(host_fds(fixture->host) == fds);
    wait_for(host_match_rules(fixture->host) == rules);
}

static void
test_hundred_at_once(Fixture *fixture, gconstpointer data)
{
    g_autoptr(GPtrArray) clients = g_ptr_array_new_with_free_func((GDestroyNotify)client_free);
    g_autoptr(GPtrArray) pending = g_ptr_array_new();
    guint given = 0;

    for (guint i = 0; i < 100; i++) {
        g_ptr_array_add(clients, client_new(fixture->host, 0));
        g_ptr_array_add(pending, client_start(g_ptr_array_index(clients, i), "Assign",
                                              g_variant_new_parsed("('L40S-2Q', @a{sv} {})")));
    }
    for (guint i = 0; i < 100; i++) {
        g_autoptr(GError) error = NULL;
        g_autoptr(GVariant) reply = client_finish(g_ptr_array_index(pending, i), &error);

        given += reply != NULL;
    }
    g_assert_cmpuint(given, ==, 16);
    g_assert_cmpuint(bed_vfs_set(fixture->bed, NULL), ==, 16);
    g_ptr_array_set_size(clients, 0);
    wait_for(bed_vfs_set(fixture->bed, NULL) == 0);
}

#define ADD_SIZED(path, vfs, test) g_test_add(path, Fixture, GINT_TO_POINTER(vfs), set_up, test, tear_down)
#define ADD(path, test) ADD_SIZED(path, 0, test)

static int
run(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    ADD("/assign/profile/every-spelling-gives-the-same", test_spellings);
    ADD("/assign/placement/spread-takes-cards-in-turn", test_spread);
    ADD("/assign/placement/pack-fills-one-card", test_pack);
    ADD("/assign/vendor-vfio/set-while-the-caller-lives", test_set_and_cleared);
    ADD("/assign/release/clears-and-says-so", test_released);
    ADD("/assign/mdev/one-is-made-and-removed", test_mdev);
    g_test_add_func("/assign/mdev/on-a-virtual-function", test_mdev_on_vf);
    ADD("/assign/uuid/a-given-one-is-used", test_given_uuid);
    ADD("/assign/uuid/a-taken-one-is-refused", test_taken_uuid);
    ADD("/assign/uuid/one-that-mdevctl-defined-is-refused", test_defined_uuid);
    ADD("/assign/arguments/bad-ones-write-nothing", test_bad_arguments);
    ADD("/assign/options/choose-card-and-device", test_options);
    ADD("/assign/plan/says-where-or-why-not-and-touches-nothing", test_plan);
    ADD("/assign/no-capacity/says-why-per-card", test_no_capacity_says_why);
    ADD("/assign/read-back/another-type-is-put-back", test_other_type_is_put_back);
    ADD("/assign/read-back/another-type-that-stays-is-listed-as-failed", test_other_type_that_stays);
    ADD("/assign/refused/somebody-elses-device-is-not-undone", test_rival);
    ADD("/assign/refused/eio-tries-the-next-card-once", test_eio_next_card_once);
    ADD("/assign/refused/eio-everywhere-says-path-value-and-errno", test_eio_everywhere);
    ADD("/assign/group/slot-with-a-kept-descriptor-is-passed-over", test_kept_group_descriptor);
    ADD("/assign/group/a-starting-vm-never-meets-an-open-of-ours", test_vm_never_meets_an_open);
    ADD("/assign/order/reply-comes-before-the-signal", test_reply_comes_before_the_signal);
    ADD("/assign/blocked-write/blocks-nobody-else", test_blocked_write_blocks_nobody);
    ADD("/assign/vanished-caller/is-cleared-when-the-write-returns", test_caller_dies_during_the_write);
    ADD("/assign/adopt/same-uid-takes-it-over", test_adopt_by_the_same_uid);
    ADD("/assign/holders/odd-command-names-break-nothing", test_odd_comm);
    ADD_SIZED("/assign/load/hundred-clients-leave-nothing-behind", 4, test_hundred_clients);
    ADD_SIZED("/assign/load/hundred-at-once-get-what-fits", 8, test_hundred_at_once);
    return g_test_run();
}

int
main(int argc, char **argv)
{
    return bed_main(argc, argv, run);
}
