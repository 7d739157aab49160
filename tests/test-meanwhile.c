/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What changes between two steps of the service. */
#include "host.h"
#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <signal.h>
#include <string.h>
#include <sys/acl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define CARD "0000:3b:00.0"
#define OTHER "0000:5e:00.0"
#define T4 "0000:65:00.0"
#define VF "0000:3b:00.4"
#define NEXT "0000:3b:00.5"
#define ON_OTHER "0000:5e:00.4"
#define FIRST_UUID "0f2a9b1c-5a0e-4d2b-8d58-3f1f0c6f1a01"
#define SECOND_UUID "c1b7b4a4-4c1b-4f5d-9d2e-6a5f0c3e7a11"
#define NOBODY 65534
#define SOMEBODY 1 /* the bus wants a user that exists */

typedef struct {
    Host *host;
    Bed *bed;
    Client *client;
} Fixture;

/* The same card after its driver was replaced by one that numbers its types in another way. */
static const BedCard other_branch = {.framework = BED_VENDOR_VFIO,
                                     .types = "l40s-other-branch.list",
                                     .device = 0x26b9,
                                     .total_vfs = 32,
                                     .vfs = 4,
                                     .framebuffer_mib = 49152};

static void
set_up(Fixture *fixture, gconstpointer data)
{
    fixture->host = host_new(NULL);
    fixture->bed = host_bed(fixture->host);
    bed_add_card(fixture->bed, "l40s", CARD, 4);
    bed_add_card(fixture->bed, "a10", OTHER, 4);
    bed_add_card(fixture->bed, "t4", T4, 0);
    host_start(fixture->host, NULL);
    fixture->client = client_new(fixture->host, 0);
    client_listen(fixture->client);
}

static void
tear_down(Fixture *fixture, gconstpointer data)
{
    g_clear_pointer(&fixture->client, client_free);
    host_free(fixture->host);
}

/* ---- Steps of the service that can be seen from outside ---- */

static gboolean
file_says(const char *path, const char *text)
{
    g_autofree char *content = NULL;

    return g_file_get_contents(path, &content, NULL, NULL) && strstr(content, text);
}

/* What waits for its turn at a card is in the record before. */
static gboolean
is_recorded(Fixture *fixture, const char *text)
{
    g_autofree char *state = host_runtime_file(fixture->host, "state");

    return file_says(state, text);
}

static gboolean
was_logged(Fixture *fixture, const char *text)
{
    g_autofree char *log = host_log(fixture->host);

    return strstr(log, text) != NULL;
}

/* Returns when the service has done what was ready before: its loop has come round. */
static void
come_round(Fixture *fixture)
{
    for (guint i = 0; i < 3; i++) {
        g_autoptr(GVariant) version = client_get(fixture->client, "Version");
    }
}

static char *
assign_on_other(Client *client)
{
    return client_must_assign(client, "A10-2Q", "{'device': <'" ON_OTHER "'>}", NULL);
}

/* Returns when the service has heard all device events so far and has looked at everything anew: it has found
 * that a vGPU on another card is gone. */
static void
see_a_rescan(Fixture *fixture)
{
    g_autofree char *marker = assign_on_other(fixture->client);

    g_assert_cmpint(bed_set_by_hand(fixture->bed, ON_OTHER, 0), ==, 0);
    bed_uevent(fixture->bed, ON_OTHER, "change");
    wait_for(client_was_removed(fixture->client, marker, "lost"));
    come_round(fixture);
}

/* Ends @client, which has @marker on another card, and returns when the service has noticed. */
static void
leave(Fixture *fixture, Client *client, const char *marker)
{
    client_free(client);
    wait_for(client_was_removed(fixture->client, marker, "owner-vanished"));
}

/* As a plain user, whose access is an entry of the node. Nothing of it is still to be told. */
static char *
assign_to_nobody(Fixture *fixture, Client **ret_user)
{
    guint before = client_changes(fixture->client, "Assignments");
    char *id;

    host_polkit(fixture->host, POLKIT_YES);
    *ret_user = client_new(fixture->host, NOBODY);
    id = client_must_assign(*ret_user, "L40S-2Q", "{'device': <'" VF "'>}", NULL);
    wait_for(client_changes(fixture->client, "Assignments") > before);
    return id;
}

static void
set_acl(Fixture *fixture, const char *text)
{
    g_autofree char *node = bed_group_node(fixture->bed, VF);
    g_autofree char *real = bed_path(fixture->bed, node);
    acl_t acl = acl_from_text(text);

    g_assert_cmpint(acl_set_file(real, ACL_TYPE_ACCESS, acl), ==, 0);
    acl_free(acl);
}

/* Whether the node has an entry of the plain user, also while somebody has it open. */
static gboolean
nobody_has_an_entry(Fixture *fixture)
{
    g_autofree char *node = bed_group_node(fixture->bed, VF);
    g_autofree char *real = bed_path(fixture->bed, node);
    acl_t acl = acl_get_file(real, ACL_TYPE_ACCESS);
    char *text = acl_to_text(acl, NULL);
    gboolean has = strstr(text, "user:65534:") || strstr(text, "user:nobody:");

    acl_free(text);
    acl_free(acl);
    return has;
}

/* Another tool, which knows nothing of us, has taken the virtual function for a user of its own. */
static void
give_to_somebody(Fixture *fixture)
{
    g_assert_cmpint(bed_set_by_hand(fixture->bed, VF, 0), ==, 0);
    g_assert_cmpint(bed_set_by_hand(fixture->bed, VF, 1146), ==, 0);
    set_acl(fixture, "u::rw-,u:1:rw-,g::---,m::rw-,o::---");
    g_assert_true(bed_user_can_open(fixture->bed, VF, SOMEBODY));
}

