/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "bed-private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Cards that come, change and go. */

typedef struct {
    const char *name;
    BedCard card;
} Model;

static const Model known_models[] = {
    {"l40s",
     {BED_VENDOR_VFIO, "l40s-creatable.list", .device = 0x26b9, .total_vfs = 32, .framebuffer_mib = 49152}},
    {"a10",
     {BED_VENDOR_VFIO, "a10-creatable.list", .device = 0x2236, .total_vfs = 32, .framebuffer_mib = 24576}},
    {"a16",
     {BED_VENDOR_VFIO, "a16-r550.types.tsv", .device = 0x25b6, .total_vfs = 16, .framebuffer_mib = 16384}},
    {"a40",
     {BED_VENDOR_VFIO, "a40-r550.types.tsv", .device = 0x2235, .total_vfs = 32, .framebuffer_mib = 49152}},
    {"h200x",
     {BED_VENDOR_VFIO, "h200x-partial.list", .device = 0x2335, .total_vfs = 16, .framebuffer_mib = 144384}},
    {"a2", {BED_MDEV_VFS, "a2.types.tsv", .device = 0x25b6, .total_vfs = 16, .framebuffer_mib = 16384}},
    {"t4", {BED_MDEV_CARD, "t4.mdev.tsv", .device = 0x1eb8}},
    {"v100d", {BED_MDEV_CARD, "v100d.mdev.tsv", .device = 0x1db6}},
    {"rtx6000", {BED_MDEV_CARD, "rtx6000-unlock.mdev.tsv", .device = 0x1e04, .class = 0x030000}},
    {"gvtg",
     {BED_GVTG, "gvtg-new.mdev.tsv", .vendor = 0x8086, .device = 0x5912, .class = 0x030000, .numa_node = -1}},
    {"gvtg-old",
     {BED_GVTG, "gvtg-new.mdev.tsv", .vendor = 0x8086, .device = 0x5912, .class = 0x030000, .numa_node = -1}},
    {"plain", {BED_PLAIN, .device = 0x1f82, .class = 0x030000}},
};

const char *const *
bed_models(void)
{
    static const char *names[G_N_ELEMENTS(known_models) + 1];

    for (guint i = 0; i < G_N_ELEMENTS(known_models); i++)
        names[i] = known_models[i].name;
    return names;
}

static Device *
card_get(Bed *bed, const char *address)
{
    Device *card = device_get(bed, address);

    if (card->kind != DEVICE_CARD)
        g_error("bed: %s is not a card", address);
    return card;
}

static Device *
vf_get(Bed *bed, const char *address)
{
    Device *vf = device_get(bed, address);

    if (vf->kind != DEVICE_VF)
        g_error("bed: %s is not a VF", address);
    return vf;
}

/* The routing id of the @index-th VF is counted on from the card's. */
static char *
vf_address(Device *card, unsigned index)
{
    unsigned domain, bus, slot, function, id;

    if (sscanf(card->name, "%x:%x:%x.%x", &domain, &bus, &slot, &function) != 4)
        g_error("bed: %s is not a PCI address", card->name);
    id = (bus << 8 | slot << 3 | function) + card->offset + index;
    return g_strdup_printf("%04x:%02x:%02x.%x", domain, id >> 8, id >> 3 & 0x1f, id & 7);
}

static int
show_numvfs(Bed *bed, Node *node, GString *text)
{
    g_string_append_printf(text, "%u\n", ((Device *)node->owner)->numvfs);
    return 0;
}

/* An administrator's attribute: traced, and without effect, for nobody here should write it. */
static int
store_nothing(Bed *bed, Node *node, Write *write)
{
    return 0;
}

static void
late_attributes(Bed *bed, gpointer data)
{
    vendor_setup(bed, data);
}

static void
vf_add_attributes(Bed *bed, Device *vf)
{
    if (vf->card->framework == BED_MDEV_VFS)
        mdev_parent_setup(bed, vf);
    else if (bed->late_ms > 0)
        clock_at(bed, g_get_monotonic_time() + bed->late_ms * (gint64)1000, late_attributes, vf);
    else
        vendor_setup(bed, vf);
}

