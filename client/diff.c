/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "diff.h"

#include "value.h"

static void
change_free(void *data)
{
    VgpuChange *change = data;
    g_free(change->name);
    g_clear_pointer(&change->before, g_variant_unref);
    g_clear_pointer(&change->after, g_variant_unref);
    g_free(change);
}

static void
add_change(GPtrArray *changes, const char *name, GVariant *before, GVariant *after)
{
    VgpuChange *change = g_new0(VgpuChange, 1);
    change->name = g_strdup(name);
    change->before = before ? g_variant_ref_sink(before) : NULL;
    change->after = after ? g_variant_ref_sink(after) : NULL;
    g_ptr_array_add(changes, change);
}

/* The dictionaries of @rows by name. */
static GHashTable *
index_of(GVariant *rows, const char *key)
{
    GHashTable *index =
        g_hash_table_new_full(g_str_hash, g_str_equal, g_free, (GDestroyNotify)g_variant_unref);
    for (size_t i = 0; i < g_variant_n_children(rows); i++) {
        g_autoptr(GVariant) row = g_variant_get_child_value(rows, i);
        const char *name = vgpu_value_string(row, key);
        if (name)
            g_hash_table_replace(index, g_strdup(name), g_steal_pointer(&row));
    }
    return index;
}

/* The entries of @row that @other does not have with the same value; floating. */
static GVariant *
entries_unlike(GVariant *row, GVariant *other)
{
    g_auto(GVariantBuilder) builder = G_VARIANT_BUILDER_INIT(G_VARIANT_TYPE_VARDICT);
    GVariantIter iter;
    const char *key;
    GVariant *value;

    g_variant_iter_init(&iter, row);
    while (g_variant_iter_loop(&iter, "{&sv}", &key, &value)) {
        g_autoptr(GVariant) same = g_variant_lookup_value(other, key, NULL);
        if (!same || !g_variant_equal(value, same))
            g_variant_builder_add(&builder, "{sv}", key, value);
    }
    return g_variant_builder_end(&builder);
}

GPtrArray *
vgpu_diff(GVariant *before, GVariant *after, const char *key)
{
    GPtrArray *changes = g_ptr_array_new_with_free_func(change_free);
    g_autoptr(GHashTable) was = index_of(before, key);
    g_autoptr(GHashTable) is = index_of(after, key);

    for (size_t i = 0; i < g_variant_n_children(before); i++) {
        g_autoptr(GVariant) row = g_variant_get_child_value(before, i);
        const char *name = vgpu_value_string(row, key);
        if (name && !g_hash_table_contains(is, name))
            add_change(changes, name, row, NULL);
    }
    for (size_t i = 0; i < g_variant_n_children(after); i++) {
        g_autoptr(GVariant) row = g_variant_get_child_value(after, i);
        const char *name = vgpu_value_string(row, key);
        GVariant *old = name ? g_hash_table_lookup(was, name) : NULL;
        if (!name || (old && g_variant_equal(old, row)))
            continue;
        if (old)
            add_change(changes, name, entries_unlike(old, row), entries_unlike(row, old));
        else
            add_change(changes, name, NULL, row);
    }
    return changes;
}
