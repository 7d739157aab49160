/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "placement.h"

#include "error.h"
#include "pci-address.h"
#include "profile.h"

#include <string.h>

#define NEAR_NAMES 3

VgpuRequest *
vgpu_request_new(const char *profile)
{
    VgpuRequest *request = g_new0(VgpuRequest, 1);

    request->profile = g_strdup(profile);
    return request;
}

VgpuRequest *
vgpu_request_copy(const VgpuRequest *request)
{
    VgpuRequest *copy = g_memdup2(request, sizeof(*request));

    copy->profile = g_strdup(request->profile);
    copy->gpu = g_strdup(request->gpu);
    copy->device = g_strdup(request->device);
    copy->uuid = g_strdup(request->uuid);
    copy->label = g_strdup(request->label);
    return copy;
}

void
vgpu_request_free(VgpuRequest *request)
{
    g_free(request->profile);
    g_free(request->gpu);
    g_free(request->device);
    g_free(request->uuid);
    g_free(request->label);
    g_free(request);
}

/* Devices of one IOMMU group reach each other's memory. */
static const char *
why_not_with_its_group(const VgpuHost *host, const VgpuSlot *slot, gboolean for_root)
{
    for (char **other = slot->group_others; other && *other; other++) {
        if (vgpu_inventory_find_device(host->inventory, *other, NULL) ||
            vgpu_assignments_find_device(host->assignments, *other, NULL))
            return "shares its IOMMU group with a vGPU that is taken";
        if (!for_root)
            return "shares its IOMMU group with other devices, so only root may have it";
    }
    return NULL;
}

gboolean
vgpu_placement_can_offer(const VgpuHost *host, const VgpuSlot *slot, gboolean for_root, const char **ret_why)
{
    const char *why = NULL;
    gboolean one_only = !slot->multiple;
    gboolean own_group = slot->framework->group_before_set;

    if (slot->error)
        why = "cannot be read";
    else if (one_only && slot->devices->len > 0)
        why = "holds a vGPU";
    else if (own_group && slot->iommu_group < 0)
        why = "has no IOMMU group";
    else if (own_group && slot->noiommu)
        why = "has no IOMMU behind it";
    else if (own_group && vgpu_assignments_find_device(host->assignments, slot->address, NULL))
        why = "could not be cleared";
    else if (own_group)
        why = why_not_with_its_group(host, slot, for_root);
    if (ret_why)
        *ret_why = why;
    return why == NULL;
}

static const VgpuType *
find_by_name(const GPtrArray *types, const char *name)
{
    for (guint i = 0; types && name && i < types->len; i++) {
        const VgpuType *type = g_ptr_array_index(types, i);
        if (strcmp(type->name, name) == 0)
            return type;
    }
    return NULL;
}

const VgpuType *
vgpu_placement_offer(const VgpuHost *host, const VgpuSlot *slot, gboolean for_root, const char *name)
{
    const VgpuType *type = find_by_name(slot->types, name);

    return type && type->available > 0 && vgpu_placement_can_offer(host, slot, for_root, NULL) ? type : NULL;
}

gboolean
vgpu_placement_load(const VgpuCard *card, guint64 *ret_mib)
{
    guint64 mib = 0;

    for (guint i = 0; i < card->slots->len; i++) {
        const VgpuSlot *slot = g_ptr_array_index(card->slots, i);
        for (guint j = 0; j < slot->devices->len; j++) {
            const VgpuDevice *device = g_ptr_array_index(slot->devices, j);
            if (device->framebuffer_mib == 0)
                return FALSE;
            mib += device->framebuffer_mib;
        }
    }
    *ret_mib = mib;
    return TRUE;
}

/* Calls @func for each type that a card shows or has shown. */
static void
foreach_type(const VgpuHost *host, void (*func)(const VgpuType *type, gpointer data), gpointer data)
{
    for (guint i = 0; i < host->inventory->cards->len; i++) {
        const VgpuCard *card = g_ptr_array_index(host->inventory->cards, i);
        const GPtrArray *types = vgpu_memory_types(host->memory, card->address);

        for (guint j = 0; types && j < types->len; j++)
            func(g_ptr_array_index(types, j), data);
    }
}

