/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* True names and true capacity, of hosts that are full, mixed or odd. */
#include "host.h"

#include <glib/gstdio.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-hwdb.h>
#include <unistd.h>

#define FIRST "0000:3b:00.0"
#define SECOND "0000:5e:00.0"
#define HEADER "ID    : vGPU Name\n"

static char *
data_file(const char *name)
{
    return g_test_build_filename(G_TEST_DIST, "data", name, NULL);
}

/* ---- The library ---- */

/* From the next start on the service finds @built (a file in the build folder) as NVIDIA's library, which
 * does as @mode says and knows @cards (as in fake-nvml.c). */
static void
install_library(Host *host, const char *built, const char *mode, const char *cards)
{
    g_autofree char *folder = host_file(host, "lib");
    g_autofree char *link = g_build_filename(folder, "libnvidia-ml.so.1", NULL);
    g_autofree char *path = g_test_build_filename(G_TEST_BUILT, built, NULL);
    g_autofree char *absolute = g_canonicalize_filename(path, NULL);

    g_assert_cmpint(g_mkdir_with_parents(folder, 0755), ==, 0);
    g_assert_true(g_file_test(absolute, G_FILE_TEST_EXISTS));
    g_unlink(link);
    g_assert_cmpint(symlink(absolute, link), ==, 0);
    host_set_environment(host, "LD_LIBRARY_PATH", folder);
    host_set_environment(host, "FAKE_NVML_MODE", mode);
    host_set_environment(host, "FAKE_NVML_CARDS", cards);
}

/* It knows both cards as @name, with the types of one file of the data. */
static void
install_library_of(Host *host, const char *name, const char *types)
{
    g_autofree char *path = data_file(types);
    g_autofree char *cards = g_strdup_printf(FIRST "=%s=%s;" SECOND "=%s=%s", name, path, name, path);

    install_library(host, "libfake-nvml.so", "", cards);
}

static guint
count_in_log(Host *host, const char *text)
{
    g_autofree char *log = host_log(host);
    guint count = 0;

    for (const char *at = log; (at = strstr(at, text)); at += strlen(text))
        count++;
    return count;
}

/* The children that the service has now, as "12 13 "; "" for none. */
static char *
children(Host *host)
{
    g_autofree char *tasks = g_strdup_printf("/proc/%d/task", host_pid(host));
    g_autoptr(GDir) dir = g_dir_open(tasks, 0, NULL);
    GString *all = g_string_new(NULL);
    const char *task;

    while ((task = g_dir_read_name(dir))) {
        g_autofree char *path = g_build_filename(tasks, task, "children", NULL);
        g_autofree char *text = NULL;

        if (g_file_get_contents(path, &text, NULL, NULL))
            g_string_append(all, text);
    }
    return g_string_free(all, FALSE);
}

/* ---- What the service says ---- */

static gint64
profile_number(Client *client, const char *profile, const char *key)
{
    g_autoptr(GVariant) rows = client_get(client, "Profiles");
    g_autoptr(GVariant) row = row_find(rows, "Name", profile);

    return row ? row_number(row, key) : -2;
}

#define assert_profile(client, profile, key, number)                                                         \
    g_assert_cmpint(profile_number(client, profile, key), ==, number)

static char *
gpu_name(Client *client, const char *card)
{
    g_autoptr(GVariant) row = client_gpu(client, card);

    return g_strdup(row_string(row, "Name"));
}

static gboolean
gpu_is_named(Client *client, const char *card, const char *name)
{
    g_autofree char *said = gpu_name(client, card);

    return strcmp(said, name) == 0;
}

/* The row of the occupied slot @device of @card, NULL when it is not occupied. */
static GVariant *
occupied(Client *client, const char *card, const char *device)
{
    g_autoptr(GVariant) row = client_gpu(client, card);
    g_autoptr(GVariant) rows = g_variant_lookup_value(row, "Occupied", G_VARIANT_TYPE("aa{sv}"));

    return row_find(rows, "Device", device);
}

/* How many occupied slots of @card have profile @name ("" for those without a name). */
static guint
count_named(Client *client, const char *card, const char *name)
{
    g_autoptr(GVariant) row = client_gpu(client, card);
    g_autoptr(GVariant) rows = g_variant_lookup_value(row, "Occupied", G_VARIANT_TYPE("aa{sv}"));
    guint count = 0;

    for (gsize i = 0; i < g_variant_n_children(rows); i++) {
        g_autoptr(GVariant) slot = g_variant_get_child_value(rows, i);
        count += strcmp(row_string(slot, "Profile"), name) == 0;
    }
    return count;
}

static GVariant *
plan(Client *client, const char *profile, const char *options)
{
    GVariant *parsed = g_variant_new_parsed(options ? options : "@a{sv} {}");
    g_autoptr(GError) error = NULL;
    g_autoptr(GVariant) reply =
        client_call(client, "Plan", g_variant_new("(s@a{sv})", profile, parsed), &error);

    g_assert_no_error(error);
    return g_variant_get_child_value(reply, 0);
}

