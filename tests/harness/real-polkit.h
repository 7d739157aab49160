/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "bus.h"

/* The system's polkitd, behind host_real_polkit(). */
typedef struct RealPolkit RealPolkit;

/* Starts it on @bus with its files in the new directory @directory, and returns when it has its name.
 * @rules and @member as of host_real_polkit(). */
RealPolkit *real_polkit_new(Bus *bus, const char *directory, const char *rules, const char *member);
void real_polkit_free(RealPolkit *polkit);
