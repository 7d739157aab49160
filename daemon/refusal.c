/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "refusal.h"

#include "profile.h"

#include <string.h>

/* What is asked of one card. */
typedef struct {
    const VgpuHost *host;
    const VgpuRequest *request;
    const char *name; /* NULL when no card is known to have it */
    const VgpuTried *tried;
    const VgpuCard *card;
} Question;

/* What stands against a slot, and the way out. */
static const struct {
    const char *one;
    const char *several;
    const char *way_out;
} obstacles[VGPU_N_OBSTACLES] = {
    [VGPU_OBSTACLE_HOLDS] = {"holds a vGPU", "hold a vGPU", "release one first"},
    [VGPU_OBSTACLE_CHANGING] = {"is being set or cleared", "are being set or cleared",
                                "try again in a moment"},
    [VGPU_OBSTACLE_FAILED] = {"could not be cleared", "could not be cleared",
                              "reclaim what could not be cleared"},
    [VGPU_OBSTACLE_UNREADABLE] = {"cannot be read", "cannot be read", "the log of the service says why"},
    [VGPU_OBSTACLE_NO_GROUP] = {"has no IOMMU group", "have no IOMMU group", "switch the IOMMU on"},
    [VGPU_OBSTACLE_NO_IOMMU] = {"has no IOMMU behind it", "have no IOMMU behind them", "switch the IOMMU on"},
    [VGPU_OBSTACLE_GROUP_TAKEN] = {"shares its IOMMU group with a vGPU that is taken",
                                   "share their IOMMU groups with vGPUs that are taken",
                                   "release what is in the group first"},
    [VGPU_OBSTACLE_GROUP_SHARED] = {"shares its IOMMU group with other devices",
                                    "share their IOMMU groups with other devices", "only root may have it"},
    [VGPU_OBSTACLE_NODE_OWNED] = {"has a group node that belongs to a user",
                                  "have group nodes that belong to users", "give the node back to root"},
};

/* Which way out is told when several things stand in the way: the quickest first. */
static const VgpuObstacle quickest[] = {
    VGPU_OBSTACLE_CHANGING,    VGPU_OBSTACLE_FAILED,     VGPU_OBSTACLE_HOLDS,
    VGPU_OBSTACLE_GROUP_TAKEN, VGPU_OBSTACLE_NODE_OWNED, VGPU_OBSTACLE_GROUP_SHARED,
    VGPU_OBSTACLE_NO_GROUP,    VGPU_OBSTACLE_NO_IOMMU,   VGPU_OBSTACLE_UNREADABLE,
};

/* "3 of 2048 MiB, 1 of unknown size". */
static char *
describe_sizes(const GArray *sizes)
{
    GString *text = g_string_new(NULL);

    for (guint i = 0; i < sizes->len; i++) {
        const VgpuSizeCount *count = &g_array_index(sizes, VgpuSizeCount, i);

        g_string_append_printf(text, "%s%u of ", i > 0 ? ", " : "", count->vgpus);
        if (count->mib > 0)
            g_string_append_printf(text, "%" G_GUINT64_FORMAT " MiB", count->mib);
        else
            g_string_append(text, "unknown size");
    }
    return g_string_free(text, FALSE);
}

/* ---- Options and cards as a whole ---- */

static char *
left_out_by_option(const Question *question)
{
    const VgpuRequest *request = question->request;
    const VgpuCard *card = question->card;
    const VgpuCard *owner = NULL;

    if (request->gpu && strcmp(request->gpu, card->address) != 0)
        return g_strdup_printf("the option gpu leaves it out: only %s is asked for", request->gpu);
    if (request->has_numa_node && request->numa_node != card->numa_node && card->numa_node < 0)
        return g_strdup_printf(
            "the option numa-node leaves it out: it is on no node, and node %d is asked for",
            request->numa_node);
    if (request->has_numa_node && request->numa_node != card->numa_node)
        return g_strdup_printf(
            "the option numa-node leaves it out: it is on node %d, and node %d is asked for", card->numa_node,
            request->numa_node);
    if (request->device)
        vgpu_inventory_find_slot(question->host->inventory, request->device, &owner);
    if (request->device && owner != card)
        return g_strdup_printf("the option device leaves it out: %s is not on it", request->device);
    if (request->uuid && card->framework && card->framework->group_before_set)
        return g_strdup("the option uuid leaves it out: its vGPUs are no mdevs and have no UUID");
    return NULL;
}

