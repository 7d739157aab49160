/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "harness-private.h"

#include <dlfcn.h>
#include <signal.h>
#include <string.h>

struct Daemon {
    Bus *bus;
    char *directory;
    char *runtime;
    char *config;
    char *log;
    char *program;
    char **arguments;
    char **environment;
    Process *process; /* NULL when it does not run */
    gboolean may_end;
};

/* The sanitizer's library that this process is linked with, NULL without one. Instrumented programs insist on
 * having it before any other preloaded library. */
static const char *
sanitizer_library(void)
{
    void *symbol = dlsym(RTLD_DEFAULT, "__asan_init");
    Dl_info info;

    if (!symbol || !dladdr(symbol, &info) || !strstr(info.dli_fname, ".so"))
        return NULL;
    return info.dli_fname;
}

static void
put_sanitizer_first(Daemon *daemon)
{
    const char *library = sanitizer_library();
    const char *preload = g_environ_getenv(daemon->environment, "LD_PRELOAD");
    g_autofree char *both = NULL;

    if (!library || !preload || strstr(preload, "asan"))
        return;
    both = g_strdup_printf("%s:%s", library, preload);
    daemon_set_variable(daemon, "LD_PRELOAD", both);
}

Daemon *
daemon_new(Bus *bus, char **environment)
{
    const char *program = g_getenv("VGPU_TEST_DAEMON");
    Daemon *daemon = g_new0(Daemon, 1);

    daemon->bus = bus;
    daemon->directory = make_directory("daemon");
    daemon->runtime = g_build_filename(daemon->directory, "run", NULL);
    daemon->config = g_build_filename(daemon->directory, "hypeman-vgpu.conf", NULL);
    daemon->log = g_build_filename(daemon->directory, "log", NULL);
    daemon->program = g_strdup(program ? program : HARNESS_DAEMON);
    daemon->environment = environment ? g_strdupv(environment) : g_get_environ();
    g_assert_no_errno(g_mkdir_with_parents(daemon->runtime, 0755));
    daemon_set_config(daemon, "");
    daemon_set_variable(daemon, "DBUS_SYSTEM_BUS_ADDRESS", bus_address(bus));
    daemon_set_variable(daemon, "RUNTIME_DIRECTORY", daemon->runtime);
    daemon_set_variable(daemon, "G_DEBUG", "fatal-criticals");
    put_sanitizer_first(daemon);
    log_show_on_abort("the service", daemon->log);
    return daemon;
}

void
daemon_set_program(Daemon *daemon, const char *path)
{
    g_free(daemon->program);
    daemon->program = g_strdup(path);
}

void
daemon_set_arguments(Daemon *daemon, const char *const *arguments)
{
    g_strfreev(daemon->arguments);
    daemon->arguments = g_strdupv((char **)arguments);
}

void
daemon_set_config(Daemon *daemon, const char *text)
{
    g_autoptr(GError) error = NULL;

    g_file_set_contents(daemon->config, text, -1, &error);
    g_assert_no_error(error);
}

void
daemon_set_variable(Daemon *daemon, const char *name, const char *value)
{
    if (value)
        daemon->environment = g_environ_setenv(daemon->environment, name, value, TRUE);
    else
        daemon->environment = g_environ_unsetenv(daemon->environment, name);
}

static void
check_sanitizers(Daemon *daemon)
{
    static const char *const words[] = {"AddressSanitizer", "LeakSanitizer", "UndefinedBehaviorSanitizer",
                                        "ThreadSanitizer", "runtime error:"};
    g_autofree char *log = daemon_log(daemon);

    for (gsize i = 0; i < G_N_ELEMENTS(words); i++) {
        if (strstr(log, words[i]))
            g_error("a sanitizer spoke in the service");
    }
}

/* Forgets the process that has ended. */
static int
collect(Daemon *daemon)
{
    int status = process_wait(daemon->process, "the service");

    g_clear_pointer(&daemon->process, process_free);
    check_sanitizers(daemon);
    return status;
}

static void
check_alive(Daemon *daemon)
{
    if (!daemon->may_end && !process_is_running(daemon->process))
        g_error("the service ended unexpectedly, with %d", process_wait(daemon->process, "the service"));
}

static void
on_end(gpointer data)
{
    check_alive(data);
}

