/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include <glib/gstdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_NAME "/etc/hypeman-vgpu.conf"

/* @config in one line. */
static char *
config_as_text(const VgpuConfig *config)
{
    GString *text = g_string_new("cards:");

    if (!config->cards)
        g_string_append(text, " all");
    for (guint i = 0; config->cards && i < config->cards->len; i++)
        g_string_append_printf(text, " %s", (char *)g_ptr_array_index(config->cards, i));
    g_string_append_printf(text, "; %s; %u; %u; %s", config->pack ? "pack" : "spread",
                           config->max_assignments_per_user, config->max_pending_per_user,
                           config->inhibit_sleep ? "inhibit" : "sleep");
    return g_string_free(text, FALSE);
}

#define DEFAULTS "cards: all; spread; 8; 4; inhibit"

static const struct {
    const char *what, *text, *expected;
    const char *warnings[4]; /* each is a part of one warning, in their order; no others may come */
} files[] = {
    {"empty", "", DEFAULTS, {NULL}},
    {"comments", "# a\n\n  # b\n[VGPU]\n#Cards=0000:3b:00.0\n", DEFAULTS, {NULL}},
    {"everything",
     "[VGPU]\nCards=0000:3b:00.0 86:00.0\nPlacement=pack\nMaxAssignmentsPerUser=2\nMaxPendingPerUser=1\n"
     "InhibitSleep=no\n",
     "cards: 0000:3b:00.0 0000:86:00.0; pack; 2; 1; sleep",
     {NULL}},
    {"written at ease",
     "[VGPU]\r\n  Cards = 0000:3B:00.0,; 00000000:86:00.0 ;10000:01:00.0,,3b:00.0 \r\nPlacement = Spread\r\n"
     "InhibitSleep=TRUE\r\nMaxPendingPerUser=0\r\nMaxAssignmentsPerUser=100000\r\n",
     "cards: 0000:3b:00.0 0000:86:00.0 10000:01:00.0; spread; 100000; 0; inhibit",
     {NULL}},
    {"no cards named", "[VGPU]\nCards=\n", DEFAULTS, {NULL}},
    {"no cards named, separators", "[VGPU]\nCards= ,; \n", DEFAULTS, {NULL}},
    {"a mistyped card is not managed, nor are all others",
     "[VGPU]\nCards=0000:3b:00.0 0000:86:0.0\n",
     "cards: 0000:3b:00.0; spread; 8; 4; inhibit",
     {"Cards= has “0000:86:0.0”"}},
    {"only mistyped cards: none is managed",
     "[VGPU]\nCards=all\n",
     "cards:; spread; 8; 4; inhibit",
     {"Cards= has “all”", "Cards= names no card, so no card is managed"}},
    {"cards that are not text",
     "[VGPU]\nCards=\xff\xfe\n",
     "cards:; spread; 8; 4; inhibit",
     {"Cards= has “\xef\xbf\xbd\xef\xbf\xbd”", "no card is managed"}},
    {"cards, and a line that is nothing",
     "[VGPU]\nteapot\nCards=0000:3b:00.0\n",
     "cards: 0000:3b:00.0; spread; 8; 4; inhibit",
     {"line 2, “teapot”, is ignored"}},
    {"cards below a mistyped section",
     "# mine\n[VGPU\nCards=0000:3b:00.0\nPlacement=pack\n",
     "cards: 0000:3b:00.0; pack; 8; 4; inhibit",
     {"line 2, “[VGPU”, is ignored", "line 3, “Cards=0000:3b:00.0”, has no [VGPU] above it"}},
    {"cards below no section",
     "Cards=0000:3b:00.0\n",
     "cards: 0000:3b:00.0; spread; 8; 4; inhibit",
     {"line 1, “Cards=0000:3b:00.0”, has no [VGPU] above it"}},
    {"cards in small letters",
     "[vgpu]\ncards=0000:3b:00.0\n",
     "cards: 0000:3b:00.0; spread; 8; 4; inhibit",
     {"section [vgpu] is read as [VGPU]", "cards= is read as Cards="}},
    {"unknown key",
     "[VGPU]\nTeapot=short\n",
     DEFAULTS,
     {"Teapot=short is ignored: there is no such key in [VGPU]"}},
    {"translated key", "[VGPU]\nPlacement[de]=pack\n", DEFAULTS, {"Placement[de]=pack is ignored"}},
    {"unknown section",
     "[VGPU]\nPlacement=pack\n[Teapot]\nMaxPendingPerUser=1\n",
     "cards: all; pack; 8; 4; inhibit",
     {"section [Teapot] is ignored"}},
    {"bad placement",
     "[VGPU]\nPlacement=random\n",
     DEFAULTS,
     {"Placement=random is neither spread nor pack: spread"}},
    {"no placement", "[VGPU]\nPlacement=\n", DEFAULTS, {"Placement= is neither spread nor pack"}},
    {"bad limits",
     "[VGPU]\nMaxAssignmentsPerUser=-1\nMaxPendingPerUser=many\n",
     DEFAULTS,
     {"MaxAssignmentsPerUser=-1 is not a number from 0 to 100000: 8 is used",
      "MaxPendingPerUser=many is not a number from 0 to 100000: 4 is used"}},
    {"limits beyond numbers",
     "[VGPU]\nMaxAssignmentsPerUser=100001\nMaxPendingPerUser=18446744073709551617\n",
     DEFAULTS,
     {"MaxAssignmentsPerUser=100001", "MaxPendingPerUser=18446744073709551617"}},
    {"limits that are nearly numbers",
     "[VGPU]\nMaxAssignmentsPerUser=+3\nMaxPendingPerUser=3x\n",
     DEFAULTS,
     {"MaxAssignmentsPerUser=+3", "MaxPendingPerUser=3x"}},
    {"bad yes",
     "[VGPU]\nInhibitSleep=perhaps\n",
     DEFAULTS,
     {"InhibitSleep=perhaps is neither yes nor no: yes is used"}},
    {"a value with control characters",
     "[VGPU]\nPlacement=a\x1b[31mb\n",
     DEFAULTS,
     {FILE_NAME ": Placement=a [31mb is neither"}},
    {"the last of two counts", "[VGPU]\nPlacement=pack\nPlacement=spread\n", DEFAULTS, {NULL}},
    {"no newline at the end", "[VGPU]\nPlacement=pack", "cards: all; pack; 8; 4; inhibit", {NULL}},
};

