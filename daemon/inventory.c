/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "inventory.h"

#include "error.h"
#include "number.h"
#include "pci-address.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PCI_DEVICES "/sys/bus/pci/devices"
#define MDEV_PARENTS "/sys/class/mdev_bus"
#define VENDOR_NVIDIA "0x10de"

typedef struct {
    VgpuInventory *inventory;
    GHashTable *cards; /* address -> VgpuCard, borrowed */
    const GPtrArray *allowed;
    const GPtrArray *busy;
    const VgpuInventory *previous;
} Scan;

static void
card_free(VgpuCard *card)
{
    g_free(card->address);
    g_free(card->name);
    g_free(card->modalias);
    g_free(card->ids);
    g_ptr_array_unref(card->slots);
    g_free(card->reason);
    g_free(card);
}

void
vgpu_inventory_free(VgpuInventory *inventory)
{
    g_ptr_array_unref(inventory->cards);
    g_free(inventory);
}

static VgpuCard *
ensure_card(Scan *scan, const char *address)
{
    VgpuCard *card = g_hash_table_lookup(scan->cards, address);

    if (!card) {
        card = g_new0(VgpuCard, 1);
        card->address = g_strdup(address);
        card->numa_node = -1;
        card->slots = g_ptr_array_new_with_free_func((GDestroyNotify)vgpu_slot_free);
        g_ptr_array_add(scan->inventory->cards, card);
        g_hash_table_insert(scan->cards, card->address, card);
    }
    return card;
}

static const VgpuBusyDevice *
busy_on(const Scan *scan, const char *slot)
{
    for (guint i = 0; scan->busy && i < scan->busy->len; i++) {
        const VgpuBusyDevice *busy = g_ptr_array_index(scan->busy, i);
        if (strcmp(busy->device->slot, slot) == 0)
            return busy;
    }
    return NULL;
}

/* Whether the slot's own attributes must be left alone: a write to a virtual function, or a create. A remove
 * keeps only the mdev's own attributes from us. */
static gboolean
is_unreadable_now(const Scan *scan, const VgpuSlot *slot)
{
    for (guint i = 0; scan->busy && i < scan->busy->len; i++) {
        const VgpuBusyDevice *busy = g_ptr_array_index(scan->busy, i);
        if (strcmp(busy->device->slot, slot->address) == 0 && (!busy->device->uuid || busy->creating))
            return TRUE;
    }
    return FALSE;
}

static void
copy_previous(const Scan *scan, VgpuSlot *slot)
{
    const VgpuSlot *old =
        scan->previous ? vgpu_inventory_find_slot(scan->previous, slot->address, NULL) : NULL;

    slot->stale = TRUE;
    if (!old)
        return;
    slot->error = g_strdup(old->error);
    slot->inode = old->inode; /* the types are those of that device, and of that driver */
    slot->attributes_inode = old->attributes_inode;
    slot->multiple = old->multiple;
    slot->iommu_group = old->iommu_group;
    slot->noiommu = old->noiommu;
    slot->node_uid = old->node_uid;
    slot->group_others = g_strdupv(old->group_others);
    for (guint i = 0; i < old->types->len; i++) {
        const VgpuType *from = g_ptr_array_index(old->types, i);
        VgpuType *type = vgpu_type_new(from->id, from->name);

        type->framebuffer_mib = from->framebuffer_mib;
        type->max_instances = from->max_instances;
        type->available = from->available;
        g_ptr_array_add(slot->types, type);
    }
    for (guint i = 0; i < old->devices->len; i++)
        g_ptr_array_add(slot->devices, vgpu_device_copy(g_ptr_array_index(old->devices, i)));
}

static VgpuDevice *
find_device(const VgpuSlot *slot, const char *uuid)
{
    for (guint i = 0; i < slot->devices->len; i++) {
        VgpuDevice *device = g_ptr_array_index(slot->devices, i);
        if (g_strcmp0(device->uuid, uuid) == 0)
            return device;
    }
    return NULL;
}

/* Puts the record's word in place of what could not be read. */
static void
apply_busy(const Scan *scan, VgpuSlot *slot)
{
    for (guint i = 0; scan->busy && i < scan->busy->len; i++) {
        const VgpuBusyDevice *busy = g_ptr_array_index(scan->busy, i);
        VgpuDevice *found;

        if (strcmp(busy->device->slot, slot->address) != 0)
            continue;
        found = find_device(slot, busy->device->uuid);
        if (found)
            g_ptr_array_remove(slot->devices, found);
        g_ptr_array_add(slot->devices, vgpu_device_copy(busy->device));
        if (!busy->device->uuid)
            g_ptr_array_set_size(slot->types, 0); /* a virtual function holds one */
    }
}

