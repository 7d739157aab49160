/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* vgpuctl run: a command under a vGPU. */
#include <signal.h>
#include <string.h>

#include "fixture.h"
#include "notify.h"
#include "wait.h"

#define COMMAND g_getenv("VGPU_TEST_COMMAND")

static void
test_status(void)
{
    static const struct {
        const char *script;
        int status;
    } commands[] = {
        {"exit 0", 0},     {"exit 1", 1},          {"exit 5", 5},
        {"exit 255", 255}, {"kill -KILL $$", 137}, {"kill -TERM $$", 143},
    };
    g_autoptr(Mock) mock = mock_new();

    for (size_t i = 0; i < G_N_ELEMENTS(commands); i++) {
        g_autoptr(Tool) tool =
            tool_run(mock, commands[i].status, "run", "L40S-2Q", "--", "sh", "-c", commands[i].script, NULL);
        g_assert_cmpstr(tool->err->str, ==, "");
    }
    g_assert_cmpuint(mock_calls(mock, "Assign"), ==, G_N_ELEMENTS(commands));
    g_assert_cmpuint(mock_assignments(mock), ==, 0);
}

static void
test_cannot_run(void)
{
    g_autoptr(Mock) mock = mock_new();
    g_autoptr(Tool) missing = tool_run(mock, 127, "run", "L40S-2Q", "--", "no-such-command", NULL);
    g_assert_cmpstr(missing->err->str, ==,
                    "vgpuctl: \"no-such-command\" cannot be run: No such file or directory\n");
    g_autoptr(Tool) unfit = tool_run(mock, 126, "run", "L40S-2Q", "--", "/", NULL);
    g_assert_cmpstr(unfit->err->str, ==, "vgpuctl: \"/\" cannot be run: Permission denied\n");
    g_assert_cmpuint(mock_assignments(mock), ==, 0);
}

static void
test_environment_vf(void)
{
    g_autoptr(Mock) mock = mock_new();
    g_autoptr(Tool) tool = tool_run(mock, 0, "run", "L40S-2Q", "--", "env", NULL);

    ASSERT_HAS(tool->out, "VGPU_ID=id-1\n");
    ASSERT_HAS(tool->out, "VGPU_PROFILE=L40S-2Q\n");
    ASSERT_HAS(tool->out, "VGPU_DEVICE=/sys/bus/pci/devices/0000:3b:00.1\n");
    ASSERT_HAS(tool->out, "VGPU_GROUP_NODE=/dev/vfio/101\n");
    ASSERT_HAS_NOT(tool->out, "VGPU_UUID");
}

/* What the surroundings say of another vGPU is not passed off as ours. */
static void
test_environment_stale(void)
{
    g_autoptr(Mock) mock = mock_new();
    const char *const environment[] = {"VGPU_UUID", "stale", "VGPU_ID", "stale", NULL};
    const char *const arguments[] = {"run", "L40S-2Q", "--", "env", NULL};
    g_autoptr(Tool) tool = tool_start_with(mock, &(ToolSetting){.environment = environment}, arguments);
    g_assert_cmpint(tool_wait(tool), ==, 0);
    ASSERT_HAS_NOT(tool->out, "stale");
    ASSERT_HAS(tool->out, "VGPU_ID=id-1\n");
}

static void
test_placeholders_vf(void)
{
    g_autoptr(Mock) mock = mock_new();
    g_autoptr(Tool) tool = tool_run(mock, 0, "run", "L40S-2Q", "--", "printf", "<%s>", "-device",
                                    "{qemu},id=x", "{device}", "{other}", "", NULL);
    g_assert_cmpstr(tool->out->str, ==,
                    "<-device><vfio-pci,sysfsdev=/sys/bus/pci/devices/0000:3b:00.1,id=x>"
                    "</sys/bus/pci/devices/0000:3b:00.1><{other}><>");
}

static void
test_placeholders_mdev(void)
{
    g_autoptr(Mock) mock = mock_new();
    g_autoptr(Tool) tool =
        tool_run(mock, 0, "run", "T4-2Q", "--", "sh", "-c", "echo $VGPU_UUID {uuid} {device}", NULL);
    g_assert_cmpstr(tool->out->str, ==,
                    "00000000-0000-4000-8000-000000000001 00000000-0000-4000-8000-000000000001 "
                    "/sys/bus/mdev/devices/00000000-0000-4000-8000-000000000001\n");
}

