/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gio/gio.h>

/* What NVIDIA's management library knows of cards and their vGPU types: also those that no catalogue shows,
 * and their exact sizes. The library is found at run time, or not, and is never loaded into this process: a
 * call into the driver can hang or crash, so a child of its own asks the questions, and is killed at a
 * deadline. */

/* A type that a card supports. */
typedef struct {
    guint32 id;              /* as in sysfs: 1148; of mdev's nvidia-558 the number */
    char *name;              /* printable; NULL: unknown */
    guint64 framebuffer_mib; /* 0: unknown */
    guint max_instances;     /* on one idle card; 0: unknown */
} VgpuNvmlType;

/* What is known of one card. */
typedef struct {
    char *address;    /* of the PF, kernel spelling */
    char *name;       /* printable, as NVIDIA L40S; NULL: unknown */
    GPtrArray *types; /* VgpuNvmlType *, ascending by id, each id once */
} VgpuNvmlCard;

/* A card without types; @name may be NULL. */
VgpuNvmlCard *vgpu_nvml_card_new(const char *address, const char *name);
/* Adds a type of a higher number than those before. @name may be NULL. */
void vgpu_nvml_card_add_type(VgpuNvmlCard *card, guint32 id, const char *name, guint64 framebuffer_mib,
                             guint max_instances);
void vgpu_nvml_card_free(VgpuNvmlCard *card);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(VgpuNvmlCard, vgpu_nvml_card_free)

/* The type of number @id on @card, which keeps it; NULL if the card has no such type. */
const VgpuNvmlType *vgpu_nvml_card_find_type(const VgpuNvmlCard *card, guint32 id);

/* Asks for the cards at @pf_addresses (NULL-terminated; any spelling; copied). @callback is called once, from
 * the main context that was the thread's default at the call, at the latest @deadline_ms milliseconds from
 * now, or when @cancellable (may be NULL) is cancelled; the child is then killed and not waited for. Never
 * blocks.
 *
 * Errors (of G_IO_ERROR): NOT_FOUND there is no library; NOT_SUPPORTED the library lacks a function;
 * NOT_CONNECTED the library cannot reach the driver; TIMED_OUT; CANCELLED; BUSY the children of earlier
 * questions were killed and still hang in the driver; INVALID_ARGUMENT an address is none; INVALID_DATA the
 * answer made no sense; FAILED the child crashed or could not be started. None of them is a reason to do
 * without anything but the names: the caller logs it and goes on. Not for the bus: the sentences are for the
 * journal. Main thread. */
void vgpu_nvml_query_async(const char *const *pf_addresses, guint deadline_ms, GCancellable *cancellable,
                           GAsyncReadyCallback callback, gpointer user_data);

/* The cards that the library knows (VgpuNvmlCard *; the caller owns the array, and it the cards): perhaps
 * fewer than were asked for, perhaps none. NULL and @error if there was no answer. */
GPtrArray *vgpu_nvml_query_finish(GAsyncResult *result, GError **error);

/* If this is argv[1], main() must return vgpu_nvml_child_main(argc, argv) before it does anything else. */
#define VGPU_NVML_CHILD_ARGUMENT "--nvml-query"

#define VGPU_NVML_CARDS_MAX 256  /* in one question */
#define VGPU_NVML_TYPES_MAX 4096 /* of one card */

/* The child (nvml-child.c): asks the library and writes the answer to standard output. Its arguments after
 * VGPU_NVML_CHILD_ARGUMENT are the seconds after which it ends by itself, and the addresses in the kernel's
 * spelling. Returns the exit status.
 *
 * The answer is lines of fields between tabs:
 *
 *     card  ADDRESS  NAME              the types that follow are this card's
 *     type  ID  BYTES  MOST  NAME
 *     skip  ADDRESS  WHY               the library does not know this card
 *     end                              everything was asked
 *     fail  KIND  WHY                  nothing could be asked
 *
 * It has exactly one `end` or `fail`, as its last line: an answer cut short is none. Unknown names are empty,
 * unknown numbers 0. */
int vgpu_nvml_child_main(int argc, char **argv);

/* Reads the @length bytes of @text that a child wrote (@pf_addresses: what it was asked for). The child has
 * had a foreign library in it, so nothing is believed that is not exactly in form: one bad line, and all is
 * INVALID_DATA. Results and errors as vgpu_nvml_query_finish(). Pure. */
GPtrArray *vgpu_nvml_parse(const char *text, gsize length, const char *const *pf_addresses, GError **error);
