/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* vgpuctl and the text agent of polkit, which asks for a password on the terminal. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fixture.h"

#define COMMAND g_getenv("VGPU_TEST_COMMAND")

/* A copy of @file in the test's directory: the build may be where other users cannot go. */
static char *
copy_for_everyone(const Mock *mock, const char *file, const char *name)
{
    char *copy = g_build_filename(mock_directory(mock), name, NULL);
    g_autofree char *content = NULL;
    g_autoptr(GError) error = NULL;
    size_t length;

    g_file_get_contents(file, &content, &length, &error);
    g_assert_no_error(error);
    g_file_set_contents(copy, content, (gssize)length, &error);
    g_assert_no_error(error);
    g_assert_cmpint(chmod(copy, 0755), ==, 0);
    return copy;
}

/* A fifo that every user may read from; returns its other end. */
static int
make_gate(const char *path)
{
    g_assert_cmpint(mkfifo(path, 0666), ==, 0);
    g_assert_cmpint(chmod(path, 0666), ==, 0);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    g_assert_cmpint(fd, >=, 0);
    return fd;
}

/* On a terminal an unprivileged user's vgpuctl has polkit's text agent registered before it calls, and gone
 * before the command has the terminal. */
static void
test_agent(void)
{
    g_autoptr(Mock) mock = mock_new();
    g_autofree char *tool_copy = copy_for_everyone(mock, g_getenv("VGPU_TEST_VGPUCTL"), "vgpuctl");
    g_autofree char *log = g_build_filename(mock_directory(mock), "agent.log", NULL);
    g_autofree char *gate = g_build_filename(mock_directory(mock), "agent.gate", NULL);
    g_autofree char *path = g_strconcat(mock_directory(mock), ":", g_getenv("PATH"), NULL);
    g_autofree char *script = g_strdup_printf("cat %s; exit 6", log);
    const char *const environment[] = {"PATH", path, "AGENT_LOG", log, "AGENT_GATE", gate, NULL};
    const char *const arguments[] = {"run", "L40S-2Q", "--", "sh", "-c", script, NULL};
    int gate_fd = make_gate(gate);

    g_free(copy_for_everyone(mock, COMMAND, "pkttyagent"));
    g_file_set_contents(log, "", 0, NULL);
    g_assert_cmpint(chmod(log, 0666), ==, 0);
    g_autoptr(Tool) tool = tool_start_with(
        mock,
        &(ToolSetting){
            .terminal = true, .unprivileged = true, .program = tool_copy, .environment = environment},
        arguments);
    g_autofree char *wanted = g_strdup_printf("--process %d,", tool_pid(tool));
    tool_wait_out(tool, "agent waits\r\n");
    mock_sync(mock);
    g_assert_cmpuint(mock_calls(mock, "Assign"), ==, 0);
    g_assert_cmpint(write(gate_fd, "", 1), ==, 1);
    g_assert_cmpint(tool_wait(tool), ==, 6);
    g_assert_true(mock_last_interactive(mock, "Assign"));
    ASSERT_HAS(tool->out, wanted);
    ASSERT_HAS(tool->out, "--fallback\r\nregistered\r\nended\r\n");
    close(gate_fd);
}

static void
test_no_agent(void)
{
    g_autoptr(Mock) mock = mock_new();
    g_autofree char *tool_copy = copy_for_everyone(mock, g_getenv("VGPU_TEST_VGPUCTL"), "vgpuctl");
    g_autofree char *log = g_build_filename(mock_directory(mock), "agent.log", NULL);
    g_autofree char *path = g_strconcat(mock_directory(mock), ":", g_getenv("PATH"), NULL);
    g_autofree char *content = NULL;
    const char *const environment[] = {"PATH", path, "AGENT_LOG", log, NULL};
    const char *const told_not_to[] = {"run", "--no-ask-password", "L40S-2Q", "--", "true", NULL};
    const char *const only_looks[] = {"list", NULL};
    const char *const no_terminal[] = {"run", "L40S-2Q", "--", "true", NULL};
    ToolSetting setting = {
        .terminal = true, .unprivileged = true, .program = tool_copy, .environment = environment};

    g_free(copy_for_everyone(mock, COMMAND, "pkttyagent"));
    g_file_set_contents(log, "", 0, NULL);
    g_assert_cmpint(chmod(log, 0666), ==, 0);
    g_autoptr(Tool) told = tool_start_with(mock, &setting, told_not_to);
    g_assert_cmpint(tool_wait(told), ==, 0);
    g_autoptr(Tool) looks = tool_start_with(mock, &setting, only_looks);
    g_assert_cmpint(tool_wait(looks), ==, 0);
    setting.terminal = false;
    g_autoptr(Tool) piped = tool_start_with(mock, &setting, no_terminal);
    g_assert_cmpint(tool_wait(piped), ==, 0);
    g_file_get_contents(log, &content, NULL, NULL);
    g_assert_cmpstr(content, ==, "");
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/vgpuctl/polkit/agent-around-the-call", test_agent);
    g_test_add_func("/vgpuctl/polkit/no-agent-where-none-is-wanted", test_no_agent);
    return g_test_run();
}
