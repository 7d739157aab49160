/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The service under valgrind: taking, giving back, being abused. */
#include "attacker.h"

#include <signal.h>
#include <string.h>

#define CARD "0000:3b:00.0"
#define VF "0000:3b:00.4"
#define T4 "0000:65:00.0"
#define NOBODY 65534
#define STORM 300

/* Waits for its end. Valgrind begins each of its lines with the process, and is silent when all was well. */
static void
check_ended_well(Host *host)
{
    g_autofree char *mark = g_strdup_printf("==%d==", host_pid(host));
    g_autofree char *log = NULL;

    g_assert_cmpint(host_wait(host), ==, 0);
    log = host_log(host);
    if (strstr(log, mark))
        g_error("valgrind has found something:\n%s", strstr(log, mark));
}

static void
test_story(void)
{
    static const char *const truths[] = {CARD, VF, T4, "L40S-2Q", "GRID T4-2Q", NULL};
    g_autoptr(Host) host = host_new(NULL);
    Bed *bed = host_bed(host);
    g_autoptr(Client) client = NULL;
    g_autoptr(Client) user = NULL;
    g_autoptr(Attacker) attacker = NULL;
    g_autoptr(GError) error = NULL;
    g_autoptr(GVariant) plan = NULL;
    g_autoptr(GVariant) adopted = NULL;
    g_autofree char *mine = NULL;
    g_autofree char *mdev = NULL;
    g_autofree char *users = NULL;
    g_autofree char *state = NULL;

    bed_add_card(bed, "l40s", CARD, 4);
    bed_add_card(bed, "t4", T4, 0);
    host_start(host, NULL);
    client = client_new(host, 0);
    user = client_new(host, NOBODY);
    host_polkit(host, POLKIT_YES);
    client_listen(client);

    /* Taken, given back; kept over the end of its owner while it is open; adopted. */
    mine = client_must_assign(client, "L40S-2Q", "{'label': <'x'>, 'device': <'0000:3b:00.4'>}", NULL);
    mdev = client_must_assign(client, "T4-2Q", NULL, NULL);
    users = client_must_assign(user, "L40S-2Q", NULL, NULL);
    plan = client_call(client, "Plan", g_variant_new_parsed("('L40S-2Q', @a{sv} {})"), &error);
    g_assert_no_error(error);
    g_assert_true(client_release(client, mdev, &error));
    g_assert_no_error(error);
    adopted = client_call(client, "Adopt", g_variant_new("(s)", users), &error);
    g_assert_no_error(error);
    {
        BedHolder *holder = bed_hold(bed, VF);

        g_assert_false(client_release(client, mine, &error));
        assert_error(error, "InUse");
        g_clear_error(&error);
        bed_let_go(holder);
    }
    g_assert_true(client_release(client, mine, &error));
    g_assert_no_error(error);

    /* Refused, cancelled, abused. */
    host_polkit(host, POLKIT_HANG);
    attacker = attacker_new(host, NOBODY, truths);
    attacker_ask(attacker);
    wait_for(polkit_open(host) == 1);
    g_clear_pointer(&attacker, attacker_free);
    wait_for(polkit_cancelled(host) == 1);
    host_polkit(host, POLKIT_NO);
    attacker = attacker_new(host, NOBODY, truths);
    attacker_storm(attacker, STORM, 50);
    attacker_finish(attacker);
    g_clear_pointer(&attacker, attacker_free);

    /* A card that goes, a driver that fails, an owner that goes. */
    host_polkit(host, POLKIT_YES);
    bed_fail(bed, CARD, BED_SET, 5, BED_ALWAYS);
    g_assert_null(client_assign(client, "L40S-2Q", NULL, NULL, &error));
    g_assert_nonnull(error);
    bed_no_more_faults(bed);
    bed_remove_card(bed, T4);
    g_clear_pointer(&client, client_free);
    wait_for(bed_vfs_set(bed, NULL) == 0);
    g_clear_pointer(&user, client_free);
    kill(host_pid(host), SIGTERM);
    check_ended_well(host);
}

/* Ended while calls wait for polkit, for the bus, and to be read. */
static void
test_stop_in_the_middle(void)
{
    static const char *const truths[] = {CARD, VF, "L40S-2Q", NULL};
    g_autoptr(Host) host = host_new(NULL);
    g_autoptr(Attacker) attacker = NULL;

    bed_add_card(host_bed(host), "l40s", CARD, 4);
    host_start(host, NULL);
    host_polkit(host, POLKIT_HANG);
    attacker = attacker_new(host, NOBODY, truths);
    attacker_ask(attacker);
    attacker_ask(attacker);
    wait_for(polkit_open(host) == 2);
    kill(host_pid(host), SIGSTOP);
    attacker_burst(attacker, 100);
    kill(host_pid(host), SIGTERM);
    kill(host_pid(host), SIGCONT);
    check_ended_well(host);
}

static int
run(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/valgrind/short-life/no-error-and-no-leak", test_story);
    g_test_add_func("/valgrind/stop/in-the-middle-of-calls", test_stop_in_the_middle);
    return g_test_run();
}

int
main(int argc, char **argv)
{
    return bed_main(argc, argv, run);
}