static gboolean
reclaim(Fixture *fixture, const char *device, GError **error)
{
    g_autoptr(GVariant) reply = client_call(fixture->client, "Reclaim", g_variant_new("(s)", device), error);

    return reply != NULL;
}

static guint
clears(Fixture *fixture)
{
    return bed_trace_count(fixture->bed, BED_TRACE_WRITE, VF, "0");
}

static gboolean
all_is_given_back(Fixture *fixture)
{
    return client_assignments(fixture->client) == 0 && bed_vf_type(fixture->bed, VF) == 0;
}

/* ---- Between two writes to one card ---- */

/* The first mdev is there and its caller has it, while the second one is being created: nobody may read the
 * card then, which proves nothing about the first. */
static void
test_two_creates(Fixture *fixture, gconstpointer data)
{
    g_autoptr(Client) second = client_new(fixture->host, 0);
    g_autoptr(GVariant) first_reply = NULL;
    g_autoptr(GVariant) second_reply = NULL;
    g_autofree char *first_id = NULL;
    g_autofree char *second_id = NULL;
    g_autofree char *removals = NULL;
    Pending *one, *two;

    bed_stall_after(fixture->bed, T4, BED_CREATE);
    one = client_start(fixture->client, "Assign",
                       g_variant_new_parsed("('T4-2Q', {'uuid': <'" FIRST_UUID "'>})"));
    g_assert_true(bed_wait_stalled(fixture->bed, T4, 10));
    two = client_start(second, "Assign", g_variant_new_parsed("('T4-2Q', {'uuid': <'" SECOND_UUID "'>})"));
    wait_for(is_recorded(fixture, SECOND_UUID));
    bed_stall(fixture->bed, NULL, BED_CREATE);
    bed_resume(fixture->bed, T4);
    first_reply = client_finish(one, NULL);
    g_assert_nonnull(first_reply);
    g_variant_get_child(first_reply, 0, "s", &first_id);
    g_assert_true(bed_wait_stalled(fixture->bed, T4, 10));
    see_a_rescan(fixture);
    g_assert_false(pending_is_done(two));
    bed_resume(fixture->bed, T4);
    second_reply = client_finish(two, NULL);
    g_assert_nonnull(second_reply);
    g_variant_get_child(second_reply, 0, "s", &second_id);
    see_a_rescan(fixture);
    removals = client_removals(fixture->client, first_id);
    g_assert_cmpstr(removals, ==, "");
    g_assert_true(client_state_is(fixture->client, first_id, "assigned"));
    g_assert_true(client_state_is(fixture->client, second_id, "assigned"));
    g_assert_true(bed_exists(fixture->bed, FIRST_UUID));
    g_assert_true(bed_exists(fixture->bed, SECOND_UUID));
}

/* The caller left while its virtual function was set, and the clear has to wait for another write on the
 * card. Before its turn comes somebody else clears the function and sets it. */
static void
test_just_set(Fixture *fixture, gconstpointer data)
{
    Client *owner = client_new(fixture->host, 0);
    g_autofree char *marker = assign_on_other(owner);
    g_autoptr(GVariant) reply = NULL;
    g_autoptr(GVariant) none = NULL;
    Pending *one, *two;

    bed_stall_after(fixture->bed, VF, BED_SET);
    one = client_start(owner, "Assign", g_variant_new_parsed("('L40S-2Q', {'device': <'" VF "'>})"));
    wait_for(bed_stalled(fixture->bed, VF) == 1);
    bed_stall(fixture->bed, NEXT, BED_SET);
    two = client_start(fixture->client, "Assign",
                       g_variant_new_parsed("('L40S-2Q', {'device': <'" NEXT "'>})"));
    wait_for(is_recorded(fixture, "slot=" NEXT));
    leave(fixture, owner, marker);
    bed_resume(fixture->bed, VF);
    wait_for(bed_stalled(fixture->bed, NEXT) == 1);
    wait_for(is_recorded(fixture, "state=releasing"));
    g_assert_cmpint(bed_set_by_hand(fixture->bed, VF, 0), ==, 0);
    g_assert_cmpint(bed_set_by_hand(fixture->bed, VF, 1146), ==, 0);
    bed_resume(fixture->bed, NEXT);
    reply = client_finish(two, NULL);
    g_assert_nonnull(reply);
    none = client_finish(one, NULL);
    g_assert_null(none);
    wait_for(!is_recorded(fixture, "slot=" VF));
    g_assert_cmpuint(clears(fixture), ==, 0);
    g_assert_cmpuint(bed_vf_type(fixture->bed, VF), ==, 1146);
}

/* While a call waits for its turn the card is replaced by one on which the chosen number is another type. */
static void
test_other_card(Fixture *fixture, gconstpointer data)
{
    g_autoptr(Client) second = client_new(fixture->host, 0);
    g_autoptr(GVariant) none = NULL;
    g_autoptr(GVariant) reply = NULL;
    g_autoptr(GVariant) row = NULL;
    g_autoptr(GError) error = NULL;
    Pending *one, *two;

    bed_stall(fixture->bed, NEXT, BED_SET);
    one = client_start(second, "Assign", g_variant_new_parsed("('L40S-2Q', {'device': <'" NEXT "'>})"));
    wait_for(bed_stalled(fixture->bed, NEXT) == 1);
    two =
        client_start(fixture->client, "Assign", g_variant_new_parsed("('L40S-2Q', {'device': <'" VF "'>})"));
    wait_for(is_recorded(fixture, "slot=" VF));
    bed_remove_card(fixture->bed, CARD);
    bed_add_card_full(fixture->bed, CARD, &other_branch);
    see_a_rescan(fixture);
    bed_resume(fixture->bed, NULL);
    none = client_finish(one, NULL);
    reply = client_finish(two, &error);
    g_assert_cmpuint(bed_trace_count(fixture->bed, BED_TRACE_WRITE, VF, "1148"), ==, 0);
    if (reply) {
        row = g_variant_get_child_value(reply, 1);
        g_assert_cmpstr(row_string(row, "Profile"), ==, "NVIDIA L40S-2Q");
        g_assert_cmpuint(bed_vf_type(fixture->bed, VF), ==, 1147);
    } else {
        g_assert_nonnull(error);
        g_assert_cmpuint(bed_vf_type(fixture->bed, VF), ==, 0);
    }
}

