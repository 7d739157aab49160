/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "access.h"

#include "error.h"

#include <acl/libacl.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/acl.h>
#include <sys/stat.h>
#include <unistd.h>

typedef void VgpuAcl;
static void
acl_release(VgpuAcl *acl)
{
    acl_free(acl);
}
G_DEFINE_AUTOPTR_CLEANUP_FUNC(VgpuAcl, acl_release)

/* A path that means the opened node whatever happens to its name. */
typedef struct {
    int fd;
    char path[sizeof("/proc/self/fd/") + 10];
} Node;

static void
node_close(Node *node)
{
    if (node->fd >= 0)
        close(node->fd);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Node, node_close)

/* FALSE with errno 0: the node is gone, or is not the one that was recorded. */
static gboolean
node_open(Node *node, const VgpuDevice *device)
{
    struct stat st;

    node->fd = device->group_node ? open(device->group_node, O_PATH | O_NOFOLLOW | O_CLOEXEC) : -1;
    if (node->fd < 0 || fstat(node->fd, &st) < 0) {
        if (!device->group_node || errno == ENOENT)
            errno = 0;
        return FALSE;
    }
    if (device->node_inode == 0 || st.st_ino != device->node_inode) {
        errno = 0;
        return FALSE;
    }
    g_snprintf(node->path, sizeof(node->path), "/proc/self/fd/%d", node->fd);
    return TRUE;
}

static gboolean
fail(const VgpuDevice *device, const char *what, int err, GError **error)
{
    g_set_error(error, VGPU_ERROR, VGPU_ERROR_DEVICE_FAILED, "access to %s could not be %s: %s",
                device->group_node ? device->group_node : "its group node", what,
                err ? g_strerror(err) : "it is not the node that was recorded");
    return FALSE;
}

/* Whose entry it is; FALSE when it is not a named user's. */
static gboolean
named_user(acl_entry_t entry, uid_t *ret_uid)
{
    acl_tag_t tag;
    uid_t *uid;

    if (acl_get_tag_type(entry, &tag) < 0 || tag != ACL_USER)
        return FALSE;
    uid = acl_get_qualifier(entry);
    if (!uid)
        return FALSE;
    *ret_uid = *uid;
    acl_free(uid);
    return TRUE;
}

/* Removes the entries of named users: of @only, or of everybody for NULL. Returns how many went. */
static guint
remove_users(acl_t acl, const uid_t *only, const VgpuDevice *device)
{
    guint removed = 0;
    gboolean again;

    do {
        acl_entry_t entry;

        again = FALSE;
        for (int r = acl_get_entry(acl, ACL_FIRST_ENTRY, &entry); r == 1 && !again;
             r = acl_get_entry(acl, ACL_NEXT_ENTRY, &entry)) {
            uid_t uid;

            if (!named_user(entry, &uid) || (only && uid != *only))
                continue;
            if (!only)
                g_message("%s was open to user %u: removed", device->group_node, uid);
            if (acl_delete_entry(acl, entry) < 0)
                return removed;
            removed++;
            again = TRUE; /* the list has moved under the iteration */
        }
    } while (again);
    return removed;
}

/* What the mask kept from groups it must go on keeping when it opens for a user. */
static void
apply_mask_to_groups(acl_t acl)
{
    acl_entry_t entry;
    acl_permset_t mask = NULL;
    acl_tag_t tag;

    for (int r = acl_get_entry(acl, ACL_FIRST_ENTRY, &entry); r == 1;
         r = acl_get_entry(acl, ACL_NEXT_ENTRY, &entry)) {
        if (acl_get_tag_type(entry, &tag) == 0 && tag == ACL_MASK)
            acl_get_permset(entry, &mask);
    }
    for (int r = acl_get_entry(acl, ACL_FIRST_ENTRY, &entry); mask && r == 1;
         r = acl_get_entry(acl, ACL_NEXT_ENTRY, &entry)) {
        static const acl_perm_t all[] = {ACL_READ, ACL_WRITE, ACL_EXECUTE};
        acl_permset_t permissions;

        if (acl_get_tag_type(entry, &tag) < 0 || (tag != ACL_GROUP && tag != ACL_GROUP_OBJ) ||
            acl_get_permset(entry, &permissions) < 0)
            continue;
        for (gsize i = 0; i < G_N_ELEMENTS(all); i++) {
            if (acl_get_perm(mask, all[i]) != 1)
                acl_delete_perm(permissions, all[i]);
        }
    }
}

