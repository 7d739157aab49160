/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* The namespaces around the beds, made by bed_main(). */

/* The tmpfs of this world; NULL: we are not in one. */
const char *world_dir(void);

/* Removes @path and what is in it, following no links and leaving no mount. */
void world_remove(const char *path);
