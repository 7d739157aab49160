/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A stand-in for libnvidia-ml.so.1. A test puts it (or a link to it) under that name into a folder of its own
 * and names the folder in LD_LIBRARY_PATH. What it says is in the environment:
 *
 *   FAKE_NVML_CARDS     ADDRESS=NAME=FILE;…   FILE: a table of types (tests/data), with the tab-separated
 * columns id, name, …; of nine columns the fourth is MiB and the ninth the maximum; of three, both are
 * unknown FAKE_NVML_MODE      how it misbehaves, see below FAKE_NVML_PID_FILE  gets the pid of the process,
 * as soon as the library is initialized
 *
 * It is built three times: whole; with FAKE_NVML_OLD, without the functions that can be done without; with
 * FAKE_NVML_BROKEN, without one that cannot. */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SUCCESS 0
#define ERROR_INVALID_ARGUMENT 2
#define ERROR_NOT_SUPPORTED 3
#define ERROR_NOT_FOUND 6
#define ERROR_INSUFFICIENT_SIZE 7
#define ERROR_DRIVER_NOT_LOADED 9
#define ERROR_GPU_IS_LOST 15

#define CARDS_MAX 64
#define TYPES_MAX 256

struct type {
    unsigned int id;
    char name[64];
    unsigned long long mib; /* 0: not known */
    unsigned int most;
};

struct card {
    char address[32];
    char name[96];
    struct type types[TYPES_MAX];
    unsigned int n_types;
};

static struct card cards[CARDS_MAX];
static unsigned int n_cards;

int nvmlInit_v2(void);
int nvmlShutdown(void);
const char *nvmlErrorString(int result);
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, struct card **device);
int nvmlDeviceGetName(struct card *device, char *name, unsigned int size);
int nvmlDeviceGetSupportedVgpus(struct card *device, unsigned int *n, unsigned int *ids);
int nvmlVgpuTypeGetName(unsigned int id, char *name, unsigned int *size);
int nvmlVgpuTypeGetFramebufferSize(unsigned int id, unsigned long long *bytes);
int nvmlVgpuTypeGetMaxInstances(struct card *device, unsigned int id, unsigned int *n);

static int
mode_is(const char *mode)
{
    const char *value = getenv("FAKE_NVML_MODE");

    return value && strcmp(value, mode) == 0;
}

static void
hang(void)
{
    for (;;)
        pause();
}

static void
crash(void)
{
    signal(SIGSEGV, SIG_DFL); /* a sanitizer would make an exit of it */
    raise(SIGSEGV);
    abort();
}

static void
load_types(struct card *card, const char *path)
{
    FILE *file = fopen(path, "re");
    char line[512];

    while (file && fgets(line, sizeof(line), file)) {
        struct type *type = &card->types[card->n_types];
        char *rest = line, *column;

        line[strcspn(line, "\n")] = '\0';
        if (line[0] == '#' || card->n_types == TYPES_MAX)
            continue;
        memset(type, 0, sizeof(*type));
        for (int i = 0; (column = strsep(&rest, "\t")) != NULL; i++) {
            if (i == 0)
                type->id = (unsigned int)strtoul(column, NULL, 10);
            else if (i == 1)
                snprintf(type->name, sizeof(type->name), "%s", column);
            else if (i == 3)
                type->mib = strtoull(column, NULL, 10);
            else if (i == 8)
                type->most = (unsigned int)strtoul(column, NULL, 10);
        }
        card->n_types++;
    }
    if (file)
        fclose(file);
}

static void
load_cards(void)
{
    const char *value = getenv("FAKE_NVML_CARDS");
    char *text = strdup(value ? value : ""), *rest = text, *entry;

    n_cards = 0;
    while ((entry = strsep(&rest, ";")) != NULL && n_cards < CARDS_MAX) {
        struct card *card = &cards[n_cards];
        char *address = strsep(&entry, "="), *name = strsep(&entry, "="), *path = strsep(&entry, "=");

        if (!name || !path)
            continue;
        memset(card, 0, sizeof(*card));
        snprintf(card->address, sizeof(card->address), "%s", address);
        snprintf(card->name, sizeof(card->name), "%s", name);
        load_types(card, path);
        n_cards++;
    }
    free(text);
}

static void
write_pid(void)
{
    const char *path = getenv("FAKE_NVML_PID_FILE");
    char unfinished[4096];

    if (!path)
        return;
    /* Renamed, so that whoever sees the file sees the number. */
    snprintf(unfinished, sizeof(unfinished), "%s.unfinished", path);
    FILE *file = fopen(unfinished, "we");
    if (!file)
        abort();
    fprintf(file, "%d", (int)getpid());
    fclose(file);
    if (rename(unfinished, path) < 0)
        abort();
}

static const struct type *
find_type(unsigned int id)
{
    for (unsigned int i = 0; i < n_cards; i++) {
        for (unsigned int j = 0; j < cards[i].n_types; j++) {
            if (cards[i].types[j].id == id)
                return &cards[i].types[j];
        }
    }
    return NULL;
}