/* Without a named entry there is nothing for a mask to limit, and it would show as rights of the group. */
static void
drop_idle_mask(acl_t acl)
{
    acl_entry_t entry;
    acl_entry_t mask = NULL;
    acl_tag_t tag;

    for (int r = acl_get_entry(acl, ACL_FIRST_ENTRY, &entry); r == 1;
         r = acl_get_entry(acl, ACL_NEXT_ENTRY, &entry)) {
        if (acl_get_tag_type(entry, &tag) < 0 || tag == ACL_USER || tag == ACL_GROUP)
            return;
        if (tag == ACL_MASK)
            mask = entry;
    }
    if (mask) {
        apply_mask_to_groups(acl);
        acl_delete_entry(acl, mask);
    }
}

static gboolean
add_user(acl_t *acl, uid_t uid)
{
    acl_entry_t entry;
    acl_permset_t permissions;

    return acl_create_entry(acl, &entry) == 0 && acl_set_tag_type(entry, ACL_USER) == 0 &&
           acl_set_qualifier(entry, &uid) == 0 && acl_get_permset(entry, &permissions) == 0 &&
           acl_add_perm(permissions, ACL_READ) == 0 && acl_add_perm(permissions, ACL_WRITE) == 0;
}

gboolean
vgpu_access_grant(const VgpuDevice *device, guint32 uid, GError **error)
{
    g_auto(Node) node = {.fd = -1};
    g_autoptr(VgpuAcl) cleanup = NULL;
    uid_t user = uid;
    acl_t acl;

    if (!node_open(&node, device))
        return fail(device, "given", errno, error);
    acl = acl_get_file(node.path, ACL_TYPE_ACCESS);
    if (!acl)
        return fail(device, "given", errno, error);
    remove_users(acl, &user, device);
    remove_users(acl, NULL, device);
    apply_mask_to_groups(acl);
    if (!add_user(&acl, user) || acl_calc_mask(&acl) < 0 ||
        acl_set_file(node.path, ACL_TYPE_ACCESS, acl) < 0) {
        int err = errno;
        acl_free(acl);
        return fail(device, "given", err, error);
    }
    cleanup = acl;
    return TRUE;
}

/* Takes off @only's entry, or with NULL everybody's. */
static gboolean
withdraw(const VgpuDevice *device, const uid_t *only, GError **error)
{
    g_auto(Node) node = {.fd = -1};
    g_autoptr(VgpuAcl) cleanup = NULL;
    acl_t acl;

    if (!node_open(&node, device))
        return errno == 0 || fail(device, "withdrawn", errno, error);
    cleanup = acl = acl_get_file(node.path, ACL_TYPE_ACCESS);
    if (!acl)
        return fail(device, "withdrawn", errno, error);
    if (remove_users(acl, only, device) == 0)
        return TRUE;
    drop_idle_mask(acl);
    return acl_set_file(node.path, ACL_TYPE_ACCESS, acl) == 0 || fail(device, "withdrawn", errno, error);
}

gboolean
vgpu_access_withdraw(const VgpuDevice *device, guint32 uid, GError **error)
{
    uid_t user = uid;

    return withdraw(device, &user, error);
}

gboolean
vgpu_access_close(const VgpuDevice *device, GError **error)
{
    return withdraw(device, NULL, error);
}

gboolean
vgpu_access_stands(const VgpuDevice *device, guint32 uid)
{
    g_auto(Node) node = {.fd = -1};
    g_autoptr(VgpuAcl) cleanup = NULL;
    gboolean entry_stands = FALSE;
    gboolean mask_stands = FALSE;
    acl_entry_t entry;
    acl_t acl;

    if (!node_open(&node, device))
        return FALSE;
    cleanup = acl = acl_get_file(node.path, ACL_TYPE_ACCESS);
    for (int r = acl ? acl_get_entry(acl, ACL_FIRST_ENTRY, &entry) : 0; r == 1;
         r = acl_get_entry(acl, ACL_NEXT_ENTRY, &entry)) {
        acl_permset_t permissions;
        acl_tag_t tag;
        gboolean both;
        uid_t user;

        if (acl_get_permset(entry, &permissions) < 0 || acl_get_tag_type(entry, &tag) < 0)
            continue;
        both = acl_get_perm(permissions, ACL_READ) == 1 && acl_get_perm(permissions, ACL_WRITE) == 1;
        mask_stands |= tag == ACL_MASK && both;
        entry_stands |= named_user(entry, &user) && user == uid && both;
    }
    return entry_stands && mask_stands;
}
