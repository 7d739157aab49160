/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A host made of values: cards, slots and what they list, without /sys. */
#include "error.h"
#include "placement.h"

#include <string.h>

typedef struct {
    VgpuInventory *inventory;
    VgpuMemory *memory;
    VgpuAssignments *assignments;
    VgpuHost host;
} Host;

static void
free_card(gpointer data)
{
    VgpuCard *card = data;

    g_free(card->address);
    g_free(card->reason);
    g_ptr_array_unref(card->slots);
    g_free(card);
}

static Host *
host_new(void)
{
    Host *host = g_new0(Host, 1);

    host->inventory = g_new0(VgpuInventory, 1);
    host->inventory->cards = g_ptr_array_new_with_free_func(free_card);
    host->memory = vgpu_memory_new();
    host->assignments = vgpu_assignments_new();
    host->host = (VgpuHost){host->inventory, host->memory, host->assignments};
    return host;
}

static void
host_free(Host *host)
{
    vgpu_inventory_free(host->inventory);
    vgpu_memory_free(host->memory);
    vgpu_assignments_free(host->assignments);
    g_free(host);
}
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Host, host_free)

static VgpuCard *
add_card(Host *host, const char *address, const VgpuFramework *framework)
{
    VgpuCard *card = g_new0(VgpuCard, 1);

    card->address = g_strdup(address);
    card->framework = framework;
    card->numa_node = 0;
    card->slots = g_ptr_array_new_with_free_func((GDestroyNotify)vgpu_slot_free);
    g_ptr_array_add(host->inventory->cards, card);
    return card;
}

/* @types: "id=name=MiB" separated by spaces (`_` for a space in a name). */
static VgpuSlot *
add_slot(VgpuCard *card, const char *address, const char *types)
{
    VgpuSlot *slot = vgpu_slot_new(card->framework, address);
    g_auto(GStrv) words = g_strsplit(types, " ", -1);

    slot->iommu_group = (int)card->slots->len;
    for (char **word = words; *word && **word; word++) {
        g_auto(GStrv) parts = g_strsplit(*word, "=", 3);
        VgpuType *type = vgpu_type_new(parts[0], g_strdelimit(parts[1], "_", ' '));

        type->framebuffer_mib = g_ascii_strtoull(parts[2], NULL, 10);
        type->available = 1;
        g_ptr_array_add(slot->types, type);
    }
    g_ptr_array_add(card->slots, slot);
    return slot;
}

static void
occupy(VgpuSlot *slot, guint64 mib)
{
    VgpuDevice *device = vgpu_device_new(slot->address, NULL);

    device->framebuffer_mib = mib;
    g_ptr_array_add(slot->devices, device);
    g_ptr_array_set_size(slot->types, 0);
}

#define Q2 "1148=NVIDIA_L40S-2Q=2048"
#define Q48 "1156=NVIDIA_L40S-48Q=49152"

/* Two cards of three slots each that list 2Q and 48Q. */
static Host *
two_cards(void)
{
    Host *host = host_new();
    VgpuCard *first = add_card(host, "0000:3b:00.0", &vgpu_vendor_vfio);
    VgpuCard *second = add_card(host, "0000:5e:00.0", &vgpu_vendor_vfio);

    for (guint i = 4; i < 7; i++) {
        g_autofree char *on_first = g_strdup_printf("0000:3b:00.%u", i);
        g_autofree char *on_second = g_strdup_printf("0000:5e:00.%u", i);

        add_slot(first, on_first, Q2 " " Q48);
        add_slot(second, on_second, Q2 " " Q48);
    }
    vgpu_memory_learn(host->memory, host->inventory);
    return host;
}

static VgpuSlot *
slot_at(Host *host, const char *address)
{
    VgpuSlot *slot = (VgpuSlot *)vgpu_inventory_find_slot(host->inventory, address, NULL);

    g_assert_nonnull(slot);
    return slot;
}

