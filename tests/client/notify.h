/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "mock.h"

/* A service manager's notification socket: what was sent to it, one message after the other. */
typedef struct {
    char *path;
    GString *messages;
    int fd;
    unsigned source;
} Notify;

Notify *notify_new(const Mock *mock);
void notify_free(Notify *notify);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Notify, notify_free)
