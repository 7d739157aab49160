/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib.h>
#include <systemd/sd-event.h>

G_DEFINE_AUTOPTR_CLEANUP_FUNC(sd_event, sd_event_unref)
G_DEFINE_AUTOPTR_CLEANUP_FUNC(sd_event_source, sd_event_source_disable_unref)

/* Runs @event inside @loop's main context until @event is told to exit, then quits @loop: sd-bus, inotify
 * and device monitors live on sd-event, polkit on GLib, and both run in one thread. *@ret_code takes the
 * code given to sd_event_exit() and must live as long as the returned source, which the caller destroys
 * and unrefs. */
GSource *vgpu_loop_attach(sd_event *event, GMainLoop *loop, int *ret_code);