/* Where the request goes, or the reason of the first card. The caller frees it. */
static char *
choose(Host *host, const VgpuRequest *request, const VgpuTried *tried)
{
    g_autoptr(GHashTable) reasons = NULL;
    g_autoptr(GError) error = NULL;
    g_autofree char *name = vgpu_placement_resolve(&host->host, request->profile, &error);
    VgpuCandidate candidate;

    g_assert_no_error(error);
    if (vgpu_placement_choose(&host->host, request, name, VGPU_POLICY_SPREAD, tried, &candidate, &reasons))
        return g_strdup(candidate.slot->address);
    return g_strdup(g_hash_table_lookup(reasons, "0000:3b:00.0"));
}

static void
assert_goes_to(Host *host, VgpuPolicy policy, const char *where)
{
    g_autoptr(VgpuRequest) request = vgpu_request_new("NVIDIA L40S-2Q");
    g_autofree char *chosen = NULL;

    request->policy = policy;
    chosen = choose(host, request, NULL);
    g_assert_cmpstr(chosen, ==, where);
}

static void
test_spread_takes_the_least_loaded(void)
{
    g_autoptr(Host) host = two_cards();

    assert_goes_to(host, VGPU_POLICY_SPREAD, "0000:3b:00.4");
    occupy(slot_at(host, "0000:3b:00.4"), 2048);
    assert_goes_to(host, VGPU_POLICY_SPREAD, "0000:5e:00.4");
    occupy(slot_at(host, "0000:5e:00.4"), 4096);
    assert_goes_to(host, VGPU_POLICY_SPREAD, "0000:3b:00.5");
}

static void
test_pack_takes_the_fullest(void)
{
    g_autoptr(Host) host = two_cards();

    occupy(slot_at(host, "0000:5e:00.5"), 2048);
    assert_goes_to(host, VGPU_POLICY_PACK, "0000:5e:00.4");
    occupy(slot_at(host, "0000:5e:00.4"), 2048);
    occupy(slot_at(host, "0000:5e:00.6"), 2048);
    assert_goes_to(host, VGPU_POLICY_PACK, "0000:3b:00.4");
}

static void
test_unknown_load_comes_last(void)
{
    g_autoptr(Host) host = two_cards();

    occupy(slot_at(host, "0000:3b:00.4"), 0);
    occupy(slot_at(host, "0000:5e:00.4"), 49152);
    assert_goes_to(host, VGPU_POLICY_SPREAD, "0000:5e:00.5");
    assert_goes_to(host, VGPU_POLICY_PACK, "0000:5e:00.5");
}

static void
give_back(Host *host, const char *address)
{
    VgpuAssignment *assignment = vgpu_assignment_new();

    assignment->id = g_strdup(address);
    assignment->device = vgpu_device_new(address, NULL);
    vgpu_assignments_add(host->assignments, assignment);
    vgpu_assignments_remove(host->assignments, assignment);
}

static void
test_never_used_slots_first_then_longest_ago(void)
{
    g_autoptr(Host) host = two_cards();

    give_back(host, "0000:3b:00.5");
    give_back(host, "0000:3b:00.4");
    assert_goes_to(host, VGPU_POLICY_SPREAD, "0000:3b:00.6");
    give_back(host, "0000:3b:00.6");
    assert_goes_to(host, VGPU_POLICY_SPREAD, "0000:3b:00.5");
}

static void
test_tried_slots_and_cards_are_passed_over(void)
{
    g_autoptr(Host) host = two_cards();
    g_autoptr(VgpuRequest) request = vgpu_request_new("NVIDIA L40S-2Q");
    g_autoptr(GHashTable) slots = g_hash_table_new(g_str_hash, g_str_equal);
    g_autoptr(GHashTable) cards = g_hash_table_new(g_str_hash, g_str_equal);
    VgpuTried tried = {slots, cards};
    g_autofree char *next_slot = NULL;
    g_autofree char *next_card = NULL;
    g_autofree char *none = NULL;

    g_hash_table_add(slots, (gpointer) "0000:3b:00.4");
    next_slot = choose(host, request, &tried);
    g_assert_cmpstr(next_slot, ==, "0000:3b:00.5");
    g_hash_table_add(cards, (gpointer) "0000:3b:00.0");
    next_card = choose(host, request, &tried);
    g_assert_cmpstr(next_card, ==, "0000:5e:00.4");
    g_hash_table_add(cards, (gpointer) "0000:5e:00.0");
    none = choose(host, request, &tried);
    g_assert_cmpstr(none, ==, "refused it");
}