static char *
reason(Client *client, const char *profile, const char *options, const char *card)
{
    g_autoptr(GVariant) row = plan(client, profile, options);
    g_autoptr(GVariant) reasons = g_variant_lookup_value(row, "Reasons", G_VARIANT_TYPE("a{ss}"));
    char *sentence = NULL;

    g_assert_nonnull(reasons);
    g_assert_true(g_variant_lookup(reasons, card, "s", &sentence));
    return sentence;
}

/* The text of Assign's NoCapacity. */
static char *
no_capacity(Client *client, const char *profile)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *id = client_assign(client, profile, NULL, NULL, &error);

    g_assert_null(id);
    assert_error(error, "NoCapacity");
    g_dbus_error_strip_remote_error(error);
    return g_strdup(error->message);
}

static Host *
two_l40s(void)
{
    Host *host = host_new(NULL);

    bed_add_card(host_bed(host), "l40s", FIRST, 32);
    bed_add_card(host_bed(host), "l40s", SECOND, 32);
    return host;
}

/* ---- How much there is ---- */

static void
test_remaining(void)
{
    g_autoptr(Host) host = two_l40s();
    g_autoptr(Client) client = NULL;
    g_autoptr(GVariant) planned = NULL;
    g_autofree char *id = NULL;
    g_autoptr(GError) error = NULL;

    host_start(host, NULL);
    client = client_new(host, 0);
    assert_profile(client, "NVIDIA L40S-48Q", "Remaining", 2);
    assert_profile(client, "NVIDIA L40S-24Q", "Remaining", 4);
    assert_profile(client, "NVIDIA L40S-2Q", "Remaining", 48);
    assert_profile(client, "NVIDIA L40S-1Q", "Remaining", 64);
    g_assert_cmpint(client_gpu_number(client, FIRST, "FramebufferMiB"), ==, 49152);
    planned = plan(client, "L40S-2Q", NULL);
    g_assert_cmpint(row_number(planned, "Remaining"), ==, 48);
    g_clear_pointer(&planned, g_variant_unref);
    planned = plan(client, "L40S-2Q", "{'gpu': <'5e:00.0'>}");
    g_assert_cmpint(row_number(planned, "Remaining"), ==, 24);

    id = client_must_assign(client, "L40S-48Q", NULL, NULL);
    assert_profile(client, "NVIDIA L40S-1Q", "Remaining", 32);
    assert_profile(client, "NVIDIA L40S-48Q", "Remaining", 1);
    g_assert_cmpint(client_gpu_number(client, FIRST, "FramebufferMiB"), ==, 49152);
    g_assert_true(client_release(client, id, &error));

    g_free(id);
    id = client_must_assign(client, "L40S-2Q", "{'gpu': <'0000:3b:00.0'>}", NULL);
    assert_profile(client, "NVIDIA L40S-2Q", "Remaining", 47);
    assert_profile(client, "NVIDIA L40S-48Q", "Remaining", 1);
    g_assert_cmpint(client_gpu_number(client, FIRST, "FramebufferAssignedMiB"), ==, 2048);
}

static void
test_full_stays_listed(void)
{
    g_autoptr(Host) host = host_new(NULL);
    g_autoptr(Client) client = NULL;
    g_autoptr(GError) error = NULL;
    g_autofree char *id = NULL;
    g_autofree char *why = NULL;
    g_autofree char *other = NULL;

    bed_add_card(host_bed(host), "l40s", FIRST, 32);
    host_start(host, NULL);
    client = client_new(host, 0);
    id = client_must_assign(client, "L40S-48Q", NULL, NULL);
    assert_profile(client, "NVIDIA L40S-24Q", "Available", 0);
    assert_profile(client, "NVIDIA L40S-24Q", "Remaining", 0);
    why = no_capacity(client, "L40S-24Q");
    g_assert_cmpstr(why, ==,
                    "there is no room for NVIDIA L40S-24Q now: 0000:3b:00.0: it is full, as its vGPUs (1 of "
                    "49152 MiB) leave no room for another: release one first");
    other = client_assign(client, "L40S-25Q", NULL, NULL, &error);
    assert_error(error, "UnknownProfile");
}

/* Four cards without SR-IOV; one 1Q on the first. */
static void
test_unlocked_cards(void)
{
    static const char *const cards[] = {"0000:01:00.0", "0000:41:00.0", "0000:81:00.0", "0000:82:00.0"};
    g_autoptr(Host) host = host_new(NULL);
    g_autoptr(Client) client = NULL;
    g_autoptr(GVariant) profiles = NULL;
    g_autofree char *id = NULL;
    g_autofree char *why = NULL;
    guint offered = 0;

    for (gsize i = 0; i < G_N_ELEMENTS(cards); i++)
        bed_add_card(host_bed(host), "rtx6000", cards[i], 0);
    host_start(host, NULL);
    client = client_new(host, 0);
    assert_profile(client, "GRID RTX6000-1Q", "Remaining", 96);
    assert_profile(client, "GRID RTX6000-24Q", "Remaining", 4);
    id = client_must_assign(client, "RTX6000-1Q", "{'gpu': <'0000:01:00.0'>}", NULL);
    assert_profile(client, "GRID RTX6000-1Q", "Remaining", 95);
    assert_profile(client, "GRID RTX6000-2Q", "Remaining", 36);
    profiles = client_get(client, "Profiles");
    for (gsize i = 0; i < g_variant_n_children(profiles); i++) {
        g_autoptr(GVariant) profile = g_variant_get_child_value(profiles, i);
        g_autoptr(GVariant) planned = plan(client, row_string(profile, "Name"), "{'gpu': <'0000:01:00.0'>}");
        gboolean fits = *row_string(planned, "Device") != '\0';

        g_assert_cmpint(fits, ==, row_number(profile, "FramebufferMiB") == 1024);
        if (fits)
            g_assert_cmpint(row_number(planned, "Remaining"), ==, 23);
        offered += fits;
    }
    g_assert_cmpuint(offered, ==, 3); /* 1A, 1B, 1Q */
    why = reason(client, "RTX6000-2Q", "{'gpu': <'0000:01:00.0'>}", "0000:01:00.0");
    g_assert_cmpstr(why, ==,
                    "it holds vGPUs of another size (1 of 1024 MiB) and takes only that size beside them: "
                    "release them, or take a profile of 1024 MiB");
}

