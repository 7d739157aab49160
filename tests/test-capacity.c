/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How many more really fit. */
#include "model.h"

#include <gio/gio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST "0000:3b:00.0"
#define SECOND "0000:5e:00.0"

/* On all cards together; -1 for unknown. */
static int
remaining(Model *model, const char *name)
{
    g_autoptr(VgpuRequest) request = vgpu_request_new(name);
    guint count;

    request->for_root = TRUE;
    return vgpu_placement_remaining(&model->host, request, name, &count) ? (int)count : -1;
}

#define assert_remaining(model, name, count) g_assert_cmpint(remaining(model, name), ==, count)

/* Two idle L40S of 32 virtual functions each. */
static Model *
two_l40s(void)
{
    Model *model = model_new();

    model_add_listed_card(model, FIRST, 32, "l40s-creatable.list");
    model_add_listed_card(model, SECOND, 32, "l40s-creatable.list");
    model_look(model);
    return model;
}

static VgpuCard *
card_at(Model *model, const char *address)
{
    return (VgpuCard *)vgpu_inventory_find_card(model->inventory, address);
}

static void
test_two_idle_cards(void)
{
    g_autoptr(Model) model = two_l40s();

    assert_remaining(model, "NVIDIA L40S-48Q", 2);
    assert_remaining(model, "NVIDIA L40S-24Q", 4);
    assert_remaining(model, "NVIDIA L40S-16A", 6);
    assert_remaining(model, "NVIDIA L40S-2Q", 48);
    assert_remaining(model, "NVIDIA L40S-1Q", 64);
}

static void
test_after_one_48q(void)
{
    g_autoptr(Model) model = two_l40s();
    VgpuCard *card = card_at(model, FIRST);

    model_occupy(model_slot(card, 0), "1156", 49152);
    model_list_on_free(card, "l40s-full-header-only.list");
    model_look(model);
    assert_remaining(model, "NVIDIA L40S-1Q", 32);
    assert_remaining(model, "NVIDIA L40S-48Q", 1);
}

static void
test_after_one_2q(void)
{
    g_autoptr(Model) model = two_l40s();
    VgpuCard *card = card_at(model, FIRST);

    model_occupy(model_slot(card, 0), "1148", 2048);
    model_list_on_free(card, "l40s-after-2q.list");
    model_look(model);
    assert_remaining(model, "NVIDIA L40S-2Q", 47);
    assert_remaining(model, "NVIDIA L40S-48Q", 1);
    assert_remaining(model, "NVIDIA L40S-1Q", 32);
}

/* Every type of every table: the whole of an idle card with enough virtual functions is its maximum. */
static guint
check_table(const char *name)
{
    g_autofree char *text = model_data(name);
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    g_autoptr(Model) model = model_new();
    g_autoptr(GString) catalogue = g_string_new(NULL);
    VgpuCard *card = model_add_card(model, FIRST, &vgpu_vendor_vfio);
    guint checked = 0;

    for (char **line = lines; *line; line++) {
        g_auto(GStrv) columns = g_strsplit(*line, "\t", -1);
        if (**line != '#' && columns[0])
            g_string_append_printf(catalogue, "%s : %s\n", columns[0], columns[1]);
    }
    for (guint i = 0; i < 64; i++) {
        g_autofree char *vf = g_strdup_printf("0000:3b:%02x.%x", (i + 4) / 8, (i + 4) % 8);
        model_set_catalogue(model_add_slot(model, card, vf, ""), catalogue->str);
    }
    model_look(model);
    for (char **line = lines; *line; line++) {
        g_auto(GStrv) columns = g_strsplit(*line, "\t", -1);

        if (**line == '#' || !columns[0])
            continue;
        g_test_message("%s: %s", name, columns[1]);
        /* A maximum below what memory leaves is that of the virtual functions: 32 of 1Q. */
        if (atoi(columns[8]) == 32)
            g_assert_cmpint(remaining(model, columns[1]), >=, 32);
        else
            assert_remaining(model, columns[1], atoi(columns[8]));
        checked++;
    }
    return checked;
}

static void
test_every_type_of_every_table(void)
{
    g_autofree char *folder = g_test_build_filename(G_TEST_DIST, "data", NULL);
    g_autoptr(GDir) dir = g_dir_open(folder, 0, NULL);
    const char *name;
    guint checked = 0;

    while ((name = g_dir_read_name(dir))) {
        if (g_str_has_suffix(name, ".types.tsv"))
            checked += check_table(name);
    }
    g_test_message("%u types", checked);
    g_assert_cmpuint(checked, >, 80);
}

/* ---- What is unknown is not guessed ---- */