/* A virtual function has no UUID: nothing is run, nothing kept. */
static void
test_placeholder_unknown(void)
{
    g_autoptr(Mock) mock = mock_new();
    g_autoptr(Tool) tool = tool_run(mock, 1, "run", "L40S-2Q", "--", "echo", "{uuid}", NULL);
    g_assert_cmpstr(tool->out->str, ==, "");
    ASSERT_HAS(tool->err, "vgpuctl: there is nothing to put for {uuid}");
    g_assert_cmpuint(mock_assignments(mock), ==, 0);
}

static void
test_several(void)
{
    g_autoptr(Mock) mock = mock_new();
    g_autoptr(Tool) tool =
        tool_run(mock, 0, "run", "NVIDIA L40S-2Q", "-n", "2", "--", "sh", "-c",
                 "printf '<%s>' \"$VGPU_ID\" \"$VGPU_PROFILE\" \"$VGPU_DEVICE\" \"$VGPU_GROUP_NODE\" \"$@\"",
                 "sh", "-m", "1", "-device", "{qemu}", "plain", "--dev={device}", NULL);
    g_assert_cmpstr(tool->out->str, ==,
                    "<id-1 id-2><NVIDIA L40S-2Q>"
                    "</sys/bus/pci/devices/0000:3b:00.1 /sys/bus/pci/devices/0000:3b:00.2>"
                    "</dev/vfio/101 /dev/vfio/102>"
                    "<-m><1>"
                    "<-device><vfio-pci,sysfsdev=/sys/bus/pci/devices/0000:3b:00.1>"
                    "<-device><vfio-pci,sysfsdev=/sys/bus/pci/devices/0000:3b:00.2>"
                    "<plain>"
                    "<--dev=/sys/bus/pci/devices/0000:3b:00.1><--dev=/sys/bus/pci/devices/0000:3b:00.2>");
    g_assert_cmpuint(mock_assignments(mock), ==, 0);
}

/* The third is refused: the command does not run, and the two are given back before vgpuctl says so. */
static void
test_all_or_none(void)
{
    g_autoptr(Mock) mock = mock_new();
    mock_fail(mock, "Assign", 2, "org.hypeman.VGPU1.Error.NoCapacity", "all cards are full");
    g_autoptr(Tool) tool = tool_run(mock, 4, "run", "-n3", "L40S-2Q", "--", "echo", "ran", NULL);
    g_assert_cmpstr(tool->out->str, ==, "");
    g_assert_cmpstr(tool->err->str, ==,
                    "vgpuctl: only 2 of 3 could be taken, and were given back: all cards are full\n");
    g_assert_cmpuint(mock_assignments(mock), ==, 0);
}

static void
test_signals(void)
{
    g_autoptr(Mock) mock = mock_new();
    g_autoptr(Tool) tool = tool_start(mock, "run", "L40S-2Q", "--", COMMAND, "7", NULL);
    static const struct {
        int number;
        const char *text;
    } signals[] = {
        {SIGINT, "got INT\n"},   {SIGTERM, "got TERM\n"}, {SIGHUP, "got HUP\n"},     {SIGQUIT, "got QUIT\n"},
        {SIGUSR1, "got USR1\n"}, {SIGUSR2, "got USR2\n"}, {SIGWINCH, "got WINCH\n"},
    };

    tool_wait_out(tool, "up\n");
    for (size_t i = 0; i < G_N_ELEMENTS(signals); i++) {
        tool_signal(tool, signals[i].number);
        tool_wait_out(tool, signals[i].text);
    }
    g_assert_cmpint(tool_wait(tool), ==, 9);
}

/* A key reaches the command from the terminal: once, not twice. */
static void
test_terminal_key(void)
{
    g_autoptr(Mock) mock = mock_new();
    const char *const arguments[] = {"run", "L40S-2Q", "--", COMMAND, "2", NULL};
    g_autoptr(Tool) tool = tool_start_with(mock, &(ToolSetting){.terminal = true}, arguments);

    tool_wait_out(tool, "up\r\n");
    tool_type(tool, "\003");
    tool_wait_out(tool, "got INT\r\n");
    tool_signal(tool, SIGUSR1);
    g_assert_cmpint(tool_wait(tool), ==, 9);
    ASSERT_HAS(tool->out, "got INT\r\ngot USR1\r\n");
}