static void
test_sizes_get_mixed(void)
{
    g_autoptr(Host) host = host_new(NULL);
    g_autoptr(Client) client = NULL;
    g_autofree char *id = NULL;
    guint changes;

    bed_add_card(host_bed(host), "l40s", FIRST, 32);
    host_start(host, NULL);
    client = client_new(host, 0);
    id = client_must_assign(client, "L40S-2Q", NULL, NULL);
    assert_profile(client, "NVIDIA L40S-24Q", "Available", 0);
    client_listen(client);
    changes = client_changes(client, "Profiles");
    bed_mix_sizes(host_bed(host), FIRST, TRUE);
    wait_for(profile_number(client, "NVIDIA L40S-24Q", "Available") == 31);
    assert_profile(client, "NVIDIA L40S-24Q", "Remaining", 1);
    assert_profile(client, "NVIDIA L40S-4Q", "Remaining", 11);
    wait_for(client_changes(client, "Profiles") > changes);

    changes = client_changes(client, "Profiles");
    bed_mix_sizes(host_bed(host), FIRST, FALSE);
    wait_for(profile_number(client, "NVIDIA L40S-24Q", "Available") == 0);
    assert_profile(client, "NVIDIA L40S-2Q", "Remaining", 23);
    wait_for(client_changes(client, "Profiles") > changes);
}

/* A card that was never empty in our sight: what is unknown is absent, and no profile is called unknown. */
static void
test_never_seen_empty(void)
{
    g_autoptr(Host) host = host_new(NULL);
    g_autoptr(Client) client = NULL;
    g_autofree char *why = NULL;

    bed_add_card(host_bed(host), "l40s", FIRST, 32);
    g_assert_cmpint(bed_set_by_hand(host_bed(host), "0000:3b:00.4", 1148), ==, 0);
    host_start(host, NULL);
    client = client_new(host, 0);
    assert_profile(client, "NVIDIA L40S-2Q", "Available", 31);
    assert_profile(client, "NVIDIA L40S-2Q", "Remaining", -1);
    g_assert_cmpint(client_gpu_number(client, FIRST, "FramebufferMiB"), ==, -1);
    g_assert_cmpint(client_gpu_number(client, FIRST, "FramebufferAssignedMiB"), ==, 2048);
    why = no_capacity(client, "L40S-48Q");
    g_assert_cmpstr(why, ==,
                    "there is no room for L40S-48Q now: 0000:3b:00.0: it holds vGPUs of another size (1 of "
                    "2048 MiB) and takes only that size beside them: release them, or take a profile of 2048 "
                    "MiB");
}

/* ---- Whose name ---- */

static void
test_name_of_another_card(void)
{
    g_autoptr(Host) host = two_l40s();
    g_autoptr(Client) client = NULL;
    g_autoptr(GVariant) slot = NULL;

    bed_attribute_says(host_bed(host), "0000:3b:00.4/nvidia/current_vgpu_type", "900\n");
    bed_catalogue_says(host_bed(host), FIRST, HEADER);
    bed_catalogue_says(host_bed(host), SECOND, HEADER "900   : CARD-B-8Q\n");
    host_start(host, NULL);
    client = client_new(host, 0);
    slot = occupied(client, FIRST, "0000:3b:00.4");
    g_assert_nonnull(slot);
    g_assert_cmpstr(row_string(slot, "TypeId"), ==, "900");
    g_assert_cmpstr(row_string(slot, "Profile"), ==, "");
    g_assert_cmpint(client_gpu_number(client, FIRST, "FramebufferAssignedMiB"), ==, -1);
    assert_profile(client, "CARD-B-8Q", "Available", 32);
}

static void
test_one_id_of_two_names(void)
{
    g_autoptr(Host) host = two_l40s();
    g_autoptr(Client) client = NULL;
    g_autoptr(GError) error = NULL;
    g_autoptr(GVariant) row = NULL;
    g_autofree char *id = NULL;
    g_autofree char *big = NULL;
    g_autofree char *small = NULL;

    bed_catalogue_says(host_bed(host), FIRST, HEADER "1148  : NVIDIA RTXA5000-24Q\n");
    bed_catalogue_says(host_bed(host), SECOND, HEADER "1148  : NVIDIA RTXA5000-1B\n");
    host_start(host, NULL);
    client = client_new(host, 0);
    id = client_assign(client, "1148", NULL, NULL, &error);
    assert_error(error, "InvalidArgs");
    g_assert_nonnull(strstr(error->message, "NVIDIA RTXA5000-24Q"));
    g_assert_nonnull(strstr(error->message, "NVIDIA RTXA5000-1B"));
    big = client_must_assign(client, "RTXA5000-24Q", NULL, &row);
    g_assert_cmpstr(row_string(row, "GPU"), ==, FIRST);
    g_clear_pointer(&row, g_variant_unref);
    small = client_must_assign(client, "RTXA5000-1B", NULL, &row);
    g_assert_cmpstr(row_string(row, "GPU"), ==, SECOND);
}

