/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "nvml.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* This process is its own child: see main(). The library that the child finds is a link in a folder of the
 * fixture; what the library does is in the environment (fake-nvml.c). */

#define L40S "0000:3b:00.0"
#define A40 "0000:86:00.0"
#define H200X "10000:01:00.0"

static guint
slow(void)
{
    const char *factor = g_getenv("VGPU_TEST_SLOW");

    return factor ? MAX(1, (guint)atoi(factor)) : 1;
}

/* Long enough never to pass where it should not. */
static guint
generous_ms(void)
{
    return 30000 * slow();
}

typedef struct {
    char *folder;
    char *library;
    char *pid_file;
} Fixture;

static char *
data_file(const char *name)
{
    return g_test_build_filename(G_TEST_DIST, "data", name, NULL);
}

/* Makes @built (a file name in the build folder) the library; NULL: there is none. */
static void
install_library(Fixture *fixture, const char *built)
{
    g_unlink(fixture->library);
    if (!built)
        return;
    g_autofree char *path = g_test_build_filename(G_TEST_BUILT, built, NULL);
    g_autofree char *absolute = g_canonicalize_filename(path, NULL);
    g_assert_true(g_file_test(absolute, G_FILE_TEST_EXISTS));
    g_assert_cmpint(symlink(absolute, fixture->library), ==, 0);
}

static void
set_up(Fixture *fixture, gconstpointer mode)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *l40s = data_file("l40s-r550.types.tsv");
    g_autofree char *a40 = data_file("a40-r550.types.tsv");
    g_autofree char *h200x = data_file("h200x.mig.tsv");
    g_autofree char *cards = g_strdup_printf(
        L40S "=NVIDIA L40S=%s;" A40 "=NVIDIA A40=%s;" H200X "=NVIDIA H200X=%s", l40s, a40, h200x);

    fixture->folder = g_dir_make_tmp("fake-nvml-XXXXXX", &error);
    g_assert_no_error(error);
    fixture->library = g_build_filename(fixture->folder, "libnvidia-ml.so.1", NULL);
    fixture->pid_file = g_build_filename(fixture->folder, "pid", NULL);
    install_library(fixture, "libfake-nvml.so");
    g_setenv("LD_LIBRARY_PATH", fixture->folder, TRUE);
    g_setenv("FAKE_NVML_CARDS", cards, TRUE);
    g_setenv("FAKE_NVML_PID_FILE", fixture->pid_file, TRUE);
    g_setenv("FAKE_NVML_MODE", mode ? mode : "", TRUE);
}

static void
tear_down(Fixture *fixture, gconstpointer mode)
{
    g_autofree char *unfinished = g_strconcat(fixture->pid_file, ".unfinished", NULL);

    g_unlink(fixture->library);
    g_unlink(fixture->pid_file);
    g_unlink(unfinished); /* of a child that was killed early */
    g_assert_cmpint(g_rmdir(fixture->folder), ==, 0);
    g_free(fixture->library);
    g_free(fixture->pid_file);
    g_free(fixture->folder);
}

/* ---- asking ---- */

typedef struct {
    gboolean done;
    GPtrArray *cards;
    GError *error;
    guint calls;
} Reply;

static void
replied(GObject *object, GAsyncResult *result, gpointer user_data)
{
    Reply *reply = user_data;

    reply->cards = vgpu_nvml_query_finish(result, &reply->error);
    g_assert_true((reply->cards == NULL) == (reply->error != NULL));
    reply->done = TRUE;
    reply->calls++;
}

static gboolean
set_true(gpointer data)
{
    *(gboolean *)data = TRUE;
    return G_SOURCE_REMOVE;
}

/* Runs the main loop until @condition(@data), or fails. */
static void
wait_until(gboolean (*condition)(gpointer data), gpointer data)
{
    gboolean late = FALSE, tick;
    guint timeout = g_timeout_add(2 * generous_ms(), set_true, &late);

    while (!condition(data)) {
        g_assert_false(late);
        tick = FALSE;
        guint tick_source = g_timeout_add(2, set_true, &tick);
        g_main_context_iteration(NULL, TRUE);
        if (!tick)
            g_source_remove(tick_source);
    }
    g_source_remove(timeout);
}

static gboolean
has_reply(gpointer data)
{
    return ((Reply *)data)->done;
}

static void
reply_clear(Reply *reply)
{
    g_clear_pointer(&reply->cards, g_ptr_array_unref);
    g_clear_error(&reply->error);
    reply->done = FALSE;
}

