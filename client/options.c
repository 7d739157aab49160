/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <getopt.h>
#include <limits.h>
#include <string.h>

#include "command.h"
#include "failure.h"

/* A fork bomb of assignments is a typing error; the service's own limit is far lower for all but root. */
#define NUMBER_MAX 1024

/* What getopt_long() returns for the option at @index: above every letter. */
#define VALUE_OF(index) (256 + (int)(index))

static bool set_json(VgpuInvocation *invocation, const char *value, GError **error);
static bool set_format(VgpuInvocation *invocation, const char *value, GError **error);
static bool set_number(VgpuInvocation *invocation, const char *value, GError **error);
static bool set_numa_node(VgpuInvocation *invocation, const char *value, GError **error);
static bool set_placement(VgpuInvocation *invocation, const char *value, GError **error);

#define FLAG(member) .flag = offsetof(VgpuInvocation, member)
#define STRING(member) .string = offsetof(VgpuInvocation, member)

const VgpuOption vgpu_options[] = {
    {VGPU_OPTION_PLACE, "gpu", 0, "ADDRESS", "Only on this card", STRING(gpu)},
    {VGPU_OPTION_PLACE, "device", 0, "ADDRESS", "Only this virtual function or mdev parent", STRING(device)},
    {VGPU_OPTION_PLACE, "placement", 0, "spread|pack", "The emptiest card, or the fullest that takes it",
     .set = set_placement},
    {VGPU_OPTION_PLACE, "numa-node", 0, "NODE", "Only cards of this NUMA node", .set = set_numa_node},
    {VGPU_OPTION_PLACE, "uuid", 0, "UUID", "The UUID of the mediated device to make", STRING(uuid)},
    {VGPU_OPTION_PLACE, "label", 0, "TEXT", "A note that is listed with it, 64 bytes at most", STRING(label)},
    {VGPU_OPTION_FORMAT, "format", 0, "FORMAT", "Print it to be pasted: qemu, libvirt or json",
     .set = set_format},
    {VGPU_OPTION_NUMBER, "number", 'n', "N", "Take N of them, all or none", .set = set_number},
    {VGPU_OPTION_ALL, "all", 0, NULL, "All assignments of the calling user; of everyone for root", FLAG(all)},

    {0, "host", 'H', "[USER@]HOST", "Ask the service of another host, over ssh", STRING(host)},
    {0, "json", 0, "short|pretty", "Print JSON, in one line or indented", .set = set_json},
    {0, "no-legend", 0, NULL, "Print no column titles and no closing lines", FLAG(no_legend)},
    {0, "no-pager", 0, NULL, "Do not pipe long output into a pager", FLAG(no_pager)},
    {0, "no-ask-password", 0, NULL, "Do not ask for a password, fail instead", FLAG(no_ask_password)},
    {0, "quiet", 'q', NULL, "Print no hints; for plan, only exit with the answer", FLAG(quiet)},
    {0, "help", 'h', NULL, "Show this help", FLAG(help)},
    {0, "version", 0, NULL, "Show the version", FLAG(version)},
    {0},
};

G_GNUC_PRINTF(2, 3)
static bool
fail(GError **error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    g_autofree char *text = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    g_set_error(error, VGPUCTL_ERROR, VGPUCTL_ERROR_USAGE, "%s (see vgpuctl --help)", text);
    return false;
}

static bool
set_json(VgpuInvocation *invocation, const char *value, GError **error)
{
    if (!strcmp(value, "short"))
        invocation->json = VGPU_JSON_SHORT;
    else if (!strcmp(value, "pretty"))
        invocation->json = VGPU_JSON_PRETTY;
    else
        return fail(error, "--json takes short or pretty, not \"%s\"", value);
    return true;
}

static bool
set_format(VgpuInvocation *invocation, const char *value, GError **error)
{
    if (!strcmp(value, "qemu"))
        invocation->format = VGPU_FORMAT_QEMU;
    else if (!strcmp(value, "libvirt"))
        invocation->format = VGPU_FORMAT_LIBVIRT;
    else if (!strcmp(value, "json"))
        invocation->format = VGPU_FORMAT_JSON;
    else
        return fail(error, "--format takes qemu, libvirt or json, not \"%s\"", value);
    return true;
}

static bool
set_number(VgpuInvocation *invocation, const char *value, GError **error)
{
    guint64 number = 0;
    if (!g_ascii_string_to_unsigned(value, 10, 1, NUMBER_MAX, &number, NULL))
        return fail(error, "-n takes a number from 1 to %d, not \"%s\"", NUMBER_MAX, value);
    invocation->number = (unsigned)number;
    return true;
}

static bool
set_numa_node(VgpuInvocation *invocation, const char *value, GError **error)
{
    gint64 node = 0;
    if (!g_ascii_string_to_signed(value, 10, INT_MIN, INT_MAX, &node, NULL))
        return fail(error, "--numa-node takes a number, not \"%s\"", value);
    invocation->numa_node = (int)node;
    invocation->has_numa_node = true;
    return true;
}

static bool
set_placement(VgpuInvocation *invocation, const char *value, GError **error)
{
    if (strcmp(value, "spread") && strcmp(value, "pack"))
        return fail(error, "--placement takes spread or pack, not \"%s\"", value);
    invocation->placement = value;
    return true;
}

/* The table in getopt's words: @long_options has room for it and an end, @letters is grown. */
static void
describe_for_getopt(struct option *long_options, GString *letters)
{
    /* `-`: arguments come in their place, so that what follows `--` is told apart; `:`: own messages. */
    g_string_append(letters, "-:");
    for (size_t i = 0; vgpu_options[i].name; i++) {
        const VgpuOption *option = &vgpu_options[i];
        long_options[i] = (struct option){option->name, option->argument ? required_argument : no_argument,
                                          NULL, VALUE_OF(i)};
        if (option->letter)
            g_string_append_printf(letters, "%c%s", option->letter, option->argument ? ":" : "");
    }
}

