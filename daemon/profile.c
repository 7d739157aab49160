/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "profile.h"

#include <string.h>

/* NVML gives 64 bytes to a name. Longer texts are not compared for nearness, so the cost of a question is
 * bounded whatever its length. */
#define NEAR_LENGTH_MAX 96

/* 999999 GB are enough for a name to be believed. */
#define SIZE_DIGITS_MAX 6

/* A name taken apart. Pointers are into the name. */
typedef struct {
    const char *model;
    gsize model_length;
    guint gpu_instance; /* 0: not of a MIG instance */
    guint64 size_mib;
    char series;         /* 0: none, and then gpu_instance, size_mib and variant are unset too */
    const char *variant; /* "", "4" or "ME", and what follows the size part */
} ProfileName;

static const char *
without_vendor(const char *name)
{
    if (g_str_has_prefix(name, "NVIDIA "))
        return name + strlen("NVIDIA ");
    if (g_str_has_prefix(name, "GRID "))
        return name + strlen("GRID ");
    return name;
}

/* `12Q`, `0B`, `2B4`, `10CME`: the whole of @part, which is @length bytes long. */
static gboolean
parse_size_part(const char *part, gsize length, ProfileName *profile)
{
    guint64 gigabytes = 0;
    gsize digits = 0;

    while (digits < length && g_ascii_isdigit(part[digits])) {
        if (digits == SIZE_DIGITS_MAX)
            return FALSE;
        gigabytes = gigabytes * 10 + (guint64)g_ascii_digit_value(part[digits++]);
    }
    if (digits == 0 || digits == length || (digits > 1 && part[0] == '0'))
        return FALSE;

    char series = part[digits];
    const char *variant = part + digits + 1;
    gsize variant_length = length - digits - 1;
    if (!memchr("ABCQ", series, 4))
        return FALSE;
    if (variant_length != 0 && !(variant_length == 1 && variant[0] == '4') &&
        !(variant_length == 2 && memcmp(variant, "ME", 2) == 0))
        return FALSE;

    profile->series = series;
    profile->variant = variant;
    profile->size_mib = gigabytes == 0 ? 512 : gigabytes * 1024;
    return TRUE;
}

/* The `1-` of `A100D-1-10CME`: one digit between two dashes, as a GPU has at most seven instances. @end is at
 * the dash before the size. */
static const char *
parse_gpu_instance(const char *start, const char *end, ProfileName *profile)
{
    if (end - start > 2 && end[-2] == '-' && end[-1] >= '1' && end[-1] <= '9') {
        profile->gpu_instance = (guint)g_ascii_digit_value(end[-1]);
        return end - 2;
    }
    return end;
}

static ProfileName
parse_name(const char *name)
{
    const char *start = without_vendor(name);
    ProfileName profile = {.model = start, .model_length = strlen(start), .variant = ""};
    const char *end = start + profile.model_length;

    /* Models contain dashes and numbers, so the last part that looks like a size is the size. */
    while (end > start) {
        const char *dash = g_strrstr_len(start, end - start, "-");
        if (!dash || dash == start)
            break;
        if (parse_size_part(dash + 1, (gsize)(end - dash - 1), &profile)) {
            profile.model_length = (gsize)(parse_gpu_instance(start, dash, &profile) - start);
            break;
        }
        end = dash;
    }
    return profile;
}

guint64
vgpu_profile_size_mib(const char *name)
{
    return name ? parse_name(name).size_mib : 0;
}

gboolean
vgpu_profile_is_of_an_instance(const char *name)
{
    return name && parse_name(name).gpu_instance > 0;
}

/* Runs of digits by value, everything else by letter whatever its case. */
static int
compare_natural(const char *a, gsize a_length, const char *b, gsize b_length)
{
    const char *a_end = a + a_length, *b_end = b + b_length;

    while (a < a_end && b < b_end) {
        if (g_ascii_isdigit(*a) && g_ascii_isdigit(*b)) {
            gsize a_digits = 0, b_digits = 0;

            while (a < a_end && *a == '0')
                a++;
            while (b < b_end && *b == '0')
                b++;
            while (a + a_digits < a_end && g_ascii_isdigit(a[a_digits]))
                a_digits++;
            while (b + b_digits < b_end && g_ascii_isdigit(b[b_digits]))
                b_digits++;
            if (a_digits != b_digits)
                return a_digits < b_digits ? -1 : 1;
            int order = memcmp(a, b, a_digits);
            if (order != 0)
                return order;
            a += a_digits;
            b += b_digits;
        } else {
            int order = (guchar)g_ascii_tolower(*a) - (guchar)g_ascii_tolower(*b);
            if (order != 0)
                return order;
            a++;
            b++;
        }
    }
    return (a < a_end) - (b < b_end);
}

