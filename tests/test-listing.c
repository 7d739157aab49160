/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the bus says of a host. */
#include "host.h"

#include <errno.h>
#include <string.h>

#define FIRST "0000:3b:00.0"
#define SECOND "0000:5e:00.0"
#define T4 "0000:65:00.0"

static char *
framework(Client *client)
{
    g_autoptr(GVariant) value = client_get(client, "Framework");

    return g_variant_dup_string(value, NULL);
}

static void
assert_framework(const char *const *cards, const char *expected)
{
    g_autoptr(Host) host = host_new(NULL);
    g_autoptr(Client) client = NULL;
    g_autofree char *said = NULL;

    for (; *cards; cards += 2)
        bed_add_card(host_bed(host), cards[0], cards[1], -1);
    host_start(host, NULL);
    client = client_new(host, 0);
    said = framework(client);
    g_assert_cmpstr(said, ==, expected);
}

static void
test_framework(void)
{
    assert_framework((const char *const[]){"l40s", FIRST, "l40s", SECOND, "t4", T4, NULL}, "mixed");
    assert_framework((const char *const[]){"l40s", FIRST, NULL}, "vendor-vfio");
    assert_framework((const char *const[]){"t4", T4, NULL}, "mdev");
    assert_framework((const char *const[]){"a2", FIRST, NULL}, "mdev");
    assert_framework((const char *const[]){"gvtg", "0000:00:02.0", "l40s", FIRST, NULL}, "mixed");
}

static void
test_none(void)
{
    g_autoptr(Host) host = host_new(NULL);
    g_autoptr(Client) client = NULL;
    g_autoptr(GError) error = NULL;
    g_autofree char *said = NULL;
    g_autofree char *id = NULL;

    bed_add_card(host_bed(host), "plain", FIRST, 0);
    host_start(host, NULL);
    client = client_new(host, 0);
    said = framework(client);
    g_assert_cmpstr(said, ==, "none");
    id = client_assign(client, "NVIDIA L40S-2Q", NULL, NULL, &error);
    assert_error(error, "NoFramework");
}

static Host *
two_l40s(void)
{
    Host *host = host_new(NULL);

    bed_add_card(host_bed(host), "l40s", FIRST, 32);
    bed_add_card(host_bed(host), "l40s", SECOND, 32);
    host_start(host, NULL);
    return host;
}

static gint64
available(Client *client, const char *profile)
{
    g_autoptr(GVariant) rows = client_get(client, "Profiles");
    g_autoptr(GVariant) row = row_find(rows, "Name", profile);

    g_assert_nonnull(row);
    return row_number(row, "Available");
}

static void
test_profiles(void)
{
    g_autoptr(Host) host = two_l40s();
    g_autoptr(Client) client = client_new(host, 0);
    g_autoptr(GVariant) rows = client_get(client, "Profiles");
    g_autoptr(GVariant) row = row_find(rows, "Name", "NVIDIA L40S-48Q");
    g_autoptr(GVariant) cards = g_variant_lookup_value(row, "GPUs", G_VARIANT_TYPE("as"));

    g_assert_cmpuint(g_variant_n_children(rows), ==, 23);
    g_assert_cmpint(row_number(row, "Available"), ==, 64);
    g_assert_cmpint(row_number(row, "FramebufferMiB"), ==, 49152);
    g_assert_cmpuint(g_variant_n_children(cards), ==, 2);
}

static void
test_order(void)
{
    g_autoptr(Host) host = two_l40s();
    g_autoptr(Client) client = client_new(host, 0);
    g_autoptr(GVariant) rows = client_get(client, "Profiles");
    g_autoptr(GVariant) second = g_variant_get_child_value(rows, 1);
    g_autoptr(GVariant) last = g_variant_get_child_value(rows, 22);

    g_assert_cmpstr(row_string(second, "Name"), ==, "NVIDIA L40S-2A");
    g_assert_cmpstr(row_string(last, "Name"), ==, "NVIDIA L40S-48Q");
}

