/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The real polkitd, with the policy and the rules that are installed. */
#include "host.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#define CARD "0000:3b:00.0"
#define OTHER_CARD "0000:5e:00.0"
#define VF "0000:3b:00.4"
#define NEXT "0000:3b:00.5"
#define NOBODY 65534
#define MEMBER 1 /* called daemon */

/* What an administrator would write. */
#define RULE(condition, result)                                                                              \
    "polkit.addRule(function(action, subject) {\n"                                                           \
    "    if (" condition ")\n"                                                                               \
    "        return polkit.Result." result ";\n"                                                             \
    "    return polkit.Result.NOT_HANDLED;\n"                                                                \
    "});\n"
#define ASSIGN "action.id == 'org.hypeman.VGPU1.assign'"
#define MANAGE "action.id == 'org.hypeman.VGPU1.manage'"
#define USER " && subject.user == 'nobody'"

typedef struct {
    Host *host;
    Bed *bed;
    Client *root;
    Client *user;
} Fixture;

static void
set_up(Fixture *fixture, gconstpointer data)
{
    fixture->host = host_new(NULL);
    fixture->bed = host_bed(fixture->host);
    bed_add_card(fixture->bed, "l40s", CARD, 4);
    bed_add_card(fixture->bed, "l40s", OTHER_CARD, 4);
    host_start(fixture->host, NULL);
    fixture->root = client_new(fixture->host, 0);
    fixture->user = client_new(fixture->host, NOBODY);
}

static void
tear_down(Fixture *fixture, gconstpointer data)
{
    client_free(fixture->root);
    client_free(fixture->user);
    host_free(fixture->host);
}

static void
assert_refused(Client *client, const char *method, GVariant *arguments, gboolean interactive,
               const char *name)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(GVariant) reply = interactive ? client_call_interactive(client, method, arguments, &error)
                                            : client_call(client, method, arguments, &error);

    g_assert_null(reply);
    assert_error(error, name);
}

#define L40S_2Q g_variant_new_parsed("('L40S-2Q', @a{sv} {})")

static void
assert_untouched(Fixture *fixture)
{
    g_autoptr(GVariant) rows = client_get(fixture->root, "Assignments");

    g_assert_cmpuint(g_variant_n_children(rows), ==, 0);
    g_assert_cmpuint(bed_trace_count(fixture->bed, BED_TRACE_WRITE | BED_TRACE_OPEN, NULL, NULL), ==, 0);
}

static void
test_member(Fixture *fixture, gconstpointer data)
{
    g_autoptr(Client) member = client_new(fixture->host, MEMBER);
    g_autoptr(GError) error = NULL;
    g_autofree char *id = NULL;

    host_real_polkit(fixture->host, NULL, "daemon");
    id = client_must_assign(member, "L40S-2Q", NULL, NULL);
    assert_refused(fixture->user, "Assign", L40S_2Q, FALSE, "InteractiveAuthorizationRequired");
    g_assert_true(client_release(member, id, &error));
    g_assert_no_error(error);
}

static void
test_member_does_not_manage(Fixture *fixture, gconstpointer data)
{
    g_autoptr(Client) member = client_new(fixture->host, MEMBER);
    g_autofree char *id = NULL;

    host_real_polkit(fixture->host, NULL, "daemon");
    id = client_must_assign(fixture->root, "L40S-2Q", NULL, NULL);
    assert_refused(member, "Release", g_variant_new("(s)", id), FALSE, "InteractiveAuthorizationRequired");
    assert_refused(member, "Adopt", g_variant_new("(s)", id), FALSE, "InteractiveAuthorizationRequired");
    assert_refused(member, "Reclaim", g_variant_new("(s)", NEXT), FALSE, "InteractiveAuthorizationRequired");
}

static void
test_plain_user(Fixture *fixture, gconstpointer data)
{
    host_real_polkit(fixture->host, NULL, NULL);
    assert_refused(fixture->user, "Assign", L40S_2Q, FALSE, "InteractiveAuthorizationRequired");
    /* Nobody is there who could ask for the password. */
    assert_refused(fixture->user, "Assign", L40S_2Q, TRUE, "AccessDenied");
    assert_untouched(fixture);
}

static void
test_plain_user_leaves_no_reservation(Fixture *fixture, gconstpointer data)
{
    host_real_polkit(fixture->host, NULL, NULL);
    /* More than may be pending, more than a user may have, more than fit. */
    for (int i = 0; i < 10; i++)
        assert_refused(fixture->user, "Assign", L40S_2Q, TRUE, "AccessDenied");
    for (int i = 0; i < 8; i++)
        g_free(client_must_assign(fixture->root, "L40S-2Q", NULL, NULL));
}

