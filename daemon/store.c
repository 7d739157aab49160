/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "store.h"

#include "seal.h"

#include <errno.h>
#include <fcntl.h>
#include <gio/gio.h>
#include <glib/gstdio.h>
#include <string.h>
#include <systemd/sd-id128.h>
#include <unistd.h>

#define VERSION 1
#define KIND "state"
#define HEADER "host"
#define GROUP_PREFIX "assignment "
#define MARK_PREFIX "clearing-"

struct _VgpuStore {
    char *directory;
    char *state_path;
    char *lock_path;
    int lock_fd;
    char *boot_id;
};

VgpuStore *
vgpu_store_new(const char *directory, GError **error)
{
    g_autoptr(VgpuStore) store = g_new0(VgpuStore, 1);
    char boot_id[SD_ID128_STRING_MAX];
    sd_id128_t boot;
    int r = sd_id128_get_boot(&boot);

    store->lock_fd = -1;
    if (r < 0) {
        g_set_error(error, G_IO_ERROR, G_IO_ERROR_FAILED, "cannot read the boot id: %s", g_strerror(-r));
        return NULL;
    }
    if (g_mkdir_with_parents(directory, 0755) < 0) {
        g_set_error(error, G_IO_ERROR, G_IO_ERROR_FAILED, "cannot make %s: %s", directory, g_strerror(errno));
        return NULL;
    }
    store->boot_id = g_strdup(sd_id128_to_string(boot, boot_id));
    store->directory = g_strdup(directory);
    store->state_path = g_build_filename(directory, "state", NULL);
    store->lock_path = g_build_filename(directory, "lock", NULL);
    return g_steal_pointer(&store);
}

void
vgpu_store_free(VgpuStore *store)
{
    if (store->lock_fd >= 0)
        close(store->lock_fd);
    g_free(store->directory);
    g_free(store->state_path);
    g_free(store->lock_path);
    g_free(store->boot_id);
    g_free(store);
}

const char *
vgpu_store_directory(const VgpuStore *store)
{
    return store->directory;
}

const char *
vgpu_store_boot_id(const VgpuStore *store)
{
    return store->boot_id;
}

