/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <systemd/sd-bus.h>

#define VGPU_BUS_NAME "org.hypeman.VGPU1"
#define VGPU_BUS_PATH "/org/hypeman/VGPU1"
#define VGPU_BUS_INTERFACE "org.hypeman.VGPU1"

G_DEFINE_AUTOPTR_CLEANUP_FUNC(sd_bus, sd_bus_flush_close_unref)
G_DEFINE_AUTOPTR_CLEANUP_FUNC(sd_bus_message, sd_bus_message_unref)
G_DEFINE_AUTOPTR_CLEANUP_FUNC(sd_bus_slot, sd_bus_slot_unref)
G_DEFINE_AUTOPTR_CLEANUP_FUNC(sd_bus_creds, sd_bus_creds_unref)
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(sd_bus_error, sd_bus_error_free)

/* A connection to the system bus of this host, or over ssh to that of @host ([USER@]HOST) unless NULL. */
sd_bus *vgpu_bus_open(const char *host, GError **error);

/* Sets @error, of VGPU_ERROR where the service has a name for it, from what a call @failed with, or from
 * the negative @errno_value alone where @failed is NULL or not set. */
void vgpu_bus_set_error(GError **error, const sd_bus_error *failed, int errno_value);

/* A call of @member of the service's interface, to which arguments are appended. With @may_ask the service
 * may have a person asked for a password. */
sd_bus_message *vgpu_bus_new_call(sd_bus *bus, const char *member, bool may_ask, GError **error);

/* Sends @call and waits for the reply as long as it takes: a person may be thinking. */
sd_bus_message *vgpu_bus_call(sd_bus *bus, sd_bus_message *call, GError **error);

/* All properties of the service (a{sv}); starts it if need be. */
GVariant *vgpu_bus_get_all(sd_bus *bus, GError **error);

/* One property's value, which must have the @type. */
GVariant *vgpu_bus_get(sd_bus *bus, const char *property, const char *type, GError **error);

/* Asks for one property; @handler gets the reply, whose value vgpu_bus_read_property() gives. Does not start
 * a service that is not there: whoever only watches must not bring it back. */
int vgpu_bus_get_async(sd_bus *bus, const char *property, sd_bus_message_handler_t handler, void *data);

/* The value in the reply to Get, which must have the @type; NULL, with nothing said, for an error or an odd
 * message. */
GVariant *vgpu_bus_read_property(sd_bus_message *reply, const char *type);

/* The next complete value of @message, which must have the @type. Not floating. */
GVariant *vgpu_bus_read(sd_bus_message *message, const char *type, GError **error);
