/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "memory-internal.h"
#include "profile.h"

#include <string.h>

Seen *
memory_seen_new(void)
{
    Seen *seen = g_new0(Seen, 1);

    seen->devices = g_array_new(FALSE, FALSE, sizeof(guint64));
    seen->types = g_ptr_array_new_with_free_func((GDestroyNotify)vgpu_type_free);
    seen->known = g_ptr_array_new_with_free_func((GDestroyNotify)vgpu_type_free);
    return seen;
}

void
memory_seen_free(Seen *seen)
{
    g_array_unref(seen->devices);
    g_ptr_array_unref(seen->types);
    g_ptr_array_unref(seen->known);
    vgpu_nvml_card_free(seen->nvml);
    g_free(seen->largest);
    g_free(seen);
}

VgpuMemory *
vgpu_memory_new(void)
{
    VgpuMemory *memory = g_new0(VgpuMemory, 1);

    memory->cards = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, (GDestroyNotify)memory_seen_free);
    return memory;
}

void
vgpu_memory_free(VgpuMemory *memory)
{
    g_hash_table_unref(memory->cards);
    g_free(memory);
}

guint
vgpu_memory_version(const VgpuMemory *memory)
{
    return memory->version;
}

static gboolean
same_devices(const GArray *devices, const VgpuCard *card)
{
    if (devices->len != 2 * card->slots->len)
        return FALSE;
    for (guint i = 0; i < card->slots->len; i++) {
        const VgpuSlot *slot = g_ptr_array_index(card->slots, i);
        if (g_array_index(devices, guint64, 2 * i) != slot->inode ||
            g_array_index(devices, guint64, 2 * i + 1) != slot->attributes_inode)
            return FALSE;
    }
    return TRUE;
}

/* What is known of @card: nothing yet, when its devices are not those of before. */
static Seen *
seen_on(VgpuMemory *memory, const VgpuCard *card)
{
    Seen *seen = g_hash_table_lookup(memory->cards, card->address);

    if (seen && same_devices(seen->devices, card))
        return seen;
    seen = memory_seen_new();
    for (guint i = 0; i < card->slots->len; i++) {
        const VgpuSlot *slot = g_ptr_array_index(card->slots, i);
        g_array_append_val(seen->devices, slot->inode);
        g_array_append_val(seen->devices, slot->attributes_inode);
    }
    g_hash_table_insert(memory->cards, g_strdup(card->address), seen);
    memory->version++;
    return seen;
}

/* ---- What the card says itself ---- */

static gboolean
learn_type(Seen *seen, const VgpuType *type)
{
    VgpuType *known = vgpu_type_find(seen->types, type->id);

    if (known && strcmp(known->name, type->name) == 0 && known->framebuffer_mib == type->framebuffer_mib &&
        known->max_instances == type->max_instances)
        return FALSE;
    if (!known) {
        known = vgpu_type_new(type->id, type->name);
        g_ptr_array_add(seen->types, known);
    } else {
        g_free(known->name); /* the card's own word of today */
        known->name = g_strdup(type->name);
    }
    known->framebuffer_mib = type->framebuffer_mib;
    known->max_instances = type->max_instances;
    return TRUE;
}

/* Whether what the card lists now is all that it has: nothing is on it, as far as that can be seen. An mdev
 * parent always shows all its types. */
static gboolean
shows_all(const VgpuCard *card)
{
    gboolean lists = FALSE;

    for (guint i = 0; i < card->slots->len; i++) {
        const VgpuSlot *slot = g_ptr_array_index(card->slots, i);

        if (slot->error || (slot->framework->group_before_set && slot->devices->len > 0))
            return FALSE;
        lists |= slot->types->len > 0;
    }
    return lists;
}

/* The largest of what the card lists now. Its whole framebuffer has a type of its own with NVIDIA, whose ids
 * have a number; but not while the card is divided, and not if a type of unknown size may be the one. */
static const VgpuType *
largest_listed(const VgpuCard *card)
{
    const VgpuType *largest = NULL;
    guint32 number;

    for (guint i = 0; i < card->slots->len; i++) {
        const VgpuSlot *slot = g_ptr_array_index(card->slots, i);
        for (guint j = 0; j < slot->types->len; j++) {
            const VgpuType *type = g_ptr_array_index(slot->types, j);

            if (vgpu_profile_is_of_an_instance(type->name))
                continue;
            if (type->framebuffer_mib == 0 || !vgpu_profile_type_number(type->id, &number))
                return NULL;
            if (!largest || type->framebuffer_mib > largest->framebuffer_mib)
                largest = type;
        }
    }
    return largest;
}

