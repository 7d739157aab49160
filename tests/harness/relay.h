/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "harness-private.h"

/* A process that connects to the bus at @socket_path as @uid, and passes on what it reads between there and
 * *@ret_fd, which the caller closes. So the bus sees that process's pid and user, and SIGKILL ends the
 * connection. */
Process *relay_new(const char *socket_path, uid_t uid, int *ret_fd);