/* Set by a tool of another kind, before the start or after it. */
static void
test_already_set(void)
{
    g_autoptr(Host) host = two_l40s();
    g_autoptr(Client) client = NULL;
    g_autoptr(GVariant) slot = NULL;
    g_autoptr(GVariant) row = NULL;
    g_autofree char *node = bed_group_node(host_bed(host), "0000:3b:00.5");
    g_autofree char *id = NULL;

    g_assert_cmpint(bed_set_by_hand(host_bed(host), "0000:3b:00.5", 1150), ==, 0);
    host_start(host, NULL);
    client = client_new(host, 0);
    slot = occupied(client, FIRST, "0000:3b:00.5");
    g_assert_nonnull(slot);
    g_assert_cmpstr(row_string(slot, "Profile"), ==, "NVIDIA L40S-4Q"); /* its siblings still list it */
    g_assert_cmpstr(row_string(slot, "TypeId"), ==, "1150");
    g_assert_cmpstr(row_string(slot, "GroupNode"), ==, node);
    g_assert_cmpstr(row_string(slot, "Assignment"), ==, "");
    g_assert_cmpint(client_gpu_number(client, FIRST, "FramebufferAssignedMiB"), ==, 4096);
    id = client_must_assign(client, "L40S-4Q", NULL, &row);
    g_assert_cmpstr(row_string(row, "GPU"), ==, SECOND); /* the one with less on it */
}

/* ---- Over a restart ---- */

/* One L40S that is full of a 48Q, which the service has seen empty. */
static Host *
full_l40s(Client **ret_client)
{
    Host *host = host_new(NULL);

    bed_add_card(host_bed(host), "l40s", FIRST, 32);
    host_start(host, NULL);
    *ret_client = client_new(host, 0);
    assert_profile(*ret_client, "NVIDIA L40S-48Q", "Available", 32);
    g_assert_cmpint(bed_set_by_hand(host_bed(host), "0000:3b:00.4", 1156), ==, 0);
    return host;
}

static void
test_remembered_after_a_kill(void)
{
    g_autoptr(Client) client = NULL;
    g_autoptr(Host) host = full_l40s(&client);
    g_autoptr(GVariant) slot = NULL;
    g_autofree char *why = NULL;

    host_stop(host, SIGKILL);
    host_start(host, NULL);
    slot = occupied(client, FIRST, "0000:3b:00.4");
    g_assert_cmpstr(row_string(slot, "Profile"), ==, "NVIDIA L40S-48Q");
    g_assert_cmpint(client_gpu_number(client, FIRST, "FramebufferMiB"), ==, 49152);
    g_assert_cmpint(client_gpu_number(client, FIRST, "FramebufferAssignedMiB"), ==, 49152);
    assert_profile(client, "NVIDIA L40S-2Q", "Available", 0);
    assert_profile(client, "NVIDIA L40S-2Q", "Remaining", 0);
    why = no_capacity(client, "L40S-2Q");
}

static void
test_bad_memory_is_written_anew(void)
{
    g_autoptr(Client) client = NULL;
    g_autoptr(Host) host = full_l40s(&client);
    g_autofree char *path = host_runtime_file(host, "memory");
    g_autoptr(GVariant) slot = NULL;
    g_autofree char *text = NULL;

    g_assert_cmpint(host_stop(host, SIGTERM), ==, 0);
    g_assert_true(g_file_set_contents(path, "hypeman-vgpu-memory 1 of another kind\n", -1, NULL));
    host_start(host, NULL);
    slot = occupied(client, FIRST, "0000:3b:00.4");
    g_assert_cmpstr(row_string(slot, "TypeId"), ==, "1156");
    g_assert_cmpstr(row_string(slot, "Profile"), ==, "");
    g_assert_cmpuint(count_in_log(host, "what was remembered of the cards is ignored"), ==, 1);

    g_assert_cmpint(bed_set_by_hand(host_bed(host), "0000:3b:00.4", 0), ==, 0);
    wait_for(profile_number(client, "NVIDIA L40S-2Q", "Available") == 32);
    g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
    g_assert_nonnull(strstr(text, "NVIDIA L40S-48Q"));
    g_assert_cmpint(host_stop(host, SIGTERM), ==, 0);
    g_assert_cmpint(bed_set_by_hand(host_bed(host), "0000:3b:00.4", 1156), ==, 0);
    host_start(host, NULL);
    g_clear_pointer(&slot, g_variant_unref);
    slot = occupied(client, FIRST, "0000:3b:00.4");
    g_assert_cmpstr(row_string(slot, "Profile"), ==, "NVIDIA L40S-48Q");
}

