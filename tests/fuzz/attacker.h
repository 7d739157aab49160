/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "host.h"

/* A client that means harm: calls of every method and property with arguments made up by g_test_rand_*(), so
 * that a failure comes again with the same --seed. One connection. */
typedef struct Attacker Attacker;

/* What it may say that is true: an address, a profile, an id. Borrowed strings; NULL-terminated. */
Attacker *attacker_new(Host *host, uid_t uid, const char *const *truths);
/* Drops the connection with whatever is under way. */
void attacker_free(Attacker *attacker);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Attacker, attacker_free)

/* Sends @n calls, each answered or not as it says, with up to @most waiting for an answer at a time; returns
 * when all are sent. Calls of this bus's own interfaces only: what the bus itself throws out hurts nobody.
 * Aborts when something was granted that only polkit could grant, or when an answer is not as documented. */
void attacker_storm(Attacker *attacker, guint n, guint most);

/* The same with calls that nobody wants an answer to. */
void attacker_flood(Attacker *attacker, guint n);

/* Sends @n calls and does not wait for anything: for a connection that is then dropped. */
void attacker_burst(Attacker *attacker, guint n);

/* Sends @n calls of Release that nobody wants an answer to, each with as many descriptors as the bus lets
 * pass, or with a string of @length bytes. */
void attacker_stuff(Attacker *attacker, guint n, gsize length);

/* A call of Assign that waits for polkit. */
void attacker_ask(Attacker *attacker);

/* Waits until every call has its answer. */
void attacker_finish(Attacker *attacker);

/* How many calls were answered, and how many of them with what was asked for. */
guint attacker_answered(const Attacker *attacker);
guint attacker_granted(const Attacker *attacker);

/* A signal from the attacker to the service alone; @arguments is consumed. */
void attacker_signal(Attacker *attacker, const char *path, const char *interface, const char *member,
                     GVariant *arguments);

/* An answer that nobody asked for, or that somebody else was asked for. */
void attacker_reply(Attacker *attacker, guint32 serial, GVariant *arguments);