/* A group number is free again with its mdev, and the next mdev gets it. What udev said of the old group,
 * while the next one waited for its turn, is nothing about the new node. */
static void
test_group_number_reused(Fixture *fixture, gconstpointer data)
{
    Client *user, *rival;
    g_autoptr(Client) second = client_new(fixture->host, NOBODY);
    g_autofree char *id = NULL;
    g_autofree char *before = NULL;
    g_autofree char *after = NULL;
    g_autofree char *said = g_strdup_printf("%s: udev has not spoken", SECOND_UUID);
    g_autoptr(GVariant) released = NULL;
    g_autoptr(GVariant) none = NULL;
    g_autoptr(GVariant) reply = NULL;
    Pending *release, *failing, *assign;

    host_polkit(fixture->host, POLKIT_YES);
    user = client_new(fixture->host, NOBODY);
    rival = client_new(fixture->host, 0);
    id = client_must_assign(user, "T4-2Q", "{'uuid': <'" FIRST_UUID "'>}", NULL);
    before = bed_group_node(fixture->bed, FIRST_UUID);
    /* Three in a row: the remove, a create that fails, and the one that it is about. */
    bed_stall(fixture->bed, FIRST_UUID, BED_REMOVE);
    release = client_start(user, "Release", g_variant_new("(s)", id));
    g_assert_true(bed_wait_stalled(fixture->bed, FIRST_UUID, 10));
    bed_stall(fixture->bed, T4, BED_CREATE);
    bed_fail(fixture->bed, T4, BED_CREATE, EIO, 1);
    failing = client_start(rival, "Assign", g_variant_new_parsed("('T4-2Q', {'label': <'failing'>})"));
    wait_for(is_recorded(fixture, "label=failing"));
    assign = client_start(second, "Assign", g_variant_new_parsed("('T4-2Q', {'uuid': <'" SECOND_UUID "'>})"));
    wait_for(is_recorded(fixture, "uuid=" SECOND_UUID));
    bed_resume(fixture->bed, FIRST_UUID);
    released = client_finish(release, NULL);
    g_assert_nonnull(released);
    g_assert_true(bed_wait_stalled(fixture->bed, T4, 10));
    see_a_rescan(fixture);
    bed_mute_uevents(fixture->bed, TRUE); /* udev is slow with the new node */
    bed_resume(fixture->bed, T4);
    none = client_finish(failing, NULL);
    g_assert_null(none);
    reply = client_finish(assign, NULL);
    g_assert_nonnull(reply);
    after = bed_group_node(fixture->bed, SECOND_UUID);
    g_assert_cmpstr(before, ==, after);
    g_assert_true(was_logged(fixture, said));
    bed_mute_uevents(fixture->bed, FALSE);
    client_free(rival);
    client_free(user);
}

/* ---- Whose access it is ---- */

/* Another tool has taken the device for a user of its own, and the service hears of it by an event. */
static void
test_restore_over_foreign(Fixture *fixture, gconstpointer data)
{
    Client *user;
    g_autofree char *id = assign_to_nobody(fixture, &user);

    give_to_somebody(fixture);
    bed_uevent(fixture->bed, T4, "change");
    wait_for(client_was_removed(fixture->client, id, "lost"));
    g_assert_true(bed_user_can_open(fixture->bed, VF, SOMEBODY));
    client_free(user);
}

/* A node that is not root's is open to its owner, whatever its entries say: a plain user does not get it. */
static void
test_node_of_another(Fixture *fixture, gconstpointer data)
{
    g_autoptr(Client) user = client_new(fixture->host, NOBODY);
    g_autofree char *users = NULL;
    g_autofree char *roots = NULL;
    g_autoptr(GVariant) row = NULL;
    g_autoptr(GError) error = NULL;

    host_polkit(fixture->host, POLKIT_YES);
    bed_chown_node(fixture->bed, VF, SOMEBODY, SOMEBODY); /* left behind by another tool */
    g_assert_null(client_assign(user, "L40S-2Q", "{'device': <'" VF "'>}", NULL, &error));
    assert_error(error, "NoCapacity");
    g_assert_cmpuint(bed_trace_count(fixture->bed, BED_TRACE_WRITE, VF, NULL), ==, 0);
    users = client_must_assign(user, "L40S-2Q", NULL, &row);
    g_assert_cmpstr(row_string(row, "Device"), !=, VF);
    g_assert_true(bed_user_can_open(fixture->bed, row_string(row, "Device"), NOBODY));
    roots = client_must_assign(fixture->client, "L40S-2Q", "{'device': <'" VF "'>}", NULL);
}

/* ---- Between a call of Adopt and its answer ---- */

/* One round: two wait until a release, which is refused in the end, is over: root, who may have it, and then
 * a plain user, whose it is no more once root has it. FALSE when root was the later one, which shows nothing.
 */
