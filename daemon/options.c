/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "options.h"

#include "error.h"
#include "pci-address.h"

#include <errno.h>
#include <string.h>

#define PROFILE_MAX 256
#define LABEL_MAX 64
#define VALUE_MAX 64

static gboolean
refuse(GError **error, const char *key, const char *value, const char *what)
{
    g_autofree char *printable = vgpu_text_printable(value);

    g_set_error(error, VGPU_ERROR, VGPU_ERROR_INVALID_ARGS, "option %s: \"%.64s\" is not %s", key, printable,
                what);
    return FALSE;
}

static gboolean
has_control_characters(const char *text)
{
    for (const char *p = text; *p; p = g_utf8_next_char(p)) {
        if (g_unichar_iscntrl(g_utf8_get_char(p)))
            return TRUE;
    }
    return FALSE;
}

static gboolean
take_address(VgpuRequest *request, const char *key, const char *value, GError **error)
{
    char *address = vgpu_pci_address_normalize(value);

    if (!address)
        return refuse(error, key, value, "a PCI address like 0000:3b:00.0");
    *(strcmp(key, "gpu") == 0 ? &request->gpu : &request->device) = address;
    return TRUE;
}

static gboolean
take_placement(VgpuRequest *request, const char *key, const char *value, GError **error)
{
    if (strcmp(value, "spread") == 0)
        request->policy = VGPU_POLICY_SPREAD;
    else if (strcmp(value, "pack") == 0)
        request->policy = VGPU_POLICY_PACK;
    else
        return refuse(error, key, value, "spread or pack");
    return TRUE;
}

static gboolean
take_uuid(VgpuRequest *request, const char *key, const char *value, GError **error)
{
    if (!g_uuid_string_is_valid(value))
        return refuse(error, key, value, "a UUID");
    request->uuid = g_ascii_strdown(value, -1);
    return TRUE;
}

static gboolean
take_label(VgpuRequest *request, const char *key, const char *value, GError **error)
{
    if (*value == '\0' || strlen(value) > LABEL_MAX || has_control_characters(value))
        return refuse(error, key, value, "a text of 1 to 64 bytes without control characters");
    request->label = g_strdup(value);
    return TRUE;
}

static const struct {
    const char *key;
    gboolean (*take)(VgpuRequest *request, const char *key, const char *value, GError **error);
} string_options[] = {
    {"gpu", take_address}, {"device", take_address}, {"placement", take_placement},
    {"uuid", take_uuid},   {"label", take_label},
};

/* Reads the variant that comes next, which must be of @type. */
static int
read_value(sd_bus_message *message, const char *key, const char *type, void *ret_value, GError **error)
{
    const char *contents = NULL;
    int r = sd_bus_message_peek_type(message, NULL, &contents);

    if (r < 0)
        return r;
    if (g_strcmp0(contents, type) != 0) {
        g_set_error(error, VGPU_ERROR, VGPU_ERROR_INVALID_ARGS, "option %s must be of type %s, not %s", key,
                    type, contents);
        return -EINVAL;
    }
    return sd_bus_message_read(message, "v", type, ret_value);
}

static int
read_option(sd_bus_message *message, const char *key, VgpuRequest *request, GError **error)
{
    g_autofree char *printable = NULL;
    const char *value = NULL;
    int r;

    if (strcmp(key, "numa-node") == 0) {
        request->has_numa_node = TRUE;
        return read_value(message, key, "i", &request->numa_node, error);
    }
    for (gsize i = 0; i < G_N_ELEMENTS(string_options); i++) {
        if (strcmp(key, string_options[i].key) != 0)
            continue;
        r = read_value(message, key, "s", &value, error);
        if (r < 0)
            return r;
        if (strlen(value) > VALUE_MAX) {
            g_set_error(error, VGPU_ERROR, VGPU_ERROR_INVALID_ARGS, "option %s is longer than %d bytes", key,
                        VALUE_MAX);
            return -EINVAL;
        }
        return string_options[i].take(request, key, value, error) ? 0 : -EINVAL;
    }
    printable = vgpu_text_printable(key);
    g_set_error(error, VGPU_ERROR, VGPU_ERROR_INVALID_ARGS,
                "there is no option \"%.64s\": use gpu, device, placement, numa-node, uuid or label",
                printable);
    return -EINVAL;
}

static int
read_options(sd_bus_message *message, VgpuRequest *request, GError **error)
{
    g_autoptr(GHashTable) seen = g_hash_table_new(g_str_hash, g_str_equal);
    int r = sd_bus_message_enter_container(message, 'a', "{sv}");

    while (r >= 0 && (r = sd_bus_message_enter_container(message, 'e', "sv")) > 0) {
        const char *key;

        r = sd_bus_message_read(message, "s", &key);
        if (r >= 0 && !g_hash_table_add(seen, (gpointer)key)) {
            g_set_error(error, VGPU_ERROR, VGPU_ERROR_INVALID_ARGS, "option %.64s is given twice", key);
            return -EINVAL;
        }
        if (r >= 0)
            r = read_option(message, key, request, error);
        if (r >= 0)
            r = sd_bus_message_exit_container(message);
    }
    return r < 0 ? r : sd_bus_message_exit_container(message);
}

VgpuRequest *
vgpu_options_read(sd_bus_message *message, GError **error)
{
    g_autoptr(VgpuRequest) request = NULL;
    const char *profile;
    g_autoptr(GError) refused = NULL;

    if (sd_bus_message_read(message, "s", &profile) < 0)
        profile = "";
    if (*profile == '\0' || strlen(profile) > PROFILE_MAX || has_control_characters(profile)) {
        g_set_error(error, VGPU_ERROR, VGPU_ERROR_INVALID_ARGS,
                    "a profile has a name of 1 to %d bytes without control characters", PROFILE_MAX);
        return NULL;
    }
    request = vgpu_request_new(profile);
    if (read_options(message, request, &refused) < 0) {
        if (refused)
            g_propagate_error(error, g_steal_pointer(&refused));
        else
            g_set_error(error, VGPU_ERROR, VGPU_ERROR_INVALID_ARGS, "the options could not be read");
        return NULL;
    }
    return g_steal_pointer(&request);
}
