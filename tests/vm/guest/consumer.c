/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A program that uses the service over D-Bus and stays on the bus: its assignments live as long as it does.
 *
 * Commands come from standard input until it ends; each is answered with one line that begins with "ok" or
 * with the last part of an error's name and its message. The end of an assignment that it was given is told
 * as it comes: "removed ID REASON".
 *
 *   assign PROFILE [KEY=VALUE]…   ok Key=value… of the assignment (spaces in profile and values are written
 * %) plan PROFILE [KEY=VALUE]…     ok Key=value… release ID | adopt ID | reclaim DEVICE name ok and the
 * unique name on the bus
 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <systemd/sd-bus.h>
#include <systemd/sd-event.h>

#define NAME "org.hypeman.VGPU1"
#define PATH "/org/hypeman/VGPU1"

static sd_bus *bus;
static sd_event *event;
static unsigned int due; /* answers */
static bool at_end;

/* The assignments that this program was given. */
static char *given[64];
static size_t n_given;

static void
answered(void)
{
    fflush(stdout);
    due--;
    if (at_end && due == 0)
        sd_event_exit(event, 0);
}

static void
tell_error(const sd_bus_error *error, int r)
{
    const char *name = error->name ? strrchr(error->name, '.') : NULL;

    printf("%s %s\n", name ? name + 1 : strerrorname_np(-r), error->message ? error->message : strerror(-r));
    fflush(stdout);
}

/* Prints one a{sv} as Key=value pairs; values of kinds that no test wants are left out. */
static int
tell_dict(sd_bus_message *m, FILE *to)
{
    int r = sd_bus_message_enter_container(m, 'a', "{sv}");

    while (r >= 0 && (r = sd_bus_message_enter_container(m, 'e', "sv")) > 0) {
        const char *key, *contents, *text;
        uint64_t t;
        uint32_t u;
        char type;

        r = sd_bus_message_read(m, "s", &key);
        if (r >= 0)
            r = sd_bus_message_peek_type(m, &type, &contents);
        if (r < 0)
            return r;
        if (strcmp(contents, "s") == 0) {
            r = sd_bus_message_read(m, "v", "s", &text);
            if (r >= 0) {
                fprintf(to, " %s=", key);
                for (; *text; text++)
                    fputc(*text == ' ' ? '%' : *text, to);
            }
        } else if (strcmp(contents, "u") == 0) {
            r = sd_bus_message_read(m, "v", "u", &u);
            if (r >= 0)
                fprintf(to, " %s=%u", key, u);
        } else if (strcmp(contents, "t") == 0) {
            r = sd_bus_message_read(m, "v", "t", &t);
            if (r >= 0)
                fprintf(to, " %s=%llu", key, (unsigned long long)t);
        } else {
            r = sd_bus_message_skip(m, "v");
        }
        if (r >= 0)
            r = sd_bus_message_exit_container(m);
    }
    return r < 0 ? r : sd_bus_message_exit_container(m);
}

static int
on_reply(sd_bus_message *m, void *userdata, sd_bus_error *unused)
{
    const sd_bus_error *error = sd_bus_message_get_error(m);
    const char *signature = sd_bus_message_get_signature(m, true), *id;
    int r = 0;

    if (error) {
        tell_error(error, -sd_bus_error_get_errno(error));
        answered();
        return 0;
    }
    fputs("ok", stdout);
    if (signature[0] == 's') {
        r = sd_bus_message_read(m, "s", &id);
        if (r >= 0 && n_given < sizeof(given) / sizeof(given[0]))
            given[n_given++] = strdup(id);
    }
    if (r >= 0 && strstr(signature, "a{sv}"))
        r = tell_dict(m, stdout);
    printf(r < 0 ? " (the reply is not readable)\n" : "\n");
    answered();
    return 0;
}

static int
tell_listed(sd_bus_message *m, const char *wanted)
{
    int r = sd_bus_message_enter_container(m, 'v', "aa{sv}");

    if (r >= 0)
        r = sd_bus_message_enter_container(m, 'a', "a{sv}");
    while (r >= 0 && (r = sd_bus_message_at_end(m, false)) == 0) {
        char *text = NULL;
        size_t size;
        FILE *stream = open_memstream(&text, &size);

        r = tell_dict(m, stream);
        fclose(stream);
        if (strstr(text, wanted))
            fputs(text, stdout);
        free(text);
    }
    return r;
}

static int
on_listed(sd_bus_message *m, void *userdata, sd_bus_error *unused)
{
    const sd_bus_error *error = sd_bus_message_get_error(m);
    char *wanted = userdata;

    if (error) {
        tell_error(error, -sd_bus_error_get_errno(error));
    } else {
        fputs("ok", stdout);
        printf(tell_listed(m, wanted) < 0 ? " (the reply is not readable)\n" : "\n");
    }
    free(wanted);
    answered();
    return 0;
}

