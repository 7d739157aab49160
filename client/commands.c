/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <limits.h>
#include <string.h>

#include "command.h"

const VgpuCommand vgpu_commands[] = {
    {"status", "", 0, 0, false, 0, vgpu_status_command,
     "Show the framework, the cards and what is assigned (default)"},
    {"gpus", "", 0, 0, false, 0, vgpu_gpus_command, "List the cards and the slots that hold a vGPU"},
    {"profiles", "", 0, 0, false, 0, vgpu_profiles_command,
     "List the profiles and how many more of each fit"},
    {"list", "", 0, 0, false, 0, vgpu_list_command, "List the assignments"},
    {"plan", "PROFILE", 1, 1, false, VGPU_OPTION_PLACE, vgpu_plan_command,
     "Say where a vGPU would go, or why nowhere, and change nothing"},
    {"assign", "PROFILE", 1, 1, false, VGPU_OPTION_PLACE | VGPU_OPTION_FORMAT, vgpu_assign_command,
     "Take a vGPU and hold it until interrupted"},
    {"run", "PROFILE -- COMMAND...", 1, 1, true, VGPU_OPTION_PLACE | VGPU_OPTION_NUMBER, vgpu_run_command,
     "Take vGPUs, run a command and give them back when it ends"},
    {"adopt", "ID", 1, 1, false, VGPU_OPTION_FORMAT, vgpu_adopt_command,
     "Take an assignment over and hold it until interrupted"},
    {"release", "ID...|--all", 0, UINT_MAX, false, VGPU_OPTION_ALL, vgpu_release_command, "Give vGPUs back"},
    {"reclaim", "DEVICE", 1, 1, false, 0, vgpu_reclaim_command,
     "Clear a vGPU that the service did not hand out, or that failed"},
    {"monitor", "", 0, 0, false, 0, vgpu_monitor_command, "Print a line for each change until interrupted"},
    {NULL},
};

const VgpuCommand *
vgpu_command_find(const char *name)
{
    for (const VgpuCommand *command = vgpu_commands; command->name; command++)
        if (!strcmp(command->name, name))
            return command;
    return NULL;
}

static void
print_options(unsigned taken, bool own, FILE *out)
{
    for (const VgpuOption *option = vgpu_options; option->name; option++) {
        if (own != (option->bit != 0) || (own && !(option->bit & taken)))
            continue;
        g_autofree char *letter = option->letter ? g_strdup_printf("-%c,", option->letter) : g_strdup("   ");
        g_autofree char *name =
            g_strconcat("--", option->name, option->argument ? "=" : NULL, option->argument, NULL);
        fprintf(out, "  %s %-23s %s\n", letter, name, option->text);
    }
}

static void
help_of_all(FILE *out)
{
    fputs("Usage: vgpuctl [OPTION...] [COMMAND] ...\n\n"
          "Take, hold and give back the vGPUs of this host through org.hypeman.VGPU1.\n\n"
          "Commands:\n",
          out);
    for (const VgpuCommand *command = vgpu_commands; command->name; command++) {
        g_autofree char *usage = g_strconcat(command->name, " ", command->arguments, NULL);
        fprintf(out, "  %-27s %s\n", usage, command->text);
    }
    static const struct {
        unsigned bit;
        const char *title;
    } sets[] = {
        {VGPU_OPTION_PLACE, "plan, assign and run"},
        {VGPU_OPTION_FORMAT, "assign and adopt"},
        {VGPU_OPTION_NUMBER, "run"},
        {VGPU_OPTION_ALL, "release"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(sets); i++) {
        fprintf(out, "\nOptions of %s:\n", sets[i].title);
        print_options(sets[i].bit, true, out);
    }
    fputs("\nOptions of every command:\n", out);
    print_options(0, false, out);
    fputs("\nSee vgpuctl(1).\n", out);
}

void
vgpu_command_help(const VgpuCommand *command, FILE *out)
{
    if (!command) {
        help_of_all(out);
        return;
    }
    fprintf(out, "Usage: vgpuctl %s [OPTION...]%s%s\n\n%s.\n", command->name, *command->arguments ? " " : "",
            command->arguments, command->text);
    if (command->options) {
        fprintf(out, "\nOptions of %s:\n", command->name);
        print_options(command->options, true, out);
    }
    fputs("\nOptions of every command:\n", out);
    print_options(0, false, out);
    fputs("\nSee vgpuctl(1).\n", out);
}
