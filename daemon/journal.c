/* SPDX-License-Identifier: LGPL-2.1-or-later */
#define SD_JOURNAL_SUPPRESS_LOCATION
#include "journal.h"

#include "error.h"

#include <string.h>
#include <syslog.h>
#include <systemd/sd-journal.h>

static const struct {
    const char *message_id;
    int priority;
    const char *what;
} changes[] = {
    {VGPU_MESSAGE_ASSIGNED, LOG_INFO, "assigned"},
    {VGPU_MESSAGE_ADOPTED, LOG_INFO, "adopted"},
    {VGPU_MESSAGE_LINGERING, LOG_NOTICE, "kept, still open after its owner left"},
    {VGPU_MESSAGE_FAILED, LOG_ERR, "could not be cleared"},
    {VGPU_MESSAGE_ENDED, LOG_INFO, "ended"},
};

void
vgpu_journal_change(const char *message_id, const VgpuAssignment *assignment, const char *reason,
                    const char *result)
{
    g_autofree char *label = vgpu_text_printable(assignment->label);
    const char *name = assignment->device->name ? assignment->device->name : assignment->device->type_id;

    for (gsize i = 0; i < G_N_ELEMENTS(changes); i++) {
        if (strcmp(changes[i].message_id, message_id) != 0)
            continue;
        sd_journal_send("MESSAGE=%s on %s %s (uid %u%s%s)%s%s", name, vgpu_assignment_device_name(assignment),
                        changes[i].what, assignment->uid, *label ? ", " : "", label, reason ? ": " : "",
                        reason ? reason : "", "MESSAGE_ID=%s", message_id, "PRIORITY=%i", changes[i].priority,
                        "VGPU_ID=%s", assignment->id, "VGPU_PROFILE=%s", name, "VGPU_DEVICE=%s",
                        vgpu_assignment_device_name(assignment), "VGPU_UID=%u", assignment->uid,
                        "VGPU_OWNER=%s", assignment->owner, "VGPU_REASON=%s", reason ? reason : "",
                        "VGPU_RESULT=%s", result ? result : "done", NULL);
    }
}
