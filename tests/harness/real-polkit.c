/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "real-polkit.h"

#include "host.h"
#include "log.h"
#include "process.h"

#define POLKITD "/usr/lib/polkit-1/polkitd"
#define FREE_GID 64999

struct RealPolkit {
    Bus *bus;
    char *directory;
    char *log;
    Process *process;
};

static char *
read_text(const char *path)
{
    g_autoptr(GError) error = NULL;
    char *text = NULL;

    g_file_get_contents(path, &text, NULL, &error);
    g_assert_no_error(error);
    return text;
}

static void
write_text(const RealPolkit *polkit, const char *name, const char *text)
{
    g_autofree char *path = g_build_filename(polkit->directory, name, NULL);
    g_autofree char *directory = g_path_get_dirname(path);
    g_autoptr(GError) error = NULL;

    g_assert_no_errno(g_mkdir_with_parents(directory, 0755));
    g_file_set_contents_full(path, text, -1, G_FILE_SET_CONTENTS_CONSISTENT, 0644, &error);
    g_assert_no_error(error);
}

/* The machine's groups, and ours with its one member. */
static void
write_groups(const RealPolkit *polkit, const char *member)
{
    g_autofree char *text = read_text("/etc/group");
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    GString *groups = g_string_new(NULL);
    g_autofree char *written = NULL;

    for (char **line = lines; *line; line++) {
        if (**line && !g_str_has_prefix(*line, "vgpu:"))
            g_string_append_printf(groups, "%s\n", *line);
    }
    g_string_append_printf(groups, "vgpu:x:%d:%s\n", FREE_GID, member ? member : "");
    written = g_string_free(groups, FALSE);
    write_text(polkit, "group", written);
}

static void
write_files(const RealPolkit *polkit, const char *rules, const char *member)
{
    g_autofree char *policy = read_text(TEST_POLKIT_DIR "/org.hypeman.VGPU1.policy");
    g_autofree char *shipped = read_text(TEST_POLKIT_DIR "/org.hypeman.VGPU1.rules");

    write_text(polkit, "actions/org.hypeman.VGPU1.policy", policy);
    write_text(polkit, "rules/org.hypeman.VGPU1.rules", rules ? rules : shipped);
    write_text(polkit, "none/README", "The administrator has no rules.\n");
    write_groups(polkit, member);
}

static Process *
spawn(const RealPolkit *polkit)
{
    g_autofree char *actions = g_build_filename(polkit->directory, "actions", NULL);
    g_autofree char *rules = g_build_filename(polkit->directory, "rules", NULL);
    g_autofree char *none = g_build_filename(polkit->directory, "none", NULL);
    g_autofree char *group = g_build_filename(polkit->directory, "group", NULL);
    const Bind binds[] = {
        {actions, "/usr/share/polkit-1/actions"},
        {rules, "/usr/share/polkit-1/rules.d"},
        {none, "/etc/polkit-1/rules.d"},
        {group, "/etc/group"},
        {NULL, NULL},
    };
    const char *const argv[] = {POLKITD, "--no-debug", NULL};
    g_auto(GStrv) environment =
        g_environ_setenv(g_get_environ(), "DBUS_SYSTEM_BUS_ADDRESS", bus_address(polkit->bus), TRUE);

    return process_new(
        &(ProcessOptions){.argv = argv, .environment = environment, .log = polkit->log, .binds = binds});
}

static gboolean
is_ready(RealPolkit *polkit)
{
    if (process_has_ended(polkit->process, NULL))
        g_error("polkitd has ended");
    return bus_has_owner(polkit->bus, "org.freedesktop.PolicyKit1");
}

RealPolkit *
real_polkit_new(Bus *bus, const char *directory, const char *rules, const char *member)
{
    RealPolkit *polkit = g_new0(RealPolkit, 1);

    polkit->bus = bus;
    polkit->directory = g_strdup(directory);
    write_files(polkit, rules, member);
    polkit->log = g_build_filename(directory, "log", NULL);
    log_show_on_abort("polkitd", polkit->log);
    polkit->process = spawn(polkit);
    wait_for(is_ready(polkit));
    return polkit;
}

void
real_polkit_free(RealPolkit *polkit)
{
    process_free(polkit->process);
    log_forget(polkit->log);
    g_free(polkit->directory);
    g_free(polkit->log);
    g_free(polkit);
}
