/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "command.h"

/* The text agent of polkit, which asks on this terminal for the password that a call may need. */
typedef struct VgpuAgent VgpuAgent;

/* Starts it and waits until it is registered. NULL where none is of use: without a terminal, for root, for
 * another host, with --no-ask-password, or where pkttyagent is not installed. */
VgpuAgent *vgpu_agent_start(const VgpuInvocation *invocation);

/* Ends it, so that the terminal is free again. NULL is fine. */
void vgpu_agent_stop(VgpuAgent *agent);
