/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "journal.h"

#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define JOURNAL_DIR "/run/systemd/journal"
#define RECORD_MAX (256 * 1024)

struct Journal {
    char *directory;
    int socket;
    GThread *thread;
    int stop; /* atomic */

    GMutex lock;
    GPtrArray *records; /* of GPtrArray of "FIELD=value" */
};

static void
add(GPtrArray *record, const char *name, gsize name_length, const char *value, gsize length)
{
    GString *field = g_string_new_len(name, (gssize)name_length);

    g_string_append_c(field, '=');
    g_string_append_len(field, value, (gssize)length);
    g_ptr_array_add(record, g_string_free(field, FALSE));
}

/* "NAME=value\n", or "NAME\n" with the length as 64 bits little endian, the value and "\n". */
static GPtrArray *
parse(const char *data, gsize length)
{
    GPtrArray *record = g_ptr_array_new_with_free_func(g_free);
    const char *end = data + length;

    while (data < end) {
        const char *line_end = memchr(data, '\n', (gsize)(end - data));
        const char *equals;
        guint64 size;

        if (!line_end)
            break;
        equals = memchr(data, '=', (gsize)(line_end - data));
        if (equals) {
            add(record, data, (gsize)(equals - data), equals + 1, (gsize)(line_end - equals - 1));
            data = line_end + 1;
            continue;
        }
        if ((gsize)(end - line_end - 1) < sizeof size)
            break;
        memcpy(&size, line_end + 1, sizeof size);
        size = GUINT64_FROM_LE(size);
        if (size > (gsize)(end - line_end - 1) - sizeof size)
            break;
        add(record, data, (gsize)(line_end - data), line_end + 1 + sizeof size, size);
        data = line_end + 1 + sizeof size + size + 1;
    }
    return record;
}

static gpointer
run(gpointer data)
{
    Journal *journal = data;
    g_autofree char *buffer = g_malloc(RECORD_MAX);

    for (;;) {
        ssize_t n = recv(journal->socket, buffer, RECORD_MAX, 0);

        if (g_atomic_int_get(&journal->stop))
            return NULL;
        if (n <= 0)
            continue;
        g_mutex_lock(&journal->lock);
        g_ptr_array_add(journal->records, parse(buffer, (gsize)n));
        g_mutex_unlock(&journal->lock);
        g_main_context_wakeup(NULL);
    }
}

/* Where mounts are shared with others the machine's own journal would go. */
static void
check_namespace(void)
{
    g_autofree char *text = NULL;
    g_auto(GStrv) lines = NULL;

    g_assert_true(g_file_get_contents("/proc/self/mountinfo", &text, NULL, NULL));
    lines = g_strsplit(text, "\n", -1);
    for (char **line = lines; *line; line++) {
        g_auto(GStrv) words = g_strsplit(*line, " ", -1);

        if (g_strv_length(words) > 4 && strcmp(words[4], "/") == 0 && strstr(*line, " shared:"))
            g_error("journal_new() needs a mount namespace of the test's own");
    }
}

static int
listen_in(const char *directory)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    g_assert_no_errno(fd);
    g_snprintf(address.sun_path, sizeof address.sun_path, "%s/socket", directory);
    g_assert_no_errno(bind(fd, (struct sockaddr *)&address, sizeof address));
    g_assert_no_errno(chmod(address.sun_path, 0666));
    return fd;
}

Journal *
journal_new(void)
{
    Journal *journal = g_new0(Journal, 1);
    g_autoptr(GError) error = NULL;

    check_namespace();
    journal->directory = g_dir_make_tmp("journal-XXXXXX", &error);
    g_assert_no_error(error);
    g_assert_no_errno(chmod(journal->directory, 0755));
    journal->records = g_ptr_array_new_with_free_func((GDestroyNotify)g_ptr_array_unref);
    g_mutex_init(&journal->lock);
    journal->socket = listen_in(journal->directory);
    g_assert_no_errno(g_mkdir_with_parents(JOURNAL_DIR, 0755));
    g_assert_no_errno(mount(journal->directory, JOURNAL_DIR, NULL, MS_BIND, NULL));
    journal->thread = g_thread_new("journal", run, journal);
    return journal;
}

void
journal_free(Journal *journal)
{
    g_atomic_int_set(&journal->stop, TRUE);
    shutdown(journal->socket, SHUT_RDWR);
    g_thread_join(journal->thread);
    close(journal->socket);
    g_assert_no_errno(umount2(JOURNAL_DIR, MNT_DETACH));
    g_ptr_array_unref(journal->records);
    g_mutex_clear(&journal->lock);
    g_free(journal->directory);
    g_free(journal);
}

/* NULL without it. */
static const char *
value_of(GPtrArray *record, const char *name)
{
    gsize length = strlen(name);

    for (guint i = 0; i < record->len; i++) {
        const char *field = g_ptr_array_index(record, i);

        if (strncmp(field, name, length) == 0 && field[length] == '=')
            return field + length + 1;
    }
    return NULL;
}

guint
journal_count(Journal *journal, const char *field, const char *value)
{
    g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&journal->lock);
    guint count = 0;

    for (guint i = 0; i < journal->records->len; i++)
        count += g_strcmp0(value_of(g_ptr_array_index(journal->records, i), field), value) == 0 ? 1 : 0;
    return count;
}

/* With the lock. */
static GPtrArray *
newest(Journal *journal, const char *field, const char *value)
{
    for (guint i = journal->records->len; i > 0; i--) {
        GPtrArray *record = g_ptr_array_index(journal->records, i - 1);

        if (g_strcmp0(value_of(record, field), value) == 0)
            return record;
    }
    return NULL;
}

const char *
journal_field(Journal *journal, const char *field, const char *value, const char *name)
{
    g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&journal->lock);
    GPtrArray *record = newest(journal, field, value);

    return record ? value_of(record, name) : NULL;
}

static int
compare_text(gconstpointer a, gconstpointer b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

char *
journal_names(Journal *journal, const char *field, const char *value)
{
    g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&journal->lock);
    GPtrArray *record = newest(journal, field, value);
    g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);

    for (guint i = 0; record && i < record->len; i++) {
        const char *text = g_ptr_array_index(record, i);

        g_ptr_array_add(names, g_strndup(text, strcspn(text, "=")));
    }
    g_ptr_array_sort(names, compare_text);
    g_ptr_array_add(names, NULL);
    return g_strjoinv(" ", (char **)names->pdata);
}
