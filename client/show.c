/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "show.h"

#include <pwd.h>
#include <stdio.h>
#include <string.h>

#include "bus.h"
#include "failure.h"
#include "json.h"
#include "value.h"

static char *
text_size(GVariant *row)
{
    return vgpu_value_size(row, "FramebufferMiB");
}

static char *
text_assigned(GVariant *row)
{
    return vgpu_value_size(row, "FramebufferAssignedMiB");
}

static char *
text_since(GVariant *row)
{
    return vgpu_value_time(row, "Since");
}

/* "A/B"; one that is unknown is a dash, and nothing is shown when both are. */
static char *
of_text(char *part, char *whole)
{
    g_autofree char *a = part, *b = whole;
    return a || b ? g_strdup_printf("%s/%s", a ? a : "-", b ? b : "-") : NULL;
}

static char *
text_free_of_slots(GVariant *row)
{
    return of_text(vgpu_value_of(row, "SlotsFree"), vgpu_value_of(row, "Slots"));
}

static char *
text_assigned_of_size(GVariant *row)
{
    return of_text(text_assigned(row), text_size(row));
}

/* Users are numbers on the bus. The names of this host are right for its own service, not for another's. */
static char *
text_user(GVariant *row)
{
    guint32 uid;
    if (!g_variant_lookup(row, "UID", "u", &uid))
        return NULL;
    const struct passwd *user = getpwuid(uid);
    return user ? g_strdup(user->pw_name) : g_strdup_printf("%u", uid);
}

static char *
text_type(GVariant *row)
{
    char *profile = vgpu_value_of(row, "Profile");
    if (profile)
        return profile;
    g_autofree char *id = vgpu_value_of(row, "TypeId");
    return id ? g_strdup_printf("type %s", id) : NULL;
}

static char *
text_slot(GVariant *row)
{
    char *uuid = vgpu_value_of(row, "UUID");
    return uuid ? uuid : vgpu_value_of(row, "Device");
}

static char *
text_whose(GVariant *row)
{
    g_autofree char *id = vgpu_value_of(row, "Assignment");
    return id ? g_strdup_printf("assignment %s", id) : g_strdup("not handed out by the service");
}

static const VgpuColumn card_columns_short[] = {
    {"CARD", 0, "Address"},
    {"NAME", VGPU_COLUMN_SHORTEN, "Name"},
    {"FREE", VGPU_COLUMN_RIGHT, NULL, text_free_of_slots},
    {"MEMORY", VGPU_COLUMN_RIGHT, NULL, text_assigned_of_size},
    {"NOTE", VGPU_COLUMN_WRAP, "Reason"},
};

static const VgpuColumn card_columns[] = {
    {"CARD", VGPU_COLUMN_TREE, "Address"},
    {"NAME", 0, "Name"},
    {"FRAMEWORK", 0, "Framework"},
    {"NUMA", VGPU_COLUMN_RIGHT, "NumaNode"},
    {"FREE", VGPU_COLUMN_RIGHT, "SlotsFree"},
    {"SLOTS", VGPU_COLUMN_RIGHT, "Slots"},
    {"ASSIGNED", VGPU_COLUMN_RIGHT, NULL, text_assigned},
    {"MEMORY", VGPU_COLUMN_RIGHT, NULL, text_size},
    {"NOTE", VGPU_COLUMN_WRAP, "Reason"},
};

/* The same columns for an occupied slot below its card. */
static const VgpuColumn slot_columns[G_N_ELEMENTS(card_columns)] = {
    {NULL, 0, NULL, text_slot},
    {NULL, 0, NULL, text_type},
    [8] = {NULL, 0, NULL, text_whose},
};

static const VgpuColumn profile_columns[] = {
    {"NAME", 0, "Name"},
    {"MEMORY", VGPU_COLUMN_RIGHT, NULL, text_size},
    {"AVAILABLE", VGPU_COLUMN_RIGHT, "Available"},
    {"REMAINING", VGPU_COLUMN_RIGHT, "Remaining"},
    {"CARDS", VGPU_COLUMN_SHORTEN, "GPUs"},
};

static const VgpuColumn assignment_columns_short[] = {
    {"ASSIGNMENT", 0, "Id"},
    {"STATE", VGPU_COLUMN_STATE, "State"},
    {"PROFILE", VGPU_COLUMN_SHORTEN, NULL, text_type},
    {"DEVICE", 0, "Device"},
};

#define USER_COLUMN 5

static const VgpuColumn assignment_columns[] = {
    {"ASSIGNMENT", 0, "Id"},
    {"STATE", VGPU_COLUMN_STATE, "State"},
    {"PROFILE", 0, NULL, text_type},
    {"DEVICE", 0, "Device"},
    {"NODE", 0, "GroupNode"},
    [USER_COLUMN] = {"USER", 0, NULL, text_user},
    {"PID", VGPU_COLUMN_RIGHT, "PID"},
    {"SINCE", 0, NULL, text_since},
    {"LABEL", VGPU_COLUMN_SHORTEN, "Label"},
    {"HOLDERS", VGPU_COLUMN_SHORTEN, "Holders"},
};

static void
show_rows(const VgpuTerminal *terminal, const VgpuInvocation *invocation, const VgpuColumn *columns, size_t n,
          GVariant *rows)
{
    g_autoptr(VgpuTable) table = vgpu_table_new(terminal, !invocation->no_legend, columns, n);
    GVariantIter iter;
    GVariant *row;

    g_variant_iter_init(&iter, rows);
    while (g_variant_iter_loop(&iter, "@a{sv}", &row))
        vgpu_table_add(table, row);
    vgpu_table_print(table);
}