static char *
unable_as_a_whole(const Question *question)
{
    const VgpuCard *card = question->card;
    const GPtrArray *known = vgpu_memory_types(question->host->memory, card->address);

    if (card->reason)
        return g_strdup_printf("it offers no vGPUs: %s", card->reason);
    if (!vgpu_capacity_find_type(known, question->name) &&
        vgpu_memory_is_whole(question->host->memory, card->address))
        return g_strdup("it does not have this profile: Profiles says which cards do");
    if (question->tried->cards && g_hash_table_contains(question->tried->cards, card->address))
        return g_strdup("its driver refused it just now: the log of the kernel may say why");
    return NULL;
}

/* ---- Slots that are not free ---- */

typedef struct {
    guint slots; /* that were looked at */
    guint with[VGPU_N_OBSTACLES];
} Tally;

static gboolean
is_asked_for(const Question *question, const VgpuSlot *slot)
{
    return !question->request->device || strcmp(question->request->device, slot->address) == 0;
}

/* Of the slots that are asked for; @listing: only of those that would take it. */
static Tally
count_obstacles(const Question *question, gboolean listing)
{
    Tally tally = {0};

    for (guint i = 0; i < question->card->slots->len; i++) {
        const VgpuSlot *slot = g_ptr_array_index(question->card->slots, i);
        const VgpuType *type = vgpu_capacity_find_type(slot->types, question->name);

        if (!is_asked_for(question, slot) || (listing && (!type || type->available == 0)))
            continue;
        tally.slots++;
        tally.with[vgpu_capacity_obstacle(question->host, slot, question->request->for_root)]++;
    }
    return tally;
}

static const char *
way_out_of(const Tally *tally)
{
    for (gsize i = 0; i < G_N_ELEMENTS(quickest); i++) {
        if (tally->with[quickest[i]] > 0)
            return obstacles[quickest[i]].way_out;
    }
    return NULL;
}

/* Nothing but vGPUs in the way. */
static char *
describe_full_slots(const Question *question, const Tally *tally)
{
    g_autoptr(GArray) sizes = vgpu_capacity_sizes(question->card);
    g_autofree char *load = describe_sizes(sizes);

    if (question->request->device)
        return g_strdup_printf("%s, which is asked for, holds a vGPU: release it first",
                               question->request->device);
    if (tally->slots == 1)
        return g_strdup_printf("it is full, as its only slot holds a vGPU (%s): release it first", load);
    return g_strdup_printf("it is full, as all its %u slots hold a vGPU (%s): release one first",
                           tally->slots, load);
}

static char *
describe_obstacles(const Question *question, const Tally *tally, const char *which)
{
    GString *text = g_string_new(NULL);

    for (guint i = VGPU_OBSTACLE_NONE + 1; i < VGPU_N_OBSTACLES; i++) {
        if (tally->with[i] == 0)
            continue;
        if (text->len > 0)
            g_string_append(text, ", ");
        else if (tally->slots > 1)
            g_string_append_printf(text, "none of its %u slots%s is free (", tally->slots, which);
        else if (question->request->device)
            g_string_append_printf(text, "%s, which is asked for, ", question->request->device);
        else
            g_string_append_printf(text, "its only slot%s ", which);
        if (tally->slots > 1)
            g_string_append_printf(text, "%u ", tally->with[i]);
        g_string_append(text, tally->with[i] == 1 ? obstacles[i].one : obstacles[i].several);
    }
    g_string_append_printf(text, "%s: %s", tally->slots > 1 ? ")" : "", way_out_of(tally));
    return g_string_free(text, FALSE);
}

static char *
no_slot_is_free(const Question *question)
{
    Tally all = count_obstacles(question, FALSE);
    Tally listing = count_obstacles(question, TRUE);

    if (all.with[VGPU_OBSTACLE_HOLDS] == all.slots)
        return describe_full_slots(question, &all);
    if (all.with[VGPU_OBSTACLE_NONE] == 0)
        return describe_obstacles(question, &all, "");
    if (listing.slots > 0 && listing.with[VGPU_OBSTACLE_NONE] == 0)
        return describe_obstacles(question, &listing, " that list this profile");
    if (listing.slots > 0)
        return g_strdup("every slot of it that lists this profile refused it just now: the log of the kernel "
                        "may say why");
    return NULL;
}

/* ---- Free slots that do not list it ---- */

/* What the free slots list instead. */
typedef struct {
    guint free_slots;
    gboolean own_counts; /* the card is the parent itself, and its driver counts */
    gboolean lists;      /* anything at all */
    gboolean mixes;      /* sizes beside the ones that are there */
} Listing;

