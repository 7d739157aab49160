/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "private-bus.h"

#include <gio/gio.h>
#include <glib/gstdio.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>

struct PrivateBus {
    char *directory, *address;
    GSubprocess *daemon;
};

static const char configuration[] =
    "<!DOCTYPE busconfig PUBLIC \"-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN\"\n"
    " \"http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd\">\n"
    "<busconfig>\n"
    "  <type>system</type>\n"
    "  <listen>unix:path=%s/bus</listen>\n"
    "  <auth>EXTERNAL</auth>\n"
    "  <policy context=\"default\">\n"
    "    <allow user=\"*\"/>\n"
    "    <allow own=\"*\"/>\n"
    "    <allow send_type=\"method_call\"/>\n"
    "    <allow send_type=\"signal\"/>\n"
    "    <allow send_requested_reply=\"true\" send_type=\"method_return\"/>\n"
    "    <allow send_requested_reply=\"true\" send_type=\"error\"/>\n"
    "    <allow receive_type=\"method_call\"/>\n"
    "    <allow receive_type=\"method_return\"/>\n"
    "    <allow receive_type=\"error\"/>\n"
    "    <allow receive_type=\"signal\"/>\n"
    "  </policy>\n"
    "</busconfig>\n";

/* A test that fails cleans nothing up. */
static void
end_with_the_test(void *data)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
}

PrivateBus *
private_bus_new(void)
{
    PrivateBus *bus = g_new0(PrivateBus, 1);
    g_autoptr(GError) error = NULL;

    bus->directory = g_dir_make_tmp("vgpuctl-test-XXXXXX", &error);
    g_assert_no_error(error);
    g_assert_cmpint(chmod(bus->directory, 0755), ==, 0);
    g_autofree char *file = g_build_filename(bus->directory, "bus.conf", NULL);
    g_autofree char *text = g_strdup_printf(configuration, bus->directory);
    g_file_set_contents(file, text, -1, &error);
    g_assert_no_error(error);

    g_autofree char *option = g_strconcat("--config-file=", file, NULL);
    g_autoptr(GSubprocessLauncher) launcher = g_subprocess_launcher_new(G_SUBPROCESS_FLAGS_STDOUT_PIPE);
    g_subprocess_launcher_set_child_setup(launcher, end_with_the_test, NULL, NULL);
    bus->daemon = g_subprocess_launcher_spawn(launcher, &error, "dbus-daemon", option, "--nofork",
                                              "--nopidfile", "--print-address=1", NULL);
    g_assert_no_error(error);
    g_autoptr(GDataInputStream) out = g_data_input_stream_new(g_subprocess_get_stdout_pipe(bus->daemon));
    bus->address = g_data_input_stream_read_line(out, NULL, NULL, &error);
    g_assert_no_error(error);
    g_assert_nonnull(bus->address);
    return bus;
}

void
private_bus_kill(PrivateBus *bus)
{
    if (!bus->daemon)
        return;
    g_subprocess_force_exit(bus->daemon);
    g_subprocess_wait(bus->daemon, NULL, NULL);
    g_clear_object(&bus->daemon);
}

void
private_bus_free(PrivateBus *bus)
{
    g_autoptr(GDir) dir = g_dir_open(bus->directory, 0, NULL);
    const char *name;

    private_bus_kill(bus);
    while (dir && (name = g_dir_read_name(dir))) {
        g_autofree char *path = g_build_filename(bus->directory, name, NULL);
        g_unlink(path);
    }
    g_rmdir(bus->directory);
    g_free(bus->directory);
    g_free(bus->address);
    g_free(bus);
}

const char *
private_bus_address(const PrivateBus *bus)
{
    return bus->address;
}

const char *
private_bus_directory(const PrivateBus *bus)
{
    return bus->directory;
}