/* A signal that was ignored or blocked outside is not so inside, and the command finds them as they were. */
static void
test_signal_dispositions(void)
{
    g_autoptr(Mock) mock = mock_new();
    const char *const arguments[] = {"--default-signal", /* whatever the test was started with */
                                     "--ignore-signal=CHLD",
                                     "--ignore-signal=USR1",
                                     g_getenv("VGPU_TEST_VGPUCTL"),
                                     "run",
                                     "L40S-2Q",
                                     "--",
                                     "grep",
                                     "-E",
                                     "Sig(Blk|Ign)",
                                     "/proc/self/status",
                                     NULL};
    g_autoptr(Tool) tool = tool_start_with(mock, &(ToolSetting){.program = "env"}, arguments);
    g_assert_cmpint(tool_wait(tool), ==, 0);
    ASSERT_HAS(tool->out, "SigBlk:\t0000000000000000\n");
    ASSERT_HAS(tool->out, "SigIgn:\t0000000000000200\n");
}

static void
test_given_back_last(void)
{
    g_autoptr(Mock) mock = mock_new();
    mock_set_slow(mock, true);
    g_autoptr(Tool) tool = tool_start(mock, "run", "L40S-2Q", "--", COMMAND, "1", NULL);

    tool_wait_out(tool, "up\n");
    g_assert_true(mock_has(mock, "id-1"));
    g_assert_false(mock_is_clearing(mock));
    tool_signal(tool, SIGTERM);
    WAIT_UNTIL(mock_is_clearing(mock));
    /* The command has ended, and vgpuctl waits until the device is clear. */
    tool_wait_out(tool, "got TERM\n");
    g_assert_false(tool->exited);
    mock_clear(mock);
    g_assert_cmpint(tool_wait(tool), ==, 9);
    /* By the end of the connection: a Release could hit one who has adopted it. */
    g_assert_cmpuint(mock_calls(mock, "Release"), ==, 0);
}

/* A child that the command left behind has the device open: the status stays the command's. */
static void
test_still_open(void)
{
    g_autoptr(Mock) mock = mock_new();
    mock_set_open(mock, true);
    g_autoptr(Tool) tool = tool_run(mock, 3, "run", "L40S-2Q", "--", "sh", "-c", "exit 3", NULL);
    g_assert_cmpstr(tool->err->str, ==,
                    "vgpuctl: the vGPU on 0000:3b:00.1 is still open: it is given back when it is closed\n");
}

static void
test_lost(void)
{
    g_autoptr(Mock) mock = mock_new();
    g_autoptr(Tool) tool = tool_start(mock, "run", "L40S-2Q", "--", COMMAND, "1", NULL);

    tool_wait_out(tool, "up\n");
    mock_end(mock, "id-1", "lost");
    tool_wait_err(tool,
                  "vgpuctl: the vGPU L40S-2Q on 0000:3b:00.1, assignment id-1, is no longer assigned (lost): "
                  "the command keeps running\n");
    tool_signal(tool, SIGTERM);
    g_assert_cmpint(tool_wait(tool), ==, 9);
}

/* Who may speak to us may not speak for the service. */
static void
test_forged(void)
{
    g_autoptr(Mock) mock = mock_new();
    g_autoptr(Tool) tool = tool_start(mock, "run", "L40S-2Q", "-n2", "--", COMMAND, "1", NULL);

    tool_wait_out(tool, "up\n");
    mock_forge_removed(mock, mock_owner(mock, "id-1"), "id-1");
    mock_end(mock, "id-2", "lost");
    tool_wait_err(tool, "assignment id-2, is no longer");
    ASSERT_HAS_NOT(tool->err, "id-1");
    tool_signal(tool, SIGTERM);
    g_assert_cmpint(tool_wait(tool), ==, 9);
}

static void
test_service_restarts(void)
{
    g_autoptr(Mock) mock = mock_new();
    g_autoptr(Tool) tool = tool_start(mock, "run", "L40S-2Q", "-n2", "--", COMMAND, "1", NULL);

    tool_wait_out(tool, "up\n");
    mock_stop(mock);
    tool_wait_err(tool, "vgpuctl: the vGPU service has gone: what it assigned stays so until it is back\n");
    mock_forget(mock, "id-2");
    mock_start(mock);
    tool_wait_err(tool, "vgpuctl: the vGPU service is back\n");
    tool_wait_err(tool,
                  "assignment id-2, is unknown to the service since it is back: the command keeps running\n");
    ASSERT_HAS_NOT(tool->err, "id-1");
    tool_signal(tool, SIGTERM);
    g_assert_cmpint(tool_wait(tool), ==, 9);
    g_assert_cmpuint(mock_assignments(mock), ==, 0);
}

