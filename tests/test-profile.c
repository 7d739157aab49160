/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "profile.h"

#include <stdlib.h>
#include <string.h>

/* The lines of a data file that are not comments, without the newline. */
static char **
read_lines(const char *name)
{
    g_autofree char *path = g_test_build_filename(G_TEST_DIST, "data", name, NULL);
    g_autofree char *text = NULL;
    g_autoptr(GError) error = NULL;
    GPtrArray *lines = g_ptr_array_new();

    g_file_get_contents(path, &text, NULL, &error);
    g_assert_no_error(error);
    g_auto(GStrv) all = g_strsplit(text, "\n", -1);
    for (char **line = all; *line; line++) {
        if (**line && **line != '#')
            g_ptr_array_add(lines, g_strdup(*line));
    }
    g_ptr_array_add(lines, NULL);
    return (char **)g_ptr_array_free(lines, FALSE);
}

static int
compare_strings(gconstpointer a, gconstpointer b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The data files whose name ends with @suffix, sorted. */
static GPtrArray *
list_files(const char *suffix)
{
    g_autofree char *folder = g_test_build_filename(G_TEST_DIST, "data", NULL);
    g_autoptr(GError) error = NULL;
    g_autoptr(GDir) dir = g_dir_open(folder, 0, &error);
    GPtrArray *files = g_ptr_array_new_with_free_func(g_free);
    const char *name;

    g_assert_no_error(error);
    while ((name = g_dir_read_name(dir)) != NULL) {
        if (g_str_has_suffix(name, suffix))
            g_ptr_array_add(files, g_strdup(name));
    }
    g_ptr_array_sort(files, compare_strings);
    return files;
}

/* One type of a card as the tables have it. */
typedef struct {
    char *name;
    guint64 framebuffer_mib; /* 0: the table does not say */
    guint max_instance;      /* 0: the table does not say */
    char *description;       /* NULL: not an mdev type */
} Type;

static void
type_free(gpointer data)
{
    Type *type = data;

    g_free(type->name);
    g_free(type->description);
    g_free(type);
}

static Type *
type_new(const char *name)
{
    Type *type = g_new0(Type, 1);

    type->name = g_strdup(name);
    return type;
}

static void
add_types_table(GPtrArray *types, const char *file)
{
    g_auto(GStrv) lines = read_lines(file);

    for (char **line = lines; *line; line++) {
        g_auto(GStrv) columns = g_strsplit(*line, "\t", -1);
        g_assert_cmpuint(g_strv_length(columns), ==, 9);
        Type *type = type_new(columns[1]);
        type->framebuffer_mib = strtoull(columns[3], NULL, 10);
        type->max_instance = (guint)strtoul(columns[8], NULL, 10);
        g_ptr_array_add(types, type);
    }
}

static void
add_mig_table(GPtrArray *types, const char *file)
{
    g_auto(GStrv) lines = read_lines(file);

    for (char **line = lines; *line; line++) {
        g_auto(GStrv) columns = g_strsplit(*line, "\t", -1);
        g_assert_cmpuint(g_strv_length(columns), ==, 3);
        g_ptr_array_add(types, type_new(columns[1]));
    }
}

static void
add_catalogue(GPtrArray *types, const char *file)
{
    g_auto(GStrv) lines = read_lines(file);

    for (char **line = lines; *line; line++) {
        if (!g_str_has_prefix(*line, "ID"))
            g_ptr_array_add(types, type_new(strchr(*line, ':') + 2));
    }
}

/* `…/name` lines with the `…/description` that follows each. */
static void
add_mdev_dump(GPtrArray *types, const char *file)
{
    g_auto(GStrv) lines = read_lines(file);
    Type *type = NULL;

    for (char **line = lines; *line; line++) {
        g_auto(GStrv) columns = g_strsplit(*line, "\t", 2);
        g_autofree char *value = g_strcompress(columns[1]);

        if (g_str_has_suffix(columns[0], "/name")) {
            type = type_new(g_strchomp(value));
            g_ptr_array_add(types, type);
        } else if (g_str_has_suffix(columns[0], "/description")) {
            g_assert_nonnull(type);
            type->description = g_steal_pointer(&value);
        }
    }
}

/* Every type of every file of the data. */
static GPtrArray *
all_types(void)
{
    static const struct {
        const char *suffix;
        void (*add)(GPtrArray *types, const char *file);
        guint least;
    } kinds[] = {
        {".types.tsv", add_types_table, 76},
        {".mig.tsv", add_mig_table, 7},
        {".list", add_catalogue, 46},
        {".mdev.tsv", add_mdev_dump, 112},
    };
    GPtrArray *types = g_ptr_array_new_with_free_func(type_free);

    for (gsize i = 0; i < G_N_ELEMENTS(kinds); i++) {
        g_autoptr(GPtrArray) files = list_files(kinds[i].suffix);
        guint before = types->len;

        for (guint j = 0; j < files->len; j++)
            kinds[i].add(types, g_ptr_array_index(files, j));
        /* A table that is not found, or not read to its end, must not make a promise hold. */
        g_assert_cmpuint(types->len - before, >=, kinds[i].least);
    }
    return types;
}

static GPtrArray *
distinct_names(GPtrArray *types)
{
    g_autoptr(GHashTable) seen = g_hash_table_new(g_str_hash, g_str_equal);
    GPtrArray *names = g_ptr_array_new();

    for (guint i = 0; i < types->len; i++) {
        Type *type = g_ptr_array_index(types, i);
        if (g_hash_table_add(seen, type->name))
            g_ptr_array_add(names, type->name);
    }
    return names;
}

/* Another order of the same, the same for every run. */
static void
shuffle(GPtrArray *names, guint32 seed)
{
    g_autoptr(GRand) rand = g_rand_new_with_seed(seed);

    for (guint i = names->len; i > 1; i--) {
        guint j = (guint)g_rand_int_range(rand, 0, (gint32)i);
        gpointer held = names->pdata[i - 1];
        names->pdata[i - 1] = names->pdata[j];
        names->pdata[j] = held;
    }
}

/* What the driver itself says of the size is what the name says. */
static void
test_size_of_every_type(void)
{
    g_autoptr(GPtrArray) types = all_types();
    guint tables = 0, descriptions = 0;

    for (guint i = 0; i < types->len; i++) {
        Type *type = g_ptr_array_index(types, i);
        guint64 size_mib = vgpu_profile_size_mib(type->name);

        g_test_message("%s", type->name);
        if (type->framebuffer_mib > 0) {
            g_assert_cmpuint(size_mib, ==, type->framebuffer_mib);
            tables++;
        }
        if (type->description && strstr(type->description, "framebuffer=")) {
            g_assert_cmpuint(size_mib, ==,
                             strtoull(strstr(type->description, "framebuffer=") + 12, NULL, 10));
            descriptions++;
        }
    }
    g_assert_cmpuint(tables, >=, 76);
    g_assert_cmpuint(descriptions, >=, 110);
}

static void
test_size_in_names(void)
{
    static const struct {
        const char *name;
        guint64 size_mib;
    } sizes[] = {
        {"NVIDIA L40S-2Q", 2048},
        {"GRID M60-0Q", 512},
        {"GRID M60-0B", 512},
        {"GRID P40-1B4", 1024},
        {"GRID V100D-2B4", 2048},
        {"NVIDIA A100D-1-10CME", 10240},
        {"NVIDIA A100-4-20C", 20480},
        {"NVIDIA H200X-1-18CME", 18432},
        {"NVIDIA H200X-1-18C", 18432},
        {"NVIDIA H200X-1-35C", 35840},
        {"NVIDIA H200X-2-35C", 35840},
        {"NVIDIA H200X-3-71C", 72704},
        {"NVIDIA H200X-4-71C", 72704},
        {"NVIDIA H200X-7-141C", 144384},
        {"NVIDIA H200X-141C", 144384},
        {"NVIDIA RTX Pro 6000 Blackwell DC-1-24Q", 24576},
        {"NVIDIA RTX Pro 6000 Blackwell DC-4-96", 0},
        {"NVIDIA RTX A6000-48Q", 49152},
        {"L40S-2Q", 2048},
        {"X-4Q-2B", 2048}, /* the last such part counts */
        {"X-4Q-DC", 4096},
        {"GVTg_V5_4", 0},
        {"i915-GVTg_V5_4", 0},
        {"", 0},
        {"-", 0},
        {"--", 0},
        {"-2Q", 0}, /* no model */
        {"2Q", 0},
        {"NVIDIA -2Q", 0},
        {"NVIDIA L40S-Q", 0},
        {"NVIDIA L40S-2", 0},
        {"NVIDIA L40S-2D", 0},
        {"NVIDIA L40S-2q", 0},
        {"NVIDIA L40S-2Q5", 0},
        {"NVIDIA L40S-2QM", 0},
        {"NVIDIA L40S-2QME4", 0},
        {"NVIDIA L40S-02Q", 0},
        {"NVIDIA L40S- 2Q", 0},
        {"NVIDIA L40S-+2Q", 0},
        {"NVIDIA L40S-999999Q", 1023998976},
        {"NVIDIA L40S-1000000Q", 0},
        {"NVIDIA L40S-18446744073709551617Q", 0},
    };

    for (gsize i = 0; i < G_N_ELEMENTS(sizes); i++) {
        g_test_message("“%s”", sizes[i].name);
        g_assert_cmpuint(vgpu_profile_size_mib(sizes[i].name), ==, sizes[i].size_mib);
    }
    g_assert_cmpuint(vgpu_profile_size_mib(NULL), ==, 0);
}

static void
assert_sorts_to(const char *const *ascending, gsize n)
{
    for (guint32 seed = 0; seed < 20; seed++) {
        g_autoptr(GPtrArray) names = g_ptr_array_new();

        for (gsize i = 0; i < n; i++)
            g_ptr_array_add(names, (gpointer)ascending[i]);
        shuffle(names, seed);
        g_ptr_array_sort(names, vgpu_profile_compare_pointers);
        for (gsize i = 0; i < n; i++)
            g_assert_cmpstr(g_ptr_array_index(names, i), ==, ascending[i]);
    }
}

static void
test_order_of_one_card(void)
{
    static const char *const l40s[] = {
        "NVIDIA L40S-1A",  "NVIDIA L40S-2A",  "NVIDIA L40S-3A",  "NVIDIA L40S-4A",  "NVIDIA L40S-6A",
        "NVIDIA L40S-8A",  "NVIDIA L40S-12A", "NVIDIA L40S-16A", "NVIDIA L40S-24A", "NVIDIA L40S-48A",
        "NVIDIA L40S-1B",  "NVIDIA L40S-2B",  "NVIDIA L40S-3B",  "NVIDIA L40S-1Q",  "NVIDIA L40S-2Q",
        "NVIDIA L40S-3Q",  "NVIDIA L40S-4Q",  "NVIDIA L40S-6Q",  "NVIDIA L40S-8Q",  "NVIDIA L40S-12Q",
        "NVIDIA L40S-16Q", "NVIDIA L40S-24Q", "NVIDIA L40S-48Q",
    };
    g_autoptr(GPtrArray) types = g_ptr_array_new_with_free_func(type_free);

    assert_sorts_to(l40s, G_N_ELEMENTS(l40s));

    /* and these are all that the card has */
    add_catalogue(types, "l40s-creatable.list");
    g_assert_cmpuint(types->len, ==, G_N_ELEMENTS(l40s));
    for (guint i = 0; i < types->len; i++) {
        Type *type = g_ptr_array_index(types, i);
        gboolean found = FALSE;
        for (gsize j = 0; j < G_N_ELEMENTS(l40s); j++)
            found = found || strcmp(l40s[j], type->name) == 0;
        g_assert_true(found);
    }
}

static void
test_order_of_many_cards(void)
{
    static const char *const ascending[] = {
        "NVIDIA A2-1A",
        "NVIDIA A10-1A",
        "GRID RTX6000-1A",
        "NVIDIA L40S-2A",
        "NVIDIA L40S-12A",
        "GRID M60-0B",
        "GRID V100D-1B",
        "GRID V100D-1B4",
        "GRID V100D-2B",
        "GRID V100D-2B4",
        "GRID V100D-4C",
        "NVIDIA A100D-1-10C",
        "NVIDIA A100D-1-10CME",
        "NVIDIA A100D-2-20C",
        "NVIDIA H200X-1-35C",
        "NVIDIA H200X-2-35C",
        "NVIDIA H200X-141C",
        "NVIDIA H200X-7-141C",
        "GRID M60-0Q",
        "NVIDIA L40S-2Q",
        "GRID T4-2Q",
        "GRID T4-16Q",
        "NVIDIA RTX Pro 6000 Blackwell DC-1-24Q",
        "NVIDIA L40S-48Q",
        "GVTg_V5_4",
        "GVTg_V5_8",
        "GVTg_V5_16",
        "NVIDIA RTX Pro 6000 Blackwell DC-4-96",
    };

    assert_sorts_to(ascending, G_N_ELEMENTS(ascending));
}

static int
sign(int value)
{
    return (value > 0) - (value < 0);
}

/* Names that are equal to a careless comparison, beside all the real ones. */
static void
test_order_is_total(void)
{
    static const char *const odd[] = {
        "",
        "-",
        "NVIDIA ",
        "GRID T4-2Q",
        "NVIDIA T4-2Q",
        "T4-2Q",
        "t4-2Q",
        "T04-2Q",
        "T4-2Q ",
        "A-1-2Q",
        "A-01-2Q",
        "A-2Q",
        "A1-2Q",
        "A01-2Q",
        "A001-2Q",
        "A1",
        "A01",
        "a1",
        "A1a",
        "A1-",
        "A1 ",
        "A:",
        "A/",
        "A10",
        "X-2Q-tail",
        "X-2Q-tall",
        "X-2Q-",
        "\xff-2Q",
        "\x01-2Q",
        "999999999999999999999",
        "99999999999999999999",
        "0",
        "00",
        "000",
        "A-12Q-2B",
        "A-2B",
        "X-1-2-2Q",
        "X-1-2Q",
        "X-2-2Q",
    };
    g_autoptr(GPtrArray) types = all_types();
    g_autoptr(GPtrArray) names = distinct_names(types);

    for (gsize i = 0; i < G_N_ELEMENTS(odd); i++) {
        if (!g_ptr_array_find_with_equal_func(names, odd[i], g_str_equal, NULL))
            g_ptr_array_add(names, (gpointer)odd[i]);
    }
    g_ptr_array_sort(names, vgpu_profile_compare_pointers);

    /* If every pair of a sorted list compares as its places do, the order is antisymmetric, transitive, and
     * leaves nothing equal. */
    for (guint i = 0; i < names->len; i++) {
        for (guint j = 0; j < names->len; j++) {
            const char *a = g_ptr_array_index(names, i), *b = g_ptr_array_index(names, j);
            if (sign(vgpu_profile_compare(a, b)) != (i > j) - (i < j))
                g_error("“%s” and “%s” are out of order", a, b);
        }
    }
}

/* In the driver's own tables, the series (A, B and Q tell themselves apart by class, heads and frame limit)
 * is the letter, and the size is the column. */
static void
test_order_follows_the_tables(void)
{
    g_autoptr(GPtrArray) files = list_files(".types.tsv");

    g_assert_cmpuint(files->len, >=, 4);
    for (guint f = 0; f < files->len; f++) {
        g_autoptr(GPtrArray) types = g_ptr_array_new_with_free_func(type_free);
        add_types_table(types, g_ptr_array_index(files, f));
        for (guint i = 0; i < types->len; i++) {
            for (guint j = 0; j < types->len; j++) {
                const Type *a = g_ptr_array_index(types, i), *b = g_ptr_array_index(types, j);
                char a_series = a->name[strlen(a->name) - 1], b_series = b->name[strlen(b->name) - 1];
                int expected = a_series != b_series ? a_series - b_series
                                                    : (a->framebuffer_mib > b->framebuffer_mib) -
                                                          (a->framebuffer_mib < b->framebuffer_mib);
                g_assert_cmpint(sign(vgpu_profile_compare(a->name, b->name)), ==, sign(expected));
            }
        }
    }
}

static void
test_short_names(void)
{
    static const struct {
        const char *name, *argument;
        gboolean matches;
    } pairs[] = {
        {"NVIDIA L40S-2Q", "NVIDIA L40S-2Q", TRUE},
        {"NVIDIA L40S-2Q", "L40S-2Q", TRUE},
        {"NVIDIA L40S-2Q", "NVIDIA_L40S-2Q", TRUE},
        {"NVIDIA L40S-2Q", "GRID L40S-2Q", TRUE},
        {"NVIDIA L40S-2Q", "GRID_L40S-2Q", TRUE},
        {"GRID T4-2Q", "T4-2Q", TRUE},
        {"GRID T4-2Q", "GRID_T4-2Q", TRUE},
        {"GRID T4-2Q", "NVIDIA T4-2Q", TRUE},
        {"T4-2Q", "NVIDIA_T4-2Q", TRUE},
        {"NVIDIA RTX Pro 6000 Blackwell DC-1-24Q", "RTX_Pro_6000_Blackwell_DC-1-24Q", TRUE},
        {"NVIDIA RTX Pro 6000 Blackwell DC-1-24Q", "NVIDIA_RTX_Pro 6000_Blackwell_DC-1-24Q", TRUE},
        {"GVTg_V5_4", "GVTg_V5_4", TRUE},
        {"GVTg_V5_4", "GVTg V5 4", TRUE},
        {"NVIDIA L40S-2Q", "L40S-2", FALSE},
        {"NVIDIA L40S-2Q", "L40S-12Q", FALSE},
        {"NVIDIA L40S-12Q", "2Q", FALSE},
        {"NVIDIA L40S-2Q", "l40s-2q", FALSE},
        {"NVIDIA L40S-2Q", "nvidia L40S-2Q", FALSE},
        {"NVIDIA L40S-2Q", "NVIDIAL40S-2Q", FALSE},
        {"NVIDIA L40S-2Q", "NVIDIA-L40S-2Q", FALSE},
        {"NVIDIA L40S-2Q", " L40S-2Q", FALSE},
        {"NVIDIA L40S-2Q", "L40S-2Q ", FALSE},
        {"NVIDIA L40S-2Q", "NVIDIA NVIDIA L40S-2Q", FALSE},
        {"NVIDIA L40S-2Q", "NVIDIA GRID L40S-2Q", FALSE},
        {"NVIDIA L40S-2Q", "NVIDIA", FALSE},
        {"NVIDIA ", "GRID ", FALSE},
        {"", "", FALSE},
        {"", "NVIDIA_", FALSE},
    };

    for (gsize i = 0; i < G_N_ELEMENTS(pairs); i++) {
        g_test_message("“%s” for “%s”", pairs[i].argument, pairs[i].name);
        g_assert_cmpint(vgpu_profile_matches_short(pairs[i].name, pairs[i].argument), ==, pairs[i].matches);
    }
    g_assert_false(vgpu_profile_matches_short(NULL, "T4-2Q"));
    g_assert_false(vgpu_profile_matches_short("GRID T4-2Q", NULL));
}

/* Every real name is found by each of its short spellings, and no short spelling finds another real name. */
static void
test_short_names_are_unique(void)
{
    g_autoptr(GPtrArray) types = all_types();
    g_autoptr(GPtrArray) names = distinct_names(types);

    for (guint i = 0; i < names->len; i++) {
        const char *name = g_ptr_array_index(names, i);
        g_autofree char *underscored = g_strdelimit(g_strdup(name), " ", '_');
        const char *bare = strchr(name, ' ') ? strchr(name, ' ') + 1 : name;

        for (guint j = 0; j < names->len; j++) {
            const char *other = g_ptr_array_index(names, j);
            g_assert_cmpint(vgpu_profile_matches_short(other, name), ==, i == j);
            g_assert_cmpint(vgpu_profile_matches_short(other, underscored), ==, i == j);
            g_assert_cmpint(vgpu_profile_matches_short(other, bare), ==, i == j);
        }
    }
}

static char *
near_as_text(const char *argument, GPtrArray *names, guint most)
{
    g_autoptr(GPtrArray) found = vgpu_profile_near(argument, names, most);

    g_ptr_array_add(found, NULL);
    return g_strjoinv(", ", (char **)found->pdata);
}

static void
test_near_names(void)
{
    static const struct {
        const char *argument, *expected;
    } questions[] = {
        {"l40s-2q", "NVIDIA L40S-2Q, NVIDIA L40S-2A, NVIDIA L40S-2B"},
        {"nvidia_l40s-48q", "NVIDIA L40S-48Q, NVIDIA L40S-48A, NVIDIA L40S-8Q"},
        {"L40S-5Q", "NVIDIA L40S-4Q, NVIDIA L40S-6Q, NVIDIA L40S-3Q"},
        {"L40-12Q", "NVIDIA L40S-12Q, NVIDIA L40S-12A, NVIDIA L40S-16Q"},
        {"NVIDIA L40S-49Q", "NVIDIA L40S-48Q, NVIDIA L40S-4Q, NVIDIA L40S-48A"},
        {"2Q", "GRID T4-2Q, NVIDIA L40S-2Q, NVIDIA L40S-12Q"},
        {"T4", "GRID T4-2Q, GRID T4-16Q"},
        {"V5", "GVTg_V5_4"},
        {"  T4-2Q  ", "GRID T4-2Q"},
        {"GRID T4-2Q-extra", "GRID T4-2Q"},
        {"teapot", ""},
        {"", ""},
        {"_", ""},
        {"NVIDIA ", ""},
        {"Z", ""},
        {"48", "NVIDIA L40S-48A, NVIDIA L40S-48Q"},
        {"L40S 2Q", "NVIDIA L40S-2Q, NVIDIA L40S-2A, NVIDIA L40S-2B"},
        {"1148", ""},
    };
    g_autoptr(GPtrArray) types = g_ptr_array_new_with_free_func(type_free);

    add_catalogue(types, "l40s-creatable.list");
    add_mdev_dump(types, "t4.mdev.tsv");
    g_ptr_array_add(types, type_new("GVTg_V5_4"));
    g_autoptr(GPtrArray) names = distinct_names(types);

    for (gsize i = 0; i < G_N_ELEMENTS(questions); i++) {
        g_test_message("“%s”", questions[i].argument);
        for (guint32 seed = 0; seed < 5; seed++) {
            shuffle(names, seed);
            g_autofree char *text = near_as_text(questions[i].argument, names, 3);
            g_assert_cmpstr(text, ==, questions[i].expected);
        }
    }
}

static void
test_near_names_are_few_and_once(void)
{
    g_autoptr(GPtrArray) names = g_ptr_array_new();
    const char *twice[] = {"GRID T4-2Q", "GRID T4-2Q", "GRID T4-2B", "GRID T4-2Q"};

    for (gsize i = 0; i < G_N_ELEMENTS(twice); i++)
        g_ptr_array_add(names, (gpointer)twice[i]);
    g_autofree char *three = near_as_text("t4-2q", names, 3);
    g_autofree char *one = near_as_text("t4-2q", names, 1);
    g_autofree char *none = near_as_text("t4-2q", names, 0);
    g_autofree char *null = near_as_text(NULL, names, 3);
    g_assert_cmpstr(three, ==, "GRID T4-2Q, GRID T4-2B");
    g_assert_cmpstr(one, ==, "GRID T4-2Q");
    g_assert_cmpstr(none, ==, "");
    g_assert_cmpstr(null, ==, "");
}

/* Whatever the texts, and in no time: 64 KiB against 10,000 names, one of which is long too, would be 10^10
 * steps if the lengths were not bounded. */
static void
test_near_names_are_bounded(void)
{
    g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);
    g_autofree char *longest = g_strnfill(64 * 1024, 'Q');
    g_autofree char *just_too_long = g_strnfill(97, 'Q');
    g_autofree char *long_name = g_strnfill(96, 'Q');
    g_autofree char *fitting = g_strnfill(96, 'q');

    for (guint i = 0; i < 10000; i++)
        g_ptr_array_add(names, g_strdup_printf("NVIDIA L40S-%uQ", i));
    g_ptr_array_add(names, g_strdup(longest));
    g_ptr_array_add(names, g_strdup(just_too_long));
    g_ptr_array_add(names, g_strdup(long_name));

    gint64 start = g_get_monotonic_time();
    g_autofree char *for_longest = near_as_text(longest, names, 3);
    g_autofree char *for_too_long = near_as_text(just_too_long, names, 3);
    g_autofree char *for_fitting = near_as_text(fitting, names, 3);
    g_assert_cmpstr(for_longest, ==, "");
    g_assert_cmpstr(for_too_long, ==, "");
    g_assert_cmpstr(for_fitting, ==, long_name);
    const char *slow = g_getenv("VGPU_TEST_SLOW");
    g_assert_cmpint(g_get_monotonic_time() - start, <, 5 * G_USEC_PER_SEC * (slow ? atoi(slow) : 1));
}