static void
ask_within(const char *const *addresses, guint deadline_ms, Reply *reply)
{
    *reply = (Reply){0};
    vgpu_nvml_query_async(addresses, deadline_ms, NULL, replied, reply);
    g_assert_false(reply->done);
    wait_until(has_reply, reply);
}

static void
ask(const char *const *addresses, Reply *reply)
{
    ask_within(addresses, generous_ms(), reply);
}

static void
ask_for(const char *address, Reply *reply)
{
    const char *const addresses[] = {address, NULL};

    ask(addresses, reply);
}

static const VgpuNvmlCard *
card_at(const Reply *reply, guint i)
{
    g_assert_no_error(reply->error);
    g_assert_cmpuint(i, <, reply->cards->len);
    return g_ptr_array_index(reply->cards, i);
}

static gboolean
pid_is_known(gpointer data)
{
    return g_file_test(((Fixture *)data)->pid_file, G_FILE_TEST_EXISTS);
}

static pid_t
child_pid(Fixture *fixture)
{
    g_autofree char *text = NULL;

    g_assert_true(g_file_get_contents(fixture->pid_file, &text, NULL, NULL));
    g_assert_cmpint(atoi(text), >, 1);
    return (pid_t)atoi(text);
}

/* Not even a zombie of it is left. */
static gboolean
child_is_gone(gpointer data)
{
    return kill(child_pid(data), 0) < 0 && errno == ESRCH;
}

/* ---- what it knows ---- */

/* All rows of @file, a table of types, are on @card with all that the table has, and nothing else. */
static void
assert_card_has_table(const VgpuNvmlCard *card, const char *file)
{
    g_autofree char *path = data_file(file);
    g_autofree char *text = NULL;
    guint rows = 0;

    g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
    g_auto(GStrv) table = g_strsplit(text, "\n", -1);
    for (char **row = table; *row; row++) {
        g_auto(GStrv) columns = g_strsplit(*row, "\t", -1);
        if (!**row || **row == '#')
            continue;
        const VgpuNvmlType *type = vgpu_nvml_card_find_type(card, (guint32)strtoul(columns[0], NULL, 10));
        g_assert_nonnull(type);
        g_assert_cmpstr(type->name, ==, columns[1]);
        if (g_strv_length(columns) == 9) {
            g_assert_cmpuint(type->framebuffer_mib, ==, strtoull(columns[3], NULL, 10));
            g_assert_cmpuint(type->max_instances, ==, strtoul(columns[8], NULL, 10));
        } else {
            g_assert_cmpuint(type->framebuffer_mib, ==, 0);
            g_assert_cmpuint(type->max_instances, ==, 0);
        }
        rows++;
    }
    g_assert_cmpuint(rows, >, 5);
    g_assert_cmpuint(card->types->len, ==, rows);
}

static void
test_every_type(Fixture *fixture, gconstpointer data)
{
    /* Spelled as anybody may, one of them twice. */
    const char *const addresses[] = {"3b:00.0", "00000000:86:00.0", "0000:3B:00.0", H200X, NULL};
    Reply reply;

    ask(addresses, &reply);
    g_assert_no_error(reply.error);
    g_assert_cmpuint(reply.cards->len, ==, 3);
    g_assert_cmpstr(card_at(&reply, 0)->address, ==, L40S);
    g_assert_cmpstr(card_at(&reply, 0)->name, ==, "NVIDIA L40S");
    assert_card_has_table(card_at(&reply, 0), "l40s-r550.types.tsv");
    g_assert_cmpstr(card_at(&reply, 1)->address, ==, A40);
    g_assert_cmpstr(card_at(&reply, 1)->name, ==, "NVIDIA A40");
    assert_card_has_table(card_at(&reply, 1), "a40-r550.types.tsv");
    g_assert_cmpstr(card_at(&reply, 2)->address, ==, H200X);
    assert_card_has_table(card_at(&reply, 2), "h200x.mig.tsv");
    g_assert_null(vgpu_nvml_card_find_type(card_at(&reply, 0), 555));
    g_assert_null(vgpu_nvml_card_find_type(card_at(&reply, 0), 0));
    reply_clear(&reply);
    wait_until(child_is_gone, fixture);
}

