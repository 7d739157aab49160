/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gio/gio.h>
#include <sys/types.h>

/* A private dbus-daemon of type system, with the policy that the project installs (tests/bus.conf). Main
 * thread only. */
typedef struct Bus Bus;

/* Its socket and its log are in @directory. */
Bus *bus_new(const char *directory);
void bus_free(Bus *bus);

/* SIGKILL. */
void bus_kill(Bus *bus);

/* After bus_kill(): another one, with another bus id, at the same address. */
void bus_start(Bus *bus);

/* What DBUS_SYSTEM_BUS_ADDRESS has to say. */
const char *bus_address(const Bus *bus);

/* A new connection of this process as @uid, which must be a user that the system knows. The caller unrefs it.
 */
GDBusConnection *bus_connect(const Bus *bus, uid_t uid);

/* A call of the bus's own object by root; @arguments is consumed. NULL when it fails. */
GVariant *bus_ask(Bus *bus, const char *interface, const char *method, GVariant *arguments,
                  const char *reply_type);

/* Somebody owns @name; FALSE while there is no bus. */
gboolean bus_has_owner(Bus *bus, const char *name);

/* Returns when the owner of @name has answered what it was asked before; its answer does not matter. */
void bus_ping(Bus *bus, const char *name);