static void
test_type_numbers(void)
{
    static const struct {
        const char *type_id;
        guint32 number; /* 0: none */
    } ids[] = {
        {"1148", 1148},
        {"nvidia-558", 558},
        {"4294967295", G_MAXUINT32},
        {"4294967296", 0},
        {"99999999999999999999999", 0},
        {"nvidia-", 0},
        {"nvidia--1", 0},
        {"nvidia-nvidia-1", 0},
        {"NVIDIA-558", 0},
        {"i915-GVTg_V5_4", 0},
        {"0", 0},
        {"nvidia-0", 0},
        {"", 0},
        {" 1", 0},
        {"1 ", 0},
        {"0x1", 0},
        {"-1", 0},
    };

    for (gsize i = 0; i < G_N_ELEMENTS(ids); i++) {
        guint32 number = 77;

        g_test_message("“%s”", ids[i].type_id);
        g_assert_cmpint(vgpu_profile_type_number(ids[i].type_id, &number), ==, ids[i].number != 0);
        g_assert_cmpuint(number, ==, ids[i].number != 0 ? ids[i].number : 77);
    }
    g_assert_false(vgpu_profile_type_number(NULL, NULL));
}

static void
test_descriptions_of_every_mdev_type(void)
{
    g_autoptr(GPtrArray) files = list_files(".mdev.tsv");
    g_autoptr(GPtrArray) types = g_ptr_array_new_with_free_func(type_free);
    guint nvidia = 0, gvtg = 0;

    for (guint i = 0; i < files->len; i++)
        add_mdev_dump(types, g_ptr_array_index(files, i));
    for (guint i = 0; i < types->len; i++) {
        const Type *type = g_ptr_array_index(types, i);
        guint64 size_mib = vgpu_description_framebuffer_mib(type->description);
        guint most = vgpu_description_max_instance(type->description);

        g_test_message("%s", type->name);
        if (g_str_has_prefix(type->name, "GVTg")) {
            g_assert_cmpuint(size_mib, ==, strcmp(type->name, "GVTg_V5_4") == 0 ? 640 : 448);
            g_assert_cmpuint(most, ==, 0);
            gvtg++;
        } else {
            g_assert_cmpuint(size_mib, ==,
                             strtoull(strstr(type->description, "framebuffer=") + 12, NULL, 10));
            g_assert_cmpuint(most, ==, strtoul(strstr(type->description, "max_instance=") + 13, NULL, 10));
            g_assert_cmpuint(most, >, 0);
            nvidia++;
        }
    }
    g_assert_cmpuint(nvidia, >=, 110);
    g_assert_cmpuint(gvtg, ==, 2);
}

