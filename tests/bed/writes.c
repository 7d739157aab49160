/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "bed-private.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* What happens to a write on its way: it is traced, perhaps stalled, perhaps made to fail, done, perhaps
 * stalled again, answered. */

typedef enum { FAIL, FAIL_HALF, TAKES, RIVAL, STALL_BEFORE, STALL_AFTER, DELAY } FaultKind;

typedef struct {
    FaultKind kind;
    char *where;
    BedOp op;
    int error;
    int times;
    unsigned type;
    unsigned ms;
} Fault;

static void
fault_free(gpointer data)
{
    Fault *fault = data;

    g_free(fault->where);
    g_free(fault);
}

static Fault *
fault_add(Bed *bed, FaultKind kind, const char *where, BedOp op, int times)
{
    Fault *fault = g_new0(Fault, 1);

    if (!bed->faults)
        bed->faults = g_ptr_array_new_with_free_func(fault_free);
    fault->kind = kind;
    fault->where = g_strdup(where);
    fault->op = op;
    fault->times = times;
    g_ptr_array_add(bed->faults, fault);
    return fault;
}

/* Uses up one time of the oldest fault that is meant for this. */
static gboolean
fault_take(Bed *bed, FaultKind kind, Device *device, BedOp op, Fault *ret)
{
    for (guint i = 0; device && bed->faults && i < bed->faults->len; i++) {
        Fault *fault = bed->faults->pdata[i];

        if (fault->kind != kind || fault->op != op || !device_matches(device, fault->where))
            continue;
        *ret = *fault;
        ret->where = NULL;
        if (fault->times > 0 && --fault->times == 0)
            g_ptr_array_remove_index(bed->faults, i);
        return TRUE;
    }
    return FALSE;
}

int
fault_answer(Bed *bed, Device *device, BedOp op, gboolean *ret_half)
{
    Fault fault;

    *ret_half = FALSE;
    if (fault_take(bed, FAIL, device, op, &fault))
        return -fault.error;
    if (fault_take(bed, FAIL_HALF, device, op, &fault)) {
        *ret_half = TRUE;
        return -fault.error;
    }
    return 0;
}

gboolean
fault_takes_instead(Bed *bed, Device *device, unsigned *ret_type)
{
    Fault fault;

    if (!fault_take(bed, TAKES, device, BED_SET, &fault))
        return FALSE;
    *ret_type = fault.type;
    return TRUE;
}

gboolean
fault_rival(Bed *bed, Device *device, unsigned *ret_type)
{
    Fault fault;

    if (!fault_take(bed, RIVAL, device, BED_SET, &fault))
        return FALSE;
    *ret_type = fault.type;
    return TRUE;
}

/* ---- The way of a write ---- */

static void
write_answer(Write *write)
{
    if (write->device)
        write->device->writes--;
    if (write->result < 0)
        fuse_reply_err(write->req, -write->result);
    else
        fuse_reply_write(write->req, write->size);
    trace_end(write->bed, write->entry, -write->result);
    g_free(write->value);
    g_free(write);
}

static void
write_late(Bed *bed, gpointer data)
{
    /* Perhaps answered meanwhile, because the bed is being taken away. */
    if (g_ptr_array_remove(bed->parked, data))
        write_answer(data);
}

void
write_done(Write *write, int result)
{
    Bed *bed = write->bed;
    Fault fault;

    write->result = result;
    if (write->is_op && fault_take(bed, STALL_AFTER, write->device, write->op, &fault)) {
        write->stalled = write->stalled_after = TRUE;
        g_ptr_array_add(bed->parked, write);
    } else if (write->is_op && fault_take(bed, DELAY, write->device, write->op, &fault)) {
        g_ptr_array_add(bed->parked, write);
        clock_at(bed, g_get_monotonic_time() + fault.ms * (gint64)1000, write_late, write);
    } else {
        write_answer(write);
    }
    g_cond_broadcast(&bed->changed);
}

static void
write_perform(Write *write)
{
    Node *node = write->node;
    int r;

    if (node->gone)
        r = -ENODEV;
    else if (node->store)
        r = node->store(write->bed, node, write);
    else
        r = 0;
    if (r != BED_LATER)
        write_done(write, r);
}

