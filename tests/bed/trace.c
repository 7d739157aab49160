/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "bed-private.h"

#include <stdio.h>
#include <string.h>

/* FUSE tells the thread that asks; tests think in processes. The thread is waiting for our answer, so it is
 * there. */
pid_t
process_of_thread(pid_t tid)
{
    char path[48];
    char line[128];
    int pid = tid;
    FILE *file;

    g_snprintf(path, sizeof path, "/proc/%d/status", (int)tid);
    file = fopen(path, "re");
    if (!file)
        return tid;
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "Tgid: %d", &pid) == 1)
            break;
    fclose(file);
    return pid;
}

static void
read_comm(pid_t pid, char *comm, gsize size)
{
    char path[48];
    FILE *file;
    size_t n = 0;

    g_snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
    file = fopen(path, "re");
    if (file) {
        n = fread(comm, 1, size - 1, file);
        fclose(file);
    }
    comm[n] = '\0';
    if (n > 0 && comm[n - 1] == '\n')
        comm[n - 1] = '\0';
}

BedTraceEntry *
trace_add(Bed *bed, BedTraceKind kind, const char *path, const char *devices, const char *value, pid_t tid)
{
    BedTraceEntry *entry = g_new0(BedTraceEntry, 1);

    entry->kind = kind;
    entry->path = g_strdup(path);
    entry->devices = g_strdup(devices ? devices : "");
    entry->value = g_strdup(value ? value : "");
    entry->error = -1;
    entry->tid = tid;
    entry->pid = process_of_thread(tid);
    read_comm(entry->pid, entry->comm, sizeof entry->comm);
    entry->began = g_get_monotonic_time();
    g_ptr_array_add(bed->trace, entry);
    g_cond_broadcast(&bed->changed);
    return entry;
}

void
trace_end(Bed *bed, BedTraceEntry *entry, int error)
{
    entry->error = error;
    entry->ended = g_get_monotonic_time();
    g_cond_broadcast(&bed->changed);
}

void
trace_entry_free(BedTraceEntry *entry)
{
    g_free(entry->path);
    g_free(entry->devices);
    g_free(entry->value);
    g_free(entry);
}

static gboolean
list_contains(const char *list, char separator, const char *word)
{
    size_t length = strlen(word);

    for (const char *at = list; at; at = strchr(at, separator)) {
        if (*at == separator)
            at++;
        if (strncmp(at, word, length) == 0 && (at[length] == separator || !at[length]))
            return TRUE;
    }
    return FALSE;
}

static gboolean
entry_matches(const BedTraceEntry *entry, BedTraceKind kinds, const char *where, const char *value)
{
    if (!(entry->kind & kinds))
        return FALSE;
    if (where && strcmp(entry->path, where) != 0 && !list_contains(entry->devices, ' ', where) &&
        !list_contains(entry->path, '/', where))
        return FALSE;
    if (value) {
        size_t length = strlen(value);

        if (strncmp(entry->value, value, length) != 0)
            return FALSE;
        if (entry->value[length] && strcmp(entry->value + length, "\n") != 0)
            return FALSE;
    }
    return TRUE;
}

static BedTraceEntry *
entry_copy(const BedTraceEntry *entry)
{
    BedTraceEntry *copy = g_memdup2(entry, sizeof *entry);

    copy->path = g_strdup(entry->path);
    copy->devices = g_strdup(entry->devices);
    copy->value = g_strdup(entry->value);
    return copy;
}

GPtrArray *
bed_trace(Bed *bed, BedTraceKind kinds, const char *where)
{
    GPtrArray *found = g_ptr_array_new_with_free_func((GDestroyNotify)trace_entry_free);

    g_mutex_lock(&bed->lock);
    for (guint i = 0; i < bed->trace->len; i++)
        if (entry_matches(bed->trace->pdata[i], kinds, where, NULL))
            g_ptr_array_add(found, entry_copy(bed->trace->pdata[i]));
    g_mutex_unlock(&bed->lock);
    return found;
}

static unsigned
trace_count(Bed *bed, BedTraceKind kinds, const char *where, const char *value, gboolean ended)
{
    unsigned n = 0;

    for (guint i = 0; i < bed->trace->len; i++) {
        const BedTraceEntry *entry = bed->trace->pdata[i];

        if (entry_matches(entry, kinds, where, value) && (!ended || entry->error >= 0))
            n++;
    }
    return n;
}

unsigned
bed_trace_count(Bed *bed, BedTraceKind kinds, const char *where, const char *value)
{
    unsigned n;

    g_mutex_lock(&bed->lock);
    n = trace_count(bed, kinds, where, value, FALSE);
    g_mutex_unlock(&bed->lock);
    return n;
}

gboolean
bed_trace_wait(Bed *bed, BedTraceKind kinds, const char *where, const char *value, unsigned count,
               double seconds)
{
    gint64 deadline = bed_deadline(seconds);
    gboolean there;

    g_mutex_lock(&bed->lock);
    while (!(there = trace_count(bed, kinds, where, value, TRUE) >= count))
        if (!g_cond_wait_until(&bed->changed, &bed->lock, deadline))
            break;
    if (!there)
        there = trace_count(bed, kinds, where, value, TRUE) >= count;
    g_mutex_unlock(&bed->lock);
    return there;
}

void
bed_trace_reset(Bed *bed)
{
    g_mutex_lock(&bed->lock);
    /* Writes under way keep their entries. */
    for (guint i = bed->trace->len; i > 0; i--)
        if (((BedTraceEntry *)bed->trace->pdata[i - 1])->error >= 0)
            g_ptr_array_remove_index(bed->trace, i - 1);
    g_mutex_unlock(&bed->lock);
}

char *
bed_trace_text(Bed *bed)
{
    static const char *const kinds[] = {[BED_TRACE_WRITE] = "write",
                                        [BED_TRACE_OPEN] = "open",
                                        [BED_TRACE_RELEASE] = "release",
                                        [BED_TRACE_DEVICE] = "device"};
    g_autoptr(GString) text = g_string_new(NULL);

    g_mutex_lock(&bed->lock);
    for (guint i = 0; i < bed->trace->len; i++) {
        const BedTraceEntry *entry = bed->trace->pdata[i];
        g_autofree char *value = g_strescape(entry->value, NULL);
        g_autofree char *comm = g_strescape(entry->comm, NULL);

        g_string_append_printf(text, "%" G_GINT64_FORMAT ".%06" G_GINT64_FORMAT " %d (%s) %s %s",
                               entry->began / 1000000, entry->began % 1000000, (int)entry->pid, comm,
                               kinds[entry->kind], entry->path);
        if (*value)
            g_string_append_printf(text, " \"%s\"", value);
        g_string_append_printf(text, ": %s\n",
                               entry->error < 0    ? "no answer yet"
                               : entry->error == 0 ? "ok"
                                                   : g_strerror(entry->error));
    }
    g_mutex_unlock(&bed->lock);
    return g_strdup(text->str);
}

char **
bed_violations(Bed *bed)
{
    GPtrArray *copy = g_ptr_array_new();

    g_mutex_lock(&bed->lock);
    for (guint i = 0; i < bed->violations->len; i++)
        g_ptr_array_add(copy, g_strdup(bed->violations->pdata[i]));
    g_mutex_unlock(&bed->lock);
    g_ptr_array_add(copy, NULL);
    return (char **)g_ptr_array_free(copy, FALSE);
}