/* A card that never was empty since the service started. */
static void
test_unknown_total_is_absent(void)
{
    g_autoptr(Model) model = model_new();
    VgpuCard *card = model_add_listed_card(model, FIRST, 32, "l40s-after-2q.list");
    guint64 left;

    model_occupy(model_slot(card, 0), "1148", 2048);
    model_look(model);
    assert_remaining(model, "NVIDIA L40S-2Q", -1);
    assert_remaining(model, "NVIDIA L40S-48Q", 0); /* listed nowhere */
    g_assert_false(vgpu_capacity_left(&model->host, card, &left));
}

static void
test_one_that_lists_it_is_one(void)
{
    g_autoptr(Model) model = model_new();
    VgpuCard *card = model_add_listed_card(model, FIRST, 2, "l40s-after-2q.list");

    model_occupy(model_slot(card, 0), "1148", 2048);
    model_look(model);
    assert_remaining(model, "NVIDIA L40S-2Q", 1);
}

static void
test_divided_card_is_absent(void)
{
    g_autoptr(Model) model = model_new();

    model_add_listed_card(model, FIRST, 16, "h200x-partial.list");
    model_look(model);
    assert_remaining(model, "NVIDIA H200X-141C", 1);
    assert_remaining(model, "NVIDIA H200X-1-18C", -1);
}

static void
test_unknown_size_beside_it_is_absent(void)
{
    g_autoptr(Model) model = two_l40s();
    VgpuCard *card = card_at(model, FIRST);
    guint64 assigned;

    model_occupy(model_slot(card, 0), "9", 0);
    model_look(model);
    assert_remaining(model, "NVIDIA L40S-2Q", -1);
    g_assert_false(vgpu_capacity_assigned(card, &assigned));
}

static void
test_broken_slot_is_absent(void)
{
    g_autoptr(Model) model = two_l40s();

    model_slot(card_at(model, FIRST), 3)->error = g_strdup("Input/output error");
    model_look(model);
    assert_remaining(model, "NVIDIA L40S-2Q", -1);
}

/* ---- What bounds it ---- */

static void
test_slots_bound_it(void)
{
    g_autoptr(Model) model = model_new();

    model_add_listed_card(model, FIRST, 4, "l40s-creatable.list");
    model_look(model);
    assert_remaining(model, "NVIDIA L40S-2Q", 4);
    model_add_record(model, "0000:3b:00.4", VGPU_STATE_FAILED);
    assert_remaining(model, "NVIDIA L40S-2Q", 3);
    model_slot(card_at(model, FIRST), 1)->noiommu = TRUE;
    assert_remaining(model, "NVIDIA L40S-2Q", 2);
}

/* The maximum of a type counts all vGPUs of its size, whatever their series. */
static void
test_maximum_bounds_it(void)
{
    g_autoptr(Model) model = model_new();
    g_autoptr(GPtrArray) cards = g_ptr_array_new_with_free_func((GDestroyNotify)vgpu_nvml_card_free);
    g_auto(GStrv) asked = NULL;
    VgpuNvmlCard *nvml = vgpu_nvml_card_new(FIRST, NULL);
    VgpuCard *card = model_add_listed_card(model, FIRST, 32, "l40s-after-2q.list");

    model_occupy(model_slot(card, 0), "1148", 2048);
    model_occupy(model_slot(card, 1), "1146", 2048);
    model_look(model);
    asked = vgpu_memory_take_unasked(model->memory, model->inventory);
    vgpu_nvml_card_add_type(nvml, 1148, "NVIDIA L40S-2Q", 2048, 20);
    vgpu_nvml_card_add_type(nvml, 1156, "NVIDIA L40S-48Q", 49152, 1);
    g_ptr_array_add(cards, nvml);
    g_assert_true(vgpu_memory_take_answer(model->memory, cards));
    model_look(model);
    assert_remaining(model, "NVIDIA L40S-2Q", 18);
    assert_remaining(model, "NVIDIA L40S-2B", 22); /* memory */
}

/* Sizes mixed on one card: what is left decides. */
static void
test_mixed_sizes(void)
{
    g_autoptr(Model) model = model_new();
    VgpuCard *card = model_add_listed_card(model, FIRST, 32, "l40s-creatable.list");
    guint64 left;

    model_look(model);
    model_occupy(model_slot(card, 0), "1155", 24576);
    model_occupy(model_slot(card, 1), "1148", 2048);
    model_look(model);
    g_assert_true(vgpu_capacity_left(&model->host, card, &left));
    g_assert_cmpuint(left, ==, 22528);
    assert_remaining(model, "NVIDIA L40S-2Q", 11);
    assert_remaining(model, "NVIDIA L40S-16Q", 1);
    assert_remaining(model, "NVIDIA L40S-1Q", 22);
}

