/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib.h>

/* A dbus-daemon of the test's own, which lets every user in. */
typedef struct PrivateBus PrivateBus;

PrivateBus *private_bus_new(void);
/* Ends it and removes its directory. */
void private_bus_free(PrivateBus *bus);

const char *private_bus_address(const PrivateBus *bus);
/* Where its socket is, and what else a test wants to put there: every user may enter. */
const char *private_bus_directory(const PrivateBus *bus);

/* Ends the daemon and waits for its end. */
void private_bus_kill(PrivateBus *bus);
