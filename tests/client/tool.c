/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "tool.h"

#include <gio/gunixinputstream.h>
#include <grp.h>
#include <pty.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "wait.h"

#define NOBODY 65534

static void read_more(Tool *tool, GInputStream *stream, GString *text);

typedef struct {
    Tool *tool;
    GInputStream *stream;
    GString *text;
    char buffer[4096];
} Reading;

static void
on_read(GObject *source, GAsyncResult *result, void *data)
{
    g_autofree Reading *reading = data;
    /* The master side of a terminal says EIO when nobody has the other side any more. */
    gssize n = g_input_stream_read_finish(reading->stream, result, NULL);

    if (n > 0) {
        g_string_append_len(reading->text, reading->buffer, n);
        read_more(reading->tool, reading->stream, reading->text);
    } else {
        reading->tool->open_ends--;
    }
    g_object_unref(reading->stream);
}

static void
read_more(Tool *tool, GInputStream *stream, GString *text)
{
    Reading *reading = g_new0(Reading, 1);
    reading->tool = tool;
    reading->stream = g_object_ref(stream);
    reading->text = text;
    g_input_stream_read_async(stream, reading->buffer, sizeof reading->buffer, G_PRIORITY_DEFAULT, NULL,
                              on_read, reading);
}

static void
on_exited(GObject *source, GAsyncResult *result, void *data)
{
    Tool *tool = data;
    g_subprocess_wait_finish(tool->process, result, NULL);
    tool->status = g_subprocess_get_status(tool->process);
    tool->exited = true;
}

static void
become_unprivileged(const ToolSetting *setting)
{
    if (!setting->unprivileged || geteuid() != 0)
        return;
    if (setgroups(0, NULL) < 0 || setresgid(NOBODY, NOBODY, NOBODY) < 0 ||
        setresuid(NOBODY, NOBODY, NOBODY) < 0)
        _exit(99);
}

static void
in_child(void *data)
{
    const ToolSetting *setting = data;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (setting->terminal && (setsid() < 0 || ioctl(STDIN_FILENO, TIOCSCTTY, 0) < 0))
        _exit(98);
    become_unprivileged(setting);
}

static GSubprocessLauncher *
new_launcher(const Mock *mock, const ToolSetting *setting)
{
    GSubprocessLauncher *launcher = g_subprocess_launcher_new(
        setting->terminal ? G_SUBPROCESS_FLAGS_NONE
                          : G_SUBPROCESS_FLAGS_STDOUT_PIPE | G_SUBPROCESS_FLAGS_STDERR_PIPE);

    g_subprocess_launcher_setenv(launcher, "DBUS_SYSTEM_BUS_ADDRESS", mock_bus_address(mock), TRUE);
    g_subprocess_launcher_setenv(launcher, "LC_ALL", "C.UTF-8", TRUE);
    g_subprocess_launcher_setenv(launcher, "TZ", "UTC", TRUE);
    g_subprocess_launcher_setenv(launcher, "TERM", "xterm", TRUE);
    g_subprocess_launcher_setenv(launcher, "PAGER", "cat", TRUE);
    g_subprocess_launcher_unsetenv(launcher, "SYSTEMD_PAGER");
    g_subprocess_launcher_unsetenv(launcher, "NO_COLOR");
    g_subprocess_launcher_unsetenv(launcher, "NOTIFY_SOCKET");
    for (const char *const *pair = setting->environment; pair && pair[0]; pair += 2) {
        if (*pair[1])
            g_subprocess_launcher_setenv(launcher, pair[0], pair[1], TRUE);
        else
            g_subprocess_launcher_unsetenv(launcher, pair[0]);
    }
    g_subprocess_launcher_set_child_setup(launcher, in_child, g_memdup2(setting, sizeof *setting), g_free);
    return launcher;
}

static void
give_terminal(Tool *tool, GSubprocessLauncher *launcher)
{
    struct winsize size = {.ws_col = 80, .ws_row = 24};
    int slave;

    g_assert_cmpint(openpty(&tool->terminal, &slave, NULL, NULL, &size), ==, 0);
    g_subprocess_launcher_take_stdin_fd(launcher, dup(slave));
    g_subprocess_launcher_take_stdout_fd(launcher, dup(slave));
    g_subprocess_launcher_take_stderr_fd(launcher, slave);
}

