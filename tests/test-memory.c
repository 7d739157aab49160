/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What is remembered of cards, where a name and a size come from, and when it is all forgotten. */
#include "model.h"

#include <gio/gio.h>
#include <string.h>

#define CARD "0000:3b:00.0"
#define OTHER "0000:5e:00.0"
#define BOOT "5c1a7b1e0d7f4d0c8a1f3b2e9c4d6f80"

#define LISTED "1147=NVIDIA_L40S-1Q=1024 1148=NVIDIA_L40S-2Q=2048 1156=NVIDIA_L40S-48Q=49152"

static VgpuCard *
add_card(Model *model, const char *address, const char *types)
{
    VgpuCard *card = model_add_card(model, address, &vgpu_vendor_vfio);

    for (guint i = 4; i < 7; i++) {
        g_autofree char *vf = g_strdup_printf("%.11s%u", address, i);
        model_add_slot(model, card, vf, types);
    }
    return card;
}

/* Everything on @card lists @types. */
static void
list(VgpuCard *card, const char *types)
{
    for (guint i = 0; i < card->slots->len; i++)
        model_set_types(model_slot(card, i), types);
}

static const VgpuType *
known(Model *model, const char *address, const char *name)
{
    return vgpu_capacity_find_type(vgpu_memory_types(model->memory, address), name);
}

/* NVML's answer to the question that is open: one card with these types. */
static gboolean
answer(Model *model, const char *address, const char *types)
{
    g_autoptr(GPtrArray) cards = g_ptr_array_new_with_free_func((GDestroyNotify)vgpu_nvml_card_free);
    VgpuNvmlCard *card = vgpu_nvml_card_new(address, "NVIDIA L40S");
    g_auto(GStrv) words = g_strsplit(types, " ", -1);

    for (char **word = words; *word && **word; word++) {
        g_auto(GStrv) parts = g_strsplit(*word, "=", 4);

        vgpu_nvml_card_add_type(card, (guint32)atoi(parts[0]), g_strdelimit(parts[1], "_", ' '),
                                g_ascii_strtoull(parts[2], NULL, 10), (guint)atoi(parts[3]));
    }
    g_ptr_array_add(cards, card);
    return vgpu_memory_take_answer(model->memory, cards);
}

static guint
ask(Model *model)
{
    g_auto(GStrv) addresses = vgpu_memory_take_unasked(model->memory, model->inventory);

    return g_strv_length(addresses);
}

/* ---- What the card has shown ---- */

static void
test_name_of_a_full_card(void)
{
    g_autoptr(Model) model = model_new();
    VgpuCard *card = add_card(model, CARD, LISTED);
    VgpuDevice *device;

    model_look(model);
    list(card, "");
    device = model_occupy(model_slot(card, 0), "1156", 0);
    model_look(model);
    g_assert_cmpstr(device->name, ==, "NVIDIA L40S-48Q");
    g_assert_cmpuint(device->framebuffer_mib, ==, 49152);
    g_assert_nonnull(known(model, CARD, "NVIDIA L40S-1Q"));
}

static void
test_another_cards_name_is_never_taken(void)
{
    g_autoptr(Model) model = model_new();
    VgpuCard *card = add_card(model, CARD, "");
    VgpuDevice *device = model_occupy(model_slot(card, 0), "900", 0);

    add_card(model, OTHER, "900=CARD-B-8Q=8192");
    model_look(model);
    g_assert_null(device->name);
    g_assert_cmpuint(device->framebuffer_mib, ==, 0);
    g_assert_cmpstr(device->type_id, ==, "900");
    g_assert_null(vgpu_memory_types(model->memory, CARD));
    g_assert_nonnull(known(model, OTHER, "CARD-B-8Q"));
}

static void
test_siblings_of_a_card_tell(void)
{
    g_autoptr(Model) model = model_new();
    VgpuCard *card = add_card(model, CARD, "1146=NVIDIA_L40S-2B=2048 1148=NVIDIA_L40S-2Q=2048");
    VgpuDevice *device = model_occupy(model_slot(card, 1), "1148", 0);

    model_look(model);
    g_assert_cmpstr(device->name, ==, "NVIDIA L40S-2Q");
}