static void
add_name(const VgpuType *type, gpointer names)
{
    if (!g_ptr_array_find_with_equal_func(names, type->name, g_str_equal, NULL))
        g_ptr_array_add(names, g_strdup(type->name));
}

GPtrArray *
vgpu_placement_names(const VgpuHost *host)
{
    GPtrArray *names = g_ptr_array_new_with_free_func(g_free);

    foreach_type(host, add_name, names);
    g_ptr_array_sort(names, vgpu_profile_compare_pointers);
    return names;
}

typedef struct {
    const char *argument;
    GPtrArray *names; /* borrowed strings */
} Lookup;

static void
add_if_id(const VgpuType *type, gpointer data)
{
    Lookup *lookup = data;
    gboolean found = strcmp(type->id, lookup->argument) == 0;

    if (found && !g_ptr_array_find_with_equal_func(lookup->names, type->name, g_str_equal, NULL))
        g_ptr_array_add(lookup->names, type->name);
}

static char *
join(const GPtrArray *names, const char *separator)
{
    GString *text = g_string_new(NULL);

    for (guint i = 0; i < names->len; i++)
        g_string_append_printf(text, "%s%s", i > 0 ? separator : "", (char *)g_ptr_array_index(names, i));
    return g_string_free(text, FALSE);
}

/* One of @names, or an error when there are several; NULL without one when there are none. */
static char *
only_one(const GPtrArray *names, const char *argument, GError **error)
{
    g_autofree char *all = NULL;

    if (names->len == 1)
        return g_strdup(g_ptr_array_index(names, 0));
    if (names->len > 1) {
        all = join(names, " and ");
        g_set_error(error, VGPU_ERROR, VGPU_ERROR_INVALID_ARGS,
                    "%s means several profiles, %s: ask for one by its name", argument, all);
    }
    return NULL;
}

/* A card with a framework that has never shown a name may have any profile. */
static gboolean
some_card_is_silent(const VgpuHost *host)
{
    for (guint i = 0; i < host->inventory->cards->len; i++) {
        const VgpuCard *card = g_ptr_array_index(host->inventory->cards, i);
        if (card->framework && !vgpu_memory_types(host->memory, card->address))
            return TRUE;
    }
    return FALSE;
}

static void
set_unknown(const char *argument, GPtrArray *names, GError **error)
{
    g_autoptr(GPtrArray) near = vgpu_profile_near(argument, names, NEAR_NAMES);
    g_autofree char *list = join(near, ", ");
    g_autofree char *printable = vgpu_text_printable(argument);

    if (near->len > 0)
        g_set_error(error, VGPU_ERROR, VGPU_ERROR_UNKNOWN_PROFILE,
                    "no card has a profile %s: did you mean %s?", printable, list);
    else
        g_set_error(error, VGPU_ERROR, VGPU_ERROR_UNKNOWN_PROFILE,
                    "no card has a profile %s: see Profiles for those there are", printable);
}

char *
vgpu_placement_resolve(const VgpuHost *host, const char *argument, GError **error)
{
    g_autoptr(GPtrArray) names = NULL;
    g_autoptr(GPtrArray) matches = g_ptr_array_new();
    g_autoptr(GError) several = NULL;
    Lookup lookup = {argument, matches};
    char *name;

    if (strcmp(vgpu_inventory_framework(host->inventory), "none") == 0) {
        g_set_error(error, VGPU_ERROR, VGPU_ERROR_NO_FRAMEWORK,
                    "no device of this host offers vGPUs: is the vGPU driver loaded, and are virtual "
                    "functions enabled?");
        return NULL;
    }
    names = vgpu_placement_names(host);
    if (g_ptr_array_find_with_equal_func(names, argument, g_str_equal, NULL))
        return g_strdup(argument);
    for (guint i = 0; i < names->len; i++) {
        if (vgpu_profile_matches_short(g_ptr_array_index(names, i), argument))
            g_ptr_array_add(matches, g_ptr_array_index(names, i));
    }
    if (matches->len == 0)
        foreach_type(host, add_if_id, &lookup);
    name = only_one(matches, argument, &several);
    if (several)
        g_propagate_error(error, g_steal_pointer(&several));
    else if (!name && !some_card_is_silent(host))
        set_unknown(argument, names, error);
    return name;
}

