/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Any text as the configuration: values in their bounds, warnings that can be shown, and cards that were to
 * be left alone stay so. */
#include "config.h"

#include "fuzz.h"
#include "pci-address.h"

#include <string.h>

#define WARNINGS_MAX 100
#define LIMIT_MAX 100000
#define ONLY "0000:3b:00.0"

static void
check_cards(const VgpuConfig *config)
{
    for (guint i = 0; config->cards && i < config->cards->len; i++) {
        g_autofree char *normal = vgpu_pci_address_normalize(config->cards->pdata[i]);

        g_assert_cmpstr(normal, ==, config->cards->pdata[i]);
        g_assert_true(vgpu_config_manages(config, normal));
        for (guint j = 0; j < i; j++)
            g_assert_cmpstr(normal, !=, config->cards->pdata[j]);
    }
}

static void
check_warnings(GPtrArray *warnings)
{
    g_assert_cmpuint(warnings->len, <=, WARNINGS_MAX);
    for (guint i = 0; i < warnings->len; i++) {
        fuzz_check_printable(warnings->pdata[i]);
        g_assert_true(g_str_has_prefix(warnings->pdata[i], "a file: "));
        g_assert_cmpuint(strlen(warnings->pdata[i]), <, 2000);
    }
}

static void
check_same(const VgpuConfig *a, const VgpuConfig *b)
{
    g_assert_cmpint(a->cards == NULL, ==, b->cards == NULL);
    g_assert_cmpuint(a->cards ? a->cards->len : 0, ==, b->cards ? b->cards->len : 0);
    for (guint i = 0; a->cards && i < a->cards->len; i++)
        g_assert_cmpstr(a->cards->pdata[i], ==, b->cards->pdata[i]);
    g_assert_cmpint(a->pack, ==, b->pack);
    g_assert_cmpuint(a->max_assignments_per_user, ==, b->max_assignments_per_user);
    g_assert_cmpuint(a->max_pending_per_user, ==, b->max_pending_per_user);
    g_assert_cmpint(a->inhibit_sleep, ==, b->inhibit_sleep);
}

/* What was understood, written down, is understood without a warning. */
static void
check_comes_back(const VgpuConfig *config)
{
    g_autoptr(GString) text = g_string_new("[VGPU]\n");
    g_autoptr(VgpuConfig) again = NULL;
    g_autoptr(GPtrArray) warnings = NULL;

    if (config->cards && config->cards->len == 0)
        return; /* "no card at all" is only what a mistake means */
    g_string_append(text, "Cards=");
    for (guint i = 0; config->cards && i < config->cards->len; i++)
        g_string_append_printf(text, "%s ", (const char *)config->cards->pdata[i]);
    g_string_append_printf(
        text, "\nPlacement=%s\nMaxAssignmentsPerUser=%u\nMaxPendingPerUser=%u\nInhibitSleep=%s\n",
        config->pack ? "pack" : "spread", config->max_assignments_per_user, config->max_pending_per_user,
        config->inhibit_sleep ? "yes" : "no");
    again = vgpu_config_parse(text->str, text->len, "a file", &warnings);
    g_assert_cmpuint(warnings->len, ==, 0);
    check_same(config, again);
}

static gboolean
speaks_of_cards(const uint8_t *data, size_t size)
{
    for (size_t i = 0; i + 5 <= size; i++) {
        if (g_ascii_strncasecmp((const char *)data + i, "cards", 5) == 0)
            return TRUE;
    }
    return FALSE;
}

/* Nothing that stands around it takes away a Cards= line. */
static void
check_cards_stay(const uint8_t *data, size_t size)
{
    g_autoptr(GString) text = g_string_new("[VGPU]\nCards=" ONLY "\n");
    g_autoptr(VgpuConfig) config = NULL;

    g_string_append_len(text, (const char *)data, (gssize)size);
    config = vgpu_config_parse(text->str, text->len, "a file", NULL);
    g_assert_nonnull(config->cards);
    g_assert_cmpuint(config->cards->len, ==, 1);
    g_assert_cmpstr(config->cards->pdata[0], ==, ONLY);

    g_string_assign(text, "");
    g_string_append_len(text, (const char *)data, (gssize)size);
    g_string_append(text, "\n[VGPU]\nCards=" ONLY "\n");
    g_clear_pointer(&config, vgpu_config_free);
    config = vgpu_config_parse(text->str, text->len, "a file", NULL);
    g_assert_nonnull(config->cards);
    g_assert_cmpuint(config->cards->len, ==, 1);
    g_assert_cmpstr(config->cards->pdata[0], ==, ONLY);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    g_autoptr(GPtrArray) warnings = NULL;
    g_autoptr(VgpuConfig) config = vgpu_config_parse((const char *)data, size, "a file", &warnings);

    g_assert_cmpuint(config->max_assignments_per_user, <=, LIMIT_MAX);
    g_assert_cmpuint(config->max_pending_per_user, <=, LIMIT_MAX);
    check_cards(config);
    check_warnings(warnings);
    check_comes_back(config);
    if (!speaks_of_cards(data, size))
        check_cards_stay(data, size);
    return 0;
}
