/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib.h>

/* Iterates the main context until @condition holds. One that takes longer than a generous deadline (times
 * $VGPU_TEST_SLOW) ends the test and names it. */
#define WAIT_UNTIL(condition)                                                                                \
    do {                                                                                                     \
        gint64 wait_end = wait_deadline();                                                                   \
        while (!(condition))                                                                                 \
            wait_iterate(wait_end, G_STRLOC, #condition);                                                    \
    } while (0)

gint64 wait_deadline(void);
void wait_iterate(gint64 end, const char *where, const char *what);
