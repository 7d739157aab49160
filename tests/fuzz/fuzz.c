/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fuzz.h"

#include <string.h>

char *
fuzz_take_text(const uint8_t **data, size_t *size, char separator)
{
    const uint8_t *end;
    size_t length;
    char *text;

    if (*size == 0)
        return NULL;
    end = memchr(*data, separator, *size);
    length = end ? (size_t)(end - *data) : *size;
    text = g_strndup((const char *)*data, length);
    *data += end ? length + 1 : length;
    *size -= end ? length + 1 : length;
    return text;
}

void
fuzz_check_printable(const char *text)
{
    if (!text)
        return;
    g_assert_true(g_utf8_validate(text, -1, NULL));
    for (const char *p = text; *p; p = g_utf8_next_char(p))
        g_assert_false(g_unichar_iscntrl(g_utf8_get_char(p)));
}

char *
fuzz_seal(const char *pattern, const uint8_t *body, size_t length, size_t *ret_length)
{
    g_auto(GStrv) words = g_strsplit(pattern, " ", 3);
    g_autofree char *checksum = g_compute_checksum_for_data(G_CHECKSUM_SHA256, body, length);
    GString *text = g_string_new(NULL);

    g_assert_cmpuint(g_strv_length(words), ==, 3);
    g_string_printf(text, "%s %s %s\n", words[0], words[1], checksum);
    g_string_append_len(text, (const char *)body, (gssize)length);
    *ret_length = text->len;
    return g_string_free(text, FALSE);
}
