/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* vgpuctl assign and adopt: what is held, and what ends it. */
#include <signal.h>
#include <string.h>

#include "fixture.h"
#include "notify.h"
#include "wait.h"

static void
test_assign_holds(void)
{
    static const int interrupts[] = {SIGINT, SIGTERM, SIGHUP};
    g_autoptr(Mock) mock = mock_new();

    for (size_t i = 0; i < G_N_ELEMENTS(interrupts); i++) {
        g_autofree char *id = g_strdup_printf("id-%zu", i + 1);
        g_autoptr(Tool) tool = tool_start(mock, "assign", "L40S-2Q", NULL);
        tool_wait_out(tool, "0000:3b:00.");
        ASSERT_HAS(tool->out, id);
        g_assert_true(mock_has(mock, id));
        tool_signal(tool, interrupts[i]);
        g_assert_cmpint(tool_wait(tool), ==, 0);
        g_assert_cmpstr(tool->err->str, ==, "");
        /* By then it is given back, and not by a Release, which could hit one who adopted it. */
        g_assert_cmpuint(mock_assignments(mock), ==, 0);
    }
    g_assert_cmpuint(mock_calls(mock, "Release"), ==, 0);
}

static void
test_assign_table(void)
{
    g_autoptr(Mock) mock = mock_new();
    g_autoptr(Tool) tool = tool_start(mock, "assign", "NVIDIA L40S-2Q", NULL);
    tool_wait_out(tool, "0000:3b:00.1\n");
    g_assert_cmpstr(tool->out->str, ==,
                    "ASSIGNMENT STATE    PROFILE        DEVICE\n"
                    "id-1       assigned NVIDIA L40S-2Q 0000:3b:00.1\n");
    tool_signal(tool, SIGINT);
    g_assert_cmpint(tool_wait(tool), ==, 0);
}

/* What `assign PROFILE OPTION` prints, whole. */
static void
check_print(const char *profile, const char *option, const char *wanted)
{
    g_autoptr(Mock) mock = mock_new();
    g_autoptr(Tool) tool = tool_start(mock, "assign", option, profile, NULL);
    tool_wait_out(tool, "\n");
    tool_signal(tool, SIGINT);
    g_assert_cmpint(tool_wait(tool), ==, 0);
    g_assert_cmpstr(tool->out->str, ==, wanted);
}

static void
test_format_qemu(void)
{
    check_print("L40S-2Q", "--format=qemu", "-device vfio-pci,sysfsdev=/sys/bus/pci/devices/0000:3b:00.1\n");
    check_print("T4-2Q", "--format=qemu",
                "-device vfio-pci,sysfsdev=/sys/bus/mdev/devices/00000000-0000-4000-8000-000000000001\n");
}

static void
test_format_libvirt(void)
{
    check_print("L40S-2Q", "--format=libvirt",
                "<hostdev mode='subsystem' type='pci' managed='no'>\n"
                "  <source>\n"
                "    <address domain='0x0000' bus='0x3b' slot='0x00' function='0x1'/>\n"
                "  </source>\n"
                "</hostdev>\n");
    check_print("T4-2Q", "--format=libvirt",
                "<hostdev mode='subsystem' type='mdev' model='vfio-pci'>\n"
                "  <source>\n"
                "    <address uuid='00000000-0000-4000-8000-000000000001'/>\n"
                "  </source>\n"
                "</hostdev>\n");
}

static void
test_format_json(void)
{
    static const char *const options[] = {"--format=json", "--json=pretty", "--json=short"};

    for (size_t i = 0; i < G_N_ELEMENTS(options); i++) {
        g_autoptr(Mock) mock = mock_new();
        g_autoptr(Tool) tool = tool_start(mock, "assign", options[i], "L40S-2Q", NULL);
        tool_wait_out(tool, "}\n");
        g_autoptr(JsonNode) node = fixture_json(tool->out);
        JsonObject *assignment = json_node_get_object(node);
        g_assert_cmpstr(json_object_get_string_member(assignment, "Id"), ==, "id-1");
        g_assert_cmpstr(json_object_get_string_member(assignment, "Profile"), ==, "L40S-2Q");
        g_assert_false(json_object_has_member(assignment, "UUID"));
        tool_signal(tool, SIGINT);
        g_assert_cmpint(tool_wait(tool), ==, 0);
    }
}