int
vgpu_profile_compare(const char *a, const char *b)
{
    ProfileName pa = parse_name(a), pb = parse_name(b);
    int order;

    if (pa.series != pb.series) {
        if (!pa.series || !pb.series)
            return pa.series ? -1 : 1;
        return pa.series < pb.series ? -1 : 1;
    }
    if (pa.size_mib != pb.size_mib)
        return pa.size_mib < pb.size_mib ? -1 : 1;
    order = compare_natural(pa.model, pa.model_length, pb.model, pb.model_length);
    if (order != 0)
        return order;
    if (pa.gpu_instance != pb.gpu_instance)
        return pa.gpu_instance < pb.gpu_instance ? -1 : 1;
    order = strcmp(pa.variant, pb.variant);
    if (order != 0)
        return order;
    order = compare_natural(a, strlen(a), b, strlen(b));
    return order != 0 ? order : strcmp(a, b);
}

int
vgpu_profile_compare_pointers(gconstpointer a, gconstpointer b)
{
    return vgpu_profile_compare(*(const char *const *)a, *(const char *const *)b);
}

/* `_` is taken for a space before the vendor is dropped, so that NVIDIA_L40S-2Q works. */
static char *
short_form(const char *name)
{
    g_autofree char *spaced = g_strdelimit(g_strdup(name), "_", ' ');

    return g_strdup(without_vendor(spaced));
}

gboolean
vgpu_profile_matches_short(const char *name, const char *argument)
{
    if (!name || !argument)
        return FALSE;

    g_autofree char *short_name = short_form(name);
    g_autofree char *short_argument = short_form(argument);
    return *short_argument && strcmp(short_name, short_argument) == 0;
}

/* How many letters must be put in, left out or replaced. Both texts have at most NEAR_LENGTH_MAX bytes. */
static guint
edit_distance(const char *a, const char *b)
{
    guint row[NEAR_LENGTH_MAX + 1];
    guint a_length = (guint)strlen(a), b_length = (guint)strlen(b);

    for (guint j = 0; j <= b_length; j++)
        row[j] = j;
    for (guint i = 1; i <= a_length; i++) {
        guint diagonal = row[0];

        row[0] = i;
        for (guint j = 1; j <= b_length; j++) {
            guint replaced = diagonal + (a[i - 1] != b[j - 1]);

            diagonal = row[j];
            row[j] = MIN(replaced, MIN(row[j], row[j - 1]) + 1);
        }
    }
    return row[b_length];
}

/* Whether @part stands in @text between dashes, spaces or ends: `2q` in `l40s-2q`, not in `l40s-12q`. */
static gboolean
has_part(const char *text, const char *part)
{
    gsize length = strlen(part);

    for (const char *p = text; (p = strstr(p, part)) != NULL; p++) {
        if ((p == text || strchr("- ", p[-1])) && (p[length] == '\0' || strchr("- ", p[length])))
            return TRUE;
    }
    return FALSE;
}

typedef struct {
    const char *name;
    guint kind;     /* 0: other case only; 1: a part of the name; 2: mistyped; 3: contained */
    guint distance; /* letters to change */
    guint64 off_mib;
} NearName;

static int
compare_near(gconstpointer a, gconstpointer b)
{
    const NearName *na = a, *nb = b;

    if (na->kind != nb->kind)
        return na->kind < nb->kind ? -1 : 1;
    if (na->distance != nb->distance)
        return na->distance < nb->distance ? -1 : 1;
    if (na->off_mib != nb->off_mib)
        return na->off_mib < nb->off_mib ? -1 : 1;
    return vgpu_profile_compare(na->name, nb->name);
}

/* @wanted is lower case and short; @wanted_mib is the size in it, 0 for none. */
static gboolean
measure_nearness(const char *name, const char *wanted, guint64 wanted_mib, NearName *ret_near)
{
    g_autofree char *shortened = short_form(name);
    g_autofree char *folded = g_ascii_strdown(shortened, -1);
    guint64 size_mib = vgpu_profile_size_mib(name);
    guint kind;

    if (strlen(folded) > NEAR_LENGTH_MAX)
        return FALSE;

    guint distance = edit_distance(folded, wanted);
    guint tolerated = MAX(1, (guint)strlen(wanted) / 3);
    if (distance == 0)
        kind = 0;
    else if (has_part(folded, wanted))
        kind = 1;
    else if (distance <= tolerated)
        kind = 2;
    else if (strlen(wanted) >= 2 && (strstr(folded, wanted) || strstr(wanted, folded)))
        kind = 3;
    else
        return FALSE;

    guint64 off_mib = 0;
    if (wanted_mib > 0 && size_mib > 0)
        off_mib = MAX(size_mib, wanted_mib) - MIN(size_mib, wanted_mib);
    *ret_near = (NearName){name, kind, distance, off_mib};
    return TRUE;
}