static gboolean
has_size(const GArray *sizes, guint64 mib)
{
    for (guint i = 0; i < sizes->len; i++) {
        if (g_array_index(sizes, VgpuSizeCount, i).mib == mib)
            return TRUE;
    }
    return FALSE;
}

static Listing
look_at_free_slots(const Question *question, const GArray *sizes)
{
    const VgpuCard *card = question->card;
    Listing listing = {.mixes = sizes->len > 1};

    for (guint i = 0; i < card->slots->len; i++) {
        const VgpuSlot *slot = g_ptr_array_index(card->slots, i);

        if (!is_asked_for(question, slot) ||
            vgpu_capacity_obstacle(question->host, slot, question->request->for_root) != VGPU_OBSTACLE_NONE)
            continue;
        listing.free_slots++;
        listing.own_counts |= slot->multiple;
        for (guint j = 0; j < slot->types->len; j++) {
            const VgpuType *type = g_ptr_array_index(slot->types, j);

            if (type->available == 0)
                continue;
            listing.lists = TRUE;
            listing.mixes |= sizes->len > 0 && !has_size(sizes, type->framebuffer_mib);
        }
    }
    return listing;
}

/* The size of what is asked for; 0 when unknown. */
static guint64
wanted_mib(const Question *question)
{
    const GPtrArray *known = vgpu_memory_types(question->host->memory, question->card->address);
    const VgpuType *type = vgpu_capacity_find_type(known, question->name);

    if (type)
        return type->framebuffer_mib;
    return vgpu_profile_size_mib(question->name ? question->name : question->request->profile);
}

/* "none of its 31 free slots lists this profile now". */
static char *
not_listed(const Question *question, const Listing *listing)
{
    if (listing->own_counts)
        return g_strdup("its driver offers none of this profile now");
    if (question->request->device)
        return g_strdup_printf("%s, which is asked for, does not list this profile now",
                               question->request->device);
    if (listing->free_slots == 1)
        return g_strdup("its only free slot does not list this profile now");
    return g_strdup_printf("none of its %u free slots lists this profile now", listing->free_slots);
}

static char *
describe_not_listed(const Question *question, const Listing *listing)
{
    g_autofree char *what = not_listed(question, listing);
    guint64 left;

    if (vgpu_capacity_left(question->host, question->card, &left))
        return g_strdup_printf("it has %" G_GUINT64_FORMAT
                               " MiB left, but %s: take one that Profiles says is "
                               "available",
                               left, what);
    return g_strdup_printf("%s: take one that Profiles says is available", what);
}

static char *
no_slot_lists_it(const Question *question)
{
    g_autoptr(GArray) sizes = vgpu_capacity_sizes(question->card);
    g_autofree char *load = describe_sizes(sizes);
    Listing listing = look_at_free_slots(question, sizes);
    guint64 wanted = wanted_mib(question);
    guint64 only = sizes->len == 1 ? g_array_index(sizes, VgpuSizeCount, 0).mib : 0;
    guint64 left;

    if (!listing.lists && sizes->len == 0)
        return g_strdup("it holds no vGPU and yet offers no profile: the log of the kernel may say why");
    if (!listing.lists && !question->request->device)
        return g_strdup_printf("it is full, as its vGPUs (%s) leave no room for another: release one first",
                               load);
    if (!listing.mixes && only > 0 && wanted > 0 && only != wanted)
        return g_strdup_printf("it holds vGPUs of another size (%s) and takes only that size beside them: "
                               "release them, or take a profile of %" G_GUINT64_FORMAT " MiB",
                               load, only);
    if (sizes->len > 0 && vgpu_capacity_left(question->host, question->card, &left) && left < wanted)
        return g_strdup_printf(
            "its vGPUs (%s) leave %" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT " MiB, and %" G_GUINT64_FORMAT
            " MiB are needed: release one first",
            load, left, vgpu_memory_framebuffer(question->host->memory, question->card->address), wanted);
    return describe_not_listed(question, &listing);
}

char *
vgpu_refusal_sentence(const VgpuHost *host, const VgpuRequest *request, const char *name,
                      const VgpuTried *tried, const VgpuCard *card)
{
    Question question = {host, request, name, tried, card};
    char *sentence = left_out_by_option(&question);

    if (!sentence)
        sentence = unable_as_a_whole(&question);
    if (!sentence)
        sentence = no_slot_is_free(&question);
    return sentence ? sentence : no_slot_lists_it(&question);
}
