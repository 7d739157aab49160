/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "command.h"

/* Prints @value as JSON with a newline: dictionaries as objects with the keys of the bus, arrays as arrays,
 * variants as what they hold. */
void vgpu_json_print(VgpuJson how, GVariant *value);