static void
test_bus_lost(void)
{
    g_autoptr(Mock) mock = mock_new();
    g_autoptr(Tool) tool = tool_start(mock, "run", "L40S-2Q", "--", COMMAND, "1", NULL);

    tool_wait_out(tool, "up\n");
    mock_kill_bus(mock);
    tool_wait_err(tool, "vgpuctl: the connection to the bus is lost, and what was held with it: "
                        "the command keeps running\n");
    tool_signal(tool, SIGTERM);
    tool_wait_out(tool, "got TERM\n");
    g_assert_cmpint(tool_wait(tool), ==, 9);
}

/* READY=1 once the device is held; the command is not tempted to speak in our place. */
static void
test_ready(void)
{
    g_autoptr(Mock) mock = mock_new();
    g_autoptr(Notify) notify = notify_new(mock);
    mock_delay(mock, "Assign");
    const char *const environment[] = {"NOTIFY_SOCKET", notify->path, "WATCHDOG_USEC", "600000000", NULL};
    const char *const arguments[] = {
        "run", "L40S-2Q", "--",
        "sh",  "-c",      "echo up; echo ${NOTIFY_SOCKET-none} ${WATCHDOG_USEC-none}; read x",
        NULL};
    g_autoptr(Tool) tool =
        tool_start_with(mock, &(ToolSetting){.terminal = true, .environment = environment}, arguments);

    WAIT_UNTIL(mock_calls(mock, "Assign") == 1);
    g_assert_cmpstr(notify->messages->str, ==, "");
    mock_answer(mock);
    tool_wait_out(tool, "up\r\nnone none\r\n");
    WAIT_UNTIL(strstr(notify->messages->str, "READY=1\n"));
    g_assert_null(strstr(notify->messages->str, "STOPPING"));
    tool_type(tool, "\n");
    g_assert_cmpint(tool_wait(tool), ==, 0);
    WAIT_UNTIL(strstr(notify->messages->str, "STOPPING=1"));
}

/* vgpuctl is killed: the connection ends, and the command keeps what it has open. */
static void
test_killed(void)
{
    g_autoptr(Mock) mock = mock_new();
    mock_set_open(mock, true);
    g_autoptr(Tool) tool =
        tool_start(mock, "run", "L40S-2Q", "--", "sh", "-c", "echo $$; exec \"$0\" 1", COMMAND, NULL);

    tool_wait_out(tool, "up\n");
    int command = atoi(tool->out->str);
    tool_signal(tool, SIGKILL);
    WAIT_UNTIL(tool->exited);
    g_assert_cmpint(kill(command, 0), ==, 0);
    kill(command, SIGTERM);
    tool_wait_out(tool, "got TERM\n");
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/vgpuctl/run/passes-the-status", test_status);
    g_test_add_func("/vgpuctl/run/says-what-cannot-be-run", test_cannot_run);
    g_test_add_func("/vgpuctl/run/environment-of-a-virtual-function", test_environment_vf);
    g_test_add_func("/vgpuctl/run/environment-is-never-stale", test_environment_stale);
    g_test_add_func("/vgpuctl/run/placeholders-of-a-virtual-function", test_placeholders_vf);
    g_test_add_func("/vgpuctl/run/placeholders-of-an-mdev", test_placeholders_mdev);
    g_test_add_func("/vgpuctl/run/placeholder-without-a-value", test_placeholder_unknown);
    g_test_add_func("/vgpuctl/run/several-repeat-their-options", test_several);
    g_test_add_func("/vgpuctl/run/all-or-none", test_all_or_none);
    g_test_add_func("/vgpuctl/run/forwards-signals", test_signals);
    g_test_add_func("/vgpuctl/run/a-key-comes-once", test_terminal_key);
    g_test_add_func("/vgpuctl/run/leaves-signals-as-they-were", test_signal_dispositions);
    g_test_add_func("/vgpuctl/run/gives-back-after-the-end", test_given_back_last);
    g_test_add_func("/vgpuctl/run/says-what-stays-open", test_still_open);
    g_test_add_func("/vgpuctl/run/lost-device-leaves-the-command", test_lost);
    g_test_add_func("/vgpuctl/run/hears-only-the-service", test_forged);
    g_test_add_func("/vgpuctl/run/outlives-the-service", test_service_restarts);
    g_test_add_func("/vgpuctl/run/outlives-the-bus", test_bus_lost);
    g_test_add_func("/vgpuctl/run/outlived-by-the-command", test_killed);
    g_test_add_func("/vgpuctl/run/ready-when-held", test_ready);
    return g_test_run();
}
