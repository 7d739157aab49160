/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <signal.h>
#include <systemd/sd-event.h>

/* Has @handler called for each signal of @wanted, which are blocked from now on; *@ret_before is the mask to
 * go back to. Negative errno. */
int vgpu_signals_take(sd_event *event, const sigset_t *wanted, sd_event_signal_handler_t handler, void *data,
                      sigset_t *ret_before);
