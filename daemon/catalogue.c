/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "catalogue.h"

#include "error.h"

#include <string.h>

#define NAME_LENGTH_MAX 255

void
vgpu_catalogue_row_free(VgpuCatalogueRow *row)
{
    if (!row)
        return;
    g_free(row->name);
    g_free(row);
}

static gboolean
is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static void
trim(const char **text, gsize *length)
{
    while (*length > 0 && is_blank((*text)[0])) {
        (*text)++;
        (*length)--;
    }
    while (*length > 0 && is_blank((*text)[*length - 1]))
        (*length)--;
}

static gboolean
is_number(const char *text, gsize length)
{
    for (gsize i = 0; i < length; i++) {
        if (!g_ascii_isdigit(text[i]))
            return FALSE;
    }
    return length > 0;
}

/* @text is digits only; 0 if the number is 0 or does not fit, for neither can be set. */
static guint32
parse_id(const char *text, gsize length)
{
    guint64 id = 0;

    for (gsize i = 0; i < length; i++) {
        id = id * 10 + (guint64)g_ascii_digit_value(text[i]);
        if (id > G_MAXUINT32)
            return 0;
    }
    return (guint32)id;
}

/* NULL if the driver gave no usable name. */
static char *
parse_row_name(const char *text, gsize length)
{
    if (length > NAME_LENGTH_MAX || memchr(text, '\0', length))
        return NULL;

    g_autofree char *raw = g_strndup(text, length);
    g_autofree char *name = g_strstrip(vgpu_text_printable(raw));
    return *name ? g_steal_pointer(&name) : NULL;
}

GPtrArray *
vgpu_catalogue_parse(const char *text, gsize length, guint *ret_bad_rows)
{
    GPtrArray *rows = g_ptr_array_new_with_free_func((GDestroyNotify)vgpu_catalogue_row_free);
    g_autoptr(GHashTable) seen = g_hash_table_new(NULL, NULL); /* id -> name, owned by the row */
    const char *end = length > 0 ? text + length : text;
    gboolean first = TRUE;
    guint bad_rows = 0;

    for (const char *line = text, *next; line < end; line = next) {
        const char *newline = memchr(line, '\n', (gsize)(end - line));
        const char *line_end = newline ? newline : end;
        next = newline ? newline + 1 : end;

        const char *colon = memchr(line, ':', (gsize)(line_end - line));
        const char *id_text = line;
        gsize id_length = (gsize)((colon ? colon : line_end) - line);
        trim(&id_text, &id_length);
        if (!colon && id_length == 0)
            continue;

        gboolean numbered = is_number(id_text, id_length);
        gboolean header = first && !numbered;
        first = FALSE;
        if (header)
            continue;

        guint32 id = numbered ? parse_id(id_text, id_length) : 0;
        const char *name_text = colon ? colon + 1 : line_end;
        gsize name_length = (gsize)(line_end - name_text);
        trim(&name_text, &name_length);
        g_autofree char *name = id != 0 ? parse_row_name(name_text, name_length) : NULL;
        if (!name) {
            bad_rows++;
            continue;
        }

        const char *known = g_hash_table_lookup(seen, GUINT_TO_POINTER(id));
        if (known) {
            bad_rows += strcmp(known, name) != 0;
            continue;
        }
        g_hash_table_insert(seen, GUINT_TO_POINTER(id), name);
        VgpuCatalogueRow *row = g_new(VgpuCatalogueRow, 1);
        *row = (VgpuCatalogueRow){id, g_steal_pointer(&name)};
        g_ptr_array_add(rows, row);
    }

    if (ret_bad_rows)
        *ret_bad_rows = bad_rows;
    return rows;
}
