/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "nvml.h"

#include "error.h"
#include "number.h"
#include "pci-address.h"

#include <string.h>

#define ANSWER_LENGTH_MAX (1024 * 1024)

/* Children that were killed and are not gone yet. One is, for a moment, after each cancelled question;
 * several at a time hang in the driver, and the next one would too. */
#define KILLED_MAX 4

static const struct {
    const char *kind;
    GIOErrorEnum code;
} failures[] = {
    {"library", G_IO_ERROR_NOT_FOUND},
    {"symbol", G_IO_ERROR_NOT_SUPPORTED},
    {"driver", G_IO_ERROR_NOT_CONNECTED},
};

static void
nvml_type_free(gpointer data)
{
    VgpuNvmlType *type = data;

    g_free(type->name);
    g_free(type);
}

VgpuNvmlCard *
vgpu_nvml_card_new(const char *address, const char *name)
{
    VgpuNvmlCard *card = g_new(VgpuNvmlCard, 1);

    *card = (VgpuNvmlCard){
        .address = g_strdup(address),
        .name = g_strdup(name),
        .types = g_ptr_array_new_with_free_func(nvml_type_free),
    };
    return card;
}

void
vgpu_nvml_card_add_type(VgpuNvmlCard *card, guint32 id, const char *name, guint64 framebuffer_mib,
                        guint max_instances)
{
    VgpuNvmlType *type = g_new(VgpuNvmlType, 1);

    *type = (VgpuNvmlType){
        .id = id,
        .name = g_strdup(name),
        .framebuffer_mib = framebuffer_mib,
        .max_instances = max_instances,
    };
    g_ptr_array_add(card->types, type);
}

void
vgpu_nvml_card_free(VgpuNvmlCard *card)
{
    if (!card)
        return;
    g_free(card->address);
    g_free(card->name);
    g_ptr_array_unref(card->types);
    g_free(card);
}

static int
compare_types(gconstpointer a, gconstpointer b)
{
    const VgpuNvmlType *ta = *(const VgpuNvmlType *const *)a, *tb = *(const VgpuNvmlType *const *)b;

    return (ta->id > tb->id) - (ta->id < tb->id);
}

const VgpuNvmlType *
vgpu_nvml_card_find_type(const VgpuNvmlCard *card, guint32 id)
{
    for (guint i = 0; i < card->types->len; i++) {
        const VgpuNvmlType *type = g_ptr_array_index(card->types, i);
        if (type->id == id)
            return type;
    }
    return NULL;
}

/* ---- the answer, read ---- */

static char *
parse_text(const char *text)
{
    g_autofree char *printable = g_strstrip(vgpu_text_printable(text));

    return *printable ? g_steal_pointer(&printable) : NULL;
}

/* What has been read so far. */
typedef struct {
    GPtrArray *cards;    /* VgpuNvmlCard *; the last one is being filled */
    GHashTable *open;    /* the addresses that have not been answered yet */
    gboolean ended;      /* `end` or `fail` was read */
    gboolean takes_type; /* the last card line was not followed by a `skip` */
} Answer;

static gboolean
read_card(Answer *answer, char **fields)
{
    g_autofree char *name = parse_text(fields[2]);

    if (!g_hash_table_remove(answer->open, fields[1]))
        return FALSE;
    g_ptr_array_add(answer->cards, vgpu_nvml_card_new(fields[1], name));
    answer->takes_type = TRUE;
    return TRUE;
}

static gboolean
read_type(Answer *answer, char **fields)
{
    guint64 id, bytes, most;
    g_autofree char *name = parse_text(fields[4]);
    VgpuNvmlCard *card;

    if (!answer->takes_type || !vgpu_number_parse(fields[1], G_MAXUINT32, &id) || id == 0 ||
        !vgpu_number_parse(fields[2], G_MAXUINT64, &bytes) ||
        !vgpu_number_parse(fields[3], G_MAXUINT32, &most))
        return FALSE;
    card = g_ptr_array_index(answer->cards, answer->cards->len - 1);
    if (card->types->len == VGPU_NVML_TYPES_MAX)
        return FALSE;
    vgpu_nvml_card_add_type(card, (guint32)id, name, bytes / (1024 * 1024), (guint)most);
    return TRUE;
}

static gboolean
read_skip(Answer *answer, char **fields)
{
    answer->takes_type = FALSE;
    g_debug("NVML does not know %s: %s", fields[1], fields[2]);
    return g_hash_table_remove(answer->open, fields[1]);
}

static gboolean
read_end(Answer *answer, char **fields)
{
    answer->ended = TRUE;
    return g_hash_table_size(answer->open) == 0;
}

