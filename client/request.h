/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "bus.h"
#include "command.h"

/* The call of @member, Assign or Plan, with the profile and the options that @invocation gives. */
sd_bus_message *vgpu_request_new(sd_bus *bus, const char *member, const VgpuInvocation *invocation,
                                 GError **error);