static void
test_after_one_48q(void)
{
    g_autoptr(Host) host = two_l40s();
    g_autoptr(Client) client = client_new(host, 0);
    g_autofree char *id = client_must_assign(client, "NVIDIA L40S-48Q", NULL, NULL);

    g_assert_cmpint(available(client, "NVIDIA L40S-48Q"), ==, 32);
    g_assert_cmpint(client_gpu_number(client, FIRST, "SlotsFree"), ==, 31);
    g_assert_cmpint(client_gpu_number(client, FIRST, "Slots"), ==, 32);
    g_assert_cmpint(client_gpu_number(client, FIRST, "FramebufferAssignedMiB"), ==, 49152);
    g_assert_cmpint(client_gpu_number(client, SECOND, "SlotsFree"), ==, 32);
}

static void
test_after_one_2q(void)
{
    static const char *const offered[] = {"NVIDIA L40S-2A", "NVIDIA L40S-2B", "NVIDIA L40S-2Q"};
    g_autoptr(Host) host = two_l40s();
    g_autoptr(Client) client = client_new(host, 0);
    g_autofree char *id = client_must_assign(client, "NVIDIA L40S-2Q", NULL, NULL);
    g_autoptr(GVariant) rows = client_get(client, "Profiles");
    guint full = 0;

    g_assert_cmpuint(g_variant_n_children(rows), ==, 23);
    for (gsize i = 0; i < 23; i++) {
        g_autoptr(GVariant) row = g_variant_get_child_value(rows, i);
        gboolean is_offered = g_strv_contains(offered, row_string(row, "Name"));

        g_assert_cmpint(row_number(row, "Available"), ==, is_offered ? 63 : 32);
        full += is_offered;
    }
    g_assert_cmpuint(full, ==, 3);
}

static void
test_occupied(void)
{
    g_autoptr(Host) host = two_l40s();
    g_autoptr(Client) client = client_new(host, 0);
    g_autoptr(GVariant) assignment = NULL;
    g_autofree char *id = client_must_assign(client, "NVIDIA L40S-2Q", "{'gpu': <'5E:00.0'>}", &assignment);
    g_autoptr(GVariant) cards = client_get(client, "GPUs");
    g_autoptr(GVariant) card = row_find(cards, "Address", SECOND);
    g_autoptr(GVariant) occupied = g_variant_lookup_value(card, "Occupied", G_VARIANT_TYPE("aa{sv}"));
    g_autoptr(GVariant) row = row_find(occupied, "Assignment", id);

    g_assert_cmpstr(row_string(assignment, "GPU"), ==, SECOND);
    g_assert_cmpuint(g_variant_n_children(occupied), ==, 1);
    g_assert_cmpstr(row_string(row, "Device"), ==, row_string(assignment, "Device"));
    g_assert_cmpstr(row_string(row, "Profile"), ==, "NVIDIA L40S-2Q");
    g_assert_cmpstr(row_string(row, "TypeId"), ==, "1148");
    g_assert_cmpstr(row_string(row, "GroupNode"), ==, row_string(assignment, "GroupNode"));
}

static void
test_set_by_hand(void)
{
    g_autoptr(Host) host = two_l40s();
    g_autoptr(Client) client = NULL;
    g_autoptr(GVariant) cards = NULL;
    g_autoptr(GVariant) card = NULL;
    g_autoptr(GVariant) occupied = NULL;
    g_autoptr(GVariant) row = NULL;

    g_assert_cmpint(bed_set_by_hand(host_bed(host), "0000:3b:00.5", 1150), ==, 0);
    client = client_new(host, 0);
    wait_for(client_gpu_number(client, FIRST, "SlotsFree") == 31);
    cards = client_get(client, "GPUs");
    card = row_find(cards, "Address", FIRST);
    occupied = g_variant_lookup_value(card, "Occupied", G_VARIANT_TYPE("aa{sv}"));
    row = row_find(occupied, "Device", "0000:3b:00.5");
    g_assert_cmpstr(row_string(row, "Profile"), ==, "NVIDIA L40S-4Q");
    g_assert_cmpstr(row_string(row, "Assignment"), ==, "");
}

