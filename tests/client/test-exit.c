/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* How vgpuctl fails: each error by its exit status and in one sentence. */
#include <string.h>

#include "fixture.h"

static void
test_exit_codes(void)
{
    static const struct {
        const char *name;
        int status;
    } errors[] = {
        {"org.hypeman.VGPU1.Error.NoFramework", 4},
        {"org.hypeman.VGPU1.Error.UnknownProfile", 4},
        {"org.hypeman.VGPU1.Error.NoCapacity", 4},
        {"org.hypeman.VGPU1.Error.UnknownAssignment", 1},
        {"org.hypeman.VGPU1.Error.InUse", 5},
        {"org.hypeman.VGPU1.Error.UsageUnknown", 5},
        {"org.hypeman.VGPU1.Error.Busy", 1},
        {"org.hypeman.VGPU1.Error.DeviceFailed", 1},
        {"org.freedesktop.DBus.Error.AccessDenied", 3},
        {"org.freedesktop.DBus.Error.InteractiveAuthorizationRequired", 3},
        {"org.freedesktop.DBus.Error.InvalidArgs", 1},
        {"org.freedesktop.DBus.Error.LimitsExceeded", 1},
        {"com.example.Unheard", 1},
    };
    static const struct {
        const char *member, *command, *argument;
    } commands[] = {
        {"Plan", "plan", "P"},       {"Assign", "assign", "P"},   {"Adopt", "adopt", "I"},
        {"Release", "release", "I"}, {"Reclaim", "reclaim", "D"},
    };
    g_autoptr(Mock) mock = mock_new();

    for (size_t i = 0; i < G_N_ELEMENTS(errors); i++) {
        for (size_t k = 0; k < G_N_ELEMENTS(commands); k++) {
            mock_fail(mock, commands[k].member, 0, errors[i].name, "because");
            g_autoptr(Tool) tool =
                tool_run(mock, errors[i].status, commands[k].command, commands[k].argument, NULL);
            g_assert_cmpstr(tool->err->str, ==, "vgpuctl: because\n");
            g_assert_cmpstr(tool->out->str, ==, "");
        }
        mock_fail(mock, "Assign", 0, errors[i].name, "because");
        g_autoptr(Tool) run = tool_run(mock, errors[i].status, "run", "P", "--", "echo", "ran", NULL);
        g_assert_cmpstr(run->err->str, ==, "vgpuctl: because\n");
        g_assert_cmpstr(run->out->str, ==, "");
    }
}

static void
test_no_service(void)
{
    g_autoptr(Mock) mock = mock_new();
    mock_stop(mock);
    g_autoptr(Tool) tool = tool_run(mock, 1, "status", NULL);
    g_assert_true(g_str_has_prefix(tool->err->str, "vgpuctl: the service org.hypeman.VGPU1 does not run"));
    g_assert_cmpint(strchr(tool->err->str, '\n') - tool->err->str, ==, (gssize)tool->err->len - 1);
    mock_kill_bus(mock);
    g_autoptr(Tool) none = tool_run(mock, 1, "status", NULL);
    g_assert_true(g_str_has_prefix(none->err->str, "vgpuctl: the system bus cannot be reached: "));
}

static void
test_usage(void)
{
    static const char *const lines[][6] = {
        {"frobnicate"},
        {"status", "extra"},
        {"status", "--all"},
        {"plan"},
        {"plan", "a", "b"},
        {"plan", "a", "--placement=best"},
        {"plan", "a", "--numa-node=x"},
        {"plan", "a", "--numa-node=99999999999"},
        {"assign", "a", "--format=xml"},
        {"assign", "a", "-n", "2"},
        {"assign", "a", "--label"},
        {"assign", "a", "--label", "\xff"},
        {"assign", "\xff"},
        {"assign", "--", "\xff"},
        {"run", "a"},
        {"run", "a", "--"},
        {"run", "a", "true"},
        {"run", "--", "true"},
        {"run", "a", "-n", "0", "--", "true"},
        {"run", "a", "-n", "-1", "--", "true"},
        {"run", "a", "-n", "2x", "--", "true"},
        {"run", "-H", "elsewhere", "a", "--", "true"},
        {"adopt"},
        {"release"},
        {"release", "--all", "id"},
        {"reclaim"},
        {"monitor", "x"},
        {"--json=yaml"},
        {"--json"},
        {"--quiet=3"},
        {"--no-such"},
        {"-x"},
    };
    g_autoptr(Mock) mock = mock_new();

    for (size_t i = 0; i < G_N_ELEMENTS(lines); i++) {
        g_autoptr(Tool) tool = tool_start_with(mock, &(ToolSetting){0}, lines[i]);
        g_assert_cmpint(tool_wait(tool), ==, 2);
        g_assert_true(g_str_has_prefix(tool->err->str, "vgpuctl: "));
        g_assert_cmpint(strchr(tool->err->str, '\n') - tool->err->str, ==, (gssize)tool->err->len - 1);
        g_assert_cmpstr(tool->out->str, ==, "");
    }
    g_assert_cmpint(mock_calls(mock, "Assign") + mock_calls(mock, "Plan"), ==, 0);
}

/* A call is answered when it is answered, and says that a person may be asked, unless told not to. */
static void
test_interactive(void)
{
    g_autoptr(Mock) mock = mock_new();
    tool_free(tool_run(mock, 0, "reclaim", "0000:3b:00.4", NULL));
    g_assert_true(mock_last_interactive(mock, "Reclaim"));
    g_autoptr(GVariant) wanted = g_variant_ref_sink(g_variant_new("(s)", "0000:3b:00.4"));
    g_assert_true(g_variant_equal(mock_last_arguments(mock, "Reclaim"), wanted));
    tool_free(tool_run(mock, 0, "reclaim", "--no-ask-password", "0000:3b:00.4", NULL));
    g_assert_false(mock_last_interactive(mock, "Reclaim"));
}

static void
test_output_lost(void)
{
    g_autoptr(Mock) mock = mock_new();
    const char *const arguments[] = {"-c", "exec \"$0\" status > /dev/full", g_getenv("VGPU_TEST_VGPUCTL"),
                                     NULL};
    g_autoptr(Tool) tool = tool_start_with(mock, &(ToolSetting){.program = "sh"}, arguments);
    g_assert_cmpint(tool_wait(tool), ==, 1);
    ASSERT_HAS(tool->err, "vgpuctl: the output could not be written: No space left on device\n");
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/vgpuctl/exit/each-error-has-its-status", test_exit_codes);
    g_test_add_func("/vgpuctl/exit/no-service-and-no-bus", test_no_service);
    g_test_add_func("/vgpuctl/exit/usage", test_usage);
    g_test_add_func("/vgpuctl/exit/lost-output-is-a-failure", test_output_lost);
    g_test_add_func("/vgpuctl/polkit/calls-may-ask", test_interactive);
    return g_test_run();
}
