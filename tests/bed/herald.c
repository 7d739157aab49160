/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "bed-private.h"

#include <arpa/inet.h>
#include <errno.h>
#include <glob.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

/* Uevents, in the form in which udevd passes them on; umockdev's library makes a unix socket for each
 * monitor. A listener that is not being read gets this long, and then no more patience until it reads again.
 */
#define PATIENCE_MS 1000

/* The message header of libudev: what sd-device checks, and what its socket filters look at. */
typedef struct {
    char prefix[8];
    uint32_t magic; /* these two in network order */
    uint32_t header_size;
    uint32_t properties_offset;
    uint32_t properties_length;
    uint32_t subsystem_hash; /* and these */
    uint32_t devtype_hash;
    uint32_t tag_bloom_high;
    uint32_t tag_bloom_low;
} Header;

typedef struct {
    GByteArray *properties; /* NULL: a node went */
    uint32_t subsystem_hash;
    uint64_t parent, child;
    char *name;
} Message;

struct Herald {
    Bed *bed;
    GThread *thread;
    GMutex lock; /* guards what is below; taken after bed->lock, never before */
    GCond wake;
    GCond idle;
    GQueue queue;
    gboolean busy;
    gboolean stop;
    unsigned long serial;
    GHashTable *deaf; /* socket paths; of the thread alone */
};

/* The 32-bit MurmurHash2, which libudev uses for its filters. */
static uint32_t
hash_string(const char *text)
{
    const uint32_t multiplier = 0x5bd1e995;
    size_t length = strlen(text);
    uint32_t hash = (uint32_t)length;
    size_t i;

    for (i = 0; i + 4 <= length; i += 4) {
        uint32_t word;

        memcpy(&word, text + i, sizeof word);
        word *= multiplier;
        word ^= word >> 24;
        word *= multiplier;
        hash = hash * multiplier ^ word;
    }
    if (i < length) {
        for (size_t k = length; k > i; k--)
            hash ^= (uint32_t)(unsigned char)text[k - 1] << 8 * (k - 1 - i);
        hash *= multiplier;
    }
    hash ^= hash >> 13;
    hash *= multiplier;
    return hash ^ hash >> 15;
}

static void
message_free(Message *message)
{
    g_clear_pointer(&message->properties, g_byte_array_unref);
    g_free(message->name);
    g_free(message);
}

static void
send_to(Herald *herald, const char *path, const struct msghdr *message)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    gboolean deaf = g_hash_table_contains(herald->deaf, path);

    g_strlcpy(address.sun_path, path, sizeof address.sun_path);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) < 0) {
        /* Its monitor is closed. A name without a process may be another monitor's by the time we remove it.
         */
        if (fd >= 0 && errno == ECONNREFUSED && strrchr(path, '.') > strrchr(path, '/'))
            unlink(path);
    } else {
        gint64 deadline = g_get_monotonic_time() + PATIENCE_MS * 1000;
        ssize_t n;

        while ((n = sendmsg(fd, message, MSG_NOSIGNAL)) < 0 && errno == EAGAIN && !deaf) {
            struct pollfd room = {.fd = fd, .events = POLLOUT};

            if (poll(&room, 1, 10) < 0 || g_get_monotonic_time() > deadline)
                deaf = TRUE;
        }
        if (n >= 0)
            g_hash_table_remove(herald->deaf, path);
        else if (deaf)
            g_hash_table_add(herald->deaf, g_strdup(path));
    }
    if (fd >= 0)
        close(fd);
}

static void
send_to_all(Herald *herald, const Message *message)
{
    Header header = {
        .prefix = "libudev",
        .magic = htonl(0xfeedcafe),
        .header_size = sizeof header,
        .properties_offset = sizeof header,
        .properties_length = message->properties->len,
        .subsystem_hash = htonl(message->subsystem_hash),
    };
    struct iovec parts[] = {
        {.iov_base = &header, .iov_len = sizeof header},
        {.iov_base = message->properties->data, .iov_len = message->properties->len},
    };
    struct msghdr packet = {.msg_iov = parts, .msg_iovlen = G_N_ELEMENTS(parts)};
    g_autofree char *pattern = g_strdup_printf("%s/event[0-9]*", herald->bed->root);
    glob_t found;

    if (glob(pattern, GLOB_NOSORT, NULL, &found) != 0)
        return;
    for (size_t i = 0; i < found.gl_pathc; i++)
        send_to(herald, found.gl_pathv[i], &packet);
    globfree(&found);
}

