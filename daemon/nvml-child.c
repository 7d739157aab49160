/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "nvml.h"

#include "pci-address.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

/* A field of the answer is cut here; the names that the library gives are shorter. */
#define FIELD_LENGTH_MAX 512

typedef struct NvmlDevice *NvmlDevice; /* opaque */

enum {
    NVML_SUCCESS = 0,
    NVML_ERROR_INSUFFICIENT_SIZE = 7,
};

#define NVML_DEVICE_NAME_SIZE 96
#define NVML_TYPE_NAME_SIZE 64

/* The functions that are asked. What is not needed to tell types apart may be missing in a library. */
typedef struct {
    int (*init)(void);
    int (*shutdown)(void);
    const char *(*error_string)(int result);
    int (*device_by_pci_bus_id)(const char *bus_id, NvmlDevice *device);
    int (*device_name)(NvmlDevice device, char *name, unsigned int size);
    int (*supported_types)(NvmlDevice device, unsigned int *n, unsigned int *ids);
    int (*type_name)(unsigned int id, char *name, unsigned int *size);
    int (*type_framebuffer)(unsigned int id, unsigned long long *bytes);
    int (*type_max_instances)(NvmlDevice device, unsigned int id, unsigned int *n);
} Library;

static const struct {
    const char *name;
    gsize offset;
    gboolean needed;
} symbols[] = {
    {"nvmlInit_v2", G_STRUCT_OFFSET(Library, init), TRUE},
    {"nvmlShutdown", G_STRUCT_OFFSET(Library, shutdown), TRUE},
    {"nvmlErrorString", G_STRUCT_OFFSET(Library, error_string), FALSE},
    {"nvmlDeviceGetHandleByPciBusId_v2", G_STRUCT_OFFSET(Library, device_by_pci_bus_id), TRUE},
    {"nvmlDeviceGetName", G_STRUCT_OFFSET(Library, device_name), FALSE},
    {"nvmlDeviceGetSupportedVgpus", G_STRUCT_OFFSET(Library, supported_types), TRUE},
    {"nvmlVgpuTypeGetName", G_STRUCT_OFFSET(Library, type_name), TRUE},
    {"nvmlVgpuTypeGetFramebufferSize", G_STRUCT_OFFSET(Library, type_framebuffer), FALSE},
    {"nvmlVgpuTypeGetMaxInstances", G_STRUCT_OFFSET(Library, type_max_instances), FALSE},
};

/* One line of the answer. Its fields are made fit for one: the parent makes them fit for people. */
static void
say(FILE *out, const char *const *fields)
{
    for (const char *const *field = fields; *field; field++) {
        if (field != fields)
            fputc('\t', out);
        for (gsize i = 0; (*field)[i] && i < FIELD_LENGTH_MAX; i++)
            fputc(g_ascii_iscntrl((*field)[i]) ? ' ' : (*field)[i], out);
    }
    fputc('\n', out);
}

static int
say_failure(FILE *out, const char *kind, const char *why)
{
    say(out, (const char *const[]){"fail", kind, why, NULL});
    fclose(out);
    return EXIT_FAILURE;
}

static char *
describe_result(const Library *library, int result)
{
    const char *text = library->error_string ? library->error_string(result) : NULL;

    return g_strdup_printf("NVML error %d%s%s", result, text ? ": " : "", text ? text : "");
}

/* The ids that the card supports. The number can grow between the two calls (a GPU instance is made), so a
 * second try is made with the new number. */
static int
list_types(const Library *library, NvmlDevice device, unsigned int **ret_ids, unsigned int *ret_n)
{
    unsigned int n = 0;
    int result = library->supported_types(device, &n, NULL);

    *ret_ids = NULL;
    *ret_n = 0;
    for (int tries = 0; result == NVML_ERROR_INSUFFICIENT_SIZE && tries < 2; tries++) {
        unsigned int room = MIN(n, VGPU_NVML_TYPES_MAX);

        g_free(*ret_ids);
        *ret_ids = g_new0(unsigned int, MAX(room, 1));
        n = room;
        result = library->supported_types(device, &n, *ret_ids);
        *ret_n = MIN(n, room);
    }
    return result;
}

