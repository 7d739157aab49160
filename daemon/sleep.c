/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "sleep.h"

#include <fcntl.h>
#include <unistd.h>

#define LOGIND "org.freedesktop.login1"
#define MATCH                                                                                                \
    "type='signal',sender='" LOGIND "',path='/org/freedesktop/login1',"                                      \
    "interface='org.freedesktop.login1.Manager',member='PrepareForSleep'"

struct _VgpuSleep {
    sd_bus *bus;
    sd_bus_slot *match;
    sd_bus_slot *question; /* the call of Inhibit that is under way */
    gboolean inhibit;
    gboolean near;
    char *why; /* of the lock that is held or asked for; NULL for none */
    int lock;  /* -1 for none */
    void (*resumed)(gpointer user_data);
    gpointer user_data;
};

static int
on_prepare(sd_bus_message *message, void *user_data, sd_bus_error *error)
{
    VgpuSleep *sleep = user_data;
    int near;

    if (sd_bus_message_read(message, "b", &near) < 0)
        return 0;
    sleep->near = near != 0;
    if (!sleep->near)
        sleep->resumed(sleep->user_data);
    return 0;
}

VgpuSleep *
vgpu_sleep_new(sd_bus *bus, gboolean inhibit, void (*resumed)(gpointer user_data), gpointer user_data)
{
    VgpuSleep *sleep = g_new0(VgpuSleep, 1);

    sleep->bus = sd_bus_ref(bus);
    sleep->inhibit = inhibit;
    sleep->lock = -1;
    sleep->resumed = resumed;
    sleep->user_data = user_data;
    if (sd_bus_add_match_async(bus, &sleep->match, MATCH, on_prepare, NULL, sleep) < 0)
        g_warning("logind cannot be listened to");
    return sleep;
}

static void
unlock(VgpuSleep *sleep)
{
    sleep->question = sd_bus_slot_unref(sleep->question);
    if (sleep->lock >= 0)
        close(sleep->lock);
    sleep->lock = -1;
    g_clear_pointer(&sleep->why, g_free);
}

void
vgpu_sleep_free(VgpuSleep *sleep)
{
    unlock(sleep);
    sd_bus_slot_unref(sleep->match);
    sd_bus_unref(sleep->bus);
    g_free(sleep);
}

static int
on_inhibited(sd_bus_message *reply, void *user_data, sd_bus_error *error)
{
    VgpuSleep *sleep = user_data;
    int fd = -1;

    sleep->question = sd_bus_slot_unref(sleep->question);
    if (sd_bus_message_is_method_error(reply, NULL)) {
        g_message("sleep is not blocked: %s", sd_bus_message_get_error(reply)->message);
        return 0;
    }
    if (sd_bus_message_read(reply, "h", &fd) >= 0)
        sleep->lock = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    return 0;
}

void
vgpu_sleep_block(VgpuSleep *sleep, const char *why)
{
    gboolean same = g_strcmp0(sleep->why, why) == 0;

    if (!sleep->inhibit || same)
        return;
    unlock(sleep);
    sleep->why = g_strdup(why);
    if (why && sd_bus_call_method_async(sleep->bus, &sleep->question, LOGIND, "/org/freedesktop/login1",
                                        LOGIND ".Manager", "Inhibit", on_inhibited, sleep, "ssss", "sleep",
                                        "hypeman-vgpu", why, "block") < 0)
        g_warning("sleep is not blocked: logind cannot be asked");
}

gboolean
vgpu_sleep_is_near(const VgpuSleep *sleep)
{
    return sleep->near;
}
