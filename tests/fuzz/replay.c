/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Feeds a target its corpus: each file, and each cut short in up to a hundred places. */
#include "fuzz.h"

#include <string.h>

#define CUTS 100

/* A copy of exactly that size, so that a sanitizer sees the first byte that is read behind it. */
static void
feed(const char *data, gsize size)
{
    g_autofree uint8_t *copy = size > 0 ? g_memdup2(data, size) : g_malloc(1);

    g_assert_cmpint(LLVMFuzzerTestOneInput(copy, size), ==, 0);
}

static void
replay(gconstpointer path)
{
    g_autofree char *data = NULL;
    g_autoptr(GError) error = NULL;
    gsize size, step;

    g_file_get_contents(path, &data, &size, &error);
    g_assert_no_error(error);
    feed(data, size);
    step = MAX(1, size / CUTS);
    for (gsize cut = 0; cut < size; cut += step)
        feed(data, cut);
}

static int
compare_names(gconstpointer a, gconstpointer b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

int
main(int argc, char **argv)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(GDir) dir = NULL;
    g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);
    const char *name;

    g_test_init(&argc, &argv, NULL);
    dir = g_dir_open(FUZZ_CORPUS "/" FUZZ_TARGET, 0, &error);
    g_assert_no_error(error);
    while ((name = g_dir_read_name(dir)))
        g_ptr_array_add(names, g_strdup(name));
    g_assert_cmpuint(names->len, >, 0);
    g_ptr_array_sort(names, compare_names);
    for (guint i = 0; i < names->len; i++) {
        g_autofree char *test = g_strconcat("/fuzz/" FUZZ_TARGET "/", names->pdata[i], NULL);
        char *path = g_build_filename(FUZZ_CORPUS, FUZZ_TARGET, names->pdata[i], NULL);

        g_test_add_data_func_full(test, path, replay, g_free);
    }
    return g_test_run();
}
