/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "loop.h"

typedef struct {
    GSource source;
    sd_event *event;
    GPollFD poll;
    GMainLoop *loop;
    int *code;
} EventSource;

static gboolean
event_source_prepare(GSource *source, int *timeout)
{
    EventSource *self = (EventSource *)source;

    *timeout = -1;
    return sd_event_get_state(self->event) == SD_EVENT_FINISHED || sd_event_prepare(self->event) > 0;
}

static gboolean
event_source_check(GSource *source)
{
    EventSource *self = (EventSource *)source;

    switch (sd_event_get_state(self->event)) {
    case SD_EVENT_FINISHED:
    case SD_EVENT_PENDING:
        return TRUE;
    default:
        return sd_event_wait(self->event, 0) > 0;
    }
}

static gboolean
event_source_dispatch(GSource *source, GSourceFunc callback, gpointer user_data)
{
    EventSource *self = (EventSource *)source;
    int r = sd_event_get_state(self->event) == SD_EVENT_FINISHED ? 0 : sd_event_dispatch(self->event);

    if (r > 0)
        return G_SOURCE_CONTINUE;
    if (r < 0)
        g_warning("the event loop failed: %s", g_strerror(-r));
    if (sd_event_get_exit_code(self->event, self->code) < 0)
        *self->code = 1; /* the loop failed without anybody asking it to end */
    g_main_loop_quit(self->loop);
    return G_SOURCE_REMOVE;
}

static void
event_source_finalize(GSource *source)
{
    EventSource *self = (EventSource *)source;

    sd_event_unref(self->event);
    g_main_loop_unref(self->loop);
}

static GSourceFuncs event_source_funcs = {
    .prepare = event_source_prepare,
    .check = event_source_check,
    .dispatch = event_source_dispatch,
    .finalize = event_source_finalize,
};

GSource *
vgpu_loop_attach(sd_event *event, GMainLoop *loop, int *ret_code)
{
    GSource *source = g_source_new(&event_source_funcs, sizeof(EventSource));
    EventSource *self = (EventSource *)source;

    self->event = sd_event_ref(event);
    self->loop = g_main_loop_ref(loop);
    self->code = ret_code;
    self->poll.fd = sd_event_get_fd(event);
    self->poll.events = G_IO_IN | G_IO_HUP | G_IO_ERR;
    g_source_add_poll(source, &self->poll);
    g_source_attach(source, g_main_loop_get_context(loop));
    return source;
}
