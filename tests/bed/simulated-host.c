/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "bed.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const default_cards[] = {"l40s@0000:3b:00.0", "l40s@0000:5e:00.0", "t4@0000:65:00.0",
                                            NULL};

static char **cards;
static char **command;

static const GOptionEntry options[] = {
    {"card", 'c', 0, G_OPTION_ARG_STRING_ARRAY, &cards, "A card of the host; may be repeated",
     "MODEL@ADDRESS[:VFS]"},
    {G_OPTION_REMAINING, 0, 0, G_OPTION_ARG_STRING_ARRAY, &command, NULL, "-- COMMAND…"},
    {NULL},
};

/* MODEL@DDDD:BB:SS.F[:VFS] */
static gboolean
add_card(Bed *bed, const char *text)
{
    g_auto(GStrv) halves = g_strsplit(text, "@", 2);
    const char *dot = halves[0] && halves[1] ? strchr(halves[1], '.') : NULL;
    char *vfs = dot ? strchr(dot, ':') : NULL;

    if (!dot || !g_strv_contains(bed_models(), halves[0]))
        return FALSE;
    if (vfs)
        *vfs++ = '\0';
    bed_add_card(bed, halves[0], halves[1], vfs ? atoi(vfs) : -1);
    return TRUE;
}

static int
run_command(void)
{
    pid_t pid = fork();
    int status;

    if (pid < 0) {
        perror("simulated-host: fork");
        return 1;
    }
    if (pid == 0) {
        execvp(command[0], command);
        fprintf(stderr, "simulated-host: %s: %s\n", command[0], strerror(errno));
        _exit(127);
    }
    /* The terminal's signals are the command's business. */
    signal(SIGINT, SIG_IGN);
    signal(SIGQUIT, SIG_IGN);
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return 1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int
run(int argc, char **argv)
{
    g_autoptr(Bed) bed = bed_new(NULL);
    g_autofree char *preload = bed_preload();
    const char *const *list = cards ? (const char *const *)cards : default_cards;

    for (guint i = 0; list[i]; i++) {
        if (!add_card(bed, list[i])) {
            g_autofree char *models = g_strjoinv(", ", (char **)bed_models());

            fprintf(stderr, "simulated-host: %s is not MODEL@DDDD:BB:SS.F[:VFS]; models are %s\n", list[i],
                    models);
            return 2;
        }
    }
    g_setenv("UMOCKDEV_DIR", bed_root(bed), TRUE);
    g_setenv("VGPU_BED_PRELOAD", preload, TRUE);
    return run_command();
}

int
main(int argc, char **argv)
{
    g_autoptr(GOptionContext) context = g_option_context_new(NULL);
    g_autoptr(GError) error = NULL;

    g_option_context_set_summary(context, "Runs COMMAND on a host with vGPU cards that exist in memory only. "
                                          "A process sees them when LD_PRELOAD is\n"
                                          "the value of $VGPU_BED_PRELOAD; $UMOCKDEV_DIR is their directory. "
                                          "Without --card: two L40S and a T4.");
    g_option_context_add_main_entries(context, options, NULL);
    g_option_context_set_strict_posix(context, TRUE);
    if (!g_option_context_parse(context, &argc, &argv, &error)) {
        fprintf(stderr, "simulated-host: %s\n", error->message);
        return 2;
    }
    if (!command) {
        fprintf(stderr, "simulated-host: which command shall run on it?\n");
        return 2;
    }
    return bed_main(argc, argv, run);
}
