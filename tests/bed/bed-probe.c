/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <systemd/sd-device.h>
#include <systemd/sd-event.h>
#include <unistd.h>

/* Looks at the host as the daemon does, with the preload: what test-bed cannot see from outside. */

static int
count_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int n = 0;

    while (dir && readdir(dir))
        n++;
    closedir(dir);
    return n;
}

/* Opens PATH many times; says the last errno and how many descriptors were left behind. */
static int
try_opens(const char *path, int times)
{
    int before = count_descriptors();
    int error = 0;

    for (int i = 0; i < times; i++) {
        int fd = open(path, O_RDWR | O_CLOEXEC);

        error = fd < 0 ? errno : 0;
        if (fd >= 0)
            close(fd);
    }
    printf("%d %d\n", error, count_descriptors() - before);
    return 0;
}

static int
show_stat(const char *path)
{
    struct stat st;

    if (stat(path, &st) < 0)
        return 1;
    printf("%s %o %u:%u\n", S_ISCHR(st.st_mode) ? "char" : "other", st.st_mode & 07777, major(st.st_rdev),
           minor(st.st_rdev));
    return 0;
}

static int
show_device(const char *syspath)
{
    sd_device *device = NULL;
    sd_device *parent = NULL;
    const char *subsystem = "-", *sysname = "-", *path = "-", *value = "-";

    if (sd_device_new_from_syspath(&device, syspath) < 0)
        return 1;
    sd_device_get_subsystem(device, &subsystem);
    sd_device_get_sysname(device, &sysname);
    sd_device_get_syspath(device, &path);
    sd_device_get_sysattr_value(device, "uevent", &value);
    if (sd_device_get_parent(device, &parent) >= 0)
        sd_device_get_syspath(parent, &value);
    printf("%s %s %s %s\n", subsystem, sysname, path, value);
    sd_device_unref(device);
    return 0;
}

static int
on_event(sd_device_monitor *monitor, sd_device *device, void *data)
{
    const char *subsystem = "-", *path = "-", *state = "-", *devname = "-";
    sd_device_action_t action;
    static const char *const names[] = {"add",    "remove",  "change", "move",
                                        "online", "offline", "bind",   "unbind"};

    if (sd_device_get_action(device, &action) < 0)
        return 0;
    sd_device_get_subsystem(device, &subsystem);
    sd_device_get_devpath(device, &path);
    sd_device_get_property_value(device, "MDEV_STATE", &state);
    sd_device_get_devname(device, &devname);
    printf("%s %s %s %s %s\n", names[action], subsystem, path, devname, state);
    fflush(stdout);
    return 0;
}

static int
on_input(sd_event_source *source, int fd, uint32_t revents, void *data)
{
    return sd_event_exit(sd_event_source_get_event(source), 0);
}

/* Prints events of the subsystems until its input ends. */
static int
show_events(char **subsystems)
{
    sd_event *event = NULL;
    sd_device_monitor *monitor = NULL;
    int r;

    if (sd_event_default(&event) < 0 || sd_device_monitor_new(&monitor) < 0)
        return 1;
    for (int i = 0; subsystems[i]; i++)
        if (sd_device_monitor_filter_add_match_subsystem_devtype(monitor, subsystems[i], NULL) < 0)
            return 1;
    if (sd_device_monitor_attach_event(monitor, event) < 0 ||
        sd_device_monitor_start(monitor, on_event, NULL) < 0 ||
        sd_event_add_io(event, NULL, STDIN_FILENO, EPOLLIN | EPOLLHUP, on_input, NULL) < 0)
        return 1;
    printf("ready\n");
    fflush(stdout);
    r = sd_event_loop(event);
    sd_device_monitor_unref(monitor);
    sd_event_unref(event);
    return r < 0;
}

int
main(int argc, char **argv)
{
    if (argc >= 4 && strcmp(argv[1], "open") == 0)
        return try_opens(argv[2], atoi(argv[3]));
    if (argc >= 3 && strcmp(argv[1], "stat") == 0)
        return show_stat(argv[2]);
    if (argc >= 3 && strcmp(argv[1], "device") == 0)
        return show_device(argv[2]);
    if (argc >= 3 && strcmp(argv[1], "monitor") == 0)
        return show_events(argv + 2);
    return 2;
}