static void
test_filters(void)
{
    g_autoptr(Host) host = two_cards();
    g_autoptr(VgpuRequest) by_gpu = vgpu_request_new("NVIDIA L40S-2Q");
    g_autoptr(VgpuRequest) by_device = vgpu_request_new("NVIDIA L40S-2Q");
    g_autoptr(VgpuRequest) by_node = vgpu_request_new("NVIDIA L40S-2Q");
    g_autofree char *gpu = NULL;
    g_autofree char *device = NULL;
    g_autofree char *node = NULL;

    by_gpu->gpu = g_strdup("0000:5e:00.0");
    gpu = choose(host, by_gpu, NULL);
    g_assert_cmpstr(gpu, ==, "0000:5e:00.4");
    by_device->device = g_strdup("0000:5e:00.6");
    device = choose(host, by_device, NULL);
    g_assert_cmpstr(device, ==, "0000:5e:00.6");
    by_node->has_numa_node = TRUE;
    by_node->numa_node = 1;
    node = choose(host, by_node, NULL);
    g_assert_cmpstr(node, ==, "is on NUMA node 0, not on 1 as asked for");
}

static void
test_a_slot_without_a_usable_group_is_not_offered(void)
{
    g_autoptr(Host) host = two_cards();

    slot_at(host, "0000:3b:00.4")->iommu_group = -1;
    slot_at(host, "0000:3b:00.5")->noiommu = TRUE;
    assert_goes_to(host, VGPU_POLICY_SPREAD, "0000:3b:00.6");
}

static void
test_a_failed_slot_is_not_offered(void)
{
    g_autoptr(Host) host = two_cards();
    VgpuAssignment *assignment = vgpu_assignment_new();

    assignment->id = g_strdup("a");
    assignment->state = VGPU_STATE_FAILED;
    assignment->device = vgpu_device_new("0000:3b:00.4", NULL);
    vgpu_assignments_add(host->assignments, assignment);
    assert_goes_to(host, VGPU_POLICY_SPREAD, "0000:3b:00.5");
}

typedef struct {
    const char *argument;
    const char *name; /* NULL: an error */
    int code;
} Spelling;

static void
test_spellings(void)
{
    static const Spelling spellings[] = {
        {"NVIDIA L40S-2Q", "NVIDIA L40S-2Q"},          {"L40S-2Q", "NVIDIA L40S-2Q"},
        {"NVIDIA_L40S-2Q", "NVIDIA L40S-2Q"},          {"1148", "NVIDIA L40S-2Q"},
        {"L40S-3Q", NULL, VGPU_ERROR_UNKNOWN_PROFILE}, {"1149", NULL, VGPU_ERROR_UNKNOWN_PROFILE},
    };
    g_autoptr(Host) host = two_cards();

    for (gsize i = 0; i < G_N_ELEMENTS(spellings); i++) {
        g_autoptr(GError) error = NULL;
        g_autofree char *name = vgpu_placement_resolve(&host->host, spellings[i].argument, &error);

        g_assert_cmpstr(name, ==, spellings[i].name);
        if (!spellings[i].name)
            g_assert_error(error, VGPU_ERROR, spellings[i].code);
    }
}

static void
test_unknown_profile_names_near_ones(void)
{
    g_autoptr(Host) host = two_cards();
    g_autoptr(GError) error = NULL;
    g_autofree char *name = vgpu_placement_resolve(&host->host, "L40S-3Q", &error);

    g_assert_null(name);
    g_assert_error(error, VGPU_ERROR, VGPU_ERROR_UNKNOWN_PROFILE);
    g_assert_nonnull(strstr(error->message, "NVIDIA L40S-2Q"));
}