static void
test_assign_options(void)
{
    g_autoptr(Mock) mock = mock_new();
    mock_fail(mock, "Assign", 0, "org.hypeman.VGPU1.Error.NoCapacity", "no");
    tool_free(tool_run(mock, 4, "assign", "--gpu=A", "--device=B", "--placement=spread", "--numa-node=1",
                       "--uuid=C", "--label=D", "P", NULL));
    g_autoptr(GVariant) wanted = g_variant_ref_sink(
        g_variant_new_parsed("('P', {'gpu': <'A'>, 'device': <'B'>, 'placement': <'spread'>, 'uuid': <'C'>,"
                             " 'label': <'D'>, 'numa-node': <1>})"));
    g_assert_true(g_variant_equal(mock_last_arguments(mock, "Assign"), wanted));
    g_assert_true(mock_last_interactive(mock, "Assign"));
}

/* While a person is asked an interrupt ends it like any program; nothing is left. */
static void
test_interrupted_dialog(void)
{
    g_autoptr(Mock) mock = mock_new();
    mock_delay(mock, "Assign");
    g_autoptr(Tool) tool = tool_start(mock, "assign", "L40S-2Q", NULL);
    WAIT_UNTIL(mock_calls(mock, "Assign") == 1);
    tool_signal(tool, SIGINT);
    g_assert_cmpint(tool_wait(tool), ==, 128 + SIGINT);
}

static void
test_ready(void)
{
    g_autoptr(Mock) mock = mock_new();
    g_autoptr(Notify) notify = notify_new(mock);
    const char *const environment[] = {"NOTIFY_SOCKET", notify->path, NULL};
    const char *const arguments[] = {"assign", "L40S-2Q", NULL};
    mock_delay(mock, "Assign");
    g_autoptr(Tool) tool = tool_start_with(mock, &(ToolSetting){.environment = environment}, arguments);

    WAIT_UNTIL(mock_calls(mock, "Assign") == 1);
    g_assert_cmpstr(notify->messages->str, ==, "");
    mock_answer(mock);
    WAIT_UNTIL(strstr(notify->messages->str, "READY=1\nSTATUS=Holding assignment id-1\n"));
    g_assert_true(mock_has(mock, "id-1"));
    tool_signal(tool, SIGTERM);
    g_assert_cmpint(tool_wait(tool), ==, 0);
}

/* A hold that nohup protects goes on when the terminal hangs up. */
static void
test_nohup(void)
{
    g_autoptr(Mock) mock = mock_new();
    const char *const arguments[] = {"-c", "trap '' HUP; exec \"$0\" assign L40S-2Q",
                                     g_getenv("VGPU_TEST_VGPUCTL"), NULL};
    g_autoptr(Tool) tool = tool_start_with(mock, &(ToolSetting){.program = "sh"}, arguments);
    tool_wait_out(tool, "0000:3b:00.1\n");
    tool_signal(tool, SIGHUP);
    /* Standard signals come in the order of their numbers: had the first one counted, this were not needed.
     */
    mock_stop(mock);
    tool_wait_err(tool, "the vGPU service has gone");
    mock_start(mock);
    tool_wait_err(tool, "the vGPU service is back");
    g_assert_true(mock_has(mock, "id-1"));
    g_assert_false(tool->exited);
    tool_signal(tool, SIGTERM);
    g_assert_cmpint(tool_wait(tool), ==, 0);
}

static void
test_assign_still_open(void)
{
    g_autoptr(Mock) mock = mock_new();
    mock_set_open(mock, true);
    g_autoptr(Tool) tool = tool_start(mock, "assign", "L40S-2Q", NULL);
    tool_wait_out(tool, "0000:3b:00.1\n");
    mock_change(mock, "id-1", "{'Holders': <['4712 qemu']>}");
    tool_signal(tool, SIGINT);
    g_assert_cmpint(tool_wait(tool), ==, 5);
    g_assert_cmpstr(
        tool->err->str, ==,
        "vgpuctl: the vGPU on 0000:3b:00.1 is still open in 4712 qemu: it is given back when it is "
        "closed\n");
}

