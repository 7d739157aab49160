/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "table.h"

#include <libsmartcols.h>
#include <string.h>

#include "value.h"

struct VgpuTable {
    struct libscols_table *table;
    const VgpuTerminal *terminal;
    const VgpuColumn *columns;
    size_t n;
};

static int
flags_of(int layout)
{
    return (layout & VGPU_COLUMN_RIGHT ? SCOLS_FL_RIGHT : 0) |
           (layout & VGPU_COLUMN_SHORTEN ? SCOLS_FL_TRUNC : 0) |
           (layout & VGPU_COLUMN_WRAP ? SCOLS_FL_WRAP : 0) | (layout & VGPU_COLUMN_TREE ? SCOLS_FL_TREE : 0);
}

VgpuTable *
vgpu_table_new(const VgpuTerminal *terminal, bool legend, const VgpuColumn *columns, size_t n)
{
    VgpuTable *table = g_new0(VgpuTable, 1);

    table->table = scols_new_table();
    if (!table->table)
        g_error("no memory for a table");
    table->terminal = terminal;
    table->columns = columns;
    table->n = n;
    scols_table_enable_noheadings(table->table, !legend);
    scols_table_enable_colors(table->table, terminal->colour);
    /* A pager makes stdout a pipe, behind which the terminal still is. */
    scols_table_set_termforce(table->table,
                              terminal->columns ? SCOLS_TERMFORCE_ALWAYS : SCOLS_TERMFORCE_NEVER);
    if (terminal->columns)
        scols_table_set_termwidth(table->table, (size_t)terminal->columns);
    for (size_t i = 0; i < n; i++)
        scols_table_new_column(table->table, columns[i].title, 0.1, flags_of(columns[i].layout));
    return table;
}

void
vgpu_table_free(VgpuTable *table)
{
    scols_unref_table(table->table);
    g_free(table);
}

static char *
cell_text(const VgpuColumn *column, GVariant *row)
{
    return column->key ? vgpu_value_of(row, column->key) : column->text(row);
}

static const char *
colour_of_state(const char *state)
{
    static const struct {
        const char *state, *colour;
    } colours[] = {
        {"in-use", "green"},     {"lingering", "yellow"}, {"assigning", "yellow"},
        {"releasing", "yellow"}, {"failed", "red"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(colours); i++)
        if (!g_strcmp0(state, colours[i].state))
            return colours[i].colour;
    return NULL;
}

static void
fill(struct libscols_line *line, const VgpuColumn *columns, size_t n, GVariant *row, const char *absent)
{
    for (size_t i = 0; i < n; i++) {
        g_autofree char *text =
            columns[i].key || columns[i].text ? cell_text(&columns[i], row) : g_strdup("");
        scols_line_set_data(line, i, text ? text : absent);
        if (columns[i].layout & VGPU_COLUMN_STATE)
            scols_cell_set_color(scols_line_get_cell(line, i), colour_of_state(text));
    }
}

static struct libscols_line *
new_line(VgpuTable *table, VgpuRow *parent)
{
    struct libscols_line *line = scols_table_new_line(table->table, parent);
    if (!line)
        g_error("no memory for a table");
    return line;
}

VgpuRow *
vgpu_table_add(VgpuTable *table, GVariant *row)
{
    struct libscols_line *line = new_line(table, NULL);
    fill(line, table->columns, table->n, row, "-");
    return line;
}

void
vgpu_table_add_below(VgpuTable *table, VgpuRow *parent, const VgpuColumn *columns, GVariant *row)
{
    fill(new_line(table, parent), columns, table->n, row, "-");
}

void
vgpu_table_print(VgpuTable *table)
{
    scols_print_table(table->table);
}
