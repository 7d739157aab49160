/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "usage.h"

#include "error.h"
#include "loop.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

struct _VgpuWatch {
    sd_event *event;
    sd_event_source *node;
    GPtrArray *holders; /* of sd_event_source */
    VgpuWatchFunc func;
    gpointer user_data;
};

/* What a file is, from what the kernel knows already: a server of a file system that somebody mounted is
 * never asked, as it may not answer. */
static gboolean
look_at(int dir, const char *name, struct statx *ret_file)
{
    return statx(dir, name, AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, STATX_BASIC_STATS, ret_file) == 0;
}

/* Device number when it is one, so that another node of the same number is found; else the file itself. */
static gboolean
same_node(const struct statx *a, const struct statx *b)
{
    if (S_ISCHR(a->stx_mode) && S_ISCHR(b->stx_mode))
        return a->stx_rdev_major == b->stx_rdev_major && a->stx_rdev_minor == b->stx_rdev_minor;
    return a->stx_dev_major == b->stx_dev_major && a->stx_dev_minor == b->stx_dev_minor &&
           a->stx_ino == b->stx_ino;
}

/* Not even root may look at the files of a user's own mount (FUSE), but no user can make a device there: the
 * kernel allows none on a mount that is not root's, whether its flags say so or, in a user namespace, do not.
 */
static gboolean
cannot_be_a_node(int dir, const char *name)
{
    int fd = openat(dir, name, O_PATH | O_CLOEXEC);
    struct statfs fs;
    gboolean proved =
        fd >= 0 && fstatfs(fd, &fs) == 0 && ((fs.f_flags & ST_NODEV) != 0 || fs.f_type == FUSE_SUPER_MAGIC);

    if (fd >= 0)
        close(fd);
    return proved;
}

/* TRUE when a descriptor in @fds is one of @nodes. What cannot be looked at could be one: *@unreadable. */
static gboolean
holds(int fds, const struct statx *nodes, guint n_nodes, gboolean *unreadable)
{
    DIR *stream = fdopendir(fds);
    gboolean found = FALSE;

    if (!stream) {
        *unreadable = TRUE;
        close(fds);
        return FALSE;
    }
    for (struct dirent *entry = readdir(stream); entry && !found; entry = readdir(stream)) {
        struct statx file;

        if (entry->d_name[0] == '.')
            continue;
        if (!look_at(dirfd(stream), entry->d_name, &file)) {
            *unreadable |=
                errno != ENOENT && errno != ESRCH && !cannot_be_a_node(dirfd(stream), entry->d_name);
            continue;
        }
        for (guint i = 0; i < n_nodes && !found; i++)
            found = same_node(&file, &nodes[i]);
    }
    closedir(stream);
    return found;
}

static char *
describe_process(const VgpuDir *process, const char *pid)
{
    g_autofree char *comm = vgpu_dir_read(process, "comm", NULL, NULL);
    g_autofree char *printable = NULL;

    if (comm)
        comm[strcspn(comm, "\n")] = '\0';
    printable = vgpu_text_printable(comm);
    return g_strdup_printf("%s %s", pid, *printable ? printable : "?");
}

static void
look_at_process(const VgpuDir *proc, const char *pid, const struct statx *nodes, guint n_nodes,
                GPtrArray *holders, guint *unreadable)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(VgpuDir) process = vgpu_dir_open_at(proc, pid, &error);
    int fds = process ? openat(process->fd, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    int err = fds >= 0 ? 0 : process ? errno : error->code;
    gboolean partly = FALSE;

    if (fds < 0) {
        *unreadable += err != ENOENT && err != ESRCH;
        return;
    }
    if (holds(fds, nodes, n_nodes, &partly))
        g_ptr_array_add(holders, describe_process(process, pid));
    else
        *unreadable += partly;
}

