/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The help, the man page and the completions of vgpuctl, held against its tables of commands and options. */
#include <string.h>

#include "command.h"
#include "fixture.h"

static char *
read_client_file(const char *name)
{
    g_autofree char *path = g_build_filename(g_getenv("VGPU_TEST_CLIENT"), name, NULL);
    g_autoptr(GError) error = NULL;
    char *text = NULL;

    g_file_get_contents(path, &text, NULL, &error);
    g_assert_no_error(error);
    return text;
}

/* The man page as it is read: without roff's escapes for dashes. */
static char *
read_man_page(void)
{
    g_autofree char *page = read_client_file("vgpuctl.1");
    g_auto(GStrv) parts = g_strsplit(page, "\\-", -1);
    return g_strjoinv("-", parts);
}

static bool
matches(const char *text, const char *pattern)
{
    return g_regex_match_simple(pattern, text, G_REGEX_MULTILINE, 0);
}

static void
assert_matches(const char *text, const char *what, const char *pattern)
{
    if (!matches(text, pattern))
        g_error("%s is not documented: nothing matches %s", what, pattern);
}

static void
test_man_page(void)
{
    g_autofree char *page = read_man_page();

    for (const VgpuCommand *command = vgpu_commands; command->name; command++) {
        g_autofree char *pattern = g_strdup_printf("^\\.TP\\n\\.(B|BI|BR) %s( |$)", command->name);
        assert_matches(page, command->name, pattern);
    }
    for (const VgpuOption *option = vgpu_options; option->name; option++) {
        g_autofree char *pattern = g_strdup_printf("^\\.TP\\n\\.(B|BI|BR) .*--%s(=| |$)", option->name);
        assert_matches(page, option->name, pattern);
        g_autofree char *letter = g_strdup_printf("^\\.TP\\n\\.(B|BI|BR) -%c ", option->letter);
        if (option->letter)
            assert_matches(page, option->name, letter);
    }
}

/* The other way round: no option that there is not, and every exit status and variable. */
static void
test_man_page_true(void)
{
    static const char *const named[] = {
        "^\\.B 0$",
        "^\\.B 1$",
        "^\\.B 2$",
        "^\\.B 3$",
        "^\\.B 4$",
        "^\\.B 5$",
        "^\\.B VGPU_ID$",
        "^\\.B VGPU_PROFILE$",
        "^\\.B VGPU_DEVICE$",
        "^\\.B VGPU_UUID$",
        "^\\.B VGPU_GROUP_NODE$",
        "^\\.B \\{device\\}$",
        "^\\.B \\{uuid\\}$",
        "^\\.B \\{qemu\\}$",
        "^\\.SH EXAMPLES$",
    };
    g_autofree char *page = read_man_page();
    g_autoptr(GRegex) regex = g_regex_new("^\\.TP\\n\\..*--([a-z-]+)", G_REGEX_MULTILINE, 0, NULL);
    g_autoptr(GMatchInfo) match = NULL;
    unsigned found = 0;

    for (size_t i = 0; i < G_N_ELEMENTS(named); i++)
        assert_matches(page, named[i], named[i]);
    for (g_regex_match(regex, page, 0, &match); g_match_info_matches(match); g_match_info_next(match, NULL)) {
        g_autofree char *name = g_match_info_fetch(match, 1);
        const VgpuOption *option = vgpu_options;
        while (option->name && strcmp(option->name, name))
            option++;
        if (!option->name)
            g_error("the man page has --%s, vgpuctl has not", name);
        found++;
    }
    /* Each once, and --all once more as the argument of release. */
    unsigned wanted = 1;
    for (const VgpuOption *option = vgpu_options; option->name; option++)
        wanted++;
    g_assert_cmpuint(found, ==, wanted);
}

static void
test_help(void)
{
    g_autoptr(Mock) mock = mock_new();
    g_autoptr(Tool) all = tool_run(mock, 0, "--help", NULL);

    for (const VgpuCommand *command = vgpu_commands; command->name; command++) {
        g_autofree char *pattern = g_strdup_printf("^  %s .*%.20s", command->name, command->text);
        assert_matches(all->out->str, command->name, pattern);
        g_autoptr(Tool) one = tool_run(mock, 0, command->name, "-h", NULL);
        g_autofree char *usage = g_strdup_printf("Usage: vgpuctl %s [OPTION...]", command->name);
        ASSERT_HAS(one->out, usage);
        for (const VgpuOption *option = vgpu_options; option->name; option++) {
            g_autofree char *line = g_strdup_printf("^  (-.,|   ) --%s[ =]", option->name);
            assert_matches(all->out->str, option->name, line);
            g_assert_true(matches(one->out->str, line) == (!option->bit || (option->bit & command->options)));
        }
    }
    g_auto(GStrv) lines = g_strsplit(all->out->str, "\n", -1);
    for (char **line = lines; *line; line++)
        g_assert_cmpuint(strlen(*line), <=, 100);
}