static gboolean
learn_card(Seen *seen, const VgpuCard *card)
{
    const VgpuType *before, *largest;
    gboolean changed = FALSE;

    for (guint i = 0; i < card->slots->len; i++) {
        const VgpuSlot *slot = g_ptr_array_index(card->slots, i);
        for (guint j = 0; j < slot->types->len; j++)
            changed |= learn_type(seen, g_ptr_array_index(slot->types, j));
    }
    if (!shows_all(card))
        return changed;
    changed |= !seen->whole;
    seen->whole = TRUE;
    largest = largest_listed(card);
    before = vgpu_type_find(seen->types, seen->largest);
    if (largest && (!before || largest->framebuffer_mib > before->framebuffer_mib)) {
        g_free(seen->largest);
        seen->largest = g_strdup(largest->id);
        changed = TRUE;
    }
    return changed;
}

/* ---- All sources together ---- */

static const VgpuNvmlType *
find_nvml_type(const Seen *seen, const char *type_id)
{
    guint32 number;

    if (!seen->nvml || !type_id || !vgpu_profile_type_number(type_id, &number))
        return NULL;
    return vgpu_nvml_card_find_type(seen->nvml, number);
}

static guint64
nvml_type_size(const VgpuNvmlType *type)
{
    return type->framebuffer_mib > 0 ? type->framebuffer_mib : vgpu_profile_size_mib(type->name);
}

static void
add_known(Seen *seen, const char *id, const char *name, guint64 framebuffer_mib, guint max_instances)
{
    VgpuType *type = vgpu_type_new(id, name);

    type->framebuffer_mib = framebuffer_mib;
    type->max_instances = max_instances;
    g_ptr_array_add(seen->known, type);
}

static void
put_together(Seen *seen)
{
    g_ptr_array_set_size(seen->known, 0);
    for (guint i = 0; i < seen->types->len; i++) {
        const VgpuType *type = g_ptr_array_index(seen->types, i);
        const VgpuNvmlType *nvml = find_nvml_type(seen, type->id);

        add_known(seen, type->id, type->name,
                  nvml && nvml->framebuffer_mib > 0 ? nvml->framebuffer_mib : type->framebuffer_mib,
                  nvml && nvml->max_instances > 0 ? nvml->max_instances : type->max_instances);
    }
    for (guint i = 0; !seen->whole && seen->framework && seen->nvml && i < seen->nvml->types->len; i++) {
        const VgpuNvmlType *nvml = g_ptr_array_index(seen->nvml->types, i);
        g_autofree char *id = vgpu_framework_type_id(seen->framework, nvml->id);

        if (nvml->name && !vgpu_type_find(seen->types, id))
            add_known(seen, id, nvml->name, nvml_type_size(nvml), nvml->max_instances);
    }
}

/* ---- What the scan could not tell ---- */

static void
complete_device(const Seen *seen, VgpuDevice *device, VgpuAssignments *assignments)
{
    const VgpuType *type = vgpu_type_find(seen->known, device->type_id);
    const VgpuNvmlType *nvml = find_nvml_type(seen, device->type_id);
    const VgpuAssignment *ours =
        assignments ? vgpu_assignments_find_device(assignments, device->slot, device->uuid) : NULL;

    if (type && !device->name)
        device->name = g_strdup(type->name);
    if (type && type->framebuffer_mib > 0)
        device->framebuffer_mib = type->framebuffer_mib;
    if (ours && !device->name && device->inode != 0 && ours->device->inode == device->inode &&
        g_strcmp0(ours->device->type_id, device->type_id) == 0) {
        device->name = g_strdup(ours->device->name);
        device->framebuffer_mib = ours->device->framebuffer_mib;
    }
    if (nvml && !device->name)
        device->name = g_strdup(nvml->name);
    if (nvml && nvml_type_size(nvml) > 0 && (nvml->framebuffer_mib > 0 || device->framebuffer_mib == 0))
        device->framebuffer_mib = nvml_type_size(nvml);
}