static void
test_descriptions(void)
{
    static const struct {
        const char *description;
        guint64 size_mib;
        guint most;
    } descriptions[] = {
        {"num_heads=4, frl_config=60, framebuffer=2048M, max_resolution=7680x4320, max_instance=24", 2048,
         24},
        {"framebuffer=2048M", 2048, 0},
        {"framebuffer=2048MB,max_instance=3", 2048, 3},
        {"framebuffer=2048MiB\nmax_instance=3\n", 2048, 3},
        {"framebuffer=2G", 2048, 0},
        {"framebuffer = 2 GB", 2048, 0},
        {"framebuffer: 2GiB", 2048, 0},
        {"framebuffer=2048", 2048, 0},
        {"framebuffer=524288K", 512, 0},
        {"framebuffer=2048M\r\nmax_instance=1\r\n", 2048, 1},
        {"framebuffer=", 0, 0},
        {"framebuffer=M", 0, 0},
        {"framebuffer=-1M", 0, 0},
        {"framebuffer=2048X", 0, 0},
        {"framebuffer=2048Mega", 0, 0},
        {"framebuffer=0x800M", 0, 0},
        {"framebuffer=18446744073709551616M", 0, 0},
        {"framebuffer=99999999999999999999999999999M", 0, 0},
        {"framebuffer=1099511627776G", G_GUINT64_CONSTANT(1125899906842624), 0},
        {"framebuffer=1099511627777M", 0, 0},
        {"frame", 0, 0},
        {"framebuffer", 0, 0},
        {"shared_framebuffer=1M, xframebuffer=2M, framebuffer=3M", 3, 0},
        {"framebuffers=7M", 0, 0},
        {"low_gm_size: 128MB\nhigh_gm_size: 512MB\nfence: 4\nresolution: 1920x1200\nweight: 4\n", 640, 0},
        {"high_gm_size: 384MB\nlow_gm_size: 64MB\n", 448, 0},
        {"high_gm_size: 384MB\n", 384, 0},
        {"max_instance=4294967295", 0, G_MAXUINT},
        {"max_instance=4294967296", 0, 0},
        {"max_instance=-1", 0, 0},
        {"max_instance=1x", 0, 0},
        {"max_instance=", 0, 0},
        {"max_instance", 0, 0},
        {"", 0, 0},
        {"\xff\xfe=,", 0, 0},
    };

    for (gsize i = 0; i < G_N_ELEMENTS(descriptions); i++) {
        g_autofree char *shown = g_strescape(descriptions[i].description, NULL);
        g_test_message("“%s”", shown);
        g_assert_cmpuint(vgpu_description_framebuffer_mib(descriptions[i].description), ==,
                         descriptions[i].size_mib);
        g_assert_cmpuint(vgpu_description_max_instance(descriptions[i].description), ==,
                         descriptions[i].most);
    }
    g_assert_cmpuint(vgpu_description_framebuffer_mib(NULL), ==, 0);
    g_assert_cmpuint(vgpu_description_max_instance(NULL), ==, 0);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/profile/size/of-every-type-in-the-tables", test_size_of_every_type);
    g_test_add_func("/profile/size/is-what-the-name-says-or-none", test_size_in_names);
    g_test_add_func("/profile/order/of-one-card-is-as-people-count", test_order_of_one_card);
    g_test_add_func("/profile/order/of-many-cards-is-by-series-size-model", test_order_of_many_cards);
    g_test_add_func("/profile/order/is-total", test_order_is_total);
    g_test_add_func("/profile/order/follows-the-tables", test_order_follows_the_tables);
    g_test_add_func("/profile/short/drops-vendor-and-underscores", test_short_names);
    g_test_add_func("/profile/short/finds-every-type-and-no-other", test_short_names_are_unique);
    g_test_add_func("/profile/near/is-what-was-meant", test_near_names);
    g_test_add_func("/profile/near/is-few-and-each-once", test_near_names_are_few_and_once);
    g_test_add_func("/profile/near/is-bounded", test_near_names_are_bounded);
    g_test_add_func("/profile/type-number/is-nvml-s-number", test_type_numbers);
    g_test_add_func("/profile/description/of-every-mdev-type", test_descriptions_of_every_mdev_type);
    g_test_add_func("/profile/description/is-read-or-none", test_descriptions);
    return g_test_run();
}
