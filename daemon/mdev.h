/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib.h>

/* Whether mdevctl has defined an mdev with @uuid (valid, lower case) for any parent, in /etc/mdevctl.d. Any
 * thread. */
gboolean vgpu_mdev_uuid_is_taken(const char *uuid);
