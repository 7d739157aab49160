/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "owners.h"

#include "bus.h"

#include <errno.h>
#include <string.h>

#define MATCH                                                                                                \
    "type='signal',sender='org.freedesktop.DBus',path='/org/freedesktop/DBus',"                              \
    "interface='org.freedesktop.DBus',member='NameOwnerChanged',arg2=''"

#define CHECK_SECONDS 5

struct _VgpuOwners {
    sd_bus *bus;
    sd_bus_slot *match;
    GHashTable *holds;  /* name -> count */
    sd_bus_slot *check; /* a question for all names that is under way */
    guint timer;        /* of the next one */
    VgpuOwnersVanished vanished;
    gpointer user_data;
};

VgpuCaller *
vgpu_caller_copy(const VgpuCaller *caller)
{
    VgpuCaller *copy = g_memdup2(caller, sizeof(*caller));

    copy->name = g_strdup(caller->name);
    return copy;
}

void
vgpu_caller_free(VgpuCaller *caller)
{
    g_free(caller->name);
    g_free(caller);
}

VgpuOwners *
vgpu_owners_new(sd_bus *bus, VgpuOwnersVanished vanished, gpointer user_data)
{
    VgpuOwners *owners = g_new0(VgpuOwners, 1);

    owners->bus = sd_bus_ref(bus);
    owners->holds = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    owners->vanished = vanished;
    owners->user_data = user_data;
    return owners;
}

void
vgpu_owners_free(VgpuOwners *owners)
{
    g_clear_handle_id(&owners->timer, g_source_remove);
    sd_bus_slot_unref(owners->check);
    sd_bus_slot_unref(owners->match);
    g_hash_table_unref(owners->holds);
    sd_bus_unref(owners->bus);
    g_free(owners);
}

static int
on_name_owner_changed(sd_bus_message *message, void *user_data, sd_bus_error *error)
{
    VgpuOwners *owners = user_data;
    const char *name, *old_owner, *new_owner;

    /* Anybody may send such a signal to us alone, and it fits the match: only the bus itself knows. */
    if (g_strcmp0(sd_bus_message_get_sender(message), "org.freedesktop.DBus") != 0)
        return 0;
    if (sd_bus_message_read(message, "sss", &name, &old_owner, &new_owner) < 0)
        return 0;
    if (*new_owner == '\0' && g_hash_table_contains(owners->holds, name)) {
        g_autofree char *gone = g_strdup(name);
        owners->vanished(gone, owners->user_data);
    }
    return 0;
}

static int
on_names(sd_bus_message *reply, void *user_data, sd_bus_error *error)
{
    VgpuOwners *owners = user_data;
    g_autoptr(GHashTable) present = g_hash_table_new(g_str_hash, g_str_equal);
    g_autoptr(GPtrArray) gone = g_ptr_array_new_with_free_func(g_free);
    g_auto(GStrv) names = NULL;
    GHashTableIter iter;
    gpointer name;

    owners->check = sd_bus_slot_unref(owners->check);
    if (sd_bus_message_is_method_error(reply, NULL) || sd_bus_message_read_strv(reply, &names) < 0)
        return 0; /* silence is not an absence */
    for (char **there = names; there && *there; there++)
        g_hash_table_add(present, *there);
    g_hash_table_iter_init(&iter, owners->holds);
    while (g_hash_table_iter_next(&iter, &name, NULL)) {
        if (!g_hash_table_contains(present, name))
            g_ptr_array_add(gone, g_strdup(name));
    }
    for (guint i = 0; i < gone->len; i++)
        owners->vanished(g_ptr_array_index(gone, i), owners->user_data);
    return 0;
}

/* A bus whose queue to us is full drops signals without a word, and somebody may fill it on purpose. */
static gboolean
on_check(gpointer user_data)
{
    VgpuOwners *owners = user_data;

    if (!owners->check)
        sd_bus_call_method_async(owners->bus, &owners->check, "org.freedesktop.DBus", "/org/freedesktop/DBus",
                                 "org.freedesktop.DBus", "ListNames", on_names, owners, "");
    return G_SOURCE_CONTINUE;
}