static GHashTable *
busy_uuids(const Scan *scan)
{
    GHashTable *uuids = g_hash_table_new(g_str_hash, g_str_equal);

    for (guint i = 0; scan->busy && i < scan->busy->len; i++) {
        const VgpuBusyDevice *busy = g_ptr_array_index(scan->busy, i);
        if (busy->device->uuid)
            g_hash_table_add(uuids, busy->device->uuid);
    }
    return uuids;
}

/* Who else is in the slot's IOMMU group, and whether an IOMMU stands behind it. */
static void
read_group(VgpuSlot *slot)
{
    g_autofree char *noiommu = NULL;
    g_autofree char *node = NULL;
    g_autofree char *path = NULL;
    struct stat st;
    g_autoptr(VgpuDir) members = NULL;
    g_auto(GStrv) names = NULL;
    g_autoptr(GStrvBuilder) others = g_strv_builder_new();

    if (slot->iommu_group < 0)
        return;
    noiommu = g_strdup_printf("/sys/class/vfio/noiommu-%d", slot->iommu_group);
    slot->noiommu = access(noiommu, F_OK) == 0;
    node = g_strdup_printf("/dev/vfio/%d", slot->iommu_group);
    if (stat(node, &st) == 0)
        slot->node_uid = st.st_uid;
    path = g_strdup_printf("/sys/kernel/iommu_groups/%d/devices", slot->iommu_group);
    members = vgpu_dir_open(path, NULL);
    names = members ? vgpu_dir_list(members, ".", NULL) : NULL;
    for (char **name = names; name && *name; name++) {
        if (strcmp(*name, slot->address) != 0)
            g_strv_builder_add(others, *name);
    }
    slot->group_others = g_strv_builder_end(others);
}

static void
name_devices(VgpuCard *card)
{
    g_autoptr(GHashTable) types = g_hash_table_new(g_str_hash, g_str_equal);

    for (guint i = 0; i < card->slots->len; i++) {
        VgpuSlot *slot = g_ptr_array_index(card->slots, i);
        for (guint j = 0; j < slot->types->len; j++) {
            VgpuType *type = g_ptr_array_index(slot->types, j);
            g_hash_table_insert(types, type->id, type);
        }
    }
    for (guint i = 0; i < card->slots->len; i++) {
        VgpuSlot *slot = g_ptr_array_index(card->slots, i);
        for (guint j = 0; j < slot->devices->len; j++) {
            VgpuDevice *device = g_ptr_array_index(slot->devices, j);
            VgpuType *type = device->type_id ? g_hash_table_lookup(types, device->type_id) : NULL;

            if (!type || device->name)
                continue;
            device->name = g_strdup(type->name);
            device->framebuffer_mib = type->framebuffer_mib;
        }
    }
}

static void
scan_slot(Scan *scan, VgpuSlot *slot, const VgpuDir *dir)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(GHashTable) uuids = NULL;

    if (is_unreadable_now(scan, slot)) {
        copy_previous(scan, slot);
    } else {
        uuids = busy_on(scan, slot->address) ? busy_uuids(scan) : NULL;
        if (!slot->framework->list(dir, slot, uuids, &error)) {
            g_warning("%s cannot be read: %s", slot->address, error->message);
            slot->error = g_strdup(error->message);
        }
        if (!slot->multiple)
            slot->iommu_group = vgpu_iommu_group(dir);
        read_group(slot);
    }
    apply_busy(scan, slot);
}

static int
read_numa_node(const VgpuDir *dir)
{
    g_autofree char *word = vgpu_dir_read_word(dir, "numa_node", NULL);
    guint64 node;

    return vgpu_number_parse(word, G_MAXINT, &node) ? (int)node : -1;
}

static gboolean
is_allowed(const Scan *scan, const char *card)
{
    return !scan->allowed ||
           g_ptr_array_find_with_equal_func((GPtrArray *)scan->allowed, card, g_str_equal, NULL);
}

static gboolean
is_nvidia_display(const VgpuDir *dir)
{
    g_autofree char *vendor = vgpu_dir_read_word(dir, "vendor", NULL);
    g_autofree char *class = vgpu_dir_read_word(dir, "class", NULL);

    return g_strcmp0(vendor, VENDOR_NVIDIA) == 0 && class && g_str_has_prefix(class, "0x03");
}