static void
test_bad_memory_of_no_cards_is_written_anew(void)
{
    g_autoptr(Host) host = host_new(NULL);
    g_autoptr(Client) client = NULL;
    g_autoptr(GVariant) cards = NULL;
    g_autofree char *path = host_runtime_file(host, "memory");
    g_autofree char *folder = g_path_get_dirname(path);
    g_autofree char *text = NULL;

    g_assert_cmpint(g_mkdir_with_parents(folder, 0755), ==, 0);
    g_assert_true(g_file_set_contents(path, "nonsense", -1, NULL));
    host_start(host, NULL);
    client = client_new(host, 0);
    cards = client_get(client, "GPUs");
    g_assert_cmpuint(g_variant_n_children(cards), ==, 0);
    g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
    g_assert_true(g_str_has_prefix(text, "hypeman-vgpu-memory 1 "));
}

/* A driver that was loaded anew, here between two runs, may mean other types by the same ids. */
static void
test_changed_devices_are_forgotten(void)
{
    g_autoptr(Client) client = NULL;
    g_autoptr(Host) host = full_l40s(&client);
    g_autoptr(GVariant) slot = NULL;

    g_assert_cmpint(host_stop(host, SIGTERM), ==, 0);
    bed_catalogue_says(host_bed(host), FIRST, HEADER);
    bed_reload_driver(host_bed(host), "0000:3b:00.4", 1156);
    host_start(host, NULL);
    slot = occupied(client, FIRST, "0000:3b:00.4");
    g_assert_cmpstr(row_string(slot, "TypeId"), ==, "1156");
    g_assert_cmpstr(row_string(slot, "Profile"), ==, "");
    assert_profile(client, "NVIDIA L40S-48Q", "Available", -2);
}

/* ---- NVML ---- */

#define ON_EACH 16

/* Two H200 whose 16 virtual functions are all set, and list nothing. */
static Host *
full_h200(void)
{
    static const char *const cards[] = {FIRST, SECOND};
    Host *host = host_new(NULL);
    BedCard card = {BED_VENDOR_VFIO, "h200x-partial.list", .device = 0x2335, .total_vfs = ON_EACH,
                    .vfs = ON_EACH};

    for (gsize i = 0; i < G_N_ELEMENTS(cards); i++) {
        g_auto(GStrv) vfs = NULL;

        bed_add_card_full(host_bed(host), cards[i], &card);
        bed_catalogue_says(host_bed(host), cards[i], HEADER);
        vfs = bed_vfs(host_bed(host), cards[i]);
        for (char **vf = vfs; *vf; vf++)
            g_assert_cmpint(bed_set_by_hand(host_bed(host), *vf, 1414), ==, 0);
    }
    return host;
}

static void
test_full_node(void)
{
    g_autoptr(Host) host = full_h200();
    g_autoptr(Client) client = NULL;
    g_autoptr(GVariant) framework = NULL;
    g_autoptr(GVariant) slot = NULL;
    g_autofree char *node = bed_group_node(host_bed(host), "0000:3b:00.4");
    g_autofree char *why = NULL;

    install_library_of(host, "NVIDIA H200", "h200x.mig.tsv");
    host_start(host, NULL);
    client = client_new(host, 0);
    client_listen(client);
    framework = client_get(client, "Framework");
    g_assert_cmpstr(g_variant_get_string(framework, NULL), ==, "vendor-vfio");
    wait_for(count_named(client, FIRST, "NVIDIA H200X-1-18C") == ON_EACH);
    g_assert_cmpuint(count_named(client, SECOND, "NVIDIA H200X-1-18C"), ==, ON_EACH);
    wait_for(client_changes(client, "GPUs") > 0 && client_changes(client, "Profiles") > 0);
    g_assert_true(gpu_is_named(client, FIRST, "NVIDIA H200"));
    g_assert_cmpint(client_gpu_number(client, FIRST, "FramebufferAssignedMiB"), ==, ON_EACH * 18432);
    g_assert_cmpint(client_gpu_number(client, FIRST, "SlotsFree"), ==, 0);
    slot = occupied(client, FIRST, "0000:3b:00.4");
    g_assert_cmpstr(row_string(slot, "TypeId"), ==, "1414");
    g_assert_cmpstr(row_string(slot, "GroupNode"), ==, node);
    assert_profile(client, "NVIDIA H200X-1-18C", "Available", 0);
    why = no_capacity(client, "H200X-1-18C");
    g_assert_cmpstr(
        why, ==,
        "there is no room for NVIDIA H200X-1-18C now: 0000:3b:00.0: it is full, as all its 16 slots "
        "hold a vGPU (16 of 18432 MiB): release one first; 0000:5e:00.0: it is full, as all its 16 "
        "slots hold a vGPU (16 of 18432 MiB): release one first");
}

