/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Who can open the node. */
#include "host.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/acl.h>
#include <sys/stat.h>

#define CARD "0000:3b:00.0"
#define T4 "0000:65:00.0"
#define VF "0000:3b:00.4"
#define NEXT "0000:3b:00.5"
#define NOBODY 65534
#define SOMEBODY 1

typedef struct {
    Host *host;
    Bed *bed;
    Client *user;
} Fixture;

static void
set_up(Fixture *fixture, gconstpointer data)
{
    fixture->host = host_new(NULL);
    fixture->bed = host_bed(fixture->host);
    bed_add_card(fixture->bed, "l40s", CARD, 4);
    bed_add_card(fixture->bed, "t4", T4, 0);
    host_polkit(fixture->host, POLKIT_YES);
    host_start(fixture->host, NULL);
    fixture->user = client_new(fixture->host, NOBODY);
}

static void
tear_down(Fixture *fixture, gconstpointer data)
{
    g_clear_pointer(&fixture->user, client_free);
    host_free(fixture->host);
}

static void
test_owner_opens_its_node_and_no_other(Fixture *fixture, gconstpointer profile)
{
    g_autoptr(GVariant) row = NULL;
    g_autofree char *id = client_must_assign(fixture->user, profile, NULL, &row);
    const char *device = *row_string(row, "UUID") ? row_string(row, "UUID") : row_string(row, "Device");

    g_assert_true(bed_user_can_open(fixture->bed, device, NOBODY));
    g_assert_false(bed_user_can_open(fixture->bed, device, SOMEBODY));
    g_assert_false(bed_user_can_open(fixture->bed, NEXT, NOBODY));
    wait_for(client_release(fixture->user, id, NULL));
    if (bed_exists(fixture->bed, device))
        g_assert_false(bed_user_can_open(fixture->bed, device, NOBODY));
}

static void
test_withdrawn_when_the_owner_leaves(Fixture *fixture, gconstpointer data)
{
    g_autofree char *id = client_must_assign(fixture->user, "L40S-2Q", NULL, NULL);
    g_autoptr(Client) watcher = client_new(fixture->host, 0);
    BedHolder *vm = bed_hold_full(fixture->bed, VF, BED_HOLD_VM, NULL, NOBODY, NULL);
    g_autofree char *state = NULL;

    g_assert_nonnull(vm);
    g_clear_pointer(&fixture->user, client_free);
    wait_for((g_free(state), state = client_state(watcher, id), strcmp(state, "lingering") == 0));
    /* At once, though it lingers; another user of the group could still see the mode. */
    bed_holder_close(vm);
    wait_for(bed_vf_type(fixture->bed, VF) == 0);
    g_assert_false(bed_user_can_open(fixture->bed, VF, NOBODY));
    bed_let_go(vm);
}

static void
test_withdrawn_after_a_crash(Fixture *fixture, gconstpointer data)
{
    g_autofree char *id = client_must_assign(fixture->user, "L40S-2Q", NULL, NULL);

    g_assert_true(bed_user_can_open(fixture->bed, VF, NOBODY));
    g_assert_cmpint(host_stop(fixture->host, SIGKILL), ==, 128 + SIGKILL);
    g_clear_pointer(&fixture->user, client_free);
    host_start(fixture->host, NULL);
    wait_for(bed_vf_type(fixture->bed, VF) == 0);
    g_assert_false(bed_user_can_open(fixture->bed, VF, NOBODY));
}

static void
test_refused_release_changes_nothing(Fixture *fixture, gconstpointer data)
{
    g_autofree char *id = client_must_assign(fixture->user, "L40S-2Q", NULL, NULL);
    BedHolder *vm = bed_hold_full(fixture->bed, VF, BED_HOLD_VM, NULL, NOBODY, NULL);
    g_autoptr(GError) error = NULL;

    g_assert_false(client_release(fixture->user, id, &error));
    assert_error(error, "InUse");
    bed_let_go(vm);
    g_assert_true(bed_wait_free(fixture->bed, VF, 10));
    g_assert_true(bed_user_can_open(fixture->bed, VF, NOBODY));
    /* Also when the driver refuses after access was withdrawn. */
    bed_fail(fixture->bed, VF, BED_CLEAR, EPERM, 1);
    g_clear_error(&error);
    wait_for((g_clear_error(&error), !client_release(fixture->user, id, &error)));
    assert_error(error, "InUse");
    g_assert_true(bed_user_can_open(fixture->bed, VF, NOBODY));
}

static void
test_root_gets_none(Fixture *fixture, gconstpointer data)
{
    g_autoptr(Client) root = client_new(fixture->host, 0);
    g_autofree char *id = client_must_assign(root, "L40S-2Q", NULL, NULL);
    g_autofree char *real = NULL;
    struct stat st;
    g_autofree char *group_node = bed_group_node(fixture->bed, VF);

    real = bed_path(fixture->bed, group_node);
    g_assert_cmpint(stat(real, &st), ==, 0);
    g_assert_cmpint(st.st_mode & 0777, ==, 0600);
}