typedef struct {
    const VgpuHost *host;
    const VgpuRequest *request;
    const char *name;
    VgpuPolicy policy;
    const VgpuTried *tried;
} Choice;

static gboolean
was_tried(GHashTable *set, const char *address)
{
    return set && g_hash_table_contains(set, address);
}

/* Never used first, then the one given back longest ago, then the lowest: the order of the scan. */
static gboolean
is_better_slot(const Choice *choice, const VgpuSlot *slot, const VgpuSlot *best)
{
    return !best || vgpu_assignments_given_back(choice->host->assignments, slot->address) <
                        vgpu_assignments_given_back(choice->host->assignments, best->address);
}

static gboolean
choose_slot(const Choice *choice, const VgpuCard *card, VgpuCandidate *candidate)
{
    const VgpuSlot *best = NULL;

    for (guint i = 0; i < card->slots->len; i++) {
        const VgpuSlot *slot = g_ptr_array_index(card->slots, i);

        if (was_tried(choice->tried->slots, slot->address))
            continue;
        if (choice->request->device && strcmp(choice->request->device, slot->address) != 0)
            continue;
        if (choice->request->uuid && slot->framework->group_before_set)
            continue; /* only mdevs have a UUID */
        if (vgpu_placement_offer(choice->host, slot, choice->request->for_root, choice->name) &&
            is_better_slot(choice, slot, best))
            best = slot;
    }
    if (!best)
        return FALSE;
    candidate->card = card;
    candidate->slot = best;
    candidate->type = vgpu_placement_offer(choice->host, best, choice->request->for_root, choice->name);
    return TRUE;
}

static gboolean
card_is_wanted(const Choice *choice, const VgpuCard *card)
{
    const VgpuRequest *request = choice->request;

    return (!request->gpu || strcmp(request->gpu, card->address) == 0) &&
           (!request->has_numa_node || request->numa_node == card->numa_node);
}

/* Cards of unknown load come after known ones; ties stay in the order of addresses. */
static gboolean
is_better_card(VgpuPolicy policy, const VgpuCard *card, const VgpuCard *best)
{
    guint64 load = 0;
    guint64 best_load = 0;
    gboolean known = vgpu_placement_load(card, &load);
    gboolean best_known;

    if (!best)
        return TRUE;
    best_known = vgpu_placement_load(best, &best_load);
    if (known != best_known)
        return known;
    return policy == VGPU_POLICY_PACK ? load > best_load : load < best_load;
}

/* The other sizes on @card, as "3 of 2048 MiB"; NULL when it holds nothing. */
static char *
describe_load(const VgpuCard *card, guint *ret_count)
{
    g_autoptr(GHashTable) sizes = g_hash_table_new(g_direct_hash, g_direct_equal);
    g_autoptr(GPtrArray) texts = g_ptr_array_new_with_free_func(g_free);
    g_autoptr(GList) keys = NULL;
    guint count = 0;

    for (guint i = 0; i < card->slots->len; i++) {
        const VgpuSlot *slot = g_ptr_array_index(card->slots, i);
        for (guint j = 0; j < slot->devices->len; j++, count++) {
            const VgpuDevice *device = g_ptr_array_index(slot->devices, j);
            gpointer key = GSIZE_TO_POINTER(device->framebuffer_mib);
            g_hash_table_insert(sizes, key,
                                GUINT_TO_POINTER(1 + GPOINTER_TO_UINT(g_hash_table_lookup(sizes, key))));
        }
    }
    *ret_count = count;
    keys = g_hash_table_get_keys(sizes);
    for (GList *key = keys; key; key = key->next) {
        guint of_size = GPOINTER_TO_UINT(g_hash_table_lookup(sizes, key->data));
        if (key->data)
            g_ptr_array_add(texts, g_strdup_printf("%u of %" G_GSIZE_FORMAT " MiB", of_size,
                                                   GPOINTER_TO_SIZE(key->data)));
        else
            g_ptr_array_add(texts, g_strdup_printf("%u of unknown size", of_size));
    }
    return count > 0 ? join(texts, ", ") : NULL;
}

