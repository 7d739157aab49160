/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib.h>

/* What the name of a profile and the text of an mdev description say. Everything here is pure: values in,
 * values out, any thread. Names are those of the drivers:
 *
 *     [GRID |NVIDIA ]MODEL-[GI-]GB SERIES[4|ME]      NVIDIA L40S-2Q, GRID V100D-2B4, NVIDIA A100D-1-10CME
 *
 * with a series of A, B, C or Q; other names (GVTg_V5_4, NVIDIA RTX Pro 6000 Blackwell DC-4-96) are fine,
 * they only say less. */

/* The framebuffer that @name promises, in MiB; 0 if it promises none. Some names get it wrong (H100L-94C has
 * 96246 MiB): NVML and the mdev description come first. */
guint64 vgpu_profile_size_mib(const char *name);

/* Whether @name is of a part of a card that was divided (MIG): the `1-` of A100D-1-10CME. */
gboolean vgpu_profile_is_of_an_instance(const char *name);

/* The order in which people count, as strcmp; 0 for equal names only. In turn:
 *  1. series: A, B, C, Q, then names without one;
 *  2. size as the name has it: 2A before 12A;
 *  3. model without NVIDIA or GRID, numbers in it by value: A2, A10, A16, L40S, T4;
 *  4. GPU instance: none, 1, 2, 4, 7;
 *  5. variant: 2B, 2B4; 18C, 18CME;
 *  6. the whole name, numbers by value, then byte by byte. */
int vgpu_profile_compare(const char *a, const char *b);

/* The same for g_ptr_array_sort() on an array of names. */
int vgpu_profile_compare_pointers(gconstpointer a, gconstpointer b);

/* Whether @argument is a short or shell-friendly spelling of @name: equal after `_` is taken for a space and
 * one `NVIDIA ` or `GRID ` is dropped, on both sides. Letters must agree in case. The exact name matches too;
 * an argument of which nothing is left matches nothing. */
gboolean vgpu_profile_matches_short(const char *name, const char *argument);

/* Up to @most of @names (char *) that somebody who wrote @argument may have meant, the likeliest first; the
 * same for any order of @names. Empty if nothing is near, or @argument is too long to be a name. The caller
 * owns the array and the strings in it. */
GPtrArray *vgpu_profile_near(const char *argument, GPtrArray *names, guint most);

/* The number in a type id: 1148 (vendor VFIO) and nvidia-558 (mdev) are what NVML calls 1148 and 558. FALSE
 * for ids of other drivers (i915-GVTg_V5_4) and for 0, and then @ret_number is as it was. */
gboolean vgpu_profile_type_number(const char *type_id, guint32 *ret_number);

/* The memory in an mdev type's description, in MiB; 0 if it says none. NVIDIA: `framebuffer=2048M` (K, M, G;
 * a bare number is MiB). Intel GVT-g: low_gm_size + high_gm_size, since a guest has both: the part of the
 * graphics memory that the CPU sees through the aperture, and the part that it does not. */
guint64 vgpu_description_framebuffer_mib(const char *description);

/* How many of this type fit on one idle card, `max_instance=24`; 0 if the description does not say. */
guint vgpu_description_max_instance(const char *description);
