/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "bed-private.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

/* The FUSE side: requests in, answers from the tree out. Nothing is cached by the kernel, so nothing is
 * stale. */

#ifndef FOPEN_NOFLUSH
#define FOPEN_NOFLUSH (1 << 5)
#endif
#ifndef FOPEN_PARALLEL_DIRECT_WRITES
#define FOPEN_PARALLEL_DIRECT_WRITES (1 << 6)
#endif

#define ATTRIBUTE_SIZE 4096
#define ACL_NAME "system.posix_acl_access"

static Bed *
bed_of(fuse_req_t req)
{
    Bed *bed = fuse_req_userdata(req);

    g_mutex_lock(&bed->lock);
    return bed;
}

static Node *
node_by_id(Bed *bed, fuse_ino_t id)
{
    uint64_t key = id;

    return g_hash_table_lookup(bed->nodes, &key);
}

static void
node_stat(Node *node, struct stat *st)
{
    memset(st, 0, sizeof *st);
    st->st_ino = node->ino;
    st->st_mode = node->mode;
    st->st_nlink = node->gone ? 0 : node->kind == NODE_DIR ? 2 : 1;
    st->st_uid = node->uid;
    st->st_gid = node->gid;
    if (node->kind == NODE_FILE)
        st->st_size = ATTRIBUTE_SIZE;
    else if (node->kind == NODE_LINK)
        st->st_size = (off_t)strlen(node->text);
}

static void
do_init(void *data, struct fuse_conn_info *conn)
{
    conn->want |= FUSE_CAP_POSIX_ACL;
    /* Otherwise the kernel asks for security.capability before each write. */
    conn->want |= conn->capable & FUSE_CAP_HANDLE_KILLPRIV;
}

static void
do_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    Bed *bed = bed_of(req);
    Node *dir = node_by_id(bed, parent);
    Node *node = node_child(dir, name);

    if (node) {
        struct fuse_entry_param entry = {.ino = node->id};

        node_stat(node, &entry.attr);
        fuse_reply_entry(req, &entry);
    } else {
        fuse_reply_err(req, ENOENT);
    }
    g_mutex_unlock(&bed->lock);
}

/* Nodes stay until the bed goes, so that ids are never reused. */
static void
do_forget(fuse_req_t req, fuse_ino_t id, uint64_t count)
{
    fuse_reply_none(req);
}

static void
do_getattr(fuse_req_t req, fuse_ino_t id, struct fuse_file_info *file)
{
    Bed *bed = bed_of(req);
    struct stat st;

    node_stat(node_by_id(bed, id), &st);
    fuse_reply_attr(req, &st, 0);
    g_mutex_unlock(&bed->lock);
}

static void
do_setattr(fuse_req_t req, fuse_ino_t id, struct stat *attr, int to_set, struct fuse_file_info *file)
{
    Bed *bed = bed_of(req);
    Node *node = node_by_id(bed, id);
    struct stat st;

    /* Truncation and times are accepted and mean nothing, as in sysfs. */
    if (to_set & FUSE_SET_ATTR_MODE)
        node_chmod(node, attr->st_mode);
    if (to_set & FUSE_SET_ATTR_UID)
        node->uid = attr->st_uid;
    if (to_set & FUSE_SET_ATTR_GID)
        node->gid = attr->st_gid;
    node_stat(node, &st);
    fuse_reply_attr(req, &st, 0);
    g_mutex_unlock(&bed->lock);
}

static void
do_setxattr(fuse_req_t req, fuse_ino_t id, const char *name, const char *value, size_t size, int flags)
{
    Bed *bed = bed_of(req);

    if (strcmp(name, ACL_NAME) == 0 && size >= 4) {
        node_set_acl(node_by_id(bed, id), value, size);
        fuse_reply_err(req, 0);
    } else {
        fuse_reply_err(req, EOPNOTSUPP);
    }
    g_mutex_unlock(&bed->lock);
}

static void
reply_bytes(fuse_req_t req, const void *data, gsize length, size_t size)
{
    if (size == 0)
        fuse_reply_xattr(req, length);
    else if (size < length)
        fuse_reply_err(req, ERANGE);
    else
        fuse_reply_buf(req, data, length);
}

static void
do_getxattr(fuse_req_t req, fuse_ino_t id, const char *name, size_t size)
{
    Bed *bed = bed_of(req);
    Node *node = node_by_id(bed, id);

    if (strcmp(name, ACL_NAME) == 0 && node->acl) {
        gsize length;
        const void *data = g_bytes_get_data(node->acl, &length);

        reply_bytes(req, data, length, size);
    } else {
        fuse_reply_err(req, ENODATA);
    }
    g_mutex_unlock(&bed->lock);
}

