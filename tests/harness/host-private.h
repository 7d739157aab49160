/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "bus.h"
#include "host.h"
#include "mock-polkit.h"

/* What a host is made of, for its other files. Borrowed. */
Bus *host_get_bus(Host *host);
MockPolkit *host_get_mock_polkit(Host *host);
