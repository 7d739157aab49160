/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "catalogue.h"

#include <stdlib.h>
#include <string.h>

/* @rows as `ID=NAME|ID=NAME`. */
static char *
rows_as_text(GPtrArray *rows)
{
    GString *text = g_string_new(NULL);

    for (guint i = 0; i < rows->len; i++) {
        const VgpuCatalogueRow *row = g_ptr_array_index(rows, i);
        g_string_append_printf(text, "%s%u=%s", i ? "|" : "", row->id, row->name);
    }
    return g_string_free(text, FALSE);
}

static void
assert_parses(const char *text, gsize length, const char *expected, guint expected_bad)
{
    /* An exact copy on the heap, so that a sanitizer sees a read past the end. */
    g_autofree char *copy = g_memdup2(text, length);
    guint bad = 77;
    g_autoptr(GPtrArray) rows = vgpu_catalogue_parse(copy, length, &bad);
    g_autofree char *got = rows_as_text(rows);
    g_autofree char *shown = g_strescape(text, NULL);

    g_test_message("“%s”", shown);
    g_assert_cmpstr(got, ==, expected);
    g_assert_cmpuint(bad, ==, expected_bad);
}

/* A catalogue as the driver gives it: the file without the lines that are ours. */
static char *
read_catalogue(const char *file)
{
    g_autofree char *path = g_test_build_filename(G_TEST_DIST, "data", file, NULL);
    g_autofree char *text = NULL;
    g_autoptr(GError) error = NULL;

    g_file_get_contents(path, &text, NULL, &error);
    g_assert_no_error(error);
    const char *start = text;
    while (*start == '#')
        start = strchr(start, '\n') + 1;
    return g_strdup(start);
}

static const struct {
    const char *file;
    guint rows;
    const char *table; /* of the same card: id and name in its first columns; NULL: none */
    guint not_in_table;
} catalogues[] = {
    {"a10-creatable.list", 18, "a10-r550.types.tsv", 0},
    {"l40s-creatable.list", 23, "l40s-r550.types.tsv", 1}, /* 3B came with a later branch */
    {"l40s-after-2q.list", 3, "l40s-r550.types.tsv", 0},
    {"l40s-full-header-only.list", 0, NULL, 0},
    {"l40s-other-branch.list", 23, NULL, 0},
    {"h200x-partial.list", 2, "h200x.mig.tsv", 1}, /* the whole-card type is not MIG */
};

/* Each row has the id and the name that the driver's own table has. */
static void
test_every_catalogue(void)
{
    for (gsize i = 0; i < G_N_ELEMENTS(catalogues); i++) {
        g_autofree char *text = read_catalogue(catalogues[i].file);
        guint bad, missing = 0;
        g_autoptr(GPtrArray) rows = vgpu_catalogue_parse(text, strlen(text), &bad);

        g_test_message("%s", catalogues[i].file);
        g_assert_cmpuint(rows->len, ==, catalogues[i].rows);
        g_assert_cmpuint(bad, ==, 0);
        if (!catalogues[i].table)
            continue;

        g_autofree char *path = g_test_build_filename(G_TEST_DIST, "data", catalogues[i].table, NULL);
        g_autofree char *table = NULL;
        g_assert_true(g_file_get_contents(path, &table, NULL, NULL));
        for (guint j = 0; j < rows->len; j++) {
            const VgpuCatalogueRow *row = g_ptr_array_index(rows, j);
            g_autofree char *line = g_strdup_printf("\n%u\t%s\t", row->id, row->name);
            missing += strstr(table, line) == NULL;
        }
        g_assert_cmpuint(missing, ==, catalogues[i].not_in_table);
    }
}

/* The list of files above is the list of files there is. */
static void
test_no_catalogue_forgotten(void)
{
    g_autofree char *folder = g_test_build_filename(G_TEST_DIST, "data", NULL);
    g_autoptr(GDir) dir = g_dir_open(folder, 0, NULL);
    const char *name;
    guint found = 0;

    g_assert_nonnull(dir);
    while ((name = g_dir_read_name(dir)) != NULL) {
        gboolean known = FALSE;

        if (!g_str_has_suffix(name, ".list"))
            continue;
        for (gsize i = 0; i < G_N_ELEMENTS(catalogues); i++)
            known = known || strcmp(catalogues[i].file, name) == 0;
        if (!known)
            g_error("%s is in no test", name);
        found++;
    }
    g_assert_cmpuint(found, ==, G_N_ELEMENTS(catalogues));
}

