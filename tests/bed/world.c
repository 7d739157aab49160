/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "world.h"
#include "bed.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *dir;

const char *
world_dir(void)
{
    return dir;
}

static void
remove_below(int parent, const char *name)
{
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *stream = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *entry;

    while (stream && (entry = readdir(stream)))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
            unlinkat(fd, entry->d_name, 0) < 0)
            remove_below(fd, entry->d_name);
    if (stream)
        closedir(stream);
    unlinkat(parent, name, AT_REMOVEDIR);
}

void
world_remove(const char *path)
{
    remove_below(AT_FDCWD, path);
}

static void G_GNUC_PRINTF(1, 2) G_GNUC_NORETURN die(const char *format, ...)
{
    va_list arguments;
    int error = errno;

    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fprintf(stderr, ": %s\n", strerror(error));
    _exit(1);
}

/* A directory that every machine has and nothing here needs: where the tmpfs goes, so that no trace is left
 * in the file system even if all is killed at once. */
static const char *
find_place(void)
{
    static const char *const places[] = {"/mnt", "/media", "/srv", "/opt"};
    char cwd[4096] = "";
    char exe[4096] = "";
    struct stat st;

    if (!getcwd(cwd, sizeof cwd) || readlink("/proc/self/exe", exe, sizeof exe - 1) < 0)
        return NULL;
    for (size_t i = 0; i < G_N_ELEMENTS(places); i++) {
        size_t length = strlen(places[i]);

        if (strncmp(cwd, places[i], length) == 0 || strncmp(exe, places[i], length) == 0)
            continue;
        if (stat(places[i], &st) == 0 && S_ISDIR(st.st_mode))
            return places[i];
    }
    return NULL;
}

static int
status_of(int status)
{
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Process 1 of the new namespace: waits for all, and takes them along when the test has ended. */
static void G_GNUC_NORETURN
be_init(pid_t test)
{
    for (;;) {
        int status;
        pid_t pid = waitpid(-1, &status, 0);

        if (pid == test)
            _exit(status_of(status));
        if (pid < 0 && errno != EINTR)
            _exit(1);
    }
}

static void G_GNUC_NORETURN
child(int parent_alive, int argc, char **argv, int (*run)(int argc, char **argv))
{
    struct pollfd parent = {.fd = parent_alive};
    char tmp[64];
    const char *place;
    pid_t test;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (poll(&parent, 1, 0) > 0)
        _exit(1);
    signal(SIGINT, SIG_IGN);
    signal(SIGQUIT, SIG_IGN);

    place = find_place();
    if (!place)
        die("bed: there is no directory for its file system");
    if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
        die("bed: /proc cannot be mounted");
    if (mount("bed", place, "tmpfs", MS_NOSUID, "mode=0755") < 0)
        die("bed: a tmpfs cannot be mounted on %s", place);
    snprintf(tmp, sizeof tmp, "%s/tmp", place);
    if (mkdir(tmp, 0777) < 0 || chmod(tmp, 01777) < 0)
        die("bed: %s cannot be made", tmp);
    setenv("TMPDIR", tmp, 1);

    test = fork();
    if (test < 0)
        die("bed: fork");
    if (test > 0) {
        close(parent_alive);
        be_init(test);
    }
    signal(SIGINT, SIG_DFL);
    signal(SIGQUIT, SIG_DFL);
    close(parent_alive);
    dir = place;
    exit(run(argc, argv));
}

int
bed_main(int argc, char **argv, int (*run)(int argc, char **argv))
{
    int alive[2];
    int pid_namespace, mount_namespace;
    int status;
    pid_t pid;

    if (geteuid() != 0) {
        fprintf(stderr, "%s: the simulated host needs root (for namespaces and FUSE)\n", argv[0]);
        return 1;
    }
    if (access("/dev/fuse", R_OK | W_OK) < 0) {
        fprintf(stderr, "%s: the simulated host needs /dev/fuse: %s\n", argv[0], strerror(errno));
        return 1;
    }
    if (pipe2(alive, O_CLOEXEC) < 0)
        die("bed: pipe");
    pid_namespace = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC);
    mount_namespace = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
    if (unshare(CLONE_NEWNS | CLONE_NEWPID) < 0)
        die("bed: namespaces cannot be made");
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        die("bed: mounts cannot be made private");

    pid = fork();
    if (pid < 0)
        die("bed: fork");
    if (pid == 0) {
        close(alive[1]);
        child(alive[0], argc, argv, run);
    }
    close(alive[0]);
    /* The terminal's signals are for the test, and for the shell in it. */
    signal(SIGINT, SIG_IGN);
    signal(SIGQUIT, SIG_IGN);
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            die("bed: wait");
    close(alive[1]);
    /* Back home: in a namespace whose first process has died no child can be made, as LeakSanitizer does at
     * exit. */
    if (setns(pid_namespace, CLONE_NEWPID) < 0 || setns(mount_namespace, CLONE_NEWNS) < 0)
        die("bed: setns");
    close(pid_namespace);
    close(mount_namespace);
    return status_of(status);
}