static void
test_no_vfs(void)
{
    g_autoptr(Host) host = host_new(NULL);
    g_autoptr(Client) client = NULL;
    g_autoptr(GVariant) cards = NULL;
    g_autoptr(GVariant) card = NULL;

    bed_add_card(host_bed(host), "l40s", FIRST, 0);
    host_start(host, NULL);
    client = client_new(host, 0);
    cards = client_get(client, "GPUs");
    card = row_find(cards, "Address", FIRST);
    g_assert_cmpstr(row_string(card, "Reason"), ==, "no virtual functions are enabled");
    g_assert_cmpstr(row_string(card, "Framework"), ==, "");
}

static void
test_gvtg_beside_vendor(void)
{
    g_autoptr(Host) host = host_new(NULL);
    g_autoptr(Client) client = NULL;
    g_autoptr(GVariant) row = NULL;
    g_autofree char *gvtg = NULL;
    g_autofree char *l40s = NULL;

    bed_add_card(host_bed(host), "gvtg-old", "0000:00:02.0", 0);
    bed_add_card(host_bed(host), "l40s", FIRST, 4);
    host_start(host, NULL);
    client = client_new(host, 0);
    gvtg = client_must_assign(client, "i915-GVTg_V5_4", NULL, &row);
    g_assert_cmpstr(row_string(row, "GPU"), ==, "0000:00:02.0");
    g_assert_cmpstr(row_string(row, "Framework"), ==, "mdev");
    g_clear_pointer(&row, g_variant_unref);
    l40s = client_must_assign(client, "L40S-2Q", NULL, &row);
    g_assert_cmpstr(row_string(row, "Framework"), ==, "vendor-vfio");
}

static void
test_broken_slot(void)
{
    g_autoptr(Host) host = two_l40s();
    g_autoptr(Client) client = client_new(host, 0);
    g_autofree char *id = NULL;
    g_autoptr(GVariant) row = NULL;

    bed_attribute_fails(host_bed(host), "0000:3b:00.4/nvidia/current_vgpu_type", EIO);
    wait_for(client_gpu_number(client, FIRST, "SlotsFree") == 31);
    id = client_must_assign(client, "L40S-2Q", NULL, &row);
    g_assert_cmpstr(row_string(row, "Device"), ==, "0000:3b:00.5");
}

static void
test_nothing_readable(void)
{
    g_autoptr(Host) host = host_new(NULL);
    g_autoptr(Client) client = NULL;
    g_autoptr(GVariant) cards = NULL;
    g_autoptr(GVariant) card = NULL;
    g_autofree char *said = NULL;

    bed_add_card(host_bed(host), "l40s", FIRST, 1);
    bed_attribute_fails(host_bed(host), "0000:3b:00.4/nvidia/current_vgpu_type", EIO);
    host_start(host, NULL);
    client = client_new(host, 0);
    said = framework(client);
    g_assert_cmpstr(said, ==, "vendor-vfio");
    cards = client_get(client, "GPUs");
    card = row_find(cards, "Address", FIRST);
    g_assert_nonnull(strstr(row_string(card, "Reason"), "Input/output error"));
}

