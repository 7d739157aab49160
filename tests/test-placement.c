/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Where a vGPU goes, and why nowhere, on hosts made of values. */
#include "error.h"
#include "model.h"

#include <string.h>

#define Q2 "1148=NVIDIA_L40S-2Q=2048"
#define Q48 "1156=NVIDIA_L40S-48Q=49152"

/* Two cards of three slots each that list 2Q and 48Q. */
static Model *
two_cards(void)
{
    Model *host = model_new();
    VgpuCard *first = model_add_card(host, "0000:3b:00.0", &vgpu_vendor_vfio);
    VgpuCard *second = model_add_card(host, "0000:5e:00.0", &vgpu_vendor_vfio);

    for (guint i = 4; i < 7; i++) {
        g_autofree char *on_first = g_strdup_printf("0000:3b:00.%u", i);
        g_autofree char *on_second = g_strdup_printf("0000:5e:00.%u", i);

        model_add_slot(host, first, on_first, Q2 " " Q48);
        model_add_slot(host, second, on_second, Q2 " " Q48);
    }
    model_look(host);
    return host;
}

/* Where the request goes, or the reason of the first card. The caller frees it. */
static char *
choose(Model *host, const VgpuRequest *request, const VgpuTried *tried)
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
assert_goes_to(Model *host, VgpuPolicy policy, const char *where)
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
    g_autoptr(Model) host = two_cards();

    assert_goes_to(host, VGPU_POLICY_SPREAD, "0000:3b:00.4");
    model_occupy(model_slot_at(host, "0000:3b:00.4"), NULL, 2048);
    assert_goes_to(host, VGPU_POLICY_SPREAD, "0000:5e:00.4");
    model_occupy(model_slot_at(host, "0000:5e:00.4"), NULL, 4096);
    assert_goes_to(host, VGPU_POLICY_SPREAD, "0000:3b:00.5");
}

static void
test_pack_takes_the_fullest(void)
{
    g_autoptr(Model) host = two_cards();

    model_occupy(model_slot_at(host, "0000:5e:00.5"), NULL, 2048);
    assert_goes_to(host, VGPU_POLICY_PACK, "0000:5e:00.4");
    model_occupy(model_slot_at(host, "0000:5e:00.4"), NULL, 2048);
    model_occupy(model_slot_at(host, "0000:5e:00.6"), NULL, 2048);
    assert_goes_to(host, VGPU_POLICY_PACK, "0000:3b:00.4");
}

static void
test_unknown_load_comes_last(void)
{
    g_autoptr(Model) host = two_cards();

    model_occupy(model_slot_at(host, "0000:3b:00.4"), NULL, 0);
    model_occupy(model_slot_at(host, "0000:5e:00.4"), NULL, 49152);
    assert_goes_to(host, VGPU_POLICY_SPREAD, "0000:5e:00.5");
    assert_goes_to(host, VGPU_POLICY_PACK, "0000:5e:00.5");
}

static void
give_back(Model *host, const char *address)
{
    vgpu_assignments_remove(host->assignments, model_add_record(host, address, VGPU_STATE_ASSIGNED));
}

static void
test_never_used_slots_first_then_longest_ago(void)
{
    g_autoptr(Model) host = two_cards();

    give_back(host, "0000:3b:00.5");
    give_back(host, "0000:3b:00.4");
    assert_goes_to(host, VGPU_POLICY_SPREAD, "0000:3b:00.6");
    give_back(host, "0000:3b:00.6");
    assert_goes_to(host, VGPU_POLICY_SPREAD, "0000:3b:00.5");
}

static void
test_tried_slots_and_cards_are_passed_over(void)
{
    g_autoptr(Model) host = two_cards();
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
    g_assert_cmpstr(none, ==, "its driver refused it just now: the log of the kernel may say why");
}

static void
test_filters(void)
{
    g_autoptr(Model) host = two_cards();
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
    g_assert_cmpstr(node, ==, "the option numa-node leaves it out: it is on node 0, and node 1 is asked for");
}

static void
test_a_slot_without_a_usable_group_is_not_offered(void)
{
    g_autoptr(Model) host = two_cards();

    model_slot_at(host, "0000:3b:00.4")->iommu_group = -1;
    model_slot_at(host, "0000:3b:00.5")->noiommu = TRUE;
    assert_goes_to(host, VGPU_POLICY_SPREAD, "0000:3b:00.6");
}

static void
test_a_failed_slot_is_not_offered(void)
{
    g_autoptr(Model) host = two_cards();

    model_add_record(host, "0000:3b:00.4", VGPU_STATE_FAILED);
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
    g_autoptr(Model) host = two_cards();

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
    g_autoptr(Model) host = two_cards();
    g_autoptr(GError) error = NULL;
    g_autofree char *name = vgpu_placement_resolve(&host->host, "L40S-3Q", &error);

    g_assert_null(name);
    g_assert_error(error, VGPU_ERROR, VGPU_ERROR_UNKNOWN_PROFILE);
    g_assert_nonnull(strstr(error->message, "NVIDIA L40S-2Q"));
}

static void
test_an_id_with_two_names_is_refused(void)
{
    g_autoptr(Model) host = model_new();
    VgpuCard *one = model_add_card(host, "0000:3b:00.0", &vgpu_vendor_vfio);
    VgpuCard *two = model_add_card(host, "0000:5e:00.0", &vgpu_vendor_vfio);
    g_autoptr(GError) error = NULL;
    g_autofree char *by_id = NULL;
    g_autofree char *by_name = NULL;

    model_add_slot(host, one, "0000:3b:00.4", "657=NVIDIA_RTXA5000-24Q=24576");
    model_add_slot(host, two, "0000:5e:00.4", "657=NVIDIA_RTXA5000-1B=1024");
    model_look(host);
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
    g_autoptr(Model) host = model_new();
    g_autoptr(GError) error = NULL;

    model_add_card(host, "0000:3b:00.0", NULL);
    g_assert_null(vgpu_placement_resolve(&host->host, "NVIDIA L40S-2Q", &error));
    g_assert_error(error, VGPU_ERROR, VGPU_ERROR_NO_FRAMEWORK);
}

/* A card that lists nothing may have any profile: that it is full is all that can be said. */
static void
test_a_silent_card_makes_nothing_unknown(void)
{
    g_autoptr(Model) host = model_new();
    VgpuCard *card = model_add_card(host, "0000:3b:00.0", &vgpu_vendor_vfio);
    g_autoptr(GError) error = NULL;

    model_add_slot(host, card, "0000:3b:00.4", "");
    model_look(host);
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
