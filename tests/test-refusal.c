/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Why a card does not take a profile, word for word. */
#include "model.h"

#include <string.h>

#define CARD "0000:3b:00.0"
#define OTHER "0000:5e:00.0"
#define VF "0000:3b:00.4"
#define NEXT "0000:3b:00.5"
#define ALL "l40s-creatable.list"
#define NOTHING "l40s-full-header-only.list"
#define ONLY_2 "l40s-after-2q.list"

/* An L40S with @vfs virtual functions that was seen empty. */
static VgpuCard *
add_l40s(Model *model, guint vfs)
{
    VgpuCard *card = model_add_listed_card(model, CARD, vfs, ALL);

    model_look(model);
    return card;
}

/* What @card holds, and what its free slots list beside that. */
static void
load(Model *model, VgpuCard *card, guint vgpus, const char *type_id, guint64 mib, const char *list)
{
    guint put = 0;

    for (guint i = 0; i < card->slots->len && put < vgpus; i++) {
        if (model_slot(card, i)->devices->len > 0)
            continue;
        model_occupy(model_slot(card, i), type_id, mib);
        put++;
    }
    g_assert_cmpuint(put, ==, vgpus);
    model_list_on_free(card, list);
    model_look(model);
}

/* The request's profile is the one of the name, or of no card if it is unknown. */
static void
assert_refused_with(Model *model, const VgpuRequest *request, const VgpuTried *tried, const char *sentence)
{
    g_autoptr(GHashTable) reasons = NULL;
    g_autoptr(GError) error = NULL;
    g_autofree char *name = vgpu_placement_resolve(&model->host, request->profile, &error);
    VgpuCandidate candidate;

    g_assert_no_error(error);
    g_assert_false(
        vgpu_placement_choose(&model->host, request, name, VGPU_POLICY_SPREAD, tried, &candidate, &reasons));
    g_test_message("%s %s", CARD, (char *)g_hash_table_lookup(reasons, CARD));
    g_assert_cmpstr(g_hash_table_lookup(reasons, CARD), ==, sentence);
}

static void
assert_refused(Model *model, const char *profile, const char *sentence)
{
    g_autoptr(VgpuRequest) request = vgpu_request_new(profile);

    assert_refused_with(model, request, NULL, sentence);
}

/* ---- Full ---- */

static void
test_all_slots_hold_one(void)
{
    g_autoptr(Model) model = model_new();

    load(model, add_l40s(model, 32), 32, "1147", 1024, NOTHING);
    assert_refused(model, "NVIDIA L40S-1Q",
                   "it is full, as all its 32 slots hold a vGPU (32 of 1024 MiB): release one first");
}

static void
test_the_only_slot_holds_one(void)
{
    g_autoptr(Model) model = model_new();

    load(model, add_l40s(model, 1), 1, "1147", 1024, NOTHING);
    assert_refused(model, "NVIDIA L40S-1Q",
                   "it is full, as its only slot holds a vGPU (1 of 1024 MiB): release it first");
}

static void
test_no_memory_for_anything(void)
{
    g_autoptr(Model) model = model_new();

    load(model, add_l40s(model, 32), 24, "1148", 2048, NOTHING);
    assert_refused(model, "NVIDIA L40S-1Q",
                   "it is full, as its vGPUs (24 of 2048 MiB) leave no room for another: release one first");
}

/* As found at the start of the service: nothing has a name or a size. */
static void
test_full_of_the_unknown(void)
{
    g_autoptr(Model) model = model_new();
    VgpuCard *card = model_add_listed_card(model, CARD, 16, NOTHING);

    for (guint i = 0; i < 16; i++)
        model_occupy(model_slot(card, i), "1414", 0);
    model_look(model);
    assert_refused(model, "NVIDIA H200X-1-18C",
                   "it is full, as all its 16 slots hold a vGPU (16 of unknown size): release one first");
}

/* ---- Other sizes, memory ---- */

static void
test_other_sizes(void)
{
    g_autoptr(Model) model = model_new();

    load(model, add_l40s(model, 32), 3, "1148", 2048, ONLY_2);
    assert_refused(model, "NVIDIA L40S-48Q",
                   "it holds vGPUs of another size (3 of 2048 MiB) and takes only that size beside them: "
                   "release them, or take a profile of 2048 MiB");
}

/* The same where the card was never seen empty, so that it may have the profile. */
static void
test_other_sizes_of_a_card_that_is_not_known_whole(void)
{
    g_autoptr(Model) model = model_new();
    VgpuCard *card = model_add_listed_card(model, CARD, 32, ONLY_2);

    load(model, card, 1, "1148", 2048, ONLY_2);
    assert_refused(model, "L40S-48Q",
                   "it holds vGPUs of another size (1 of 2048 MiB) and takes only that size beside them: "
                   "release them, or take a profile of 2048 MiB");
}

