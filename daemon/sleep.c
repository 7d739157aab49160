/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "sleep.h"

#include <gio/gio.h>
#include <gio/gunixfdlist.h>
#include <unistd.h>

#define LOGIND "org.freedesktop.login1"
#define PATH "/org/freedesktop/login1"
#define MANAGER LOGIND ".Manager"

struct _VgpuSleep {
    GDBusConnection
        *bus; /* NULL before it was reached; it takes descriptors, which the service's own must not */
    GCancellable *cancellable; /* of all that is under way when this is freed */
    GCancellable *question;    /* of the call of Inhibit that is under way */
    guint subscription;
    gboolean inhibit;
    gboolean near;
    char *why; /* of the lock that is held or asked for; NULL for none */
    int lock;  /* -1 for none */
    void (*resumed)(gpointer user_data);
    gpointer user_data;
};

static void
unlock(VgpuSleep *sleep)
{
    g_cancellable_cancel(sleep->question);
    g_clear_object(&sleep->question);
    if (sleep->lock >= 0)
        close(sleep->lock);
    sleep->lock = -1;
}

static void
on_inhibited(GObject *source, GAsyncResult *result, gpointer user_data)
{
    g_autoptr(GUnixFDList) fds = NULL;
    g_autoptr(GError) error = NULL;
    g_autoptr(GVariant) reply =
        g_dbus_connection_call_with_unix_fd_list_finish(G_DBUS_CONNECTION(source), &fds, result, &error);
    VgpuSleep *sleep = user_data;

    if (g_error_matches(error, G_IO_ERROR, G_IO_ERROR_CANCELLED))
        return; /* perhaps @sleep is no more */
    g_clear_object(&sleep->question);
    /* The old lock goes when the new one is there. */
    if (sleep->lock >= 0)
        close(sleep->lock);
    sleep->lock = reply && fds ? g_unix_fd_list_get(fds, 0, &error) : -1;
    if (sleep->lock < 0)
        g_message("sleep is not blocked: %s", error ? error->message : "logind gave no lock");
}

static void
ask(VgpuSleep *sleep)
{
    g_cancellable_cancel(sleep->question);
    g_clear_object(&sleep->question);
    sleep->question = g_cancellable_new();
    g_dbus_connection_call_with_unix_fd_list(
        sleep->bus, LOGIND, PATH, MANAGER, "Inhibit",
        g_variant_new("(ssss)", "sleep", "hypeman-vgpu", sleep->why, "block"), G_VARIANT_TYPE("(h)"),
        G_DBUS_CALL_FLAGS_NO_AUTO_START, -1, NULL, sleep->question, on_inhibited, sleep);
}

static void
on_preparing(GObject *source, GAsyncResult *result, gpointer user_data)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(GVariant) reply = g_dbus_connection_call_finish(G_DBUS_CONNECTION(source), result, &error);
    g_autoptr(GVariant) value = NULL;
    VgpuSleep *sleep = user_data;
    gboolean was_near;

    if (g_error_matches(error, G_IO_ERROR, G_IO_ERROR_CANCELLED))
        return;
    was_near = sleep->near;
    if (reply)
        g_variant_get(reply, "(v)", &value);
    sleep->near =
        value && g_variant_is_of_type(value, G_VARIANT_TYPE_BOOLEAN) && g_variant_get_boolean(value);
    if (was_near && !sleep->near) {
        if (sleep->why && sleep->lock < 0 && !sleep->question)
            ask(sleep); /* logind refuses a lock while it prepares */
        sleep->resumed(sleep->user_data);
    }
}

static void
ask_whether_near(VgpuSleep *sleep)
{
    g_dbus_connection_call(sleep->bus, LOGIND, PATH, "org.freedesktop.DBus.Properties", "Get",
                           g_variant_new("(ss)", MANAGER, "PreparingForSleep"), G_VARIANT_TYPE("(v)"),
                           G_DBUS_CALL_FLAGS_NO_AUTO_START, -1, sleep->cancellable, on_preparing, sleep);
}

/* Anybody could send this signal to us alone: it is a hint, and logind is asked. */
static void
on_prepare(GDBusConnection *bus, const char *sender, const char *path, const char *interface,
           const char *signal, GVariant *arguments, gpointer user_data)
{
    ask_whether_near(user_data);
}

static void
on_bus(GObject *source, GAsyncResult *result, gpointer user_data)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(GDBusConnection) bus = g_bus_get_finish(result, &error);
    VgpuSleep *sleep = user_data;

    if (g_error_matches(error, G_IO_ERROR, G_IO_ERROR_CANCELLED))
        return;
    if (!bus) {
        g_warning("logind cannot be reached: %s", error->message);
        return;
    }
    g_dbus_connection_set_exit_on_close(bus, FALSE);
    sleep->subscription =
        g_dbus_connection_signal_subscribe(bus, LOGIND, MANAGER, "PrepareForSleep", PATH, NULL,
                                           G_DBUS_SIGNAL_FLAGS_NONE, on_prepare, sleep, NULL);
    sleep->bus = g_steal_pointer(&bus);
    ask_whether_near(sleep); /* it may be so from before the start */
    if (sleep->why)
        ask(sleep);
}

VgpuSleep *
vgpu_sleep_new(gboolean inhibit, void (*resumed)(gpointer user_data), gpointer user_data)
{
    VgpuSleep *sleep = g_new0(VgpuSleep, 1);

    sleep->inhibit = inhibit;
    sleep->lock = -1;
    sleep->resumed = resumed;
    sleep->user_data = user_data;
    sleep->cancellable = g_cancellable_new();
    g_bus_get(G_BUS_TYPE_SYSTEM, sleep->cancellable, on_bus, sleep);
    return sleep;
}

void
vgpu_sleep_free(VgpuSleep *sleep)
{
    g_cancellable_cancel(sleep->cancellable);
    g_object_unref(sleep->cancellable);
    unlock(sleep);
    if (sleep->bus)
        g_dbus_connection_signal_unsubscribe(sleep->bus, sleep->subscription);
    g_clear_object(&sleep->bus);
    g_free(sleep->why);
    g_free(sleep);
}

void
vgpu_sleep_block(VgpuSleep *sleep, const char *why)
{
    if (!sleep->inhibit || g_strcmp0(sleep->why, why) == 0)
        return;
    g_free(sleep->why);
    sleep->why = g_strdup(why);
    if (!why)
        unlock(sleep);
    else if (sleep->bus)
        ask(sleep);
}

gboolean
vgpu_sleep_is_near(const VgpuSleep *sleep)
{
    return sleep->near;
}
