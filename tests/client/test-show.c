/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The commands of vgpuctl that only look. */

#include "fixture.h"

static void
test_status_table(void)
{
    g_autoptr(Mock) mock = mock_new();
    fixture_fill(mock);
    g_autoptr(Tool) tool = tool_run(mock, 0, "status", NULL);

    ASSERT_HAS(tool->out, "Framework: vendor-vfio   Service: 9.8.7\n");
    ASSERT_HAS(tool->out, "0000:3b:00.0 NVIDIA L40S 30/32 4G/48G -\n");
    ASSERT_HAS(tool->out, "0000:af:00.0 -             0/0      - no virtual functions are enabled");
    ASSERT_HAS(tool->out, "aaaa       in-use NVIDIA L40S-2Q 0000:3b:00.4\n");
    ASSERT_HAS(tool->out, "bbbb       failed type 1199      0000:3b:00.6\n");
    ASSERT_HAS(tool->out, "bbbb: /sys/x refused 0: Input/output error\n");
    g_assert_cmpstr(tool->err->str, ==, "");

    g_autoptr(Tool) bare = tool_run(mock, 0, NULL);
    g_assert_cmpstr(bare->out->str, ==, tool->out->str);
}

static void
test_status_nothing(void)
{
    g_autoptr(Mock) mock = mock_new();
    mock_set(mock, "Framework", "'none'");
    g_autoptr(Tool) tool = tool_run(mock, 0, "status", NULL);
    g_assert_cmpstr(tool->out->str, ==, "Framework: none   Service: 9.8.7\n\nNo cards.\n\nNo assignments.\n");
}

static void
test_status_json(void)
{
    g_autoptr(Mock) mock = mock_new();
    fixture_fill(mock);
    g_autoptr(Tool) tool = tool_run(mock, 0, "--json=short", NULL);
    g_autoptr(JsonNode) node = fixture_json(tool->out);
    JsonObject *status = json_node_get_object(node);

    g_assert_cmpstr(json_object_get_string_member(status, "Framework"), ==, "vendor-vfio");
    g_assert_cmpstr(json_object_get_string_member(status, "Version"), ==, "9.8.7");
    g_assert_cmpint(json_array_get_length(json_object_get_array_member(status, "GPUs")), ==, 2);
    g_assert_cmpint(json_array_get_length(json_object_get_array_member(status, "Profiles")), ==, 3);
    g_assert_cmpint(json_array_get_length(json_object_get_array_member(status, "Assignments")), ==, 2);
}

static void
test_gpus_table(void)
{
    g_autoptr(Mock) mock = mock_new();
    fixture_fill(mock);
    g_autoptr(Tool) tool = tool_run(mock, 0, "gpus", NULL);

    ASSERT_HAS(tool->out, "CARD           NAME           FRAMEWORK   NUMA FREE SLOTS ASSIGNED MEMORY NOTE\n");
    ASSERT_HAS(tool->out, "0000:3b:00.0   NVIDIA L40S    vendor-vfio    0   30    32       4G    48G -\n");
    ASSERT_HAS(tool->out, "─0000:3b:00.4 NVIDIA L40S-2Q");
    ASSERT_HAS(tool->out, "assignment aaaa\n");
    ASSERT_HAS(tool->out, "─0000:3b:00.5 type 1199");
    ASSERT_HAS(tool->out, "not handed out by the service\n");
    ASSERT_HAS(tool->out,
               "0000:af:00.0   -              vendor-vfio    -    0     0        -      - no virtual");
}

static void
test_gpus_json(void)
{
    g_autoptr(Mock) mock = mock_new();
    fixture_fill(mock);
    g_autoptr(Tool) tool = tool_run(mock, 0, "gpus", "--json", "pretty", NULL);
    g_autoptr(JsonNode) node = fixture_json(tool->out);
    JsonArray *cards = json_node_get_array(node);
    JsonObject *first = json_array_get_object_element(cards, 0);
    JsonObject *second = json_array_get_object_element(cards, 1);
    JsonObject *slot = json_array_get_object_element(json_object_get_array_member(first, "Occupied"), 0);

    g_assert_cmpint(json_object_get_int_member(first, "FramebufferMiB"), ==, 49152);
    g_assert_cmpint(json_object_get_int_member(first, "NumaNode"), ==, 0);
    g_assert_cmpstr(json_object_get_string_member(slot, "Assignment"), ==, "aaaa");
    /* What is not known is not there. */
    g_assert_false(json_object_has_member(second, "Name"));
    g_assert_false(json_object_has_member(second, "Occupied"));
    g_assert_cmpint(json_object_get_size(second), ==, 5);
    /* Indented, and closed by a newline. */
    ASSERT_HAS(tool->out, "\n    \"Address\" : \"0000:3b:00.0\"");
    g_assert_true(g_str_has_suffix(tool->out->str, "]\n"));
}

