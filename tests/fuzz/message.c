/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Any bytes from a client that keeps to no rules. An input that starts with `m` is the body of a call of
 * Assign that says it has the right arguments; any other is all that the client sends once it is let in. */
#include "fuzz.h"
#include "peer.h"

#include <errno.h>
#include <gio/gio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BODY_LENGTH_OFFSET 4 /* in the header of a message */
#define HELLO "\0AUTH ANONYMOUS 68656c6c6f\r\nNEGOTIATE_UNIX_FD\r\nBEGIN\r\n"

/* The header of Assign, in which the length of the body is still to be set. */
static GByteArray *
header_new(void)
{
    g_autoptr(GDBusMessage) message =
        g_dbus_message_new_method_call(NULL, PEER_PATH, PEER_INTERFACE, "Assign");
    g_autoptr(GError) error = NULL;
    g_autofree guchar *blob = NULL;
    GByteArray *header = g_byte_array_new();
    gsize size;
    guint32 body_length;

    g_dbus_message_set_byte_order(message, G_DBUS_MESSAGE_BYTE_ORDER_LITTLE_ENDIAN);
    g_dbus_message_set_serial(message, 1);
    g_dbus_message_set_body(message, g_variant_new_parsed("('', @a{sv} {})"));
    blob = g_dbus_message_to_blob(message, &size, G_DBUS_CAPABILITY_FLAGS_NONE, &error);
    g_assert_no_error(error);
    memcpy(&body_length, blob + BODY_LENGTH_OFFSET, sizeof(body_length));
    g_byte_array_append(header, blob, (guint)(size - GUINT32_FROM_LE(body_length)));
    return header;
}

/* As much as the socket takes. */
static void
send_bytes(int fd, const void *data, size_t size)
{
    ssize_t n = send(fd, data, size, MSG_NOSIGNAL | MSG_DONTWAIT);

    g_assert_true(n >= 0 || errno == EAGAIN || errno == EPIPE || errno == ECONNRESET);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    g_autoptr(GByteArray) header = NULL;
    g_autoptr(Peer) peer = NULL;
    guint32 body_length;
    int fds[2];

    if (size == 0)
        return 0;
    g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), ==, 0);
    peer = peer_new(fds[0]);
    send_bytes(fds[1], HELLO, sizeof(HELLO) - 1);
    g_assert_true(peer_process(peer)); /* let in */
    if (*data == 'm') {
        data++;
        size--;
        header = header_new();
        body_length = GUINT32_TO_LE((guint32)size);
        memcpy(header->data + BODY_LENGTH_OFFSET, &body_length, sizeof(body_length));
        send_bytes(fds[1], header->data, header->len);
    }
    send_bytes(fds[1], data, size);
    peer_process(peer);
    close(fds[1]);
    g_assert_false(peer_process(peer)); /* and it notices that the client has gone */
    return 0;
}