/* The device that an attribute belongs to, by its place in the tree. */
static Device *
node_device_of(Bed *bed, Node *node)
{
    for (Node *at = node->parent; at; at = at->parent) {
        Device *device = g_hash_table_lookup(bed->devices, at->name);

        if (device && device->dir == at)
            return device;
    }
    return NULL;
}

void
write_begin(Bed *bed, fuse_req_t req, Opening *opening, const char *data, size_t size)
{
    Node *node = opening->node;
    pid_t tid = fuse_req_ctx(req)->pid;
    Write *write;
    Fault fault;

    if (node->kind != NODE_FILE) {
        fuse_reply_err(req, EINVAL);
        return;
    }
    if (!opening->path)
        opening->path = node_path(node);
    write = g_new0(Write, 1);
    write->bed = bed;
    write->req = req;
    write->node = node;
    write->value = g_strndup(data, size);
    write->size = size;
    write->device = node_device_of(bed, node);
    write_classify(write);
    write->entry = trace_add(bed, BED_TRACE_WRITE, opening->path, write->device ? write->device->name : NULL,
                             write->value, tid);
    if (write->device) {
        if (write->device->kind == DEVICE_VF && write->device->writes > 0)
            g_ptr_array_add(bed->violations,
                            g_strdup_printf("%s was written by process %d while another write was under way",
                                            opening->path, (int)write->entry->pid));
        write->device->writes++;
    }

    if (write->is_op && fault_take(bed, STALL_BEFORE, write->device, write->op, &fault)) {
        write->stalled = TRUE;
        g_ptr_array_add(bed->parked, write);
        g_cond_broadcast(&bed->changed);
    } else {
        write_perform(write);
    }
}

/* ---- Stalls ---- */

static gboolean
write_matches(Write *write, const char *where)
{
    return !where || (write->device && device_matches(write->device, where));
}

static unsigned
stalled(Bed *bed, const char *where)
{
    unsigned n = 0;
    GHashTableIter iter;
    gpointer device;

    for (guint i = 0; i < bed->parked->len; i++) {
        Write *write = bed->parked->pdata[i];

        n += write->stalled && write_matches(write, where);
    }
    g_hash_table_iter_init(&iter, bed->devices);
    while (g_hash_table_iter_next(&iter, NULL, &device))
        if (((Device *)device)->kind == DEVICE_MDEV && device_matches(device, where))
            n += ((Device *)device)->removers->len;
    return n;
}

unsigned
bed_stalled(Bed *bed, const char *where)
{
    unsigned n;

    g_mutex_lock(&bed->lock);
    n = stalled(bed, where);
    g_mutex_unlock(&bed->lock);
    return n;
}

gboolean
bed_wait_stalled(Bed *bed, const char *where, double seconds)
{
    gint64 deadline = bed_deadline(seconds);
    gboolean there;

    g_mutex_lock(&bed->lock);
    while (!(there = stalled(bed, where) > 0))
        if (!g_cond_wait_until(&bed->changed, &bed->lock, deadline))
            break;
    there = there || stalled(bed, where) > 0;
    g_mutex_unlock(&bed->lock);
    return there;
}

static gboolean
where_covers(Bed *bed, const char *wide, const char *narrow)
{
    Device *device;

    if (!wide || g_strcmp0(wide, narrow) == 0)
        return TRUE;
    device = narrow ? g_hash_table_lookup(bed->devices, narrow) : NULL;
    return device && device_matches(device, wide);
}

void
bed_resume(Bed *bed, const char *where)
{
    g_autoptr(GPtrArray) free_again = g_ptr_array_new();

    g_mutex_lock(&bed->lock);
    for (guint i = bed->faults ? bed->faults->len : 0; i > 0; i--) {
        Fault *fault = bed->faults->pdata[i - 1];

        if ((fault->kind == STALL_BEFORE || fault->kind == STALL_AFTER) &&
            where_covers(bed, where, fault->where))
            g_ptr_array_remove_index(bed->faults, i - 1);
    }
    for (guint i = bed->parked->len; i > 0; i--) {
        Write *write = bed->parked->pdata[i - 1];

        if (write->stalled && write_matches(write, where))
            g_ptr_array_add(free_again, g_ptr_array_remove_index(bed->parked, i - 1));
    }
    for (guint i = free_again->len; i > 0; i--) {
        Write *write = free_again->pdata[i - 1];

        write->stalled = FALSE;
        if (write->stalled_after)
            write_answer(write);
        else
            write_perform(write);
    }
    g_cond_broadcast(&bed->changed);
    g_mutex_unlock(&bed->lock);
    bed_settle(bed);
}