gboolean
vgpu_store_lock(VgpuStore *store, GError **error)
{
    int fd = open(store->lock_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    /* A lock of the process: a child that was forked an instant before a SIGKILL must not keep it, as it
     * would a flock(), from the next start. */
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

    if (fd < 0 || fcntl(fd, F_SETLK, &lock) < 0) {
        int err = errno;
        if (fd >= 0)
            close(fd);
        if (err == EACCES || err == EAGAIN)
            g_set_error(error, G_IO_ERROR, G_IO_ERROR_BUSY, "another hypeman-vgpud has %s", store->lock_path);
        else
            g_set_error(error, G_IO_ERROR, G_IO_ERROR_FAILED, "cannot lock %s: %s", store->lock_path,
                        g_strerror(err));
        return FALSE;
    }
    store->lock_fd = fd;
    return TRUE;
}

static void
set_string(GKeyFile *file, const char *group, const char *key, const char *value)
{
    if (value)
        g_key_file_set_string(file, group, key, value);
}

static void
put_assignment(GKeyFile *file, const VgpuAssignment *assignment)
{
    g_autofree char *group = g_strconcat(GROUP_PREFIX, assignment->id, NULL);
    const VgpuDevice *device = assignment->device;

    set_string(file, group, "state", vgpu_state_name(assignment->state));
    set_string(file, group, "framework", assignment->framework->name);
    set_string(file, group, "card", assignment->card);
    set_string(file, group, "slot", device->slot);
    set_string(file, group, "uuid", device->uuid);
    set_string(file, group, "type-id", device->type_id);
    set_string(file, group, "profile", device->name);
    g_key_file_set_uint64(file, group, "framebuffer-mib", device->framebuffer_mib);
    g_key_file_set_integer(file, group, "iommu-group", device->iommu_group);
    set_string(file, group, "group-node", device->group_node);
    set_string(file, group, "device-node", device->device_node);
    g_key_file_set_uint64(file, group, "inode", device->inode);
    g_key_file_set_uint64(file, group, "node-inode", device->node_inode);
    set_string(file, group, "owner", assignment->owner);
    g_key_file_set_boolean(file, group, "owner-gone", assignment->owner_gone);
    g_key_file_set_uint64(file, group, "uid", assignment->uid);
    g_key_file_set_uint64(file, group, "pid", assignment->pid);
    set_string(file, group, "label", assignment->label);
    g_key_file_set_int64(file, group, "since", assignment->since);
    set_string(file, group, "ending", vgpu_ending_name(assignment->ending));
    set_string(file, group, "error", assignment->error);
    g_key_file_set_boolean(file, group, "may-repeat", assignment->may_repeat);
    g_key_file_set_boolean(file, group, "access", assignment->access);
    g_key_file_set_boolean(file, group, "told", assignment->told);
    g_key_file_set_boolean(file, group, "foreign", assignment->foreign);
}

char *
vgpu_store_format(VgpuAssignments *assignments, const char *boot_id, const char *bus_id)
{
    g_autoptr(GKeyFile) file = g_key_file_new();
    g_autoptr(GPtrArray) list = vgpu_assignments_list(assignments);
    g_autofree char *body = NULL;

    g_key_file_set_string(file, HEADER, "boot-id", boot_id);
    g_key_file_set_string(file, HEADER, "bus-id", bus_id);
    for (guint i = 0; i < list->len; i++) {
        const VgpuAssignment *assignment = g_ptr_array_index(list, i);
        /* What is to be reclaimed is not ours before it was proved unused: a crash must not make it so. */
        if (!assignment->foreign || assignment->state != VGPU_STATE_ASSIGNING)
            put_assignment(file, assignment);
    }
    body = g_key_file_to_data(file, NULL, NULL);
    return vgpu_seal(KIND, VERSION, body);
}

static char *
get_string(GKeyFile *file, const char *group, const char *key)
{
    return g_key_file_get_string(file, group, key, NULL);
}

static VgpuDevice *
get_device(GKeyFile *file, const char *group)
{
    VgpuDevice *device = g_new0(VgpuDevice, 1);

    device->slot = get_string(file, group, "slot");
    device->uuid = get_string(file, group, "uuid");
    device->type_id = get_string(file, group, "type-id");
    device->name = get_string(file, group, "profile");
    device->framebuffer_mib = g_key_file_get_uint64(file, group, "framebuffer-mib", NULL);
    device->iommu_group = g_key_file_get_integer(file, group, "iommu-group", NULL);
    device->group_node = get_string(file, group, "group-node");
    device->device_node = get_string(file, group, "device-node");
    device->inode = g_key_file_get_uint64(file, group, "inode", NULL);
    device->node_inode = g_key_file_get_uint64(file, group, "node-inode", NULL);
    return device;
}

static VgpuAssignment *
get_assignment(GKeyFile *file, const char *group, GError **error)
{
    g_autoptr(VgpuAssignment) assignment = vgpu_assignment_new();
    g_autofree char *framework = get_string(file, group, "framework");
    g_autofree char *state = get_string(file, group, "state");
    g_autofree char *ending = get_string(file, group, "ending");

    assignment->id = g_strdup(group + strlen(GROUP_PREFIX));
    assignment->framework = vgpu_framework_by_name(framework);
    assignment->card = get_string(file, group, "card");
    assignment->device = get_device(file, group);
    assignment->owner = get_string(file, group, "owner");
    assignment->owner_gone = g_key_file_get_boolean(file, group, "owner-gone", NULL);
    assignment->uid = (guint32)g_key_file_get_uint64(file, group, "uid", NULL);
    assignment->pid = (guint32)g_key_file_get_uint64(file, group, "pid", NULL);
    assignment->label = get_string(file, group, "label");
    assignment->since = g_key_file_get_int64(file, group, "since", NULL);
    assignment->error = get_string(file, group, "error");
    assignment->may_repeat = g_key_file_get_boolean(file, group, "may-repeat", NULL);
    assignment->access = g_key_file_get_boolean(file, group, "access", NULL);
    assignment->told = g_key_file_get_boolean(file, group, "told", NULL);
    assignment->foreign = g_key_file_get_boolean(file, group, "foreign", NULL);
    if (!assignment->framework || !vgpu_state_from_name(state, &assignment->state) ||
        !vgpu_ending_from_name(ending, &assignment->ending) || !assignment->card ||
        !assignment->device->slot || !assignment->device->type_id || !assignment->owner || !*assignment->id) {
        g_set_error(error, G_IO_ERROR, G_IO_ERROR_INVALID_DATA, "the record of %s is not whole", group);
        return NULL;
    }
    return g_steal_pointer(&assignment);
}

gboolean
vgpu_store_parse(const char *text, gsize length, const char *boot_id, const char *bus_id,
                 VgpuAssignments *assignments, VgpuStoreAge *ret_age, GError **error)
{
    g_autoptr(GKeyFile) file = g_key_file_new();
    g_autoptr(GPtrArray) found = g_ptr_array_new_with_free_func((GDestroyNotify)vgpu_assignment_free);
    g_auto(GStrv) groups = NULL;
    g_autofree char *boot = NULL;
    g_autofree char *bus = NULL;
    gsize body_length;
    const char *body = vgpu_unseal(KIND, VERSION, text, length, &body_length, error);

    if (!body || !g_key_file_load_from_data(file, body, body_length, G_KEY_FILE_NONE, error))
        return FALSE;
    boot = get_string(file, HEADER, "boot-id");
    bus = get_string(file, HEADER, "bus-id");
    groups = g_key_file_get_groups(file, NULL);
    for (char **group = groups; *group; group++) {
        VgpuAssignment *assignment;

        if (!g_str_has_prefix(*group, GROUP_PREFIX))
            continue;
        assignment = get_assignment(file, *group, error);
        if (!assignment)
            return FALSE;
        g_ptr_array_add(found, assignment);
    }
    ret_age->same_boot = g_strcmp0(boot, boot_id) == 0;
    ret_age->same_bus = g_strcmp0(bus, bus_id) == 0;
    while (ret_age->same_boot && found->len > 0)
        vgpu_assignments_add(assignments, g_ptr_array_steal_index(found, 0));
    return TRUE;
}

/* Keeps what nobody could read for a person to look at. */
static void
set_aside(VgpuStore *store, GError **error)
{
    g_autofree char *aside =
        g_strdup_printf("%s.unreadable-%" G_GINT64_FORMAT, store->state_path, g_get_real_time());

    if (g_rename(store->state_path, aside) < 0)
        g_prefix_error(error, "%s (which could not be set aside: %s): ", store->state_path,
                       g_strerror(errno));
    else
        g_prefix_error(error, "%s was set aside as %s: ", store->state_path, aside);
}

static char *
mark_path(const VgpuStore *store, const char *id)
{
    return g_strconcat(store->directory, "/" MARK_PREFIX, id, NULL);
}

gboolean
vgpu_store_mark(VgpuStore *store, const char *id, GError **error)
{
    g_autofree char *path = mark_path(store, id);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    if (fd < 0) {
        g_set_error(error, G_IO_ERROR, G_IO_ERROR_FAILED, "%s: %s", path, g_strerror(errno));
        return FALSE;
    }
    close(fd);
    return TRUE;
}

void
vgpu_store_unmark(VgpuStore *store, const char *id)
{
    g_autofree char *path = mark_path(store, id);

    unlink(path);
}

gboolean
vgpu_store_is_marked(VgpuStore *store, const char *id)
{
    g_autofree char *path = mark_path(store, id);

    return access(path, F_OK) == 0;
}

static void
drop_stale_marks(VgpuStore *store, VgpuAssignments *assignments)
{
    g_autoptr(GDir) directory = g_dir_open(store->directory, 0, NULL);
    const char *name;

    while (directory && (name = g_dir_read_name(directory))) {
        const char *id = name + strlen(MARK_PREFIX);
        const VgpuAssignment *assignment;

        if (!g_str_has_prefix(name, MARK_PREFIX))
            continue;
        assignment = vgpu_assignments_get(assignments, id);
        if (!assignment || assignment->state != VGPU_STATE_RELEASING)
            vgpu_store_unmark(store, id);
    }
}

gboolean
vgpu_store_load(VgpuStore *store, const char *bus_id, VgpuAssignments *assignments, VgpuStoreAge *ret_age,
                GError **error)
{
    g_autoptr(GError) failed = NULL;
    g_autofree char *text = NULL;
    gsize length;

    *ret_age = (VgpuStoreAge){TRUE, TRUE};
    if (!g_file_get_contents(store->state_path, &text, &length, &failed)) {
        if (g_error_matches(failed, G_FILE_ERROR, G_FILE_ERROR_NOENT))
            return TRUE;
        g_propagate_error(error, g_steal_pointer(&failed));
    } else if (vgpu_store_parse(text, length, store->boot_id, bus_id, assignments, ret_age, error)) {
        drop_stale_marks(store, assignments);
        return TRUE;
    }
    set_aside(store, error);
    return FALSE;
}

gboolean
vgpu_store_save(VgpuStore *store, const char *bus_id, VgpuAssignments *assignments, GError **error)
{
    g_autofree char *text = vgpu_store_format(assignments, store->boot_id, bus_id);

    return g_file_set_contents_full(store->state_path, text, -1, G_FILE_SET_CONTENTS_CONSISTENT, 0600, error);
}