/* The driver of a card that is itself the parent counts; its virtual functions do not. */
static void
test_parents_of_mdevs(void)
{
    g_autoptr(Model) model = model_new();
    VgpuCard *t4 = model_add_card(model, FIRST, &vgpu_mdev);
    VgpuCard *a2 = model_add_card(model, SECOND, &vgpu_mdev);
    VgpuSlot *parent =
        model_add_slot(model, t4, FIRST, "nvidia-231=GRID_T4-2Q=2048 nvidia-234=GRID_T4-16Q=16384");
    VgpuType *type = g_ptr_array_index(parent->types, 0);
    guint slots, free_slots;

    parent->multiple = TRUE;
    type->available = 7;
    for (guint i = 0; i < 16; i++) {
        g_autofree char *vf = g_strdup_printf("0000:5e:%02x.%x", (i + 4) / 8, (i + 4) % 8);
        VgpuSlot *slot =
            model_add_slot(model, a2, vf, "nvidia-1=NVIDIA_A2-2Q=2048 nvidia-2=NVIDIA_A2-16Q=16384");
        ((VgpuType *)slot->types->pdata[0])->max_instances = 8;
    }
    model_look(model);
    assert_remaining(model, "GRID T4-2Q", 7);
    assert_remaining(model, "NVIDIA A2-2Q", 8); /* of 16 functions that each would take one */
    assert_remaining(model, "NVIDIA A2-16Q", 1);
    vgpu_capacity_slots(&model->host, t4, &slots, &free_slots);
    g_assert_cmpuint(slots, ==, 7);
    g_assert_cmpuint(free_slots, ==, 7);
}

static void
test_options_bound_it(void)
{
    g_autoptr(Model) model = two_l40s();
    g_autoptr(VgpuRequest) request = vgpu_request_new("NVIDIA L40S-2Q");
    guint count;

    card_at(model, SECOND)->numa_node = 1;
    request->has_numa_node = TRUE;
    request->numa_node = 1;
    g_assert_true(vgpu_placement_remaining(&model->host, request, "NVIDIA L40S-2Q", &count));
    g_assert_cmpuint(count, ==, 24);
    request->device = g_strdup("0000:5e:00.5");
    g_assert_true(vgpu_placement_remaining(&model->host, request, "NVIDIA L40S-2Q", &count));
    g_assert_cmpuint(count, ==, 1);
}

static void
test_sizes_are_in_order(void)
{
    static const guint64 put[] = {8192, 0, 2048, 8192};
    static const VgpuSizeCount expected[] = {{2048, 1}, {8192, 2}, {0, 1}};
    g_autoptr(Model) model = two_l40s();
    VgpuCard *card = card_at(model, FIRST);
    g_autoptr(GArray) sizes = NULL;

    for (guint i = 0; i < G_N_ELEMENTS(put); i++)
        model_occupy(model_slot(card, i), NULL, put[i]);
    sizes = vgpu_capacity_sizes(card);
    g_assert_cmpuint(sizes->len, ==, G_N_ELEMENTS(expected));
    for (guint i = 0; i < sizes->len; i++) {
        g_assert_cmpuint(g_array_index(sizes, VgpuSizeCount, i).mib, ==, expected[i].mib);
        g_assert_cmpuint(g_array_index(sizes, VgpuSizeCount, i).vgpus, ==, expected[i].vgpus);
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/capacity/remaining/two-idle-l40s", test_two_idle_cards);
    g_test_add_func("/capacity/remaining/after-one-48q", test_after_one_48q);
    g_test_add_func("/capacity/remaining/after-one-2q", test_after_one_2q);
    g_test_add_func("/capacity/remaining/of-every-type-in-the-tables", test_every_type_of_every_table);
    g_test_add_func("/capacity/unknown/total-is-absent", test_unknown_total_is_absent);
    g_test_add_func("/capacity/unknown/but-one-slot-that-lists-it-is-one", test_one_that_lists_it_is_one);
    g_test_add_func("/capacity/unknown/divided-card", test_divided_card_is_absent);
    g_test_add_func("/capacity/unknown/vgpu-of-unknown-size-beside-it",
                    test_unknown_size_beside_it_is_absent);
    g_test_add_func("/capacity/unknown/slot-that-cannot-be-read", test_broken_slot_is_absent);
    g_test_add_func("/capacity/bounds/free-slots", test_slots_bound_it);
    g_test_add_func("/capacity/bounds/maximum-of-its-size", test_maximum_bounds_it);
    g_test_add_func("/capacity/bounds/memory-of-mixed-sizes", test_mixed_sizes);
    g_test_add_func("/capacity/bounds/parents-of-mdevs", test_parents_of_mdevs);
    g_test_add_func("/capacity/bounds/options", test_options_bound_it);
    g_test_add_func("/capacity/sizes/are-in-order-and-unknown-last", test_sizes_are_in_order);
    return g_test_run();
}