static void
test_record_tells(void)
{
    g_autoptr(Model) model = model_new();
    VgpuCard *card = add_card(model, CARD, "");
    VgpuDevice *device = model_occupy(model_slot(card, 0), "1148", 0);
    VgpuAssignment *record = model_add_record(model, "0000:3b:00.4", VGPU_STATE_ASSIGNED);

    device->inode = 77;
    record->device->inode = 78;
    record->device->type_id = g_strdup("1148");
    record->device->name = g_strdup("NVIDIA L40S-2Q");
    record->device->framebuffer_mib = 2048;
    model_look(model);
    g_assert_null(device->name); /* that was another device at this place */
    record->device->inode = 77;
    model_look(model);
    g_assert_cmpstr(device->name, ==, "NVIDIA L40S-2Q");
    g_assert_cmpuint(device->framebuffer_mib, ==, 2048);
}

/* ---- What it has in all ---- */

static void
test_framebuffer_is_learnt_while_empty(void)
{
    g_autoptr(Model) model = model_new();
    VgpuCard *card = add_card(model, CARD, "1148=NVIDIA_L40S-2Q=2048");

    model_occupy(model_slot(card, 0), "1148", 2048);
    model_look(model);
    g_assert_cmpuint(vgpu_memory_framebuffer(model->memory, CARD), ==, 0);
    g_assert_false(vgpu_memory_is_whole(model->memory, CARD));

    g_ptr_array_set_size(model_slot(card, 0)->devices, 0);
    list(card, LISTED);
    model_look(model);
    g_assert_cmpuint(vgpu_memory_framebuffer(model->memory, CARD), ==, 49152);
    g_assert_true(vgpu_memory_is_whole(model->memory, CARD));

    list(card, "1148=NVIDIA_L40S-2Q=2048");
    model_occupy(model_slot(card, 0), "1148", 2048);
    model_look(model);
    g_assert_cmpuint(vgpu_memory_framebuffer(model->memory, CARD), ==, 49152);
}

typedef struct {
    const char *types;
    guint64 framebuffer;
} Listed;

static void
test_framebuffer_is_not_guessed(void)
{
    static const Listed cases[] = {
        {"1=X-2Q=2048 2=X-8Q=8192", 8192},
        {"1=X-1-2Q=2048 2=X-2-8Q=8192", 0}, /* divided: parts say nothing of the whole */
        {"1=X-1-2Q=2048 2=X-8Q=8192", 8192},
        {"1=X-2Q=2048 2=X-DC-4-96=0", 0},    /* the largest may be the one that says nothing */
        {"i915-GVTg_V5_4=GVTg_V5_4=640", 0}, /* no type there is the whole card */
        {"", 0},
    };

    for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(Model) model = model_new();

        add_card(model, CARD, cases[i].types);
        model_look(model);
        g_test_message("%s", cases[i].types);
        g_assert_cmpuint(vgpu_memory_framebuffer(model->memory, CARD), ==, cases[i].framebuffer);
    }
}

static void
test_broken_slot_is_not_empty(void)
{
    g_autoptr(Model) model = model_new();
    VgpuCard *card = add_card(model, CARD, LISTED);

    model_slot(card, 2)->error = g_strdup("Input/output error");
    model_look(model);
    g_assert_cmpuint(vgpu_memory_framebuffer(model->memory, CARD), ==, 0);
    g_assert_false(vgpu_memory_is_whole(model->memory, CARD));
}

/* ---- When it is forgotten ---- */

static void
test_other_devices_are_unknown(void)
{
    g_autoptr(Model) model = model_new();
    VgpuCard *card = add_card(model, CARD, LISTED);
    VgpuDevice *device;

    model_look(model);
    list(card, "");
    model_slot(card, 2)->inode = 4711;
    device = model_occupy(model_slot(card, 0), "1156", 0);
    model_look(model);
    g_assert_null(device->name);
    g_assert_null(vgpu_memory_types(model->memory, CARD));
    g_assert_cmpuint(vgpu_memory_framebuffer(model->memory, CARD), ==, 0);
}

static void
test_driver_loaded_anew_is_unknown(void)
{
    g_autoptr(Model) model = model_new();
    VgpuCard *card = add_card(model, CARD, LISTED);

    model_look(model);
    list(card, "");
    model_slot(card, 0)->attributes_inode = 4711;
    model_look(model);
    g_assert_null(vgpu_memory_types(model->memory, CARD));
}

