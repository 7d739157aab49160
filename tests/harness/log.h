/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Shows the file @path, headed by @what, if the test aborts. Both must live until log_forget() with the same
 * @path. Main thread only. */
void log_show_on_abort(const char *what, const char *path);
void log_forget(const char *path);
