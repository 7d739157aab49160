/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "placement.h"

#include "error.h"
#include "profile.h"
#include "refusal.h"

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
    copy->asked = g_strdup(request->asked);
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
    g_free(request->asked);
    g_free(request);
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

/* A card that was never seen empty, and of which nothing else is known, may have any profile. */
static gboolean
some_card_may_have_more(const VgpuHost *host)
{
    for (guint i = 0; i < host->inventory->cards->len; i++) {
        const VgpuCard *card = g_ptr_array_index(host->inventory->cards, i);
        if (card->framework && !vgpu_memory_is_whole(host->memory, card->address))
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
    else if (!name && !some_card_may_have_more(host))
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
        if (vgpu_capacity_offer(choice->host, slot, choice->request->for_root, choice->name) &&
            is_better_slot(choice, slot, best))
            best = slot;
    }
    if (!best)
        return FALSE;
    candidate->card = card;
    candidate->slot = best;
    candidate->type = vgpu_capacity_offer(choice->host, best, choice->request->for_root, choice->name);
    return TRUE;
}

static gboolean
card_is_wanted(const VgpuRequest *request, const VgpuCard *card)
{
    return (!request->gpu || strcmp(request->gpu, card->address) == 0) &&
           (!request->has_numa_node || request->numa_node == card->numa_node);
}

/* Cards of unknown load come after known ones; ties stay in the order of addresses. */
static gboolean
is_better_card(VgpuPolicy policy, const VgpuCard *card, const VgpuCard *best)
{
    guint64 load = 0;
    guint64 best_load = 0;
    gboolean known = vgpu_capacity_assigned(card, &load);
    gboolean best_known;

    if (!best)
        return TRUE;
    best_known = vgpu_capacity_assigned(best, &best_load);
    if (known != best_known)
        return known;
    return policy == VGPU_POLICY_PACK ? load > best_load : load < best_load;
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

        if (was_tried(choice.tried->cards, card->address) || !card_is_wanted(request, card))
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
            g_hash_table_insert(*ret_reasons, g_strdup(card->address),
                                vgpu_refusal_sentence(host, request, name, choice.tried, card));
        }
    }
    return FALSE;
}

gboolean
vgpu_placement_remaining(const VgpuHost *host, const VgpuRequest *request, const char *name, guint *ret_count)
{
    guint count = 0;

    for (guint i = 0; i < host->inventory->cards->len; i++) {
        const VgpuCard *card = g_ptr_array_index(host->inventory->cards, i);
        guint on_card;

        if (!card_is_wanted(request, card))
            continue;
        if (!vgpu_capacity_remaining(host, card, request->device, request->for_root, name, &on_card))
            return FALSE;
        count += on_card;
    }
    *ret_count = count;
    return TRUE;
}
