/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "broker-internal.h"

#include "access.h"
#include "error.h"
#include "journal.h"

#include <string.h>
#include <systemd/sd-id128.h>

#define SHARED_SCAN_US (200 * 1000)
#define SAVE_AGAIN_SECONDS 1

void
vgpu_broker_want_names(VgpuBroker *broker)
{
    if (broker->inventory)
        vgpu_names_want(broker->names, broker->inventory);
}

/* NVML has answered: what the properties say may be more now. */
static void
on_told(gboolean again, gpointer user_data)
{
    VgpuBroker *broker = user_data;

    broker_changed(broker);
    if (again)
        vgpu_broker_want_names(broker);
}

VgpuBroker *
vgpu_broker_new(const VgpuConfig *config, VgpuStore *store, VgpuOwners *owners, VgpuWorker *worker,
                sd_event *event, const char *bus_id, const VgpuBrokerHooks *hooks, gpointer user_data)
{
    VgpuBroker *broker = g_new0(VgpuBroker, 1);

    broker->config = config;
    broker->store = store;
    broker->owners = owners;
    broker->worker = worker;
    broker->event = sd_event_ref(event);
    broker->bus_id = g_strdup(bus_id);
    broker->hooks = hooks;
    broker->user_data = user_data;
    broker->assignments = vgpu_assignments_new();
    broker->names = vgpu_names_new(vgpu_store_directory(store), vgpu_store_boot_id(store), on_told, broker);
    broker->seen = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
    broker->settling = g_ptr_array_new();
    broker->guards = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, broker_guard_free);
    return broker;
}

void
vgpu_broker_free(VgpuBroker *broker)
{
    g_clear_handle_id(&broker->save_again, g_source_remove);
    g_clear_handle_id(&broker->lost, g_source_remove);
    g_hash_table_unref(broker->guards);
    g_hash_table_unref(broker->seen);
    g_ptr_array_unref(broker->settling);
    g_clear_pointer(&broker->questions, g_ptr_array_unref);
    g_clear_pointer(&broker->inventory, vgpu_inventory_free);
    vgpu_names_free(broker->names);
    vgpu_assignments_free(broker->assignments);
    g_free(broker->bus_id);
    sd_event_unref(broker->event);
    g_free(broker);
}

/* The vGPUs whose attributes nobody may read now. */
static GPtrArray *
busy_devices(VgpuBroker *broker)
{
    GPtrArray *busy = g_ptr_array_new_with_free_func(g_free);
    g_autoptr(GPtrArray) list = vgpu_assignments_list(broker->assignments);

    for (guint i = 0; i < list->len; i++) {
        const VgpuAssignment *assignment = g_ptr_array_index(list, i);
        VgpuBusyDevice *device;

        if (!assignment->writing)
            continue;
        device = g_new0(VgpuBusyDevice, 1);
        device->device = assignment->device;
        device->creating = assignment->state == VGPU_STATE_ASSIGNING;
        g_ptr_array_add(busy, device);
    }
    return busy;
}

/* Whether the scan shows another device, or none, where @assignment has its own. */
static gboolean
was_lost(const VgpuBroker *broker, const VgpuAssignment *assignment)
{
    const VgpuInventory *inventory = broker->inventory;
    const VgpuSlot *slot = vgpu_inventory_find_slot(inventory, assignment->device->slot, NULL);
    const VgpuDevice *now;

    /* One that cannot be read now, or is on a card that is no longer looked at, proves nothing; nor does a
     * missing node. */
    if ((slot && (slot->error || slot->stale)) || !vgpu_config_manages(broker->config, assignment->card))
        return FALSE;
    now = vgpu_inventory_find_device(inventory, assignment->device->slot, assignment->device->uuid);
    return !now || g_strcmp0(now->type_id, assignment->device->type_id) != 0 ||
           (assignment->device->inode != 0 && now->inode != assignment->device->inode) ||
           (assignment->device->node_inode != 0 && now->node_inode != 0 &&
            now->node_inode != assignment->device->node_inode);
}

static gboolean
is_lost(const VgpuBroker *broker, const VgpuAssignment *assignment)
{
    return !assignment->busy && assignment->state != VGPU_STATE_ASSIGNING && was_lost(broker, assignment);
}

