/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "settle.h"

#include "failure.h"
#include "hold.h"
#include "value.h"
#include "watch.h"

/* The service repeats a clear that is answered with "busy" for 15 s. */
#define WAIT_US (30 * G_USEC_PER_SEC)

struct VgpuSettle {
    sd_bus *bus;
    VgpuWatch *watch;
    char *owner;
    GPtrArray *held;
    GVariant *rows;     /* the last answer */
    bool asking, stale; /* a question is under way; and is already too old */
    bool done;
};

typedef enum {
    IS_GONE, /* cleared, or somebody else's now */
    IS_PENDING,
    IS_OPEN,
    HAS_FAILED,
} Fate;

static Fate
fate_of_row(const VgpuSettle *settle, GVariant *row)
{
    const char *owner = vgpu_value_string(row, "Owner");
    const char *state = vgpu_value_string(row, "State");

    if (owner && g_strcmp0(owner, settle->owner))
        return IS_GONE;
    if (!g_strcmp0(state, "lingering"))
        return IS_OPEN;
    return g_strcmp0(state, "failed") ? IS_PENDING : HAS_FAILED;
}

static bool
is_held(const VgpuSettle *settle, GVariant *row)
{
    const char *id = vgpu_value_string(row, "Id");
    for (unsigned i = 0; i < settle->held->len; i++) {
        const VgpuHeld *held = settle->held->pdata[i];
        if (!g_strcmp0(held->id, id))
            return true;
    }
    return false;
}

static bool
any_pending(const VgpuSettle *settle)
{
    GVariantIter iter;
    g_variant_iter_init(&iter, settle->rows);
    for (;;) {
        g_autoptr(GVariant) row = g_variant_iter_next_value(&iter);
        if (!row)
            return false;
        if (is_held(settle, row) && fate_of_row(settle, row) == IS_PENDING)
            return true;
    }
}

static void ask(VgpuSettle *settle);

static int
on_rows(sd_bus_message *reply, void *data, sd_bus_error *failed)
{
    VgpuSettle *settle = data;

    settle->asking = false;
    g_clear_pointer(&settle->rows, g_variant_unref);
    settle->rows = vgpu_bus_read_property(reply, "aa{sv}");
    if (!settle->rows || !any_pending(settle))
        settle->done = true;
    else if (settle->stale)
        ask(settle);
    return 0;
}

static void
ask(VgpuSettle *settle)
{
    settle->stale = settle->asking;
    if (settle->asking)
        return;
    settle->asking = vgpu_bus_get_async(settle->bus, "Assignments", on_rows, settle) >= 0;
    settle->done = !settle->asking;
}

static void
on_removed(const char *id, const char *reason, void *data)
{
    ask(data);
}

static void
on_changed(const char *property, GVariant *value, void *data)
{
    if (!g_strcmp0(property, "Assignments"))
        ask(data);
}

/* Its next start takes back what belongs to nobody: not ours to wait for. */
static void
on_service(bool there, void *data)
{
    VgpuSettle *settle = data;
    if (!there)
        settle->done = true;
}

static void
on_disconnected(void *data)
{
    VgpuSettle *settle = data;
    settle->done = true;
}

static const VgpuWatchFuncs watch_funcs = {on_removed, on_changed, on_service, on_disconnected};

VgpuSettle *
vgpu_settle_new(const char *owner, GPtrArray *held)
{
    g_autoptr(VgpuSettle) settle = g_new0(VgpuSettle, 1);

    settle->owner = g_strdup(owner);
    settle->held = held;
    settle->bus = vgpu_bus_open(NULL, NULL);
    settle->watch = settle->bus ? vgpu_watch_new(settle->bus, &watch_funcs, settle, NULL) : NULL;
    return settle->watch ? g_steal_pointer(&settle) : NULL;
}

void
vgpu_settle_free(VgpuSettle *settle)
{
    g_clear_pointer(&settle->watch, vgpu_watch_free);
    g_clear_pointer(&settle->bus, sd_bus_flush_close_unref);
    g_clear_pointer(&settle->rows, g_variant_unref);
    g_free(settle->owner);
    g_free(settle);
}

/* Says how it went with one of ours; the exit status. */
static int
report(const VgpuSettle *settle, GVariant *row)
{
    g_autofree char *device = vgpu_value_of(row, "Device");
    g_autofree char *holders = vgpu_value_of(row, "Holders");
    g_autofree char *text = vgpu_value_of(row, "Error");

    switch (fate_of_row(settle, row)) {
    case IS_GONE:
        return VGPU_EXIT_DONE;
    case IS_OPEN:
        vgpu_say("the vGPU on %s is still open%s%s: it is given back when it is closed", device,
                 holders ? " in " : "", holders ? holders : "");
        return VGPU_EXIT_IN_USE;
    case HAS_FAILED:
        vgpu_say("the vGPU on %s could not be cleared%s%s", device, text ? ": " : "", text ? text : "");
        return VGPU_EXIT_FAILED;
    case IS_PENDING:
        vgpu_say("the vGPU on %s is not cleared yet", device);
        return VGPU_EXIT_FAILED;
    }
    return VGPU_EXIT_FAILED;
}

static int
report_all(const VgpuSettle *settle)
{
    GVariantIter iter;
    int worst = VGPU_EXIT_DONE;

    g_variant_iter_init(&iter, settle->rows);
    for (;;) {
        g_autoptr(GVariant) row = g_variant_iter_next_value(&iter);
        if (!row)
            return worst;
        int status = is_held(settle, row) ? report(settle, row) : VGPU_EXIT_DONE;
        worst = MAX(worst, status);
    }
}

int
vgpu_settle_wait(VgpuSettle *settle)
{
    gint64 end = g_get_monotonic_time() + WAIT_US;

    ask(settle);
    while (!settle->done) {
        int r = sd_bus_process(settle->bus, NULL);
        gint64 left = end - g_get_monotonic_time();
        if (r < 0 || left <= 0)
            break;
        if (r == 0 && !settle->done)
            sd_bus_wait(settle->bus, (uint64_t)left);
    }
    return settle->rows ? report_all(settle) : VGPU_EXIT_DONE;
}
