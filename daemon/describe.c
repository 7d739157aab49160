/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "describe.h"

static void
add_string(GVariantBuilder *row, const char *key, const char *value)
{
    if (value && *value)
        g_variant_builder_add(row, "{sv}", key, g_variant_new_string(value));
}

static void
add_size(GVariantBuilder *row, const char *key, guint64 mib)
{
    if (mib > 0)
        g_variant_builder_add(row, "{sv}", key, g_variant_new_uint64(mib));
}

static void
add_count(GVariantBuilder *row, const char *key, guint count)
{
    g_variant_builder_add(row, "{sv}", key, g_variant_new_uint32(count));
}

static GVariant *
describe_profile(const VgpuHost *host, const char *name)
{
    GVariantBuilder row = G_VARIANT_BUILDER_INIT(G_VARIANT_TYPE_VARDICT);
    g_autoptr(GStrvBuilder) cards = g_strv_builder_new();
    g_auto(GStrv) addresses = NULL;
    guint64 framebuffer = 0;
    guint available = 0;
    guint remaining = 0;
    gboolean counted = TRUE;

    for (guint i = 0; i < host->inventory->cards->len; i++) {
        const VgpuCard *card = g_ptr_array_index(host->inventory->cards, i);
        const VgpuType *known = vgpu_capacity_find_type(vgpu_memory_types(host->memory, card->address), name);
        guint on_card;

        if (!known)
            continue;
        g_strv_builder_add(cards, card->address);
        if (framebuffer == 0)
            framebuffer = known->framebuffer_mib;
        available += vgpu_capacity_available(host, card, name);
        if (vgpu_capacity_remaining(host, card, NULL, TRUE, name, &on_card))
            remaining += on_card;
        else
            counted = FALSE;
    }
    addresses = g_strv_builder_end(cards);
    add_string(&row, "Name", name);
    add_size(&row, "FramebufferMiB", framebuffer);
    add_count(&row, "Available", available);
    if (counted)
        add_count(&row, "Remaining", remaining);
    g_variant_builder_add(&row, "{sv}", "GPUs", g_variant_new_strv((const char *const *)addresses, -1));
    return g_variant_builder_end(&row);
}

GVariant *
vgpu_describe_profiles(const VgpuHost *host)
{
    GVariantBuilder rows = G_VARIANT_BUILDER_INIT(G_VARIANT_TYPE("aa{sv}"));
    g_autoptr(GPtrArray) names = vgpu_placement_names(host);

    for (guint i = 0; i < names->len; i++)
        g_variant_builder_add_value(&rows, describe_profile(host, g_ptr_array_index(names, i)));
    return g_variant_builder_end(&rows);
}

static GVariant *
describe_device(const VgpuHost *host, const VgpuDevice *device)
{
    GVariantBuilder row = G_VARIANT_BUILDER_INIT(G_VARIANT_TYPE_VARDICT);
    const VgpuAssignment *ours = vgpu_assignments_find_device(host->assignments, device->slot, device->uuid);

    add_string(&row, "Device", device->slot);
    add_string(&row, "Profile", device->name);
    add_string(&row, "TypeId", device->type_id);
    add_string(&row, "UUID", device->uuid);
    add_string(&row, "GroupNode", device->group_node);
    if (ours && vgpu_assignment_is_visible(ours))
        add_string(&row, "Assignment", ours->id);
    return g_variant_builder_end(&row);
}

static GVariant *
describe_card(const VgpuHost *host, const VgpuCard *card)
{
    GVariantBuilder row = G_VARIANT_BUILDER_INIT(G_VARIANT_TYPE_VARDICT);
    GVariantBuilder occupied = G_VARIANT_BUILDER_INIT(G_VARIANT_TYPE("aa{sv}"));
    guint slots, free_slots;
    guint64 assigned;

    for (guint i = 0; i < card->slots->len; i++) {
        const VgpuSlot *slot = g_ptr_array_index(card->slots, i);

        for (guint j = 0; j < slot->devices->len; j++)
            g_variant_builder_add_value(&occupied,
                                        describe_device(host, g_ptr_array_index(slot->devices, j)));
    }
    vgpu_capacity_slots(host, card, &slots, &free_slots);
    add_string(&row, "Address", card->address);
    add_string(&row, "Name", card->name);
    add_string(&row, "Framework", card->framework ? card->framework->name : NULL);
    if (card->numa_node >= 0)
        g_variant_builder_add(&row, "{sv}", "NumaNode", g_variant_new_int32(card->numa_node));
    add_size(&row, "FramebufferMiB", vgpu_memory_framebuffer(host->memory, card->address));
    if (vgpu_capacity_assigned(card, &assigned))
        g_variant_builder_add(&row, "{sv}", "FramebufferAssignedMiB", g_variant_new_uint64(assigned));
    add_count(&row, "Slots", slots);
    add_count(&row, "SlotsFree", free_slots);
    add_string(&row, "Reason", card->reason);
    g_variant_builder_add(&row, "{sv}", "Occupied", g_variant_builder_end(&occupied));
    return g_variant_builder_end(&row);
}