static gboolean
on_lost(gpointer user_data)
{
    VgpuBroker *broker = user_data;

    broker->lost = 0;
    vgpu_broker_rescan(broker);
    return G_SOURCE_REMOVE;
}

/* What others did to our devices is noticed by any scan, and ended when whoever scanned has what it came for.
 */
static void
notice_lost(VgpuBroker *broker)
{
    g_autoptr(GPtrArray) list = vgpu_assignments_list(broker->assignments);

    for (guint i = 0; i < list->len && broker->lost == 0 && !broker->stopped; i++) {
        if (is_lost(broker, g_ptr_array_index(list, i)))
            broker->lost = g_idle_add(on_lost, broker);
    }
}

static gboolean
scan(VgpuBroker *broker, GError **error)
{
    g_autoptr(GPtrArray) busy = busy_devices(broker);
    g_autoptr(VgpuInventory) inventory =
        vgpu_inventory_scan(broker->config->cards, busy, broker->inventory, error);

    if (!inventory)
        return FALSE;
    vgpu_names_learn(broker->names, inventory, broker->assignments);
    g_clear_pointer(&broker->inventory, vgpu_inventory_free);
    broker->inventory = g_steal_pointer(&inventory);
    broker->scanned = g_get_monotonic_time();
    broker->hooks->changed(broker->user_data);
    notice_lost(broker);
    return TRUE;
}

gboolean
vgpu_broker_last_look(VgpuBroker *broker, VgpuHost *ret_host)
{
    *ret_host = (VgpuHost){broker->inventory, vgpu_names_memory(broker->names), broker->assignments};
    return broker->inventory != NULL;
}

gboolean
vgpu_broker_look(VgpuBroker *broker, gboolean fresh, VgpuHost *ret_host, GError **error)
{
    gint64 age = g_get_monotonic_time() - broker->scanned;
    gboolean will_do = broker->inventory && broker->scanned > 0 && age <= SHARED_SCAN_US;

    if ((fresh || !will_do) && !scan(broker, error))
        return FALSE;
    return vgpu_broker_last_look(broker, ret_host);
}

void
broker_changed(VgpuBroker *broker)
{
    broker->scanned = 0;
    broker->hooks->changed(broker->user_data);
}

gboolean
broker_record(VgpuBroker *broker, GError **error)
{
    g_autoptr(GError) failed = NULL;

    if (vgpu_store_save(broker->store, broker->bus_id, broker->assignments, &failed))
        return TRUE;
    g_set_error(error, VGPU_ERROR, VGPU_ERROR_DEVICE_FAILED,
                "the service cannot write its records, without which it does nothing: %s", failed->message);
    return FALSE;
}

static gboolean
on_save_again(gpointer user_data)
{
    VgpuBroker *broker = user_data;

    broker->save_again = 0;
    broker_save(broker);
    return G_SOURCE_REMOVE;
}

gboolean
broker_save(VgpuBroker *broker)
{
    g_autoptr(GError) error = NULL;

    if (broker_record(broker, &error)) {
        g_clear_handle_id(&broker->save_again, g_source_remove);
        return TRUE;
    }
    if (broker->save_again == 0) {
        g_warning("trying again: %s", error->message);
        broker->save_again = g_timeout_add_seconds(SAVE_AGAIN_SECONDS, on_save_again, broker);
    }
    return FALSE;
}

gboolean
broker_grant(VgpuAssignment *assignment, GError **error)
{
    if (assignment->uid == 0)
        return vgpu_access_close(assignment->device, error);
    if (!assignment->device->group_node) {
        g_set_error(error, VGPU_ERROR, VGPU_ERROR_ACCESS_DENIED,
                    "this kernel has no VFIO group for %s, so only root can be given it",
                    vgpu_assignment_device_name(assignment));
        return FALSE;
    }
    assignment->access = TRUE;
    return vgpu_access_grant(assignment->device, assignment->uid, error);
}

gboolean
broker_withdraw(VgpuAssignment *assignment, GError **error)
{
    if (!assignment->access)
        return TRUE;
    if (!vgpu_access_withdraw(assignment->device, assignment->uid, error))
        return FALSE;
    assignment->access = FALSE;
    return TRUE;
}

void
broker_withdraw_and_log(VgpuAssignment *assignment)
{
    g_autoptr(GError) error = NULL;

    if (!broker_withdraw(assignment, &error))
        g_warning("%s", error->message);
}

