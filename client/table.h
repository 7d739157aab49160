/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib.h>

#include "terminal.h"

/* How a column is laid out, as bits. */
enum {
    VGPU_COLUMN_RIGHT = 1 << 0,
    VGPU_COLUMN_SHORTEN = 1 << 1, /* when the terminal is narrow */
    VGPU_COLUMN_WRAP = 1 << 2,    /* the same, over several lines */
    VGPU_COLUMN_TREE = 1 << 3,    /* rows below other rows are drawn as branches here */
    VGPU_COLUMN_STATE = 1 << 4,   /* coloured by the state of an assignment */
};

/* One column of a table whose rows are dictionaries (a{sv}). */
typedef struct {
    const char *title;
    int layout;
    const char *key; /* shown as it is; NULL: @text gives it */
    /* The text of a cell, to be freed; NULL when unknown. */
    char *(*text)(GVariant *row);
} VgpuColumn;

typedef struct VgpuTable VgpuTable;
typedef struct libscols_line VgpuRow;

/* A table with a title line unless @legend is false. @terminal must outlive it. */
VgpuTable *vgpu_table_new(const VgpuTerminal *terminal, bool legend, const VgpuColumn *columns, size_t n);
void vgpu_table_free(VgpuTable *table);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(VgpuTable, vgpu_table_free)

/* Adds @row: what it does not have is shown as "-". */
VgpuRow *vgpu_table_add(VgpuTable *table, GVariant *row);

/* Adds a row below @parent whose cells @columns describe, as many as the table has; a column without key and
 * text stays blank. */
void vgpu_table_add_below(VgpuTable *table, VgpuRow *parent, const VgpuColumn *columns, GVariant *row);

/* Prints it on stdout; nothing at all when it has no rows. */
void vgpu_table_print(VgpuTable *table);