static void
test_unknown_card(Fixture *fixture, gconstpointer data)
{
    const char *const addresses[] = {"0000:01:00.0", A40, NULL};
    Reply reply;

    ask(addresses, &reply);
    g_assert_cmpstr(card_at(&reply, 0)->address, ==, A40);
    g_assert_cmpuint(reply.cards->len, ==, 1);
    reply_clear(&reply);

    ask_for("0000:01:00.0", &reply);
    g_assert_no_error(reply.error);
    g_assert_cmpuint(reply.cards->len, ==, 0);
    reply_clear(&reply);
}

static void
test_lost_card(Fixture *fixture, gconstpointer data)
{
    const char *const addresses[] = {L40S, A40, NULL};
    Reply reply;

    ask(addresses, &reply);
    g_assert_cmpstr(card_at(&reply, 0)->address, ==, A40);
    g_assert_cmpuint(reply.cards->len, ==, 1);
    assert_card_has_table(card_at(&reply, 0), "a40-r550.types.tsv");
    reply_clear(&reply);
}

static void
test_no_vgpus(Fixture *fixture, gconstpointer data)
{
    Reply reply;

    ask_for(L40S, &reply);
    g_assert_no_error(reply.error);
    g_assert_cmpuint(reply.cards->len, ==, 0);
    reply_clear(&reply);
}

static void
test_growing_list(Fixture *fixture, gconstpointer data)
{
    Reply reply;

    ask_for(L40S, &reply);
    assert_card_has_table(card_at(&reply, 0), "l40s-r550.types.tsv");
    reply_clear(&reply);
}

static void
test_old_library(Fixture *fixture, gconstpointer data)
{
    Reply reply;

    install_library(fixture, "libfake-nvml-old.so");
    ask_for(L40S, &reply);
    const VgpuNvmlCard *card = card_at(&reply, 0);
    const VgpuNvmlType *type = vgpu_nvml_card_find_type(card, 1148);
    g_assert_cmpstr(card->name, ==, NULL);
    g_assert_cmpstr(type->name, ==, "NVIDIA L40S-2Q");
    g_assert_cmpuint(type->framebuffer_mib, ==, 0);
    g_assert_cmpuint(type->max_instances, ==, 0);
    reply_clear(&reply);
}

static void
test_no_type_names(Fixture *fixture, gconstpointer data)
{
    Reply reply;

    ask_for(L40S, &reply);
    const VgpuNvmlType *type = vgpu_nvml_card_find_type(card_at(&reply, 0), 1148);
    g_assert_cmpstr(type->name, ==, NULL);
    g_assert_cmpuint(type->framebuffer_mib, ==, 2048);
    reply_clear(&reply);
}

/* ---- what can go wrong ---- */

static void
assert_fails(const char *address, int code, const char *message_part)
{
    Reply reply;

    ask_for(address, &reply);
    g_assert_error(reply.error, G_IO_ERROR, code);
    g_test_message("%s", reply.error->message);
    g_assert_nonnull(strstr(reply.error->message, message_part));
    reply_clear(&reply);
}

/* The next question is answered, whatever became of the one before. */
static void
assert_recovers(Fixture *fixture)
{
    Reply reply;

    install_library(fixture, "libfake-nvml.so");
    g_setenv("FAKE_NVML_MODE", "", TRUE);
    ask_for(L40S, &reply);
    assert_card_has_table(card_at(&reply, 0), "l40s-r550.types.tsv");
    reply_clear(&reply);
}

static void
test_absent(Fixture *fixture, gconstpointer data)
{
    g_autofree char *text = g_strdup("not a library\n");

    /* On a host that has the true library an empty folder does not hide it; a file that is none does. */
    install_library(fixture, NULL);
    void *real = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (real)
        dlclose(real);
    else
        assert_fails(L40S, G_IO_ERROR_NOT_FOUND, "libnvidia-ml.so.1");
    g_assert_true(g_file_set_contents(fixture->library, text, -1, NULL));
    assert_fails(L40S, G_IO_ERROR_NOT_FOUND, "libnvidia-ml.so.1");
    assert_recovers(fixture);
}

static void
test_missing_symbol(Fixture *fixture, gconstpointer data)
{
    install_library(fixture, "libfake-nvml-broken.so");
    assert_fails(L40S, G_IO_ERROR_NOT_SUPPORTED, "nvmlVgpuTypeGetName");
    assert_recovers(fixture);
}

static void
test_driver_not_loaded(Fixture *fixture, gconstpointer data)
{
    assert_fails(L40S, G_IO_ERROR_NOT_CONNECTED, "NVML error 9: Driver Not Loaded");
    install_library(fixture, "libfake-nvml-old.so");
    assert_fails(L40S, G_IO_ERROR_NOT_CONNECTED, "NVML error 9");
    assert_recovers(fixture);
}

