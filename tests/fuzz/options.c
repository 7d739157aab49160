/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Any arguments of Assign, sent by a client that keeps to the rules of the bus. The input is fields that end
 * in NUL: the profile, then a key, and its value behind a letter for its type, and so on. What must come of
 * it is worked out here a second time, from the documentation, and compared. */
#include "bus.h"
#include "fuzz.h"
#include "pci-address.h"
#include "peer.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#define OPTIONS_MAX 8

typedef struct {
    char *key;
    char type;
    char *value;
} Option;

typedef struct {
    char *profile;
    Option options[OPTIONS_MAX];
    guint n_options;
} Call;

static sd_bus *client;
static Peer *peer;

/* One connection for all inputs: a client that keeps to the rules is never thrown out. */
static void
connect_once(void)
{
    int fds[2];

    if (client)
        return;
    g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), ==, 0);
    peer = peer_new(fds[0]);
    g_assert_cmpint(sd_bus_new(&client), >=, 0);
    g_assert_cmpint(sd_bus_set_fd(client, fds[1], fds[1]), >=, 0);
    g_assert_cmpint(sd_bus_set_anonymous(client, 1), >=, 0);
    g_assert_cmpint(sd_bus_start(client), >=, 0);
}

static Call *
call_read(const uint8_t *data, size_t size)
{
    Call *call = g_new0(Call, 1);
    char *key;

    call->profile = fuzz_take_text(&data, &size, '\0');
    if (!call->profile)
        call->profile = g_strdup("");
    while (call->n_options < OPTIONS_MAX && (key = fuzz_take_text(&data, &size, '\0'))) {
        Option *option = &call->options[call->n_options++];
        g_autofree char *typed = fuzz_take_text(&data, &size, '\0');

        option->key = key;
        option->type = typed && *typed ? *typed : 's';
        option->value = g_strdup(typed && *typed ? typed + 1 : "");
    }
    return call;
}

static void
call_free(Call *call)
{
    for (guint i = 0; i < call->n_options; i++) {
        g_free(call->options[i].key);
        g_free(call->options[i].value);
    }
    g_free(call->profile);
    g_free(call);
}
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Call, call_free)

static gint64
number_of(const Option *option)
{
    return g_ascii_strtoll(option->value, NULL, 10);
}

/* Negative when it is no value of that type, and so can be put into no message. */
static int
append_value(sd_bus_message *message, const Option *option)
{
    switch (option->type) {
    case 'i':
        return sd_bus_message_append(message, "v", "i", (gint32)number_of(option));
    case 'u':
        return sd_bus_message_append(message, "v", "u", (guint32)number_of(option));
    case 't':
        return sd_bus_message_append(message, "v", "t", (guint64)number_of(option));
    case 'b':
        return sd_bus_message_append(message, "v", "b", (int)(number_of(option) != 0));
    case 'd':
        return sd_bus_message_append(message, "v", "d", (double)number_of(option));
    case 'o':
        return sd_bus_message_append(message, "v", "o", option->value);
    case 'g':
        return sd_bus_message_append(message, "v", "g", option->value);
    case 'h':
        return sd_bus_message_append(message, "v", "h", 0);
    case 'a':
        return sd_bus_message_append(message, "v", "as", 1, option->value);
    case 'e':
        return sd_bus_message_append(message, "v", "a{sv}", 1, option->value, "s", option->value);
    case 'v':
        return sd_bus_message_append(message, "v", "v", "s", option->value);
    default:
        return sd_bus_message_append(message, "v", "s", option->value);
    }
}

static int
call_build(const Call *call, sd_bus_message **ret_message)
{
    g_autoptr(sd_bus_message) message = NULL;
    int r = sd_bus_message_new_method_call(client, &message, NULL, PEER_PATH, PEER_INTERFACE, "Assign");

    if (!g_utf8_validate(call->profile, -1, NULL))
        return -EINVAL;
    if (r >= 0)
        r = sd_bus_message_append(message, "s", call->profile);
    if (r >= 0)
        r = sd_bus_message_open_container(message, 'a', "{sv}");
    for (guint i = 0; r >= 0 && i < call->n_options; i++) {
        const Option *option = &call->options[i];

        if (!g_utf8_validate(option->key, -1, NULL) || !g_utf8_validate(option->value, -1, NULL))
            return -EINVAL;
        r = sd_bus_message_open_container(message, 'e', "sv");
        if (r >= 0)
            r = sd_bus_message_append(message, "s", option->key);
        if (r >= 0)
            r = append_value(message, option);
        if (r >= 0)
            r = sd_bus_message_close_container(message);
    }
    if (r >= 0)
        r = sd_bus_message_close_container(message);
    if (r >= 0)
        *ret_message = g_steal_pointer(&message);
    return r;
}

