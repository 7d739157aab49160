/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* vgpuctl -H: the service of another host. A stand-in for ssh has the bridge run on this one. */
#include <signal.h>
#include <sys/stat.h>

#include "fixture.h"

/* A directory for $PATH whose ssh writes its arguments to the file ssh.log there. */
static char *
path_with_ssh(const Mock *mock)
{
    g_autofree char *ssh = g_build_filename(mock_directory(mock), "ssh", NULL);
    g_autofree char *script = g_strdup_printf("#!/bin/sh\necho \"$*\" >> %s/ssh.log\nexec "
                                              "systemd-stdio-bridge --bus-path=$DBUS_SYSTEM_BUS_ADDRESS\n",
                                              mock_directory(mock));
    g_autoptr(GError) error = NULL;

    g_file_set_contents(ssh, script, -1, &error);
    g_assert_no_error(error);
    g_assert_cmpint(chmod(ssh, 0755), ==, 0);
    return g_strconcat(mock_directory(mock), ":", g_getenv("PATH"), NULL);
}

static void
test_list(void)
{
    g_autoptr(Mock) mock = mock_new();
    fixture_fill(mock);
    g_autofree char *path = path_with_ssh(mock);
    g_autofree char *log = g_build_filename(mock_directory(mock), "ssh.log", NULL);
    const char *const environment[] = {"PATH", path, NULL};
    const char *const arguments[] = {"-H", "root@far", "list", NULL};
    g_autoptr(Tool) tool = tool_start_with(mock, &(ToolSetting){.environment = environment}, arguments);
    g_autofree char *asked = NULL;

    g_assert_cmpint(tool_wait(tool), ==, 0);
    ASSERT_HAS(tool->out, "aaaa       in-use NVIDIA L40S-2Q 0000:3b:00.4 ");
    /* Users are numbers: this host's names may be others. */
    ASSERT_HAS(tool->out, "/dev/vfio/42    0 4711 ");
    g_assert_true(g_file_get_contents(log, &asked, NULL, NULL));
    g_assert_true(g_str_has_suffix(asked, "root@far systemd-stdio-bridge\n"));
}

static void
test_assign(void)
{
    g_autoptr(Mock) mock = mock_new();
    g_autofree char *path = path_with_ssh(mock);
    const char *const environment[] = {"PATH", path, NULL};
    const char *const arguments[] = {"assign", "--host=far", "L40S-2Q", NULL};
    g_autoptr(Tool) tool = tool_start_with(mock, &(ToolSetting){.environment = environment}, arguments);

    tool_wait_out(tool, "0000:3b:00.1\n");
    g_assert_true(mock_has(mock, "id-1"));
    tool_signal(tool, SIGINT);
    g_assert_cmpint(tool_wait(tool), ==, 0);
}

static void
test_unreachable(void)
{
    g_autoptr(Mock) mock = mock_new();
    const char *const environment[] = {"PATH", "/nonexistent", NULL};
    const char *const arguments[] = {"list", "--host=far", NULL};
    g_autoptr(Tool) tool = tool_start_with(mock, &(ToolSetting){.environment = environment}, arguments);

    g_assert_cmpint(tool_wait(tool), ==, 1);
    ASSERT_HAS(tool->err, "vgpuctl: the system bus of far cannot be reached: ");
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/vgpuctl/host/asks-over-ssh", test_list);
    g_test_add_func("/vgpuctl/host/holds-over-ssh", test_assign);
    g_test_add_func("/vgpuctl/host/unreachable", test_unreachable);
    return g_test_run();
}
