/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "table.h"

/* Prints the assignments @rows (aa{sv}) as a table, and below it what failed. @wide has all columns, else
 * those that 80 columns take. */
void vgpu_show_assignments(const VgpuTerminal *terminal, const VgpuInvocation *invocation, GVariant *rows,
                           bool wide);
