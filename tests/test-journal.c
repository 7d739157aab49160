/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Who took what, when, and why it ended: one line of the journal for each change. */
#include "host.h"
#include "journal.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

/* Part of the contract: journalctl MESSAGE_ID=… finds them. */
#define ASSIGNED "46e202adf2cf4deba76a7cce8a16d49f"
#define ADOPTED "e77ae458bceb4bb88abfe2dad89c986b"
#define LINGERING "214dd9569e034954a98d0ac990eb4a8d"
#define FAILED "152536ce04e74fa89da673ca7a2ea149"
#define ENDED "b0da79a37e7c422d919ce038448c8010"

#define NAMES                                                                                                \
    "MESSAGE MESSAGE_ID PRIORITY SYSLOG_IDENTIFIER VGPU_DEVICE VGPU_ID VGPU_OWNER VGPU_PROFILE VGPU_REASON " \
    "VGPU_RESULT VGPU_UID"

#define CARD "0000:3b:00.0"
#define T4 "0000:65:00.0"
#define VF "0000:3b:00.4"
#define NOBODY 65534

typedef struct {
    Journal *journal;
    Host *host;
    Bed *bed;
    Client *root;
    Client *user;
} Fixture;

static void
set_up(Fixture *fixture, gconstpointer data)
{
    fixture->journal = journal_new();
    fixture->host = host_new(NULL);
    fixture->bed = host_bed(fixture->host);
    bed_add_card(fixture->bed, "l40s", CARD, 4);
    bed_add_card(fixture->bed, "t4", T4, 0);
    host_polkit(fixture->host, POLKIT_YES);
    host_start(fixture->host, NULL);
    fixture->root = client_new(fixture->host, 0);
    fixture->user = client_new(fixture->host, NOBODY);
}

static void
tear_down(Fixture *fixture, gconstpointer data)
{
    client_free(fixture->root);
    g_clear_pointer(&fixture->user, client_free);
    host_free(fixture->host);
    journal_free(fixture->journal);
}

static guint
count(Fixture *fixture, const char *message_id)
{
    return journal_count(fixture->journal, "MESSAGE_ID", message_id);
}

static const char *
field(Fixture *fixture, const char *message_id, const char *name)
{
    return journal_field(fixture->journal, "MESSAGE_ID", message_id, name);
}

/* The one line of @message_id is about assignment @id on @device. */
static void
assert_line(Fixture *fixture, const char *message_id, const char *id, const char *device)
{
    g_autofree char *names = NULL;

    wait_for(count(fixture, message_id) > 0);
    g_assert_cmpuint(count(fixture, message_id), ==, 1);
    names = journal_names(fixture->journal, "MESSAGE_ID", message_id);
    g_assert_cmpstr(names, ==, NAMES);
    g_assert_cmpstr(field(fixture, message_id, "VGPU_ID"), ==, id);
    g_assert_cmpstr(field(fixture, message_id, "VGPU_DEVICE"), ==, device);
}

static void
test_assigned(Fixture *fixture, gconstpointer data)
{
    g_autofree char *id = client_must_assign(fixture->user, "L40S-2Q", NULL, NULL);

    assert_line(fixture, ASSIGNED, id, VF);
    g_assert_cmpstr(field(fixture, ASSIGNED, "VGPU_PROFILE"), ==, "NVIDIA L40S-2Q");
    g_assert_cmpstr(field(fixture, ASSIGNED, "VGPU_UID"), ==, "65534");
    g_assert_cmpstr(field(fixture, ASSIGNED, "VGPU_OWNER"), ==, client_name(fixture->user));
    g_assert_cmpstr(field(fixture, ASSIGNED, "VGPU_REASON"), ==, "");
    g_assert_cmpstr(field(fixture, ASSIGNED, "VGPU_RESULT"), ==, "done");
    g_assert_cmpstr(field(fixture, ASSIGNED, "PRIORITY"), ==, "6");
    g_assert_cmpstr(field(fixture, ASSIGNED, "MESSAGE"), ==,
                    "NVIDIA L40S-2Q on 0000:3b:00.4 assigned (uid 65534)");
}