static guint
count_free(const VgpuHost *host, const VgpuCard *card, gboolean for_root, const char **ret_why)
{
    guint count = 0;

    for (guint i = 0; i < card->slots->len; i++) {
        const VgpuSlot *slot = g_ptr_array_index(card->slots, i);
        const char *why = NULL;

        if (vgpu_placement_can_offer(host, slot, for_root, &why))
            count++;
        else if (strcmp(why, "holds a vGPU") != 0)
            *ret_why = why;
    }
    return count;
}

/* Why the card does not take it, as a sentence that begins with a verb. */
static char *
reason_of(const Choice *choice, const VgpuCard *card)
{
    const char *name = choice->name ? choice->name : choice->request->profile;
    const GPtrArray *known = vgpu_memory_types(choice->host->memory, card->address);
    const VgpuCard *owner = NULL;
    const char *why = NULL;
    guint count = 0;
    g_autofree char *load = describe_load(card, &count);
    guint free_slots = count_free(choice->host, card, choice->request->for_root, &why);

    if (choice->request->gpu && strcmp(choice->request->gpu, card->address) != 0)
        return g_strdup_printf("is not the GPU that was asked for, %s", choice->request->gpu);
    if (choice->request->has_numa_node && choice->request->numa_node != card->numa_node)
        return g_strdup_printf("is on NUMA node %d, not on %d as asked for", card->numa_node,
                               choice->request->numa_node);
    if (choice->request->device)
        vgpu_inventory_find_slot(choice->host->inventory, choice->request->device, &owner);
    if (choice->request->device && owner != card)
        return g_strdup_printf("does not have the device that was asked for, %s", choice->request->device);
    if (card->reason)
        return g_strdup_printf("offers nothing: %s", card->reason);
    if (known && !find_by_name(known, choice->name))
        return g_strdup_printf("does not have the profile %s", name);
    if (was_tried(choice->tried->cards, card->address))
        return g_strdup("refused it");
    if (free_slots == 0 && why)
        return g_strdup_printf("has no free slot: a slot %s", why);
    if (free_slots == 0)
        return g_strdup_printf("is full: all its slots hold a vGPU (%s)", load ? load : "none");
    if (load && known)
        return g_strdup_printf("holds vGPUs that leave no room for it: %s", load);
    return g_strdup("has no slot that takes it now");
}

gboolean
vgpu_placement_choose(const VgpuHost *host, const VgpuRequest *request, const char *name, VgpuPolicy policy,
                      const VgpuTried *tried, VgpuCandidate *ret_candidate, GHashTable **ret_reasons)
{
    static const VgpuTried nothing = {NULL, NULL};
    Choice choice = {host, request, name, request->policy, tried ? tried : &nothing};
    VgpuCandidate best = {NULL, NULL, NULL};

    if (choice.policy == VGPU_POLICY_DEFAULT)
        choice.policy = policy;
    for (guint i = 0; i < host->inventory->cards->len; i++) {
        const VgpuCard *card = g_ptr_array_index(host->inventory->cards, i);
        VgpuCandidate candidate;

        if (was_tried(choice.tried->cards, card->address) || !card_is_wanted(&choice, card))
            continue;
        if (choose_slot(&choice, card, &candidate) && is_better_card(choice.policy, card, best.card))
            best = candidate;
    }
    if (best.card) {
        *ret_candidate = best;
        return TRUE;
    }
    if (ret_reasons) {
        *ret_reasons = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
        for (guint i = 0; i < host->inventory->cards->len; i++) {
            const VgpuCard *card = g_ptr_array_index(host->inventory->cards, i);
            g_hash_table_insert(*ret_reasons, g_strdup(card->address), reason_of(&choice, card));
        }
    }
    return FALSE;
}