static gboolean
adopt_at_once(Fixture *fixture)
{
    Client *user;
    Client *second = client_new(fixture->host, NOBODY);
    Client *root = client_new(fixture->host, 0);
    g_autofree char *id = assign_to_nobody(fixture, &user);
    g_autoptr(GError) refused = NULL;
    g_autoptr(GError) nothing = NULL;
    g_autoptr(GError) unknown = NULL;
    g_autoptr(GError) error = NULL;
    g_autoptr(GVariant) released = NULL;
    g_autoptr(GVariant) by_root = NULL;
    g_autoptr(GVariant) by_user = NULL;
    g_autoptr(GVariant) row = NULL;
    Pending *release, *roots, *users;
    gboolean conclusive;

    host_polkit(fixture->host, POLKIT_GONE); /* root may manage, nobody else */
    bed_stall(fixture->bed, VF, BED_CLEAR);
    bed_fail(fixture->bed, VF, BED_CLEAR, EPERM, 1);
    release = client_start(fixture->client, "Release", g_variant_new("(s)", id));
    wait_for(bed_stalled(fixture->bed, VF) == 1);
    /* Each has been heard, and waits, when a later call that takes the same steps was answered. */
    roots = client_start(root, "Adopt", g_variant_new("(s)", id));
    g_assert_false(reclaim(fixture, "nothing", &nothing));
    users = client_start(second, "Adopt", g_variant_new("(s)", id));
    g_assert_false(client_release(second, "none", &unknown));
    bed_resume(fixture->bed, VF);
    released = client_finish(release, &refused);
    assert_error(refused, "InUse");
    by_root = client_finish(roots, NULL);
    by_user = client_finish(users, &error);
    row = client_assignment(fixture->client, id);
    g_assert_nonnull(row);
    if (by_root)
        g_assert_cmpint(row_number(row, "UID"), ==, 0);
    conclusive = by_root && !by_user && g_strrstr(error->message, "polkit");
    client_free(user);
    client_free(second);
    client_free(root);
    wait_for(all_is_given_back(fixture));
    return conclusive;
}

static void
test_adopt_asks_anew(Fixture *fixture, gconstpointer data)
{
    guint rounds = 1;

    while (!adopt_at_once(fixture) && rounds < 100)
        rounds++;
    g_test_message("%u rounds", rounds);
    g_assert_cmpuint(rounds, <, 100);
}

/* What somebody else has taken meanwhile is not given on, and nobody's access to it is touched. */
static void
test_adopt_of_what_was_lost(Fixture *fixture, gconstpointer data)
{
    Client *user;
    g_autoptr(Client) second = client_new(fixture->host, NOBODY);
    g_autofree char *id = assign_to_nobody(fixture, &user);
    g_autoptr(GError) error = NULL;
    g_autoptr(GVariant) reply = NULL;

    bed_mute_uevents(fixture->bed, TRUE);
    give_to_somebody(fixture);
    reply = client_call(second, "Adopt", g_variant_new("(s)", id), &error);
    g_assert_null(reply);
    assert_error(error, "UnknownAssignment");
    wait_for(client_was_removed(fixture->client, id, "lost"));
    g_assert_true(bed_user_can_open(fixture->bed, VF, SOMEBODY));
    client_free(user);
}

/* A new owner that is not on disk would be none after a crash. */
static void
test_adopt_not_recorded(Fixture *fixture, gconstpointer data)
{
    Client *user;
    g_autoptr(Client) other = client_new(fixture->host, SOMEBODY);
    g_autofree char *id = assign_to_nobody(fixture, &user);
    g_autoptr(GError) error = NULL;
    g_autoptr(GVariant) reply = NULL;
    g_autoptr(GVariant) row = NULL;

    host_hide_directory(fixture->host, TRUE);
    reply = client_call(other, "Adopt", g_variant_new("(s)", id), &error);
    g_assert_null(reply);
    g_assert_nonnull(error);
    row = client_assignment(fixture->client, id);
    g_assert_cmpstr(row_string(row, "Owner"), ==, client_name(user));
    g_assert_cmpint(row_number(row, "UID"), ==, NOBODY);
    g_assert_true(bed_user_can_open(fixture->bed, VF, NOBODY));
    g_assert_false(bed_user_can_open(fixture->bed, VF, SOMEBODY));
    host_hide_directory(fixture->host, FALSE);
    client_free(user);
    wait_for(all_is_given_back(fixture));
}

/* ---- Between the dialog and the set ---- */

/* polkit was asked about a profile by its number, and while the dialog is open that number becomes another's.
 */
static void
test_other_profile(Fixture *fixture, gconstpointer data)
{
    g_autoptr(Client) user = client_new(fixture->host, NOBODY);
    g_autoptr(GVariant) reply = NULL;
    g_autoptr(GError) error = NULL;
    Pending *pending;

    host_polkit(fixture->host, POLKIT_HANG);
    pending = client_start(user, "Assign", g_variant_new_parsed("('1147', @a{sv} {})"));
    wait_for(polkit_open(fixture->host) == 1);
    g_assert_cmpstr(polkit_last_details(fixture->host), ==, "profile=NVIDIA L40S-1Q");
    bed_remove_card(fixture->bed, CARD);
    bed_add_card_full(fixture->bed, CARD, &other_branch);
    polkit_answer(fixture->host, TRUE);
    reply = client_finish(pending, &error);
    g_assert_null(reply);
    assert_error(error, "InvalidArgs");
    g_assert_cmpuint(bed_trace_count(fixture->bed, BED_TRACE_WRITE, NULL, NULL), ==, 0);
}

/* ---- A failed clear ---- */