static void
show_errors(GVariant *rows)
{
    GVariantIter iter;
    GVariant *row;

    g_variant_iter_init(&iter, rows);
    while (g_variant_iter_loop(&iter, "@a{sv}", &row)) {
        g_autofree char *id = vgpu_value_of(row, "Id");
        g_autofree char *text = vgpu_value_of(row, "Error");
        if (text)
            printf("%s: %s\n", id ? id : "-", text);
    }
}

static void
show_assignments_wide(const VgpuTerminal *terminal, const VgpuInvocation *invocation, GVariant *rows)
{
    VgpuColumn columns[G_N_ELEMENTS(assignment_columns)];

    memcpy(columns, assignment_columns, sizeof columns);
    if (invocation->host)
        columns[USER_COLUMN] = (VgpuColumn){"UID", VGPU_COLUMN_RIGHT, "UID"};
    show_rows(terminal, invocation, columns, G_N_ELEMENTS(columns), rows);
}

void
vgpu_show_assignments(const VgpuTerminal *terminal, const VgpuInvocation *invocation, GVariant *rows,
                      bool wide)
{
    if (wide)
        show_assignments_wide(terminal, invocation, rows);
    else
        show_rows(terminal, invocation, assignment_columns_short, G_N_ELEMENTS(assignment_columns_short),
                  rows);
    if (!invocation->no_legend)
        show_errors(rows);
}

static void
show_cards(const VgpuTerminal *terminal, const VgpuInvocation *invocation, GVariant *cards)
{
    g_autoptr(VgpuTable) table =
        vgpu_table_new(terminal, !invocation->no_legend, card_columns, G_N_ELEMENTS(card_columns));
    GVariantIter iter;
    GVariant *card;

    g_variant_iter_init(&iter, cards);
    while (g_variant_iter_loop(&iter, "@a{sv}", &card)) {
        VgpuRow *row = vgpu_table_add(table, card);
        g_autoptr(GVariantIter) slots = NULL;
        GVariant *slot;
        if (!g_variant_lookup(card, "Occupied", "aa{sv}", &slots))
            continue;
        while (g_variant_iter_loop(slots, "@a{sv}", &slot))
            vgpu_table_add_below(table, row, slot_columns, slot);
    }
    vgpu_table_print(table);
}

typedef void (*ShowFunc)(const VgpuTerminal *terminal, const VgpuInvocation *invocation, GVariant *rows);

static int
show_property(const VgpuInvocation *invocation, const char *property, const char *none, ShowFunc show,
              GError **error)
{
    g_autoptr(sd_bus) bus = vgpu_bus_open(invocation->host, error);
    g_autoptr(GVariant) rows = bus ? vgpu_bus_get(bus, property, "aa{sv}", error) : NULL;
    if (!rows)
        return VGPU_EXIT_FAILED;
    if (invocation->json) {
        vgpu_json_print(invocation->json, rows);
        return VGPU_EXIT_DONE;
    }
    g_auto(VgpuTerminal) terminal = vgpu_terminal_open(invocation);
    show(&terminal, invocation, rows);
    if (g_variant_n_children(rows) == 0 && !invocation->no_legend)
        puts(none);
    return VGPU_EXIT_DONE;
}

int
vgpu_gpus_command(const VgpuInvocation *invocation, GError **error)
{
    return show_property(invocation, "GPUs", "No cards.", show_cards, error);
}

static void
show_profiles(const VgpuTerminal *terminal, const VgpuInvocation *invocation, GVariant *rows)
{
    show_rows(terminal, invocation, profile_columns, G_N_ELEMENTS(profile_columns), rows);
}

int
vgpu_profiles_command(const VgpuInvocation *invocation, GError **error)
{
    return show_property(invocation, "Profiles", "No profiles.", show_profiles, error);
}

static void
show_list(const VgpuTerminal *terminal, const VgpuInvocation *invocation, GVariant *rows)
{
    vgpu_show_assignments(terminal, invocation, rows, true);
}

int
vgpu_list_command(const VgpuInvocation *invocation, GError **error)
{
    return show_property(invocation, "Assignments", "No assignments.", show_list, error);
}

static GVariant *
rows_of(GVariant *properties, const char *name)
{
    GVariant *rows = g_variant_lookup_value(properties, name, G_VARIANT_TYPE("aa{sv}"));
    return rows ? rows : g_variant_ref_sink(g_variant_new("aa{sv}", NULL));
}

int
vgpu_status_command(const VgpuInvocation *invocation, GError **error)
{
    g_autoptr(sd_bus) bus = vgpu_bus_open(invocation->host, error);
    g_autoptr(GVariant) properties = bus ? vgpu_bus_get_all(bus, error) : NULL;
    if (!properties)
        return VGPU_EXIT_FAILED;
    if (invocation->json) {
        vgpu_json_print(invocation->json, properties);
        return VGPU_EXIT_DONE;
    }

    g_auto(VgpuTerminal) terminal = vgpu_terminal_open(invocation);
    g_autofree char *framework = vgpu_value_of(properties, "Framework");
    g_autofree char *version = vgpu_value_of(properties, "Version");
    g_autoptr(GVariant) cards = rows_of(properties, "GPUs");
    g_autoptr(GVariant) assignments = rows_of(properties, "Assignments");

    printf("Framework: %s   Service: %s\n", framework ? framework : "-", version ? version : "-");
    putchar('\n');
    show_rows(&terminal, invocation, card_columns_short, G_N_ELEMENTS(card_columns_short), cards);
    if (g_variant_n_children(cards) == 0)
        puts("No cards.");
    putchar('\n');
    vgpu_show_assignments(&terminal, invocation, assignments, false);
    if (g_variant_n_children(assignments) == 0)
        puts("No assignments.");
    return VGPU_EXIT_DONE;
}