/* Assign by the user, whom somebody can be asked about. */
static Pending *
ask_with_dialog(Fixture *fixture, Agent *agent)
{
    Pending *pending = client_start_interactive(fixture->user, "Assign", L40S_2Q);

    wait_for(agent_is_open(agent));
    return pending;
}

static void
assert_refused_with(Pending *pending, const char *words)
{
    g_autoptr(GError) error = NULL;

    g_assert_null(client_finish(pending, &error));
    assert_error(error, "AccessDenied");
    g_assert_nonnull(strstr(error->message, words));
}

static void
test_dialog_permits(Fixture *fixture, gconstpointer data)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(GVariant) reply = NULL;
    Pending *pending;
    Agent *agent;

    host_real_polkit(fixture->host, NULL, NULL);
    agent = agent_new(fixture->host);
    pending = ask_with_dialog(fixture, agent);
    agent_permit(agent);
    reply = client_finish(pending, &error);
    g_assert_no_error(error);
    agent_free(agent);
}

/* Each reason has its own sentence, none writes anything, and none is in the way of the next. */
static void
test_dialogs_without_permission(Fixture *fixture, gconstpointer data)
{
    Pending *first;
    Pending *second;
    Agent *agent;

    host_real_polkit(fixture->host, NULL, NULL);
    assert_refused_with(client_start_interactive(fixture->user, "Assign", L40S_2Q), "there is no agent");
    agent = agent_new(fixture->host);

    first = ask_with_dialog(fixture, agent);
    agent_end(agent, "Cancelled");
    assert_refused_with(first, "was dismissed");

    first = ask_with_dialog(fixture, agent);
    agent_end(agent, "Failed"); /* as after a wrong password, and when it has waited for too long */
    assert_refused_with(first, "no answer in time");

    first = ask_with_dialog(fixture, agent);
    second = client_start_interactive(fixture->user, "Assign", L40S_2Q);
    assert_refused_with(second, "another one of user 65534 was open");
    g_assert_cmpuint(agent_refused(agent), ==, 1);
    g_assert_false(pending_is_done(first));
    g_assert_true(agent_is_open(agent));
    assert_untouched(fixture);
    agent_permit(agent);
    {
        g_autoptr(GError) error = NULL;
        g_autoptr(GVariant) reply = client_finish(first, &error);

        g_assert_no_error(error);
        g_assert_nonnull(reply);
    }
    agent_free(agent);
}

/* A rule's no is told from a dialog's, with an agent there too. */
static void
test_rule_denies_without_a_dialog(Fixture *fixture, gconstpointer data)
{
    Agent *agent;

    host_real_polkit(fixture->host, RULE(ASSIGN USER, "NO"), NULL);
    agent = agent_new(fixture->host);
    assert_refused_with(client_start_interactive(fixture->user, "Assign", L40S_2Q),
                        "polkit does not allow this");
    g_assert_false(agent_is_open(agent));
    assert_untouched(fixture);
    agent_free(agent);
}

static void
test_root(Fixture *fixture, gconstpointer data)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(GVariant) reclaimed = NULL;
    g_autofree char *id = NULL;

    host_real_polkit(fixture->host, NULL, NULL);
    id = client_must_assign(fixture->root, "L40S-2Q", NULL, NULL);
    g_assert_cmpint(bed_set_by_hand(fixture->bed, NEXT, 1148), ==, 0);
    reclaimed = client_call(fixture->root, "Reclaim", g_variant_new("(s)", NEXT), &error);
    g_assert_no_error(error);
    g_assert_cmpuint(bed_vf_type(fixture->bed, NEXT), ==, 0);
}

