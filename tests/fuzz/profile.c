/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Any lines as names of profiles: the first is what somebody wrote, all are what cards offer. */
#include "profile.h"

#include "fuzz.h"

#include <string.h>

#define NAMES_MAX 12
#define MOST 5

static int
sign(int n)
{
    return (n > 0) - (n < 0);
}

static void
check_order(GPtrArray *names)
{
    for (guint i = 0; i < names->len; i++) {
        for (guint j = 0; j < names->len; j++) {
            const char *a = names->pdata[i], *b = names->pdata[j];
            int order = sign(vgpu_profile_compare(a, b));

            g_assert_cmpint(order, ==, -sign(vgpu_profile_compare(b, a)));
            g_assert_cmpint(order == 0, ==, strcmp(a, b) == 0);
            for (guint k = 0; order <= 0 && k < names->len; k++) {
                if (vgpu_profile_compare(b, names->pdata[k]) <= 0)
                    g_assert_cmpint(vgpu_profile_compare(a, names->pdata[k]), <=, 0);
            }
        }
    }
}

static void
check_name(const char *name, const char *argument)
{
    g_autofree char *shell = g_strdelimit(g_strdup(name), " ", '_');
    guint32 number = 0;

    g_assert_cmpuint(vgpu_profile_size_mib(name), <=, 999999 * 1024);
    if (vgpu_profile_is_of_an_instance(name))
        g_assert_cmpuint(vgpu_profile_size_mib(name), >, 0);
    g_assert_cmpint(vgpu_profile_matches_short(name, argument), ==,
                    vgpu_profile_matches_short(argument, name));
    /* Nothing is left of "GRID ", and that means nobody. */
    if (vgpu_profile_matches_short(name, name))
        g_assert_true(vgpu_profile_matches_short(name, shell));
    if (vgpu_profile_type_number(name, &number)) {
        g_autofree char *id = g_strdup_printf("nvidia-%u", number);
        guint32 again = 0;

        g_assert_cmpuint(number, >, 0);
        g_assert_true(vgpu_profile_type_number(id, &again));
        g_assert_cmpuint(again, ==, number);
    } else {
        g_assert_cmpuint(number, ==, 0);
    }
}

static void
check_near(const char *argument, GPtrArray *names)
{
    g_autoptr(GPtrArray) near_names = vgpu_profile_near(argument, names, MOST);
    g_autoptr(GPtrArray) reversed = g_ptr_array_new();
    g_autoptr(GPtrArray) again = NULL;

    for (guint i = names->len; i > 0; i--)
        g_ptr_array_add(reversed, names->pdata[i - 1]);
    again = vgpu_profile_near(argument, reversed, MOST);
    g_assert_cmpuint(near_names->len, <=, MOST);
    g_assert_cmpuint(near_names->len, ==, again->len);
    for (guint i = 0; i < near_names->len; i++) {
        g_assert_cmpstr(near_names->pdata[i], ==, again->pdata[i]);
        g_assert_true(g_ptr_array_find_with_equal_func(names, near_names->pdata[i], g_str_equal, NULL));
        for (guint j = 0; j < i; j++)
            g_assert_cmpstr(near_names->pdata[i], !=, near_names->pdata[j]);
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);
    char *name;

    while (names->len < NAMES_MAX && (name = fuzz_take_text(&data, &size, '\n')))
        g_ptr_array_add(names, name);
    if (names->len == 0)
        return 0;
    for (guint i = 0; i < names->len; i++)
        check_name(names->pdata[i], names->pdata[0]);
    check_order(names);
    check_near(names->pdata[0], names);
    return 0;
}
