/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "number.h"

static void
test_numbers(void)
{
    static const struct {
        const char *text;
        guint64 most;
        gboolean good;
        guint64 number;
    } numbers[] = {
        {"0", 0, TRUE, 0},
        {"42", 100, TRUE, 42},
        {"007", 7, TRUE, 7},
        {"18446744073709551615", G_MAXUINT64, TRUE, G_MAXUINT64},
        {"18446744073709551616", G_MAXUINT64, FALSE, 0},
        {"99999999999999999999999999", G_MAXUINT64, FALSE, 0},
        {"101", 100, FALSE, 0},
        {"", 100, FALSE, 0},
        {NULL, 100, FALSE, 0},
        {"-1", 100, FALSE, 0},
        {"+1", 100, FALSE, 0},
        {" 1", 100, FALSE, 0},
        {"1\n", 100, FALSE, 0},
        {"0x10", 100, FALSE, 0},
        {"1.0", 100, FALSE, 0},
    };

    for (gsize i = 0; i < G_N_ELEMENTS(numbers); i++) {
        guint64 number = 4711;

        g_assert_cmpint(vgpu_number_parse(numbers[i].text, numbers[i].most, &number), ==, numbers[i].good);
        g_assert_cmpuint(number, ==, numbers[i].good ? numbers[i].number : 4711);
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/number/decimal-digits-and-nothing-else", test_numbers);
    return g_test_run();
}