gboolean
broker_add(VgpuBroker *broker, VgpuAssignment *assignment, GError **error)
{
    vgpu_assignments_add(broker->assignments, assignment);
    if (!broker_record(broker, error)) {
        vgpu_assignments_remove(broker->assignments, assignment);
        return FALSE;
    }
    vgpu_owners_hold(broker->owners, assignment->owner);
    return TRUE;
}

void
broker_forget(VgpuBroker *broker, VgpuAssignment *assignment)
{
    vgpu_owners_drop(broker->owners, assignment->owner);
    g_hash_table_remove(broker->guards, assignment->id);
    vgpu_store_unmark(broker->store, assignment->id); /* of an earlier run, whose clear had succeeded */
    vgpu_assignments_remove(broker->assignments, assignment);
    broker_save(broker);
    broker_changed(broker);
}

void
broker_end(VgpuBroker *broker, VgpuAssignment *assignment, VgpuEnding ending)
{
    g_autofree char *id = vgpu_assignment_is_visible(assignment) ? g_strdup(assignment->id) : NULL;

    broker_withdraw_and_log(assignment); /* a clear has done it already */
    vgpu_journal_change(VGPU_MESSAGE_ENDED, assignment, vgpu_ending_name(ending), NULL);
    broker_forget(broker, assignment);
    if (id)
        broker->hooks->removed(id, ending, broker->user_data);
}

char *
broker_new_id(void)
{
    char text[SD_ID128_STRING_MAX];
    sd_id128_t id;

    /* Random, so that a stale or guessed id never means the next owner's device. */
    if (sd_id128_randomize(&id) < 0)
        g_error("the kernel gives no random numbers");
    return g_strdup(sd_id128_to_string(id, text));
}

const VgpuAssignment *
vgpu_broker_find(VgpuBroker *broker, const char *id, GError **error)
{
    VgpuAssignment *assignment = vgpu_assignments_get(broker->assignments, id);

    if (!assignment || !vgpu_assignment_is_visible(assignment)) {
        g_autofree char *printable = vgpu_text_printable(id);
        g_set_error(error, VGPU_ERROR, VGPU_ERROR_UNKNOWN_ASSIGNMENT,
                    "there is no assignment '%.64s': see Assignments for those there are", printable);
        return NULL;
    }
    return assignment;
}

gboolean
vgpu_broker_is_at_limit(VgpuBroker *broker, guint32 uid, GError **error)
{
    guint most = broker->config->max_assignments_per_user;

    if (uid == 0 || vgpu_assignments_count_uid(broker->assignments, uid) < most)
        return FALSE;
    g_set_error(error, VGPU_ERROR, VGPU_ERROR_LIMITS_EXCEEDED,
                "user %u has %u assignments already, which is the limit: release one first", uid, most);
    return TRUE;
}

void
vgpu_broker_release(VgpuBroker *broker, const char *id, VgpuBrokerDone done, gpointer user_data)
{
    g_autoptr(GError) error = NULL;
    VgpuAssignment *assignment = (VgpuAssignment *)vgpu_broker_find(broker, id, &error);

    if (!assignment || vgpu_assignment_event(assignment, VGPU_EVENT_RELEASE, &error) == VGPU_DUTY_REFUSE)
        done(NULL, error, user_data);
    else
        broker_clear(broker, assignment, VGPU_ENDING_RELEASED, done, user_data);
}

/* What the table allows is done on disk first, so that no crash leaves it to the former owner; and nobody has
 * access meanwhile. FALSE leaves everything as it was, as far as that can be. */
static gboolean
give_on(VgpuBroker *broker, VgpuAssignment *assignment, const VgpuCaller *caller, GError **error)
{
    const VgpuAssignment before = *assignment;
    gboolean moves = before.uid != caller->uid;

    if (vgpu_assignment_event(assignment, VGPU_EVENT_ADOPTED, error) == VGPU_DUTY_REFUSE)
        return FALSE;
    assignment->owner = g_strdup(caller->name);
    if (!moves || broker_withdraw(assignment, error)) {
        assignment->uid = caller->uid;
        assignment->pid = caller->pid;
        assignment->access = assignment->uid != 0;
        if (broker_record(broker, error) && broker_grant(assignment, error)) {
            g_free(before.owner);
            return TRUE;
        }
    }
    g_free(assignment->owner);
    assignment->owner = before.owner;
    assignment->owner_gone = before.owner_gone;
    assignment->state = before.state;
    assignment->uid = before.uid;
    assignment->pid = before.pid;
    assignment->access = before.access;
    if (vgpu_assignment_has_owner(assignment) && !broker_grant(assignment, NULL))
        g_warning("user %u has lost its access to %s", before.uid, assignment->device->group_node);
    broker_save(broker);
    return FALSE;
}

