/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "signals.h"

#include <errno.h>
#include <stdbool.h>

int
vgpu_signals_take(sd_event *event, const sigset_t *wanted, sd_event_signal_handler_t handler, void *data,
                  sigset_t *ret_before)
{
    if (sigprocmask(SIG_BLOCK, wanted, ret_before) < 0)
        return -errno;
    for (int number = 1; number <= SIGRTMAX; number++) {
        sd_event_source *source = NULL;
        if (sigismember(wanted, number) <= 0)
            continue;
        int r = sd_event_add_signal(event, &source, number, handler, data);
        /* Before the bus: who interrupts a hold over ssh interrupts ssh too, and means the hold. */
        if (r >= 0)
            r = sd_event_source_set_priority(source, SD_EVENT_PRIORITY_IMPORTANT);
        if (r >= 0)
            r = sd_event_source_set_floating(source, true);
        sd_event_source_unref(source);
        if (r < 0)
            return r;
    }
    return 0;
}