/* The driver says at Reclaim that it is in use, which says nothing of the write that failed before: nothing
 * is written by itself, neither when its owner leaves nor (@data) when it left before. */
static void
test_failed_stays_failed(Fixture *fixture, gconstpointer data)
{
    Client *owner = client_new(fixture->host, 0);
    g_autofree char *marker = assign_on_other(owner);
    g_autofree char *id = client_must_assign(owner, "L40S-2Q", "{'device': <'" VF "'>}", NULL);
    g_autofree char *next = NULL;
    g_autoptr(GError) error = NULL;

    bed_fail(fixture->bed, VF, BED_CLEAR, EIO, 1);
    g_assert_false(client_release(owner, id, &error));
    assert_error(error, "DeviceFailed");
    g_clear_error(&error);
    if (data)
        leave(fixture, owner, marker);
    bed_fail(fixture->bed, VF, BED_CLEAR, EPERM, 1);
    g_assert_false(reclaim(fixture, VF, &error));
    assert_error(error, "InUse");
    g_clear_error(&error);
    g_assert_true(client_state_is(fixture->client, id, "failed"));
    if (!data)
        leave(fixture, owner, marker);
    /* A whole assignment on the same card comes and goes. */
    next = client_must_assign(fixture->client, "L40S-2Q", "{'device': <'" NEXT "'>}", NULL);
    g_assert_true(client_release(fixture->client, next, NULL));
    g_assert_cmpuint(clears(fixture), ==, 2);
    g_assert_true(client_state_is(fixture->client, id, "failed"));
    g_assert_true(reclaim(fixture, VF, &error));
    g_assert_no_error(error);
    g_assert_cmpuint(clears(fixture), ==, 3);
    g_assert_true(all_is_given_back(fixture));
}

/* ---- Descriptors ---- */

static void
limit_descriptors(Fixture *fixture, guint most)
{
    struct rlimit limit = {most, 4096};

    g_assert_cmpint(prlimit(host_pid(fixture->host), RLIMIT_NOFILE, &limit, NULL), ==, 0);
}

/* However few are left, what cannot be looked at is not lost. Reclaim of what is not set looks at everything
 * anew, and what that look found lost has ended when the next one is answered. */
static void
test_few_descriptors(Fixture *fixture, gconstpointer data)
{
    g_autofree char *mdev = client_must_assign(fixture->client, "T4-2Q", NULL, NULL);
    g_autofree char *vf = client_must_assign(fixture->client, "L40S-2Q", "{'device': <'" VF "'>}", NULL);
    guint base = host_fds(fixture->host);

    for (guint most = base - 8; most < base + 6; most++) {
        g_autofree char *mdevs = NULL;
        g_autofree char *vfs = NULL;

        g_test_message("%u descriptors, %u in use at rest", most, base);
        limit_descriptors(fixture, most);
        bed_uevent(fixture->bed, T4, "change");
        for (guint i = 0; i < 3; i++) {
            g_autoptr(GError) error = NULL;

            g_assert_false(reclaim(fixture, NEXT, &error));
        }
        mdevs = client_removals(fixture->client, mdev);
        vfs = client_removals(fixture->client, vf);
        g_assert_cmpstr(mdevs, ==, "");
        g_assert_cmpstr(vfs, ==, "");
    }
    limit_descriptors(fixture, 1024);
    see_a_rescan(fixture);
    g_assert_true(client_state_is(fixture->client, mdev, "assigned"));
    g_assert_true(client_state_is(fixture->client, vf, "assigned"));
    g_assert_cmpuint(client_assignments(fixture->client), ==, 2);
}

/* A process that opens the node of the virtual function and shares it with @children of its own, which end
 * with it, or each when the pipe @end is opened and closed. It returns when all are there. */
static Process *
hold_with_children(Fixture *fixture, guint children, const char *end)
{
    g_autofree char *ready = host_file(fixture->host, "ready");
    g_autofree char *log = host_file(fixture->host, "holders.log");
    g_autofree char *node = bed_group_node(fixture->bed, VF);
    g_autofree char *real = bed_path(fixture->bed, node);
    g_autofree char *code = g_strdup_printf("import os, signal\n"
                                            "node = os.open('%s', os.O_RDWR)\n"
                                            "r, w = os.pipe()\n"
                                            "for i in range(%u):\n"
                                            "    if os.fork() == 0:\n"
                                            "        os.close(w)\n"
                                            "        os.read(os.open('%s', os.O_RDONLY) if '%s' else r, 1)\n"
                                            "        os._exit(0)\n"
                                            "open('%s', 'w').write('ready')\n"
                                            "signal.pause()\n",
                                            real, children, end ? end : "", end ? end : "", ready);
    Process *process =
        process_new(&(ProcessOptions){.argv = (const char *[]){"python3", "-c", code, NULL}, .log = log});

    wait_for_up_to(30, file_says(ready, "ready"));
    return process;
}

static guint
holders(Fixture *fixture, const char *id)
{
    g_autoptr(GVariant) row = client_assignment(fixture->client, id);
    g_autoptr(GVariant) list = g_variant_lookup_value(row, "Holders", G_VARIANT_TYPE("as"));

    return list ? (guint)g_variant_n_children(list) : 0;
}

/* Each of a user's processes that share the node would cost one, and what all others get is less. */
static void
test_many_holders(Fixture *fixture, gconstpointer data)
{
    g_autofree char *id = client_must_assign(fixture->client, "L40S-2Q", "{'device': <'" VF "'>}", NULL);
    guint before = host_fds(fixture->host);
    Process *process = hold_with_children(fixture, 60, NULL);
    g_autoptr(GError) error = NULL;

    g_assert_false(client_release(fixture->client, id, &error)); /* a look that finds them all */
    assert_error(error, "InUse");
    g_assert_cmpuint(host_fds(fixture->host), <=, before + 24);
    process_free(process);
    g_assert_true(bed_wait_free(fixture->bed, VF, 10));
    wait_for(client_state_is(fixture->client, id, "assigned"));
    g_assert_true(client_release(fixture->client, id, NULL));
}

