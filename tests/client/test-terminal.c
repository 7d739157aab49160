/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* vgpuctl on a terminal: width, colour and pager. */
#include "fixture.h"

/* Every line of a narrow terminal fits, and nothing that one has to type is shortened. */
static void
test_status_80_columns(void)
{
    g_autoptr(Mock) mock = mock_new();
    fixture_fill(mock);
    mock_add(mock, "0123456789abcdef0123456789abcdef",
             "{'State': <'lingering'>, 'Profile': <'NVIDIA RTX Pro 6000 Blackwell DC-1-24Q'>,"
             " 'Device': <'0000:3b:00.7'>}");
    const char *const arguments[] = {"status", "--no-pager", NULL};
    const char *const environment[] = {"NO_COLOR", "1", NULL};
    g_autoptr(Tool) tool =
        tool_start_with(mock, &(ToolSetting){.terminal = true, .environment = environment}, arguments);
    g_assert_cmpint(tool_wait(tool), ==, 0);

    ASSERT_HAS(tool->out, "0123456789abcdef0123456789abcdef lingering ");
    ASSERT_HAS(tool->out, "0000:3b:00.7");
    g_auto(GStrv) lines = g_strsplit(tool->out->str, "\n", -1);
    for (char **line = lines; *line; line++)
        g_assert_cmpint(g_utf8_strlen(g_strchomp(*line), -1), <=, 80);
}

/* A pager and colour on a terminal; neither into a pipe. */
static void
test_pager(void)
{
    g_autoptr(Mock) mock = mock_new();
    fixture_fill(mock);
    const char *const arguments[] = {"list", NULL};
    const char *const environment[] = {"PAGER", "sed 's/^/paged: /'", NULL};
    g_autoptr(Tool) tool =
        tool_start_with(mock, &(ToolSetting){.terminal = true, .environment = environment}, arguments);
    g_assert_cmpint(tool_wait(tool), ==, 0);
    ASSERT_HAS(tool->out, "paged: aaaa ");
    ASSERT_HAS(tool->out, "\x1b[31m");

    const char *const preferred[] = {"PAGER", "false", "SYSTEMD_PAGER", "sed s/^/other:/", "NO_COLOR",
                                     "1",     NULL};
    g_autoptr(Tool) other =
        tool_start_with(mock, &(ToolSetting){.terminal = true, .environment = preferred}, arguments);
    g_assert_cmpint(tool_wait(other), ==, 0);
    ASSERT_HAS(other->out, "other:aaaa ");
    ASSERT_HAS_NOT(other->out, "\x1b");

    const char *const no_pager[] = {"--no-pager", "list", NULL};
    g_autoptr(Tool) without =
        tool_start_with(mock, &(ToolSetting){.terminal = true, .environment = environment}, no_pager);
    g_assert_cmpint(tool_wait(without), ==, 0);
    ASSERT_HAS_NOT(without->out, "paged");

    g_autoptr(Tool) piped = tool_start_with(mock, &(ToolSetting){.environment = environment}, arguments);
    g_assert_cmpint(tool_wait(piped), ==, 0);
    ASSERT_HAS_NOT(piped->out, "paged");
    ASSERT_HAS_NOT(piped->out, "\x1b");
}

/* One that cannot be started is no reason to show nothing. */
static void
test_pager_missing(void)
{
    g_autoptr(Mock) mock = mock_new();
    fixture_fill(mock);
    const char *const arguments[] = {"list", NULL};
    const char *const environment[] = {"PAGER", "no-such-pager", "PATH", "/nonexistent", NULL};
    g_autoptr(Tool) tool =
        tool_start_with(mock, &(ToolSetting){.terminal = true, .environment = environment}, arguments);
    tool_wait(tool);
    ASSERT_HAS(tool->out, "aaaa ");
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/vgpuctl/status/fits-80-columns", test_status_80_columns);
    g_test_add_func("/vgpuctl/terminal/pager-and-colour", test_pager);
    g_test_add_func("/vgpuctl/terminal/pager-missing", test_pager_missing);
    return g_test_run();
}
