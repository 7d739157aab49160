/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "seal.h"

#include "number.h"

#include <gio/gio.h>
#include <string.h>

#define MAGIC "hypeman-vgpu-"

char *
vgpu_seal(const char *kind, guint version, const char *body)
{
    g_autofree char *checksum = g_compute_checksum_for_string(G_CHECKSUM_SHA256, body, -1);

    return g_strdup_printf(MAGIC "%s %u %s\n%s", kind, version, checksum, body);
}

const char *
vgpu_unseal(const char *kind, guint version, const char *text, gsize length, gsize *ret_length,
            GError **error)
{
    const char *end = length > 0 ? memchr(text, '\n', length) : NULL;
    g_autofree char *line = end ? g_strndup(text, (gsize)(end - text)) : NULL;
    g_auto(GStrv) words = line ? g_strsplit(line, " ", 4) : NULL;
    g_autofree char *magic = g_strconcat(MAGIC, kind, NULL);
    g_autofree char *checksum = NULL;
    guint64 found;

    if (!words || g_strv_length(words) != 3 || strcmp(words[0], magic) != 0 ||
        !vgpu_number_parse(words[1], G_MAXINT, &found)) {
        g_set_error(error, G_IO_ERROR, G_IO_ERROR_INVALID_DATA, "it is not a %s file", kind);
        return NULL;
    }
    if (found != version) {
        g_set_error(error, G_IO_ERROR, G_IO_ERROR_INVALID_DATA,
                    "it was written by another version of the service (format %s, not %u)", words[1],
                    version);
        return NULL;
    }
    *ret_length = length - (gsize)(end + 1 - text);
    checksum = g_compute_checksum_for_data(G_CHECKSUM_SHA256, (const guchar *)end + 1, *ret_length);
    if (strcmp(checksum, words[2]) != 0) {
        g_set_error(error, G_IO_ERROR, G_IO_ERROR_INVALID_DATA,
                    "it is torn or was changed: its checksum does not fit");
        return NULL;
    }
    return end + 1;
}
