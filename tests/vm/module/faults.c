// SPDX-License-Identifier: GPL-2.0
/*
 * Faults by module parameter, and what the module has seen. All are files in
 * /sys/module/vgpu_stand_in/parameters, so that a test needs nothing but a shell:
 *
 *   fail_set, fail_clear, fail_create  "ERRNO [COUNT]": the next COUNT (1) such writes answer -ERRNO
 *   hold                               bits of 1 << write_kind: such writes wait until the bit is cleared
 *   other_type                         the next set takes this type instead
 *   plugin_exit_ms, busy_wait_ms       see stand-in.h
 *   enable_device                      see stand-in.h
 *   writes                             every write so far, one a line; writing anything empties it
 *   opens                              how many opens of a device so far
 *   violations                         what must never happen and did, one a line
 */
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/wait.h>

#include "stand-in.h"

/* The service's process, which must never open a device itself: the driver would book it as the VM. */
#define SERVICE_COMM "hypeman-vgpud"

struct fault {
    int error;
    int count;
};

/* The newest text that fits in one page, as that is what a parameter can show. */
struct text {
    char *buffer;
    size_t length;
};

static DEFINE_MUTEX(lock);
static struct fault fail[4];
static struct text writes, violations;
static unsigned int opens;
static unsigned int other_type;
static unsigned int hold;
static DECLARE_WAIT_QUEUE_HEAD(held);

unsigned int plugin_exit_ms;
unsigned int busy_wait_ms = 5000;
bool enable_device;
char *cards;

static const char *const kind_names[] = {"set", "clear", "create", "remove"};

static __printf(2, 0) void text_add(struct text *text, const char *format, va_list args)
{
    char line[160];
    size_t length = vscnprintf(line, sizeof(line), format, args);

    mutex_lock(&lock);
    if (!text->buffer)
        text->buffer = kzalloc(PAGE_SIZE, GFP_KERNEL);
    if (text->buffer) {
        /* Whole old lines make room for new ones. */
        while (text->length + length >= PAGE_SIZE) {
            char *end = strchr(text->buffer, '\n');
            size_t cut = end ? end + 1 - text->buffer : text->length;

            memmove(text->buffer, text->buffer + cut, text->length - cut + 1);
            text->length -= cut;
        }
        memcpy(text->buffer + text->length, line, length + 1);
        text->length += length;
    }
    mutex_unlock(&lock);
}

static __printf(2, 3) void text_addf(struct text *text, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    text_add(text, format, args);
    va_end(args);
}

int
fault_before_write(enum write_kind kind)
{
    int error = 0;

    wait_event(held, !(READ_ONCE(hold) & BIT(kind)));
    mutex_lock(&lock);
    if (fail[kind].count > 0) {
        fail[kind].count--;
        error = -fail[kind].error;
    }
    mutex_unlock(&lock);
    return error;
}

void
fault_log_write(enum write_kind kind, const char *device, const char *value, int result)
{
    text_addf(&writes, "%s %s %s %d %s/%d\n", kind_names[kind], device, value, result,
              current->group_leader->comm, task_tgid_nr(current));
}

unsigned int
fault_other_type(void)
{
    return xchg(&other_type, 0);
}

void
fault_violation(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    text_add(&violations, format, args);
    va_end(args);
}

void
fault_opened(const char *device)
{
    mutex_lock(&lock);
    opens++;
    mutex_unlock(&lock);
    if (strcmp(current->group_leader->comm, SERVICE_COMM) == 0)
        fault_violation("the service itself opened %s\n", device);
}

static int
fault_set(const char *value, const struct kernel_param *param)
{
    struct fault *fault = param->arg, new = {.count = 1};

    if (sscanf(value, "%d %d", &new.error, &new.count) < 1 || new.error < 0 || new.error > 4095)
        return -EINVAL;
    mutex_lock(&lock);
    *fault = new;
    mutex_unlock(&lock);
    return 0;
}

static int
fault_get(char *buffer, const struct kernel_param *param)
{
    struct fault *fault = param->arg;

    return sysfs_emit(buffer, "%d %d\n", fault->error, fault->count);
}

static int
text_set(const char *value, const struct kernel_param *param)
{
    struct text *text = param->arg;

    mutex_lock(&lock);
    if (text->buffer)
        text->buffer[0] = '\0';
    text->length = 0;
    mutex_unlock(&lock);
    return 0;
}

static int
text_get(char *buffer, const struct kernel_param *param)
{
    struct text *text = param->arg;
    int length;

    mutex_lock(&lock);
    length = sysfs_emit(buffer, "%s", text->buffer ? text->buffer : "");
    mutex_unlock(&lock);
    return length;
}

static void
text_free(void *arg)
{
    struct text *text = arg;

    kfree(text->buffer);
}

static int
hold_set(const char *value, const struct kernel_param *param)
{
    int error = param_set_uint(value, param);

    wake_up_all(&held);
    return error;
}

static const struct kernel_param_ops fault_ops = {.set = fault_set, .get = fault_get};
static const struct kernel_param_ops text_ops = {.set = text_set, .get = text_get, .free = text_free};
static const struct kernel_param_ops hold_ops = {.set = hold_set, .get = param_get_uint};

module_param_cb(fail_set, &fault_ops, &fail[WRITE_SET], 0644);
module_param_cb(fail_clear, &fault_ops, &fail[WRITE_CLEAR], 0644);
module_param_cb(fail_create, &fault_ops, &fail[WRITE_CREATE], 0644);
module_param_cb(hold, &hold_ops, &hold, 0644);
module_param(other_type, uint, 0644);
module_param(plugin_exit_ms, uint, 0644);
module_param(busy_wait_ms, uint, 0644);
module_param(enable_device, bool, 0644);
module_param(cards, charp, 0444);
module_param_cb(writes, &text_ops, &writes, 0644);
module_param_cb(violations, &text_ops, &violations, 0644);
module_param(opens, uint, 0644);