static void
test_too_little_memory_of_mixed_sizes(void)
{
    g_autoptr(Model) model = model_new();
    VgpuCard *card = add_l40s(model, 32);

    load(model, card, 2, "1148", 2048, ONLY_2);
    load(model, card, 1, "1155", 24576, ONLY_2);
    assert_refused(model, "NVIDIA L40S-24Q",
                   "its vGPUs (2 of 2048 MiB, 1 of 24576 MiB) leave 20480 of 49152 MiB, and 24576 MiB are "
                   "needed: release one first");
}

static void
test_memory_left_but_no_slot_lists_it(void)
{
    g_autoptr(Model) model = model_new();
    VgpuCard *card = add_l40s(model, 32);

    load(model, card, 2, "1148", 2048, ONLY_2);
    load(model, card, 1, "1155", 24576, ONLY_2);
    assert_refused(model, "NVIDIA L40S-4Q",
                   "it has 20480 MiB left, but none of its 29 free slots lists this profile now: take one "
                   "that Profiles says is available");
}

static void
test_memory_left_but_the_only_free_slot_does_not_list_it(void)
{
    g_autoptr(Model) model = model_new();
    VgpuCard *card = add_l40s(model, 4);

    load(model, card, 2, "1148", 2048, ONLY_2);
    load(model, card, 1, "1155", 24576, ONLY_2);
    assert_refused(model, "NVIDIA L40S-4Q",
                   "it has 20480 MiB left, but its only free slot does not list this profile now: take one "
                   "that Profiles says is available");
}

/* Divided into instances, and of unknown memory. */
static void
test_nothing_on_it_and_not_listed(void)
{
    g_autoptr(Model) model = model_new();
    VgpuCard *card = model_add_card(model, CARD, &vgpu_vendor_vfio);

    for (guint i = 4; i < 7; i++) {
        g_autofree char *vf = g_strdup_printf("0000:3b:00.%u", i);
        model_add_slot(model, card, vf, "1=X-1-12Q=12288 2=X-1-24Q=24576");
    }
    model_look(model);
    for (guint i = 0; i < 3; i++)
        model_set_types(model_slot(card, i), "1=X-1-12Q=12288");
    model_look(model);
    assert_refused(
        model, "X-1-24Q",
        "none of its 3 free slots lists this profile now: take one that Profiles says is available");
}

static void
test_empty_and_offers_nothing(void)
{
    g_autoptr(Model) model = model_new();
    VgpuCard *card = add_l40s(model, 4);

    model_list_on_free(card, NOTHING);
    model_look(model);
    assert_refused(model, "NVIDIA L40S-2Q",
                   "it holds no vGPU and yet offers no profile: the log of the kernel may say why");
}

static void
test_parent_that_offers_none(void)
{
    g_autoptr(Model) model = model_new();
    VgpuCard *card = model_add_card(model, CARD, &vgpu_mdev);
    VgpuSlot *slot =
        model_add_slot(model, card, CARD, "nvidia-231=GRID_T4-2Q=2048 nvidia-234=GRID_T4-16Q=16384");
    VgpuDevice *device;

    slot->multiple = TRUE;
    device = vgpu_device_new(CARD, "c1b7b4a4-4c1b-4f5d-9d2e-6a5f0c3e7a11");
    device->type_id = g_strdup("nvidia-231");
    g_ptr_array_add(slot->devices, device);
    ((VgpuType *)slot->types->pdata[0])->available = 7;
    ((VgpuType *)slot->types->pdata[1])->available = 0;
    model_look(model);
    assert_refused(model, "GRID T4-16Q",
                   "it holds vGPUs of another size (1 of 2048 MiB) and takes only that size beside them: "
                   "release them, or take a profile of 2048 MiB");
    ((VgpuType *)slot->types->pdata[0])->available = 0;
    assert_refused(model, "GRID T4-2Q",
                   "it is full, as its vGPUs (1 of 2048 MiB) leave no room for another: release one first");
}

/* ---- Slots that are busy, failed or not to be had ---- */

static void
test_busy_and_failed(void)
{
    g_autoptr(Model) model = model_new();
    VgpuCard *card = add_l40s(model, 4);

    load(model, card, 4, "1148", 2048, NOTHING);
    model_add_record(model, VF, VGPU_STATE_RELEASING);
    model_add_record(model, NEXT, VGPU_STATE_FAILED);
    assert_refused(model, "NVIDIA L40S-2Q",
                   "none of its 4 slots is free (2 hold a vGPU, 1 is being set or cleared, 1 could not be "
                   "cleared): try again in a moment");
}

