/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "number.h"

gboolean
vgpu_number_parse(const char *text, guint64 most, guint64 *ret_number)
{
    guint64 number = 0;

    if (!text || *text == '\0')
        return FALSE;
    for (const char *digit = text; *digit; digit++) {
        guint64 value = (guint64)(*digit - '0');

        if (!g_ascii_isdigit(*digit) || number > (G_MAXUINT64 - value) / 10)
            return FALSE;
        number = number * 10 + value;
    }
    if (number > most)
        return FALSE;
    *ret_number = number;
    return TRUE;
}
