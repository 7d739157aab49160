/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "harness-private.h"

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
    GPtrArray *records; /* of GHashTable: field -> value */
};

/* "NAME=value\n", or "NAME\n" with the length as 64 bits little endian, the value and "\n". */
static GHashTable *
parse(const char *data, gsize length)
{
    GHashTable *record = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
    const char *end = data + length;

    while (data < end) {
        const char *line_end = memchr(data, '\n', (gsize)(end - data));
        const char *equals;
        guint64 size;

        if (!line_end)
            break;
        equals = memchr(data, '=', (gsize)(line_end - data));
        if (equals) {
            g_hash_table_replace(record, g_strndup(data, (gsize)(equals - data)),
                                 g_strndup(equals + 1, (gsize)(line_end - equals - 1)));
            data = line_end + 1;
            continue;
        }
        if ((gsize)(end - line_end - 1) < sizeof size)
            break;
        memcpy(&size, line_end + 1, sizeof size);
        size = GUINT64_FROM_LE(size);
        if (size > (gsize)(end - line_end - 1) - sizeof size)
            break;
        g_hash_table_replace(record, g_strndup(data, (gsize)(line_end - data)),
                             g_strndup(line_end + 1 + sizeof size, size));
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

    check_namespace();
    journal->directory = make_directory("journal");
    journal->records = g_ptr_array_new_with_free_func((GDestroyNotify)g_hash_table_unref);
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
    remove_tree(journal->directory);
    g_ptr_array_unref(journal->records);
    g_mutex_clear(&journal->lock);
    g_free(journal->directory);
    g_free(journal);
}

static gboolean
has(GHashTable *record, const char *field, const char *value)
{
    return g_strcmp0(g_hash_table_lookup(record, field), value) == 0;
}

guint
journal_count(Journal *journal, const char *field, const char *value)
{
    g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&journal->lock);
    guint count = 0;

    for (guint i = 0; i < journal->records->len; i++)
        count += has(g_ptr_array_index(journal->records, i), field, value) ? 1 : 0;
    return count;
}

const char *
journal_field(Journal *journal, const char *field, const char *value, const char *name)
{
    g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&journal->lock);

    for (guint i = journal->records->len; i > 0; i--) {
        GHashTable *record = g_ptr_array_index(journal->records, i - 1);

        if (has(record, field, value))
            return g_hash_table_lookup(record, name);
    }
    return NULL;
}
