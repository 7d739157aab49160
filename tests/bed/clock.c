/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "bed-private.h"

typedef struct {
    gint64 due;
    Tick tick;
    gpointer data;
} Appointment;

struct Clock {
    Bed *bed;
    GThread *thread;
    GCond wake;
    GPtrArray *appointments;
    gboolean stop;
};

static Appointment *
next_appointment(Clock *clock)
{
    Appointment *next = NULL;

    for (guint i = 0; i < clock->appointments->len; i++) {
        Appointment *one = clock->appointments->pdata[i];

        if (!next || one->due < next->due)
            next = one;
    }
    return next;
}

static gpointer
clock_run(gpointer data)
{
    Clock *clock = data;
    Bed *bed = clock->bed;

    g_mutex_lock(&bed->lock);
    while (!clock->stop) {
        Appointment *next = next_appointment(clock);

        if (!next) {
            g_cond_wait(&clock->wake, &bed->lock);
        } else if (next->due > g_get_monotonic_time()) {
            g_cond_wait_until(&clock->wake, &bed->lock, next->due);
        } else {
            Tick tick = next->tick;
            gpointer what = next->data;

            g_ptr_array_remove(clock->appointments, next);
            tick(bed, what);
            g_cond_broadcast(&bed->changed);
        }
    }
    g_mutex_unlock(&bed->lock);
    return NULL;
}

Clock *
clock_new(Bed *bed)
{
    Clock *clock = g_new0(Clock, 1);

    clock->bed = bed;
    g_cond_init(&clock->wake);
    clock->appointments = g_ptr_array_new_with_free_func(g_free);
    clock->thread = g_thread_new("bed-clock", clock_run, clock);
    return clock;
}

void
clock_free(Clock *clock)
{
    g_mutex_lock(&clock->bed->lock);
    clock->stop = TRUE;
    g_cond_broadcast(&clock->wake);
    g_mutex_unlock(&clock->bed->lock);
    g_thread_join(clock->thread);
    g_ptr_array_unref(clock->appointments);
    g_cond_clear(&clock->wake);
    g_free(clock);
}

void
clock_at(Bed *bed, gint64 due, Tick tick, gpointer data)
{
    Appointment *appointment = g_new0(Appointment, 1);

    appointment->due = due;
    appointment->tick = tick;
    appointment->data = data;
    g_ptr_array_add(bed->clock->appointments, appointment);
    g_cond_broadcast(&bed->clock->wake);
}