static void
test_an_id_with_two_names_is_refused(void)
{
    g_autoptr(Host) host = host_new();
    VgpuCard *one = add_card(host, "0000:3b:00.0", &vgpu_vendor_vfio);
    VgpuCard *two = add_card(host, "0000:5e:00.0", &vgpu_vendor_vfio);
    g_autoptr(GError) error = NULL;
    g_autofree char *by_id = NULL;
    g_autofree char *by_name = NULL;

    add_slot(one, "0000:3b:00.4", "657=NVIDIA_RTXA5000-24Q=24576");
    add_slot(two, "0000:5e:00.4", "657=NVIDIA_RTXA5000-1B=1024");
    vgpu_memory_learn(host->memory, host->inventory);
    by_id = vgpu_placement_resolve(&host->host, "657", &error);
    g_assert_error(error, VGPU_ERROR, VGPU_ERROR_INVALID_ARGS);
    g_assert_nonnull(strstr(error->message, "NVIDIA RTXA5000-24Q"));
    g_assert_nonnull(strstr(error->message, "NVIDIA RTXA5000-1B"));
    by_name = vgpu_placement_resolve(&host->host, "NVIDIA RTXA5000-1B", NULL);
    g_assert_cmpstr(by_name, ==, "NVIDIA RTXA5000-1B");
}

static void
test_no_framework(void)
{
    g_autoptr(Host) host = host_new();
    g_autoptr(GError) error = NULL;

    add_card(host, "0000:3b:00.0", NULL);
    g_assert_null(vgpu_placement_resolve(&host->host, "NVIDIA L40S-2Q", &error));
    g_assert_error(error, VGPU_ERROR, VGPU_ERROR_NO_FRAMEWORK);
}

/* A card that lists nothing may have any profile: that it is full is all that can be said. */
static void
test_a_silent_card_makes_nothing_unknown(void)
{
    g_autoptr(Host) host = host_new();
    VgpuCard *card = add_card(host, "0000:3b:00.0", &vgpu_vendor_vfio);
    g_autoptr(GError) error = NULL;

    add_slot(card, "0000:3b:00.4", "");
    vgpu_memory_learn(host->memory, host->inventory);
    g_assert_null(vgpu_placement_resolve(&host->host, "NVIDIA L40S-2Q", &error));
    g_assert_no_error(error);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/placement/spread/takes-the-least-loaded-card", test_spread_takes_the_least_loaded);
    g_test_add_func("/placement/pack/takes-the-fullest-card-that-still-takes-it",
                    test_pack_takes_the_fullest);
    g_test_add_func("/placement/unknown-load/comes-last", test_unknown_load_comes_last);
    g_test_add_func("/placement/slots/never-used-first-then-longest-ago",
                    test_never_used_slots_first_then_longest_ago);
    g_test_add_func("/placement/tried/slots-and-cards-are-passed-over",
                    test_tried_slots_and_cards_are_passed_over);
    g_test_add_func("/placement/filters/gpu-device-and-numa-node", test_filters);
    g_test_add_func("/placement/group/missing-or-noiommu-is-not-offered",
                    test_a_slot_without_a_usable_group_is_not_offered);
    g_test_add_func("/placement/failed/slot-is-not-offered", test_a_failed_slot_is_not_offered);
    g_test_add_func("/placement/profile/every-spelling-means-the-same", test_spellings);
    g_test_add_func("/placement/profile/unknown-names-near-ones", test_unknown_profile_names_near_ones);
    g_test_add_func("/placement/profile/id-with-two-names-is-refused", test_an_id_with_two_names_is_refused);
    g_test_add_func("/placement/framework/none-is-said", test_no_framework);
    g_test_add_func("/placement/silent-card/makes-no-profile-unknown",
                    test_a_silent_card_makes_nothing_unknown);
    return g_test_run();
}