static void
test_full_node_without_nvml(void)
{
    g_autoptr(Host) host = full_h200();
    g_autoptr(Client) client = NULL;
    g_autoptr(GVariant) framework = NULL;
    g_autoptr(GVariant) profiles = NULL;
    g_autoptr(GVariant) slot = NULL;
    g_autofree char *why = NULL;

    host_start(host, NULL);
    client = client_new(host, 0);
    framework = client_get(client, "Framework");
    g_assert_cmpstr(g_variant_get_string(framework, NULL), ==, "vendor-vfio");
    g_assert_cmpuint(count_named(client, FIRST, ""), ==, ON_EACH);
    wait_for(count_in_log(host, "NVML names nothing") == 1);
    g_assert_cmpuint(count_named(client, FIRST, ""), ==, ON_EACH);
    g_assert_cmpint(client_gpu_number(client, FIRST, "FramebufferAssignedMiB"), ==, -1);
    slot = occupied(client, FIRST, "0000:3b:00.4");
    g_assert_cmpstr(row_string(slot, "TypeId"), ==, "1414");
    profiles = client_get(client, "Profiles");
    g_assert_cmpuint(g_variant_n_children(profiles), ==, 0);
    why = no_capacity(client, "H200X-1-18C");
    g_assert_cmpstr(
        why, ==,
        "there is no room for H200X-1-18C now: 0000:3b:00.0: it is full, as all its 16 slots hold a "
        "vGPU (16 of unknown size): release one first; 0000:5e:00.0: it is full, as all its 16 "
        "slots hold a vGPU (16 of unknown size): release one first");
}

/* Sizes that the name gets wrong. */
static void
test_exact_sizes(void)
{
    g_autoptr(Host) host = two_l40s();
    g_autoptr(Client) client = NULL;
    g_autoptr(GVariant) row = NULL;
    g_autofree char *types = host_file(host, "types.tsv");
    g_autofree char *cards = g_strdup_printf(FIRST "=NVIDIA L40S=%s;" SECOND "=NVIDIA L40S=%s", types, types);
    g_autofree char *id = NULL;

    g_assert_true(g_file_set_contents(types,
                                      "1156\tNVIDIA L40S-48Q\tQuadro\t48000\t4\t1\t1\t60\t1\n"
                                      "1148\tNVIDIA L40S-2Q\tQuadro\t2048\t4\t1\t1\t60\t20\n",
                                      -1, NULL));
    install_library(host, "libfake-nvml.so", "", cards);
    host_start(host, NULL);
    client = client_new(host, 0);
    client_listen(client);
    wait_for(profile_number(client, "NVIDIA L40S-48Q", "FramebufferMiB") == 48000);
    assert_profile(client, "NVIDIA L40S-1Q", "FramebufferMiB", 1024);
    assert_profile(client, "NVIDIA L40S-2Q", "Remaining", 40); /* its maximum */
    assert_profile(client, "NVIDIA L40S-1Q", "Remaining", 64);
    assert_profile(client, "NVIDIA L40S-3Q", "Remaining", 30); /* 15 of 3072 in 48000 */
    g_assert_cmpint(client_gpu_number(client, FIRST, "FramebufferMiB"), ==, 48000);
    wait_for(client_changes(client, "Profiles") > 0 && client_changes(client, "GPUs") > 0);
    id = client_must_assign(client, "L40S-48Q", NULL, &row);
    g_assert_cmpint(row_number(row, "FramebufferMiB"), ==, 48000);
    g_assert_cmpint(client_gpu_number(client, FIRST, "FramebufferAssignedMiB"), ==, 48000);
}

typedef struct {
    const char *library; /* NULL: none */
    const char *mode;
} Failure;

/* The service does without it: reads answer at once, vGPUs are assigned. */
static void
test_library_fails(gconstpointer data)
{
    const Failure *failure = data;
    g_autoptr(Host) host = two_l40s();
    g_autoptr(Client) client = NULL;
    g_autoptr(GError) error = NULL;
    g_autofree char *types = data_file("l40s-r550.types.tsv");
    g_autofree char *cards = g_strdup_printf(FIRST "=NVIDIA L40S=%s", types);
    g_autofree char *id = NULL;

    if (failure->library)
        install_library(host, failure->library, failure->mode, cards);
    host_start(host, NULL);
    client = client_new(host, 0);
    g_assert_false(gpu_is_named(client, FIRST, "NVIDIA L40S"));
    assert_profile(client, "NVIDIA L40S-2Q", "Remaining", 48);
    id = client_must_assign(client, "L40S-2Q", NULL, NULL);
    wait_for(count_in_log(host, "NVML names nothing") == 1);
    g_assert_true(client_release(client, id, &error));
    assert_profile(client, "NVIDIA L40S-2Q", "Remaining", 48);
    g_assert_false(gpu_is_named(client, FIRST, "NVIDIA L40S"));
}

/* A library that never answers: nobody waits for it, nobody else is asked, and it dies with the service. */
/* One that has ended and that nobody has waited for runs no more. */
static gboolean
is_running(const char *pid)
{
    g_autofree char *path = g_strdup_printf("/proc/%d/cmdline", atoi(pid));
    g_autofree char *command = NULL;
    gsize length = 0;

    return g_file_get_contents(path, &command, &length, NULL) && length > 0;
}

