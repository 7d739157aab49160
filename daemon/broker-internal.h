/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "broker.h"
#include "names.h"
#include "usage.h"

/* What the files of the broker share. broker.c looks at the host and keeps the records, broker-assign.c gives
 * out, broker-clear.c takes back. */
struct _VgpuBroker {
    const VgpuConfig *config;
    VgpuStore *store;
    VgpuOwners *owners;
    VgpuWorker *worker;
    sd_event *event;
    char *bus_id;
    const VgpuBrokerHooks *hooks;
    gpointer user_data;

    VgpuAssignments *assignments;
    VgpuNames *names;
    VgpuInventory *inventory; /* of the last scan; NULL before the first */
    gint64 scanned;           /* monotonic µs; 0: stale */
    GHashTable *guards;       /* id -> Guard */
    GHashTable *seen;         /* VFIO group -> monotonic µs of the last udev event of it */
    GPtrArray *settling;      /* calls of Assign that wait for udev */
    GPtrArray *questions;     /* about owners of records that were found; each is freed with its answer */
    guint save_again;         /* timer after a state file that could not be written */
    guint lost;               /* idle source that ends what a scan found to be lost */
    gboolean stopped;
};

/* What is done about one assignment over time; not on disk. */
typedef struct {
    VgpuBroker *broker;
    char *id;
    VgpuWatch *watch; /* of its group node; NULL when there is none */
    guint timer;      /* of the next try to clear it */
    guint pause_ms;   /* before that try */
    gboolean closed;  /* a close was seen while an operation was under way */
    gboolean ended;   /* the end of a holder was */
    gpointer taking;  /* a try to take it that nobody asked for: others may join it, or call it off */
    gboolean looking; /* holders are being looked for */
    gboolean look_again;
    gboolean look_missed;    /* when looking again */
    gboolean written;        /* a clear was under way when an earlier run of the service was killed */
    gboolean said_lingering; /* in the journal: once, however often it is tried */
} Guard;

/* The record's guard, made when missing. */
Guard *broker_guard(VgpuBroker *broker, const VgpuAssignment *assignment);

void broker_guard_free(gpointer guard);

/* Finds out who has the device of @assignment open, in a worker, and shows it. @missed: opens and closes may
 * have been missed, so what is found says what is shown. */
void broker_look_for_holders(VgpuBroker *broker, const VgpuAssignment *assignment, gboolean missed);

/* Starts to watch the node of @assignment anew: events of before are forgotten. */
void broker_watch(VgpuBroker *broker, VgpuAssignment *assignment);

/* Writes all records to disk. broker_record() fails with a sentence for the caller of what could not be
 * recorded; broker_save() keeps trying after a failure, which it logs, and says whether it is done. */
gboolean broker_record(VgpuBroker *broker, GError **error);
gboolean broker_save(VgpuBroker *broker);

/* What the properties say is different now, and so may be the host. */
void broker_changed(VgpuBroker *broker);

/* Adds a record and watches its owner; FALSE when it cannot be put on disk, and then it is gone again. */
gboolean broker_add(VgpuBroker *broker, VgpuAssignment *assignment, GError **error);

/* Takes the record off, in memory and on disk. Frees @assignment. */
void broker_forget(VgpuBroker *broker, VgpuAssignment *assignment);

/* The same, and says so on the bus and in the journal. */
void broker_end(VgpuBroker *broker, VgpuAssignment *assignment, VgpuEnding ending);

/* Tries to take the device of @assignment and to clear it; @ending is what it then ends with. @done may be
 * NULL. An assignment with an operation under way is refused with BUSY. */
void broker_clear(VgpuBroker *broker, VgpuAssignment *assignment, VgpuEnding ending, VgpuBrokerDone done,
                  gpointer user_data);

/* Goes on where a set went wrong, or its caller left: clears @target, which was taken with @take. Owns both.
 */
void broker_clear_taken(VgpuBroker *broker, VgpuAssignment *assignment, VgpuTarget *target, VgpuTake *take,
                        VgpuBrokerDone done, gpointer user_data);

/* Does what is owed after an event: tries again later, or at once. */
void broker_clear_later(VgpuBroker *broker, VgpuAssignment *assignment);

/* Gives its uid access to its group node, unless that is root; withdraws it again. FALSE with an error. */
gboolean broker_grant(VgpuAssignment *assignment, GError **error);
gboolean broker_withdraw(VgpuAssignment *assignment, GError **error);

/* Withdraws what has ended or has no owner any more; a failure shows again, and counts, in a clear. */
void broker_withdraw_and_log(VgpuAssignment *assignment);

/* Why @assignment is cleared when nobody asked for it. */
VgpuEnding broker_own_ending(const VgpuAssignment *assignment);

/* vgpu_broker_check() against @host. */
gboolean broker_check_on(VgpuBroker *broker, const VgpuHost *host, const VgpuRequest *request,
                         char **ret_name, GError **error);

/* The placement policy that is configured. */
VgpuPolicy broker_policy(const VgpuBroker *broker);

/* A new random id, free for the caller to take. */
char *broker_new_id(void);
