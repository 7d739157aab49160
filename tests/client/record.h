/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib.h>

/* The mock's assignments: dictionaries with the keys of the bus, in a list of GVariantDict. */

/* GVariant text as a value, not floating. */
GVariant *record_parse(const char *text);

/* The string at @key; the record's, until it changes. */
const char *record_text(GVariantDict *record, const char *key);

/* The record with the Id @id, or NULL. */
GVariantDict *record_find(GPtrArray *records, const char *id);

/* What is in a record now (a{sv}), which stays there; of all of them (aa{sv}, floating). */
GVariant *record_content(GVariantDict *record);
GVariant *record_all(GPtrArray *records);

/* Sets keys from GVariant text. */
void record_insert(GVariantDict *record, const char *text);

/* Sets the keys of a vGPU that was made for @profile: those of a T4 are mediated devices, all others virtual
 * functions; @number tells them apart. */
void record_describe(GVariantDict *record, const char *profile, unsigned number);