int
nvmlInit_v2(void)
{
    load_cards();
    write_pid();
    if (mode_is("driver-not-loaded"))
        return ERROR_DRIVER_NOT_LOADED;
    if (mode_is("hang"))
        hang();
    if (mode_is("hang-deaf")) {
        sigset_t all;
        sigfillset(&all);
        sigprocmask(SIG_SETMASK, &all, NULL);
        hang();
    }
    if (mode_is("crash"))
        crash();
    if (mode_is("exit"))
        _exit(0);
    if (mode_is("noisy")) {
        printf("card\t0000:ff:00.0\tNOISE\nend\n");
        fflush(stdout);
        fprintf(stderr, "NOISE\n");
    }
    return SUCCESS;
}

int
nvmlShutdown(void)
{
    if (mode_is("hang-late"))
        hang();
    if (mode_is("crash-late"))
        crash();
    return SUCCESS;
}

int
nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, struct card **device)
{
    for (unsigned int i = 0; i < n_cards; i++) {
        if (strcmp(cards[i].address, bus_id) != 0)
            continue;
        if (mode_is("lost") && i == 0)
            return ERROR_GPU_IS_LOST;
        *device = &cards[i];
        return SUCCESS;
    }
    return ERROR_NOT_FOUND;
}

int
nvmlDeviceGetSupportedVgpus(struct card *device, unsigned int *n, unsigned int *ids)
{
    static unsigned int calls;
    unsigned int there = device->n_types;

    if (mode_is("no-vgpu"))
        return ERROR_NOT_SUPPORTED;
    if (mode_is("growing") && calls++ == 0)
        there--;
    if (mode_is("endless")) {
        for (unsigned int i = 0; i < *n; i++)
            ids[i] = i + 1;
        *n = 0xffffffff;
        return ERROR_INSUFFICIENT_SIZE;
    }
    if (there > *n) {
        *n = there;
        return ERROR_INSUFFICIENT_SIZE;
    }
    for (unsigned int i = 0; i < there; i++)
        ids[i] = device->types[i].id;
    if (mode_is("same-id-twice"))
        ids[0] = ids[1];
    if (mode_is("id-zero"))
        ids[0] = 0;
    *n = there;
    return SUCCESS;
}

#ifndef FAKE_NVML_BROKEN
int
nvmlVgpuTypeGetName(unsigned int id, char *name, unsigned int *size)
{
    const struct type *type = find_type(id);

    if (mode_is("hang-in-the-middle"))
        hang();
    if (mode_is("crash-in-the-middle"))
        crash();
    if (mode_is("no-type-names"))
        return ERROR_NOT_SUPPORTED;
    if (mode_is("unterminated")) {
        memset(name, 'N', *size);
        return SUCCESS;
    }
    if (mode_is("dirty")) {
        snprintf(name, *size, "A\nend\ncard\t\x1b[31m\xff%u", id);
        return SUCCESS;
    }
    if (!type)
        return ERROR_INVALID_ARGUMENT;
    if (strlen(type->name) >= *size)
        return ERROR_INSUFFICIENT_SIZE;
    strcpy(name, type->name);
    return SUCCESS;
}
#endif

#ifndef FAKE_NVML_OLD
const char *
nvmlErrorString(int result)
{
    switch (result) {
    case ERROR_DRIVER_NOT_LOADED:
        return "Driver Not Loaded";
    case ERROR_GPU_IS_LOST:
        return "GPU is lost";
    default:
        return "Something else";
    }
}

/* The descriptors of the process, and some of its environment, as the name of a card. */
static void
describe_process(char *name, unsigned int size)
{
    char link[64], target[256];
    unsigned int used = 0;

    for (int fd = 0; fd < 1024; fd++) {
        snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        ssize_t length = readlink(link, target, sizeof(target) - 1);
        if (length < 0)
            continue;
        target[length] = '\0';
        target[strcspn(target, ":")] = '\0';
        used += (unsigned int)snprintf(name + used, used < size ? size - used : 0, "%d=%s ", fd, target);
    }
    snprintf(name + used, used < size ? size - used : 0, "notify=%s",
             getenv("NOTIFY_SOCKET") ? getenv("NOTIFY_SOCKET") : "none");
}

int
nvmlDeviceGetName(struct card *device, char *name, unsigned int size)
{
    if (mode_is("process")) {
        describe_process(name, size);
        return SUCCESS;
    }
    if (mode_is("unterminated")) {
        memset(name, 'N', size);
        return SUCCESS;
    }
    if (mode_is("dirty")) {
        snprintf(name, size, "A\nend\ncard\t\x1b[31m\xff");
        return SUCCESS;
    }
    snprintf(name, size, "%s", device->name);
    return SUCCESS;
}

int
nvmlVgpuTypeGetFramebufferSize(unsigned int id, unsigned long long *bytes)
{
    const struct type *type = find_type(id);

    if (!type || type->mib == 0)
        return ERROR_NOT_SUPPORTED;
    *bytes = type->mib * 1024 * 1024;
    return SUCCESS;
}

int
nvmlVgpuTypeGetMaxInstances(struct card *device, unsigned int id, unsigned int *n)
{
    for (unsigned int i = 0; i < device->n_types; i++) {
        if (device->types[i].id != id || device->types[i].most == 0)
            continue;
        *n = device->types[i].most;
        return SUCCESS;
    }
    return ERROR_NOT_SUPPORTED;
}
#endif
