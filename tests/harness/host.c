/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "host-private.h"

#include "log.h"
#include "process.h"
#include "real-polkit.h"

#include <glib/gstdio.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME "org.hypeman.VGPU1"

/* The pause after which a condition is looked at again although nothing was heard. */
#define RECHECK_MS 2

struct Host {
    Bed *bed;
    Bus *bus;
    MockPolkit *mock_polkit;
    RealPolkit *real_polkit; /* or NULL */
    Process *service;        /* NULL when it does not run */
    char *directory;
    char *log;
    char **environment; /* of the service, without the bed's */
    char *preload;
};

static Host *newest; /* for a wait in vain */

/* ---- Waiting ---- */

static gboolean
on_recheck(gpointer data)
{
    return G_SOURCE_CONTINUE;
}

void
host_iterate(void)
{
    guint recheck = g_timeout_add(RECHECK_MS, on_recheck, NULL);

    g_main_context_iteration(NULL, TRUE);
    g_source_remove(recheck);
    while (g_main_context_iteration(NULL, FALSE))
        ;
}

void
host_give_up(const char *file, int line, const char *condition)
{
    g_autofree char *trace = newest ? bed_trace_text(newest->bed) : g_strdup("");
    int status;

    if (newest && newest->service && process_has_ended(newest->service, &status))
        g_printerr("the service has ended: %d\n", status);
    g_printerr("%s:%d: waited in vain for: %s\nwhat was written:\n%s", file, line, condition, trace);
    abort(); /* the logs follow, as after every abort */
}

/* ---- The host ---- */

void
host_set_environment(Host *host, const char *name, const char *value)
{
    host->environment = value ? g_environ_setenv(host->environment, name, value, TRUE)
                              : g_environ_unsetenv(host->environment, name);
}

void
host_preload(Host *host, const char *library)
{
    g_free(host->preload);
    host->preload = g_strdup(library);
}

Host *
host_new(const BedOptions *options)
{
    Host *host = g_new0(Host, 1);
    g_autofree char *runtime = NULL;
    g_autoptr(GError) error = NULL;

    newest = host;
    host->bed = bed_new(options);
    host->directory = g_dir_make_tmp("host-XXXXXX", &error);
    g_assert_no_error(error);
    g_assert_no_errno(chmod(host->directory, 0755));
    host->log = host_file(host, "log");
    log_show_on_abort("the service", host->log);
    host->bus = bus_new(host->directory);
    host->mock_polkit = mock_polkit_new(host->bus);
    runtime = host_file(host, "run");
    host->environment = g_get_environ();
    host_set_environment(host, "DBUS_SYSTEM_BUS_ADDRESS", bus_address(host->bus));
    host_set_environment(host, "RUNTIME_DIRECTORY", runtime);
    host_set_environment(host, "G_DEBUG", "fatal-criticals");
    return host;
}

Bed *
host_bed(Host *host)
{
    return host->bed;
}

Bus *
host_get_bus(Host *host)
{
    return host->bus;
}

MockPolkit *
host_get_mock_polkit(Host *host)
{
    return host->mock_polkit;
}

char *
host_file(Host *host, const char *name)
{
    return g_build_filename(host->directory, name, NULL);
}

char *
host_runtime_file(Host *host, const char *name)
{
    return g_build_filename(host->directory, "run", name, NULL);
}

char *
host_log(Host *host)
{
    char *text = NULL;

    g_file_get_contents(host->log, &text, NULL, NULL);
    return text ? text : g_strdup("");
}

GDBusConnection *
host_connect(Host *host)
{
    return bus_connect(host->bus, 0);
}

void
host_kill_bus(Host *host)
{
    bus_kill(host->bus);
    mock_polkit_set(host->mock_polkit, POLKIT_GONE);
}

void
host_start_bus(Host *host)
{
    bus_start(host->bus);
}

void
host_polkit(Host *host, PolkitMode mode)
{
    mock_polkit_set(host->mock_polkit, mode);
}

void
host_real_polkit(Host *host, const char *rules, const char *member)
{
    g_autofree char *directory = host_file(host, "polkit");

    g_assert_null(host->real_polkit);
    host->real_polkit = real_polkit_new(host->bus, directory, rules, member);
}

/* ---- The service ---- */

static Process *
spawn_service(Host *host, const char *const *arguments)
{
    const char *wrapper = g_getenv("VGPU_TEST_WRAPPER");
    g_auto(GStrv) words = g_strsplit(wrapper ? wrapper : "", " ", -1);
    g_autoptr(GPtrArray) argv = g_ptr_array_new();
    g_auto(GStrv) environment = bed_environ(host->bed, host->environment);

    if (host->preload) {
        g_autofree char *both =
            g_strdup_printf("%s:%s", g_environ_getenv(environment, "LD_PRELOAD"), host->preload);
        environment = g_environ_setenv(environment, "LD_PRELOAD", both, TRUE);
    }
    for (char **word = words; *word; word++)
        g_ptr_array_add(argv, *word);
    g_ptr_array_add(argv, (gpointer)TEST_DAEMON);
    for (; arguments && *arguments; arguments++)
        g_ptr_array_add(argv, (gpointer)*arguments);
    g_ptr_array_add(argv, NULL);
    return process_new(&(ProcessOptions){
        .argv = (const char *const *)argv->pdata, .environment = environment, .log = host->log});
}