static void
test_assigned_mdev(Fixture *fixture, gconstpointer data)
{
    g_autoptr(GVariant) row = NULL;
    g_autofree char *id = client_must_assign(fixture->user, "T4-2Q", NULL, &row);

    assert_line(fixture, ASSIGNED, id, row_string(row, "UUID"));
}

static void
test_refused(Fixture *fixture, gconstpointer data)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *id = NULL;

    host_polkit(fixture->host, POLKIT_NO);
    g_assert_null(client_assign(fixture->user, "L40S-2Q", NULL, NULL, &error));
    assert_error(error, "AccessDenied");
    /* The next line comes after one about that, if there were one. */
    host_polkit(fixture->host, POLKIT_YES);
    id = client_must_assign(fixture->user, "L40S-2Q", NULL, NULL);
    assert_line(fixture, ASSIGNED, id, VF);
}

static void
assert_ended(Fixture *fixture, const char *id, const char *reason)
{
    assert_line(fixture, ENDED, id, VF);
    g_assert_cmpstr(field(fixture, ENDED, "VGPU_REASON"), ==, reason);
    g_assert_cmpstr(field(fixture, ENDED, "VGPU_RESULT"), ==, "done");
    g_assert_cmpstr(field(fixture, ENDED, "VGPU_UID"), ==, "65534");
    g_assert_true(g_str_has_suffix(field(fixture, ENDED, "MESSAGE"), reason));
    /* One each, and nothing else. */
    g_assert_cmpuint(count(fixture, ASSIGNED), ==, 1);
    g_assert_cmpuint(journal_count(fixture->journal, "VGPU_ID", id), ==, 2);
}

static void
test_released(Fixture *fixture, gconstpointer data)
{
    g_autofree char *id = client_must_assign(fixture->user, "L40S-2Q", NULL, NULL);

    g_assert_true(client_release(fixture->user, id, NULL));
    assert_ended(fixture, id, "released");
    g_assert_cmpstr(field(fixture, ENDED, "VGPU_OWNER"), ==, client_name(fixture->user));
}

static void
test_owner_vanished(Fixture *fixture, gconstpointer data)
{
    g_autofree char *id = client_must_assign(fixture->user, "L40S-2Q", NULL, NULL);
    g_autofree char *name = g_strdup(client_name(fixture->user));

    g_clear_pointer(&fixture->user, client_free);
    wait_for(count(fixture, ENDED) > 0);
    assert_ended(fixture, id, "owner-vanished");
    g_assert_cmpstr(field(fixture, ENDED, "VGPU_OWNER"), ==, name);
}

static void
test_lost(Fixture *fixture, gconstpointer data)
{
    g_autofree char *id = client_must_assign(fixture->user, "L40S-2Q", NULL, NULL);

    bed_remove_vf(fixture->bed, VF);
    wait_for(count(fixture, ENDED) > 0);
    assert_ended(fixture, id, "lost");
}

static void
test_refused_release(Fixture *fixture, gconstpointer data)
{
    g_autofree char *id = client_must_assign(fixture->user, "L40S-2Q", NULL, NULL);
    BedHolder *vm = bed_hold(fixture->bed, VF);

    g_assert_false(client_release(fixture->user, id, NULL));
    g_assert_false(client_release(fixture->user, id, NULL));
    bed_let_go(vm);
    wait_for(client_release(fixture->user, id, NULL));
    assert_ended(fixture, id, "released");
}