static const VgpuOption *
option_of_value(int value)
{
    for (size_t i = 0; vgpu_options[i].name; i++)
        if (value == VALUE_OF(i) || (vgpu_options[i].letter && value == vgpu_options[i].letter))
            return &vgpu_options[i];
    return NULL;
}

/* The bus carries nothing else; it would cut the connection, with nothing said. */
static bool
is_text(const char *value, GError **error)
{
    return g_utf8_validate(value, -1, NULL) || fail(error, "\"%s\" is not valid UTF-8", value);
}

static bool
keep_option(VgpuInvocation *invocation, const VgpuOption *option, const char *value, GError **error)
{
    if (value && !is_text(value, error))
        return false;
    if (option->set)
        return option->set(invocation, value, error);
    if (option->string)
        G_STRUCT_MEMBER(const char *, invocation, option->string) = value;
    else
        G_STRUCT_MEMBER(bool, invocation, option->flag) = true;
    return true;
}

/* getopt said '?' at @word: its optopt tells what it did not like. */
static bool
refuse_option(const char *word, GError **error)
{
    const VgpuOption *option = option_of_value(optopt);
    if (option)
        return fail(error, "--%s takes no value", option->name);
    if (optopt)
        return fail(error, "there is no option -%c", optopt);
    return fail(error, "there is no option \"%s\", or it is not written out far enough", word);
}

/* Fills @invocation and the bits of the special options that were given. */
static bool
read_options(VgpuInvocation *invocation, int argc, char **argv, unsigned *ret_given, GError **error)
{
    struct option long_options[64] = {0};
    g_autoptr(GString) letters = g_string_new(NULL);
    unsigned given = 0;
    int value;

    describe_for_getopt(long_options, letters);
    optind = 0;
    opterr = 0;
    while ((value = getopt_long(argc, argv, letters->str, long_options, NULL)) >= 0) {
        if (value == 1) {
            if (!is_text(optarg, error))
                return false;
            g_ptr_array_add(invocation->arguments, optarg);
            continue;
        }
        if (value == ':')
            return fail(error, "%s needs a value", argv[optind - 1]);
        const VgpuOption *option = value == '?' ? NULL : option_of_value(value);
        if (!option)
            return refuse_option(argv[optind - 1], error);
        if (!keep_option(invocation, option, optarg, error))
            return false;
        given |= option->bit;
    }
    if (optind > 1 && !strcmp(argv[optind - 1], "--")) {
        invocation->rest = g_ptr_array_new();
        for (int i = optind; i < argc; i++)
            g_ptr_array_add(invocation->rest, argv[i]);
    }
    *ret_given = given;
    return true;
}

/* Commands that run nothing treat `--` as getopt does: what follows are arguments like the others. */
static bool
merge_rest(VgpuInvocation *invocation, GError **error)
{
    if (!invocation->rest || invocation->command->takes_command)
        return true;
    for (unsigned i = 0; i < invocation->rest->len; i++) {
        if (!is_text(invocation->rest->pdata[i], error))
            return false;
        g_ptr_array_add(invocation->arguments, invocation->rest->pdata[i]);
    }
    g_clear_pointer(&invocation->rest, g_ptr_array_unref);
    return true;
}

static bool
find_command(VgpuInvocation *invocation, GError **error)
{
    if (invocation->arguments->len == 0) {
        invocation->command = invocation->help ? NULL : &vgpu_commands[0];
        return true;
    }
    const char *name = vgpu_invocation_first(invocation);
    invocation->command = vgpu_command_find(name);
    if (!invocation->command)
        return fail(error, "there is no command \"%s\"", name);
    g_ptr_array_remove_index(invocation->arguments, 0);
    return true;
}

static bool
check_command(const VgpuInvocation *invocation, unsigned given, GError **error)
{
    const VgpuCommand *command = invocation->command;
    unsigned n = invocation->arguments->len;

    for (const VgpuOption *option = vgpu_options; option->name; option++)
        if (option->bit & given & ~command->options)
            return fail(error, "%s takes no --%s", command->name, option->name);
    if (command->takes_command && (!invocation->rest || invocation->rest->len == 0))
        return fail(error, "%s needs -- and a command", command->name);
    if (n < command->min)
        return fail(error, "%s needs %s", command->name, command->arguments);
    if (n > command->max)
        return fail(error, "\"%s\" is one argument too many for %s",
                    (const char *)invocation->arguments->pdata[command->max], command->name);
    if ((command->options & VGPU_OPTION_ALL) && invocation->all == (n > 0))
        return fail(error, "%s needs either %s", command->name, "ids or --all");
    return true;
}

bool
vgpu_invocation_parse(VgpuInvocation *invocation, int argc, char **argv, GError **error)
{
    unsigned given = 0;

    *invocation = (VgpuInvocation){.arguments = g_ptr_array_new(), .number = 1};
    if (!read_options(invocation, argc, argv, &given, error))
        return false;
    if (invocation->version)
        return true;
    if (!find_command(invocation, error))
        return false;
    if (invocation->help)
        return true;
    return merge_rest(invocation, error) && check_command(invocation, given, error);
}

void
vgpu_invocation_clear(VgpuInvocation *invocation)
{
    g_clear_pointer(&invocation->arguments, g_ptr_array_unref);
    g_clear_pointer(&invocation->rest, g_ptr_array_unref);
}

const char *
vgpu_invocation_first(const VgpuInvocation *invocation)
{
    return invocation->arguments->pdata[0];
}