static void
do_listxattr(fuse_req_t req, fuse_ino_t id, size_t size)
{
    Bed *bed = bed_of(req);

    reply_bytes(req, ACL_NAME, node_by_id(bed, id)->acl ? sizeof ACL_NAME : 0, size);
    g_mutex_unlock(&bed->lock);
}

static void
do_removexattr(fuse_req_t req, fuse_ino_t id, const char *name)
{
    Bed *bed = bed_of(req);
    Node *node = node_by_id(bed, id);
    gboolean there = strcmp(name, ACL_NAME) == 0 && node->acl;

    if (there)
        g_clear_pointer(&node->acl, g_bytes_unref);
    fuse_reply_err(req, there ? 0 : ENODATA);
    g_mutex_unlock(&bed->lock);
}

static void
do_readlink(fuse_req_t req, fuse_ino_t id)
{
    Bed *bed = bed_of(req);

    fuse_reply_readlink(req, node_by_id(bed, id)->text);
    g_mutex_unlock(&bed->lock);
}

/* ---- Files ---- */

/* sysfs refuses an open that the mode does not allow even to root. */
static int
attribute_open(Node *node, int flags)
{
    int access = flags & O_ACCMODE;

    if (node->gone)
        return -ENODEV;
    if (access != O_RDONLY && !(node->mode & 0222))
        return -EACCES;
    if (access != O_WRONLY && !(node->mode & 0444))
        return -EACCES;
    return 0;
}

void
opening_free(gpointer data)
{
    Opening *opening = data;

    if (opening->text)
        g_string_free(opening->text, TRUE);
    g_free(opening->path);
    g_free(opening);
}

static void
do_open(fuse_req_t req, fuse_ino_t id, struct fuse_file_info *file)
{
    Bed *bed = bed_of(req);
    Node *node = node_by_id(bed, id);
    Opening *opening = g_new0(Opening, 1);
    int r = 0;

    opening->node = node;
    opening->tid = fuse_req_ctx(req)->pid;
    switch (node->kind) {
    case NODE_GROUP:
        r = group_open(bed, node, opening);
        break;
    case NODE_CDEV:
        r = cdev_open(bed, node, opening);
        break;
    case NODE_CONTAINER:
        break;
    default:
        r = attribute_open(node, file->flags);
    }

    if (r < 0) {
        opening_free(opening);
        fuse_reply_err(req, -r);
    } else {
        struct fuse_open_out out = {
            .fh = (uintptr_t)opening,
            .open_flags = FOPEN_DIRECT_IO | FOPEN_NOFLUSH | FOPEN_PARALLEL_DIRECT_WRITES,
        };

        g_hash_table_add(bed->openings, opening);
        /* Not fuse_reply_open(), which does not know of parallel writes: without them a second writer of a
         * file would wait in the kernel for the first one, as in sysfs it does not. A reader that was
         * interrupted meanwhile never sends a release. */
        if (fuse_reply_buf(req, (const char *)&out, sizeof out) == -ENOENT) {
            opening_release(bed, opening);
            g_hash_table_remove(bed->openings, opening);
        }
    }
    g_mutex_unlock(&bed->lock);
}

static void
do_release(fuse_req_t req, fuse_ino_t id, struct fuse_file_info *file)
{
    Bed *bed = bed_of(req);
    Opening *opening = (Opening *)(uintptr_t)file->fh;

    opening_release(bed, opening);
    g_hash_table_remove(bed->openings, opening);
    g_cond_broadcast(&bed->changed);
    fuse_reply_err(req, 0);
    g_mutex_unlock(&bed->lock);
}

/* The kernel forbids reading a VF's attributes while a write to them is under way: the writer may just be
 * freeing what the reader reads. */
static void
watch_reader(Bed *bed, Node *node, pid_t tid)
{
    Device *device = node->owner;
    pid_t pid;

    if (!node->show || !node->parent || !device || device->kind != DEVICE_VF ||
        node->parent != device->nvidia || device->writes == 0)
        return;
    pid = process_of_thread(tid);
    if (pid != getpid())
        g_ptr_array_add(bed->violations,
                        g_strdup_printf("%s/%s was read by process %d while a write was under way",
                                        device->name, node->name, (int)pid));
}

static int
attribute_read(Bed *bed, Node *node, GString *text)
{
    if (node->gone)
        return -ENODEV;
    if (node->fails)
        return -node->fails;
    if (node->says)
        g_string_append(text, node->says);
    else if (node->show)
        return node->show(bed, node, text);
    else if (node->text)
        g_string_append(text, node->text);
    return 0;
}