static void
test_other_cards_stay_known(void)
{
    g_autoptr(Model) model = model_new();
    VgpuCard *card = add_card(model, CARD, LISTED);

    add_card(model, OTHER, LISTED);
    model_look(model);
    list(card, "");
    model_slot(card, 0)->inode = 4711;
    model_look(model);
    g_assert_null(vgpu_memory_types(model->memory, CARD));
    g_assert_nonnull(known(model, OTHER, "NVIDIA L40S-48Q"));
}

/* ---- NVML ---- */

static void
test_nvml_is_asked_once(void)
{
    g_autoptr(Model) model = model_new();
    VgpuCard *card = add_card(model, CARD, LISTED);
    VgpuCard *other = add_card(model, OTHER, LISTED);

    other->nvidia = FALSE; /* nothing that NVML knows */
    model_look(model);
    g_assert_cmpuint(ask(model), ==, 1);
    model_look(model);
    g_assert_cmpuint(ask(model), ==, 0);
    model_slot(card, 0)->inode = 4711;
    model_look(model);
    g_assert_cmpuint(ask(model), ==, 1);
    g_assert_true(answer(model, CARD, "1148=NVIDIA_L40S-2Q=2048=24"));
    g_assert_cmpuint(ask(model), ==, 0);
}

static void
test_nvml_names_what_no_catalogue_shows(void)
{
    g_autoptr(Model) model = model_new();
    VgpuCard *card = add_card(model, CARD, "");
    VgpuDevice *device = model_occupy(model_slot(card, 0), "1156", 0);
    VgpuDevice *strange = model_occupy(model_slot(card, 1), "9", 0);

    model_look(model);
    g_assert_cmpuint(ask(model), ==, 1);
    g_assert_true(answer(model, CARD, "1148=NVIDIA_L40S-2Q=2048=24 1156=NVIDIA_L40S-48Q=49140=1"));
    model_look(model);
    g_assert_cmpstr(device->name, ==, "NVIDIA L40S-48Q");
    g_assert_cmpuint(device->framebuffer_mib, ==, 49140);
    g_assert_null(strange->name);
    g_assert_cmpuint(vgpu_memory_framebuffer(model->memory, CARD), ==, 49140);
    g_assert_cmpstr(vgpu_memory_card_name(model->memory, CARD), ==, "NVIDIA L40S");
    g_assert_true(vgpu_memory_is_whole(model->memory, CARD));
    g_assert_nonnull(known(model, CARD, "NVIDIA L40S-2Q"));
}

/* Its sizes come first, its names last; and once the card was seen empty, its list adds nothing. */
static void
test_nvml_beside_a_catalogue(void)
{
    g_autoptr(Model) model = model_new();
    VgpuCard *card = add_card(model, CARD, "1148=NVIDIA_L40S-2Q=2048 94=NVIDIA_H100L-94C=96256");
    const VgpuType *type;

    model_look(model);
    g_assert_cmpuint(ask(model), ==, 1);
    g_assert_true(answer(model, CARD, "94=OTHER_NAME-94C=96246=1 95=NVIDIA_H100L-1-12C=12288=7"));
    model_look(model);
    type = known(model, CARD, "NVIDIA H100L-94C");
    g_assert_cmpuint(type->framebuffer_mib, ==, 96246);
    g_assert_cmpuint(type->max_instances, ==, 1);
    g_assert_null(known(model, CARD, "OTHER NAME-94C"));
    g_assert_null(known(model, CARD, "NVIDIA H100L-1-12C"));
    type = g_ptr_array_index(model_slot(card, 0)->types, 1);
    g_assert_cmpuint(type->framebuffer_mib, ==, 96246);
    g_assert_cmpuint(vgpu_memory_framebuffer(model->memory, CARD), ==, 96246);
}

static void
test_nvml_of_devices_of_before_is_dropped(void)
{
    g_autoptr(Model) model = model_new();
    VgpuCard *card = add_card(model, CARD, "");

    model_look(model);
    g_assert_cmpuint(ask(model), ==, 1);
    model_slot(card, 0)->inode = 4711;
    model_look(model);
    g_assert_false(answer(model, CARD, "1148=NVIDIA_L40S-2Q=2048=24"));
    g_assert_null(vgpu_memory_types(model->memory, CARD));
    g_assert_cmpuint(ask(model), ==, 1);
}

