/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "memory.h"

#include <string.h>

typedef struct {
    GArray *slots;    /* of guint64: the inodes of the slots it was seen with */
    GPtrArray *types; /* of VgpuType */
} Seen;

struct _VgpuMemory {
    GHashTable *cards; /* address -> Seen */
};

static void
seen_free(gpointer data)
{
    Seen *seen = data;

    g_array_unref(seen->slots);
    g_ptr_array_unref(seen->types);
    g_free(seen);
}

VgpuMemory *
vgpu_memory_new(void)
{
    VgpuMemory *memory = g_new0(VgpuMemory, 1);

    memory->cards = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, seen_free);
    return memory;
}

void
vgpu_memory_free(VgpuMemory *memory)
{
    g_hash_table_unref(memory->cards);
    g_free(memory);
}

static gboolean
same_slots(const GArray *slots, const VgpuCard *card)
{
    if (slots->len != card->slots->len)
        return FALSE;
    for (guint i = 0; i < slots->len; i++) {
        const VgpuSlot *slot = g_ptr_array_index(card->slots, i);
        if (g_array_index(slots, guint64, i) != slot->inode)
            return FALSE;
    }
    return TRUE;
}

static Seen *
seen_on(VgpuMemory *memory, const VgpuCard *card)
{
    Seen *seen = g_hash_table_lookup(memory->cards, card->address);

    if (seen && same_slots(seen->slots, card))
        return seen;
    seen = g_new0(Seen, 1);
    seen->slots = g_array_new(FALSE, FALSE, sizeof(guint64));
    seen->types = g_ptr_array_new_with_free_func((GDestroyNotify)vgpu_type_free);
    for (guint i = 0; i < card->slots->len; i++) {
        const VgpuSlot *slot = g_ptr_array_index(card->slots, i);
        g_array_append_val(seen->slots, slot->inode);
    }
    g_hash_table_insert(memory->cards, g_strdup(card->address), seen);
    return seen;
}

static VgpuType *
find_type(const GPtrArray *types, const char *id)
{
    for (guint i = 0; id && i < types->len; i++) {
        VgpuType *type = g_ptr_array_index(types, i);
        if (strcmp(type->id, id) == 0)
            return type;
    }
    return NULL;
}

static void
learn_slot(Seen *seen, const VgpuSlot *slot)
{
    for (guint i = 0; i < slot->types->len; i++) {
        const VgpuType *type = g_ptr_array_index(slot->types, i);
        VgpuType *known = find_type(seen->types, type->id);

        if (!known) {
            known = vgpu_type_new(type->id, type->name);
            g_ptr_array_add(seen->types, known);
        } else if (strcmp(known->name, type->name) != 0) {
            g_free(known->name); /* the card's own word of today */
            known->name = g_strdup(type->name);
        }
        known->framebuffer_mib = type->framebuffer_mib;
        known->max_instances = type->max_instances;
    }
}

static void
complete_slot(const Seen *seen, VgpuSlot *slot)
{
    for (guint i = 0; i < slot->devices->len; i++) {
        VgpuDevice *device = g_ptr_array_index(slot->devices, i);
        const VgpuType *type = find_type(seen->types, device->type_id);

        if (!type || device->name)
            continue;
        device->name = g_strdup(type->name);
        device->framebuffer_mib = type->framebuffer_mib;
    }
}

static gboolean
is_gone(gpointer address, gpointer seen, gpointer inventory)
{
    return !vgpu_inventory_find_card(inventory, address);
}

void
vgpu_memory_learn(VgpuMemory *memory, VgpuInventory *inventory)
{
    g_hash_table_foreach_remove(memory->cards, is_gone, inventory);
    for (guint i = 0; i < inventory->cards->len; i++) {
        VgpuCard *card = g_ptr_array_index(inventory->cards, i);
        Seen *seen = seen_on(memory, card);

        for (guint j = 0; j < card->slots->len; j++)
            learn_slot(seen, g_ptr_array_index(card->slots, j));
        for (guint j = 0; j < card->slots->len; j++)
            complete_slot(seen, g_ptr_array_index(card->slots, j));
    }
}

const GPtrArray *
vgpu_memory_types(VgpuMemory *memory, const char *address)
{
    const Seen *seen = g_hash_table_lookup(memory->cards, address);

    return seen && seen->types->len > 0 ? seen->types : NULL;
}