static void
say_type(FILE *out, const Library *library, NvmlDevice device, unsigned int id)
{
    char name[NVML_TYPE_NAME_SIZE + 1] = "";
    unsigned int size = NVML_TYPE_NAME_SIZE, most = 0;
    unsigned long long bytes = 0;

    if (library->type_name(id, name, &size) != NVML_SUCCESS)
        name[0] = '\0';
    if (!library->type_framebuffer || library->type_framebuffer(id, &bytes) != NVML_SUCCESS)
        bytes = 0;
    if (!library->type_max_instances || library->type_max_instances(device, id, &most) != NVML_SUCCESS)
        most = 0;

    name[NVML_TYPE_NAME_SIZE] = '\0';
    g_autofree char *id_text = g_strdup_printf("%u", id);
    g_autofree char *bytes_text = g_strdup_printf("%llu", bytes);
    g_autofree char *most_text = g_strdup_printf("%u", most);
    say(out, (const char *const[]){"type", id_text, bytes_text, most_text, name, NULL});
}

static void
say_card(FILE *out, const Library *library, const char *address)
{
    g_autofree unsigned int *ids = NULL;
    char name[NVML_DEVICE_NAME_SIZE + 1] = "";
    NvmlDevice device = NULL;
    unsigned int n;

    int result = library->device_by_pci_bus_id(address, &device);
    if (result == NVML_SUCCESS)
        result = list_types(library, device, &ids, &n);
    if (result != NVML_SUCCESS) {
        g_autofree char *why = describe_result(library, result);
        say(out, (const char *const[]){"skip", address, why, NULL});
        return;
    }
    if (!library->device_name || library->device_name(device, name, NVML_DEVICE_NAME_SIZE) != NVML_SUCCESS)
        name[0] = '\0';
    name[NVML_DEVICE_NAME_SIZE] = '\0';
    say(out, (const char *const[]){"card", address, name, NULL});
    for (unsigned int i = 0; i < n; i++)
        say_type(out, library, device, ids[i]);
}

/* What the library prints must not get into the answer: that goes to a copy of standard output, and standard
 * output to nowhere. */
static FILE *
take_standard_output(void)
{
    int out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);

    if (out < 0 || nowhere < 0 || dup2(nowhere, STDOUT_FILENO) < 0)
        return NULL;
    close(nowhere);
    return fdopen(out, "w");
}

/* The child must not outlive its question for long, even if the daemon is gone and cannot kill it. */
static void
limit_life(const char *seconds)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGALRM, SIG_DFL);
    alarm((unsigned int)CLAMP(strtoul(seconds, NULL, 10), 1, 3600));
}

int
vgpu_nvml_child_main(int argc, char **argv)
{
    Library library = {0};

    if (argc < 3 || argc - 3 > VGPU_NVML_CARDS_MAX || close_range(STDERR_FILENO + 1, ~0U, 0) < 0)
        return EXIT_FAILURE;
    for (int i = 3; i < argc; i++) {
        g_autofree char *address = vgpu_pci_address_normalize(argv[i]);
        if (g_strcmp0(address, argv[i]) != 0)
            return EXIT_FAILURE;
    }
    limit_life(argv[2]);
    FILE *out = take_standard_output();
    if (!out)
        return EXIT_FAILURE;

    void *handle = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (!handle)
        return say_failure(out, "library", dlerror());
    for (gsize i = 0; i < G_N_ELEMENTS(symbols); i++) {
        void *symbol = dlsym(handle, symbols[i].name);
        if (!symbol && symbols[i].needed) {
            g_autofree char *why = g_strdup_printf("the NVML library has no %s", symbols[i].name);
            return say_failure(out, "symbol", why);
        }
        memcpy((char *)&library + symbols[i].offset, &symbol, sizeof(symbol));
    }

    int result = library.init();
    if (result != NVML_SUCCESS) {
        g_autofree char *why = describe_result(&library, result);
        return say_failure(out, "driver", why);
    }
    for (int i = 3; i < argc; i++)
        say_card(out, &library, argv[i]);
    say(out, (const char *const[]){"end", NULL});
    /* Before taking leave of the library, which may hang: the answer is whole. */
    fclose(out);
    library.shutdown();
    return EXIT_SUCCESS;
}