static void
test_profiles_table(void)
{
    g_autoptr(Mock) mock = mock_new();
    fixture_fill(mock);
    g_autoptr(Tool) tool = tool_run(mock, 0, "profiles", NULL);
    g_assert_cmpstr(tool->out->str, ==,
                    "NAME            MEMORY AVAILABLE REMAINING CARDS\n"
                    "NVIDIA L40S-2A      2G        30        22 0000:3b:00.0\n"
                    "NVIDIA L40S-12A    12G         0         0 0000:3b:00.0,0000:af:00.0\n"
                    "ODD-4-96             -         3         - -\n");

    g_autoptr(Tool) bare = tool_run(mock, 0, "--no-legend", "profiles", NULL);
    ASSERT_HAS_NOT(bare->out, "NAME");
    g_assert_true(g_str_has_prefix(bare->out->str, "NVIDIA L40S-2A "));
}

static void
test_profiles_json(void)
{
    g_autoptr(Mock) mock = mock_new();
    fixture_fill(mock);
    g_autoptr(Tool) tool = tool_run(mock, 0, "profiles", "--json=short", NULL);
    g_assert_cmpstr(tool->out->str, ==,
                    "[{\"Name\":\"NVIDIA L40S-2A\",\"FramebufferMiB\":2048,\"Available\":30,\"Remaining\":22,"
                    "\"GPUs\":[\"0000:3b:00.0\"]},"
                    "{\"Name\":\"NVIDIA L40S-12A\",\"FramebufferMiB\":12288,\"Available\":0,\"Remaining\":0,"
                    "\"GPUs\":[\"0000:3b:00.0\",\"0000:af:00.0\"]},"
                    "{\"Name\":\"ODD-4-96\",\"Available\":3}]\n");
}

static void
test_list_table(void)
{
    g_autoptr(Mock) mock = mock_new();
    fixture_fill(mock);
    g_autoptr(Tool) tool = tool_run(mock, 0, "list", NULL);

    ASSERT_HAS(tool->out, "aaaa       in-use NVIDIA L40S-2Q 0000:3b:00.4 /dev/vfio/42 root 4711 "
                          "2023-11-14 22:13:20 build vm 4712 qemu-system-x86\n");
    ASSERT_HAS(tool->out, "bbbb       failed type 1199      0000:3b:00.6 -            4242    - ");
    ASSERT_HAS(tool->out, "bbbb: /sys/x refused 0: Input/output error\n");
}

static void
test_list_json_and_none(void)
{
    g_autoptr(Mock) mock = mock_new();
    g_autoptr(Tool) none = tool_run(mock, 0, "list", "--json=short", NULL);
    g_assert_cmpstr(none->out->str, ==, "[]\n");
    g_autoptr(Tool) table = tool_run(mock, 0, "list", NULL);
    g_assert_cmpstr(table->out->str, ==, "No assignments.\n");
    g_autoptr(Tool) bare = tool_run(mock, 0, "list", "--no-legend", NULL);
    g_assert_cmpstr(bare->out->str, ==, "");

    fixture_fill(mock);
    g_autoptr(Tool) tool = tool_run(mock, 0, "list", "--json=short", NULL);
    g_autoptr(JsonNode) node = fixture_json(tool->out);
    JsonObject *first = json_array_get_object_element(json_node_get_array(node), 0);
    g_assert_cmpint(json_object_get_int_member(first, "Since"), ==, 1700000000000000);
    g_assert_cmpint(json_object_get_int_member(first, "UID"), ==, 0);
}

static void
test_plan_fits(void)
{
    g_autoptr(Mock) mock = mock_new();
    mock_set_plan(mock, "{'Device': <'0000:3b:00.4'>, 'GPU': <'0000:3b:00.0'>, 'Remaining': <uint32 7>}");
    g_autoptr(Tool) tool = tool_run(mock, 0, "plan", "L40S-2Q", NULL);
    g_assert_cmpstr(tool->out->str, ==,
                    "DEVICE       CARD         REMAINING\n0000:3b:00.4 0000:3b:00.0         7\n");
    g_autoptr(Tool) json = tool_run(mock, 0, "plan", "L40S-2Q", "--json=short", NULL);
    g_assert_cmpstr(json->out->str, ==,
                    "{\"Device\":\"0000:3b:00.4\",\"GPU\":\"0000:3b:00.0\",\"Remaining\":7}\n");
    g_autoptr(Tool) quiet = tool_run(mock, 0, "plan", "-q", "L40S-2Q", NULL);
    g_assert_cmpstr(quiet->out->str, ==, "");
}

static void
test_plan_nowhere(void)
{
    g_autoptr(Mock) mock = mock_new();
    mock_set_plan(mock, "{'Reasons': <{'0000:3b:00.0': 'full'}>}");
    g_autoptr(Tool) tool = tool_run(mock, 4, "plan", "L40S-2Q", NULL);
    g_assert_cmpstr(tool->out->str, ==, "CARD         REASON\n0000:3b:00.0 full\n");
    g_autoptr(Tool) json = tool_run(mock, 4, "plan", "L40S-2Q", "--json=short", NULL);
    g_assert_cmpstr(json->out->str, ==, "{\"Reasons\":{\"0000:3b:00.0\":\"full\"}}\n");
    g_autoptr(Tool) quiet = tool_run(mock, 4, "plan", "-q", "L40S-2Q", NULL);
    g_assert_cmpstr(quiet->out->str, ==, "");
}