/* Two have it open through one descriptor, and one of them ends. */
static void
test_one_of_two_holders_ends(Fixture *fixture, gconstpointer data)
{
    g_autofree char *id = client_must_assign(fixture->client, "L40S-2Q", "{'device': <'" VF "'>}", NULL);
    g_autofree char *end = host_file(fixture->host, "end");
    g_autofree char *children = NULL;
    g_autoptr(GError) error = NULL;
    Process *process;
    int fd = -1;

    g_assert_cmpint(mkfifo(end, 0600), ==, 0);
    process = hold_with_children(fixture, 1, end);
    g_assert_false(client_release(fixture->client, id, &error)); /* a look that finds both */
    assert_error(error, "InUse");
    g_clear_error(&error);
    g_assert_cmpuint(holders(fixture, id), ==, 2);
    children = g_strdup_printf("/proc/%d/task/%d/children", process_pid(process), process_pid(process));
    wait_for((fd = open(end, O_WRONLY | O_NONBLOCK | O_CLOEXEC)) >= 0);
    close(fd);
    /* Not reaped by its parent, but dead. */
    {
        g_autofree char *child = NULL;
        g_autofree char *status = NULL;

        g_assert_true(g_file_get_contents(children, &child, NULL, NULL));
        status = g_strdup_printf("/proc/%s/status", g_strstrip(child));
        wait_for(file_says(status, "State:\tZ"));
    }
    come_round(fixture);
    g_assert_true(client_state_is(fixture->client, id, "in-use"));
    g_assert_false(client_release(fixture->client, id, &error));
    assert_error(error, "InUse");
    come_round(fixture);
    g_assert_true(client_state_is(fixture->client, id, "in-use"));
    process_free(process);
    wait_for(client_state_is(fixture->client, id, "assigned"));
}

/* ---- What cannot be recorded ---- */

/* Set, and then the disk is gone: the caller is told so, and has nothing. */
static void
test_error_and_no_access(Fixture *fixture, gconstpointer data)
{
    g_autoptr(Client) user = client_new(fixture->host, NOBODY);
    g_autoptr(GVariant) reply = NULL;
    g_autoptr(GError) error = NULL;
    Pending *pending;

    host_polkit(fixture->host, POLKIT_YES);
    bed_stall_after(fixture->bed, VF, BED_SET);
    pending = client_start(user, "Assign", g_variant_new_parsed("('L40S-2Q', {'device': <'" VF "'>})"));
    wait_for(bed_stalled(fixture->bed, VF) == 1);
    host_hide_directory(fixture->host, TRUE);
    bed_resume(fixture->bed, VF);
    reply = client_finish(pending, &error);
    g_assert_null(reply);
    g_assert_nonnull(error);
    g_assert_cmpuint(client_assignments(fixture->client), ==, 0);
    g_assert_false(bed_user_can_open(fixture->bed, VF, NOBODY));
    host_hide_directory(fixture->host, FALSE);
    wait_for_up_to(40, all_is_given_back(fixture));
}

/* The caller left and its set cannot be taken back yet, as that could not be recorded. Somebody opens it. */
static void
test_open_while_assigning(Fixture *fixture, gconstpointer data)
{
    Client *owner = client_new(fixture->host, 0);
    g_autofree char *marker = assign_on_other(owner);
    g_autoptr(GVariant) reply = NULL;
    Pending *pending;
    BedHolder *vm = NULL;

    bed_stall_after(fixture->bed, VF, BED_SET);
    pending = client_start(owner, "Assign", g_variant_new_parsed("('L40S-2Q', {'device': <'" VF "'>})"));
    wait_for(bed_stalled(fixture->bed, VF) == 1);
    leave(fixture, owner, marker);
    host_hide_directory(fixture->host, TRUE);
    bed_resume(fixture->bed, VF);
    reply = client_finish(pending, NULL);
    g_assert_null(reply);
    /* Between two tries of the service, which has it open for an instant, and waits longer after each. */
    g_assert_true(bed_trace_wait(fixture->bed, BED_TRACE_OPEN, VF, NULL, 6, 10));
    wait_for((vm = bed_hold_full(fixture->bed, VF, BED_HOLD_VM, NULL, 0, NULL)) != NULL);
    come_round(fixture);
    host_hide_directory(fixture->host, FALSE);
    bed_let_go(vm);
    wait_for_up_to(40, all_is_given_back(fixture));
}

/* Root's node is its own again, with the entries that root's VM manager makes there. */
static void
test_failed_adopt_of_roots(Fixture *fixture, gconstpointer data)
{
    g_autoptr(Client) user = client_new(fixture->host, NOBODY);
    g_autofree char *id = client_must_assign(fixture->client, "L40S-2Q", "{'device': <'" VF "'>}", NULL);
    g_autoptr(GVariant) reply = NULL;
    g_autoptr(GError) error = NULL;

    host_polkit(fixture->host, POLKIT_YES);
    host_hide_directory(fixture->host, TRUE);
    reply = client_call(user, "Adopt", g_variant_new("(s)", id), &error);
    g_assert_null(reply);
    assert_error(error, "DeviceFailed");
    host_hide_directory(fixture->host, FALSE);
    set_acl(fixture, "u::rw-,u:1:rw-,g::---,m::rw-,o::---");
    see_a_rescan(fixture);
    g_assert_true(bed_user_can_open(fixture->bed, VF, SOMEBODY));
}

