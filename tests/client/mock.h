/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gio/gio.h>
#include <stdbool.h>

/* A service with the real one's interface and none of its hardware, on a bus of its own, in this process. It
 * hands out what it is asked for, takes back what a vanished client had, and fails or waits when told to. */
typedef struct Mock Mock;

/* Starts a bus and the service on it. */
Mock *mock_new(void);
void mock_free(Mock *mock);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Mock, mock_free)

/* A directory of the test's own, which every user may enter; where the bus listens. */
const char *mock_directory(const Mock *mock);
const char *mock_bus_address(const Mock *mock);

/* The service leaves the bus and comes back, with its records; the bus itself dies. */
void mock_stop(Mock *mock);
void mock_start(Mock *mock);
void mock_kill_bus(Mock *mock);

/* Sets a property from GVariant text, and signals it; "GPUs", "Profiles", "Framework". */
void mock_set(Mock *mock, const char *property, const char *value);

/* What Plan answers, as GVariant text. */
void mock_set_plan(Mock *mock, const char *plan);

/* Calls of @member fail from now on, after @good more calls, with the D-Bus error @name. NULL ends it. */
void mock_fail(Mock *mock, const char *member, unsigned good, const char *name, const char *message);

/* Calls of @member are answered only after mock_answer(). */
void mock_delay(Mock *mock, const char *member);
void mock_answer(Mock *mock);

/* Calls of @member so far; the arguments of the last one, and whether it allowed a question. */
unsigned mock_calls(const Mock *mock, const char *member);
GVariant *mock_last_arguments(const Mock *mock, const char *member);
bool mock_last_interactive(const Mock *mock, const char *member);

/* Returns after all calls that the bus has got by now have been handled. */
void mock_sync(Mock *mock);

/* Assignments that exist; whether one of @id does; the unique name that has it. */
unsigned mock_assignments(const Mock *mock);
bool mock_has(const Mock *mock, const char *id);
const char *mock_owner(const Mock *mock, const char *id);

/* Adds an assignment of somebody else, from GVariant text without its Id; replaces or adds keys of one. */
void mock_add(Mock *mock, const char *id, const char *assignment);
void mock_change(Mock *mock, const char *id, const char *keys);

/* Ends an assignment, with the signal; forgets it without a word. */
void mock_end(Mock *mock, const char *id, const char *reason);
void mock_forget(Mock *mock, const char *id);

/* What a vanished client had stays, as if open (lingering), or until mock_clear(). */
void mock_set_open(Mock *mock, bool open);
void mock_set_slow(Mock *mock, bool slow);
bool mock_is_clearing(const Mock *mock);
void mock_clear(Mock *mock);

/* A client of the bus that is not the service sends the signal to @destination. */
void mock_forge_removed(Mock *mock, const char *destination, const char *id);
