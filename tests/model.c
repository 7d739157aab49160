/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "model.h"

#include "catalogue.h"
#include "profile.h"

#include <string.h>

static void
free_card(gpointer data)
{
    VgpuCard *card = data;

    g_free(card->address);
    g_free(card->reason);
    g_ptr_array_unref(card->slots);
    g_free(card);
}

Model *
model_new(void)
{
    Model *model = g_new0(Model, 1);

    model->inventory = g_new0(VgpuInventory, 1);
    model->inventory->cards = g_ptr_array_new_with_free_func(free_card);
    model->memory = vgpu_memory_new();
    model->assignments = vgpu_assignments_new();
    model->host = (VgpuHost){model->inventory, model->memory, model->assignments};
    return model;
}

void
model_free(Model *model)
{
    vgpu_inventory_free(model->inventory);
    vgpu_memory_free(model->memory);
    vgpu_assignments_free(model->assignments);
    g_free(model);
}

void
model_look(Model *model)
{
    vgpu_memory_learn(model->memory, model->inventory, model->assignments);
}

VgpuCard *
model_add_card(Model *model, const char *address, const VgpuFramework *framework)
{
    VgpuCard *card = g_new0(VgpuCard, 1);

    card->address = g_strdup(address);
    card->framework = framework;
    card->nvidia = TRUE;
    card->slots = g_ptr_array_new_with_free_func((GDestroyNotify)vgpu_slot_free);
    g_ptr_array_add(model->inventory->cards, card);
    return card;
}

VgpuSlot *
model_add_slot(Model *model, VgpuCard *card, const char *address, const char *types)
{
    VgpuSlot *slot = vgpu_slot_new(card->framework, address);

    slot->iommu_group = (int)card->slots->len;
    slot->inode = ++model->inode;
    slot->attributes_inode = ++model->inode;
    g_ptr_array_add(card->slots, slot);
    model_set_types(slot, types);
    return slot;
}

void
model_set_types(VgpuSlot *slot, const char *types)
{
    g_auto(GStrv) words = g_strsplit(types, " ", -1);

    g_ptr_array_set_size(slot->types, 0);
    for (char **word = words; *word && **word; word++) {
        g_auto(GStrv) parts = g_strsplit(*word, "=", 3);
        VgpuType *type = vgpu_type_new(parts[0], g_strdelimit(parts[1], "_", ' '));

        type->framebuffer_mib = g_ascii_strtoull(parts[2], NULL, 10);
        type->available = 1;
        g_ptr_array_add(slot->types, type);
    }
}

void
model_set_catalogue(VgpuSlot *slot, const char *text)
{
    g_autoptr(GPtrArray) rows = vgpu_catalogue_parse(text, strlen(text), NULL);

    g_ptr_array_set_size(slot->types, 0);
    for (guint i = 0; i < rows->len; i++) {
        const VgpuCatalogueRow *row = g_ptr_array_index(rows, i);
        g_autofree char *id = g_strdup_printf("%u", row->id);
        VgpuType *type = vgpu_type_new(id, row->name);

        type->framebuffer_mib = vgpu_profile_size_mib(row->name);
        type->available = 1;
        g_ptr_array_add(slot->types, type);
    }
}

char *
model_data(const char *name)
{
    g_autofree char *path = g_test_build_filename(G_TEST_DIST, "data", name, NULL);
    g_autoptr(GError) error = NULL;
    char *text = NULL;

    g_file_get_contents(path, &text, NULL, &error);
    g_assert_no_error(error);
    return text;
}

void
model_list_on_free(VgpuCard *card, const char *list)
{
    g_autofree char *text = model_data(list);
    const char *catalogue = strchr(text, '\n') + 1; /* without our own line above */

    for (guint i = 0; i < card->slots->len; i++) {
        VgpuSlot *slot = model_slot(card, i);
        if (slot->devices->len == 0)
            model_set_catalogue(slot, catalogue);
    }
}

VgpuCard *
model_add_listed_card(Model *model, const char *address, guint vfs, const char *list)
{
    VgpuCard *card = model_add_card(model, address, &vgpu_vendor_vfio);

    for (guint i = 0; i < vfs; i++) {
        g_autofree char *vf =
            g_strdup_printf("%.7s:%02x.%x", address, (i + 4) / 8, (i + 4) % 8); /* 0000:3b + device */
        model_add_slot(model, card, vf, "");
    }
    model_list_on_free(card, list);
    return card;
}

VgpuDevice *
model_occupy(VgpuSlot *slot, const char *type_id, guint64 mib)
{
    VgpuDevice *device = vgpu_device_new(slot->address, NULL);

    device->type_id = g_strdup(type_id);
    device->framebuffer_mib = mib;
    g_ptr_array_add(slot->devices, device);
    g_ptr_array_set_size(slot->types, 0);
    return device;
}

VgpuSlot *
model_slot(VgpuCard *card, guint index)
{
    return g_ptr_array_index(card->slots, index);
}

VgpuSlot *
model_slot_at(Model *model, const char *address)
{
    VgpuSlot *slot = (VgpuSlot *)vgpu_inventory_find_slot(model->inventory, address, NULL);

    g_assert_nonnull(slot);
    return slot;
}

VgpuAssignment *
model_add_record(Model *model, const char *address, VgpuState state)
{
    VgpuAssignment *assignment = vgpu_assignment_new();

    assignment->id = g_strdup(address);
    assignment->state = state;
    assignment->framework = &vgpu_vendor_vfio;
    assignment->device = vgpu_device_new(address, NULL);
    vgpu_assignments_add(model->assignments, assignment);
    return assignment;
}