/* Each option reaches the service under its name and with its type. */
static void
test_plan_options(void)
{
    g_autoptr(Mock) mock = mock_new();
    mock_set_plan(mock, "{'Device': <'x'>}");
    tool_free(tool_run(mock, 0, "plan", "--gpu=0000:3b:00.0", "--device", "3b:00.4", "L40S-2Q",
                       "--placement=pack", "--numa-node=-1", "--uuid=U", "--label=my vm", NULL));
    g_autoptr(GVariant) wanted = g_variant_ref_sink(g_variant_new_parsed(
        "('L40S-2Q', {'gpu': <'0000:3b:00.0'>, 'device': <'3b:00.4'>, 'placement': <'pack'>, 'uuid': <'U'>,"
        " 'label': <'my vm'>, 'numa-node': <-1>})"));
    g_assert_true(g_variant_equal(mock_last_arguments(mock, "Plan"), wanted));

    tool_free(tool_run(mock, 0, "plan", "--", "-odd-", NULL));
    g_autoptr(GVariant) none = g_variant_ref_sink(g_variant_new_parsed("('-odd-', @a{sv} {})"));
    g_assert_true(g_variant_equal(mock_last_arguments(mock, "Plan"), none));
}

/* Texts that would change a terminal, or break a line, do neither; JSON keeps them whole. */
static void
test_odd_bytes(void)
{
    g_autoptr(Mock) mock = mock_new();
    mock_add(mock, "odd",
             "{'State': <'\\u001b[31mred'>, 'Label': <'two\\nlines\\u009b1m'>, 'Profile': <5>,"
             " 'Holders': <['1 \\u0007bell']>, 'Since': <uint64 18446744073709551615>}");
    g_autoptr(Tool) tool = tool_run(mock, 0, "list", "--no-legend", NULL);
    ASSERT_HAS(tool->out, " [31mred ");
    ASSERT_HAS(tool->out, "two lines 1m");
    for (const char *c = tool->out->str; *c; c++)
        g_assert_true(*c == '\n' || !g_ascii_iscntrl(*c));
    ASSERT_HAS_NOT(tool->out, "\xc2\x9b");

    g_autoptr(Tool) json = tool_run(mock, 0, "list", "--json=short", NULL);
    g_autoptr(JsonNode) node = fixture_json(json->out);
    JsonObject *first = json_array_get_object_element(json_node_get_array(node), 0);
    g_assert_cmpstr(json_object_get_string_member(first, "Label"), ==,
                    "two\nlines\xc2\x9b"
                    "1m");

    mock_fail(mock, "Plan", 0, "org.hypeman.VGPU1.Error.DeviceFailed", "it\nsaid \x1b[2J");
    g_autoptr(Tool) failed = tool_run(mock, 1, "plan", "X", NULL);
    g_assert_cmpstr(failed->err->str, ==, "vgpuctl: it said  [2J\n");
}

/* A newer service may send what this client does not know: it says so, or shows what it can. */
static void
test_other_types(void)
{
    g_autoptr(Mock) mock = mock_new();
    mock_set(mock, "Profiles",
             "[{'Name': <'A'>, 'New': <(1, [true], {'k': <@ay [7]>})>, 'FramebufferMiB': <'x'>}]");
    g_autoptr(Tool) tool = tool_run(mock, 0, "profiles", "--no-legend", NULL);
    ASSERT_HAS(tool->out, "A         -         -         - -\n");
    g_autoptr(Tool) json = tool_run(mock, 0, "profiles", "--json=short", NULL);
    g_assert_cmpstr(json->out->str, ==,
                    "[{\"Name\":\"A\",\"New\":[1,[true],{\"k\":[7]}],\"FramebufferMiB\":\"x\"}]\n");
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/vgpuctl/status/fits-a-screen", test_status_table);
    g_test_add_func("/vgpuctl/status/says-that-there-is-nothing", test_status_nothing);
    g_test_add_func("/vgpuctl/status/json-has-every-property", test_status_json);
    g_test_add_func("/vgpuctl/gpus/shows-cards-and-slots", test_gpus_table);
    g_test_add_func("/vgpuctl/gpus/json-leaves-out-the-unknown", test_gpus_json);
    g_test_add_func("/vgpuctl/profiles/table", test_profiles_table);
    g_test_add_func("/vgpuctl/profiles/json", test_profiles_json);
    g_test_add_func("/vgpuctl/list/table", test_list_table);
    g_test_add_func("/vgpuctl/list/json-and-nothing", test_list_json_and_none);
    g_test_add_func("/vgpuctl/plan/says-where", test_plan_fits);
    g_test_add_func("/vgpuctl/plan/says-why-nowhere", test_plan_nowhere);
    g_test_add_func("/vgpuctl/plan/passes-every-option", test_plan_options);
    g_test_add_func("/vgpuctl/odd-bytes/stay-off-the-terminal", test_odd_bytes);
    g_test_add_func("/vgpuctl/newer-service/is-shown-or-named", test_other_types);
    return g_test_run();
}
