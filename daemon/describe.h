/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "placement.h"

#include <glib.h>

/* What the bus says of the host, as values: the keys of the interface, each left out when unknown. Pure; main
 * thread. All results are floating references. */

/* aa{sv} */
GVariant *vgpu_describe_profiles(const VgpuHost *host);
GVariant *vgpu_describe_gpus(const VgpuHost *host);
GVariant *vgpu_describe_assignments(VgpuAssignments *assignments);

/* a{sv} */
GVariant *vgpu_describe_assignment(const VgpuAssignment *assignment);

/* The answer of Plan to @request for profile @name, a{sv}: @candidate, or with NULL the @reasons (card ->
 * sentence). */
GVariant *vgpu_describe_plan(const VgpuHost *host, const VgpuRequest *request, const char *name,
                             const VgpuCandidate *candidate, GHashTable *reasons);