static void
test_nvml_numbers_are_spelled_as_the_framework_does(void)
{
    g_autoptr(Model) model = model_new();
    VgpuCard *card = model_add_card(model, CARD, &vgpu_mdev);
    VgpuSlot *slot = model_add_slot(model, card, "0000:3b:00.4", "");
    VgpuDevice *device = model_occupy(slot, "nvidia-558", 0);
    const VgpuType *type;

    model_look(model);
    ask(model);
    g_assert_true(answer(model, CARD, "558=NVIDIA_A40-2Q=2048=24"));
    model_look(model);
    g_assert_cmpstr(device->name, ==, "NVIDIA A40-2Q");
    type = known(model, CARD, "NVIDIA A40-2Q");
    g_assert_cmpstr(type->id, ==, "nvidia-558");
}

/* ---- The file ---- */

/* A host with all there is to remember, after @model was written down and read by another run. */
static void
remember(Model *from, Model *to, const char *boot_id)
{
    g_autofree char *text = vgpu_memory_format(from->memory, BOOT);
    g_autoptr(GError) error = NULL;

    g_assert_true(vgpu_memory_parse(to->memory, text, strlen(text), boot_id, &error));
    g_assert_no_error(error);
}

static void
fill(Model *model)
{
    add_card(model, CARD, LISTED);
    add_card(model, OTHER, "900=ODD;\\NAME_#=[1]-8Q=8192");
    model_look(model);
    ask(model);
    answer(model, CARD, "1148=NVIDIA_L40S-2Q=2048=24 1156=NVIDIA_L40S-48Q=49140=1");
    model_look(model);
}

/* The same host later: nothing is listed any more. */
static VgpuDevice *
fill_later(Model *model)
{
    VgpuCard *card = add_card(model, CARD, "");

    add_card(model, OTHER, "");
    return model_occupy(model_slot(card, 0), "1147", 0);
}

static void
test_survives_a_restart(void)
{
    g_autoptr(Model) before = model_new();
    g_autoptr(Model) after = model_new();
    VgpuDevice *device;
    const GPtrArray *types;

    fill(before);
    remember(before, after, BOOT);
    device = fill_later(after);
    model_look(after);
    g_assert_cmpstr(device->name, ==, "NVIDIA L40S-1Q");
    g_assert_cmpuint(vgpu_memory_framebuffer(after->memory, CARD), ==, 49140);
    g_assert_cmpuint(vgpu_memory_framebuffer(after->memory, OTHER), ==,
                     vgpu_memory_framebuffer(before->memory, OTHER));
    g_assert_cmpstr(vgpu_memory_card_name(after->memory, CARD), ==, "NVIDIA L40S");
    g_assert_true(vgpu_memory_is_whole(after->memory, CARD));
    g_assert_cmpuint(ask(after), ==, 1); /* of the other card only */
    types = vgpu_memory_types(before->memory, OTHER);
    g_assert_nonnull(known(after, OTHER, ((VgpuType *)types->pdata[0])->name));
}

static void
test_another_boot_is_void(void)
{
    g_autoptr(Model) before = model_new();
    g_autoptr(Model) after = model_new();

    fill(before);
    remember(before, after, "00000000000000000000000000000001");
    fill_later(after);
    model_look(after);
    g_assert_null(vgpu_memory_types(after->memory, CARD));
}

static void
test_changed_card_is_forgotten_over_a_restart(void)
{
    g_autoptr(Model) before = model_new();
    g_autoptr(Model) after = model_new();
    VgpuDevice *device;

    fill(before);
    remember(before, after, BOOT);
    device = fill_later(after);
    model_slot_at(after, "0000:3b:00.6")->inode = 4711;
    model_look(after);
    g_assert_null(device->name);
    g_assert_null(vgpu_memory_types(after->memory, CARD));
    g_assert_nonnull(vgpu_memory_types(after->memory, OTHER));
}