/* Reads the list of assignments and tells of one. */
static int
show(const char *id)
{
    char *wanted;
    int r;

    if (asprintf(&wanted, " Id=%s ", id) < 0)
        return -ENOMEM;
    r = sd_bus_call_method_async(bus, NULL, NAME, PATH, "org.freedesktop.DBus.Properties", "Get", on_listed,
                                 wanted, "ss", NAME, "Assignments");
    if (r < 0)
        free(wanted);
    else
        due++;
    return r;
}

static int
on_removed(sd_bus_message *m, void *userdata, sd_bus_error *unused)
{
    const char *id, *reason;

    if (sd_bus_message_read(m, "ss", &id, &reason) < 0)
        return 0;
    for (size_t i = 0; i < n_given; i++)
        if (strcmp(given[i], id) == 0)
            printf("removed %s %s\n", id, reason);
    fflush(stdout);
    return 0;
}

static void
spaces(char *text)
{
    for (; *text; text++)
        if (*text == '%')
            *text = ' ';
}

static int
append_option(sd_bus_message *m, char *option)
{
    char *value = strchr(option, '=');

    if (!value)
        return -EINVAL;
    *value++ = '\0';
    spaces(value);
    if (strcmp(option, "numa-node") == 0)
        return sd_bus_message_append(m, "{sv}", option, "i", atoi(value));
    return sd_bus_message_append(m, "{sv}", option, "s", value);
}

static int
call(const char *member, char *argument, bool options)
{
    sd_bus_message *m = NULL;
    char *option;
    int r = sd_bus_message_new_method_call(bus, &m, NAME, PATH, NAME, member);

    if (r >= 0 && options)
        spaces(argument);
    if (r >= 0)
        r = sd_bus_message_append(m, "s", argument);
    if (r >= 0 && options) {
        r = sd_bus_message_open_container(m, 'a', "{sv}");
        while (r >= 0 && (option = strtok(NULL, " \n")))
            r = append_option(m, option);
        if (r >= 0)
            r = sd_bus_message_close_container(m);
    }
    /* No timeout: whoever waits for the answer has a deadline of his own. */
    if (r >= 0)
        r = sd_bus_call_async(bus, NULL, m, on_reply, NULL, UINT64_MAX);
    if (r >= 0)
        due++;
    sd_bus_message_unref(m);
    return r;
}

static int
obey(char *line)
{
    const char *word = strtok(line, " \n"), *unique;
    char *argument;
    int r;

    if (!word)
        return -EINVAL;
    if (strcmp(word, "name") == 0) {
        r = sd_bus_get_unique_name(bus, &unique);
        if (r >= 0)
            printf("ok %s\n", unique);
        fflush(stdout);
        return r;
    }
    argument = strtok(NULL, " \n");
    if (!argument)
        return -EINVAL;
    if (strcmp(word, "assign") == 0)
        return call("Assign", argument, true);
    if (strcmp(word, "plan") == 0)
        return call("Plan", argument, true);
    if (strcmp(word, "release") == 0)
        return call("Release", argument, false);
    if (strcmp(word, "adopt") == 0)
        return call("Adopt", argument, false);
    if (strcmp(word, "show") == 0)
        return show(argument);
    if (strcmp(word, "reclaim") == 0)
        return call("Reclaim", argument, false);
    return -EINVAL;
}

static int
on_input(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
    static char line[1024];
    static size_t length;
    char *end;
    ssize_t n = read(fd, line + length, sizeof(line) - 1 - length);
    int r;

    if (n <= 0) {
        at_end = true;
        return due == 0 ? sd_event_exit(event, 0) : sd_event_source_set_enabled(source, SD_EVENT_OFF);
    }
    length += (size_t)n;
    line[length] = '\0';
    while ((end = strchr(line, '\n'))) {
        *end++ = '\0';
        r = obey(line);
        if (r < 0) {
            printf("%s the command was not carried out\n", strerrorname_np(-r));
            fflush(stdout);
        }
        length -= (size_t)(end - line);
        memmove(line, end, length + 1);
    }
    return 0;
}

int
main(void)
{
    int r = sd_event_default(&event);

    if (r >= 0)
        r = sd_bus_open_system(&bus);
    if (r >= 0)
        r = sd_bus_attach_event(bus, event, SD_EVENT_PRIORITY_NORMAL);
    if (r >= 0)
        r = sd_bus_match_signal(bus, NULL, NAME, PATH, NAME, "AssignmentRemoved", on_removed, NULL);
    if (r >= 0)
        r = sd_event_add_io(event, NULL, STDIN_FILENO, EPOLLIN, on_input, NULL);
    if (r >= 0)
        r = sd_event_loop(event);
    if (r < 0)
        fprintf(stderr, "consumer: %s\n", strerror(-r));
    sd_bus_flush_close_unref(bus);
    sd_event_unref(event);
    return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