static void
test_assign_ends(void)
{
    static const struct {
        const char *reason;
        int status;
    } endings[] = {{"released", 0}, {"lost", 1}, {"reclaimed", 1}};
    g_autoptr(Mock) mock = mock_new();

    for (size_t i = 0; i < G_N_ELEMENTS(endings); i++) {
        g_autofree char *id = g_strdup_printf("id-%zu", i + 1);
        g_autofree char *wanted =
            g_strdup_printf("assignment %s, is no longer assigned (%s)\n", id, endings[i].reason);
        g_autoptr(Tool) tool = tool_start(mock, "assign", "L40S-2Q", NULL);
        tool_wait_out(tool, "0000:3b:00.");
        mock_end(mock, id, endings[i].reason);
        g_assert_cmpint(tool_wait(tool), ==, endings[i].status);
        ASSERT_HAS(tool->err, wanted);
    }
}

static void
test_assign_bus_lost(void)
{
    g_autoptr(Mock) mock = mock_new();
    g_autoptr(Tool) tool = tool_start(mock, "assign", "L40S-2Q", NULL);
    tool_wait_out(tool, "0000:3b:00.1\n");
    mock_kill_bus(mock);
    g_assert_cmpint(tool_wait(tool), ==, 1);
    g_assert_cmpstr(tool->err->str, ==,
                    "vgpuctl: the connection to the bus is lost, and what was held with it\n");
}

static void
test_quiet(void)
{
    g_autoptr(Mock) mock = mock_new();
    const char *const arguments[] = {"assign", "-q", "L40S-2Q", NULL};
    const char *const usual[] = {"assign", "L40S-2Q", NULL};
    g_autoptr(Tool) quiet = tool_start_with(mock, &(ToolSetting){.terminal = true}, arguments);
    g_autoptr(Tool) tool = tool_start_with(mock, &(ToolSetting){.terminal = true}, usual);

    tool_wait_out(tool, "vgpuctl: holding it until interrupted\r\n");
    tool_wait_out(quiet, "0000:3b:00.");
    mock_stop(mock);
    tool_wait_out(tool, "service has gone");
    mock_start(mock);
    tool_wait_out(tool, "service is back");
    tool_type(tool, "\003");
    tool_type(quiet, "\003");
    g_assert_cmpint(tool_wait(tool), ==, 0);
    g_assert_cmpint(tool_wait(quiet), ==, 0);
    ASSERT_HAS_NOT(quiet->out, "vgpuctl:");
}

/* The second takes it over; the first sees it, ends, and takes nothing away. */
static void
test_adopt(void)
{
    g_autoptr(Mock) mock = mock_new();
    g_autoptr(Tool) first = tool_start(mock, "assign", "L40S-2Q", NULL);
    tool_wait_out(first, "0000:3b:00.1\n");
    g_autoptr(Tool) second = tool_start(mock, "adopt", "--format=qemu", "id-1", NULL);
    tool_wait_out(second, "-device vfio-pci,sysfsdev=/sys/bus/pci/devices/0000:3b:00.1\n");
    g_assert_cmpint(tool_wait(first), ==, 0);
    ASSERT_HAS(first->err, "assignment id-1, was taken over by :");
    g_assert_true(mock_has(mock, "id-1"));
    tool_signal(second, SIGINT);
    g_assert_cmpint(tool_wait(second), ==, 0);
    g_assert_cmpuint(mock_assignments(mock), ==, 0);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/vgpuctl/assign/holds-until-interrupted", test_assign_holds);
    g_test_add_func("/vgpuctl/assign/table", test_assign_table);
    g_test_add_func("/vgpuctl/assign/format-qemu", test_format_qemu);
    g_test_add_func("/vgpuctl/assign/format-libvirt", test_format_libvirt);
    g_test_add_func("/vgpuctl/assign/format-json", test_format_json);
    g_test_add_func("/vgpuctl/assign/passes-every-option", test_assign_options);
    g_test_add_func("/vgpuctl/assign/interrupted-while-asked", test_interrupted_dialog);
    g_test_add_func("/vgpuctl/assign/ready-when-held", test_ready);
    g_test_add_func("/vgpuctl/assign/nohup-is-kept", test_nohup);
    g_test_add_func("/vgpuctl/assign/says-what-stays-open", test_assign_still_open);
    g_test_add_func("/vgpuctl/assign/ends-with-the-assignment", test_assign_ends);
    g_test_add_func("/vgpuctl/assign/ends-with-the-bus", test_assign_bus_lost);
    g_test_add_func("/vgpuctl/assign/quiet", test_quiet);
    g_test_add_func("/vgpuctl/adopt/takes-over-and-holds", test_adopt);
    return g_test_run();
}
