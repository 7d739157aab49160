/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "peer.h"

#include "error.h"
#include "fuzz.h"
#include "pci-address.h"

#include <string.h>
#include <systemd/sd-id128.h>

static int
on_call(sd_bus_message *message, void *user_data, sd_bus_error *error)
{
    Peer *peer = user_data;

    g_clear_pointer(&peer->request, vgpu_request_free);
    g_clear_error(&peer->error);
    peer->request = vgpu_options_read(message, &peer->error);
    peer->calls++;
    peer_check(peer);
    return sd_bus_reply_method_return(message, "");
}

static const sd_bus_vtable vtable[] = {
    SD_BUS_VTABLE_START(0),
    SD_BUS_METHOD("Assign", "sa{sv}", "", on_call, SD_BUS_VTABLE_UNPRIVILEGED),
    SD_BUS_METHOD("Plan", "sa{sv}", "", on_call, SD_BUS_VTABLE_UNPRIVILEGED),
    SD_BUS_VTABLE_END,
};

Peer *
peer_new(int fd)
{
    Peer *peer = g_new0(Peer, 1);
    sd_id128_t id = {{1}};

    g_assert_cmpint(sd_bus_new(&peer->bus), >=, 0);
    g_assert_cmpint(sd_bus_set_fd(peer->bus, fd, fd), >=, 0);
    g_assert_cmpint(sd_bus_set_server(peer->bus, 1, id), >=, 0);
    g_assert_cmpint(sd_bus_set_anonymous(peer->bus, 1), >=, 0);
    g_assert_cmpint(sd_bus_negotiate_fds(peer->bus, 1), >=, 0);
    g_assert_cmpint(sd_bus_add_object_vtable(peer->bus, NULL, PEER_PATH, PEER_INTERFACE, vtable, peer), >=,
                    0);
    g_assert_cmpint(sd_bus_start(peer->bus), >=, 0);
    return peer;
}

void
peer_free(Peer *peer)
{
    sd_bus_close(peer->bus);
    sd_bus_unref(peer->bus);
    g_clear_pointer(&peer->request, vgpu_request_free);
    g_clear_error(&peer->error);
    g_free(peer);
}

gboolean
peer_process(Peer *peer)
{
    int r;

    do
        r = sd_bus_process(peer->bus, NULL);
    while (r > 0);
    return r == 0 && sd_bus_is_open(peer->bus) > 0;
}

static void
check_address(const char *address)
{
    g_autofree char *normal = vgpu_pci_address_normalize(address);

    g_assert_cmpstr(normal, ==, address);
}

void
peer_check(Peer *peer)
{
    const VgpuRequest *request = peer->request;

    g_assert_cmpint(request == NULL, ==, peer->error != NULL);
    if (!request) {
        g_assert_error(peer->error, VGPU_ERROR, VGPU_ERROR_INVALID_ARGS);
        /* A long key is cut after so many bytes, perhaps within a letter: the service mends that later. */
        g_assert_cmpuint(strlen(peer->error->message), <, 400);
        return;
    }
    fuzz_check_printable(request->profile);
    g_assert_cmpuint(strlen(request->profile), >, 0);
    g_assert_cmpuint(strlen(request->profile), <=, 256);
    check_address(request->gpu);
    check_address(request->device);
    g_assert_cmpint(request->policy, >=, VGPU_POLICY_DEFAULT);
    g_assert_cmpint(request->policy, <=, VGPU_POLICY_PACK);
    if (request->uuid) {
        g_assert_true(g_uuid_string_is_valid(request->uuid));
        g_assert_cmpuint(strspn(request->uuid, "0123456789abcdef-"), ==, 36);
    }
    if (request->label) {
        fuzz_check_printable(request->label);
        g_assert_cmpuint(strlen(request->label), >, 0);
        g_assert_cmpuint(strlen(request->label), <=, 64);
    }
    g_assert_false(request->for_root);
}