static void
test_adopted(Fixture *fixture, gconstpointer data)
{
    g_autoptr(Client) heir = client_new(fixture->host, NOBODY);
    g_autofree char *id = client_must_assign(fixture->user, "L40S-2Q", NULL, NULL);
    g_autoptr(GVariant) adopted = client_call(heir, "Adopt", g_variant_new("(s)", id), NULL);

    g_assert_nonnull(adopted);
    assert_line(fixture, ADOPTED, id, VF);
    g_assert_cmpstr(field(fixture, ADOPTED, "VGPU_OWNER"), ==, client_name(heir));
    g_assert_cmpstr(field(fixture, ADOPTED, "VGPU_RESULT"), ==, "done");
}

/* However often it is tried meanwhile. */
static void
test_lingering(Fixture *fixture, gconstpointer close_early)
{
    g_autofree char *id = client_must_assign(fixture->user, "L40S-2Q", NULL, NULL);
    BedHolder *vm = bed_hold_full(fixture->bed, VF, BED_HOLD_VM, "a VM", NOBODY, NULL);
    guint tries;

    g_assert_nonnull(vm);
    if (close_early)
        bed_close_early(fixture->bed, VF, 200);
    g_clear_pointer(&fixture->user, client_free);
    wait_for(count(fixture, LINGERING) > 0);
    tries = bed_trace_count(fixture->bed, BED_TRACE_OPEN, VF, NULL);
    wait_for(bed_trace_count(fixture->bed, BED_TRACE_OPEN, VF, NULL) > tries);
    assert_line(fixture, LINGERING, id, VF);
    g_assert_cmpstr(field(fixture, LINGERING, "PRIORITY"), ==, "5");
    g_assert_nonnull(strstr(field(fixture, LINGERING, "VGPU_REASON"), "a VM"));
    bed_let_go(vm);
    wait_for(count(fixture, ENDED) > 0);
    assert_line(fixture, ENDED, id, VF);
    g_assert_cmpstr(field(fixture, ENDED, "VGPU_REASON"), ==, "owner-vanished");
    assert_line(fixture, LINGERING, id, VF);
    g_assert_cmpuint(journal_count(fixture->journal, "VGPU_ID", id), ==, 3);
}

static void
test_failed(Fixture *fixture, gconstpointer data)
{
    g_autofree char *id = client_must_assign(fixture->user, "L40S-2Q", NULL, NULL);
    g_autoptr(GVariant) reclaimed = NULL;

    bed_fail(fixture->bed, VF, BED_CLEAR, EIO, 1);
    g_assert_false(client_release(fixture->user, id, NULL));
    assert_line(fixture, FAILED, id, VF);
    g_assert_cmpstr(field(fixture, FAILED, "VGPU_RESULT"), ==, "failed");
    g_assert_cmpstr(field(fixture, FAILED, "PRIORITY"), ==, "3");
    g_assert_nonnull(strstr(field(fixture, FAILED, "VGPU_REASON"), "Input/output error"));
    g_assert_cmpuint(count(fixture, ENDED), ==, 0);
    reclaimed = client_call(fixture->root, "Reclaim", g_variant_new("(s)", VF), NULL);
    g_assert_nonnull(reclaimed);
    assert_line(fixture, ENDED, id, VF);
    g_assert_cmpstr(field(fixture, ENDED, "VGPU_REASON"), ==, "reclaimed");
    g_assert_cmpuint(journal_count(fixture->journal, "VGPU_ID", id), ==, 3);
}

/* Neither of the lines is written again. */
static void
test_restart(Fixture *fixture, gconstpointer data)
{
    g_autofree char *id = client_must_assign(fixture->user, "L40S-2Q", NULL, NULL);

    host_stop(fixture->host, GPOINTER_TO_INT(data));
    host_start(fixture->host, NULL);
    wait_for(client_release(fixture->user, id, NULL));
    assert_ended(fixture, id, "released");
}

