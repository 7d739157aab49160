/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib.h>
#include <systemd/sd-bus.h>

/* sd-bus in GLib's habits. */
G_DEFINE_AUTOPTR_CLEANUP_FUNC(sd_bus, sd_bus_unref)
G_DEFINE_AUTOPTR_CLEANUP_FUNC(sd_bus_slot, sd_bus_slot_unref)
G_DEFINE_AUTOPTR_CLEANUP_FUNC(sd_bus_message, sd_bus_message_unref)

/* Appends @value, which may consist of arrays, dictionaries, strings, booleans, variants and integers, to
 * @message. Returns 0 or a negative errno. */
int vgpu_bus_append(sd_bus_message *message, GVariant *value);