/* ---- What must come of it ---- */

static gboolean
is_text(const char *text, size_t most)
{
    glong n = g_utf8_strlen(text, -1);

    for (glong i = 0; i < n; i++) {
        if (g_unichar_iscntrl(g_utf8_get_char(g_utf8_offset_to_pointer(text, i))))
            return FALSE;
    }
    return n > 0 && strlen(text) <= most;
}

static gboolean
is_address(const char *text)
{
    VgpuPciAddress address;

    return vgpu_pci_address_parse(text, &address);
}

static gboolean
is_good(const Option *option)
{
    gboolean is_string = !strchr("iutbdoghaev", option->type);

    if (strcmp(option->key, "numa-node") == 0)
        return option->type == 'i';
    if (!is_string)
        return FALSE;
    if (strcmp(option->key, "gpu") == 0 || strcmp(option->key, "device") == 0)
        return is_address(option->value);
    if (strcmp(option->key, "placement") == 0)
        return strcmp(option->value, "spread") == 0 || strcmp(option->value, "pack") == 0;
    if (strcmp(option->key, "uuid") == 0)
        return g_uuid_string_is_valid(option->value);
    return strcmp(option->key, "label") == 0 && is_text(option->value, 64);
}

static gboolean
call_is_good(const Call *call)
{
    for (guint i = 0; i < call->n_options; i++) {
        if (!is_good(&call->options[i]))
            return FALSE;
        for (guint j = 0; j < i; j++) {
            if (strcmp(call->options[i].key, call->options[j].key) == 0)
                return FALSE;
        }
    }
    return is_text(call->profile, 256);
}

static const char *
value_of(const Call *call, const char *key)
{
    for (guint i = 0; i < call->n_options; i++) {
        if (strcmp(call->options[i].key, key) == 0)
            return call->options[i].value;
    }
    return NULL;
}

static void
check_request(const Call *call, const VgpuRequest *request)
{
    const char *placement = value_of(call, "placement"), *numa_node = value_of(call, "numa-node");
    g_autofree char *gpu = vgpu_pci_address_normalize(value_of(call, "gpu"));
    g_autofree char *device = vgpu_pci_address_normalize(value_of(call, "device"));

    g_assert_cmpstr(request->profile, ==, call->profile);
    g_assert_cmpstr(request->gpu, ==, gpu);
    g_assert_cmpstr(request->device, ==, device);
    g_assert_cmpstr(request->label, ==, value_of(call, "label"));
    g_assert_cmpint(request->uuid == NULL, ==, value_of(call, "uuid") == NULL);
    if (request->uuid)
        g_assert_cmpint(g_ascii_strcasecmp(request->uuid, value_of(call, "uuid")), ==, 0);
    g_assert_cmpint(request->policy, ==,
                    !placement                         ? VGPU_POLICY_DEFAULT
                    : strcmp(placement, "spread") == 0 ? VGPU_POLICY_SPREAD
                                                       : VGPU_POLICY_PACK);
    g_assert_cmpint(request->has_numa_node, ==, numa_node != NULL);
    if (numa_node)
        g_assert_cmpint(request->numa_node, ==, (gint32)g_ascii_strtoll(numa_node, NULL, 10));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    g_autoptr(Call) call = call_read(data, size);
    g_autoptr(sd_bus_message) message = NULL;
    guint before;

    connect_once();
    if (call_build(call, &message) < 0)
        return 0;
    before = peer->calls;
    g_assert_cmpint(sd_bus_send(client, message, NULL), >=, 0);
    while (peer->calls == before) {
        g_assert_true(peer_process(peer));
        g_assert_cmpint(sd_bus_process(client, NULL), >=, 0);
    }
    while (sd_bus_process(client, NULL) > 0)
        ; /* the answer, so that the socket does not fill up */
    g_assert_cmpint(peer->request != NULL, ==, call_is_good(call));
    if (peer->request)
        check_request(call, peer->request);
    return 0;
}
