/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "placement.h"

#include <systemd/sd-bus.h>

/* Reads the arguments `sa{sv}` of Assign and Plan. NULL with INVALID_ARGS for an unknown key, a wrong type,
 * or a value that is too long or cannot be. The caller frees the result. */
VgpuRequest *vgpu_options_read(sd_bus_message *message, GError **error);
