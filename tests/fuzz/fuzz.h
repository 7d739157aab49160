/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib.h>
#include <stdint.h>

/* A target is one file with the function below. It is built twice: with libFuzzer, which makes up inputs, and
 * with replay.c, which feeds it the corpus. What it finds wrong is an assertion. Any input is fine, in any
 * order; nothing may depend on an earlier one. Always returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The bytes up to the next @separator, which is left out, as a string (what follows a NUL is lost), and @data
 * moved behind them; NULL when there are none any more. The caller frees it. */
char *fuzz_take_text(const uint8_t **data, size_t *size, char separator);

/* Aborts unless @text is valid UTF-8 without control characters, as all must be that goes to the bus or to a
 * log. NULL is fine. */
void fuzz_check_printable(const char *text);

/* The @length bytes of @body below a first line that vouches for them, as in the files of the runtime
 * directory. @pattern: any such file, whose kind and version are taken. Returns it with its length; the
 * caller frees it. */
char *fuzz_seal(const char *pattern, const uint8_t *body, size_t length, size_t *ret_length);