#define ROWS "1146=NVIDIA L40S-2B|1148=NVIDIA L40S-2Q"

static void
test_layouts(void)
{
    static const struct {
        const char *text, *expected;
        guint bad;
    } layouts[] = {
        {"ID    : vGPU Name\n1146  : NVIDIA L40S-2B\n1148  : NVIDIA L40S-2Q\n", ROWS, 0},
        {"1146  : NVIDIA L40S-2B\n1148  : NVIDIA L40S-2Q\n", ROWS, 0},
        {"Type | Name\n1146  : NVIDIA L40S-2B\n1148  : NVIDIA L40S-2Q\n", ROWS, 0},
        {"vGPU type ID : name : class\n1146 : NVIDIA L40S-2B\n1148 : NVIDIA L40S-2Q\n", ROWS, 0},
        {": \n1146 : NVIDIA L40S-2B\n1148 : NVIDIA L40S-2Q\n", ROWS, 0},
        {"ID : vGPU Name\n1146 : NVIDIA L40S-2B\n1148 : NVIDIA L40S-2Q", ROWS, 0},
        {"ID:vGPU Name\n1146:NVIDIA L40S-2B\n1148:NVIDIA L40S-2Q\n", ROWS, 0},
        {"ID    : vGPU Name\r\n1146  : NVIDIA L40S-2B\r\n1148  : NVIDIA L40S-2Q\r\n", ROWS, 0},
        {"\n\n  \nID : vGPU Name\n\n1146\t:\tNVIDIA L40S-2B  \n \t\n  1148 : NVIDIA L40S-2Q\n\n", ROWS, 0},
        {"ID    : vGPU Name\n", "", 0},
        {"ID    : vGPU Name", "", 0},
        {"", "", 0},
        {"\n", "", 0},
        {"\r\n\r\n", "", 0},
        {"12345678 : NVIDIA RTX Pro 6000 Blackwell DC-1-24Q\n",
         "12345678=NVIDIA RTX Pro 6000 Blackwell DC-1-24Q", 0},
        {"7 : A : B:C\n", "7=A : B:C", 0}, /* the first colon parts */
        {"0558 : X\n", "558=X", 0},
        {"4294967295 : X\n", "4294967295=X", 0},
    };

    for (gsize i = 0; i < G_N_ELEMENTS(layouts); i++)
        assert_parses(layouts[i].text, strlen(layouts[i].text), layouts[i].expected, layouts[i].bad);
    g_autoptr(GPtrArray) none = vgpu_catalogue_parse(NULL, 0, NULL);
    g_assert_cmpuint(none->len, ==, 0);
}

static void
test_bad_rows(void)
{
    static const char *const bad[] = {
        "0 : Cleared",
        "00 : Cleared",
        "-5 : X",
        "+5 : X",
        "0x5 : X",
        "5x : X",
        "5 5 : X",
        "4294967296 : X",
        "18446744073709551617 : X", /* 1, to a careless reader */
        "99999999999999999999999999999999999999 : X",
        " : X",
        ": X",
        ":",
        "5",
        "5 :",
        "5 :  \t ",
        "5 : \x01\x02",
        "5 - X",
        "X",
        "1146 : Another", /* the first wins */
    };

    for (gsize i = 0; i < G_N_ELEMENTS(bad); i++) {
        g_autofree char *text =
            g_strdup_printf("ID : vGPU Name\n1146 : NVIDIA L40S-2B\n%s\n1148 : NVIDIA L40S-2Q\n", bad[i]);
        assert_parses(text, strlen(text), ROWS, 1);
    }
    /* A first line is a header only if it does not begin with a number. */
    assert_parses("0 : Cleared\n7 : X\n", 18, "7=X", 1);
    assert_parses("4294967296 : X\n7 : X\n", 21, "7=X", 1);
    /* Only the first line is a header. */
    assert_parses("ID : Name\nID : Name\n7 : X\n", 26, "7=X", 1);
    /* The same row again contradicts nothing. */
    assert_parses("7 : X\n7 : X\n7  :  X\n", 20, "7=X", 0);
}

