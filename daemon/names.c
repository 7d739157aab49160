/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "names.h"

#include "error.h"
#include "nvml.h"

#include <gio/gio.h>
#include <string.h>
#include <systemd/sd-hwdb.h>

/* A driver that has to wake its cards needs a few seconds; nobody waits for it. */
#define NVML_DEADLINE_MS 20000

G_DEFINE_AUTOPTR_CLEANUP_FUNC(sd_hwdb, sd_hwdb_unref)

struct _VgpuNames {
    char *path;
    char *boot_id;
    VgpuMemory *memory;
    guint saved;          /* version of the memory on disk */
    gboolean save_failed; /* and it was said */
    GHashTable *models;   /* modalias -> name in the hardware database, "" for none */

    GCancellable *question; /* under way; NULL when none is */
    gboolean wanted;        /* somebody asked meanwhile */
    gboolean stopped;

    VgpuNamesTold told;
    gpointer user_data;
};

static void
load(VgpuNames *names)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *text = NULL;
    gsize length;

    if (!g_file_get_contents(names->path, &text, &length, &error)) {
        if (!g_error_matches(error, G_FILE_ERROR, G_FILE_ERROR_NOENT))
            g_warning("what was remembered of the cards cannot be read: %s", error->message);
    } else if (!vgpu_memory_parse(names->memory, text, length, names->boot_id, &error)) {
        g_warning("what was remembered of the cards is ignored, %s: %s", names->path, error->message);
    }
}

static void
save(VgpuNames *names)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *text = NULL;

    if (names->saved == vgpu_memory_version(names->memory))
        return;
    text = vgpu_memory_format(names->memory, names->boot_id);
    if (g_file_set_contents_full(names->path, text, -1, G_FILE_SET_CONTENTS_CONSISTENT, 0600, &error)) {
        names->saved = vgpu_memory_version(names->memory);
        names->save_failed = FALSE;
    } else if (!names->save_failed) {
        g_warning("what is remembered of the cards cannot be written: %s", error->message);
        names->save_failed = TRUE; /* tried again at every scan, said once */
    }
}

VgpuNames *
vgpu_names_new(const char *directory, const char *boot_id, VgpuNamesTold told, gpointer user_data)
{
    VgpuNames *names = g_new0(VgpuNames, 1);

    names->path = g_build_filename(directory, "memory", NULL);
    names->boot_id = g_strdup(boot_id);
    names->memory = vgpu_memory_new();
    names->models = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
    names->saved = G_MAXUINT; /* written at the first scan, whatever was found */
    names->told = told;
    names->user_data = user_data;
    load(names);
    return names;
}

void
vgpu_names_free(VgpuNames *names)
{
    vgpu_names_stop(names);
    g_clear_object(&names->question);
    g_hash_table_unref(names->models);
    vgpu_memory_free(names->memory);
    g_free(names->boot_id);
    g_free(names->path);
    g_free(names);
}

VgpuMemory *
vgpu_names_memory(VgpuNames *names)
{
    return names->memory;
}

/* ---- The hardware database ---- */

static char *
read_model(const char *modalias)
{
    g_autoptr(sd_hwdb) hwdb = NULL;
    const char *model = NULL;

    if (sd_hwdb_new(&hwdb) < 0 || sd_hwdb_get(hwdb, modalias, "ID_MODEL_FROM_DATABASE", &model) < 0)
        return g_strdup("");
    return vgpu_text_printable(model);
}

static const char *
find_model(VgpuNames *names, const char *modalias)
{
    const char *model = g_hash_table_lookup(names->models, modalias);

    if (!model) {
        g_hash_table_insert(names->models, g_strdup(modalias), read_model(modalias));
        model = g_hash_table_lookup(names->models, modalias);
    }
    return *model ? model : NULL;
}

static void
name_card(VgpuNames *names, VgpuCard *card)
{
    const char *name = vgpu_memory_card_name(names->memory, card->address);

    if (!name && card->modalias)
        name = find_model(names, card->modalias);
    card->name = g_strdup(name ? name : card->ids);
}

void
vgpu_names_learn(VgpuNames *names, VgpuInventory *inventory, VgpuAssignments *assignments)
{
    vgpu_memory_learn(names->memory, inventory, assignments);
    for (guint i = 0; i < inventory->cards->len; i++)
        name_card(names, g_ptr_array_index(inventory->cards, i));
    save(names);
}

/* ---- NVML ---- */

static void
on_answer(GObject *source, GAsyncResult *result, gpointer user_data)
{
    VgpuNames *names = user_data;
    g_autoptr(GError) error = NULL;
    g_autoptr(GPtrArray) cards = vgpu_nvml_query_finish(result, &error);
    gboolean again;

    /* Called off, and then @names may be gone. */
    if (g_error_matches(error, G_IO_ERROR, G_IO_ERROR_CANCELLED))
        return;
    g_clear_object(&names->question);
    if (error)
        g_message("NVML names nothing: %s", error->message);
    else if (vgpu_memory_take_answer(names->memory, cards))
        save(names);
    again = names->wanted;
    names->wanted = FALSE;
    if (!names->stopped && (!error || again))
        names->told(again, names->user_data);
}

void
vgpu_names_want(VgpuNames *names, const VgpuInventory *inventory)
{
    g_auto(GStrv) addresses = NULL;

    if (names->stopped)
        return;
    if (names->question) {
        names->wanted = TRUE;
        return;
    }
    addresses = vgpu_memory_take_unasked(names->memory, inventory);
    if (!*addresses)
        return;
    names->question = g_cancellable_new();
    vgpu_nvml_query_async((const char *const *)addresses, NVML_DEADLINE_MS, names->question, on_answer,
                          names);
}

void
vgpu_names_stop(VgpuNames *names)
{
    names->stopped = TRUE;
    if (names->question)
        g_cancellable_cancel(names->question);
}
