/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Any text as the answer of the NVML child: what is taken was asked for, in order, and reads the same again.
 */
#include "nvml.h"

#include "fuzz.h"

#include <string.h>

static const char *const asked[] = {"0000:3b:00.0", "00000000:5E:00.0", "10000:01:00.0", "not an address",
                                    NULL};
static const char *const known[] = {"0000:3b:00.0", "0000:5e:00.0", "10000:01:00.0", NULL};

static void
check_card(const VgpuNvmlCard *card)
{
    guint32 last = 0;

    g_assert_true(g_strv_contains(known, card->address));
    fuzz_check_printable(card->name);
    g_assert_cmpstr(card->name, !=, "");
    g_assert_cmpuint(card->types->len, <=, VGPU_NVML_TYPES_MAX);
    for (guint i = 0; i < card->types->len; i++) {
        const VgpuNvmlType *type = g_ptr_array_index(card->types, i);

        g_assert_cmpuint(type->id, >, last);
        last = type->id;
        fuzz_check_printable(type->name);
        g_assert_cmpstr(type->name, !=, "");
        g_assert_cmpuint(type->framebuffer_mib, <=, G_MAXUINT64 >> 20);
        g_assert_true(vgpu_nvml_card_find_type(card, type->id) == type);
    }
}

static void
append_card(GString *text, const VgpuNvmlCard *card)
{
    g_string_append_printf(text, "card\t%s\t%s\n", card->address, card->name ? card->name : "");
    for (guint i = 0; i < card->types->len; i++) {
        const VgpuNvmlType *type = g_ptr_array_index(card->types, i);

        g_string_append_printf(text, "type\t%u\t%" G_GUINT64_FORMAT "\t%u\t%s\n", type->id,
                               type->framebuffer_mib << 20, type->max_instances,
                               type->name ? type->name : "");
    }
}

/* The lines that say what @cards say. */
static char *
format(GPtrArray *cards)
{
    GString *text = g_string_new(NULL);

    for (const char *const *address = known; *address; address++) {
        gboolean found = FALSE;

        for (guint i = 0; i < cards->len; i++) {
            const VgpuNvmlCard *card = g_ptr_array_index(cards, i);

            if (strcmp(card->address, *address) != 0)
                continue;
            g_assert_false(found);
            found = TRUE;
            append_card(text, card);
        }
        if (!found)
            g_string_append_printf(text, "skip\t%s\t\n", *address);
    }
    g_string_append(text, "end\n");
    return g_string_free(text, FALSE);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(GPtrArray) cards = vgpu_nvml_parse((const char *)data, size, asked, &error);
    g_autoptr(GPtrArray) again = NULL;
    g_autofree char *once = NULL;
    g_autofree char *twice = NULL;

    g_assert_cmpint(cards == NULL, ==, error != NULL);
    if (!cards) {
        g_assert_true(error->domain == G_IO_ERROR);
        fuzz_check_printable(error->message);
        return 0;
    }
    for (guint i = 0; i < cards->len; i++)
        check_card(g_ptr_array_index(cards, i));
    once = format(cards);
    again = vgpu_nvml_parse(once, strlen(once), asked, &error);
    g_assert_no_error(error);
    twice = format(again);
    g_assert_cmpstr(once, ==, twice);
    return 0;
}