static void
test_library_hangs(void)
{
    g_autoptr(Host) host = two_l40s();
    g_autoptr(Client) client = NULL;
    g_autoptr(GVariant) framework = NULL;
    g_autoptr(GVariant) assignments = NULL;
    g_autoptr(GVariant) planned = NULL;
    g_autofree char *before = NULL;
    g_autofree char *child = NULL;
    g_autofree char *after = NULL;
    g_autofree char *id = NULL;

    install_library(host, "libfake-nvml.so", "hang", "");
    host_start(host, NULL);
    client = client_new(host, 0);
    framework = client_get(client, "Framework");
    assignments = client_get(client, "Assignments");
    bed_uevent(host_bed(host), FIRST, "change");
    before = children(host);
    g_assert_cmpstr(before, ==, ""); /* nothing was asked that needs names */

    assert_profile(client, "NVIDIA L40S-2Q", "Remaining", 48);
    child = children(host);
    g_assert_cmpint(atoi(child), >, 0);
    planned = plan(client, "L40S-2Q", NULL);
    id = client_must_assign(client, "L40S-2Q", NULL, NULL);
    assert_profile(client, "NVIDIA L40S-2Q", "Remaining", 47);
    after = children(host);
    g_assert_cmpstr(after, ==, child); /* once */

    /* Other devices meanwhile: asked about when the first question has ended, not beside it. */
    bed_disable_vfs(host_bed(host), SECOND);
    wait_for(client_gpu_number(client, SECOND, "Slots") == 0);
    g_free(after);
    after = children(host);
    g_assert_cmpstr(after, ==, child);
    g_assert_cmpint(kill(atoi(child), SIGKILL), ==, 0);
    wait_for((g_free(after), after = children(host), *after && strcmp(after, child) != 0));
    g_free(child);
    child = g_strdup(after);
    g_clear_pointer(&client, client_free);
    g_assert_true(bed_wait_vfs_set(host_bed(host), NULL, 0, 10));
    g_assert_cmpint(host_stop(host, SIGTERM), ==, 0);
    wait_for(!is_running(child));
}

static void
test_asked_once(void)
{
    g_autoptr(Host) host = host_new(NULL);
    g_autoptr(Client) client = NULL;

    bed_add_card(host_bed(host), "l40s", FIRST, 8);
    install_library(host, "libfake-nvml.so", "driver-not-loaded", "");
    host_start(host, NULL);
    client = client_new(host, 0);
    assert_profile(client, "NVIDIA L40S-2Q", "Available", 8);
    wait_for(count_in_log(host, "NVML names nothing") == 1);
    for (guint i = 0; i < 20; i++)
        assert_profile(client, "NVIDIA L40S-2Q", "Available", 8);

    bed_disable_vfs(host_bed(host), FIRST); /* other devices: asked anew, as soon as somebody asks us */
    wait_for(profile_number(client, "NVIDIA L40S-2Q", "Available") == -2);
    wait_for(count_in_log(host, "NVML names nothing") == 2);
    assert_profile(client, "NVIDIA L40S-2Q", "Available", -2);
    g_assert_cmpuint(count_in_log(host, "NVML names nothing"), ==, 2);
}

/* What NVML said is remembered too. */
static void
test_answer_survives_a_restart(void)
{
    g_autoptr(Host) host = full_h200();
    g_autoptr(Client) client = NULL;
    g_autofree char *asked = NULL;

    install_library_of(host, "NVIDIA H200", "h200x.mig.tsv");
    host_start(host, NULL);
    client = client_new(host, 0);
    wait_for(count_named(client, FIRST, "NVIDIA H200X-1-18C") == ON_EACH);
    g_assert_cmpint(host_stop(host, SIGTERM), ==, 0);
    host_set_environment(host, "FAKE_NVML_MODE", "hang");
    host_start(host, NULL);
    g_assert_cmpuint(count_named(client, FIRST, "NVIDIA H200X-1-18C"), ==, ON_EACH);
    g_assert_true(gpu_is_named(client, SECOND, "NVIDIA H200"));
    asked = children(host);
    g_assert_cmpstr(asked, ==, "");
}

/* ---- Names of cards ---- */

static void
test_card_names(void)
{
    g_autoptr(Host) host = host_new(NULL);
    g_autoptr(Client) client = NULL;
    g_autofree char *types = data_file("l40s-r550.types.tsv");
    g_autofree char *cards = g_strdup_printf(FIRST "=NVIDIA L40S=%s", types);
    BedCard strange = {BED_PLAIN, .device = 0xfff0, .class = 0x030000};
    sd_hwdb *hwdb = NULL;
    const char *model = NULL;

    bed_add_card(host_bed(host), "l40s", FIRST, 2);
    bed_add_card(host_bed(host), "l40s", SECOND, 2);
    bed_add_card_full(host_bed(host), "0000:61:00.0", &strange);
    install_library(host, "libfake-nvml.so", "", cards); /* it knows the first one only */
    host_start(host, NULL);
    client = client_new(host, 0);
    wait_for(gpu_is_named(client, FIRST, "NVIDIA L40S"));
    g_assert_cmpint(sd_hwdb_new(&hwdb), >=, 0);
    g_assert_cmpint(sd_hwdb_get(hwdb, "pci:v000010DEd000026B9sv000010DEsd00000000bc03sc02i00",
                                "ID_MODEL_FROM_DATABASE", &model),
                    >=, 0);
    g_test_message("%s", model);
    g_assert_true(gpu_is_named(client, SECOND, model));
    g_assert_true(gpu_is_named(client, "0000:61:00.0", "10de:fff0"));
    sd_hwdb_unref(hwdb);
}

