/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <stdio.h>

typedef struct VgpuCommand VgpuCommand;

typedef enum {
    VGPU_JSON_NONE,
    VGPU_JSON_SHORT,
    VGPU_JSON_PRETTY,
} VgpuJson;

/* What `assign` and `adopt` print. */
typedef enum {
    VGPU_FORMAT_TABLE,
    VGPU_FORMAT_QEMU,
    VGPU_FORMAT_LIBVIRT,
    VGPU_FORMAT_JSON,
} VgpuFormat;

/* The options that only some commands take, as bits of VgpuCommand.options. */
enum {
    VGPU_OPTION_PLACE = 1 << 0, /* --gpu, --device, --placement, --numa-node, --uuid, --label */
    VGPU_OPTION_FORMAT = 1 << 1,
    VGPU_OPTION_NUMBER = 1 << 2,
    VGPU_OPTION_ALL = 1 << 3,
};

/* One command line, taken apart. Strings point into argv. */
typedef struct {
    const VgpuCommand *command;
    GPtrArray *arguments; /* const char *, without the command's own name */
    GPtrArray *rest;      /* const char *, what follows `--`; NULL without one */

    bool help, version;
    bool no_legend, no_pager, no_ask_password, quiet;
    bool all;
    VgpuJson json;
    VgpuFormat format;
    unsigned number; /* of vGPUs, at least 1 */
    const char *host;

    const char *gpu, *device, *placement, *uuid, *label;
    bool has_numa_node;
    int numa_node;
} VgpuInvocation;

/* Returns the exit status; with @error set the status is the one that stands for it. */
typedef int (*VgpuCommandFunc)(const VgpuInvocation *invocation, GError **error);

struct VgpuCommand {
    const char *name;
    const char *arguments; /* as the usage line shows them */
    unsigned min, max;     /* of the arguments before `--` */
    bool takes_command;    /* what follows `--` is a command to run */
    unsigned options;      /* VGPU_OPTION_… */
    VgpuCommandFunc function;
    const char *text;
};

typedef struct {
    unsigned bit; /* VGPU_OPTION_…; 0: every command takes it */
    const char *name;
    char letter;          /* 0: none */
    const char *argument; /* NULL: takes none */
    const char *text;
    /* How it is kept: exactly one of the three. */
    size_t flag;   /* offset of a bool in VgpuInvocation */
    size_t string; /* offset of a const char * in VgpuInvocation */
    bool (*set)(VgpuInvocation *invocation, const char *value, GError **error);
} VgpuOption;

/* Both end with an entry without a name. The first command is the default one. */
extern const VgpuCommand vgpu_commands[];
extern const VgpuOption vgpu_options[];

/* NULL when there is none of that name. */
const VgpuCommand *vgpu_command_find(const char *name);

/* Prints the help of @command, or of the whole program for NULL. */
void vgpu_command_help(const VgpuCommand *command, FILE *out);

/* Takes @argv apart into @invocation, which vgpu_invocation_clear() empties. With --help or --version given
 * nothing else is demanded. Errors: VGPUCTL_ERROR_USAGE. */
bool vgpu_invocation_parse(VgpuInvocation *invocation, int argc, char **argv, GError **error);

void vgpu_invocation_clear(VgpuInvocation *invocation);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(VgpuInvocation, vgpu_invocation_clear)

/* The first argument; only for commands that demand one. */
const char *vgpu_invocation_first(const VgpuInvocation *invocation);

/* The functions of the table, by the file that has them. */
int vgpu_status_command(const VgpuInvocation *invocation, GError **error);   /* show.c */
int vgpu_gpus_command(const VgpuInvocation *invocation, GError **error);     /* show.c */
int vgpu_profiles_command(const VgpuInvocation *invocation, GError **error); /* show.c */
int vgpu_list_command(const VgpuInvocation *invocation, GError **error);     /* show.c */
int vgpu_plan_command(const VgpuInvocation *invocation, GError **error);     /* plan.c */
int vgpu_assign_command(const VgpuInvocation *invocation, GError **error);   /* assign.c */
int vgpu_adopt_command(const VgpuInvocation *invocation, GError **error);    /* assign.c */
int vgpu_run_command(const VgpuInvocation *invocation, GError **error);      /* run.c */
int vgpu_release_command(const VgpuInvocation *invocation, GError **error);  /* release.c */
int vgpu_reclaim_command(const VgpuInvocation *invocation, GError **error);  /* release.c */
int vgpu_monitor_command(const VgpuInvocation *invocation, GError **error);  /* monitor.c */
