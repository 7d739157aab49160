/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "error.h"
#include "number.h"
#include "pci-address.h"

#include <string.h>

#define GROUP "VGPU"

/* More than any true configuration; a bigger file is a mistake (a core dump, a log). */
#define TEXT_LENGTH_MAX (256 * 1024)

/* As many warnings as a person reads. */
#define WARNINGS_MAX 100

#define LIMIT_MAX 100000

void
vgpu_config_free(VgpuConfig *config)
{
    if (!config)
        return;
    g_clear_pointer(&config->cards, g_ptr_array_unref);
    g_free(config);
}

VgpuConfig *
vgpu_config_new(void)
{
    VgpuConfig *config = g_new(VgpuConfig, 1);

    *config = (VgpuConfig){
        .cards = NULL,
        .pack = FALSE,
        .max_assignments_per_user = 8,
        .max_pending_per_user = 4,
        .inhibit_sleep = TRUE,
    };
    return config;
}

/* What a setter needs to complain well. */
typedef struct {
    const char *path;
    GPtrArray *warnings;
} Reader;

static void warn(Reader *reader, const char *format, ...) G_GNUC_PRINTF(2, 3);

static void
warn(Reader *reader, const char *format, ...)
{
    va_list arguments;

    if (reader->warnings->len == WARNINGS_MAX)
        return;
    va_start(arguments, format);
    g_autofree char *what = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    g_autofree char *sentence = g_strdup_printf("%s: %s", reader->path, what);
    g_ptr_array_add(reader->warnings, vgpu_text_printable(sentence));
}

/* A value as it may stand in a warning: a screenful at most. */
static char *
quoted(const char *value)
{
    g_autofree char *start = g_strndup(value, 200);

    return g_strconcat(start, strlen(value) > strlen(start) ? "…" : "", NULL);
}

static void
read_cards(Reader *reader, const char *key, const char *value, VgpuConfig *config)
{
    g_auto(GStrv) words = g_strsplit_set(value, " \t,;", -1);
    gboolean any = FALSE;

    g_clear_pointer(&config->cards, g_ptr_array_unref);
    g_autoptr(GPtrArray) cards = g_ptr_array_new_with_free_func(g_free);
    for (char **word = words; *word; word++) {
        if (!**word)
            continue;
        any = TRUE;
        g_autofree char *address = vgpu_pci_address_normalize(*word);
        g_autofree char *shown = quoted(*word);
        if (!address)
            warn(reader, "%s= has “%s”, which is not a PCI address (as 0000:3b:00.0): it is left out", key,
                 shown);
        else if (!g_ptr_array_find_with_equal_func(cards, address, g_str_equal, NULL))
            g_ptr_array_add(cards, g_steal_pointer(&address));
    }
    if (!any)
        return;
    if (cards->len == 0)
        warn(reader, "%s= names no card, so no card is managed: correct it, or leave it empty for all cards",
             key);
    config->cards = g_steal_pointer(&cards);
}

static void
read_placement(Reader *reader, const char *key, const char *value, VgpuConfig *config)
{
    if (g_ascii_strcasecmp(value, "spread") == 0 || g_ascii_strcasecmp(value, "pack") == 0) {
        config->pack = g_ascii_tolower(*value) == 'p';
        return;
    }
    g_autofree char *shown = quoted(value);
    warn(reader, "%s=%s is neither spread nor pack: %s is used", key, shown,
         config->pack ? "pack" : "spread");
}

static void
read_limit(Reader *reader, const char *key, const char *value, guint *limit)
{
    guint64 number;

    if (vgpu_number_parse(value, LIMIT_MAX, &number)) {
        *limit = (guint)number;
        return;
    }
    g_autofree char *shown = quoted(value);
    warn(reader, "%s=%s is not a number from 0 to %d: %u is used", key, shown, LIMIT_MAX, *limit);
}

static void
read_max_assignments(Reader *reader, const char *key, const char *value, VgpuConfig *config)
{
    read_limit(reader, key, value, &config->max_assignments_per_user);
}

static void
read_max_pending(Reader *reader, const char *key, const char *value, VgpuConfig *config)
{
    read_limit(reader, key, value, &config->max_pending_per_user);
}

static void
read_inhibit_sleep(Reader *reader, const char *key, const char *value, VgpuConfig *config)
{
    static const char *const yes[] = {"yes", "true", "on", "1", NULL};
    static const char *const no[] = {"no", "false", "off", "0", NULL};
    g_autofree char *lower = g_ascii_strdown(value, -1);

    if (g_strv_contains(yes, lower)) {
        config->inhibit_sleep = TRUE;
    } else if (g_strv_contains(no, lower)) {
        config->inhibit_sleep = FALSE;
    } else {
        g_autofree char *shown = quoted(value);
        warn(reader, "%s=%s is neither yes nor no: %s is used", key, shown,
             config->inhibit_sleep ? "yes" : "no");
    }
}

static const struct {
    const char *key;
    void (*read)(Reader *reader, const char *key, const char *value, VgpuConfig *config);
} settings[] = {
    {"Cards", read_cards},
    {"Placement", read_placement},
    {"MaxAssignmentsPerUser", read_max_assignments},
    {"MaxPendingPerUser", read_max_pending},
    {"InhibitSleep", read_inhibit_sleep},
};