GVariant *
vgpu_describe_gpus(const VgpuHost *host)
{
    GVariantBuilder rows = G_VARIANT_BUILDER_INIT(G_VARIANT_TYPE("aa{sv}"));

    for (guint i = 0; i < host->inventory->cards->len; i++)
        g_variant_builder_add_value(&rows, describe_card(host, g_ptr_array_index(host->inventory->cards, i)));
    return g_variant_builder_end(&rows);
}

GVariant *
vgpu_describe_assignment(const VgpuAssignment *assignment)
{
    GVariantBuilder row = G_VARIANT_BUILDER_INIT(G_VARIANT_TYPE_VARDICT);
    const VgpuDevice *device = assignment->device;
    g_autofree char *path = assignment->framework->device_path(device->slot, device->uuid);

    add_string(&row, "Id", assignment->id);
    add_string(&row, "State", vgpu_state_name(assignment->state));
    add_string(&row, "Profile", device->name);
    add_string(&row, "TypeId", device->type_id);
    add_size(&row, "FramebufferMiB", device->framebuffer_mib);
    add_string(&row, "Framework", assignment->framework->name);
    add_string(&row, "GPU", assignment->card);
    add_string(&row, "Device", device->slot);
    add_string(&row, "DevicePath", path);
    add_string(&row, "UUID", device->uuid);
    if (device->iommu_group >= 0)
        add_count(&row, "IOMMUGroup", (guint)device->iommu_group);
    add_string(&row, "GroupNode", device->group_node);
    add_string(&row, "DeviceNode", device->device_node);
    add_string(&row, "Owner", assignment->owner);
    add_count(&row, "UID", assignment->uid);
    if (assignment->pid > 0)
        add_count(&row, "PID", assignment->pid);
    add_string(&row, "Label", assignment->label);
    g_variant_builder_add(&row, "{sv}", "Since", g_variant_new_uint64((guint64)assignment->since));
    if (assignment->holders && assignment->holders[0])
        g_variant_builder_add(&row, "{sv}", "Holders",
                              g_variant_new_strv((const char *const *)assignment->holders, -1));
    add_string(&row, "Error", assignment->error);
    return g_variant_builder_end(&row);
}

GVariant *
vgpu_describe_assignments(VgpuAssignments *assignments)
{
    GVariantBuilder rows = G_VARIANT_BUILDER_INIT(G_VARIANT_TYPE("aa{sv}"));
    g_autoptr(GPtrArray) list = vgpu_assignments_list(assignments);

    for (guint i = 0; i < list->len; i++) {
        const VgpuAssignment *assignment = g_ptr_array_index(list, i);
        if (vgpu_assignment_is_visible(assignment))
            g_variant_builder_add_value(&rows, vgpu_describe_assignment(assignment));
    }
    return g_variant_builder_end(&rows);
}

GVariant *
vgpu_describe_plan(const VgpuHost *host, const VgpuRequest *request, const char *name,
                   const VgpuCandidate *candidate, GHashTable *reasons)
{
    GVariantBuilder row = G_VARIANT_BUILDER_INIT(G_VARIANT_TYPE_VARDICT);
    GVariantBuilder sentences = G_VARIANT_BUILDER_INIT(G_VARIANT_TYPE("a{ss}"));
    guint remaining;

    if (candidate) {
        add_string(&row, "Device", candidate->slot->address);
        add_string(&row, "GPU", candidate->card->address);
        if (vgpu_placement_remaining(host, request, name, &remaining))
            add_count(&row, "Remaining", remaining);
        g_variant_builder_clear(&sentences);
        return g_variant_builder_end(&row);
    }
    for (guint i = 0; i < host->inventory->cards->len; i++) {
        const VgpuCard *card = g_ptr_array_index(host->inventory->cards, i);
        const char *sentence = g_hash_table_lookup(reasons, card->address);

        if (sentence)
            g_variant_builder_add(&sentences, "{ss}", card->address, sentence);
    }
    g_variant_builder_add(&row, "{sv}", "Reasons", g_variant_builder_end(&sentences));
    return g_variant_builder_end(&row);
}