static void
test_failed(void)
{
    g_autoptr(Model) model = model_new();
    VgpuCard *card = add_l40s(model, 2);

    load(model, card, 2, "1148", 2048, NOTHING);
    model_add_record(model, VF, VGPU_STATE_ASSIGNED);
    model_add_record(model, NEXT, VGPU_STATE_FAILED);
    assert_refused(model, "NVIDIA L40S-2Q",
                   "none of its 2 slots is free (1 holds a vGPU, 1 could not be cleared): reclaim what could "
                   "not be cleared");
}

static void
test_shared_group(void)
{
    g_autoptr(Model) model = model_new();
    VgpuCard *card = add_l40s(model, 2);

    model_slot(card, 0)->group_others = g_strsplit(NEXT, " ", -1);
    model_slot(card, 1)->group_others = g_strsplit(VF, " ", -1);
    assert_refused(
        model, "NVIDIA L40S-2Q",
        "none of its 2 slots is free (2 share their IOMMU groups with other devices): only root may have it");
    model_occupy(model_slot(card, 0), "1148", 2048);
    model_look(model);
    assert_refused(model, "NVIDIA L40S-2Q",
                   "none of its 2 slots is free (1 holds a vGPU, 1 shares its IOMMU group with a vGPU that "
                   "is taken): release one first");
}

static void
test_no_iommu(void)
{
    g_autoptr(Model) model = model_new();
    VgpuCard *card = add_l40s(model, 3);

    model_slot(card, 0)->iommu_group = -1;
    model_slot(card, 1)->noiommu = TRUE;
    model_slot(card, 2)->error = g_strdup("Input/output error");
    assert_refused(model, "NVIDIA L40S-2Q",
                   "none of its 3 slots is free (1 cannot be read, 1 has no IOMMU group, 1 has no IOMMU "
                   "behind it): switch the IOMMU on");
}

static void
test_the_only_slot_has_no_group(void)
{
    g_autoptr(Model) model = model_new();
    VgpuCard *card = add_l40s(model, 1);

    model_slot(card, 0)->iommu_group = -1;
    assert_refused(model, "NVIDIA L40S-2Q", "its only slot has no IOMMU group: switch the IOMMU on");
}

/* One slot is free, but only the other ones list it. */
static void
test_slots_that_list_it_are_not_free(void)
{
    g_autoptr(Model) model = model_new();
    VgpuCard *card = add_l40s(model, 3);

    model_slot(card, 0)->noiommu = TRUE;
    model_slot(card, 1)->noiommu = TRUE;
    model_set_types(model_slot(card, 2), "1147=NVIDIA_L40S-1Q=1024");
    model_look(model);
    assert_refused(model, "NVIDIA L40S-2Q",
                   "none of its 2 slots that list this profile is free (2 have no IOMMU behind them): switch "
                   "the IOMMU on");
}

/* ---- Refused by the driver ---- */

static void
test_driver_refused(void)
{
    g_autoptr(Model) model = model_new();
    g_autoptr(VgpuRequest) request = vgpu_request_new("NVIDIA L40S-2Q");
    g_autoptr(GHashTable) slots = g_hash_table_new(g_str_hash, g_str_equal);
    g_autoptr(GHashTable) cards = g_hash_table_new(g_str_hash, g_str_equal);
    VgpuTried tried = {slots, cards};

    add_l40s(model, 2);
    g_hash_table_add(slots, (gpointer)VF);
    g_hash_table_add(slots, (gpointer)NEXT);
    assert_refused_with(
        model, request, &tried,
        "every slot of it that lists this profile refused it just now: the log of the kernel may say why");
    g_hash_table_add(cards, (gpointer)CARD);
    assert_refused_with(model, request, &tried,
                        "its driver refused it just now: the log of the kernel may say why");
}

/* ---- Left out ---- */

static void
test_options(void)
{
    g_autoptr(Model) model = model_new();
    g_autoptr(VgpuRequest) request = vgpu_request_new("NVIDIA L40S-2Q");
    VgpuCard *card = add_l40s(model, 2);

    model_add_slot(model, model_add_card(model, OTHER, &vgpu_vendor_vfio), "0000:5e:00.4", "");
    model_look(model);
    request->gpu = g_strdup(OTHER);
    assert_refused_with(model, request, NULL, "the option gpu leaves it out: only 0000:5e:00.0 is asked for");
    g_clear_pointer(&request->gpu, g_free);

    request->has_numa_node = TRUE;
    request->numa_node = 1;
    assert_refused_with(model, request, NULL,
                        "the option numa-node leaves it out: it is on node 0, and node 1 is asked for");
    card->numa_node = -1;
    assert_refused_with(model, request, NULL,
                        "the option numa-node leaves it out: it is on no node, and node 1 is asked for");
    request->has_numa_node = FALSE;

    request->device = g_strdup("0000:5e:00.4");
    assert_refused_with(model, request, NULL, "the option device leaves it out: 0000:5e:00.4 is not on it");
    g_clear_pointer(&request->device, g_free);

    request->uuid = g_strdup("c1b7b4a4-4c1b-4f5d-9d2e-6a5f0c3e7a11");
    assert_refused_with(model, request, NULL,
                        "the option uuid leaves it out: its vGPUs are no mdevs and have no UUID");
}