/* @data: the service is killed while the user has its device. */
static void
test_rule_allows(Fixture *fixture, gconstpointer data)
{
    g_autofree char *id = NULL;

    host_real_polkit(fixture->host, RULE(ASSIGN USER, "YES"), NULL);
    g_assert_false(bed_user_can_open(fixture->bed, VF, NOBODY));
    id = client_must_assign(fixture->user, "L40S-2Q", "{'device': <'" VF "'>}", NULL);
    g_assert_true(bed_user_can_open(fixture->bed, VF, NOBODY));
    g_assert_false(bed_user_can_open(fixture->bed, VF, MEMBER));
    g_assert_false(bed_user_can_open(fixture->bed, NEXT, NOBODY));
    if (data) {
        g_assert_cmpint(host_stop(fixture->host, SIGKILL), ==, 128 + SIGKILL);
        host_start(fixture->host, NULL);
        g_assert_true(bed_user_can_open(fixture->bed, VF, NOBODY));
    }
    wait_for(client_release(fixture->user, id, NULL));
    g_assert_cmpuint(bed_vf_type(fixture->bed, VF), ==, 0);
    g_assert_false(bed_user_can_open(fixture->bed, VF, NOBODY));
    g_assert_false(bed_user_can_open(fixture->bed, VF, MEMBER));
}

static void
test_rule_denies(Fixture *fixture, gconstpointer data)
{
    host_real_polkit(fixture->host, RULE(ASSIGN USER, "NO"), NULL);
    assert_refused(fixture->user, "Assign", L40S_2Q, FALSE, "AccessDenied");
    assert_refused(fixture->user, "Assign", L40S_2Q, TRUE, "AccessDenied");
    assert_untouched(fixture);
}

static void
test_rule_sees_details(Fixture *fixture, gconstpointer data)
{
    g_autoptr(GVariant) row = NULL;
    g_autofree char *id = NULL;

    host_real_polkit(fixture->host,
                     RULE("action.lookup('gpu') == '" OTHER_CARD
                          "' && action.lookup('profile') == 'NVIDIA L40S-2Q'",
                          "YES"),
                     NULL);
    assert_refused(fixture->user, "Assign", L40S_2Q, FALSE, "InteractiveAuthorizationRequired");
    assert_refused(fixture->user, "Assign", g_variant_new_parsed("('L40S-4Q', {'gpu': <'5e:00.0'>})"), FALSE,
                   "InteractiveAuthorizationRequired");
    id = client_must_assign(fixture->user, "L40S-2Q", "{'gpu': <'5e:00.0'>}", &row);
    g_assert_cmpstr(row_string(row, "GPU"), ==, OTHER_CARD);
}

static void
test_manage(Fixture *fixture, gconstpointer data)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *id = NULL;
    guint opened;

    host_real_polkit(fixture->host, RULE(MANAGE USER, "YES"), NULL);
    id = client_must_assign(fixture->root, "L40S-2Q", "{'device': <'" VF "'>}", NULL);
    opened = bed_trace_count(fixture->bed, BED_TRACE_OPEN, VF, NULL);
    {
        g_autoptr(Client) other = client_new(fixture->host, MEMBER);

        assert_refused(other, "Release", g_variant_new("(s)", id), FALSE, "InteractiveAuthorizationRequired");
    }
    g_assert_cmpuint(bed_trace_count(fixture->bed, BED_TRACE_OPEN, VF, NULL), ==, opened);
    g_assert_true(client_release(fixture->user, id, &error));
    g_assert_no_error(error);
    g_assert_cmpuint(bed_vf_type(fixture->bed, VF), ==, 0);
}

#define ADD(path, data, test) g_test_add(path, Fixture, data, set_up, test, tear_down)

static int
run(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    ADD("/polkit/member-of-vgpu/assigns-without-a-password", NULL, test_member);
    ADD("/polkit/member-of-vgpu/does-not-manage", NULL, test_member_does_not_manage);
    ADD("/polkit/plain-user/needs-a-password", NULL, test_plain_user);
    ADD("/polkit/plain-user/leaves-no-reservation", NULL, test_plain_user_leaves_no_reservation);
    ADD("/polkit/dialog/gives-permission", NULL, test_dialog_permits);
    ADD("/polkit/dialog/each-end-has-its-own-error", NULL, test_dialogs_without_permission);
    ADD("/polkit/dialog/none-where-a-rule-denies", NULL, test_rule_denies_without_a_dialog);
    ADD("/polkit/root/passes", NULL, test_root);
    ADD("/polkit/rule/lets-a-user-open-its-node-and-no-other", NULL, test_rule_allows);
    ADD("/polkit/rule/holds-when-the-service-is-killed", "kill", test_rule_allows);
    ADD("/polkit/rule/denies", NULL, test_rule_denies);
    ADD("/polkit/rule/sees-profile-and-gpu", NULL, test_rule_sees_details);
    ADD("/polkit/rule/manage-releases-for-others", NULL, test_manage);
    return g_test_run();
}

int
main(int argc, char **argv)
{
    return bed_main(argc, argv, run);
}
