/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "wait.h"

#define DEADLINE_S 20

static gint64
slowness(void)
{
    const char *text = g_getenv("VGPU_TEST_SLOW");
    gint64 factor = text ? g_ascii_strtoll(text, NULL, 10) : 1;
    return MAX(factor, 1);
}

gint64
wait_deadline(void)
{
    return g_get_monotonic_time() + DEADLINE_S * G_USEC_PER_SEC * slowness();
}

static gboolean
on_wake(void *data)
{
    return G_SOURCE_REMOVE;
}

void
wait_iterate(gint64 end, const char *where, const char *what)
{
    g_autoptr(GSource) wake = g_timeout_source_new(1000);

    if (g_get_monotonic_time() > end)
        g_error("%s: waited in vain for: %s", where, what);
    /* Wakes the loop to look at the clock; conditions come true by events. */
    g_source_set_callback(wake, on_wake, NULL, NULL);
    g_source_attach(wake, NULL);
    g_main_context_iteration(NULL, TRUE);
    g_source_destroy(wake);
}