/* Words that a catalogue says, and what is then offered. */
static void
test_odd_catalogues(void)
{
    static const struct {
        const char *text;
        gint64 offered;
    } catalogues[] = {
        {"ID    : vGPU Name\n1148  : NVIDIA L40S-2Q\n", 1},
        {"1148 : NVIDIA L40S-2Q\r\n1150 : NVIDIA L40S-4Q\r\n", 2},
        {"ID    : vGPU Name\nnonsense\n1148  : NVIDIA L40S-2Q\n: \n1150  : NVIDIA L40S-4Q\n", 2},
        {"Type : Name\n1148 : NVIDIA L40S-2Q", 1},
    };

    for (gsize i = 0; i < G_N_ELEMENTS(catalogues); i++) {
        g_autoptr(Host) host = host_new(NULL);
        g_autoptr(Client) client = NULL;
        g_autoptr(GVariant) rows = NULL;

        bed_add_card(host_bed(host), "l40s", FIRST, 2);
        bed_catalogue_says(host_bed(host), FIRST, catalogues[i].text);
        host_start(host, NULL);
        client = client_new(host, 0);
        rows = client_get(client, "Profiles");
        g_assert_cmpint((gint64)g_variant_n_children(rows), ==, catalogues[i].offered);
        g_assert_cmpint(available(client, "NVIDIA L40S-2Q"), ==, 2);
    }
}

static void
test_header_only(void)
{
    g_autoptr(Host) host = host_new(NULL);
    g_autoptr(Client) client = NULL;
    g_autoptr(GError) error = NULL;
    g_autofree char *id = NULL;

    bed_add_card(host_bed(host), "l40s", FIRST, 2);
    bed_catalogue_says(host_bed(host), FIRST, "ID    : vGPU Name\n");
    host_start(host, NULL);
    client = client_new(host, 0);
    id = client_assign(client, "NVIDIA L40S-2Q", NULL, NULL, &error);
    assert_error(error, "NoCapacity");
}

