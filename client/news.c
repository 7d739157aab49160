/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "news.h"

#include "error.h"
#include "json.h"
#include "value.h"

/* So many profiles are named in a line; the others are counted. */
#define PROFILES_NAMED 3

static const struct {
    const char *property, *key, *noun;
} lists[VGPU_N_LISTS] = {
    [VGPU_LIST_ASSIGNMENTS] = {"Assignments", "Id", "assignment"},
    [VGPU_LIST_GPUS] = {"GPUs", "Address", "card"},
    [VGPU_LIST_PROFILES] = {"Profiles", "Name", "profile"},
};

const char *
vgpu_list_property(VgpuList list)
{
    return lists[list].property;
}

const char *
vgpu_list_key(VgpuList list)
{
    return lists[list].key;
}

void
vgpu_news_tell(VgpuJson json, const char *text, GVariant *object)
{
    g_autoptr(GVariant) entries = g_variant_ref_sink(object);

    if (json) {
        GVariantDict dict;
        g_variant_dict_init(&dict, entries);
        g_variant_dict_insert(&dict, "Time", "t", (guint64)g_get_real_time());
        g_autoptr(GVariant) whole = g_variant_ref_sink(g_variant_dict_end(&dict));
        /* Indented, an object would take more than its line. */
        vgpu_json_print(VGPU_JSON_SHORT, whole);
    } else {
        g_autoptr(GDateTime) now = g_date_time_new_now_local();
        g_autofree char *time = g_date_time_format(now, "%Y-%m-%d %H:%M:%S");
        g_autofree char *printable = vgpu_text_printable(text);
        printf("%s %s\n", time, printable);
    }
    fflush(stdout);
}

/* "Key old -> new" for each key of either side. */
static char *
text_of_change(const VgpuChange *change)
{
    g_autoptr(GString) text = g_string_new(NULL);
    GVariantIter iter;
    const char *key;
    GVariant *value;

    g_variant_iter_init(&iter, change->after);
    while (g_variant_iter_loop(&iter, "{&sv}", &key, &value)) {
        g_autofree char *was = vgpu_value_of(change->before, key);
        g_autofree char *is = vgpu_value_text(value);
        g_string_append_printf(text, "%s%s ", text->len ? ", " : "", key);
        if (g_strcmp0(was, is) == 0) /* a list, of which only the length is shown */
            g_string_append(text, "differs");
        else
            g_string_append_printf(text, "%s -> %s", was ? was : "-", is);
    }
    g_variant_iter_init(&iter, change->before);
    while (g_variant_iter_loop(&iter, "{&sv}", &key, &value)) {
        g_autofree char *was = vgpu_value_text(value);
        g_autofree char *is = vgpu_value_of(change->after, key);
        if (!is)
            g_string_append_printf(text, "%s%s %s -> -", text->len ? ", " : "", key, was);
    }
    return g_string_free(g_steal_pointer(&text), FALSE);
}

/* What people want to know of a dictionary that came. */
static char *
text_of_row(GVariant *row)
{
    static const char *const keys[] = {"Profile", "Device", "Owner", "Label", "Framework", "Reason"};
    g_autoptr(GString) text = g_string_new(NULL);

    for (size_t i = 0; i < G_N_ELEMENTS(keys); i++) {
        g_autofree char *value = vgpu_value_of(row, keys[i]);
        if (value)
            g_string_append_printf(text, "%s%s %s", text->len ? ", " : "", keys[i], value);
    }
    return g_string_free(g_steal_pointer(&text), FALSE);
}

static const char *
verb_of(const VgpuChange *change)
{
    if (!change->before)
        return "added";
    return change->after ? "changed" : "removed";
}

static char *
detail_of(const VgpuChange *change)
{
    if (!change->after)
        return g_strdup("");
    return change->before ? text_of_change(change) : text_of_row(change->after);
}

static GVariant *
object_of(VgpuList list, const VgpuChange *change)
{
    GVariantDict dict;

    g_variant_dict_init(&dict, NULL);
    g_variant_dict_insert(&dict, "Property", "s", lists[list].property);
    g_variant_dict_insert(&dict, "Change", "s", verb_of(change));
    g_variant_dict_insert(&dict, lists[list].key, "s", change->name);
    if (change->before)
        g_variant_dict_insert(&dict, "Before", "@a{sv}", change->before);
    if (change->after)
        g_variant_dict_insert(&dict, "After", "@a{sv}", change->after);
    return g_variant_dict_end(&dict);
}

void
vgpu_news_tell_change(VgpuJson json, VgpuList list, const VgpuChange *change)
{
    g_autofree char *detail = detail_of(change);
    g_autofree char *text = g_strdup_printf("%s %s %s%s%s", lists[list].noun, change->name, verb_of(change),
                                            *detail ? ": " : "", detail);
    vgpu_news_tell(json, text, object_of(list, change));
}

void
vgpu_news_tell_profiles(VgpuJson json, GPtrArray *changes)
{
    g_autoptr(GString) text = g_string_new("profiles changed: ");
    unsigned changed = 0;

    for (unsigned i = 0; i < changes->len; i++) {
        const VgpuChange *change = changes->pdata[i];
        if (json || !change->before || !change->after) {
            vgpu_news_tell_change(json, VGPU_LIST_PROFILES, change);
        } else if (changed++ < PROFILES_NAMED) {
            g_autofree char *detail = text_of_change(change);
            g_string_append_printf(text, "%s%s %s", changed > 1 ? "; " : "", change->name, detail);
        }
    }
    if (changed > PROFILES_NAMED)
        g_string_append_printf(text, "; and %u more", changed - PROFILES_NAMED);
    if (changed > 0)
        vgpu_news_tell(json, text->str, g_variant_new("a{sv}", NULL));
}