static void
read_outputs(Tool *tool)
{
    if (tool->terminal >= 0) {
        g_autoptr(GInputStream) stream = g_unix_input_stream_new(dup(tool->terminal), TRUE);
        tool->open_ends = 1;
        read_more(tool, stream, tool->out);
    } else {
        tool->open_ends = 2;
        read_more(tool, g_subprocess_get_stdout_pipe(tool->process), tool->out);
        read_more(tool, g_subprocess_get_stderr_pipe(tool->process), tool->err);
    }
}

Tool *
tool_start_with(const Mock *mock, const ToolSetting *setting, const char *const *arguments)
{
    g_autoptr(GSubprocessLauncher) launcher = new_launcher(mock, setting);
    g_autoptr(GPtrArray) words = g_ptr_array_new();
    g_autoptr(GError) error = NULL;
    Tool *tool = g_new0(Tool, 1);

    tool->terminal = -1;
    tool->out = g_string_new(NULL);
    tool->err = g_string_new(NULL);
    if (setting->terminal)
        give_terminal(tool, launcher);
    g_ptr_array_add(words, (char *)(setting->program ? setting->program : g_getenv("VGPU_TEST_VGPUCTL")));
    for (; *arguments; arguments++)
        g_ptr_array_add(words, (char *)*arguments);
    g_ptr_array_add(words, NULL);
    tool->process = g_subprocess_launcher_spawnv(launcher, (const char *const *)words->pdata, &error);
    g_assert_no_error(error);
    g_subprocess_launcher_close(launcher);
    read_outputs(tool);
    g_subprocess_wait_async(tool->process, NULL, on_exited, tool);
    return tool;
}

static Tool *
start_list(const Mock *mock, va_list arguments)
{
    g_autoptr(GPtrArray) words = g_ptr_array_new();
    const char *word;

    while ((word = va_arg(arguments, const char *)))
        g_ptr_array_add(words, (char *)word);
    g_ptr_array_add(words, NULL);
    return tool_start_with(mock, &(ToolSetting){0}, (const char *const *)words->pdata);
}

Tool *
tool_start(const Mock *mock, ...)
{
    va_list arguments;
    va_start(arguments, mock);
    Tool *tool = start_list(mock, arguments);
    va_end(arguments);
    return tool;
}

Tool *
tool_run(const Mock *mock, int status, ...)
{
    va_list arguments;
    va_start(arguments, status);
    Tool *tool = start_list(mock, arguments);
    va_end(arguments);

    int was = tool_wait(tool);
    if (was != status)
        g_error("the exit status is %d instead of %d; output: %s; errors: %s", was, status, tool->out->str,
                tool->err->str);
    return tool;
}

int
tool_wait(Tool *tool)
{
    WAIT_UNTIL(tool->exited && tool->open_ends == 0);
    return WIFEXITED(tool->status) ? WEXITSTATUS(tool->status) : 128 + WTERMSIG(tool->status);
}

void
tool_free(Tool *tool)
{
    if (!tool->exited)
        g_subprocess_force_exit(tool->process);
    tool_wait(tool);
    if (tool->terminal >= 0)
        close(tool->terminal);
    g_object_unref(tool->process);
    g_string_free(tool->out, TRUE);
    g_string_free(tool->err, TRUE);
    g_free(tool);
}

static void
wait_text(Tool *tool, const GString *where, const char *text)
{
    while (!strstr(where->str, text)) {
        if (tool->exited && tool->open_ends == 0)
            g_error("it ended without \"%s\"; output: %s; errors: %s", text, tool->out->str, tool->err->str);
        WAIT_UNTIL(strstr(where->str, text) || (tool->exited && tool->open_ends == 0));
    }
}

void
tool_wait_out(Tool *tool, const char *text)
{
    wait_text(tool, tool->out, text);
}

void
tool_wait_err(Tool *tool, const char *text)
{
    wait_text(tool, tool->err, text);
}

void
tool_signal(Tool *tool, int number)
{
    g_subprocess_send_signal(tool->process, number);
}

void
tool_type(Tool *tool, const char *text)
{
    g_assert_cmpint(write(tool->terminal, text, strlen(text)), ==, (gssize)strlen(text));
}

int
tool_pid(const Tool *tool)
{
    return atoi(g_subprocess_get_identifier(tool->process));
}
