/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "sysfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define READ_MAX (1024 * 1024)

G_DEFINE_QUARK(vgpu - sysfs - error - quark, vgpu_sysfs_error)

static gint shortages;

static void
note_shortage(int err)
{
    if (err == EMFILE || err == ENFILE || err == ENOMEM)
        g_atomic_int_inc(&shortages);
}

guint
vgpu_sysfs_shortages(void)
{
    return (guint)g_atomic_int_get(&shortages);
}

void
vgpu_dir_set_error(GError **error, const VgpuDir *dir, const char *name, int err)
{
    g_set_error(error, VGPU_SYSFS_ERROR, err, "%s/%s: %s", dir->path, name, g_strerror(err));
}

/* Takes @fd, which may be -1 with errno set, and @path. */
static VgpuDir *
dir_new(int fd, char *path, GError **error)
{
    g_autoptr(VgpuDir) dir = g_new0(VgpuDir, 1);
    struct stat st;

    dir->fd = fd;
    dir->path = path;
    if (fd < 0 || fstat(fd, &st) < 0) {
        int err = errno;
        note_shortage(err);
        g_set_error(error, VGPU_SYSFS_ERROR, err, "%s: %s", path, g_strerror(err));
        return NULL;
    }
    dir->inode = st.st_ino;
    return g_steal_pointer(&dir);
}

VgpuDir *
vgpu_dir_open(const char *path, GError **error)
{
    return dir_new(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), g_strdup(path), error);
}

VgpuDir *
vgpu_dir_open_at(const VgpuDir *dir, const char *name, GError **error)
{
    return dir_new(openat(dir->fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
                   g_build_filename(dir->path, name, NULL), error);
}

void
vgpu_dir_free(VgpuDir *dir)
{
    if (dir->fd >= 0)
        close(dir->fd);
    g_free(dir->path);
    g_free(dir);
}

gboolean
vgpu_dir_has(const VgpuDir *dir, const char *name)
{
    gboolean has = faccessat(dir->fd, name, F_OK, 0) == 0;

    if (!has)
        note_shortage(errno);
    return has;
}

/* Reads to the end; returns 0 or a positive errno. */
static int
read_all(int fd, GString *content)
{
    char buffer[4096];
    ssize_t n;

    do {
        n = read(fd, buffer, sizeof(buffer));
        if (n > 0)
            g_string_append_len(content, buffer, n);
    } while ((n > 0 && content->len < READ_MAX) || (n < 0 && errno == EINTR));
    return n < 0 ? errno : 0;
}

char *
vgpu_dir_read(const VgpuDir *dir, const char *name, gsize *ret_length, GError **error)
{
    g_autoptr(GString) content = g_string_new(NULL);
    int fd = openat(dir->fd, name, O_RDONLY | O_CLOEXEC);
    int err = fd < 0 ? errno : read_all(fd, content);

    if (fd >= 0)
        close(fd);
    else
        note_shortage(err); /* what a read answers is the driver's word */
    if (err) {
        vgpu_dir_set_error(error, dir, name, err);
        return NULL;
    }
    if (ret_length)
        *ret_length = content->len;
    return g_string_free(g_steal_pointer(&content), FALSE);
}

char *
vgpu_dir_read_word(const VgpuDir *dir, const char *name, GError **error)
{
    char *text = vgpu_dir_read(dir, name, NULL, error);

    return text ? g_strstrip(text) : NULL;
}

int
vgpu_dir_open_for_write(const VgpuDir *dir, const char *name, GError **error)
{
    /* O_TRUNC means nothing to sysfs; to a plain file in its place it means that no old text stays behind. */
    int fd = openat(dir->fd, name, O_WRONLY | O_TRUNC | O_CLOEXEC);

    if (fd < 0 && errno == EROFS)
        g_set_error(error, VGPU_SYSFS_ERROR, EROFS,
                    "%s/%s: /sys is read-only here (does the unit have ReadWritePaths=/sys/devices?)",
                    dir->path, name);
    else if (fd < 0)
        vgpu_dir_set_error(error, dir, name, errno);
    return fd;
}

gboolean
vgpu_dir_write(const VgpuDir *dir, const char *name, const char *value, GError **error)
{
    int fd = vgpu_dir_open_for_write(dir, name, error);
    ssize_t n;
    int err;

    if (fd < 0)
        return FALSE;
    /* Never repeated on EINTR: the driver may have done half of it. */
    n = write(fd, value, strlen(value));
    err = n < 0 ? errno : (gsize)n == strlen(value) ? 0 : EIO;
    close(fd);
    if (err)
        g_set_error(error, VGPU_SYSFS_ERROR, err, "writing %s to %s/%s: %s", value, dir->path, name,
                    g_strerror(err));
    return err == 0;
}

char *
vgpu_dir_link(const VgpuDir *dir, const char *name, GError **error)
{
    char target[PATH_MAX];
    ssize_t n = readlinkat(dir->fd, name, target, sizeof(target) - 1);

    if (n < 0) {
        int err = errno;
        note_shortage(err);
        vgpu_dir_set_error(error, dir, name, err);
        return NULL;
    }
    target[n] = '\0';
    return g_path_get_basename(target);
}

static int
compare_names(gconstpointer a, gconstpointer b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

char **
vgpu_dir_list(const VgpuDir *dir, const char *name, GError **error)
{
    g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);
    int fd = openat(dir->fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *stream = fd < 0 ? NULL : fdopendir(fd);
    int err = stream ? 0 : errno;

    while (stream) {
        struct dirent *entry;

        errno = 0;
        entry = readdir(stream);
        if (!entry) {
            err = errno;
            break;
        }
        if (entry->d_name[0] != '.')
            g_ptr_array_add(names, g_strdup(entry->d_name));
    }
    if (stream)
        closedir(stream);
    else if (fd >= 0)
        close(fd);
    if (err) {
        note_shortage(err);
        vgpu_dir_set_error(error, dir, name, err);
        return NULL;
    }
    g_ptr_array_sort(names, compare_names);
    g_ptr_array_add(names, NULL);
    return (char **)g_ptr_array_free(g_steal_pointer(&names), FALSE);
}