static void
complete_slot(const Seen *seen, VgpuSlot *slot, VgpuAssignments *assignments)
{
    for (guint i = 0; i < slot->types->len; i++) {
        VgpuType *type = g_ptr_array_index(slot->types, i);
        const VgpuType *known = vgpu_type_find(seen->known, type->id);

        type->framebuffer_mib = known->framebuffer_mib;
        type->max_instances = known->max_instances;
    }
    for (guint i = 0; i < slot->devices->len; i++)
        complete_device(seen, g_ptr_array_index(slot->devices, i), assignments);
}

static gboolean
is_gone(gpointer address, gpointer seen, gpointer inventory)
{
    return !vgpu_inventory_find_card(inventory, address);
}

void
vgpu_memory_learn(VgpuMemory *memory, VgpuInventory *inventory, VgpuAssignments *assignments)
{
    memory->version += g_hash_table_foreach_remove(memory->cards, is_gone, inventory);
    for (guint i = 0; i < inventory->cards->len; i++) {
        VgpuCard *card = g_ptr_array_index(inventory->cards, i);
        Seen *seen = seen_on(memory, card);

        seen->framework = card->framework;
        if (learn_card(seen, card))
            memory->version++;
        put_together(seen);
        for (guint j = 0; j < card->slots->len; j++)
            complete_slot(seen, g_ptr_array_index(card->slots, j), assignments);
    }
}

/* ---- Asked ---- */

const GPtrArray *
vgpu_memory_types(VgpuMemory *memory, const char *address)
{
    const Seen *seen = g_hash_table_lookup(memory->cards, address);

    return seen && seen->known->len > 0 ? seen->known : NULL;
}

gboolean
vgpu_memory_is_whole(VgpuMemory *memory, const char *address)
{
    const Seen *seen = g_hash_table_lookup(memory->cards, address);

    return seen && (seen->whole || (seen->nvml && seen->nvml->types->len > 0));
}

static guint64
nvml_framebuffer(const VgpuNvmlCard *card)
{
    guint64 largest = 0;

    for (guint i = 0; card && i < card->types->len; i++) {
        const VgpuNvmlType *type = g_ptr_array_index(card->types, i);
        if (type->name && !vgpu_profile_is_of_an_instance(type->name))
            largest = MAX(largest, nvml_type_size(type));
    }
    return largest;
}

guint64
vgpu_memory_framebuffer(VgpuMemory *memory, const char *address)
{
    const Seen *seen = g_hash_table_lookup(memory->cards, address);
    guint64 told = seen ? nvml_framebuffer(seen->nvml) : 0;
    const VgpuType *largest = seen && told == 0 ? vgpu_type_find(seen->known, seen->largest) : NULL;

    return largest ? largest->framebuffer_mib : told;
}

const char *
vgpu_memory_card_name(VgpuMemory *memory, const char *address)
{
    const Seen *seen = g_hash_table_lookup(memory->cards, address);

    return seen && seen->nvml ? seen->nvml->name : NULL;
}

char **
vgpu_memory_take_unasked(VgpuMemory *memory, const VgpuInventory *inventory)
{
    g_autoptr(GStrvBuilder) addresses = g_strv_builder_new();

    for (guint i = 0; i < inventory->cards->len; i++) {
        const VgpuCard *card = g_ptr_array_index(inventory->cards, i);
        Seen *seen = g_hash_table_lookup(memory->cards, card->address);

        if (!seen || !card->nvidia || seen->asked || seen->nvml)
            continue;
        seen->asked = TRUE;
        g_strv_builder_add(addresses, card->address);
    }
    return g_strv_builder_end(addresses);
}

gboolean
vgpu_memory_take_answer(VgpuMemory *memory, GPtrArray *cards)
{
    gboolean told = FALSE;

    while (cards->len > 0) {
        VgpuNvmlCard *card = g_ptr_array_steal_index(cards, cards->len - 1);
        Seen *seen = g_hash_table_lookup(memory->cards, card->address);

        if (!seen || !seen->asked || seen->nvml) { /* other devices than were asked about */
            vgpu_nvml_card_free(card);
            continue;
        }
        seen->nvml = card;
        put_together(seen);
        memory->version++;
        told = TRUE;
    }
    return told;
}
