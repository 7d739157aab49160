/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* vgpuctl release: what is given back, and what the failures make of the exit status. */
#include <unistd.h>

#include "fixture.h"
#include "wait.h"

static void
test_release_ids(void)
{
    g_autoptr(Mock) mock = mock_new();
    mock_add(mock, "a", "{'UID': <uint32 1>}");
    mock_add(mock, "b", "{'UID': <uint32 1>}");
    g_autoptr(Tool) tool = tool_run(mock, 1, "release", "nonsense", "a", "b", NULL);
    g_assert_cmpstr(tool->out->str, ==, "");
    g_assert_cmpstr(tool->err->str, ==, "vgpuctl: there is no assignment of that id\n");
    g_assert_cmpuint(mock_assignments(mock), ==, 0);
}

static void
test_release_worst(void)
{
    g_autoptr(Mock) mock = mock_new();
    mock_add(mock, "a", "{'UID': <uint32 0>}");
    mock_add(mock, "b", "{'UID': <uint32 0>}");
    mock_add(mock, "c", "{'UID': <uint32 0>}");
    mock_fail(mock, "Release", 1, "org.hypeman.VGPU1.Error.InUse", "it is open");
    g_autoptr(Tool) tool = tool_run(mock, 5, "release", "a", "b", "c", NULL);
    g_assert_cmpstr(tool->err->str, ==, "vgpuctl: it is open\nvgpuctl: it is open\n");
    g_assert_cmpuint(mock_assignments(mock), ==, 2);
}

/* Root empties the host; anybody else gives back what is their own. */
static void
test_release_all(void)
{
    g_autoptr(Mock) mock = mock_new();
    g_autofree char *copy = g_build_filename(mock_directory(mock), "vgpuctl", NULL);
    g_autofree char *content = NULL;
    size_t length;

    g_file_get_contents(g_getenv("VGPU_TEST_VGPUCTL"), &content, &length, NULL);
    g_file_set_contents_full(copy, content, (gssize)length, G_FILE_SET_CONTENTS_NONE, 0755, NULL);
    mock_add(mock, "root's", "{'UID': <uint32 0>}");
    mock_add(mock, "nobody's", "{'UID': <uint32 65534>}");
    mock_add(mock, "other's", "{'UID': <uint32 4242>}");
    const char *const arguments[] = {"release", "--all", NULL};
    g_autoptr(Tool) nobody =
        tool_start_with(mock, &(ToolSetting){.unprivileged = true, .program = copy}, arguments);
    g_assert_cmpint(tool_wait(nobody), ==, 0);
    if (geteuid() != 0)
        return;
    g_assert_false(mock_has(mock, "nobody's"));
    g_assert_cmpuint(mock_assignments(mock), ==, 2);
    tool_free(tool_run(mock, 0, "release", "--all", NULL));
    g_assert_cmpuint(mock_assignments(mock), ==, 0);
    tool_free(tool_run(mock, 0, "release", "--all", NULL));
}

/* The calls take as long as they take: the answer comes when it comes. */
static void
test_release_waits(void)
{
    g_autoptr(Mock) mock = mock_new();
    mock_add(mock, "a", "{'UID': <uint32 0>}");
    mock_delay(mock, "Release");
    g_autoptr(Tool) tool = tool_start(mock, "release", "a", NULL);
    WAIT_UNTIL(mock_calls(mock, "Release") == 1);
    g_assert_false(tool->exited);
    mock_answer(mock);
    g_assert_cmpint(tool_wait(tool), ==, 0);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/vgpuctl/release/goes-on-after-a-failure", test_release_ids);
    g_test_add_func("/vgpuctl/release/exits-with-the-worst", test_release_worst);
    g_test_add_func("/vgpuctl/release/all-of-the-caller", test_release_all);
    g_test_add_func("/vgpuctl/release/waits", test_release_waits);
    return g_test_run();
}
