/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <locale.h>
#include <stdio.h>

#include "command.h"
#include "failure.h"

static int
perform(int argc, char **argv, GError **error)
{
    g_auto(VgpuInvocation) invocation = {0};

    if (!vgpu_invocation_parse(&invocation, argc, argv, error))
        return VGPU_EXIT_USAGE;
    if (invocation.version) {
        puts("vgpuctl " PACKAGE_VERSION);
        return VGPU_EXIT_DONE;
    }
    if (invocation.help) {
        vgpu_command_help(invocation.command, stdout);
        return VGPU_EXIT_DONE;
    }
    return invocation.command->function(&invocation, error);
}

int
main(int argc, char **argv)
{
    g_autoptr(GError) error = NULL;

    setlocale(LC_ALL, "");
    int status = perform(argc, argv, &error);
    if (error) {
        vgpu_say("%s", error->message);
        status = vgpu_exit_status(error);
    }
    /* What a full disk swallowed was not done. */
    if ((fflush(stdout) != 0 || ferror(stdout)) && status == VGPU_EXIT_DONE) {
        vgpu_say("the output could not be written: %s", g_strerror(errno));
        status = VGPU_EXIT_FAILED;
    }
    return status;
}
