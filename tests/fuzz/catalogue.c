/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Any text as a card's list of creatable types: rows that can be set and shown, which read the same again. */
#include "catalogue.h"

#include "fuzz.h"

#include <string.h>

#define NAME_LENGTH_MAX 255 /* of the text; bad bytes in it grow when they are replaced */

static void
check_row(const VgpuCatalogueRow *row, GHashTable *ids)
{
    g_assert_cmpuint(row->id, >, 0);
    g_assert_true(g_hash_table_add(ids, GUINT_TO_POINTER(row->id)));
    g_assert_cmpstr(row->name, !=, "");
    fuzz_check_printable(row->name);
    g_assert_cmpuint(strlen(row->name), <=, 3 * NAME_LENGTH_MAX);
}

static void
check_reads_the_same(GPtrArray *rows)
{
    g_autoptr(GString) text = g_string_new("ID    : vGPU Name\n");
    g_autoptr(GPtrArray) again = NULL;
    guint bad_rows;

    for (guint i = 0; i < rows->len; i++) {
        const VgpuCatalogueRow *row = g_ptr_array_index(rows, i);

        if (strlen(row->name) > NAME_LENGTH_MAX)
            return;
        g_string_append_printf(text, "%-5u : %s\n", row->id, row->name);
    }
    again = vgpu_catalogue_parse(text->str, text->len, &bad_rows);
    g_assert_cmpuint(bad_rows, ==, 0);
    g_assert_cmpuint(again->len, ==, rows->len);
    for (guint i = 0; i < rows->len; i++) {
        const VgpuCatalogueRow *a = g_ptr_array_index(rows, i), *b = g_ptr_array_index(again, i);

        g_assert_cmpuint(a->id, ==, b->id);
        g_assert_cmpstr(a->name, ==, b->name);
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    g_autoptr(GHashTable) ids = g_hash_table_new(NULL, NULL);
    guint lines = 1, bad_rows = G_MAXUINT;
    g_autoptr(GPtrArray) rows = vgpu_catalogue_parse((const char *)data, size, &bad_rows);

    for (size_t i = 0; i < size; i++)
        lines += data[i] == '\n';
    g_assert_cmpuint(bad_rows, <=, lines);
    g_assert_cmpuint(rows->len, <=, lines - bad_rows);
    for (guint i = 0; i < rows->len; i++)
        check_row(g_ptr_array_index(rows, i), ids);
    check_reads_the_same(rows);
    return 0;
}
