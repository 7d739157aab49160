/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <stdio.h>

#include "bus.h"
#include "failure.h"
#include "json.h"
#include "request.h"
#include "table.h"

static const VgpuColumn place_columns[] = {
    {"DEVICE", 0, "Device"},
    {"CARD", 0, "GPU"},
    {"REMAINING", VGPU_COLUMN_RIGHT, "Remaining"},
};

static const VgpuColumn reason_columns[] = {
    {"CARD", 0, "Card"},
    {"REASON", VGPU_COLUMN_WRAP, "Reason"},
};

/* @reasons (a{ss}) as rows of a table, by card. */
static void
show_reasons(const VgpuTerminal *terminal, const VgpuInvocation *invocation, GVariant *reasons)
{
    g_autoptr(VgpuTable) table =
        vgpu_table_new(terminal, !invocation->no_legend, reason_columns, G_N_ELEMENTS(reason_columns));
    GVariantIter iter;
    const char *card, *reason;

    g_variant_iter_init(&iter, reasons);
    while (g_variant_iter_loop(&iter, "{&s&s}", &card, &reason)) {
        g_autoptr(GVariant) row =
            g_variant_ref_sink(g_variant_new_parsed("{'Card': <%s>, 'Reason': <%s>}", card, reason));
        vgpu_table_add(table, row);
    }
    vgpu_table_print(table);
}

static void
show_place(const VgpuTerminal *terminal, const VgpuInvocation *invocation, GVariant *plan)
{
    g_autoptr(VgpuTable) table =
        vgpu_table_new(terminal, !invocation->no_legend, place_columns, G_N_ELEMENTS(place_columns));
    vgpu_table_add(table, plan);
    vgpu_table_print(table);
}

int
vgpu_plan_command(const VgpuInvocation *invocation, GError **error)
{
    g_autoptr(sd_bus) bus = vgpu_bus_open(invocation->host, error);
    g_autoptr(sd_bus_message) call = bus ? vgpu_request_new(bus, "Plan", invocation, error) : NULL;
    g_autoptr(sd_bus_message) reply = call ? vgpu_bus_call(bus, call, error) : NULL;
    g_autoptr(GVariant) plan = reply ? vgpu_bus_read(reply, "a{sv}", error) : NULL;
    if (!plan)
        return VGPU_EXIT_FAILED;

    g_autoptr(GVariant) reasons = g_variant_lookup_value(plan, "Reasons", G_VARIANT_TYPE("a{ss}"));
    g_autoptr(GVariant) device = g_variant_lookup_value(plan, "Device", NULL);
    VgpuTerminal terminal = vgpu_terminal_look();
    if (invocation->json)
        vgpu_json_print(invocation->json, plan);
    else if (device && !invocation->quiet)
        show_place(&terminal, invocation, plan);
    else if (reasons && !invocation->quiet)
        show_reasons(&terminal, invocation, reasons);
    return device ? VGPU_EXIT_DONE : VGPU_EXIT_NOTHING_FITS;
}