static void
scan_device(Scan *scan, const VgpuDir *dir, const char *address)
{
    const VgpuFramework *framework = vgpu_framework_probe(dir);
    g_autofree char *physical = vgpu_dir_link(dir, "physfn", NULL);
    const char *card_address = physical ? physical : address;
    VgpuSlot *slot;

    if (!is_allowed(scan, card_address))
        return;
    if (framework) {
        VgpuCard *card = ensure_card(scan, card_address);

        slot = vgpu_slot_new(framework, address);
        slot->inode = dir->inode;
        slot->attributes_inode = vgpu_framework_attributes_inode(framework, dir);
        g_ptr_array_add(card->slots, slot);
        scan_slot(scan, slot, dir);
    } else if (!physical && is_nvidia_display(dir)) {
        ensure_card(scan, address);
    }
}

/* Looks at every device in @path; a missing folder is an empty one. */
static gboolean
scan_folder(Scan *scan, const char *path, gboolean skip_pci, GError **error)
{
    g_autoptr(GError) missing = NULL;
    g_autoptr(VgpuDir) folder = vgpu_dir_open(path, &missing);
    g_auto(GStrv) names = folder ? vgpu_dir_list(folder, ".", &missing) : NULL;

    if (!names && g_error_matches(missing, VGPU_SYSFS_ERROR, ENOENT))
        return TRUE;
    if (!names) {
        g_propagate_error(error, g_steal_pointer(&missing));
        return FALSE;
    }
    for (char **name = names; *name; name++) {
        g_autoptr(GError) broken = NULL;
        g_autoptr(VgpuDir) dir = NULL;
        VgpuPciAddress pci;

        if (skip_pci && vgpu_pci_address_parse(*name, &pci))
            continue;
        dir = vgpu_dir_open_at(folder, *name, &broken);
        if (dir)
            scan_device(scan, dir, *name);
        else
            g_warning("a device is passed over: %s", broken->message);
    }
    return TRUE;
}

static int
compare_slots(gconstpointer a, gconstpointer b)
{
    const VgpuSlot *left = *(VgpuSlot *const *)a;
    const VgpuSlot *right = *(VgpuSlot *const *)b;

    return vgpu_pci_address_compare_text(left->address, right->address);
}

static int
compare_cards(gconstpointer a, gconstpointer b)
{
    const VgpuCard *left = *(VgpuCard *const *)a;
    const VgpuCard *right = *(VgpuCard *const *)b;

    return vgpu_pci_address_compare_text(left->address, right->address);
}

/* Why a card without slots has none. */
static char *
reason_of(const VgpuDir *dir)
{
    g_autofree char *total = dir ? vgpu_dir_read_word(dir, "sriov_totalvfs", NULL) : NULL;
    g_autofree char *enabled = dir ? vgpu_dir_read_word(dir, "sriov_numvfs", NULL) : NULL;

    if (total && g_strcmp0(total, "0") != 0 && g_strcmp0(enabled, "0") == 0)
        return g_strdup("no virtual functions are enabled");
    if (total && enabled && g_strcmp0(enabled, "0") != 0)
        return g_strdup("the driver of its virtual functions offers no vGPUs");
    return g_strdup("its driver offers no vGPUs");
}

/* The digits of `0x10de`; NULL when it is something else. */
static const char *
hex_digits(const char *word)
{
    if (!word || !g_str_has_prefix(word, "0x") || strlen(word) != 6 ||
        strspn(word + 2, "0123456789abcdef") != 4)
        return NULL;
    return word + 2;
}

/* What other sources than /sys know the card by. */
static void
read_identity(VgpuCard *card, const VgpuDir *dir)
{
    g_autofree char *vendor_word = vgpu_dir_read_word(dir, "vendor", NULL);
    g_autofree char *device_word = vgpu_dir_read_word(dir, "device", NULL);
    g_autofree char *driver = vgpu_dir_link(dir, "driver", NULL);
    const char *vendor = hex_digits(vendor_word);
    const char *device = hex_digits(device_word);

    if (!vendor || !device)
        return;
    card->ids = g_strdup_printf("%s:%s", vendor, device);
    card->modalias = vgpu_dir_read_word(dir, "modalias", NULL);
    if (!card->modalias) {
        g_autofree char *upper_vendor = g_ascii_strup(vendor, -1);
        g_autofree char *upper_device = g_ascii_strup(device, -1);
        card->modalias = g_strdup_printf("pci:v0000%sd0000%s", upper_vendor, upper_device);
    }
    card->nvidia = strcmp(vendor_word, VENDOR_NVIDIA) == 0 && g_strcmp0(driver, "nvidia") == 0;
}