static void
read_key(Reader *reader, const char *key, const char *value, VgpuConfig *config)
{
    g_autofree char *stripped = g_strstrip(g_strdup(value));

    for (gsize i = 0; i < G_N_ELEMENTS(settings); i++) {
        if (g_ascii_strcasecmp(settings[i].key, key) != 0)
            continue;
        if (strcmp(settings[i].key, key) != 0)
            warn(reader, "%s= is read as %s=: write it so", key, settings[i].key);
        settings[i].read(reader, settings[i].key, stripped, config);
        return;
    }
    g_autofree char *shown_key = quoted(key);
    g_autofree char *shown = quoted(stripped);
    warn(reader, "%s=%s is ignored: there is no such key in [" GROUP "]", shown_key, shown);
}

static gboolean
is_key_file_line(const char *line, gsize length)
{
    g_autoptr(GKeyFile) trial = g_key_file_new();
    g_autofree char *text = g_strdup_printf("[" GROUP "]\n%.*s\n", (int)length, line);

    return g_key_file_load_from_data(trial, text, (gsize)-1, G_KEY_FILE_NONE, NULL);
}

/* GKeyFile gives up the whole file at the first line it cannot read, and with it a Cards= that somebody
 * relies on. So such lines are taken out first; and if what they take with them is the [VGPU] above all keys,
 * these still count. */
static char *
without_bad_lines(Reader *reader, const char *text, gsize length)
{
    GString *good = g_string_new("[" GROUP "]\n");
    const char *end = text + length;
    gboolean in_section = FALSE;
    guint number = 0;

    for (const char *line = text, *next; line < end; line = next) {
        const char *newline = memchr(line, '\n', (gsize)(end - line));
        gsize line_length = (gsize)((newline ? newline : end) - line);
        next = newline ? newline + 1 : end;
        number++;

        g_autofree char *copy = g_strndup(line, line_length);
        g_autofree char *shown = quoted(g_strstrip(copy));
        if (memchr(line, '\0', line_length) || !is_key_file_line(line, line_length)) {
            warn(reader, "line %u, “%s”, is ignored: it is neither [" GROUP "] nor KEY=VALUE", number, shown);
            continue;
        }
        g_string_append_len(good, line, (gssize)line_length);
        g_string_append_c(good, '\n');
        if (*shown == '[') {
            in_section = TRUE;
        } else if (!in_section && *shown && *shown != '#') {
            warn(reader, "line %u, “%s”, has no [" GROUP "] above it: it is read as if it had", number,
                 shown);
            in_section = TRUE;
        }
    }
    return g_string_free(good, FALSE);
}

VgpuConfig *
vgpu_config_parse(const char *text, gsize length, const char *path, GPtrArray **ret_warnings)
{
    g_autoptr(VgpuConfig) config = vgpu_config_new();
    g_autoptr(GPtrArray) warnings = g_ptr_array_new_with_free_func(g_free);
    g_autoptr(GKeyFile) file = g_key_file_new();
    g_autoptr(GError) error = NULL;
    Reader reader = {path, warnings};

    if (length > TEXT_LENGTH_MAX) {
        warn(&reader, "the file is ignored: it is longer than %d bytes", TEXT_LENGTH_MAX);
    } else if (length > 0) {
        g_autofree char *good = without_bad_lines(&reader, text, length);
        if (!g_key_file_load_from_data(file, good, (gsize)-1, G_KEY_FILE_KEEP_TRANSLATIONS, &error))
            warn(&reader, "the file is ignored: %s", error->message);
    }

    g_auto(GStrv) groups = g_key_file_get_groups(file, NULL);
    for (char **group = groups; *group; group++) {
        g_autofree char *shown = quoted(*group);

        if (g_ascii_strcasecmp(*group, GROUP) != 0) {
            warn(&reader, "section [%s] is ignored: only [" GROUP "] is known", shown);
            continue;
        }
        if (strcmp(*group, GROUP) != 0)
            warn(&reader, "section [%s] is read as [" GROUP "]: write it so", shown);
        g_auto(GStrv) keys = g_key_file_get_keys(file, *group, NULL, NULL);
        for (char **key = keys; key && *key; key++) {
            g_autofree char *value = g_key_file_get_value(file, *group, *key, NULL);
            read_key(&reader, *key, value ? value : "", config);
        }
    }

    if (ret_warnings)
        *ret_warnings = g_steal_pointer(&warnings);
    return g_steal_pointer(&config);
}

VgpuConfig *
vgpu_config_load(const char *path, GPtrArray **ret_warnings)
{
    g_autofree char *text = NULL;
    g_autoptr(GError) error = NULL;
    gsize length = 0;

    if (g_file_get_contents(path, &text, &length, &error))
        return vgpu_config_parse(text, length, path, ret_warnings);

    if (ret_warnings) {
        g_autoptr(GPtrArray) warnings = g_ptr_array_new_with_free_func(g_free);
        Reader reader = {path, warnings};
        if (!g_error_matches(error, G_FILE_ERROR, G_FILE_ERROR_NOENT))
            warn(&reader, "the file cannot be read, so the defaults hold: %s", error->message);
        *ret_warnings = g_steal_pointer(&warnings);
    }
    return vgpu_config_new();
}

gboolean
vgpu_config_manages(const VgpuConfig *config, const char *address)
{
    g_autofree char *normal = NULL;

    if (!config->cards)
        return TRUE;
    normal = vgpu_pci_address_normalize(address);
    return normal && g_ptr_array_find_with_equal_func(config->cards, normal, g_str_equal, NULL);
}