/* Nothing has been written yet when its type cannot be read: it is tried again. */
static void
test_unreadable_before_its_clear(Fixture *fixture, gconstpointer data)
{
    g_autoptr(Client) second = client_new(fixture->host, 0);
    g_autofree char *id = client_must_assign(fixture->client, "L40S-2Q", "{'device': <'" VF "'>}", NULL);
    g_autofree char *behind = NULL;
    g_autoptr(GVariant) assigned = NULL;
    g_autoptr(GVariant) released = NULL;
    g_autoptr(GError) error = NULL;
    Pending *assign, *release;

    bed_stall(fixture->bed, NEXT, BED_SET);
    assign = client_start(second, "Assign", g_variant_new_parsed("('L40S-2Q', {'device': <'" NEXT "'>})"));
    wait_for(bed_stalled(fixture->bed, NEXT) == 1);
    release = client_start(fixture->client, "Release", g_variant_new("(s)", id));
    wait_for(is_recorded(fixture, "state=releasing"));
    bed_attribute_fails(fixture->bed, VF "/nvidia/current_vgpu_type", EIO);
    bed_resume(fixture->bed, NEXT);
    assigned = client_finish(assign, NULL);
    g_assert_nonnull(assigned);
    /* Its turn comes behind the first try. */
    behind = client_must_assign(second, "L40S-2Q", NULL, NULL);
    bed_attribute_fails(fixture->bed, VF "/nvidia/current_vgpu_type", 0);
    released = client_finish(release, &error);
    g_assert_no_error(error);
    g_assert_cmpuint(clears(fixture), ==, 1);
}

/* ---- Over a restart ---- */

/* The bus goes while a clear is under way, and its driver says that its plugin still exits. That is heard, so
 * the next start does not take it for the answer nobody heard. */
static void
test_bus_lost_during_a_clear(Fixture *fixture, gconstpointer data)
{
    g_autofree char *id = client_must_assign(fixture->client, "L40S-2Q", "{'device': <'" VF "'>}", NULL);
    g_autoptr(GVariant) reply = NULL;
    Pending *pending;

    bed_stall(fixture->bed, VF, BED_CLEAR);
    bed_fail(fixture->bed, VF, BED_CLEAR, EBUSY, 1);
    pending = client_start(fixture->client, "Release", g_variant_new("(s)", id));
    wait_for(bed_stalled(fixture->bed, VF) == 1);
    host_kill_bus(fixture->host);
    wait_for(was_logged(fixture, "the bus has gone while a write is under way"));
    bed_resume(fixture->bed, VF);
    g_assert_cmpint(host_wait(fixture->host), !=, 0);
    reply = client_finish(pending, NULL);
    g_assert_null(reply);
    client_free(fixture->client);
    host_start_bus(fixture->host);
    host_start(fixture->host, NULL);
    fixture->client = client_new(fixture->host, 0);
    wait_for(all_is_given_back(fixture));
}

/* Killed when the driver had cleared it, and before that was recorded. */
static void
test_mark_of_a_clear_goes(Fixture *fixture, gconstpointer data)
{
    g_autofree char *id = client_must_assign(fixture->client, "L40S-2Q", "{'device': <'" VF "'>}", NULL);
    g_autofree char *name = g_strconcat("clearing-", id, NULL);
    g_autofree char *mark = host_runtime_file(fixture->host, name);
    g_autoptr(GVariant) reply = NULL;
    Pending *pending;

    bed_stall_after(fixture->bed, VF, BED_CLEAR);
    pending = client_start(fixture->client, "Release", g_variant_new("(s)", id));
    wait_for(bed_stalled(fixture->bed, VF) == 1);
    g_assert_true(g_file_test(mark, G_FILE_TEST_EXISTS));
    kill(host_pid(fixture->host), SIGKILL);
    bed_resume(fixture->bed, VF);
    host_wait(fixture->host);
    reply = client_finish(pending, NULL);
    g_assert_null(reply);
    host_start(fixture->host, NULL);
    wait_for(all_is_given_back(fixture));
    wait_for(!g_file_test(mark, G_FILE_TEST_EXISTS));
}

static gboolean
device_state_is(Fixture *fixture, const char *device, const char *state)
{
    g_autoptr(GVariant) rows = client_get(fixture->client, "Assignments");
    g_autoptr(GVariant) row = row_find(rows, "Device", device);

    return strcmp(row ? row_string(row, "State") : "", state) == 0;
}

/* Killed when the user had got its access and no answer yet; it has opened the node, and leaves. */
static void
test_access_over_a_restart(Fixture *fixture, gconstpointer data)
{
    Client *user = client_new(fixture->host, NOBODY);
    g_autoptr(GVariant) reply = NULL;
    Pending *pending;
    BedHolder *vm;

    host_polkit(fixture->host, POLKIT_YES);
    bed_stall_after(fixture->bed, VF, BED_SET);
    pending = client_start(user, "Assign", g_variant_new_parsed("('L40S-2Q', {'device': <'" VF "'>})"));
    wait_for(bed_stalled(fixture->bed, VF) == 1);
    kill(host_pid(fixture->host), SIGKILL);
    bed_resume(fixture->bed, VF);
    g_assert_cmpint(host_wait(fixture->host), ==, 128 + SIGKILL);
    reply = client_finish(pending, NULL);
    g_assert_null(reply);
    set_acl(fixture, "u::rw-,u:65534:rw-,g::---,m::rw-,o::---");
    vm = bed_hold_full(fixture->bed, VF, BED_HOLD_VM, NULL, NOBODY, NULL);
    g_assert_nonnull(vm);
    client_free(user);
    host_start(fixture->host, NULL);
    see_a_rescan(fixture);
    g_assert_false(nobody_has_an_entry(fixture));
    wait_for(device_state_is(fixture, VF, "lingering"));
    g_assert_cmpuint(bed_vf_type(fixture->bed, VF), ==, 1148);
    bed_let_go(vm);
    wait_for_up_to(40, all_is_given_back(fixture));
}