static const struct {
    const char *word;
    guint n_fields;
    gboolean (*read)(Answer *answer, char **fields);
} lines[] = {
    {"card", 3, read_card},
    {"type", 5, read_type},
    {"skip", 3, read_skip},
    {"end", 1, read_end},
};

static gboolean
read_line(Answer *answer, const char *line, GError **error)
{
    g_auto(GStrv) fields = g_strsplit(line, "\t", 6);
    guint n_fields = g_strv_length(fields);

    for (gsize i = 0; n_fields > 0 && i < G_N_ELEMENTS(lines); i++) {
        if (strcmp(fields[0], lines[i].word) == 0 && n_fields == lines[i].n_fields && !answer->ended &&
            lines[i].read(answer, fields))
            return TRUE;
    }
    for (gsize i = 0; n_fields == 3 && strcmp(fields[0], "fail") == 0 && i < G_N_ELEMENTS(failures); i++) {
        if (strcmp(fields[1], failures[i].kind) == 0) {
            g_autofree char *why = vgpu_text_printable(fields[2]);
            g_set_error_literal(error, G_IO_ERROR, (int)failures[i].code, why);
            return FALSE;
        }
    }
    g_set_error(error, G_IO_ERROR, G_IO_ERROR_INVALID_DATA, "the answer of the NVML child makes no sense");
    return FALSE;
}

/* Sorted for the reader; FALSE if an id is there twice. */
static gboolean
sort_types(VgpuNvmlCard *card)
{
    g_ptr_array_sort(card->types, compare_types);
    for (guint i = 1; i < card->types->len; i++) {
        if (compare_types(&card->types->pdata[i - 1], &card->types->pdata[i]) == 0)
            return FALSE;
    }
    return TRUE;
}

GPtrArray *
vgpu_nvml_parse(const char *text, gsize length, const char *const *pf_addresses, GError **error)
{
    g_autoptr(GPtrArray) cards = g_ptr_array_new_with_free_func((GDestroyNotify)vgpu_nvml_card_free);
    g_autoptr(GHashTable) open = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    Answer answer = {.cards = cards, .open = open};
    const char *end = length > 0 ? text + length : text;

    for (const char *const *pf = pf_addresses; *pf; pf++) {
        char *address = vgpu_pci_address_normalize(*pf);
        if (address)
            g_hash_table_add(open, address);
    }
    for (const char *line = text, *newline; line < end; line = newline + 1) {
        newline = memchr(line, '\n', (gsize)(end - line));
        if (!newline || memchr(line, '\0', (gsize)(newline - line))) {
            answer.ended = FALSE;
            break;
        }
        g_autofree char *copy = g_strndup(line, (gsize)(newline - line));
        if (!read_line(&answer, copy, error))
            return NULL;
    }
    for (guint i = 0; answer.ended && i < cards->len; i++)
        answer.ended = sort_types(g_ptr_array_index(cards, i));
    if (!answer.ended) {
        g_set_error(error, G_IO_ERROR, G_IO_ERROR_INVALID_DATA, "the answer of the NVML child is damaged");
        return NULL;
    }
    return g_steal_pointer(&cards);
}

/* ---- the parent ---- */

/* One question under way. Every pending operation holds a reference on the task that owns it. */
typedef struct {
    GSubprocess *child;
    char **addresses;   /* normalized */
    GByteArray *answer; /* what was read so far */
    GCancellable *stop; /* ends the operations below; not the caller's */
    GSource *deadline;  /* attached to the caller's context */
    GSource *cancelled; /* the same; NULL without a cancellable */
    gboolean answered;  /* end of file */
    gboolean exited;
    gboolean returned;
} Question;

/* Main thread. */
static guint n_killed;

static void
question_free(gpointer data)
{
    Question *question = data;

    g_clear_object(&question->child);
    g_clear_pointer(&question->addresses, g_strfreev);
    g_clear_pointer(&question->answer, g_byte_array_unref);
    g_clear_object(&question->stop);
    g_free(question);
}

static void
drop_source(GSource **source)
{
    if (!*source)
        return;
    g_source_destroy(*source);
    g_clear_pointer(source, g_source_unref);
}

static void
killed_child_gone(GObject *object, GAsyncResult *result, gpointer user_data)
{
    g_subprocess_wait_finish(G_SUBPROCESS(object), result, NULL);
    n_killed--;
}

/* Ends the question: what is left of it is taken back, the child dies, and the caller gets @cards (taken) or
 * @error (taken). */