/* Like formats, like fields, like escapes: none of it is. */
static void
test_odd_label(Fixture *fixture, gconstpointer data)
{
    const char *label = data;
    g_autoptr(GVariant) value = g_variant_ref_sink(g_variant_new_string(label));
    g_autofree char *text = g_variant_print(value, FALSE);
    g_autofree char *options = g_strdup_printf("{'label': <%s>}", text);
    g_autofree char *id = client_must_assign(fixture->user, "L40S-2Q", options, NULL);

    assert_line(fixture, ASSIGNED, id, VF);
    g_assert_cmpstr(field(fixture, ASSIGNED, "VGPU_UID"), ==, "65534");
    g_assert_nonnull(strstr(field(fixture, ASSIGNED, "MESSAGE"), label));
    g_assert_null(strpbrk(field(fixture, ASSIGNED, "MESSAGE"), "\r\n"));
}

static void
test_label_with_a_line(Fixture *fixture, gconstpointer data)
{
    g_autoptr(GError) error = NULL;

    g_assert_null(client_assign(fixture->user, "L40S-2Q", "{'label': <'x\\nVGPU_UID=0'>}", NULL, &error));
    assert_error(error, "InvalidArgs");
    test_odd_label(fixture, "x");
}

/* A process may call itself anything. */
static void
test_odd_holder(Fixture *fixture, gconstpointer data)
{
    g_autofree char *id = client_must_assign(fixture->user, "L40S-2Q", NULL, NULL);
    BedHolder *vm = bed_hold_full(fixture->bed, VF, BED_HOLD_VM, "x\nVGPU_UID=0", NOBODY, NULL);

    g_assert_nonnull(vm);
    g_clear_pointer(&fixture->user, client_free);
    wait_for(count(fixture, LINGERING) > 0);
    assert_line(fixture, LINGERING, id, VF);
    g_assert_cmpstr(field(fixture, LINGERING, "VGPU_UID"), ==, "65534");
    g_assert_null(strchr(field(fixture, LINGERING, "VGPU_REASON"), '\n'));
    g_assert_null(strchr(field(fixture, LINGERING, "MESSAGE"), '\n'));
    bed_let_go(vm);
    wait_for(count(fixture, ENDED) > 0);
}

#define ADD(path, data, test) g_test_add(path, Fixture, data, set_up, test, tear_down)

static int
run(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    ADD("/journal/assigned/says-who-and-what", NULL, test_assigned);
    ADD("/journal/assigned/names-an-mdev-by-its-uuid", NULL, test_assigned_mdev);
    ADD("/journal/refused/is-no-change", NULL, test_refused);
    ADD("/journal/ended/released", NULL, test_released);
    ADD("/journal/ended/owner-vanished", NULL, test_owner_vanished);
    ADD("/journal/ended/lost", NULL, test_lost);
    ADD("/journal/ended/refused-release-is-no-end", NULL, test_refused_release);
    ADD("/journal/adopted/names-the-new-owner", NULL, test_adopted);
    ADD("/journal/lingering/is-said-once-with-its-holder", NULL, test_lingering);
    ADD("/journal/lingering/is-said-once-though-the-node-is-late", "late", test_lingering);
    ADD("/journal/failed/says-why-and-reclaimed-ends-it", NULL, test_failed);
    ADD("/journal/restart/sigterm-repeats-nothing", GINT_TO_POINTER(SIGTERM), test_restart);
    ADD("/journal/restart/sigkill-repeats-nothing", GINT_TO_POINTER(SIGKILL), test_restart);
    ADD("/journal/odd-label/is-no-format", "%s%n%1000000d", test_odd_label);
    ADD("/journal/odd-label/is-no-field", "VGPU_UID=0 MESSAGE_ID=0", test_odd_label);
    ADD("/journal/odd-label/is-no-escape", "\\nVGPU_UID=0\\x00 \"', ü", test_odd_label);
    ADD("/journal/odd-label/line-is-refused", NULL, test_label_with_a_line);
    ADD("/journal/odd-holder/cannot-forge-fields", NULL, test_odd_holder);
    return g_test_run();
}

int
main(int argc, char **argv)
{
    return bed_main(argc, argv, run);
}