static void
assert_is(const VgpuConfig *config, GPtrArray *warnings, const char *expected,
          const char *const *expected_warnings)
{
    g_autofree char *got = config_as_text(config);
    guint i;

    for (i = 0; i < warnings->len; i++) {
        const char *warning = g_ptr_array_index(warnings, i);
        g_test_message("    %s", warning);
        g_assert_true(g_utf8_validate(warning, -1, NULL));
        if (!expected_warnings[i] || !strstr(warning, expected_warnings[i]))
            g_error("“%s” came instead of “%s”", warning, expected_warnings[i]);
    }
    g_assert_null(expected_warnings[i]);
    g_assert_cmpstr(got, ==, expected);
}

static void
test_texts(void)
{
    for (gsize i = 0; i < G_N_ELEMENTS(files); i++) {
        gsize length = strlen(files[i].text);
        g_autofree char *copy = g_memdup2(files[i].text, length); /* no NUL behind it */
        g_autoptr(GPtrArray) warnings = NULL;
        g_autoptr(VgpuConfig) config = vgpu_config_parse(copy, length, FILE_NAME, &warnings);

        g_test_message("%s", files[i].what);
        assert_is(config, warnings, files[i].expected, files[i].warnings);
        for (guint j = 0; j < warnings->len; j++)
            g_assert_true(g_str_has_prefix(g_ptr_array_index(warnings, j), FILE_NAME ": "));

        g_autoptr(VgpuConfig) unheard = vgpu_config_parse(copy, length, FILE_NAME, NULL);
        g_autofree char *text = config_as_text(unheard);
        g_assert_cmpstr(text, ==, files[i].expected);
    }
}

static void
test_files(void)
{
    static const char *const none[] = {NULL};
    g_autoptr(GError) error = NULL;
    g_autofree char *folder = g_dir_make_tmp("hypeman-vgpu-XXXXXX", &error);
    g_assert_no_error(error);
    g_autofree char *path = g_build_filename(folder, "test.conf", NULL);

    g_autoptr(GPtrArray) warnings_missing = NULL;
    g_autoptr(VgpuConfig) missing = vgpu_config_load(path, &warnings_missing);
    assert_is(missing, warnings_missing, DEFAULTS, none);

    g_assert_true(g_file_set_contents(path, "[VGPU]\nPlacement=pack\n", -1, NULL));
    g_autoptr(GPtrArray) warnings_there = NULL;
    g_autoptr(VgpuConfig) there = vgpu_config_load(path, &warnings_there);
    assert_is(there, warnings_there, "cards: all; pack; 8; 4; inhibit", none);

    /* A folder cannot be read as a file, not even by root. */
    const char *unreadable_warnings[] = {folder, NULL};
    g_autoptr(GPtrArray) warnings_unreadable = NULL;
    g_autoptr(VgpuConfig) unreadable = vgpu_config_load(folder, &warnings_unreadable);
    assert_is(unreadable, warnings_unreadable, DEFAULTS, unreadable_warnings);
    g_assert_nonnull(strstr(g_ptr_array_index(warnings_unreadable, 0), "cannot be read"));

    g_autoptr(VgpuConfig) unheard = vgpu_config_load(folder, NULL);
    g_autofree char *text = config_as_text(unheard);
    g_assert_cmpstr(text, ==, DEFAULTS);
    g_unlink(path);
    g_rmdir(folder);
}

