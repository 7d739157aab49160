/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "framework.h"

#include <glib.h>

/* The records of what was handed out, and the one table that says what each event means for them. Pure: no
 * I/O, no bus. Main thread. */

typedef enum {
    VGPU_STATE_ASSIGNING, /* record on disk, hardware being set, no reply yet */
    VGPU_STATE_ASSIGNED,
    VGPU_STATE_IN_USE,    /* as assigned, and an open was seen; its absence proves nothing */
    VGPU_STATE_LINGERING, /* owner gone, still open */
    VGPU_STATE_RELEASING, /* proved unused, being cleared */
    VGPU_STATE_FAILED,    /* a clear did not succeed; never written again by itself */
} VgpuState;

typedef enum {
    VGPU_EVENT_SET, /* the hardware is set and the caller may have it */
    VGPU_EVENT_OWNER_VANISHED,
    VGPU_EVENT_ADOPTED,
    VGPU_EVENT_RELEASE, /* somebody who may asks for it back */
    VGPU_EVENT_RECLAIM,
    VGPU_EVENT_OPENED,
    VGPU_EVENT_CLOSED,     /* perhaps the last holder */
    VGPU_EVENT_TAKEN,      /* proved unused, and ours alone until let go */
    VGPU_EVENT_FOUND_OPEN, /* or not to be proved unused */
    VGPU_EVENT_CLEARED,
    VGPU_EVENT_CLEAR_IN_USE, /* the driver says that it is open */
    VGPU_EVENT_CLEAR_BUSY,   /* EBUSY for so long that it counts as failed; may be repeated */
    VGPU_EVENT_CLEAR_FAILED, /* never to be repeated */
    VGPU_EVENT_LOST,         /* the device is gone, reads another type, or was made anew */
    VGPU_N_EVENTS,
} VgpuEvent;

/* What is owed after an event. */
typedef enum {
    VGPU_DUTY_NONE,
    VGPU_DUTY_REFUSE,         /* whoever asked gets the error */
    VGPU_DUTY_CLEAR,          /* try to take it, then clear it */
    VGPU_DUTY_CLEAR_LATER,    /* the same, again with growing pauses, and at the next close */
    VGPU_DUTY_CLEAR_ONCE_SET, /* when the write under way has returned */
    VGPU_DUTY_FORGET,         /* drop the record; nobody knows it */
    VGPU_DUTY_END,            /* drop the record and say so, with its ending */
    VGPU_DUTY_LOSE,           /* withdraw access, drop the record, say `lost`; never write */
} VgpuDuty;

/* Why an assignment ends, in the words of AssignmentRemoved. */
typedef enum {
    VGPU_ENDING_NONE,
    VGPU_ENDING_RELEASED,
    VGPU_ENDING_OWNER_VANISHED,
    VGPU_ENDING_RECLAIMED,
    VGPU_ENDING_LOST,
} VgpuEnding;

typedef struct {
    char *id;
    VgpuState state;
    const VgpuFramework *framework;
    char *card;         /* address */
    VgpuDevice *device; /* with what was recorded of it: type, name, group, inodes */
    char *owner;        /* unique bus name; stays when the owner has gone */
    gboolean owner_gone;
    guint32 uid;
    guint32 pid;
    char *label;         /* NULL for none */
    gint64 since;        /* µs CLOCK_REALTIME */
    VgpuEnding ending;   /* why it is being cleared */
    char *error;         /* what failed, for people */
    char **holders;      /* "pid comm" of the last scan */
    gboolean may_repeat; /* failed, but with EBUSY only */
    gboolean access;     /* its uid has an ACL entry on the group node */

    gboolean told;    /* somebody was given the id */
    gboolean foreign; /* not handed out here: being reclaimed */

    /* Not on disk: */
    gboolean busy;    /* an operation on it is under way */
    gboolean writing; /* a write is under way or about to be: nobody reads its attributes */
} VgpuAssignment;

VgpuAssignment *vgpu_assignment_new(void);
void vgpu_assignment_free(VgpuAssignment *assignment);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(VgpuAssignment, vgpu_assignment_free)

/* Moves @assignment to the state that the table gives for @event and returns what is owed. With
 * VGPU_DUTY_REFUSE nothing has changed and @error is set; else @error is untouched. */
VgpuDuty vgpu_assignment_event(VgpuAssignment *assignment, VgpuEvent event, GError **error);

/* Whether the bus may know of it: its id was told, or it needs somebody's help. */
gboolean vgpu_assignment_is_visible(const VgpuAssignment *assignment);

/* Whether somebody has it, and may keep it: its owner lives, and it is assigned or in use. */
gboolean vgpu_assignment_has_owner(const VgpuAssignment *assignment);

/* BUSY: an operation on it is under way. */
void vgpu_assignment_set_busy(const VgpuAssignment *assignment, GError **error);

/* What people call its device: the UUID of an mdev, else the address. Borrowed. */
const char *vgpu_assignment_device_name(const VgpuAssignment *assignment);

/* Names as on the bus and on disk; static. From a name: FALSE when it is none. */
const char *vgpu_state_name(VgpuState state);
gboolean vgpu_state_from_name(const char *name, VgpuState *ret_state);
const char *vgpu_ending_name(VgpuEnding ending);
gboolean vgpu_ending_from_name(const char *name, VgpuEnding *ret_ending);

/* All records of the service. */
typedef struct _VgpuAssignments VgpuAssignments;
VgpuAssignments *vgpu_assignments_new(void);
void vgpu_assignments_free(VgpuAssignments *assignments);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(VgpuAssignments, vgpu_assignments_free)

/* Takes @assignment, whose id must be new. */
void vgpu_assignments_add(VgpuAssignments *assignments, VgpuAssignment *assignment);
/* Frees @assignment and notes when its slot was given back. */
void vgpu_assignments_remove(VgpuAssignments *assignments, VgpuAssignment *assignment);
/* NULL when there is none; borrowed. */
VgpuAssignment *vgpu_assignments_get(VgpuAssignments *assignments, const char *id);
VgpuAssignment *vgpu_assignments_find_device(VgpuAssignments *assignments, const char *slot,
                                             const char *uuid);
/* All, oldest first: a new array of borrowed records, which stays valid while records come and go elsewhere
 * only as long as nothing removes them. */
GPtrArray *vgpu_assignments_list(VgpuAssignments *assignments);
/* How many count in the limit of @uid: all of them, also lingering and failed ones. */
guint vgpu_assignments_count_uid(VgpuAssignments *assignments, guint32 uid);
/* When @slot was last given back, as a counter that grows; 0 for never. */
guint64 vgpu_assignments_given_back(VgpuAssignments *assignments, const char *slot);