/* TRUE when it has ended and the bus has noticed; then it is no more. */
static gboolean
reap(Host *host, int *ret_status)
{
    if (!process_has_ended(host->service, ret_status) || bus_has_owner(host->bus, NAME))
        return FALSE;
    g_clear_pointer(&host->service, process_free);
    return TRUE;
}

static gboolean
is_ready(Host *host)
{
    int status;

    if (reap(host, &status))
        g_error("the service ended with %d instead of starting", status);
    return bus_has_owner(host->bus, NAME);
}

void
host_start(Host *host, const char *const *arguments)
{
    g_assert_null(host->service);
    host->service = spawn_service(host, arguments);
    wait_for(is_ready(host));
}

int
host_wait(Host *host)
{
    int status = -1;

    g_assert_nonnull(host->service);
    wait_for(reap(host, &status));
    return status;
}

int
host_start_second(Host *host)
{
    g_autoptr(Process) second = spawn_service(host, NULL);
    int status = -1;

    wait_for(process_has_ended(second, &status));
    return status;
}

gboolean
host_wait_briefly(Host *host)
{
    gint64 deadline = bed_deadline(1.5);

    while (!reap(host, NULL)) {
        if (g_get_monotonic_time() > deadline)
            return FALSE;
        host_iterate();
    }
    return TRUE;
}

int
host_stop(Host *host, int signal_number)
{
    g_assert_nonnull(host->service);
    process_signal(host->service, signal_number);
    return host_wait(host);
}

pid_t
host_pid(Host *host)
{
    g_assert_nonnull(host->service);
    return process_pid(host->service);
}

static guint
count_fds(Host *host)
{
    g_autofree char *path = g_strdup_printf("/proc/%d/fd", host_pid(host));
    g_autoptr(GDir) dir = g_dir_open(path, 0, NULL);
    guint count = 0;

    while (dir && g_dir_read_name(dir))
        count++;
    return count;
}

guint
host_fds(Host *host)
{
    guint least = G_MAXUINT;

    /* A scan, which may follow a reply, has some open for a moment; and while it runs nothing is answered. */
    for (guint i = 0; i < 10; i++) {
        bus_ping(host->bus, NAME);
        least = MIN(least, count_fds(host));
    }
    return least;
}

guint
host_match_rules(Host *host)
{
    g_autoptr(GVariant) reply = bus_ask(host->bus, "org.freedesktop.DBus.Debug.Stats", "GetConnectionStats",
                                        g_variant_new("(s)", NAME), "(a{sv})");
    g_autoptr(GVariant) stats = NULL;
    guint32 rules = 0;

    g_assert_nonnull(reply);
    stats = g_variant_get_child_value(reply, 0);
    g_assert_true(g_variant_lookup(stats, "MatchRules", "u", &rules));
    return rules;
}

/* ---- The end ---- */

static void
check_service(Host *host)
{
    int status;

    if (!host->service)
        return;
    if (reap(host, &status))
        g_error("the service ended with %d before the test did", status);
    bed_no_more_faults(host->bed);
    status = host_stop(host, SIGTERM);
    if (status != 0)
        g_error("the service ended with %d after SIGTERM", status);
}

static void
check_log(Host *host)
{
    static const char *const words[] = {"AddressSanitizer", "LeakSanitizer", "runtime error:"};
    g_autofree char *log = host_log(host);

    for (gsize i = 0; i < G_N_ELEMENTS(words); i++) {
        if (strstr(log, words[i]))
            g_error("a sanitizer spoke in the service");
    }
}

void
host_free(Host *host)
{
    g_auto(GStrv) violations = bed_violations(host->bed);
    g_autofree char *broken = g_strjoinv("; ", violations);

    check_service(host);
    check_log(host);
    g_assert_cmpstr(broken, ==, "");
    newest = NULL;
    g_clear_pointer(&host->real_polkit, real_polkit_free);
    mock_polkit_free(host->mock_polkit);
    bus_free(host->bus);
    bed_free(host->bed);
    log_forget(host->log);
    g_strfreev(host->environment);
    g_free(host->preload);
    g_free(host->directory);
    g_free(host->log);
    g_free(host);
}

void
host_hide_directory(Host *host, gboolean away)
{
    g_autofree char *run = host_file(host, "run");
    g_autofree char *elsewhere = host_file(host, "away");

    g_assert_no_errno(away ? g_rename(run, elsewhere) : g_rename(elsewhere, run));
}

char *
host_start_armed(Host *host, const char *library, guint step)
{
    g_autofree char *after = g_strdup_printf("%u", step);
    char *arm = host_file(host, "armed");

    g_unlink(arm);
    host_set_environment(host, "KILL_ARMED", arm);
    host_set_environment(host, "KILL_AFTER", after);
    host_preload(host, library);
    host_start(host, NULL);
    host_set_environment(host, "KILL_AFTER", NULL);
    host_preload(host, NULL);
    return arm;
}
