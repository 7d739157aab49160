/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "bed-private.h"

#include <sys/stat.h>

/* A mode and an ACL are one thing, and must say the same. */

#define ACL_USER_OBJ 0x01
#define ACL_GROUP_OBJ 0x04
#define ACL_MASK 0x10
#define ACL_OTHER 0x20

typedef struct {
    uint16_t tag;
    uint16_t permissions;
    uint32_t id;
} AclEntry;

/* The entry of @tag in an ACL as the kernel passes it (a version, then entries, little endian); NULL: none.
 */
static AclEntry *
acl_entry(uint8_t *data, gsize size, uint16_t tag)
{
    for (gsize at = 4; at + sizeof(AclEntry) <= size; at += sizeof(AclEntry)) {
        AclEntry *entry = (AclEntry *)(void *)(data + at);

        if (GUINT16_FROM_LE(entry->tag) == tag)
            return entry;
    }
    return NULL;
}

static unsigned
acl_permissions(uint8_t *data, gsize size, uint16_t tag)
{
    AclEntry *entry = acl_entry(data, size, tag);

    return entry ? GUINT16_FROM_LE(entry->permissions) & 7 : 0;
}

void
node_set_acl(Node *node, const char *value, gsize size)
{
    g_autofree uint8_t *data = g_memdup2(value, size);
    uint16_t group = acl_entry(data, size, ACL_MASK) ? ACL_MASK : ACL_GROUP_OBJ;

    node->mode = (node->mode & ~0777u) | acl_permissions(data, size, ACL_USER_OBJ) << 6 |
                 acl_permissions(data, size, group) << 3 | acl_permissions(data, size, ACL_OTHER);
    g_clear_pointer(&node->acl, g_bytes_unref);
    /* Three entries are the mode, and no ACL. */
    if (size > 4 + 3 * sizeof(AclEntry))
        node->acl = g_bytes_new(data, size);
}

void
node_chmod(Node *node, mode_t mode)
{
    gsize size;
    uint8_t *data;
    const struct {
        uint16_t tag;
        unsigned shift;
    } parts[] = {{ACL_USER_OBJ, 6}, {ACL_MASK, 3}, {ACL_OTHER, 0}};

    node->mode = (node->mode & (mode_t)S_IFMT) | (mode & 07777);
    if (!node->acl)
        return;
    data = g_bytes_unref_to_data(g_steal_pointer(&node->acl), &size);
    for (guint i = 0; i < G_N_ELEMENTS(parts); i++) {
        AclEntry *entry = acl_entry(data, size, parts[i].tag);

        if (entry)
            entry->permissions = GUINT16_TO_LE(mode >> parts[i].shift & 7);
    }
    node->acl = g_bytes_new_take(data, size);
}