static void
test_crash(Fixture *fixture, gconstpointer data)
{
    assert_fails(L40S, G_IO_ERROR_FAILED, "died of signal");
    assert_recovers(fixture);
}

static void
test_silent_exit(Fixture *fixture, gconstpointer data)
{
    assert_fails(L40S, G_IO_ERROR_INVALID_DATA, "damaged");
    assert_recovers(fixture);
}

static void
test_hang(Fixture *fixture, gconstpointer data)
{
    const char *const addresses[] = {L40S, NULL};
    Reply reply;

    /* On a busy machine the child may not even have come as far as to hang: then it gets more time. */
    for (guint deadline_ms = 500; !pid_is_known(fixture); deadline_ms *= 2) {
        g_assert_cmpuint(deadline_ms, <, generous_ms());
        gint64 start = g_get_monotonic_time();
        ask_within(addresses, deadline_ms, &reply);
        gint64 took_ms = (g_get_monotonic_time() - start) / 1000;
        g_assert_error(reply.error, G_IO_ERROR, G_IO_ERROR_TIMED_OUT);
        g_assert_cmpint(took_ms, >=, deadline_ms);
        g_assert_cmpint(took_ms, <, deadline_ms + generous_ms());
        reply_clear(&reply);
    }
    wait_until(child_is_gone, fixture);
    assert_recovers(fixture);
}

/* All was said before the library hung or crashed: it counts. */
static void
test_late_trouble(Fixture *fixture, gconstpointer data)
{
    const char *const addresses[] = {L40S, NULL};
    guint deadline_ms = 500;
    Reply reply;

    /* As above: a child that has not said all by then gets more time. */
    ask_within(addresses, deadline_ms, &reply);
    while (g_error_matches(reply.error, G_IO_ERROR, G_IO_ERROR_TIMED_OUT) && deadline_ms < generous_ms()) {
        reply_clear(&reply);
        deadline_ms *= 2;
        ask_within(addresses, deadline_ms, &reply);
    }
    assert_card_has_table(card_at(&reply, 0), "l40s-r550.types.tsv");
    reply_clear(&reply);
    wait_until(child_is_gone, fixture);
}

static void
test_noise(Fixture *fixture, gconstpointer data)
{
    Reply reply;

    ask_for(L40S, &reply);
    g_assert_cmpuint(reply.cards->len, ==, 1);
    assert_card_has_table(card_at(&reply, 0), "l40s-r550.types.tsv");
    reply_clear(&reply);
}

static void
test_dirty_names(Fixture *fixture, gconstpointer data)
{
    const char *const addresses[] = {L40S, A40, NULL};
    Reply reply;

    ask(addresses, &reply);
    g_assert_cmpuint(reply.cards->len, ==, 2);
    for (guint i = 0; i < 2; i++) {
        const VgpuNvmlCard *card = card_at(&reply, i);
        const VgpuNvmlType *type = g_ptr_array_index(card->types, 0);
        g_autofree char *expected = g_strdup_printf("A end card  [31m\xef\xbf\xbd%u", type->id);
        g_assert_cmpuint(card->types->len, ==, 22);
        g_assert_cmpstr(card->name, ==, "A end card  [31m\xef\xbf\xbd");
        g_assert_cmpstr(type->name, ==, expected);
    }
    reply_clear(&reply);
}

static void
test_unterminated_names(Fixture *fixture, gconstpointer data)
{
    Reply reply;

    ask_for(L40S, &reply);
    const VgpuNvmlCard *card = card_at(&reply, 0);
    const VgpuNvmlType *type = g_ptr_array_index(card->types, 0);
    g_autofree char *card_name = g_strnfill(96, 'N');
    g_autofree char *type_name = g_strnfill(64, 'N');
    g_assert_cmpstr(card->name, ==, card_name);
    g_assert_cmpstr(type->name, ==, type_name);
    reply_clear(&reply);
}

static void
test_senseless_ids(Fixture *fixture, gconstpointer data)
{
    assert_fails(L40S, G_IO_ERROR_INVALID_DATA, "");
    assert_recovers(fixture);
}

static void
test_endless_list(Fixture *fixture, gconstpointer data)
{
    Reply reply;

    /* The library never has enough room: the card is as good as unknown. */
    ask_for(L40S, &reply);
    g_assert_no_error(reply.error);
    g_assert_cmpuint(reply.cards->len, ==, 0);
    reply_clear(&reply);
}

