/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Does with a VFIO device what a virtual machine does, one step at a time.
 *
 * Commands come as arguments, or from standard input until it ends; each is answered with one line, "ok" or
 * the name of an errno. What is open stays open until it is closed or the process ends.
 *
 *   group NODE      open a group's node
 *   container       put the group into a new container
 *   device NAME     VFIO_GROUP_GET_DEVICE_FD: a PCI address or an mdev's UUID
 *   vm NODE NAME    the three above
 *   close WHAT      group, container or device
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/vfio.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static int group = -1, container = -1, device = -1;

static int
open_group(const char *node)
{
    group = open(node, O_RDWR | O_CLOEXEC);
    return group < 0 ? -errno : 0;
}

static int
make_container(void)
{
    container = open("/dev/vfio/vfio", O_RDWR | O_CLOEXEC);
    if (container < 0)
        return -errno;
    if (ioctl(group, VFIO_GROUP_SET_CONTAINER, &container) < 0)
        return -errno;
    if (ioctl(container, VFIO_SET_IOMMU, VFIO_TYPE1v2_IOMMU) < 0)
        return -errno;
    return 0;
}

static int
open_device(const char *name)
{
    device = ioctl(group, VFIO_GROUP_GET_DEVICE_FD, name);
    return device < 0 ? -errno : 0;
}

static int
close_one(const char *what)
{
    int *fd = strcmp(what, "group") == 0       ? &group
              : strcmp(what, "container") == 0 ? &container
              : strcmp(what, "device") == 0    ? &device
                                               : NULL;

    if (!fd)
        return -EINVAL;
    if (close(*fd) < 0)
        return -errno;
    *fd = -1;
    return 0;
}

static int
obey(char *line)
{
    const char *word = strtok(line, " \n"), *first = strtok(NULL, " \n"), *second = strtok(NULL, " \n");
    int r;

    if (!word)
        return -EINVAL;
    if (strcmp(word, "group") == 0 && first)
        return open_group(first);
    if (strcmp(word, "container") == 0)
        return make_container();
    if (strcmp(word, "device") == 0 && first)
        return open_device(first);
    if (strcmp(word, "close") == 0 && first)
        return close_one(first);
    if (strcmp(word, "vm") == 0 && second) {
        r = open_group(first);
        if (r == 0)
            r = make_container();
        return r == 0 ? open_device(second) : r;
    }
    return -EINVAL;
}

static bool
obey_and_tell(char *line)
{
    int r = obey(line);

    puts(r == 0 ? "ok" : strerrorname_np(-r));
    fflush(stdout);
    return r == 0;
}

int
main(int argc, char *argv[])
{
    char line[512];

    for (int i = 1; i < argc; i++)
        if (!obey_and_tell(argv[i]))
            return EXIT_FAILURE;
    while (argc == 1 && fgets(line, sizeof(line), stdin))
        obey_and_tell(line);
    return EXIT_SUCCESS;
}