static void
test_nul_bytes(void)
{
    static const char within[] = "ID : Name\n7 : A\0B\n8 : C\n9\0 : D\n";
    static const char behind[] = "ID : Name\n8 : C\n\0\0\0\0";
    static const char all[64] = {0};

    assert_parses(within, sizeof(within) - 1, "8=C", 2);
    assert_parses(behind, sizeof(behind) - 1, "8=C", 1);
    assert_parses(all, sizeof(all), "", 0);
}

static void
test_names_are_printable(void)
{
    static const char text[] = "7 : A\x1b[31mB\tC\n8 : \xff\xfe\n9 : NVIDIA\xc2\x85 X\n10 : \xe2\x82\xac\n";

    assert_parses(text, sizeof(text) - 1,
                  "7=A [31mB C|8=\xef\xbf\xbd\xef\xbf\xbd|9=NVIDIA  X|10=\xe2\x82\xac", 0);
}

static void
test_huge(void)
{
    GString *text = g_string_new("ID : vGPU Name\n");
    guint bad;

    for (guint i = 1; i <= 100000; i++)
        g_string_append_printf(text, "%u : NVIDIA L40S-%uQ\n", i, i);
    gint64 start = g_get_monotonic_time();
    g_autoptr(GPtrArray) rows = vgpu_catalogue_parse(text->str, text->len, &bad);
    const char *slow = g_getenv("VGPU_TEST_SLOW");
    g_assert_cmpint(g_get_monotonic_time() - start, <, 5 * G_USEC_PER_SEC * (slow ? atoi(slow) : 1));
    g_assert_cmpuint(rows->len, ==, 100000);
    g_assert_cmpuint(bad, ==, 0);
    g_string_free(text, TRUE);

    g_autofree char *name_255 = g_strnfill(255, 'x');
    g_autofree char *name_256 = g_strnfill(256, 'x');
    g_autofree char *two = g_strdup_printf("7 : %s\n8 : %s\n", name_255, name_256);
    g_autofree char *expected = g_strdup_printf("7=%s", name_255);
    assert_parses(two, strlen(two), expected, 1);

    g_autofree char *one_line = g_strnfill(8 * 1024 * 1024, '7');
    g_autoptr(GPtrArray) none = vgpu_catalogue_parse(one_line, 8 * 1024 * 1024, &bad);
    g_assert_cmpuint(none->len, ==, 0);
    g_assert_cmpuint(bad, ==, 1);
}

/* The driver may be read in the middle of a change: every cut of a catalogue gives a beginning of its rows,
 * and perhaps one cut name. */
static void
test_cut_short(void)
{
    g_autofree char *text = read_catalogue("l40s-creatable.list");
    g_autoptr(GPtrArray) whole = vgpu_catalogue_parse(text, strlen(text), NULL);

    for (gsize length = 0; length < strlen(text); length++) {
        g_autofree char *cut = g_memdup2(text, length);
        guint bad;
        g_autoptr(GPtrArray) rows = vgpu_catalogue_parse(cut, length, &bad);

        g_assert_cmpuint(bad, <=, 1);
        g_assert_cmpuint(rows->len, <=, whole->len);
        for (guint i = 0; i < rows->len; i++) {
            const VgpuCatalogueRow *row = g_ptr_array_index(rows, i), *full = g_ptr_array_index(whole, i);
            g_assert_cmpuint(row->id, ==, full->id);
            if (i + 1 < rows->len)
                g_assert_cmpstr(row->name, ==, full->name);
            else
                g_assert_true(g_str_has_prefix(full->name, row->name));
        }
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/catalogue/every-real-one-is-as-its-table", test_every_catalogue);
    g_test_add_func("/catalogue/no-real-one-is-forgotten", test_no_catalogue_forgotten);
    g_test_add_func("/catalogue/any-layout-is-read", test_layouts);
    g_test_add_func("/catalogue/a-bad-row-spoils-no-other", test_bad_rows);
    g_test_add_func("/catalogue/nul-bytes-spoil-their-row-only", test_nul_bytes);
    g_test_add_func("/catalogue/names-are-printable", test_names_are_printable);
    g_test_add_func("/catalogue/huge-is-bounded", test_huge);
    g_test_add_func("/catalogue/cut-short-gives-the-beginning", test_cut_short);
    return g_test_run();
}