static Device *
vf_add(Bed *bed, Device *card, unsigned index)
{
    g_autofree char *address = vf_address(card, index);
    g_autofree char *link = g_strdup_printf("virtfn%u", index);
    Device *vf = device_new(bed, DEVICE_VF, address);

    vf->card = card;
    vf->index = index;
    pci_register(bed, vf, card->vendor, card->device, card->class, card->numa_node, "nvidia");
    node_link(bed, vf->dir, "physfn", card->dir);
    node_link(bed, card->dir, link, vf->dir);
    g_ptr_array_add(card->vfs, vf);
    group_add(bed, group_new(bed), vf);
    herald_uevent(bed, vf->dir, "add", NULL);
    /* A VF that is an mdev parent has no VFIO device of its own. */
    if (card->framework == BED_VENDOR_VFIO)
        vfio_register(bed, vf);
    vf_add_attributes(bed, vf);
    herald_uevent(bed, vf->dir, "bind", NULL);
    return vf;
}

static void
vf_remove(Bed *bed, Device *vf)
{
    g_autofree char *link = g_strdup_printf("virtfn%u", vf->index);

    mdev_parent_teardown(bed, vf);
    vendor_teardown(bed, vf);
    pci_unregister(bed, vf);
    node_remove(bed, node_child(vf->card->dir, link));
    g_ptr_array_remove(vf->card->vfs, vf);
    vf->card->numvfs = vf->card->vfs->len;
}

static void
vfs_enable(Bed *bed, Device *card, unsigned vfs)
{
    g_assert_cmpuint(vfs, <=, card->total_vfs);
    card->numvfs = vfs;
    for (unsigned i = 0; i < vfs; i++)
        vf_add(bed, card, i);
}

static void
card_add_sriov(Bed *bed, Device *card)
{
    g_autofree char *total = g_strdup_printf("%u\n", card->total_vfs);
    g_autofree char *offset = g_strdup_printf("%u\n", card->offset);
    g_autofree char *device = g_strdup_printf("%04x\n", card->device);

    node_text(bed, card->dir, "sriov_totalvfs", 0444, total);
    node_attr(bed, card->dir, "sriov_numvfs", 0644, show_numvfs, store_nothing, card);
    node_text(bed, card->dir, "sriov_offset", 0444, offset);
    node_text(bed, card->dir, "sriov_stride", 0444, "1\n");
    node_text(bed, card->dir, "sriov_vf_device", 0444, device);
    node_text(bed, card->dir, "sriov_drivers_autoprobe", 0644, "1\n");
}

static void
card_add(Bed *bed, const char *address, const BedCard *spec, gboolean nameless)
{
    Device *card = device_new(bed, DEVICE_CARD, address);

    card->card = card;
    card->framework = spec->framework;
    card->vendor = spec->vendor ? spec->vendor : 0x10de;
    card->device = spec->device;
    card->class = spec->class ? spec->class : 0x030200;
    card->total_vfs = spec->total_vfs;
    card->offset = spec->offset ? spec->offset : 4;
    card->framebuffer_mib = spec->framebuffer_mib;
    card->numa_node = spec->numa_node;
    card->nameless = nameless;
    card->vfs = g_ptr_array_new();
    if (spec->types) {
        card->types = types_read(spec->types, address);
        g_ptr_array_add(bed->type_lists, card->types);
    }

    pci_register(bed, card, card->vendor, card->device, card->class, card->numa_node,
                 spec->framework == BED_GVTG ? "i915" : "nvidia");
    group_add(bed, group_new(bed), card);
    herald_uevent(bed, card->dir, "add", NULL);
    if (card->total_vfs > 0)
        card_add_sriov(bed, card);
    if (card->framework == BED_MDEV_CARD || card->framework == BED_GVTG)
        mdev_parent_setup(bed, card);
    herald_uevent(bed, card->dir, "bind", NULL);
    vfs_enable(bed, card, spec->vfs);
}

void
bed_add_card_full(Bed *bed, const char *address, const BedCard *card)
{
    g_mutex_lock(&bed->lock);
    card_add(bed, address, card, FALSE);
    g_mutex_unlock(&bed->lock);
    bed_settle(bed);
}

void
bed_add_card(Bed *bed, const char *model, const char *address, int vfs)
{
    for (guint i = 0; i < G_N_ELEMENTS(known_models); i++) {
        BedCard card = known_models[i].card;

        if (strcmp(known_models[i].name, model) != 0)
            continue;
        card.vfs = vfs < 0 ? card.total_vfs : (unsigned)vfs;
        g_mutex_lock(&bed->lock);
        card_add(bed, address, &card, strcmp(model, "gvtg-old") == 0);
        g_mutex_unlock(&bed->lock);
        bed_settle(bed);
        return;
    }
    g_error("bed: there is no model %s", model);
}