char **
vgpu_usage_holders(const char *const *nodes, guint *ret_unreadable)
{
    g_autoptr(GPtrArray) holders = g_ptr_array_new_with_free_func(g_free);
    g_autoptr(VgpuDir) proc = vgpu_dir_open("/proc", NULL);
    g_auto(GStrv) names = proc ? vgpu_dir_list(proc, ".", NULL) : NULL;
    struct statx files[4];
    guint n_nodes = 0;
    guint unreadable = names ? 0 : 1;
    pid_t self = getpid();

    for (; *nodes && n_nodes < G_N_ELEMENTS(files); nodes++) {
        if (look_at(AT_FDCWD, *nodes, &files[n_nodes]))
            n_nodes++;
    }
    if (n_nodes == 0)
        unreadable++;
    for (char **name = names; n_nodes > 0 && name && *name && holders->len < VGPU_HOLDERS_MAX; name++) {
        if (g_ascii_isdigit(**name) && atoi(*name) != self)
            look_at_process(proc, *name, files, n_nodes, holders, &unreadable);
    }
    if (ret_unreadable)
        *ret_unreadable = unreadable;
    g_ptr_array_add(holders, NULL);
    return (char **)g_ptr_array_free(g_steal_pointer(&holders), FALSE);
}

/* Takes @holders. */
static gboolean
refuse_in_use(const char *name, char **holders, char ***ret_holders, GError **error)
{
    g_autofree char *who = holders[0] ? g_strjoinv(", ", holders) : NULL;

    if (who)
        g_set_error(error, VGPU_ERROR, VGPU_ERROR_IN_USE, "%s is open in process %s: stop it first", name,
                    who);
    else
        g_set_error(error, VGPU_ERROR, VGPU_ERROR_IN_USE,
                    "%s is open in a process that could not be found: stop its virtual machine first", name);
    if (ret_holders)
        *ret_holders = g_steal_pointer(&holders);
    g_strfreev(holders);
    return FALSE;
}

/* Only a scan can tell whether a cdev is open; what it cannot read could be a holder. */
static gboolean
cdev_is_unused(const char *name, const char *device_node, char ***ret_holders, GError **error)
{
    const char *const nodes[] = {device_node, NULL};
    guint unreadable = 0;
    g_auto(GStrv) holders = vgpu_usage_holders(nodes, &unreadable);

    if (holders[0])
        return refuse_in_use(name, g_steal_pointer(&holders), ret_holders, error);
    if (unreadable > 0) {
        g_set_error(
            error, VGPU_ERROR, VGPU_ERROR_USAGE_UNKNOWN,
            "%s cannot be proved unused: the open files of a process (%u in all) or %s itself cannot be "
            "looked at: does the service have CAP_SYS_PTRACE?",
            name, unreadable, device_node);
        return FALSE;
    }
    return TRUE;
}

/* Why the kernel's group could not be asked. */
static gboolean
refuse_unknown(const char *name, const char *node, int err, GError **error)
{
    const char *hint = err == EPERM ? " (does the unit have DeviceAllow=char-vfio rw?)" : "";

    g_set_error(error, VGPU_ERROR, VGPU_ERROR_USAGE_UNKNOWN,
                "%s cannot be proved unused: opening %s failed: %s%s", name, node, g_strerror(err), hint);
    return FALSE;
}