static void
test_adopter_gets_it(Fixture *fixture, gconstpointer data)
{
    g_autofree char *id = client_must_assign(fixture->user, "L40S-2Q", NULL, NULL);
    g_autoptr(Client) heir = client_new(fixture->host, SOMEBODY);
    g_autoptr(GError) error = NULL;
    g_autoptr(GVariant) adopted = client_call(heir, "Adopt", g_variant_new("(s)", id), &error);

    g_assert_no_error(error);
    g_assert_true(bed_user_can_open(fixture->bed, VF, SOMEBODY));
    g_assert_false(bed_user_can_open(fixture->bed, VF, NOBODY));
}

static void
test_mode_is_put_over_it(Fixture *fixture, gconstpointer data)
{
    g_autofree char *id = client_must_assign(fixture->user, "L40S-2Q", NULL, NULL);

    g_assert_true(bed_user_can_open(fixture->bed, VF, NOBODY));
    bed_reapply_mode(fixture->bed, VF, 0600);
    wait_for(bed_user_can_open(fixture->bed, VF, NOBODY));
}

/* An entry that somebody left behind is not given to the next owner; a group's stays. */
static void
test_named_users_are_removed(Fixture *fixture, gconstpointer data)
{
    g_autofree char *group_node = bed_group_node(fixture->bed, VF);
    g_autofree char *real = bed_path(fixture->bed, group_node);
    acl_t acl = acl_from_text("u::rw-,u:1:rw-,g::---,g:7:rw-,m::rw-,o::---");
    g_autofree char *id = NULL;
    g_autofree char *log = NULL;
    char *text;

    g_assert_cmpint(acl_set_file(real, ACL_TYPE_ACCESS, acl), ==, 0);
    acl_free(acl);
    id = client_must_assign(fixture->user, "L40S-2Q", NULL, NULL);
    acl = acl_get_file(real, ACL_TYPE_ACCESS);
    text = acl_to_text(acl, NULL);
    g_assert_null(strstr(text, "user:daemon"));
    g_assert_nonnull(strstr(text, "user:nobody:rw-"));
    g_assert_nonnull(strstr(text, "group:lp:rw-"));
    acl_free(text);
    acl_free(acl);
    log = host_log(fixture->host);
    g_assert_nonnull(strstr(log, "was open to user 1"));
    g_assert_true(client_release(fixture->user, id, NULL));
    acl = acl_get_file(real, ACL_TYPE_ACCESS);
    text = acl_to_text(acl, NULL);
    g_assert_null(strstr(text, "user:nobody"));
    g_assert_nonnull(strstr(text, "group:lp:rw-"));
    acl_free(text);
    acl_free(acl);
}

static void
test_shared_group(Fixture *fixture, gconstpointer data)
{
    g_autoptr(Client) root = client_new(fixture->host, 0);
    g_autoptr(GError) error = NULL;
    g_autoptr(GVariant) row = NULL;
    g_autofree char *first = NULL;
    g_autofree char *second = NULL;

    bed_share_group(fixture->bed, "0000:3b:00.5", VF);
    g_assert_null(client_assign(fixture->user, "L40S-2Q", "{'device': <'0000:3b:00.4'>}", NULL, &error));
    assert_error(error, "NoCapacity");
    first = client_must_assign(root, "L40S-2Q", "{'device': <'0000:3b:00.4'>}", NULL);
    g_clear_error(&error);
    g_assert_null(client_assign(root, "L40S-2Q", "{'device': <'0000:3b:00.5'>}", NULL, &error));
    assert_error(error, "NoCapacity");
    second = client_must_assign(fixture->user, "L40S-2Q", NULL, &row);
    g_assert_cmpstr(row_string(row, "Device"), ==, "0000:3b:00.6");
}

#define ADD(path, data, test) g_test_add(path, Fixture, data, set_up, test, tear_down)

static int
run(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    ADD("/access/owner/opens-its-node-and-no-other", "L40S-2Q", test_owner_opens_its_node_and_no_other);
    ADD("/access/owner/opens-its-mdev-and-no-other", "T4-2Q", test_owner_opens_its_node_and_no_other);
    ADD("/access/vanished-owner/is-shut-out-at-once", NULL, test_withdrawn_when_the_owner_leaves);
    ADD("/access/crash/is-shut-out-by-the-next-start", NULL, test_withdrawn_after_a_crash);
    ADD("/access/refused-release/leaves-it-as-it-was", NULL, test_refused_release_changes_nothing);
    ADD("/access/root/gets-no-entry", NULL, test_root_gets_none);
    ADD("/access/adopt/goes-to-the-new-owner", NULL, test_adopter_gets_it);
    ADD("/access/udev/entry-is-put-back-over-a-mode", NULL, test_mode_is_put_over_it);
    ADD("/access/left-behind/named-users-go-and-groups-stay", NULL, test_named_users_are_removed);
    ADD("/access/shared-group/nobodys-or-roots-only", NULL, test_shared_group);
    return g_test_run();
}

int
main(int argc, char **argv)
{
    return bed_main(argc, argv, run);
}