static void
vfs_disable(Bed *bed, Device *card)
{
    while (card->vfs->len > 0)
        vf_remove(bed, card->vfs->pdata[card->vfs->len - 1]);
    card->numvfs = 0;
}

void
bed_remove_card(Bed *bed, const char *address)
{
    Device *card;

    g_mutex_lock(&bed->lock);
    card = card_get(bed, address);
    vfs_disable(bed, card);
    mdev_parent_teardown(bed, card);
    pci_unregister(bed, card);
    g_mutex_unlock(&bed->lock);
    bed_settle(bed);
}

void
bed_disable_vfs(Bed *bed, const char *address)
{
    g_mutex_lock(&bed->lock);
    vfs_disable(bed, card_get(bed, address));
    g_mutex_unlock(&bed->lock);
    bed_settle(bed);
}

void
bed_enable_vfs(Bed *bed, const char *address, unsigned vfs)
{
    g_mutex_lock(&bed->lock);
    vfs_enable(bed, card_get(bed, address), vfs);
    g_mutex_unlock(&bed->lock);
    bed_settle(bed);
}

void
bed_remove_vf(Bed *bed, const char *address)
{
    g_mutex_lock(&bed->lock);
    vf_remove(bed, vf_get(bed, address));
    g_mutex_unlock(&bed->lock);
    bed_settle(bed);
}

void
bed_reload_driver(Bed *bed, const char *address, unsigned type)
{
    Device *vf;

    g_mutex_lock(&bed->lock);
    vf = vf_get(bed, address);
    vfio_unregister(bed, vf);
    vendor_teardown(bed, vf);
    herald_uevent(bed, vf->dir, "unbind", NULL);
    vfio_register(bed, vf);
    vf->type = type;
    vf_add_attributes(bed, vf);
    herald_uevent(bed, vf->dir, "bind", NULL);
    g_mutex_unlock(&bed->lock);
    bed_settle(bed);
}

void
bed_late_attributes(Bed *bed, unsigned ms)
{
    g_mutex_lock(&bed->lock);
    bed->late_ms = ms;
    g_mutex_unlock(&bed->lock);
}

void
bed_vf_without_group(Bed *bed, const char *address)
{
    Device *vf;

    g_mutex_lock(&bed->lock);
    vf = vf_get(bed, address);
    vfio_unregister(bed, vf);
    group_leave(bed, vf);
    g_mutex_unlock(&bed->lock);
    bed_settle(bed);
}

void
bed_share_group(Bed *bed, const char *address, const char *other)
{
    Device *device;
    gboolean has_vfio;

    g_mutex_lock(&bed->lock);
    device = device_find(bed, address);
    if (!device) {
        device = device_new(bed, DEVICE_OTHER, address);
        pci_register(bed, device, 0x10de, 0x228b, 0x040300, 0, "snd_hda_intel");
        herald_uevent(bed, device->dir, "add", NULL);
    }
    has_vfio = device->vfio_dir != NULL;
    vfio_unregister(bed, device);
    group_leave(bed, device);
    group_add(bed, device_get(bed, other)->group, device);
    if (has_vfio)
        vfio_register(bed, device);
    g_mutex_unlock(&bed->lock);
    bed_settle(bed);
}

void
bed_mix_sizes(Bed *bed, const char *address, gboolean mixed)
{
    g_mutex_lock(&bed->lock);
    card_get(bed, address)->mixed = mixed;
    g_mutex_unlock(&bed->lock);
}

void
bed_catalogue_says(Bed *bed, const char *where, const char *text)
{
    Device *device;

    g_mutex_lock(&bed->lock);
    device = device_get(bed, where);
    g_free(device->catalogue);
    device->catalogue = g_strdup(text);
    g_mutex_unlock(&bed->lock);
}

void
bed_remove_refuses(Bed *bed, const char *address, int error)
{
    g_mutex_lock(&bed->lock);
    card_get(bed, address)->remove_error = error;
    g_mutex_unlock(&bed->lock);
}

void
bed_clear_busy_for(Bed *bed, const char *where, unsigned ms)
{
    g_mutex_lock(&bed->lock);
    vf_get(bed, where)->clear_busy_ms = ms;
    g_mutex_unlock(&bed->lock);
}

void
bed_plugin_lingers(Bed *bed, const char *where, unsigned ms)
{
    g_mutex_lock(&bed->lock);
    device_get(bed, where)->plugin_ms = ms;
    g_mutex_unlock(&bed->lock);
}