static void
test_one_device(void)
{
    g_autoptr(Model) model = model_new();
    g_autoptr(VgpuRequest) request = vgpu_request_new("NVIDIA L40S-2Q");
    VgpuCard *card = add_l40s(model, 4);

    request->device = g_strdup(VF);
    model_slot(card, 0)->group_others = g_strsplit(NEXT, " ", -1);
    assert_refused_with(
        model, request, NULL,
        "0000:3b:00.4, which is asked for, shares its IOMMU group with other devices: only root may have it");
    g_clear_pointer(&model_slot(card, 0)->group_others, g_strfreev);
    model_set_types(model_slot(card, 0), "1147=NVIDIA_L40S-1Q=1024");
    model_look(model);
    assert_refused_with(model, request, NULL,
                        "it has 49152 MiB left, but 0000:3b:00.4, which is asked for, does not list this "
                        "profile now: take one that Profiles says is available");
    model_occupy(model_slot(card, 0), "1147", 1024);
    model_look(model);
    assert_refused_with(model, request, NULL,
                        "0000:3b:00.4, which is asked for, holds a vGPU: release it first");
    model_add_record(model, VF, VGPU_STATE_FAILED);
    assert_refused_with(
        model, request, NULL,
        "0000:3b:00.4, which is asked for, could not be cleared: reclaim what could not be cleared");
}

static void
test_card_without_it(void)
{
    g_autoptr(Model) model = model_new();
    VgpuCard *card = add_l40s(model, 2);

    model_add_slot(model, model_add_card(model, OTHER, &vgpu_vendor_vfio), "0000:5e:00.4",
                   "900=CARD-B-8Q=8192");
    model_look(model);
    model_occupy(model_slot_at(model, "0000:5e:00.4"), "900", 8192);
    model_look(model);
    assert_refused(model, "CARD-B-8Q", "it does not have this profile: Profiles says which cards do");
    card->reason = g_strdup("no virtual functions are enabled");
    assert_refused(model, "CARD-B-8Q", "it offers no vGPUs: no virtual functions are enabled");
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/refusal/full/all-slots-hold-one", test_all_slots_hold_one);
    g_test_add_func("/refusal/full/the-only-slot-holds-one", test_the_only_slot_holds_one);
    g_test_add_func("/refusal/full/no-memory-for-anything", test_no_memory_for_anything);
    g_test_add_func("/refusal/full/of-what-nobody-knows", test_full_of_the_unknown);
    g_test_add_func("/refusal/sizes/holds-others", test_other_sizes);
    g_test_add_func("/refusal/sizes/holds-others-and-was-never-empty",
                    test_other_sizes_of_a_card_that_is_not_known_whole);
    g_test_add_func("/refusal/sizes/mixed-and-too-little-memory", test_too_little_memory_of_mixed_sizes);
    g_test_add_func("/refusal/memory/left-but-no-slot-lists-it", test_memory_left_but_no_slot_lists_it);
    g_test_add_func("/refusal/memory/left-but-the-only-free-slot-does-not-list-it",
                    test_memory_left_but_the_only_free_slot_does_not_list_it);
    g_test_add_func("/refusal/memory/unknown-and-not-listed", test_nothing_on_it_and_not_listed);
    g_test_add_func("/refusal/memory/empty-and-offers-nothing", test_empty_and_offers_nothing);
    g_test_add_func("/refusal/memory/parent-offers-none", test_parent_that_offers_none);
    g_test_add_func("/refusal/slots/busy-and-failed", test_busy_and_failed);
    g_test_add_func("/refusal/slots/failed", test_failed);
    g_test_add_func("/refusal/slots/share-their-iommu-group", test_shared_group);
    g_test_add_func("/refusal/slots/no-iommu", test_no_iommu);
    g_test_add_func("/refusal/slots/the-only-one-has-no-group", test_the_only_slot_has_no_group);
    g_test_add_func("/refusal/slots/those-that-list-it-are-not-free", test_slots_that_list_it_are_not_free);
    g_test_add_func("/refusal/driver/said-no", test_driver_refused);
    g_test_add_func("/refusal/options/leave-it-out", test_options);
    g_test_add_func("/refusal/options/one-device", test_one_device);
    g_test_add_func("/refusal/card/does-not-have-it", test_card_without_it);
    return g_test_run();
}
