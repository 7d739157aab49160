/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "expand.h"

#include <stdbool.h>
#include <string.h>

#include "failure.h"
#include "format.h"
#include "hold.h"
#include "value.h"

static char *
value_device(GVariant *assignment)
{
    return g_strdup(vgpu_value_string(assignment, "DevicePath"));
}

static char *
value_uuid(GVariant *assignment)
{
    return g_strdup(vgpu_value_string(assignment, "UUID"));
}

static const struct {
    const char *name;
    char *(*value)(GVariant *assignment);
} placeholders[] = {
    {"{device}", value_device},
    {"{uuid}", value_uuid},
    {"{qemu}", vgpu_format_qemu},
};

static bool
has_placeholder(const char *word)
{
    for (size_t i = 0; i < G_N_ELEMENTS(placeholders); i++)
        if (strstr(word, placeholders[i].name))
            return true;
    return false;
}

/* @word for one vGPU. Values are not looked at again: one that holds a placeholder's text stays as it is. */
static char *
expand_word(const char *word, const VgpuHeld *held, GError **error)
{
    g_autoptr(GString) expanded = g_string_new(NULL);

    while (*word) {
        size_t i = 0;
        while (i < G_N_ELEMENTS(placeholders) && !g_str_has_prefix(word, placeholders[i].name))
            i++;
        if (i == G_N_ELEMENTS(placeholders)) {
            g_string_append_c(expanded, *word++);
            continue;
        }
        g_autofree char *value = placeholders[i].value(held->assignment);
        if (!value) {
            g_set_error(error, VGPUCTL_ERROR, VGPUCTL_ERROR_FAILED,
                        "there is nothing to put for %s: the service told none for assignment %s",
                        placeholders[i].name, held->id);
            return NULL;
        }
        g_string_append(expanded, value);
        word += strlen(placeholders[i].name);
    }
    return g_string_free(g_steal_pointer(&expanded), FALSE);
}

/* The option that belongs to the argument at @i and is repeated with it. */
static const char *
option_before(GPtrArray *words, unsigned i)
{
    if (i < 2)
        return NULL;
    const char *before = words->pdata[i - 1];
    return before[0] == '-' && strcmp(before, "--") && !has_placeholder(before) ? before : NULL;
}

static bool
append_expanded(GPtrArray *expanded, const char *option, const char *word, GPtrArray *held, GError **error)
{
    for (unsigned i = 0; i < held->len; i++) {
        char *text = expand_word(word, held->pdata[i], error);
        if (!text)
            return false;
        if (option && i > 0)
            g_ptr_array_add(expanded, g_strdup(option));
        g_ptr_array_add(expanded, text);
    }
    return true;
}

char **
vgpu_expand_command(GPtrArray *words, GPtrArray *held, GError **error)
{
    g_autoptr(GPtrArray) expanded = g_ptr_array_new_with_free_func(g_free);

    for (unsigned i = 0; i < words->len; i++) {
        const char *word = words->pdata[i];
        /* What is run is one program, whatever its name. */
        if (i == 0 || !has_placeholder(word))
            g_ptr_array_add(expanded, g_strdup(word));
        else if (!append_expanded(expanded, option_before(words, i), word, held, error))
            return NULL;
    }
    g_ptr_array_add(expanded, NULL);
    g_ptr_array_set_free_func(expanded, NULL);
    return (char **)g_ptr_array_free(g_steal_pointer(&expanded), FALSE);
}

static char **
set_list(char **environment, const char *variable, const char *key, GPtrArray *held)
{
    g_autoptr(GString) list = g_string_new(NULL);

    for (unsigned i = 0; i < held->len; i++) {
        const VgpuHeld *one = held->pdata[i];
        const char *value = vgpu_value_string(one->assignment, key);
        /* Names of profiles hold spaces themselves, and they are all the same. */
        if (value && !(list->len && !strcmp(key, "Profile")))
            g_string_append_printf(list, "%s%s", list->len ? " " : "", value);
    }
    if (list->len == 0)
        return g_environ_unsetenv(environment, variable);
    return g_environ_setenv(environment, variable, list->str, TRUE);
}

static char **
set_ids(char **environment, GPtrArray *held)
{
    g_autoptr(GString) list = g_string_new(NULL);
    for (unsigned i = 0; i < held->len; i++) {
        const VgpuHeld *one = held->pdata[i];
        g_string_append_printf(list, "%s%s", i ? " " : "", one->id);
    }
    return g_environ_setenv(environment, "VGPU_ID", list->str, TRUE);
}

char **
vgpu_expand_environment(char **environment, GPtrArray *held)
{
    static const struct {
        const char *variable, *key;
    } lists[] = {
        {"VGPU_PROFILE", "Profile"},
        {"VGPU_DEVICE", "DevicePath"},
        {"VGPU_UUID", "UUID"},
        {"VGPU_GROUP_NODE", "GroupNode"},
    };
    static const char *const private[] = {"NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC"};

    environment = set_ids(environment, held);
    for (size_t i = 0; i < G_N_ELEMENTS(lists); i++)
        environment = set_list(environment, lists[i].variable, lists[i].key, held);
    for (size_t i = 0; i < G_N_ELEMENTS(private); i++)
        environment = g_environ_unsetenv(environment, private[i]);
    return environment;
}