static void
do_read(fuse_req_t req, fuse_ino_t id, size_t size, off_t offset, struct fuse_file_info *file)
{
    Bed *bed = bed_of(req);
    Opening *opening = (Opening *)(uintptr_t)file->fh;
    Node *node = opening->node;
    int r = 0;

    if (node->kind != NODE_FILE) {
        r = -EINVAL;
    } else if (offset == 0 || !opening->text) {
        if (opening->text)
            g_string_free(opening->text, TRUE);
        opening->text = g_string_new(NULL);
        watch_reader(bed, node, fuse_req_ctx(req)->pid);
        r = attribute_read(bed, node, opening->text);
    }

    if (r < 0) {
        fuse_reply_err(req, -r);
    } else if ((gsize)offset >= opening->text->len) {
        fuse_reply_buf(req, NULL, 0);
    } else {
        gsize rest = opening->text->len - (gsize)offset;

        fuse_reply_buf(req, opening->text->str + offset, MIN(size, rest));
    }
    g_mutex_unlock(&bed->lock);
}

static void
do_write(fuse_req_t req, fuse_ino_t id, const char *data, size_t size, off_t offset,
         struct fuse_file_info *file)
{
    Bed *bed = bed_of(req);

    write_begin(bed, req, (Opening *)(uintptr_t)file->fh, data, size);
    g_mutex_unlock(&bed->lock);
}

static void
do_ioctl(fuse_req_t req, fuse_ino_t id, unsigned int command, void *argument, struct fuse_file_info *file,
         unsigned flags, const void *in, size_t in_size, size_t out_size)
{
    Bed *bed = bed_of(req);
    int r = opening_ioctl(bed, (Opening *)(uintptr_t)file->fh, command);

    if (r < 0)
        fuse_reply_err(req, -r);
    else
        fuse_reply_ioctl(req, r, NULL, 0);
    g_mutex_unlock(&bed->lock);
}

/* ---- Directories ---- */

/* A listing is made when it is opened, so that one that is being read does not jump. */
static void
do_opendir(fuse_req_t req, fuse_ino_t id, struct fuse_file_info *file)
{
    Bed *bed = bed_of(req);
    Node *dir = node_by_id(bed, id);
    GPtrArray *names = g_ptr_array_new_with_free_func(g_free);
    GHashTableIter iter;
    gpointer node;

    g_ptr_array_add(names, g_strdup("."));
    g_ptr_array_add(names, g_strdup(".."));
    g_hash_table_iter_init(&iter, dir->children);
    while (g_hash_table_iter_next(&iter, NULL, &node))
        g_ptr_array_add(names, g_strdup(((Node *)node)->name));

    file->fh = (uintptr_t)names;
    if (fuse_reply_open(req, file) == -ENOENT)
        g_ptr_array_unref(names);
    g_mutex_unlock(&bed->lock);
}

static void
do_readdir(fuse_req_t req, fuse_ino_t id, size_t size, off_t offset, struct fuse_file_info *file)
{
    Bed *bed = bed_of(req);
    Node *dir = node_by_id(bed, id);
    GPtrArray *names = (GPtrArray *)(uintptr_t)file->fh;
    g_autofree char *buffer = g_malloc(size);
    size_t used = 0;

    for (guint i = (guint)offset; i < names->len; i++) {
        const char *name = names->pdata[i];
        Node *node = i == 0 ? dir : i == 1 ? (dir->parent ? dir->parent : dir) : node_child(dir, name);
        struct stat st = {0};
        size_t n;

        if (!node)
            continue;
        node_stat(node, &st);
        n = fuse_add_direntry(req, buffer + used, size - used, name, &st, i + 1);
        if (n > size - used)
            break;
        used += n;
    }
    fuse_reply_buf(req, buffer, used);
    g_mutex_unlock(&bed->lock);
}

static void
do_releasedir(fuse_req_t req, fuse_ino_t id, struct fuse_file_info *file)
{
    g_ptr_array_unref((GPtrArray *)(uintptr_t)file->fh);
    fuse_reply_err(req, 0);
}

/* ---- What sysfs does not allow ---- */

static void
refuse_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, struct fuse_file_info *file)
{
    fuse_reply_err(req, EACCES);
}

static void
refuse_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
    fuse_reply_err(req, EPERM);
}

static void
refuse_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t device)
{
    fuse_reply_err(req, EPERM);
}

static void
refuse_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    fuse_reply_err(req, EPERM);
}

static void
refuse_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t to, const char *new_name,
              unsigned flags)
{
    fuse_reply_err(req, EPERM);
}

static void
refuse_link(fuse_req_t req, fuse_ino_t id, fuse_ino_t parent, const char *name)
{
    fuse_reply_err(req, EPERM);
}

static void
refuse_symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name)
{
    fuse_reply_err(req, EPERM);
}

