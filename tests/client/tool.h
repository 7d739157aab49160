/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib.h>
#include <stdbool.h>

#include "mock.h"

/* One run of vgpuctl against a mock, whose output is kept as it comes. */
typedef struct {
    GSubprocess *process;
    GString *out, *err; /* on a terminal all is in out */
    int terminal;       /* the master side; -1 without one */
    unsigned open_ends; /* of the outputs */
    bool exited;
    int status; /* as wait() gives it */
} Tool;

/* How a run is started; zeroes are the usual. */
typedef struct {
    bool terminal;                  /* stdin, stdout and stderr are one, 80 columns wide */
    bool unprivileged;              /* as nobody, when the test runs as root */
    const char *program;            /* instead of vgpuctl */
    const char *const *environment; /* pairs of name and value, ended by NULL; a value of "" unsets */
} ToolSetting;

/* Starts `vgpuctl ARGUMENTS…`, ended by NULL. */
Tool *tool_start(const Mock *mock, ...) G_GNUC_NULL_TERMINATED;
Tool *tool_start_with(const Mock *mock, const ToolSetting *setting, const char *const *arguments);
/* Kills it if it still runs. */
void tool_free(Tool *tool);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Tool, tool_free)

/* Waits for its end and the end of its output; the exit status, or 128+N for a signal. */
int tool_wait(Tool *tool);

/* Starts it, waits, and checks the exit @status. */
Tool *tool_run(const Mock *mock, int status, ...) G_GNUC_NULL_TERMINATED;

/* Waits for @text in what it printed. */
void tool_wait_out(Tool *tool, const char *text);
void tool_wait_err(Tool *tool, const char *text);

void tool_signal(Tool *tool, int number);
void tool_type(Tool *tool, const char *text);
int tool_pid(const Tool *tool);
