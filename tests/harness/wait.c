/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "harness.h"

/* The pause after which a condition is looked at again although nothing was heard. */
#define RECHECK_MS 10

struct Wait {
    gint64 deadline;
    char *what;
    const char *file;
    int line;
    guint timer;
};

double
wait_slow(void)
{
    const char *text = g_getenv("VGPU_TEST_SLOW");
    double slow = text ? g_ascii_strtod(text, NULL) : 1;

    return slow > 0 ? slow : 1;
}

static gboolean
on_timer(gpointer data)
{
    return G_SOURCE_CONTINUE;
}

Wait *
wait_begin(double seconds, const char *what, const char *file, int line)
{
    Wait *wait = g_new0(Wait, 1);

    wait->deadline = g_get_monotonic_time() + (gint64)(seconds * wait_slow() * G_USEC_PER_SEC);
    wait->what = g_strdup(what);
    wait->file = file;
    wait->line = line;
    return wait;
}

void
wait_step(Wait *wait)
{
    if (g_get_monotonic_time() > wait->deadline)
        g_error("%s:%d: waited in vain for: %s", wait->file, wait->line, wait->what);
    if (wait->timer == 0)
        wait->timer = g_timeout_add(RECHECK_MS, on_timer, NULL);
    g_main_context_iteration(NULL, TRUE);
}

void
wait_end(Wait *wait)
{
    if (wait->timer > 0)
        g_source_remove(wait->timer);
    g_free(wait->what);
    g_free(wait);
}
