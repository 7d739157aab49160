/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "placement.h"

#include <glib.h>

/* A host made of values: cards, slots and what they list, without /sys. What tests change in it is seen by
 * the next model_look(). */
typedef struct {
    VgpuInventory *inventory;
    VgpuMemory *memory;
    VgpuAssignments *assignments;
    VgpuHost host; /* the three of them */
    guint64 inode; /* of the last slot that was added */
} Model;

Model *model_new(void);
void model_free(Model *model);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Model, model_free)

/* As after a scan: the memory learns, and completes what is there. */
void model_look(Model *model);

VgpuCard *model_add_card(Model *model, const char *address, const VgpuFramework *framework);

/* A slot that lists @types: "id=name=MiB" separated by spaces (`_` for a space in a name). */
VgpuSlot *model_add_slot(Model *model, VgpuCard *card, const char *address, const char *types);

/* A card of vendor VFIO with @vfs virtual functions that list what the file @list of the data says. */
VgpuCard *model_add_listed_card(Model *model, const char *address, guint vfs, const char *list);

/* What @slot lists from now on: as above; the text of creatable_vgpu_types. */
void model_set_types(VgpuSlot *slot, const char *types);
void model_set_catalogue(VgpuSlot *slot, const char *text);

/* The same for the first @n slots of @card without a vGPU, from a file of the data. */
void model_list_on_free(VgpuCard *card, const char *list);

/* The whole text of a file of the data. The caller frees it. */
char *model_data(const char *name);

/* Puts a vGPU on @slot, which then lists nothing. @type_id and @mib may be unknown: NULL and 0. */
VgpuDevice *model_occupy(VgpuSlot *slot, const char *type_id, guint64 mib);

/* The @index-th slot of @card; the slot at @address. */
VgpuSlot *model_slot(VgpuCard *card, guint index);
VgpuSlot *model_slot_at(Model *model, const char *address);

/* A record of a vGPU on the slot @address in @state. */
VgpuAssignment *model_add_record(Model *model, const char *address, VgpuState state);