/* ---- Order ---- */

static void
test_order(void)
{
    static const char *const expected[] = {"NVIDIA L40S-2A",  "NVIDIA L40S-12A", "NVIDIA L40S-2B",
                                           "NVIDIA L40S-2B4", "NVIDIA L40S-0Q",  "NVIDIA L40S-2Q"};
    static const gint64 sizes[] = {2048, 12288, 2048, 2048, 512, 2048};
    g_autoptr(Host) host = host_new(NULL);
    g_autoptr(Client) client = NULL;
    g_autoptr(GVariant) rows = NULL;
    g_autoptr(GVariant) cards = NULL;
    g_autoptr(GVariant) last = NULL;

    bed_add_card(host_bed(host), "l40s", "10000:01:00.0", 1);
    bed_add_card(host_bed(host), "l40s", "0000:b1:00.0", 1);
    bed_add_card(host_bed(host), "l40s", FIRST, 1);
    for (guint i = 0; i < 3; i++)
        bed_catalogue_says(host_bed(host), ((const char *[]){FIRST, "0000:b1:00.0", "10000:01:00.0"})[i],
                           HEADER "1 : NVIDIA L40S-2Q\n2 : NVIDIA L40S-0Q\n3 : NVIDIA L40S-12A\n"
                                  "4 : NVIDIA L40S-2B4\n5 : NVIDIA L40S-2A\n6 : NVIDIA L40S-2B\n");
    host_start(host, NULL);
    client = client_new(host, 0);
    rows = client_get(client, "Profiles");
    g_assert_cmpuint(g_variant_n_children(rows), ==, G_N_ELEMENTS(expected));
    for (gsize i = 0; i < G_N_ELEMENTS(expected); i++) {
        g_autoptr(GVariant) row = g_variant_get_child_value(rows, i);

        g_assert_cmpstr(row_string(row, "Name"), ==, expected[i]);
        g_assert_cmpint(row_number(row, "FramebufferMiB"), ==, sizes[i]);
    }
    cards = client_get(client, "GPUs");
    last = g_variant_get_child_value(cards, 2);
    g_assert_cmpstr(row_string(last, "Address"), ==, "10000:01:00.0");
}

static int
run(int argc, char **argv)
{
    static const Failure failures[] = {
        {NULL, NULL},
        {"libfake-nvml-broken.so", ""},
        {"libfake-nvml.so", "driver-not-loaded"},
        {"libfake-nvml.so", "crash"},
        {"libfake-nvml.so", "crash-in-the-middle"},
        {"libfake-nvml.so", "exit"},
    };

    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/names/remaining/two-l40s", test_remaining);
    g_test_add_func("/names/remaining/full-card-keeps-its-profiles", test_full_stays_listed);
    g_test_add_func("/names/remaining/four-unlocked-cards", test_unlocked_cards);
    g_test_add_func("/names/remaining/sizes-get-mixed-at-run-time", test_sizes_get_mixed);
    g_test_add_func("/names/remaining/card-never-seen-empty-is-not-guessed", test_never_seen_empty);
    g_test_add_func("/names/whose/another-cards-name-is-never-taken", test_name_of_another_card);
    g_test_add_func("/names/whose/one-id-of-two-names", test_one_id_of_two_names);
    g_test_add_func("/names/whose/already-set-by-others", test_already_set);
    g_test_add_func("/names/restart/what-was-seen-is-remembered", test_remembered_after_a_kill);
    g_test_add_func("/names/restart/bad-memory-is-written-anew", test_bad_memory_is_written_anew);
    g_test_add_func("/names/restart/bad-memory-of-no-cards-is-written-anew",
                    test_bad_memory_of_no_cards_is_written_anew);
    g_test_add_func("/names/restart/changed-devices-are-forgotten", test_changed_devices_are_forgotten);
    g_test_add_func("/names/restart/answer-of-nvml-is-remembered", test_answer_survives_a_restart);
    g_test_add_func("/names/nvml/full-node-is-named", test_full_node);
    g_test_add_func("/names/nvml/full-node-without-it-is-full", test_full_node_without_nvml);
    g_test_add_func("/names/nvml/sizes-are-exact", test_exact_sizes);
    g_test_add_data_func("/names/nvml/fails/no-library", &failures[0], test_library_fails);
    g_test_add_data_func("/names/nvml/fails/no-symbol", &failures[1], test_library_fails);
    g_test_add_data_func("/names/nvml/fails/no-driver", &failures[2], test_library_fails);
    g_test_add_data_func("/names/nvml/fails/crash", &failures[3], test_library_fails);
    g_test_add_data_func("/names/nvml/fails/crash-in-the-middle", &failures[4], test_library_fails);
    g_test_add_data_func("/names/nvml/fails/early-end", &failures[5], test_library_fails);
    g_test_add_func("/names/nvml/hangs/nobody-waits", test_library_hangs);
    g_test_add_func("/names/nvml/is-asked-once", test_asked_once);
    g_test_add_func("/names/cards/nvml-then-hardware-database-then-ids", test_card_names);
    g_test_add_func("/names/order/as-people-count", test_order);
    return g_test_run();
}

int
main(int argc, char **argv)
{
    return bed_main(argc, argv, run);
}
