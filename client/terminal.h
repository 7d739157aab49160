/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <stdbool.h>

#include "command.h"

/* Where stdout goes, as it was before a pager. */
typedef struct {
    bool on;      /* a terminal that can do more than lines */
    bool colour;  /* wanted there */
    int columns;  /* its width; 0 when it is none */
    int pager_fd; /* stdout as it was before a pager; -1 without one */
    int pager;    /* its process */
} VgpuTerminal;

/* Looks at stdout, and on a terminal pipes it into a pager unless @invocation or the environment forbid it.
 * Everything printed between open and close goes there; close waits until the reader has left it. */
VgpuTerminal vgpu_terminal_open(const VgpuInvocation *invocation);
void vgpu_terminal_close(VgpuTerminal *terminal);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(VgpuTerminal, vgpu_terminal_close)

/* The same without a pager, for commands that go on after they printed. */
VgpuTerminal vgpu_terminal_look(void);