const VgpuAssignment *
vgpu_broker_adopt(VgpuBroker *broker, const char *id, const VgpuCaller *caller, GError **error)
{
    VgpuAssignment *assignment;
    g_autofree char *former = NULL;

    vgpu_broker_rescan(broker); /* so that nobody is given what was lost */
    assignment = (VgpuAssignment *)vgpu_broker_find(broker, id, error);
    if (!assignment)
        return NULL;
    if (assignment->uid != caller->uid && vgpu_broker_is_at_limit(broker, caller->uid, error))
        return NULL;
    if (assignment->busy) {
        vgpu_assignment_set_busy(assignment, error);
        return NULL;
    }
    former = g_strdup(assignment->owner);
    if (!give_on(broker, assignment, caller, error))
        return NULL;
    vgpu_owners_hold(broker->owners, caller->name);
    vgpu_owners_drop(broker->owners, former);
    g_clear_handle_id(&broker_guard(broker, assignment)->timer, g_source_remove);
    broker_guard(broker, assignment)->said_lingering = FALSE;
    vgpu_journal_change(VGPU_MESSAGE_ADOPTED, assignment, NULL, NULL);
    broker_changed(broker);
    return assignment;
}

void
vgpu_broker_owner_vanished(VgpuBroker *broker, const char *name)
{
    g_autoptr(GPtrArray) list = vgpu_assignments_list(broker->assignments);

    for (guint i = 0; i < list->len; i++) {
        VgpuAssignment *assignment = g_ptr_array_index(list, i);
        VgpuDuty duty;

        if (assignment->owner_gone || strcmp(assignment->owner, name) != 0)
            continue;
        duty = vgpu_assignment_event(assignment, VGPU_EVENT_OWNER_VANISHED, NULL);
        if (!assignment->writing)
            broker_withdraw_and_log(assignment);
        if (duty == VGPU_DUTY_CLEAR && !assignment->busy)
            broker_clear(broker, assignment, VGPU_ENDING_OWNER_VANISHED, NULL, NULL);
    }
    broker_changed(broker);
}

/* udev may have put a mode over an entry. What is lost is somebody else's, and so is its node. */
static void
restore_access(VgpuBroker *broker)
{
    g_autoptr(GPtrArray) list = vgpu_assignments_list(broker->assignments);

    for (guint i = 0; i < list->len; i++) {
        VgpuAssignment *assignment = g_ptr_array_index(list, i);
        g_autoptr(GError) error = NULL;

        if (!vgpu_assignment_has_owner(assignment) || !assignment->access || assignment->writing ||
            was_lost(broker, assignment))
            continue;
        if (!vgpu_access_stands(assignment->device, assignment->uid) && !broker_grant(assignment, &error))
            g_warning("%s", error->message);
    }
}

void
vgpu_broker_rescan(VgpuBroker *broker)
{
    g_autoptr(GPtrArray) list = vgpu_assignments_list(broker->assignments);
    g_autoptr(GError) error = NULL;

    if (!scan(broker, &error)) {
        g_warning("the host cannot be read: %s", error->message);
        return;
    }
    for (guint i = 0; i < list->len; i++) {
        VgpuAssignment *assignment = g_ptr_array_index(list, i);

        if (!is_lost(broker, assignment))
            continue;
        if (vgpu_assignment_event(assignment, VGPU_EVENT_LOST, NULL) == VGPU_DUTY_LOSE)
            broker_end(broker, assignment, VGPU_ENDING_LOST);
    }
    restore_access(broker);
    g_clear_handle_id(&broker->lost, g_source_remove); /* what this scan noticed has ended */
}

void
vgpu_broker_stop(VgpuBroker *broker)
{
    broker->stopped = TRUE;
    vgpu_names_stop(broker->names);
    vgpu_worker_stop(broker->worker);
}
