/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib.h>

/* The journal, in the place of the system's for what is started afterwards; only in a mount namespace of the
 * test's own, as below bed_main(), which is checked. It listens in a thread: writers never wait for the test.
 */
typedef struct Journal Journal;

Journal *journal_new(void);
void journal_free(Journal *journal);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Journal, journal_free)

/* How many records so far have @field with @value. */
guint journal_count(Journal *journal, const char *field, const char *value);

/* Field @name of the newest record that has @field with @value; NULL: no such record or field. Lives as long
 * as @journal. */
const char *journal_field(Journal *journal, const char *field, const char *value, const char *name);

/* The names of all fields of that record, sorted, with a space between; one that comes twice is there twice.
 * The caller frees it. */
char *journal_names(Journal *journal, const char *field, const char *value);