/* Opens the node and says in @take what was opened; FALSE when that is no proof. */
static gboolean
open_group(VgpuTake *take, const char *name, const char *node, const char *device_node, char ***ret_holders,
           GError **error)
{
    struct stat st;

    take->fd = open(node, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (take->fd < 0 && errno == EBUSY) {
        const char *const nodes[] = {node, device_node, NULL};
        return refuse_in_use(name, vgpu_usage_holders(nodes, NULL), ret_holders, error);
    }
    if (take->fd < 0 || fstat(take->fd, &st) < 0)
        return refuse_unknown(name, node, errno, error);
    take->node_inode = st.st_ino;
    return TRUE;
}

/* The group's node; NULL where the kernel has no such group. That it has one is the kernel's to say: a node
 * that is merely missing proves nothing. */
static char *
group_node(int iommu_group)
{
    static const char *const kinds[] = {"", "noiommu-"};

    for (gsize i = 0; iommu_group >= 0 && i < G_N_ELEMENTS(kinds); i++) {
        g_autofree char *kernel = g_strdup_printf("/sys/class/vfio/%s%d", kinds[i], iommu_group);

        if (access(kernel, F_OK) == 0 || errno != ENOENT)
            return g_strdup_printf("/dev/vfio/%s%d", kinds[i], iommu_group);
    }
    return NULL;
}

VgpuTake *
vgpu_usage_take(const char *name, int iommu_group, const char *device_node, gboolean scan_cdev,
                char ***ret_holders, GError **error)
{
    g_autoptr(VgpuTake) take = g_new0(VgpuTake, 1);
    g_autofree char *node = group_node(iommu_group);

    take->fd = -1;
    if (!node && !device_node) {
        g_set_error(
            error, VGPU_ERROR, VGPU_ERROR_USAGE_UNKNOWN,
            "%s cannot be proved unused: the kernel shows neither a VFIO group nor a device node for it",
            name);
        return NULL;
    }
    /* Before the group is opened: a refusal then leaves no open and close of ours that a watch would hear. */
    if (device_node && (scan_cdev || !node) && !cdev_is_unused(name, device_node, ret_holders, error))
        return NULL;
    if (node && !open_group(take, name, node, device_node, ret_holders, error))
        return NULL;
    return g_steal_pointer(&take);
}

void
vgpu_take_free(VgpuTake *take)
{
    if (take->fd >= 0)
        close(take->fd);
    g_free(take);
}

static int
on_node_event(sd_event_source *source, const struct inotify_event *event, void *user_data)
{
    VgpuWatch *watch = user_data;

    if (event->mask & (IN_CLOSE | IN_IGNORED | IN_UNMOUNT | IN_DELETE_SELF))
        watch->func(VGPU_WATCH_CLOSED, watch->user_data);
    else if (event->mask & IN_OPEN)
        watch->func(VGPU_WATCH_OPENED, watch->user_data);
    return 0;
}

static void
source_free(gpointer source)
{
    sd_event_source_disable_unref(source);
}

VgpuWatch *
vgpu_watch_new(sd_event *event, const char *node, VgpuWatchFunc func, gpointer user_data)
{
    g_autoptr(VgpuWatch) watch = g_new0(VgpuWatch, 1);
    int r;

    watch->event = sd_event_ref(event);
    watch->holders = g_ptr_array_new_with_free_func(source_free);
    watch->func = func;
    watch->user_data = user_data;
    r = sd_event_add_inotify(event, &watch->node, node, IN_OPEN | IN_CLOSE, on_node_event, watch);
    if (r < 0) {
        g_warning("%s cannot be watched: %s", node, g_strerror(-r));
        return NULL;
    }
    return g_steal_pointer(&watch);
}

static int
on_holder_ended(sd_event_source *source, int fd, uint32_t revents, void *user_data)
{
    VgpuWatch *watch = user_data;

    sd_event_source_set_enabled(source, SD_EVENT_OFF);
    watch->func(VGPU_WATCH_HOLDER_ENDED, watch->user_data);
    return 0;
}

void
vgpu_watch_set_holders(VgpuWatch *watch, const char *const *holders)
{
    g_ptr_array_set_size(watch->holders, 0);
    for (; holders && *holders; holders++) {
        int fd = (int)syscall(SYS_pidfd_open, atoi(*holders), 0);
        sd_event_source *source = NULL;

        if (fd < 0)
            continue;
        if (sd_event_add_io(watch->event, &source, fd, EPOLLIN, on_holder_ended, watch) < 0) {
            close(fd);
            continue;
        }
        sd_event_source_set_io_fd_own(source, 1);
        g_ptr_array_add(watch->holders, source);
    }
}

void
vgpu_watch_free(VgpuWatch *watch)
{
    g_ptr_array_unref(watch->holders);
    sd_event_source_disable_unref(watch->node);
    sd_event_unref(watch->event);
    g_free(watch);
}