static const struct fuse_lowlevel_ops operations = {
    .init = do_init,
    .lookup = do_lookup,
    .forget = do_forget,
    .getattr = do_getattr,
    .setattr = do_setattr,
    .setxattr = do_setxattr,
    .getxattr = do_getxattr,
    .listxattr = do_listxattr,
    .removexattr = do_removexattr,
    .readlink = do_readlink,
    .open = do_open,
    .release = do_release,
    .read = do_read,
    .write = do_write,
    .ioctl = do_ioctl,
    .opendir = do_opendir,
    .readdir = do_readdir,
    .releasedir = do_releasedir,
    .create = refuse_create,
    .mkdir = refuse_mkdir,
    .mknod = refuse_mknod,
    .unlink = refuse_unlink,
    .rmdir = refuse_unlink,
    .rename = refuse_rename,
    .link = refuse_link,
    .symlink = refuse_symlink,
};

/* A child that was forked and not executed must not keep /dev/fuse open: when the test dies, its descriptor
 * has to be the last one, or a writer that is stalled stays in the kernel for ever. */
static GMutex sessions_lock;
static int session_fds[64];
static guint n_session_fds;

static void
before_fork(void)
{
    g_mutex_lock(&sessions_lock);
}

static void
after_fork(void)
{
    g_mutex_unlock(&sessions_lock);
}

static void
after_fork_in_child(void)
{
    for (guint i = 0; i < n_session_fds; i++)
        close(session_fds[i]);
    n_session_fds = 0;
    g_mutex_unlock(&sessions_lock);
}

static void
session_fd_add(int fd)
{
    static gsize once;

    if (g_once_init_enter(&once)) {
        pthread_atfork(before_fork, after_fork, after_fork_in_child);
        g_once_init_leave(&once, 1);
    }
    g_mutex_lock(&sessions_lock);
    g_assert_cmpuint(n_session_fds, <, G_N_ELEMENTS(session_fds));
    session_fds[n_session_fds++] = fd;
    g_mutex_unlock(&sessions_lock);
}

static void
session_fd_remove(int fd)
{
    g_mutex_lock(&sessions_lock);
    for (guint i = 0; i < n_session_fds; i++)
        if (session_fds[i] == fd)
            session_fds[i] = session_fds[--n_session_fds];
    g_mutex_unlock(&sessions_lock);
}

static gpointer
driver_run(gpointer data)
{
    Bed *bed = data;
    struct fuse_buf buffer = {0};
    struct pollfd fds[] = {
        {.fd = fuse_session_fd(bed->session), .events = POLLIN},
        {.fd = bed->stop_fd, .events = POLLIN},
    };

    while (!fuse_session_exited(bed->session)) {
        int n;

        if (poll(fds, G_N_ELEMENTS(fds), -1) < 0)
            continue;
        if (fds[1].revents)
            break;
        /* The request may have been interrupted since: the descriptor does not block. */
        n = fuse_session_receive_buf(bed->session, &buffer);
        if (n == -EINTR || n == -EAGAIN)
            continue;
        if (n <= 0)
            break;
        fuse_session_process_buf(bed->session, &buffer);
    }
    free(buffer.mem);
    return NULL;
}

void
driver_start(Bed *bed)
{
    char *argv[] = {(char *)"bed", NULL};
    struct fuse_args args = FUSE_ARGS_INIT(1, argv);
    g_autofree char *options = NULL;
    g_autofree char *place = NULL;
    int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC | O_NONBLOCK);

    if (fd < 0)
        g_error("bed: /dev/fuse cannot be opened: %s", g_strerror(errno));
    options =
        g_strdup_printf("fd=%d,rootmode=40000,user_id=0,group_id=0,default_permissions,allow_other", fd);
    session_fd_add(fd);
    if (mount("simulated-host", bed->mount, "fuse.simulated-host", MS_NOSUID | MS_NODEV, options) < 0)
        g_error("bed: the driver cannot be mounted on %s: %s", bed->mount, g_strerror(errno));

    bed->session = fuse_session_new(&args, &operations, sizeof operations, bed);
    place = g_strdup_printf("/dev/fd/%d", fd);
    if (!bed->session || fuse_session_mount(bed->session, place) < 0)
        g_error("bed: the driver cannot be started");
    bed->stop_fd = eventfd(0, EFD_CLOEXEC);
    bed->driver = g_thread_new("bed-driver", driver_run, bed);
    fuse_opt_free_args(&args);
}

void
driver_stop(Bed *bed)
{
    uint64_t one = 1;

    g_assert_cmpint(write(bed->stop_fd, &one, sizeof one), ==, sizeof one);
    g_thread_join(bed->driver);
    session_fd_remove(fuse_session_fd(bed->session));
    /* Whoever still waits for an answer gets ENOTCONN when the descriptor is closed. */
    fuse_session_destroy(bed->session);
    close(bed->stop_fd);
}