static int
compare_lines(gconstpointer a, gconstpointer b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void
test_introspection_agrees(void)
{
    g_autoptr(Host) host = two_l40s();
    g_autoptr(GError) error = NULL;
    g_autofree char *documented = NULL;
    g_autoptr(GDBusNodeInfo) written = NULL;
    g_autoptr(GDBusNodeInfo) live = NULL;
    g_autoptr(Client) client = client_new(host, 0);
    g_autoptr(GVariant) reply = NULL;
    g_autoptr(GString) first = g_string_new(NULL);
    g_autoptr(GString) second = g_string_new(NULL);
    GDBusInterfaceInfo *a, *b;

    reply = client_call(client, "org.freedesktop.DBus.Introspectable.Introspect", NULL, &error);
    g_assert_no_error(error);
    g_assert_true(g_file_get_contents(TEST_XML, &documented, NULL, NULL));
    written = g_dbus_node_info_new_for_xml(documented, &error);
    g_assert_no_error(error);
    {
        const char *text;
        g_variant_get(reply, "(&s)", &text);
        live = g_dbus_node_info_new_for_xml(text, &error);
        g_assert_no_error(error);
    }
    a = g_dbus_node_info_lookup_interface(written, "org.hypeman.VGPU1");
    b = g_dbus_node_info_lookup_interface(live, "org.hypeman.VGPU1");
    g_assert_nonnull(a);
    g_assert_nonnull(b);
    for (GDBusPropertyInfo **p = a->properties; *p; p++) {
        GDBusPropertyInfo *other = g_dbus_interface_info_lookup_property(b, (*p)->name);
        const char *emits = g_dbus_annotation_info_lookup((*p)->annotations,
                                                          "org.freedesktop.DBus.Property.EmitsChangedSignal");
        const char *live_emits;

        g_assert_nonnull(other);
        g_assert_cmpstr((*p)->signature, ==, other->signature);
        g_assert_cmpint((*p)->flags, ==, other->flags);
        live_emits = g_dbus_annotation_info_lookup(other->annotations,
                                                   "org.freedesktop.DBus.Property.EmitsChangedSignal");
        g_assert_cmpstr(emits, ==, live_emits ? live_emits : "true");
    }
    /* Names, types and directions of all members, in one order on both sides. */
    for (GDBusInterfaceInfo *info = a; info; info = info == a ? b : NULL) {
        GString *text = info == a ? first : second;
        g_autoptr(GPtrArray) lines = g_ptr_array_new_with_free_func(g_free);

        for (GDBusPropertyInfo **p = info->properties; p && *p; p++)
            g_ptr_array_add(lines, g_strdup_printf("property %s", (*p)->name));
        for (GDBusMethodInfo **m = info->methods; m && *m; m++) {
            GString *line = g_string_new("method ");
            g_string_append(line, (*m)->name);
            for (GDBusArgInfo **arg = (*m)->in_args; arg && *arg; arg++)
                g_string_append_printf(line, " in %s %s", (*arg)->name, (*arg)->signature);
            for (GDBusArgInfo **arg = (*m)->out_args; arg && *arg; arg++)
                g_string_append_printf(line, " out %s %s", (*arg)->name, (*arg)->signature);
            g_ptr_array_add(lines, g_string_free(line, FALSE));
        }
        for (GDBusSignalInfo **s = info->signals; s && *s; s++) {
            GString *line = g_string_new("signal ");
            g_string_append(line, (*s)->name);
            for (GDBusArgInfo **arg = (*s)->args; arg && *arg; arg++)
                g_string_append_printf(line, " %s %s", (*arg)->name, (*arg)->signature);
            g_ptr_array_add(lines, g_string_free(line, FALSE));
        }
        g_ptr_array_sort(lines, compare_lines);
        for (guint i = 0; i < lines->len; i++)
            g_string_append_printf(text, "%s\n", (char *)g_ptr_array_index(lines, i));
    }
    g_assert_cmpstr(first->str, ==, second->str);
}

/* Every member and every error has its words in the manual page. */
static void
test_manual_page(void)
{
    g_autofree char *documented = NULL;
    g_autofree char *manual = NULL;
    g_autoptr(GDBusNodeInfo) node = NULL;
    GDBusInterfaceInfo *info;
    static const char *const errors[] = {"NoFramework", "UnknownProfile", "NoCapacity", "UnknownAssignment",
                                         "InUse",       "UsageUnknown",   "Busy",       "DeviceFailed"};

    g_assert_true(g_file_get_contents(TEST_XML, &documented, NULL, NULL));
    g_assert_true(g_file_get_contents(TEST_MANUAL, &manual, NULL, NULL));
    node = g_dbus_node_info_new_for_xml(documented, NULL);
    info = g_dbus_node_info_lookup_interface(node, "org.hypeman.VGPU1");
    for (GDBusPropertyInfo **p = info->properties; *p; p++) {
        g_autofree char *heading = g_strdup_printf(".B %s \\fR(%s)\n", (*p)->name, (*p)->signature);
        g_assert_nonnull(strstr(manual, heading));
    }
    for (GDBusMethodInfo **m = info->methods; *m; m++) {
        GString *heading = g_string_new(NULL);
        g_autofree char *text = NULL;

        g_string_append_printf(heading, ".B %s \\fR(", (*m)->name);
        for (GDBusArgInfo **arg = (*m)->in_args; *arg; arg++)
            g_string_append_printf(heading, "%s%s %s", arg == (*m)->in_args ? "" : ", ", (*arg)->signature,
                                   (*arg)->name);
        for (GDBusArgInfo **arg = (*m)->out_args; arg && *arg; arg++)
            g_string_append_printf(heading, "%s%s %s", arg == (*m)->out_args ? ") → (" : ", ",
                                   (*arg)->signature, (*arg)->name);
        g_string_append(heading, ")\n");
        text = g_string_free(heading, FALSE);
        g_assert_nonnull(strstr(manual, text));
    }
    for (GDBusSignalInfo **signal = info->signals; *signal; signal++)
        g_assert_nonnull(strstr(manual, (*signal)->name));
    for (gsize i = 0; i < G_N_ELEMENTS(errors); i++)
        g_assert_nonnull(strstr(manual, errors[i]));
}

static void
test_set_is_refused(void)
{
    static const char *const properties[] = {"Version", "Framework", "Profiles", "GPUs", "Assignments"};
    g_autoptr(Host) host = two_l40s();
    g_autoptr(Client) client = client_new(host, 0);

    for (gsize i = 0; i < G_N_ELEMENTS(properties); i++) {
        g_autoptr(GError) error = NULL;
        g_autoptr(GVariant) reply = client_call(
            client, "org.freedesktop.DBus.Properties.Set",
            g_variant_new("(ssv)", "org.hypeman.VGPU1", properties[i], g_variant_new_string("x")), &error);

        g_assert_null(reply);
        assert_error(error, "PropertyReadOnly");
    }
}

static void
test_change_is_signalled(void)
{
    g_autoptr(Host) host = two_l40s();
    g_autoptr(Client) client = client_new(host, 0);
    g_autofree char *id = NULL;

    client_listen(client);
    id = client_must_assign(client, "L40S-2Q", NULL, NULL);
    wait_for(client_changes(client, "Assignments") > 0 && client_changes(client, "GPUs") > 0 &&
             client_changes(client, "Profiles") > 0);
    g_assert_cmpuint(client_changes(client, "Framework"), ==, 0);
}

static void
test_foreign_change_is_signalled(void)
{
    g_autoptr(Host) host = two_l40s();
    g_autoptr(Client) client = client_new(host, 0);

    client_listen(client);
    g_assert_cmpint(bed_set_by_hand(host_bed(host), "0000:3b:00.4", 1148), ==, 0);
    wait_for(client_gpu_number(client, FIRST, "SlotsFree") == 31); /* a read notices */
    wait_for(client_changes(client, "GPUs") > 0 && client_changes(client, "Profiles") > 0);
    g_assert_cmpuint(client_changes(client, "Assignments"), ==, 0);
}

static int
run(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/listing/framework/is-told-per-host", test_framework);
    g_test_add_func("/listing/framework/none-says-so", test_none);
    g_test_add_func("/listing/profiles/two-l40s-have-23-rows", test_profiles);
    g_test_add_func("/listing/profiles/are-ordered-as-people-count", test_order);
    g_test_add_func("/listing/profiles/after-one-48q-a-card-is-full", test_after_one_48q);
    g_test_add_func("/listing/profiles/after-one-2q-only-its-size-is-left", test_after_one_2q);
    g_test_add_func("/listing/gpus/occupied-slot-names-its-assignment", test_occupied);
    g_test_add_func("/listing/gpus/slot-set-by-hand-is-understood", test_set_by_hand);
    g_test_add_func("/listing/gpus/card-without-virtual-functions-says-why", test_no_vfs);
    g_test_add_func("/listing/mixed/gvt-g-beside-vendor-vfio", test_gvtg_beside_vendor);
    g_test_add_func("/listing/broken/slot-is-passed-over", test_broken_slot);
    g_test_add_func("/listing/broken/nothing-readable-is-an-error-not-no-vgpu", test_nothing_readable);
    g_test_add_func("/listing/catalogue/odd-texts-are-read", test_odd_catalogues);
    g_test_add_func("/listing/catalogue/header-only-is-no-capacity", test_header_only);
    g_test_add_func("/listing/introspection/agrees-with-the-xml", test_introspection_agrees);
    g_test_add_func("/listing/introspection/manual-page-has-every-member", test_manual_page);
    g_test_add_func("/listing/properties/every-set-is-refused", test_set_is_refused);
    g_test_add_func("/listing/signals/own-change", test_change_is_signalled);
    g_test_add_func("/listing/signals/foreign-change-that-a-read-notices", test_foreign_change_is_signalled);
    return g_test_run();
}

int
main(int argc, char **argv)
{
    return bed_main(argc, argv, run);
}