/* Returns FALSE when the release went to its end before the step came. */
static gboolean
killed_after(Fixture *fixture, guint step)
{
    g_autofree char *arm = NULL;
    g_autofree char *id = NULL;
    gboolean killed;

    g_test_message("step %u", step);
    arm = host_start_armed(fixture->host, TEST_KILL_AFTER, step);
    id = client_must_assign(fixture->client, "L40S-2Q", "{'device': <'" VF "'>}", NULL);
    bed_trace_reset(fixture->bed);
    bed_fail(fixture->bed, VF, BED_CLEAR, EIO, 1);
    g_assert_true(g_file_set_contents(arm, "", 0, NULL));
    g_assert_false(client_release(fixture->client, id, NULL));
    killed = host_wait_briefly(fixture->host);
    g_unlink(arm); /* it is not to die of what follows */
    if (killed)
        host_start(fixture->host, NULL);
    /* Before the release had begun, nothing has happened. */
    wait_for(all_is_given_back(fixture) || client_state_is(fixture->client, id, "failed") ||
             (clears(fixture) == 0 && client_state_is(fixture->client, id, "assigned")));
    g_assert_cmpuint(clears(fixture), <=, 1);
    bed_no_more_faults(fixture->bed);
    if (client_state_is(fixture->client, id, "assigned"))
        g_assert_true(client_release(fixture->client, id, NULL));
    else if (bed_vf_type(fixture->bed, VF) != 0)
        g_assert_true(reclaim(fixture, VF, NULL));
    wait_for(all_is_given_back(fixture));
    g_assert_cmpint(host_stop(fixture->host, SIGTERM), ==, 0);
    return killed;
}

/* A clear that failed may have been done by half, and is not repeated: neither by the service that saw it nor
 * by the next one, at whatever step the first one was killed. */
static void
test_eio_and_kill(Fixture *fixture, gconstpointer data)
{
    guint step = 1;

    g_assert_cmpint(host_stop(fixture->host, SIGTERM), ==, 0);
    while (killed_after(fixture, step))
        step++;
    g_test_message("%u steps", step - 1);
    g_assert_cmpuint(step, >, 3);
    host_start(fixture->host, NULL);
}

#define ADD(path, data, test) g_test_add(path, Fixture, data, set_up, test, tear_down)

static int
run(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    ADD("/meanwhile/mdev/two-creates-on-one-card-lose-neither", NULL, test_two_creates);
    ADD("/meanwhile/set/caller-left-and-somebody-else-set-it", NULL, test_just_set);
    ADD("/meanwhile/set/on-another-card-than-was-chosen-is-not-done", NULL, test_other_card);
    ADD("/meanwhile/udev/an-old-groups-event-settles-nothing", NULL, test_group_number_reused);
    ADD("/meanwhile/access/of-what-is-somebody-elses-now-is-left", NULL, test_restore_over_foreign);
    ADD("/meanwhile/access/node-of-another-user-is-not-given-out", NULL, test_node_of_another);
    ADD("/meanwhile/adopt/is-asked-about-anew-when-it-waits", NULL, test_adopt_asks_anew);
    ADD("/meanwhile/adopt/of-what-was-lost-is-refused", NULL, test_adopt_of_what_was_lost);
    ADD("/meanwhile/state/adopt-that-cannot-be-recorded-is-refused", NULL, test_adopt_not_recorded);
    ADD("/meanwhile/dialog/another-profile-than-was-asked-about-is-refused", NULL, test_other_profile);
    ADD("/meanwhile/failed/stays-failed-when-the-driver-says-in-use/owner", NULL, test_failed_stays_failed);
    ADD("/meanwhile/failed/stays-failed-when-the-driver-says-in-use/orphan", "left",
        test_failed_stays_failed);
    ADD("/meanwhile/descriptors/none-left-loses-nothing", NULL, test_few_descriptors);
    ADD("/meanwhile/holders/many-processes-cost-few-descriptors", NULL, test_many_holders);
    ADD("/meanwhile/holders/one-of-two-ends-and-it-stays-in-use", NULL, test_one_of_two_holders_ends);
    ADD("/meanwhile/state/caller-gets-an-error-and-no-access", NULL, test_error_and_no_access);
    ADD("/meanwhile/open/while-its-set-could-not-be-recorded", NULL, test_open_while_assigning);
    ADD("/meanwhile/restart/access-does-not-outlive-its-owner", NULL, test_access_over_a_restart);
    ADD("/meanwhile/restart/eio-just-before-a-kill-is-not-written-again", NULL, test_eio_and_kill);
    ADD("/meanwhile/state/failed-adopt-leaves-roots-node-alone", NULL, test_failed_adopt_of_roots);
    ADD("/meanwhile/clear/unreadable-before-it-is-tried-again", NULL, test_unreadable_before_its_clear);
    ADD("/meanwhile/restart/bus-lost-during-a-clear-is-no-failure", NULL, test_bus_lost_during_a_clear);
    ADD("/meanwhile/restart/mark-of-a-clear-goes", NULL, test_mark_of_a_clear_goes);
    return g_test_run();
}

int
main(int argc, char **argv)
{
    return bed_main(argc, argv, run);
}