/* ---- the question ---- */

static void
test_bad_addresses(Fixture *fixture, gconstpointer data)
{
    g_autoptr(GPtrArray) many = g_ptr_array_new_with_free_func(g_free);
    Reply reply;

    assert_fails("3b", G_IO_ERROR_INVALID_ARGUMENT, "“3b”");
    assert_fails("--help", G_IO_ERROR_INVALID_ARGUMENT, "“--help”");
    for (guint i = 0; i <= VGPU_NVML_CARDS_MAX; i++)
        g_ptr_array_add(many, g_strdup_printf("%04x:01:00.0", i));
    g_ptr_array_add(many, NULL);
    ask((const char *const *)many->pdata, &reply);
    g_assert_error(reply.error, G_IO_ERROR, G_IO_ERROR_INVALID_ARGUMENT);
    reply_clear(&reply);
    g_assert_false(pid_is_known(fixture));
}

static void
test_nothing_asked(Fixture *fixture, gconstpointer data)
{
    const char *const addresses[] = {NULL};
    Reply reply;

    ask(addresses, &reply);
    g_assert_no_error(reply.error);
    g_assert_cmpuint(reply.cards->len, ==, 0);
    reply_clear(&reply);
    g_assert_false(pid_is_known(fixture));
}

static void
test_cancelled(Fixture *fixture, gconstpointer data)
{
    const char *const addresses[] = {L40S, NULL};
    g_autoptr(GCancellable) cancellable = g_cancellable_new();
    Reply reply = {0};

    vgpu_nvml_query_async(addresses, generous_ms(), cancellable, replied, &reply);
    wait_until(pid_is_known, fixture);
    g_assert_false(reply.done);
    g_cancellable_cancel(cancellable);
    wait_until(has_reply, &reply);
    g_assert_error(reply.error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
    reply_clear(&reply);
    wait_until(child_is_gone, fixture);

    /* Cancelled before it began: nothing begins. */
    g_unlink(fixture->pid_file);
    vgpu_nvml_query_async(addresses, generous_ms(), cancellable, replied, &reply);
    wait_until(has_reply, &reply);
    g_assert_error(reply.error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
    g_assert_cmpuint(reply.calls, ==, 2);
    g_assert_false(pid_is_known(fixture));
    reply_clear(&reply);
}

/* A driver that hangs every child must not fill the host with children. That a killed one is gone is told to
 * the default context, which is not run here until all four are killed. */
static void
test_stuck_children(Fixture *fixture, gconstpointer data)
{
    const char *const addresses[] = {L40S, NULL};
    g_autoptr(GMainContext) context = g_main_context_new();
    g_autoptr(GCancellable) cancellable = g_cancellable_new();
    Reply hanging[4] = {0}, next = {0};

    g_unsetenv("FAKE_NVML_PID_FILE"); /* there is one for one child */
    g_main_context_push_thread_default(context);
    for (guint i = 0; i < G_N_ELEMENTS(hanging); i++)
        vgpu_nvml_query_async(addresses, generous_ms(), cancellable, replied, &hanging[i]);
    g_main_context_pop_thread_default(context);
    g_cancellable_cancel(cancellable);
    for (guint i = 0; i < G_N_ELEMENTS(hanging); i++) {
        while (!hanging[i].done)
            g_main_context_iteration(context, TRUE);
        g_assert_error(hanging[i].error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
        reply_clear(&hanging[i]);
    }
    vgpu_nvml_query_async(addresses, generous_ms(), NULL, replied, &next);
    wait_until(has_reply, &next);
    g_assert_error(next.error, G_IO_ERROR, G_IO_ERROR_BUSY);
    reply_clear(&next);

    /* As soon as one of them is gone, the next is asked. */
    g_setenv("FAKE_NVML_MODE", "", TRUE);
    gint64 end = g_get_monotonic_time() + generous_ms() * G_GINT64_CONSTANT(1000);
    do {
        g_assert_cmpint(g_get_monotonic_time(), <, end);
        reply_clear(&next);
        ask(addresses, &next);
    } while (g_error_matches(next.error, G_IO_ERROR, G_IO_ERROR_BUSY));
    assert_card_has_table(card_at(&next, 0), "l40s-r550.types.tsv");
    reply_clear(&next);
}

static void
test_own_context(Fixture *fixture, gconstpointer data)
{
    const char *const addresses[] = {L40S, NULL};
    g_autoptr(GMainContext) context = g_main_context_new();
    Reply reply = {0};

    g_main_context_push_thread_default(context);
    vgpu_nvml_query_async(addresses, generous_ms(), NULL, replied, &reply);
    while (!reply.done)
        g_main_context_iteration(context, TRUE);
    g_main_context_pop_thread_default(context);
    assert_card_has_table(card_at(&reply, 0), "l40s-r550.types.tsv");
    reply_clear(&reply);
}

/* ---- the child ---- */

static void
test_inherits_nothing(Fixture *fixture, gconstpointer data)
{
    /* A descriptor that would pass through an exec, as one of a careless library. */
    int stray = open("/dev/zero", O_RDONLY);
    Reply reply;

    g_assert_cmpint(stray, >, 2);
    g_assert_cmpint(fcntl(stray, F_GETFD), ==, 0);
    g_setenv("NOTIFY_SOCKET", "/run/none", TRUE);
    ask_for(L40S, &reply);
    g_unsetenv("NOTIFY_SOCKET");
    close(stray);
    g_assert_cmpstr(card_at(&reply, 0)->name, ==, "0=/dev/null 1=/dev/null 2=/dev/null 3=pipe notify=none");
    reply_clear(&reply);
}

static GSubprocess *
start_child(const char *seconds, const char *address)
{
    g_autoptr(GError) error = NULL;
    GSubprocess *child = g_subprocess_new(G_SUBPROCESS_FLAGS_STDOUT_PIPE, &error, "/proc/self/exe",
                                          VGPU_NVML_CHILD_ARGUMENT, seconds, address, NULL);

    g_assert_no_error(error);
    return child;
}

static void
test_ends_by_itself(Fixture *fixture, gconstpointer data)
{
    g_autoptr(GSubprocess) child = start_child("1", L40S);
    g_autofree char *said = NULL;

    g_assert_true(g_subprocess_communicate_utf8(child, NULL, NULL, &said, NULL, NULL));
    g_assert_true(g_subprocess_get_if_signaled(child));
    g_assert_cmpint(g_subprocess_get_term_sig(child), ==, SIGALRM);
    g_assert_cmpstr(said, ==, "");
}

static void
test_bad_arguments(Fixture *fixture, gconstpointer data)
{
    static const char *const bad[] = {"3b:00.0", "0000:3B:00.0", "teapot", "", "--help"};

    for (gsize i = 0; i < G_N_ELEMENTS(bad); i++) {
        g_autoptr(GSubprocess) child = start_child("10", bad[i]);
        g_autofree char *said = NULL;

        g_assert_true(g_subprocess_communicate_utf8(child, NULL, NULL, &said, NULL, NULL));
        g_assert_true(g_subprocess_get_if_exited(child));
        g_assert_cmpint(g_subprocess_get_exit_status(child), !=, 0);
        g_assert_cmpstr(said, ==, "");
    }
    g_assert_false(pid_is_known(fixture));
}

/* ---- the answer ---- */

static const char *const asked[] = {L40S, "00000000:86:00.0", NULL};

static void
test_parse(void)
{
    static const char text[] = "card\t" A40 "\t\n"
                               "type\t4294967295\t18446744073709551615\t4294967295\t\n"
                               "type\t7\t1048575\t0\tX\n"
                               "type\t1\t100921245696\t1\tH100L-94C\n"
                               "skip\t" L40S "\tNVML error 15\n"
                               "end\n";
    g_autofree char *copy = g_memdup2(text, sizeof(text) - 1);
    g_autoptr(GError) error = NULL;
    g_autoptr(GPtrArray) cards = vgpu_nvml_parse(copy, sizeof(text) - 1, asked, &error);

    g_assert_no_error(error);
    g_assert_cmpuint(cards->len, ==, 1);
    const VgpuNvmlCard *card = g_ptr_array_index(cards, 0);
    g_assert_cmpstr(card->address, ==, A40);
    g_assert_cmpstr(card->name, ==, NULL);
    g_assert_cmpuint(card->types->len, ==, 3);
    const VgpuNvmlType *first = g_ptr_array_index(card->types, 0);
    const VgpuNvmlType *second = g_ptr_array_index(card->types, 1);
    const VgpuNvmlType *third = g_ptr_array_index(card->types, 2);
    g_assert_cmpuint(first->id, ==, 1);
    g_assert_cmpuint(first->framebuffer_mib, ==, 96246); /* not 94 x 1024 */
    g_assert_cmpuint(second->id, ==, 7);
    g_assert_cmpuint(second->framebuffer_mib, ==, 0);
    g_assert_cmpuint(third->id, ==, G_MAXUINT32);
    g_assert_cmpuint(third->framebuffer_mib, ==, G_MAXUINT64 >> 20);
    g_assert_cmpuint(third->max_instances, ==, G_MAXUINT32);
    g_assert_cmpstr(third->name, ==, NULL);
}

#define SKIP "skip\t" L40S "\t\nskip\t" A40 "\t\n"
#define CARD "card\t" L40S "\tX\n"
#define REST "skip\t" A40 "\t\nend\n"

static void
test_parse_garbage(void)
{
    static const char *const garbage[] = {
        "",
        "\n",
        "end\n",
        SKIP,
        SKIP "end",
        SKIP "END\n",
        SKIP "end\n\n",
        SKIP "end\nend\n",
        SKIP "end\t\n",
        SKIP "end\nfail\tother\tx\n",
        SKIP "\nend\n",
        SKIP "teapot\nend\n",
        SKIP "skip\t" L40S "\t\nend\n",
        CARD CARD REST,
        CARD "skip\t" L40S "\t\n" REST,
        "card\t" L40S "\n" REST,
        "card\t" L40S "\tX\tY\n" REST,
        "card\t0000:01:00.0\tX\n" REST,
        "card\t3b:00.0\tX\n" REST,
        "type\t1\t0\t0\tX\n" SKIP "end\n",
        CARD "skip\t" A40 "\t\ntype\t1\t0\t0\tX\nend\n",
        CARD "type\t0\t0\t0\tX\n" REST,
        CARD "type\t-1\t0\t0\tX\n" REST,
        CARD "type\t+1\t0\t0\tX\n" REST,
        CARD "type\t 1\t0\t0\tX\n" REST,
        CARD "type\t1 \t0\t0\tX\n" REST,
        CARD "type\t\t0\t0\tX\n" REST,
        CARD "type\t0x1\t0\t0\tX\n" REST,
        CARD "type\t4294967296\t0\t0\tX\n" REST,
        CARD "type\t1\t18446744073709551616\t0\tX\n" REST,
        CARD "type\t1\t0\t4294967296\tX\n" REST,
        CARD "type\t1\t0\t0\n" REST,
        CARD "type\t1\t0\t0\tX\tY\n" REST,
        CARD "type\t1\t0\t0\tX\ntype\t2\t0\t0\tY\ntype\t1\t0\t0\tX\n" REST,
        CARD REST "type\t1\t0\t0\tX\n",
        "fail\n",
        "fail\tteapot\tx\n",
        "fail\tdriver\n",
        "fail\tdriver\tx\ty\n",
    };

    for (gsize i = 0; i < G_N_ELEMENTS(garbage); i++) {
        g_autofree char *copy = g_memdup2(garbage[i], strlen(garbage[i]));
        g_autofree char *shown = g_strescape(garbage[i], NULL);
        g_autoptr(GError) error = NULL;

        g_test_message("“%s”", shown);
        g_assert_null(vgpu_nvml_parse(copy, strlen(garbage[i]), asked, &error));
        g_assert_error(error, G_IO_ERROR, G_IO_ERROR_INVALID_DATA);
    }

    static const char nul[] = "skip\t" L40S "\t\0\n" REST;
    g_autoptr(GError) error = NULL;
    g_assert_null(vgpu_nvml_parse(nul, sizeof(nul) - 1, asked, &error));
    g_assert_error(error, G_IO_ERROR, G_IO_ERROR_INVALID_DATA);
}

/* No beginning of an answer is taken for one. */
static void
test_parse_cut_short(void)
{
    static const char text[] = CARD "type\t1\t1048576\t3\tX-1Q\ntype\t2\t2097152\t3\tX-2Q\n" REST;
    gsize whole = sizeof(text) - 1;

    for (gsize length = 0; length <= whole; length++) {
        g_autofree char *cut = g_memdup2(text, length);
        g_autoptr(GError) error = NULL;
        g_autoptr(GPtrArray) cards = vgpu_nvml_parse(cut, length, asked, &error);

        g_assert_true((cards != NULL) == (length == whole));
        g_assert_true((error == NULL) == (length == whole));
    }
}

static void
test_parse_bounded(void)
{
    GString *text = g_string_new(CARD);

    for (guint i = 1; i <= VGPU_NVML_TYPES_MAX; i++)
        g_string_append_printf(text, "type\t%u\t0\t0\t\n", i);
    g_autofree char *most = g_strconcat(text->str, REST, NULL);
    g_autofree char *too_many = g_strconcat(text->str, "type\t5000\t0\t0\t\n", REST, NULL);
    g_autoptr(GPtrArray) cards = vgpu_nvml_parse(most, strlen(most), asked, NULL);
    g_assert_nonnull(cards);
    g_assert_null(vgpu_nvml_parse(too_many, strlen(too_many), asked, NULL));
    g_string_free(text, TRUE);
}

int
main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], VGPU_NVML_CHILD_ARGUMENT) == 0)
        return vgpu_nvml_child_main(argc, argv);

    static const struct {
        const char *promise, *mode;
        void (*test)(Fixture *fixture, gconstpointer data);
    } tests[] = {
        {"/nvml/knows/name-size-and-maximum-of-every-type", NULL, test_every_type},
        {"/nvml/knows/nothing-of-a-card-it-does-not-have", NULL, test_unknown_card},
        {"/nvml/knows/the-other-cards-when-one-is-lost", "lost", test_lost_card},
        {"/nvml/knows/no-types-of-a-card-without-vgpus", "no-vgpu", test_no_vgpus},
        {"/nvml/knows/a-type-that-came-meanwhile", "growing", test_growing_list},
        {"/nvml/knows/less-with-an-old-library", NULL, test_old_library},
        {"/nvml/knows/sizes-without-names", "no-type-names", test_no_type_names},
        {"/nvml/trouble/absent-library", NULL, test_absent},
        {"/nvml/trouble/missing-symbol", NULL, test_missing_symbol},
        {"/nvml/trouble/driver-not-loaded", "driver-not-loaded", test_driver_not_loaded},
        {"/nvml/trouble/hang-ends-at-the-deadline", "hang", test_hang},
        {"/nvml/trouble/hang-with-signals-blocked", "hang-deaf", test_hang},
        {"/nvml/trouble/hang-in-the-middle", "hang-in-the-middle", test_hang},
        {"/nvml/trouble/hang-after-the-answer-costs-nothing", "hang-late", test_late_trouble},
        {"/nvml/trouble/crash", "crash", test_crash},
        {"/nvml/trouble/crash-in-the-middle", "crash-in-the-middle", test_crash},
        {"/nvml/trouble/crash-after-the-answer-costs-nothing", "crash-late", test_late_trouble},
        {"/nvml/trouble/exit-without-a-word", "exit", test_silent_exit},
        {"/nvml/trouble/printing-library-is-not-heard", "noisy", test_noise},
        {"/nvml/trouble/dirty-names-are-made-printable", "dirty", test_dirty_names},
        {"/nvml/trouble/unterminated-names-end", "unterminated", test_unterminated_names},
        {"/nvml/trouble/same-id-twice-is-not-believed", "same-id-twice", test_senseless_ids},
        {"/nvml/trouble/id-zero-is-not-believed", "id-zero", test_senseless_ids},
        {"/nvml/trouble/endless-list-ends", "endless", test_endless_list},
        {"/nvml/question/bad-addresses-are-not-asked", NULL, test_bad_addresses},
        {"/nvml/question/nothing-asked-starts-nothing", NULL, test_nothing_asked},
        {"/nvml/question/cancelled-kills-the-child", "hang", test_cancelled},
        {"/nvml/question/stuck-children-do-not-pile-up", "hang", test_stuck_children},
        {"/nvml/question/answers-in-its-own-context", NULL, test_own_context},
        {"/nvml/child/inherits-nothing", "process", test_inherits_nothing},
        {"/nvml/child/ends-by-itself", "hang", test_ends_by_itself},
        {"/nvml/child/refuses-other-arguments", NULL, test_bad_arguments},
    };

    g_test_init(&argc, &argv, NULL);
    for (gsize i = 0; i < G_N_ELEMENTS(tests); i++)
        g_test_add(tests[i].promise, Fixture, tests[i].mode, set_up, tests[i].test, tear_down);
    g_test_add_func("/nvml/answer/is-read", test_parse);
    g_test_add_func("/nvml/answer/garbage-is-no-answer", test_parse_garbage);
    g_test_add_func("/nvml/answer/cut-short-is-no-answer", test_parse_cut_short);
    g_test_add_func("/nvml/answer/types-are-bounded", test_parse_bounded);
    return g_test_run();
}
