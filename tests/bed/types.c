/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "bed-private.h"

#include <stdlib.h>
#include <string.h>

/* Reads tests/data: what a card's types are. */

static void
type_free(gpointer data)
{
    Type *type = data;

    g_free(type->sysfs);
    g_free(type->name);
    g_free(type->description);
    g_free(type);
}

Type *
types_find(GPtrArray *types, unsigned id)
{
    for (guint i = 0; types && i < types->len; i++)
        if (((Type *)types->pdata[i])->id == id)
            return types->pdata[i];
    return NULL;
}

static Type *
type_add(GPtrArray *types, unsigned id, const char *name)
{
    Type *type = g_new0(Type, 1);

    type->id = id;
    type->sysfs = g_strdup_printf("nvidia-%u", id);
    type->name = g_strdup(name);
    g_ptr_array_add(types, type);
    return type;
}

static void
read_table_line(GPtrArray *types, const char *line)
{
    g_auto(GStrv) columns = g_strsplit(line, "\t", -1);
    Type *type;

    if (g_strv_length(columns) != 9)
        g_error("bed: a types line has not nine columns: %s", line);
    type = type_add(types, (unsigned)strtoul(columns[0], NULL, 10), columns[1]);
    type->framebuffer_mib = strtoull(columns[3], NULL, 10);
    type->max = (unsigned)strtoul(columns[8], NULL, 10);
    type->description = g_strdup_printf(
        "num_heads=%s, frl_config=%s, framebuffer=%sM, max_resolution=%sx%s, max_instance=%s\n", columns[4],
        columns[7], columns[3], columns[5], columns[6], columns[8]);
}

/* A list has no sizes: they are in the name, "…-<GB><series>". */
static void
read_list_line(GPtrArray *types, const char *line)
{
    const char *colon = strchr(line, ':');
    const char *dash;
    unsigned id = (unsigned)strtoul(line, NULL, 10);
    Type *type;

    if (!colon || id == 0)
        return;
    type = type_add(types, id, colon + 2);
    dash = strrchr(type->name, '-');
    type->framebuffer_mib = dash ? strtoull(dash + 1, NULL, 10) * 1024 : 0;
    type->max = G_MAXUINT;
}

static Type *
type_named(GPtrArray *types, const char *sysfs)
{
    const char *dash = strrchr(sysfs, '-');
    Type *type;

    for (guint i = 0; i < types->len; i++)
        if (strcmp(((Type *)types->pdata[i])->sysfs, sysfs) == 0)
            return types->pdata[i];
    type = type_add(types, dash ? (unsigned)strtoul(dash + 1, NULL, 10) : 0, NULL);
    g_free(type->sysfs);
    type->sysfs = g_strdup(sysfs);
    return type;
}

static unsigned
number_after(const char *text, const char *key)
{
    const char *at = strstr(text, key);

    return at ? (unsigned)strtoul(at + strlen(key), NULL, 10) : 0;
}

/* <something>/<parent>/mdev_supported_types/<type>/<file><TAB><value>, of one parent. */
static void
read_dump_line(GPtrArray *types, const char *line, const char *parent)
{
    g_auto(GStrv) halves = g_strsplit(line, "\t", 2);
    g_auto(GStrv) parts = g_strsplit(halves[0], "/", -1);
    guint n = g_strv_length(parts);
    g_autofree char *value = NULL;
    Type *type;

    if (n < 4 || strcmp(parts[n - 3], "mdev_supported_types") != 0 || strcmp(parts[n - 4], parent) != 0)
        return;
    value = g_strcompress(halves[1]);
    type = type_named(types, parts[n - 2]);
    if (strcmp(parts[n - 1], "name") == 0) {
        type->name = g_strndup(value, strcspn(value, "\n"));
    } else if (strcmp(parts[n - 1], "available_instances") == 0) {
        type->max = (unsigned)strtoul(value, NULL, 10);
    } else if (strcmp(parts[n - 1], "description") == 0) {
        type->description = g_strdup(value);
        type->framebuffer_mib = number_after(value, "framebuffer=");
        type->low_gm = number_after(value, "low_gm_size: ");
        type->high_gm = number_after(value, "high_gm_size: ");
    }
}

/* The parent to take from a dump: the one asked for, else the first one. */
static char *
dump_parent(char **lines, const char *address)
{
    char *first = NULL;

    for (guint i = 0; lines[i]; i++) {
        g_auto(GStrv) parts = g_strsplit_set(lines[i], "/\t", -1);
        guint n = g_strv_length(parts);

        for (guint k = 1; k < n; k++) {
            if (strcmp(parts[k], "mdev_supported_types") != 0)
                continue;
            if (strcmp(parts[k - 1], address) == 0) {
                g_free(first);
                return g_strdup(address);
            }
            if (!first)
                first = g_strdup(parts[k - 1]);
        }
    }
    return first;
}

GPtrArray *
types_read(const char *file, const char *address)
{
    GPtrArray *types = g_ptr_array_new_with_free_func(type_free);
    g_autofree char *path = g_build_filename(BED_DATA_DIR, file, NULL);
    g_autofree char *text = NULL;
    g_autofree char *parent = NULL;
    g_auto(GStrv) lines = NULL;
    g_autoptr(GError) error = NULL;

    if (!g_file_get_contents(path, &text, NULL, &error))
        g_error("bed: %s", error->message);
    lines = g_strsplit(text, "\n", -1);
    if (g_str_has_suffix(file, ".mdev.tsv"))
        parent = dump_parent(lines, address);

    for (guint i = 0; lines[i]; i++) {
        if (!*lines[i] || *lines[i] == '#')
            continue;
        if (g_str_has_suffix(file, ".mdev.tsv"))
            read_dump_line(types, lines[i], parent);
        else if (g_str_has_suffix(file, ".list"))
            read_list_line(types, lines[i]);
        else
            read_table_line(types, lines[i]);
    }
    if (types->len == 0)
        g_error("bed: %s has no types", path);
    return types;
}