GPtrArray *
vgpu_profile_near(const char *argument, GPtrArray *names, guint most)
{
    GPtrArray *near_names = g_ptr_array_new_with_free_func(g_free);

    if (!argument || strnlen(argument, NEAR_LENGTH_MAX + 1) > NEAR_LENGTH_MAX)
        return near_names;

    /* In capitals, as sizes and vendors are written. */
    g_autofree char *upper = g_ascii_strup(argument, -1);
    g_autofree char *shortened = short_form(g_strstrip(upper));
    g_autofree char *wanted = g_ascii_strdown(shortened, -1);
    guint64 wanted_mib = vgpu_profile_size_mib(upper);
    if (!*wanted)
        return near_names;

    g_autoptr(GArray) found = g_array_new(FALSE, FALSE, sizeof(NearName));
    for (guint i = 0; i < names->len; i++) {
        NearName candidate;
        if (measure_nearness(g_ptr_array_index(names, i), wanted, wanted_mib, &candidate))
            g_array_append_val(found, candidate);
    }
    g_array_sort(found, compare_near);

    for (guint i = 0; i < found->len && near_names->len < most; i++) {
        const char *name = g_array_index(found, NearName, i).name;
        /* Two cards that offer one profile may both have put its name in; such names are neighbours now. */
        if (i == 0 || strcmp(name, g_array_index(found, NearName, i - 1).name) != 0)
            g_ptr_array_add(near_names, g_strdup(name));
    }
    return near_names;
}

gboolean
vgpu_profile_type_number(const char *type_id, guint32 *ret_number)
{
    guint64 number = 0;

    if (!type_id)
        return FALSE;
    if (g_str_has_prefix(type_id, "nvidia-"))
        type_id += strlen("nvidia-");
    if (!*type_id)
        return FALSE;
    for (const char *p = type_id; *p; p++) {
        if (!g_ascii_isdigit(*p))
            return FALSE;
        number = number * 10 + (guint64)g_ascii_digit_value(*p);
        if (number > G_MAXUINT32)
            return FALSE;
    }
    if (number == 0)
        return FALSE;
    *ret_number = (guint32)number;
    return TRUE;
}

/* The text after `KEY=` or `KEY:` where KEY is a whole word of @description; NULL if it is not there. */
static const char *
find_value(const char *description, const char *key)
{
    gsize length = strlen(key);

    for (const char *p = description; (p = strstr(p, key)) != NULL; p++) {
        const char *after = p + length;

        if (p != description && (g_ascii_isalnum(p[-1]) || p[-1] == '_'))
            continue;
        while (*after == ' ' || *after == '\t')
            after++;
        if (*after != '=' && *after != ':')
            continue;
        after++;
        while (*after == ' ' || *after == '\t')
            after++;
        return after;
    }
    return NULL;
}

/* A decimal number at *@p, which moves behind it. FALSE without a digit or above @most. */
static gboolean
take_number(const char **p, guint64 most, guint64 *ret_number)
{
    guint64 number = 0;

    if (!g_ascii_isdigit(**p))
        return FALSE;
    for (; g_ascii_isdigit(**p); (*p)++) {
        number = number * 10 + (guint64)g_ascii_digit_value(**p);
        if (number > most)
            return FALSE;
    }
    *ret_number = number;
    return TRUE;
}

static gboolean
at_word_end(const char *p)
{
    return *p == '\0' || *p == ',' || *p == ';' || g_ascii_isspace(*p);
}

/* `2048M`, `128MB`, `1G`, `512`, in MiB; 0 for anything else. */
static guint64
parse_memory_mib(const char *text)
{
    guint64 number, kib_per_unit = 1024;

    /* The bound keeps every later product and sum far from an overflow. */
    if (!text || !take_number(&text, G_GUINT64_CONSTANT(1) << 40, &number))
        return 0;
    while (*text == ' ')
        text++;
    switch (g_ascii_toupper(*text)) {
    case 'K':
        kib_per_unit = 1;
        text++;
        break;
    case 'M':
        text++;
        break;
    case 'G':
        kib_per_unit = 1024 * 1024;
        text++;
        break;
    default:
        return at_word_end(text) ? number : 0;
    }
    if (*text == 'i')
        text++;
    if (*text == 'B' || *text == 'b')
        text++;
    return at_word_end(text) ? number * kib_per_unit / 1024 : 0;
}

guint64
vgpu_description_framebuffer_mib(const char *description)
{
    if (!description)
        return 0;

    const char *framebuffer = find_value(description, "framebuffer");
    if (framebuffer)
        return parse_memory_mib(framebuffer);
    return parse_memory_mib(find_value(description, "low_gm_size")) +
           parse_memory_mib(find_value(description, "high_gm_size"));
}

guint
vgpu_description_max_instance(const char *description)
{
    const char *text = description ? find_value(description, "max_instance") : NULL;
    guint64 number;

    return text && take_number(&text, G_MAXUINT, &number) && at_word_end(text) ? (guint)number : 0;
}