static void
complete_card(VgpuCard *card)
{
    g_autoptr(VgpuDir) dir = vgpu_slot_open(card->address, NULL);
    const VgpuSlot *broken = NULL;
    guint readable = 0;

    if (dir) {
        card->numa_node = read_numa_node(dir);
        read_identity(card, dir);
    }
    g_ptr_array_sort(card->slots, compare_slots);
    name_devices(card);
    for (guint i = 0; i < card->slots->len; i++) {
        const VgpuSlot *slot = g_ptr_array_index(card->slots, i);
        card->framework = slot->framework;
        if (slot->error)
            broken = slot;
        else
            readable++;
    }
    if (card->slots->len == 0)
        card->reason = reason_of(dir);
    else if (readable == 0)
        card->reason = g_strdup(broken->error);
}

VgpuInventory *
vgpu_inventory_scan(const GPtrArray *allowed, const GPtrArray *busy, const VgpuInventory *previous,
                    GError **error)
{
    g_autoptr(VgpuInventory) inventory = g_new0(VgpuInventory, 1);
    g_autoptr(GHashTable) cards = g_hash_table_new(g_str_hash, g_str_equal);
    Scan scan = {inventory, cards, allowed, busy, previous};
    guint shortages = vgpu_sysfs_shortages();

    inventory->cards = g_ptr_array_new_with_free_func((GDestroyNotify)card_free);
    if (!scan_folder(&scan, PCI_DEVICES, FALSE, error) || !scan_folder(&scan, MDEV_PARENTS, TRUE, error))
        return NULL;
    g_ptr_array_sort(inventory->cards, compare_cards);
    for (guint i = 0; i < inventory->cards->len; i++)
        complete_card(g_ptr_array_index(inventory->cards, i));
    if (vgpu_sysfs_shortages() != shortages) {
        /* What is missing from it may be there, and would count as lost. */
        g_set_error(error, VGPU_ERROR, VGPU_ERROR_BUSY,
                    "the service has too few file descriptors or too little memory to look: try again later");
        return NULL;
    }
    return g_steal_pointer(&inventory);
}

const char *
vgpu_inventory_framework(const VgpuInventory *inventory)
{
    const VgpuFramework *found = NULL;

    for (guint i = 0; i < inventory->cards->len; i++) {
        const VgpuCard *card = g_ptr_array_index(inventory->cards, i);
        if (found && card->framework && card->framework != found)
            return "mixed";
        if (card->framework)
            found = card->framework;
    }
    return found ? found->name : "none";
}

const VgpuCard *
vgpu_inventory_find_card(const VgpuInventory *inventory, const char *address)
{
    for (guint i = 0; i < inventory->cards->len; i++) {
        const VgpuCard *card = g_ptr_array_index(inventory->cards, i);
        if (strcmp(card->address, address) == 0)
            return card;
    }
    return NULL;
}

const VgpuSlot *
vgpu_inventory_find_slot(const VgpuInventory *inventory, const char *address, const VgpuCard **ret_card)
{
    for (guint i = 0; i < inventory->cards->len; i++) {
        const VgpuCard *card = g_ptr_array_index(inventory->cards, i);
        for (guint j = 0; j < card->slots->len; j++) {
            const VgpuSlot *slot = g_ptr_array_index(card->slots, j);
            if (strcmp(slot->address, address) != 0)
                continue;
            if (ret_card)
                *ret_card = card;
            return slot;
        }
    }
    return NULL;
}

const VgpuDevice *
vgpu_inventory_find_device(const VgpuInventory *inventory, const char *slot_address, const char *uuid)
{
    for (guint i = 0; i < inventory->cards->len; i++) {
        const VgpuCard *card = g_ptr_array_index(inventory->cards, i);
        for (guint j = 0; j < card->slots->len; j++) {
            const VgpuSlot *slot = g_ptr_array_index(card->slots, j);
            const VgpuDevice *device;

            if (!uuid && g_strcmp0(slot->address, slot_address) != 0)
                continue;
            device = find_device(slot, uuid);
            if (device)
                return device;
        }
    }
    return NULL;
}