void
daemon_spawn(Daemon *daemon)
{
    const char *wrapper = g_getenv("VGPU_TEST_WRAPPER");
    g_autoptr(GPtrArray) argv = g_ptr_array_new();
    g_auto(GStrv) words = NULL;

    g_assert_null(daemon->process);
    if (wrapper)
        g_assert_true(g_shell_parse_argv(wrapper, NULL, &words, NULL));
    for (char **word = words; word && *word; word++)
        g_ptr_array_add(argv, *word);
    g_ptr_array_add(argv, daemon->program);
    g_ptr_array_add(argv, (gpointer) "--config");
    g_ptr_array_add(argv, daemon->config);
    for (char **argument = daemon->arguments; argument && *argument; argument++)
        g_ptr_array_add(argv, *argument);
    g_ptr_array_add(argv, NULL);
    daemon->may_end = TRUE;
    daemon->process = process_new(&(ProcessOptions){.argv = (const char *const *)argv->pdata,
                                                    .environment = daemon->environment,
                                                    .log = daemon->log,
                                                    .on_end = on_end,
                                                    .data = daemon});
}

gboolean
daemon_is_ready(Daemon *daemon)
{
    g_autofree char *owner = bus_owner(daemon->bus, HARNESS_NAME);
    g_autoptr(GVariant) reply = NULL;
    guint pid = 0;

    if (!owner || !daemon->process)
        return FALSE;
    reply = bus_ask(bus_connection(daemon->bus), "org.freedesktop.DBus", "GetConnectionUnixProcessID",
                    g_variant_new("(s)", owner), "(u)");
    if (reply)
        g_variant_get(reply, "(u)", &pid);
    return (pid_t)pid == process_pid(daemon->process);
}

gboolean
daemon_is_running(Daemon *daemon)
{
    return daemon->process && process_is_running(daemon->process);
}

static gboolean
is_ready(Daemon *daemon)
{
    check_alive(daemon);
    return daemon_is_ready(daemon);
}

void
daemon_start(Daemon *daemon)
{
    daemon_spawn(daemon);
    daemon->may_end = FALSE;
    wait_for_up_to(30, is_ready(daemon));
}

void
daemon_expect_end(Daemon *daemon)
{
    check_alive(daemon);
    daemon->may_end = TRUE;
}

int
daemon_wait(Daemon *daemon)
{
    g_assert_nonnull(daemon->process);
    daemon->may_end = TRUE;
    return collect(daemon);
}

int
daemon_stop(Daemon *daemon, int signal_number)
{
    g_assert_nonnull(daemon->process);
    daemon_expect_end(daemon);
    process_signal(daemon->process, signal_number);
    return collect(daemon);
}

void
daemon_restart(Daemon *daemon, int signal_number)
{
    daemon_stop(daemon, signal_number);
    daemon_start(daemon);
}

void
daemon_free(Daemon *daemon)
{
    if (daemon->process) {
        int status = daemon_stop(daemon, SIGTERM);

        if (status != 0)
            g_error("the service ended with %d after SIGTERM", status);
    }
    log_forget(daemon->log);
    remove_tree(daemon->directory);
    g_strfreev(daemon->arguments);
    g_strfreev(daemon->environment);
    g_free(daemon->directory);
    g_free(daemon->runtime);
    g_free(daemon->config);
    g_free(daemon->log);
    g_free(daemon->program);
    g_free(daemon);
}

pid_t
daemon_pid(Daemon *daemon)
{
    g_assert_nonnull(daemon->process);
    return process_pid(daemon->process);
}

static guint
count_entries(Daemon *daemon, const char *name)
{
    g_autofree char *path = g_strdup_printf("/proc/%d/%s", daemon_pid(daemon), name);
    g_autoptr(GError) error = NULL;
    g_autoptr(GDir) dir = g_dir_open(path, 0, &error);
    guint count = 0;

    g_assert_no_error(error);
    while (g_dir_read_name(dir))
        count++;
    return count;
}

guint
daemon_fds(Daemon *daemon)
{
    return count_entries(daemon, "fd");
}

guint
daemon_threads(Daemon *daemon)
{
    return count_entries(daemon, "task");
}

guint
daemon_match_rules(Daemon *daemon)
{
    return bus_match_rules(daemon->bus, HARNESS_NAME);
}

guint64
daemon_memory(Daemon *daemon)
{
    g_autofree char *path = g_strdup_printf("/proc/%d/status", daemon_pid(daemon));
    g_autofree char *text = NULL;
    const char *line;

    g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
    line = strstr(text, "\nVmRSS:");
    g_assert_nonnull(line);
    return g_ascii_strtoull(line + strlen("\nVmRSS:"), NULL, 10);
}

char *
daemon_log(Daemon *daemon)
{
    char *text = NULL;

    return g_file_get_contents(daemon->log, &text, NULL, NULL) ? text : g_strdup("");
}

const char *
daemon_runtime_directory(Daemon *daemon)
{
    return daemon->runtime;
}