static void
question_return(GTask *task, GPtrArray *cards, GError *error)
{
    Question *question = g_task_get_task_data(task);

    question->returned = TRUE;
    drop_source(&question->deadline);
    drop_source(&question->cancelled);
    g_cancellable_cancel(question->stop);
    if (question->child && !question->exited) {
        g_subprocess_force_exit(question->child);
        n_killed++;
        g_subprocess_wait_async(question->child, NULL, killed_child_gone, NULL);
    }
    if (cards)
        g_task_return_pointer(task, cards, (GDestroyNotify)g_ptr_array_unref);
    else
        g_task_return_error(task, error);
}

static GPtrArray *
question_parse(Question *question, GError **error)
{
    return vgpu_nvml_parse((const char *)question->answer->data, question->answer->len,
                           (const char *const *)question->addresses, error);
}

/* An answer that cannot be read is most often that of a child that died over it: then say this. */
static void
question_conclude(GTask *task)
{
    Question *question = g_task_get_task_data(task);
    g_autoptr(GError) error = NULL;
    GPtrArray *cards = question_parse(question, &error);

    if (g_error_matches(error, G_IO_ERROR, G_IO_ERROR_INVALID_DATA) &&
        g_subprocess_get_if_signaled(question->child)) {
        int signal_number = g_subprocess_get_term_sig(question->child);
        g_clear_error(&error);
        g_set_error(&error, G_IO_ERROR, G_IO_ERROR_FAILED, "the NVML child died of signal %d (%s)",
                    signal_number, g_strsignal(signal_number));
    }
    question_return(task, cards, g_steal_pointer(&error));
}

static void
child_exited(GObject *object, GAsyncResult *result, gpointer user_data)
{
    g_autoptr(GTask) task = user_data;
    Question *question = g_task_get_task_data(task);

    if (!g_subprocess_wait_finish(G_SUBPROCESS(object), result, NULL) || question->returned)
        return;
    question->exited = TRUE;
    if (question->answered)
        question_conclude(task);
}

static void read_more(GTask *task);

static void
child_wrote(GObject *object, GAsyncResult *result, gpointer user_data)
{
    g_autoptr(GTask) task = user_data;
    Question *question = g_task_get_task_data(task);
    g_autoptr(GError) error = NULL;
    g_autoptr(GBytes) bytes = g_input_stream_read_bytes_finish(G_INPUT_STREAM(object), result, &error);

    if (question->returned)
        return;
    if (!bytes) {
        question_return(task, NULL, g_steal_pointer(&error));
        return;
    }

    gsize length;
    const guint8 *data = g_bytes_get_data(bytes, &length);
    if (length > ANSWER_LENGTH_MAX - question->answer->len) {
        question_return(
            task, NULL,
            g_error_new(G_IO_ERROR, G_IO_ERROR_INVALID_DATA, "the answer of the NVML child does not end"));
        return;
    }
    if (length > 0) {
        g_byte_array_append(question->answer, data, (guint)length);
        read_more(task);
        return;
    }
    question->answered = TRUE;
    if (question->exited)
        question_conclude(task);
}

static void
read_more(GTask *task)
{
    Question *question = g_task_get_task_data(task);

    g_input_stream_read_bytes_async(g_subprocess_get_stdout_pipe(question->child), 64 * 1024,
                                    G_PRIORITY_DEFAULT, question->stop, child_wrote, g_object_ref(task));
}

static gboolean
deadline_passed(gpointer user_data)
{
    g_autoptr(GTask) task = g_object_ref(user_data);
    Question *question = g_task_get_task_data(task);
    GPtrArray *cards = NULL;

    /* A library that hangs only in taking leave has said all it had to say. */
    if (question->answered)
        cards = question_parse(question, NULL);
    question_return(task, cards,
                    cards ? NULL
                          : g_error_new(G_IO_ERROR, G_IO_ERROR_TIMED_OUT,
                                        "NVML did not answer in time (a hanging driver?)"));
    return G_SOURCE_REMOVE;
}

static gboolean
caller_cancelled(GCancellable *cancellable, gpointer user_data)
{
    g_autoptr(GTask) task = g_object_ref(user_data);

    question_return(task, NULL, g_error_new(G_IO_ERROR, G_IO_ERROR_CANCELLED, "the question was cancelled"));
    return G_SOURCE_REMOVE;
}