static void
test_version(void)
{
    g_autoptr(Mock) mock = mock_new();
    g_autoptr(Tool) tool = tool_run(mock, 0, "--version", NULL);
    g_assert_cmpstr(tool->out->str, ==, "vgpuctl " PACKAGE_VERSION "\n");
}

static void
test_completions_complete(void)
{
    static const char *const files[] = {"vgpuctl.bash", "_vgpuctl"};

    for (size_t i = 0; i < G_N_ELEMENTS(files); i++) {
        g_autofree char *text = read_client_file(files[i]);
        for (const VgpuCommand *command = vgpu_commands; command->name; command++) {
            g_autofree char *pattern = g_strdup_printf("\\b%s\\b", command->name);
            assert_matches(text, command->name, pattern);
        }
        for (const VgpuOption *option = vgpu_options; option->name; option++) {
            g_autofree char *pattern = g_strdup_printf("--%s\\b", option->name);
            assert_matches(text, option->name, pattern);
        }
    }
}

/* What bash offers after the @words of a line, the last of which is being typed. */
static char *
complete(const Mock *mock, const char *words)
{
    g_autofree char *directory = g_path_get_dirname(g_getenv("VGPU_TEST_VGPUCTL"));
    g_autofree char *path = g_strconcat(directory, ":", g_getenv("PATH"), NULL);
    g_autofree char *script = g_strdup_printf(
        "source %s/vgpuctl.bash; COMP_WORDS=(vgpuctl %s); COMP_CWORD=$((${#COMP_WORDS[@]} - 1));"
        "_vgpuctl; echo \"${COMPREPLY[*]}\"",
        g_getenv("VGPU_TEST_CLIENT"), words);
    const char *const environment[] = {"PATH", path, NULL};
    const char *const arguments[] = {"--norc", "-c", script, NULL};
    g_autoptr(Tool) tool =
        tool_start_with(mock, &(ToolSetting){.program = "bash", .environment = environment}, arguments);

    g_assert_cmpint(tool_wait(tool), ==, 0);
    g_assert_cmpstr(tool->err->str, ==, "");
    return g_strdup(g_strchomp(tool->out->str));
}

static void
test_bash(void)
{
    static const struct {
        const char *words, *wanted;
    } lines[] = {
        {"re", "release reclaim"},
        {"pl", "plan"},
        {"--json = sh", "short"},
        {"--json ''", "short pretty"},
        {"assign --fo", "--format"},
        {"assign --format =", "qemu libvirt json"},
        {"release --a", "--all"},
        {"list --a", ""},
        {"plan L40S-1", "L40S-12A"},
        {"assign ''", "L40S-2A L40S-12A ODD-4-96"},
        {"assign --gpu 0000:a", "0000:af:00.0"},
        {"release a", "aaaa"},
        {"adopt ''", "aaaa bbbb"},
        {"reclaim 0000:3b:00.5", "0000:3b:00.5"},
        {"run L40S-2A -- mapfil", "mapfile"},
    };
    g_autoptr(Mock) mock = mock_new();

    fixture_fill(mock);
    for (size_t i = 0; i < G_N_ELEMENTS(lines); i++) {
        g_autofree char *offered = complete(mock, lines[i].words);
        g_assert_cmpstr(offered, ==, lines[i].wanted);
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/vgpuctl/documents/man-page-has-everything", test_man_page);
    g_test_add_func("/vgpuctl/documents/man-page-has-nothing-else", test_man_page_true);
    g_test_add_func("/vgpuctl/documents/help-has-everything", test_help);
    g_test_add_func("/vgpuctl/documents/version", test_version);
    g_test_add_func("/vgpuctl/documents/completions-have-everything", test_completions_complete);
    g_test_add_func("/vgpuctl/documents/bash-completes", test_bash);
    return g_test_run();
}
