/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "command.h"
#include "diff.h"

/* The lists of the service whose changes are told. */
typedef enum {
    VGPU_LIST_ASSIGNMENTS,
    VGPU_LIST_GPUS,
    VGPU_LIST_PROFILES,
    VGPU_N_LISTS,
} VgpuList;

/* Its name as a property, and the key that tells its dictionaries apart. */
const char *vgpu_list_property(VgpuList list);
const char *vgpu_list_key(VgpuList list);

/* Prints one line on stdout, at once: with @json the @object (a{sv}; taken if floating) and its Time, else
 * the time and the @text made printable. */
void vgpu_news_tell(VgpuJson json, const char *text, GVariant *object);

/* Prints a line for one change of a list. */
void vgpu_news_tell_change(VgpuJson json, VgpuList list, const VgpuChange *change);

/* Prints the @changes of the profiles: with @json a line for each; else one for all whose numbers changed, as
 * every assignment changes what is left of many. */
void vgpu_news_tell_profiles(VgpuJson json, GPtrArray *changes);
