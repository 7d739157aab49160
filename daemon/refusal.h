/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "placement.h"

/* Why a card does not take a profile now, as a sentence for a person. Pure; main thread. */

/* @name: the profile that @request means, NULL when no card is known to have it. @tried: as for
 * vgpu_placement_choose(), not NULL. The sentence begins in lower case, has no full stop, and calls the card
 * "it". The caller frees it. */
char *vgpu_refusal_sentence(const VgpuHost *host, const VgpuRequest *request, const char *name,
                            const VgpuTried *tried, const VgpuCard *card);