static gpointer
herald_run(gpointer data)
{
    Herald *herald = data;

    g_mutex_lock(&herald->lock);
    while (!herald->stop) {
        Message *message = g_queue_pop_head(&herald->queue);

        if (!message) {
            herald->busy = FALSE;
            g_cond_broadcast(&herald->idle);
            g_cond_wait(&herald->wake, &herald->lock);
            continue;
        }
        g_mutex_unlock(&herald->lock);
        if (message->properties)
            send_to_all(herald, message);
        else
            fuse_lowlevel_notify_delete(herald->bed->session, message->parent, message->child, message->name,
                                        strlen(message->name));
        message_free(message);
        g_mutex_lock(&herald->lock);
    }
    g_mutex_unlock(&herald->lock);
    return NULL;
}

Herald *
herald_new(Bed *bed)
{
    Herald *herald = g_new0(Herald, 1);

    herald->bed = bed;
    g_mutex_init(&herald->lock);
    g_cond_init(&herald->wake);
    g_cond_init(&herald->idle);
    g_queue_init(&herald->queue);
    herald->deaf = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    herald->thread = g_thread_new("bed-herald", herald_run, herald);
    return herald;
}

void
herald_free(Herald *herald)
{
    g_mutex_lock(&herald->lock);
    herald->stop = TRUE;
    g_cond_broadcast(&herald->wake);
    g_mutex_unlock(&herald->lock);
    g_thread_join(herald->thread);
    g_queue_clear_full(&herald->queue, (GDestroyNotify)message_free);
    g_hash_table_unref(herald->deaf);
    g_cond_clear(&herald->wake);
    g_cond_clear(&herald->idle);
    g_mutex_clear(&herald->lock);
    g_free(herald);
}

static void
herald_queue(Herald *herald, Message *message)
{
    g_mutex_lock(&herald->lock);
    g_queue_push_tail(&herald->queue, message);
    herald->busy = TRUE;
    g_cond_broadcast(&herald->wake);
    g_mutex_unlock(&herald->lock);
}

static void
append_property(GByteArray *properties, const char *key, const char *value)
{
    g_byte_array_append(properties, (const guint8 *)key, strlen(key));
    g_byte_array_append(properties, (const guint8 *)"=", 1);
    g_byte_array_append(properties, (const guint8 *)value, strlen(value) + 1);
}

static void
append_lines(GByteArray *properties, const char *text)
{
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);

    for (guint i = 0; lines[i]; i++) {
        char *value = strchr(lines[i], '=');

        if (!value)
            continue;
        *value++ = '\0';
        if (strcmp(lines[i], "DEVNAME") == 0) {
            g_autofree char *node = g_strconcat("/dev/", value, NULL);

            append_property(properties, lines[i], node);
        } else {
            append_property(properties, lines[i], value);
        }
    }
}

void
herald_uevent(Bed *bed, Node *dir, const char *action, const char *extra)
{
    Message *message;
    Node *subsystem = node_child(dir, "subsystem");
    Node *uevent = node_child(dir, "uevent");
    g_autofree char *name = NULL;
    g_autofree char *path = NULL;
    g_autofree char *serial = NULL;
    g_autoptr(GString) text = g_string_new(NULL);

    if (bed->muted || !subsystem || !uevent)
        return;
    name = g_path_get_basename(subsystem->text);
    path = node_path(dir);
    serial = g_strdup_printf("%lu", ++bed->herald->serial);

    message = g_new0(Message, 1);
    message->properties = g_byte_array_new();
    message->subsystem_hash = hash_string(name);
    append_property(message->properties, "ACTION", action);
    append_property(message->properties, "DEVPATH", path + strlen("/sys"));
    append_property(message->properties, "SUBSYSTEM", name);
    append_property(message->properties, "SEQNUM", serial);
    if (uevent->show)
        uevent->show(bed, uevent, text);
    else
        g_string_append(text, uevent->text);
    append_lines(message->properties, text->str);
    if (extra)
        append_lines(message->properties, extra);
    herald_queue(bed->herald, message);
}

void
herald_gone(Bed *bed, Node *node)
{
    Message *message = g_new0(Message, 1);

    message->parent = node->parent->id;
    message->child = node->id;
    message->name = g_strdup(node->name);
    herald_queue(bed->herald, message);
}

void
herald_settle(Herald *herald)
{
    g_mutex_lock(&herald->lock);
    while (herald->busy)
        g_cond_wait(&herald->idle, &herald->lock);
    g_mutex_unlock(&herald->lock);
}
