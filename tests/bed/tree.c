/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "bed-private.h"

#include <string.h>
#include <sys/stat.h>

static Node *
node_new(Bed *bed, Node *parent, const char *name, NodeKind kind, mode_t mode)
{
    Node *node = g_new0(Node, 1);

    /* FUSE calls the root 1, and so does our first node. */
    node->id = node->ino = ++bed->last_id;
    node->kind = kind;
    node->mode = mode;
    node->name = g_strdup(name);
    node->parent = parent;
    if (kind == NODE_DIR)
        node->children = g_hash_table_new(g_str_hash, g_str_equal);
    g_hash_table_insert(bed->nodes, &node->id, node);

    if (parent) {
        g_assert(parent->kind == NODE_DIR);
        if (!g_hash_table_insert(parent->children, node->name, node))
            g_error("bed: %s is there twice in %s", name, parent->name);
    }
    return node;
}

void
node_free(Node *node)
{
    g_clear_pointer(&node->children, g_hash_table_unref);
    g_clear_pointer(&node->acl, g_bytes_unref);
    g_free(node->name);
    g_free(node->text);
    g_free(node->says);
    g_free(node);
}

Node *
node_child(Node *dir, const char *name)
{
    return dir->children ? g_hash_table_lookup(dir->children, name) : NULL;
}

Node *
node_dir(Bed *bed, Node *parent, const char *name)
{
    Node *there = parent ? node_child(parent, name) : NULL;

    return there ? there : node_new(bed, parent, name, NODE_DIR, S_IFDIR | 0755);
}

Node *
node_text(Bed *bed, Node *parent, const char *name, mode_t mode, const char *text)
{
    Node *node = node_new(bed, parent, name, NODE_FILE, S_IFREG | mode);

    node->text = g_strdup(text);
    return node;
}

Node *
node_attr(Bed *bed, Node *parent, const char *name, mode_t mode, Show show, Store store, gpointer owner)
{
    Node *node = node_new(bed, parent, name, NODE_FILE, S_IFREG | mode);

    node->show = show;
    node->store = store;
    node->owner = owner;
    return node;
}

Node *
node_device(Bed *bed, Node *parent, const char *name, NodeKind kind, mode_t mode, gpointer owner)
{
    /* A regular file: the preload shows what is below its /dev as a character device. */
    Node *node = node_new(bed, parent, name, kind, S_IFREG | mode);

    node->owner = owner;
    return node;
}

Node *
node_twin(Bed *bed, Node *parent, const char *name, Node *other)
{
    Node *node = node_device(bed, parent, name, other->kind, other->mode & 07777, other->owner);

    node->ino = other->ino;
    return node;
}

static guint
node_depth(Node *node)
{
    guint depth = 0;

    for (; node->parent; node = node->parent)
        depth++;
    return depth;
}

Node *
node_link(Bed *bed, Node *parent, const char *name, Node *target)
{
    g_autoptr(GString) path = g_string_new(NULL);
    g_autoptr(GPtrArray) down = g_ptr_array_new();
    Node *from = parent;
    Node *to = target;
    Node *node;

    while (node_depth(from) > node_depth(to)) {
        g_string_append(path, "../");
        from = from->parent;
    }
    while (node_depth(to) > node_depth(from)) {
        g_ptr_array_add(down, to);
        to = to->parent;
    }
    while (from != to) {
        g_string_append(path, "../");
        from = from->parent;
        g_ptr_array_add(down, to);
        to = to->parent;
    }
    for (guint i = down->len; i > 0; i--)
        g_string_append_printf(path, "%s%s", ((Node *)down->pdata[i - 1])->name, i > 1 ? "/" : "");

    node = node_new(bed, parent, name, NODE_LINK, S_IFLNK | 0777);
    node->text = g_strdup(path->str);
    return node;
}

static void
node_forget(Bed *bed, Node *node)
{
    GHashTableIter iter;
    gpointer child;

    node->gone = TRUE;
    if (node->children) {
        g_hash_table_iter_init(&iter, node->children);
        while (g_hash_table_iter_next(&iter, NULL, &child))
            node_forget(bed, child);
        g_hash_table_remove_all(node->children);
    }
}

void
node_remove(Bed *bed, Node *node)
{
    if (!node || node->gone)
        return;
    g_hash_table_remove(node->parent->children, node->name);
    node_forget(bed, node);
}

Node *
node_at(Bed *bed, const char *path, gboolean make)
{
    g_auto(GStrv) parts = g_strsplit(path, "/", -1);
    Node *node = bed->tree;

    for (guint i = 0; parts[i]; i++) {
        Node *child;

        if (!*parts[i])
            continue;
        child = node_child(node, parts[i]);
        if (!child && make)
            child = node_dir(bed, node, parts[i]);
        if (!child)
            return NULL;
        node = child;
    }
    return node;
}

char *
node_path(Node *node)
{
    g_autoptr(GString) path = g_string_new(NULL);

    for (; node->parent; node = node->parent) {
        g_string_prepend(path, node->name);
        g_string_prepend_c(path, '/');
    }
    return g_strdup(path->str);
}