static void
test_managed_cards(void)
{
    const char *two = "[VGPU]\nCards=0000:3b:00.0 10000:01:00.0\n";
    const char *bad = "[VGPU]\nCards=3b\n";
    g_autoptr(VgpuConfig) all = vgpu_config_new();
    g_autoptr(VgpuConfig) some = vgpu_config_parse(two, strlen(two), FILE_NAME, NULL);
    g_autoptr(VgpuConfig) none = vgpu_config_parse(bad, strlen(bad), FILE_NAME, NULL);

    g_assert_true(vgpu_config_manages(all, "0000:86:00.0"));
    g_assert_true(vgpu_config_manages(some, "0000:3b:00.0"));
    g_assert_true(vgpu_config_manages(some, "00000000:3B:00.0"));
    g_assert_true(vgpu_config_manages(some, "10000:01:00.0"));
    g_assert_false(vgpu_config_manages(some, "0000:01:00.0"));
    g_assert_false(vgpu_config_manages(some, "0000:3b:00.1"));
    g_assert_false(vgpu_config_manages(some, "teapot"));
    g_assert_false(vgpu_config_manages(some, NULL));
    g_assert_false(vgpu_config_manages(none, "0000:3b:00.0"));
    g_assert_false(vgpu_config_manages(none, "3b"));
}

static void
test_hostile(void)
{
    static const char nul[] = "[VGPU]\nCards=0000:3b:00.0\nPlace\0ment=pack\nMaxPendingPerUser=2\n";
    static const char *const nul_warnings[] = {"line 3, “Place”, is ignored", NULL};
    static const char *const long_warnings[] = {"it is longer than", NULL};
    g_autoptr(GPtrArray) warnings = NULL;
    g_autoptr(VgpuConfig) config = vgpu_config_parse(nul, sizeof(nul) - 1, FILE_NAME, &warnings);

    assert_is(config, warnings, "cards: 0000:3b:00.0; spread; 8; 2; inhibit", nul_warnings);

    g_autofree char *long_text = g_strnfill(1024 * 1024, '\n');
    g_autoptr(GPtrArray) warnings_long = NULL;
    g_autoptr(VgpuConfig) from_long = vgpu_config_parse(long_text, 1024 * 1024, FILE_NAME, &warnings_long);
    assert_is(from_long, warnings_long, DEFAULTS, long_warnings);

    /* As many mistakes as a file has room for do not fill the journal, nor does one long one. */
    GString *mistakes = g_string_new("[VGPU]\n");
    for (guint i = 0; i < 10000; i++)
        g_string_append_printf(mistakes, "K%u=\n", i);
    g_autoptr(GPtrArray) warnings_many = NULL;
    g_autoptr(VgpuConfig) from_many =
        vgpu_config_parse(mistakes->str, mistakes->len, FILE_NAME, &warnings_many);
    g_assert_cmpuint(warnings_many->len, >, 10);
    g_assert_cmpuint(warnings_many->len, <=, 100);

    g_string_assign(mistakes, "[VGPU]\nPlacement=");
    for (guint i = 0; i < 100000; i++)
        g_string_append(mistakes, "\xc3\xa4");
    g_autoptr(GPtrArray) warnings_one = NULL;
    g_autoptr(VgpuConfig) from_one =
        vgpu_config_parse(mistakes->str, mistakes->len, FILE_NAME, &warnings_one);
    g_assert_cmpuint(warnings_one->len, ==, 1);
    g_assert_cmpuint(strlen(g_ptr_array_index(warnings_one, 0)), <, 500);
    g_string_free(mistakes, TRUE);
}

/* The file that is installed says nothing as it is; and with every key put in force, it says the defaults:
 * what it explains is what the daemon does. */
static void
test_shipped(void)
{
    static const char *const none[] = {NULL};
    g_autofree char *path = g_test_build_filename(G_TEST_DIST, "..", "daemon", "hypeman-vgpu.conf", NULL);
    g_autofree char *text = NULL;
    g_autoptr(GPtrArray) warnings = NULL, warnings_in_force = NULL;
    g_autoptr(GError) error = NULL;
    GString *in_force = g_string_new(NULL);
    guint keys = 0;

    g_file_get_contents(path, &text, NULL, &error);
    g_assert_no_error(error);
    g_autoptr(VgpuConfig) shipped = vgpu_config_load(path, &warnings);
    assert_is(shipped, warnings, DEFAULTS, none);

    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    for (char **line = lines; *line; line++) {
        gboolean setting = (*line)[0] == '#' && g_ascii_isupper((*line)[1]) && strchr(*line, '=');
        keys += setting;
        g_string_append_printf(in_force, "%s\n", setting ? *line + 1 : *line);
        if (!setting)
            g_assert_true(**line == '\0' || **line == '#' || strcmp(*line, "[VGPU]") == 0);
    }
    g_assert_cmpuint(keys, ==, 5);
    g_autoptr(VgpuConfig) config = vgpu_config_parse(in_force->str, in_force->len, path, &warnings_in_force);
    assert_is(config, warnings_in_force, DEFAULTS, none);
    g_string_free(in_force, TRUE);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/config/texts-are-read-and-mistakes-named", test_texts);
    g_test_add_func("/config/missing-and-unreadable-files-are-the-defaults", test_files);
    g_test_add_func("/config/cards-limits-and-a-typo-never-widens", test_managed_cards);
    g_test_add_func("/config/hostile-text-is-bounded", test_hostile);
    g_test_add_func("/config/shipped-file-says-the-defaults", test_shipped);
    return g_test_run();
}