static void
assert_refused(const char *text, gsize length)
{
    g_autoptr(VgpuMemory) memory = vgpu_memory_new();
    g_autoptr(GError) error = NULL;

    g_assert_false(vgpu_memory_parse(memory, text, length, BOOT, &error));
    g_assert_nonnull(error);
    g_assert_null(vgpu_memory_types(memory, CARD));
}

/* Cut anywhere, or with any byte changed. */
static void
test_damaged_is_refused(void)
{
    g_autoptr(Model) model = model_new();
    g_autofree char *text = NULL;
    gsize length;

    fill(model);
    text = vgpu_memory_format(model->memory, BOOT);
    length = strlen(text);
    for (gsize i = 0; i < length; i += 7) {
        g_autofree char *copy = g_strdup(text);

        assert_refused(text, i);
        copy[i] ^= 1;
        assert_refused(copy, length);
    }
    assert_refused("", 0);
    assert_refused("hypeman-vgpu-memory 1 0\n", 24);
}

static void
test_version_grows_with_what_is_written(void)
{
    g_autoptr(Model) model = model_new();
    VgpuCard *card = add_card(model, CARD, "1148=NVIDIA_L40S-2Q=2048");
    guint version = vgpu_memory_version(model->memory);

    model_look(model);
    g_assert_cmpuint(vgpu_memory_version(model->memory), >, version);
    version = vgpu_memory_version(model->memory);
    model_look(model);
    g_assert_cmpuint(vgpu_memory_version(model->memory), ==, version);
    list(card, LISTED);
    model_look(model);
    g_assert_cmpuint(vgpu_memory_version(model->memory), >, version);
    version = vgpu_memory_version(model->memory);
    ask(model);
    g_assert_cmpuint(vgpu_memory_version(model->memory), ==, version);
    answer(model, CARD, "1148=NVIDIA_L40S-2Q=2048=24");
    g_assert_cmpuint(vgpu_memory_version(model->memory), >, version);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/memory/names/a-full-card-keeps-them", test_name_of_a_full_card);
    g_test_add_func("/memory/names/another-cards-is-never-taken", test_another_cards_name_is_never_taken);
    g_test_add_func("/memory/names/siblings-of-a-card-tell", test_siblings_of_a_card_tell);
    g_test_add_func("/memory/names/record-of-the-same-device-tells", test_record_tells);
    g_test_add_func("/memory/framebuffer/is-learnt-while-the-card-is-empty",
                    test_framebuffer_is_learnt_while_empty);
    g_test_add_func("/memory/framebuffer/is-not-guessed", test_framebuffer_is_not_guessed);
    g_test_add_func("/memory/framebuffer/broken-slot-is-not-an-empty-one", test_broken_slot_is_not_empty);
    g_test_add_func("/memory/forgets/other-devices", test_other_devices_are_unknown);
    g_test_add_func("/memory/forgets/driver-loaded-anew", test_driver_loaded_anew_is_unknown);
    g_test_add_func("/memory/forgets/but-other-cards-stay-known", test_other_cards_stay_known);
    g_test_add_func("/memory/nvml/is-asked-once-until-devices-change", test_nvml_is_asked_once);
    g_test_add_func("/memory/nvml/names-what-no-catalogue-shows", test_nvml_names_what_no_catalogue_shows);
    g_test_add_func("/memory/nvml/sizes-come-first-and-names-last", test_nvml_beside_a_catalogue);
    g_test_add_func("/memory/nvml/answer-about-devices-of-before-is-dropped",
                    test_nvml_of_devices_of_before_is_dropped);
    g_test_add_func("/memory/nvml/numbers-are-spelled-as-the-framework-does",
                    test_nvml_numbers_are_spelled_as_the_framework_does);
    g_test_add_func("/memory/file/survives-a-restart", test_survives_a_restart);
    g_test_add_func("/memory/file/of-another-boot-is-void", test_another_boot_is_void);
    g_test_add_func("/memory/file/changed-card-is-forgotten", test_changed_card_is_forgotten_over_a_restart);
    g_test_add_func("/memory/file/damaged-is-refused-at-every-byte", test_damaged_is_refused);
    g_test_add_func("/memory/file/version-grows-with-what-is-written",
                    test_version_grows_with_what_is_written);
    return g_test_run();
}
