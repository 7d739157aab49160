/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Clearing what nobody here handed out, because somebody who may asked for it. */
#include "broker-internal.h"

#include "error.h"
#include "pci-address.h"

#include <string.h>

/* A record for a vGPU that is somebody else's. It is not put on disk before the device was proved unused. */
static VgpuAssignment *
foreign_record(const VgpuCard *card, const VgpuSlot *slot, const VgpuDevice *device, const VgpuCaller *caller)
{
    VgpuAssignment *assignment = vgpu_assignment_new();

    assignment->id = broker_new_id();
    assignment->state = VGPU_STATE_ASSIGNING;
    assignment->foreign = TRUE;
    assignment->framework = slot->framework;
    assignment->card = g_strdup(card->address);
    assignment->device = vgpu_device_copy(device);
    assignment->owner = g_strdup(caller->name);
    assignment->owner_gone = TRUE; /* it never had one here */
    assignment->uid = caller->uid;
    assignment->pid = caller->pid;
    assignment->since = g_get_real_time();
    return assignment;
}

static void
reclaim_foreign(VgpuBroker *broker, const char *slot_address, const char *uuid, const VgpuCaller *caller,
                VgpuBrokerDone done, gpointer user_data)
{
    g_autoptr(GError) error = NULL;
    const VgpuDevice *device;
    const VgpuSlot *slot;
    const VgpuCard *card;
    VgpuAssignment *assignment;
    VgpuHost host;

    if (!vgpu_broker_look(broker, TRUE, &host, &error)) {
        done(NULL, error, user_data);
        return;
    }
    device = vgpu_inventory_find_device(host.inventory, slot_address, uuid);
    slot = device ? vgpu_inventory_find_slot(host.inventory, device->slot, &card) : NULL;
    if (!slot || !device->type_id) {
        g_set_error(&error, VGPU_ERROR, VGPU_ERROR_INVALID_ARGS, "%s holds no vGPU that could be reclaimed",
                    uuid ? uuid : slot_address);
        done(NULL, error, user_data);
        return;
    }
    assignment = foreign_record(card, slot, device, caller);
    if (!broker_add(broker, assignment, &error)) {
        done(NULL, error, user_data);
        return;
    }
    broker_clear(broker, assignment, VGPU_ENDING_RECLAIMED, done, user_data);
}

void
vgpu_broker_reclaim(VgpuBroker *broker, const char *device, const VgpuCaller *caller, VgpuBrokerDone done,
                    gpointer user_data)
{
    g_autofree char *address = vgpu_pci_address_normalize(device);
    g_autofree char *uuid = g_uuid_string_is_valid(device) ? g_ascii_strdown(device, -1) : NULL;
    g_autoptr(GError) error = NULL;
    VgpuAssignment *assignment;

    if (!address && !uuid) {
        g_autofree char *printable = vgpu_text_printable(device);
        g_set_error(&error, VGPU_ERROR, VGPU_ERROR_INVALID_ARGS,
                    "%.64s is neither the PCI address of a virtual function nor the UUID of an mdev",
                    printable);
        done(NULL, error, user_data);
        return;
    }
    assignment = vgpu_assignments_find_device(broker->assignments, address, uuid);
    if (!assignment)
        reclaim_foreign(broker, address, uuid, caller, done, user_data);
    else if (vgpu_assignment_event(assignment, VGPU_EVENT_RECLAIM, &error) == VGPU_DUTY_REFUSE)
        done(NULL, error, user_data);
    else
        broker_clear(broker, assignment, VGPU_ENDING_RECLAIMED, done, user_data);
}