/* The bed goes: every writer gets an answer, so that none is left in the kernel. */
void
writes_abandon(Bed *bed)
{
    GHashTableIter iter;
    gpointer data;

    g_clear_pointer(&bed->faults, g_ptr_array_unref);
    while (bed->parked->len > 0) {
        Write *write = g_ptr_array_remove_index(bed->parked, bed->parked->len - 1);

        write->result = -ENODEV;
        write_answer(write);
    }
    g_hash_table_iter_init(&iter, bed->devices);
    while (g_hash_table_iter_next(&iter, NULL, &data)) {
        Device *device = data;

        while (device->removers && device->removers->len > 0) {
            Write *write = g_ptr_array_remove_index(device->removers, 0);

            write->result = -ENODEV;
            write_answer(write);
        }
    }
}

/* ---- What tests ask for ---- */

static Fault *
rule(Bed *bed, FaultKind kind, const char *where, BedOp op, int times)
{
    if (where)
        device_get(bed, where);
    return fault_add(bed, kind, where, op, times);
}

void
bed_fail(Bed *bed, const char *where, BedOp op, int error, int times)
{
    g_mutex_lock(&bed->lock);
    rule(bed, FAIL, where, op, times)->error = error;
    g_mutex_unlock(&bed->lock);
}

void
bed_fail_half(Bed *bed, const char *where, BedOp op, int error, int times)
{
    g_mutex_lock(&bed->lock);
    rule(bed, FAIL_HALF, where, op, times)->error = error;
    g_mutex_unlock(&bed->lock);
}

void
bed_takes_instead(Bed *bed, const char *where, unsigned type, int times)
{
    g_mutex_lock(&bed->lock);
    rule(bed, TAKES, where, BED_SET, times)->type = type;
    g_mutex_unlock(&bed->lock);
}

void
bed_rival_sets(Bed *bed, const char *where, unsigned type)
{
    g_mutex_lock(&bed->lock);
    rule(bed, RIVAL, where, BED_SET, 1)->type = type;
    g_mutex_unlock(&bed->lock);
}

void
bed_stall(Bed *bed, const char *where, BedOp op)
{
    g_mutex_lock(&bed->lock);
    rule(bed, STALL_BEFORE, where, op, 1);
    g_mutex_unlock(&bed->lock);
}

void
bed_stall_after(Bed *bed, const char *where, BedOp op)
{
    g_mutex_lock(&bed->lock);
    rule(bed, STALL_AFTER, where, op, 1);
    g_mutex_unlock(&bed->lock);
}

void
bed_delay(Bed *bed, const char *where, BedOp op, unsigned ms, int times)
{
    g_mutex_lock(&bed->lock);
    rule(bed, DELAY, where, op, times)->ms = ms;
    g_mutex_unlock(&bed->lock);
}

void
bed_no_more_faults(Bed *bed)
{
    GHashTableIter iter;
    gpointer data;

    g_mutex_lock(&bed->lock);
    g_clear_pointer(&bed->faults, g_ptr_array_unref);
    g_hash_table_iter_init(&iter, bed->devices);
    while (g_hash_table_iter_next(&iter, NULL, &data)) {
        Device *device = data;

        device->clear_busy_ms = 0;
        device->clear_busy_until = 0;
        device->plugin_ms = 0;
        device->plugin_until = 0;
        device->remove_error = 0;
    }
    for (guint i = 0; i < bed->groups->len; i++) {
        Group *group = bed->groups->pdata[i];

        group->open_error = 0;
        group->close_lag_ms = 0;
        group->busy_until = 0;
    }
    g_mutex_unlock(&bed->lock);
}