/* Normalized copies, each once; NULL and @error if one is not an address or there are too many. */
static char **
normalize_addresses(const char *const *pf_addresses, GError **error)
{
    g_autoptr(GPtrArray) addresses = g_ptr_array_new_with_free_func(g_free);

    for (const char *const *pf = pf_addresses; *pf; pf++) {
        g_autofree char *address = vgpu_pci_address_normalize(*pf);
        if (!address || addresses->len == VGPU_NVML_CARDS_MAX) {
            g_autofree char *shown = vgpu_text_printable(*pf);
            g_set_error(error, G_IO_ERROR, G_IO_ERROR_INVALID_ARGUMENT, "NVML cannot be asked for “%s”",
                        shown);
            return NULL;
        }
        if (!g_ptr_array_find_with_equal_func(addresses, address, g_str_equal, NULL))
            g_ptr_array_add(addresses, g_steal_pointer(&address));
    }
    g_ptr_array_add(addresses, NULL);
    return (char **)g_ptr_array_free(g_steal_pointer(&addresses), FALSE);
}

/* The same program again, with the child's arguments: a clean process, whatever threads and descriptors this
 * one has. /proc/self/exe is right also when the file was replaced by an upgrade. */
static GSubprocess *
start_child(const Question *question, guint deadline_ms, GError **error)
{
    static const char *const not_for_children[] = {
        "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES",
    };
    /* With INHERIT_FDS GLib uses posix_spawn(): no code of ours, or of a library below, runs between fork and
     * exec, where a lock that another thread holds would be held for ever. The child closes what it gets. */
    g_autoptr(GSubprocessLauncher) launcher = g_subprocess_launcher_new(
        G_SUBPROCESS_FLAGS_STDOUT_PIPE | G_SUBPROCESS_FLAGS_STDERR_SILENCE | G_SUBPROCESS_FLAGS_INHERIT_FDS);
    g_autoptr(GPtrArray) arguments = g_ptr_array_new();
    g_autofree char *seconds = g_strdup_printf("%u", deadline_ms / 1000 + 2);

    for (gsize i = 0; i < G_N_ELEMENTS(not_for_children); i++)
        g_subprocess_launcher_unsetenv(launcher, not_for_children[i]);
    g_ptr_array_add(arguments, (gpointer) "/proc/self/exe");
    g_ptr_array_add(arguments, (gpointer)VGPU_NVML_CHILD_ARGUMENT);
    g_ptr_array_add(arguments, seconds);
    for (char **address = question->addresses; *address; address++)
        g_ptr_array_add(arguments, *address);
    g_ptr_array_add(arguments, NULL);

    g_autoptr(GError) cause = NULL;
    GSubprocess *child =
        g_subprocess_launcher_spawnv(launcher, (const char *const *)arguments->pdata, &cause);
    if (!child)
        g_set_error(error, G_IO_ERROR, G_IO_ERROR_FAILED, "the NVML child cannot be started: %s",
                    cause->message);
    return child;
}

static void
set_source(GTask *task, GSource *source, GSourceFunc func, GSource **ret_source)
{
    g_source_set_callback(source, func, g_object_ref(task), g_object_unref);
    g_source_attach(source, g_task_get_context(task));
    *ret_source = source;
}

void
vgpu_nvml_query_async(const char *const *pf_addresses, guint deadline_ms, GCancellable *cancellable,
                      GAsyncReadyCallback callback, gpointer user_data)
{
    g_autoptr(GTask) task = g_task_new(NULL, cancellable, callback, user_data);
    Question *question = g_new0(Question, 1);
    GError *error = NULL;

    g_task_set_source_tag(task, vgpu_nvml_query_async);
    g_task_set_task_data(task, question, question_free);
    question->stop = g_cancellable_new();
    question->answer = g_byte_array_new();

    question->addresses = normalize_addresses(pf_addresses, &error);
    if (!question->addresses || g_cancellable_set_error_if_cancelled(cancellable, &error)) {
        question_return(task, NULL, error);
        return;
    }
    if (!*question->addresses) {
        question_return(task, g_ptr_array_new_with_free_func((GDestroyNotify)vgpu_nvml_card_free), NULL);
        return;
    }
    if (n_killed >= KILLED_MAX)
        g_set_error(&error, G_IO_ERROR, G_IO_ERROR_BUSY,
                    "earlier questions to NVML still hang in the driver");
    else
        question->child = start_child(question, deadline_ms, &error);
    if (!question->child) {
        question_return(task, NULL, error);
        return;
    }

    set_source(task, g_timeout_source_new(deadline_ms), deadline_passed, &question->deadline);
    if (cancellable)
        set_source(task, g_cancellable_source_new(cancellable), G_SOURCE_FUNC(caller_cancelled),
                   &question->cancelled);
    g_subprocess_wait_async(question->child, question->stop, child_exited, g_object_ref(task));
    read_more(task);
}

GPtrArray *
vgpu_nvml_query_finish(GAsyncResult *result, GError **error)
{
    return g_task_propagate_pointer(G_TASK(result), error);
}
