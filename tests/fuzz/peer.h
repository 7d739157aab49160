/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "options.h"

/* The service's end of a bus: a server on a socket that reads the arguments of Assign and Plan. Who is at the
 * other end is up to the target. */
typedef struct {
    sd_bus *bus;
    guint calls;          /* how many reached vgpu_options_read() */
    VgpuRequest *request; /* what the last one gave */
    GError *error;
} Peer;

#define PEER_PATH "/org/hypeman/VGPU1"
#define PEER_INTERFACE "org.hypeman.VGPU1"

/* Takes @fd. */
Peer *peer_new(int fd);
void peer_free(Peer *peer);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Peer, peer_free)

/* Lets it read until there is nothing more. FALSE: it has closed the connection. */
gboolean peer_process(Peer *peer);

/* Aborts unless the last call gave a request within the limits, or an error that can be shown. */
void peer_check(Peer *peer);
