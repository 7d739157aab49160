/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "harness-private.h"

#define POLKIT_NAME "org.freedesktop.PolicyKit1"
#define POLKITD "/usr/lib/polkit-1/polkitd"

struct RealPolkit {
    Bus *bus;
    char *directory;
    char *log;
    Process *process;
    guint subscription;
    guint changes; /* signals that rules or actions were read again */
};

static void
write_file(const RealPolkit *polkit, const char *name, const char *text)
{
    g_autofree char *path = g_build_filename(polkit->directory, name, NULL);
    g_autoptr(GError) error = NULL;

    g_file_set_contents_full(path, text, -1, G_FILE_SET_CONTENTS_CONSISTENT, 0644, &error);
    g_assert_no_error(error);
}

static char *
read_source(const char *name)
{
    g_autofree char *path = g_build_filename(HARNESS_POLKIT_DIR, name, NULL);
    g_autoptr(GError) error = NULL;
    char *text = NULL;

    g_file_get_contents(path, &text, NULL, &error);
    g_assert_no_error(error);
    return text;
}

static void
make_directories(const RealPolkit *polkit)
{
    static const char *const names[] = {"actions", "rules", "etc"};

    for (gsize i = 0; i < G_N_ELEMENTS(names); i++) {
        g_autofree char *path = g_build_filename(polkit->directory, names[i], NULL);

        g_assert_no_errno(g_mkdir_with_parents(path, 0755));
    }
}

static void
spawn(RealPolkit *polkit)
{
    g_autofree char *actions = g_build_filename(polkit->directory, "actions", NULL);
    g_autofree char *rules = g_build_filename(polkit->directory, "rules", NULL);
    g_autofree char *etc = g_build_filename(polkit->directory, "etc", NULL);
    const Bind binds[] = {
        {actions, "/usr/share/polkit-1/actions"},
        {rules, "/usr/share/polkit-1/rules.d"},
        {etc, "/etc/polkit-1/rules.d"},
        {NULL, NULL},
    };
    const char *const argv[] = {POLKITD, "--no-debug", NULL};
    g_auto(GStrv) environment =
        g_environ_setenv(g_get_environ(), "DBUS_SYSTEM_BUS_ADDRESS", bus_address(polkit->bus), TRUE);

    polkit->process = process_new(
        &(ProcessOptions){.argv = argv, .environment = environment, .log = polkit->log, .binds = binds});
}

static void
on_changed(GDBusConnection *connection, const char *sender, const char *path, const char *interface,
           const char *signal_name, GVariant *arguments, gpointer data)
{
    RealPolkit *polkit = data;

    polkit->changes++;
}

static gboolean
is_ready(RealPolkit *polkit)
{
    g_autofree char *owner = bus_owner(polkit->bus, POLKIT_NAME);

    if (!process_is_running(polkit->process))
        g_error("polkitd has ended");
    return owner != NULL;
}

RealPolkit *
real_polkit_new(Bus *bus, const char *rules)
{
    RealPolkit *polkit = g_new0(RealPolkit, 1);
    g_autofree char *actions = read_source("org.hypeman.VGPU1.policy");
    g_autofree char *shipped = read_source("org.hypeman.VGPU1.rules");

    polkit->bus = bus;
    polkit->directory = make_directory("polkit");
    polkit->log = g_build_filename(polkit->directory, "log", NULL);
    log_show_on_abort("polkitd", polkit->log);
    make_directories(polkit);
    write_file(polkit, "actions/org.hypeman.VGPU1.policy", actions);
    write_file(polkit, "rules/org.hypeman.VGPU1.rules", rules ? rules : shipped);
    polkit->subscription = g_dbus_connection_signal_subscribe(
        bus_connection(bus), POLKIT_NAME, "org.freedesktop.PolicyKit1.Authority", "Changed", NULL, NULL,
        G_DBUS_SIGNAL_FLAGS_NONE, on_changed, polkit, NULL);
    spawn(polkit);
    wait_for_up_to(30, is_ready(polkit));
    return polkit;
}

void
real_polkit_free(RealPolkit *polkit)
{
    if (bus_connection(polkit->bus))
        g_dbus_connection_signal_unsubscribe(bus_connection(polkit->bus), polkit->subscription);
    process_free(polkit->process);
    log_forget(polkit->log);
    remove_tree(polkit->directory);
    g_free(polkit->directory);
    g_free(polkit->log);
    g_free(polkit);
}

void
real_polkit_set_rules(RealPolkit *polkit, const char *rules)
{
    guint before = polkit->changes;

    write_file(polkit, "rules/org.hypeman.VGPU1.rules", rules);
    wait_for_up_to(30, polkit->changes > before);
}
