/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* vgpuctl monitor: one line for each change. */
#include <signal.h>
#include <string.h>

#include "fixture.h"
#include "notify.h"
#include "wait.h"

/* Returns when it listens. */
static Tool *
start_monitor(Mock *mock, const char *option)
{
    g_autoptr(Notify) notify = notify_new(mock);
    const char *const environment[] = {"NOTIFY_SOCKET", notify->path, NULL};
    const char *const arguments[] = {"monitor", option, NULL};
    Tool *tool = tool_start_with(mock, &(ToolSetting){.environment = environment}, arguments);

    WAIT_UNTIL(strstr(notify->messages->str, "READY=1"));
    g_assert_cmpstr(tool->out->str, ==, "");
    return tool;
}

static void
test_monitor_lines(void)
{
    g_autoptr(Mock) mock = mock_new();
    fixture_fill(mock);
    g_autoptr(Tool) tool = start_monitor(mock, "--no-pager");

    mock_add(mock, "cccc",
             "{'State': <'assigned'>, 'Profile': <'NVIDIA L40S-2Q'>, 'Device': <'0000:3b:00.7'>,"
             " 'Owner': <':1.5'>}");
    mock_set(mock, "Framework", "'mixed'");
    tool_wait_out(tool, " framework changed: vendor-vfio -> mixed\n");
    tool_wait_out(tool, " assignment cccc added: Profile NVIDIA L40S-2Q, Device 0000:3b:00.7, Owner :1.5\n");
    mock_change(mock, "cccc", "{'State': <'in-use'>}");
    tool_wait_out(tool, " assignment cccc changed: State assigned -> in-use\n");
    mock_change(mock, "cccc", "{'Error': <'two\\nlines'>}");
    tool_wait_out(tool, " assignment cccc changed: Error - -> two lines\n");
    mock_end(mock, "cccc", "owner-vanished");
    tool_wait_out(tool, " assignment cccc removed: owner-vanished\n");
    mock_set(mock, "GPUs", "[{'Address': <'0000:3b:00.0'>, 'Slots': <uint32 2>}]");
    tool_wait_out(tool, " card 0000:af:00.0 removed\n");
    tool_wait_out(tool, " card 0000:3b:00.0 changed: Slots 32 -> 2, ");
    mock_set(mock, "GPUs", "[{'Address': <'0000:3b:00.0'>, 'Occupied': <[{'Slot': <'one'>}]>}]");
    tool_wait_out(tool, "Occupied - -> 1");
    mock_set(mock, "GPUs", "[{'Address': <'0000:3b:00.0'>, 'Occupied': <[{'Slot': <'another'>}]>}]");
    tool_wait_out(tool, " card 0000:3b:00.0 changed: Occupied differs\n");
    mock_set(mock, "Profiles",
             "[{'Name': <'NVIDIA L40S-2A'>, 'Available': <uint32 29>},"
             " {'Name': <'NEW'>}]");
    tool_wait_out(tool, " profile ODD-4-96 removed\n");
    tool_wait_out(tool, " profile NEW added\n");
    tool_wait_out(tool, " profiles changed: NVIDIA L40S-2A Available 30 -> 29");
    tool_signal(tool, SIGINT);
    g_assert_cmpint(tool_wait(tool), ==, 0);
    g_auto(GStrv) lines = g_strsplit(tool->out->str, "cccc removed", -1);
    g_assert_cmpuint(g_strv_length(lines), ==, 2);
}

static void
test_monitor_json(void)
{
    g_autoptr(Mock) mock = mock_new();
    g_autoptr(Tool) tool = start_monitor(mock, "--json=pretty");

    mock_add(mock, "cccc", "{'State': <'assigned'>}");
    tool_wait_out(tool, "\"added\"");
    mock_change(mock, "cccc", "{'State': <'in-use'>}");
    tool_wait_out(tool, "\"in-use\"");
    mock_end(mock, "cccc", "lost");
    tool_wait_out(tool, "\"AssignmentRemoved\"");
    mock_stop(mock);
    tool_wait_out(tool, "\"stopped\"");
    tool_signal(tool, SIGTERM);
    g_assert_cmpint(tool_wait(tool), ==, 0);

    g_auto(GStrv) lines = g_strsplit(g_strchomp(tool->out->str), "\n", -1);
    JsonObject *last = NULL;
    g_autoptr(JsonNode) kept = NULL;
    for (char **line = lines; *line; line++) {
        g_autoptr(JsonNode) node = json_from_string(*line, NULL);
        g_assert_nonnull(node);
        JsonObject *object = json_node_get_object(node);
        g_assert_true(json_object_has_member(object, "Time"));
        if (!g_strcmp0(json_object_get_string_member_with_default(object, "Change", ""), "changed") &&
            json_object_has_member(object, "Id")) {
            kept = g_steal_pointer(&node);
            last = object;
        }
    }
    g_assert_nonnull(last);
    JsonObject *before = json_object_get_object_member(last, "Before");
    JsonObject *after = json_object_get_object_member(last, "After");
    g_assert_cmpstr(json_object_get_string_member(before, "State"), ==, "assigned");
    g_assert_cmpstr(json_object_get_string_member(after, "State"), ==, "in-use");
    g_assert_cmpint(json_object_get_size(after), ==, 1);
}

/* A service that comes back is compared with what was told before; one that is gone is not brought back. */
static void
test_monitor_service(void)
{
    g_autoptr(Mock) mock = mock_new();
    mock_add(mock, "a", "{'State': <'assigned'>}");
    mock_add(mock, "b", "{'State': <'assigned'>}");
    g_autoptr(Tool) tool = start_monitor(mock, "--no-pager");

    mock_stop(mock);
    tool_wait_out(tool, " service stopped\n");
    mock_forget(mock, "a");
    mock_start(mock);
    tool_wait_out(tool, " service started\n");
    tool_wait_out(tool, " assignment a removed\n");
    ASSERT_HAS_NOT(tool->out, "assignment b");
    mock_kill_bus(mock);
    g_assert_cmpint(tool_wait(tool), ==, 1);
    g_assert_cmpstr(tool->err->str, ==, "vgpuctl: the connection to the bus is lost\n");
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/vgpuctl/monitor/one-line-per-change", test_monitor_lines);
    g_test_add_func("/vgpuctl/monitor/json-one-object-per-line", test_monitor_json);
    g_test_add_func("/vgpuctl/monitor/follows-the-service", test_monitor_service);
    return g_test_run();
}