int
vgpu_owners_hold(VgpuOwners *owners, const char *name)
{
    guint count = GPOINTER_TO_UINT(g_hash_table_lookup(owners->holds, name));
    int r;

    if (!owners->match) {
        r = sd_bus_add_match_async(owners->bus, &owners->match, MATCH, on_name_owner_changed, NULL, owners);
        if (r < 0)
            return r;
    }
    if (owners->timer == 0)
        owners->timer = g_timeout_add_seconds(CHECK_SECONDS, on_check, owners);
    g_hash_table_insert(owners->holds, g_strdup(name), GUINT_TO_POINTER(count + 1));
    return 0;
}

void
vgpu_owners_drop(VgpuOwners *owners, const char *name)
{
    guint count = GPOINTER_TO_UINT(g_hash_table_lookup(owners->holds, name));

    if (count > 1)
        g_hash_table_insert(owners->holds, g_strdup(name), GUINT_TO_POINTER(count - 1));
    else
        g_hash_table_remove(owners->holds, name);
    if (g_hash_table_size(owners->holds) > 0)
        return;
    owners->match = sd_bus_slot_unref(owners->match);
    g_clear_handle_id(&owners->timer, g_source_remove);
}

typedef struct {
    char *name;
    VgpuOwnersIdentified identified;
    gpointer user_data;
} Question;

static int
read_credentials(sd_bus_message *reply, VgpuCaller *caller)
{
    gboolean has_uid = FALSE;
    int r = sd_bus_message_enter_container(reply, 'a', "{sv}");

    while (r >= 0 && (r = sd_bus_message_enter_container(reply, 'e', "sv")) > 0) {
        const char *key;

        r = sd_bus_message_read(reply, "s", &key);
        if (r >= 0 && strcmp(key, "UnixUserID") == 0) {
            r = sd_bus_message_read(reply, "v", "u", &caller->uid);
            has_uid = r >= 0;
        } else if (r >= 0 && strcmp(key, "ProcessID") == 0) {
            r = sd_bus_message_read(reply, "v", "u", &caller->pid);
        } else if (r >= 0) {
            r = sd_bus_message_skip(reply, "v");
        }
        if (r >= 0)
            r = sd_bus_message_exit_container(reply);
    }
    return r < 0 ? r : has_uid ? 0 : -ENODATA;
}

static int
on_credentials(sd_bus_message *reply, void *user_data, sd_bus_error *error)
{
    Question *question = user_data;
    g_autoptr(VgpuCaller) caller = g_new0(VgpuCaller, 1);

    caller->name = g_steal_pointer(&question->name);
    if (sd_bus_message_is_method_error(reply, NULL) || read_credentials(reply, caller) < 0)
        g_clear_pointer(&caller, vgpu_caller_free);
    question->identified(g_steal_pointer(&caller),
                         sd_bus_message_is_method_error(reply, SD_BUS_ERROR_NAME_HAS_NO_OWNER) > 0,
                         question->user_data);
    return 0;
}

static void
question_free(void *data)
{
    Question *question = data;

    g_free(question->name);
    g_free(question);
}

int
vgpu_owners_identify(VgpuOwners *owners, const char *name, VgpuOwnersIdentified identified,
                     gpointer user_data)
{
    g_autoptr(sd_bus_slot) slot = NULL;
    Question *question = g_new0(Question, 1);
    int r;

    question->name = g_strdup(name);
    question->identified = identified;
    question->user_data = user_data;
    r = sd_bus_call_method_async(owners->bus, &slot, "org.freedesktop.DBus", "/org/freedesktop/DBus",
                                 "org.freedesktop.DBus", "GetConnectionCredentials", on_credentials, question,
                                 "s", name);
    if (r < 0) {
        question_free(question);
        return r;
    }
    sd_bus_slot_set_destroy_callback(slot, question_free);
    return sd_bus_slot_set_floating(slot, 1);
}
