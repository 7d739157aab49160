/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "bed.h"

#define FUSE_USE_VERSION 314
#include <fuse_lowlevel.h>

/* How the bed is built. One mutex (bed->lock) guards the whole model; functions here expect it held unless
 * they say otherwise. Nodes and devices are never freed before the bed: a process may still have them open.
 *
 * Threads: `driver` answers FUSE requests; `clock` runs what is due later; `herald` sends uevents and tells
 * the kernel of nodes that went; `door` answers the preload's ioctl sockets. The driver never touches the
 * mount, and never waits: a write that has to block is kept as a Write and answered later by whoever unblocks
 * it. */

typedef struct Node Node;
typedef struct Device Device;
typedef struct Type Type;
typedef struct Group Group;
typedef struct Opening Opening;
typedef struct Write Write;
typedef struct Herald Herald;
typedef struct Clock Clock;
typedef struct Door Door;

/* ---- tree.c: files without behaviour ---- */

/* What an attribute reads: appends to @text, 0 or a negative errno. */
typedef int (*Show)(Bed *bed, Node *node, GString *text);

/* What a write does: 0, a negative errno, or BED_LATER when write_done() is called for it later. */
typedef int (*Store)(Bed *bed, Node *node, Write *write);
#define BED_LATER 1

typedef enum { NODE_DIR, NODE_FILE, NODE_LINK, NODE_GROUP, NODE_CDEV, NODE_CONTAINER } NodeKind;

struct Node {
    NodeKind kind;
    uint64_t id;  /* the kernel's name for it; never reused */
    uint64_t ino; /* what stat says: another node's for a node made elsewhere */
    mode_t mode;
    uid_t uid;
    gid_t gid;
    char *name;
    Node *parent;
    GHashTable *children; /* name → Node */
    char *text;           /* of a link or a constant file */
    Show show;
    Store store;
    gpointer owner; /* Device, Group…: what show and store are about */
    gpointer extra; /* Type */
    char *says;     /* overrides what it reads */
    int fails;      /* errno of every read */
    GBytes *acl;
    gboolean gone;
};

Node *node_dir(Bed *bed, Node *parent, const char *name);
Node *node_text(Bed *bed, Node *parent, const char *name, mode_t mode, const char *text);
Node *node_attr(Bed *bed, Node *parent, const char *name, mode_t mode, Show show, Store store,
                gpointer owner);
Node *node_device(Bed *bed, Node *parent, const char *name, NodeKind kind, mode_t mode, gpointer owner);
/* A link with a relative target, as sysfs makes them. */
Node *node_link(Bed *bed, Node *parent, const char *name, Node *target);
Node *node_twin(Bed *bed, Node *parent, const char *name, Node *other);
/* Takes it and all below out of the tree; NULL is fine. */
void node_remove(Bed *bed, Node *node);
Node *node_child(Node *dir, const char *name);
/* @path from the root, following no links; makes missing directories if @make. */
Node *node_at(Bed *bed, const char *path, gboolean make);
char *node_path(Node *node);
void node_free(Node *node);

/* ---- vfio.c ---- */

struct Opening {
    Node *node;
    Group *group;    /* of a group node */
    Device *device;  /* of a cdev */
    gboolean opened; /* has the device behind the group, or bound the cdev */
    pid_t pid, tid;
    GString *text; /* of an attribute: what the last read from 0 gave */
    char *path;
};

struct Group {
    unsigned number;
    gboolean noiommu;
    Node *dir;       /* /sys/kernel/iommu_groups/<n> */
    Node *class_dev; /* /sys/devices/virtual/vfio/<n> */
    Node *node;      /* /dev/vfio/<n> */
    unsigned minor;
    GPtrArray *devices; /* in it */
    Opening *opening;
    gboolean kept_busy;
    gint64 busy_until;
    unsigned close_lag_ms;
    int open_error;
};

Group *group_new(Bed *bed);
void group_add(Bed *bed, Group *group, Device *device);
void group_leave(Bed *bed, Device *device);
/* Registers and unregisters a device with VFIO: vfio-dev/, the group's class device and the nodes. */
void vfio_register(Bed *bed, Device *device);
void vfio_unregister(Bed *bed, Device *device);
int group_open(Bed *bed, Node *node, Opening *opening);
int cdev_open(Bed *bed, Node *node, Opening *opening);
void opening_release(Bed *bed, Opening *opening);
int opening_ioctl(Bed *bed, Opening *opening, unsigned cmd);
/* The device behind the group is open, in whatever way. */
gboolean device_is_open(Device *device);
/* The same, or its cdev is open: what an mdev's remove waits for. */
gboolean device_is_referenced(Device *device);

/* ---- devices ---- */

typedef enum { DEVICE_CARD, DEVICE_VF, DEVICE_MDEV, DEVICE_OTHER } DeviceKind;

struct Type {
    unsigned id;
    char *sysfs; /* nvidia-231 */
    char *name;
    uint64_t framebuffer_mib;
    unsigned max;
    char *description;
    unsigned low_gm, high_gm; /* GVT-g */
};

struct Device {
    Bed *bed;
    DeviceKind kind;
    char *name;
    gboolean gone;
    Node *dir;
    Device *card;   /* of a VF or an mdev; a card itself */
    Device *parent; /* of an mdev */
    Group *group;
    unsigned reads_while_written;
    unsigned writes; /* to its attributes, under way */

    /* VFIO */
    int vfio_dev; /* the N of vfioN, -1: none */
    Node *vfio_dir, *vfio_class;
    Node *cdev;
    unsigned cdev_minor;
    GPtrArray *cdev_openings;
    unsigned opens; /* openings that have the device */
    unsigned plugin_ms;
    gint64 plugin_until;

    /* card */
    BedFramework framework;
    uint16_t vendor, device;
    uint32_t class;
    unsigned total_vfs, numvfs, offset;
    uint64_t framebuffer_mib;
    int numa_node;
    GPtrArray *types;
    GPtrArray *vfs;
    gboolean mixed;
    gboolean nameless; /* mdev types without `name` */
    int remove_error;
    char *catalogue; /* of a card or VF: what it says instead */

    /* VF */
    unsigned index;
    Node *nvidia;
    unsigned type;
    char *params;
    unsigned clear_busy_ms;
    gint64 clear_busy_until;

    /* mdev parent and mdev */
    Node *types_dir;
    GPtrArray *mdevs;
    Type *mdev_type;
    GPtrArray *removers; /* Write: blocked removes */
};

Device *device_new(Bed *bed, DeviceKind kind, const char *name);
/* The device called @where, or whose node it is; NULL: none. */
Device *device_find(Bed *bed, const char *where);
/* The same; aborts the test if there is none. */
Device *device_get(Bed *bed, const char *where);
/* A rule for @where applies to @device: it is NULL, the device, its parent or its card. */
gboolean device_matches(Device *device, const char *where);
/* The directory of a PCI function with all that any has. */
void pci_register(Bed *bed, Device *device, uint16_t vendor, uint16_t id, uint32_t class, int numa,
                  const char *driver);
void pci_unregister(Bed *bed, Device *device);
/* Makes @device's `uevent` file, `subsystem` link and its link in @links (/sys/bus/…/devices or
 * /sys/class/…). */
void device_node_register(Bed *bed, Node *dir, const char *subsystem, const char *links, const char *uevent);

void vendor_setup(Bed *bed, Device *vf);
void vendor_teardown(Bed *bed, Device *vf);
int vendor_set(Bed *bed, Device *vf, unsigned type);

void mdev_parent_setup(Bed *bed, Device *parent);
void mdev_parent_teardown(Bed *bed, Device *parent);
int mdev_create(Bed *bed, Device *parent, Type *type, const char *uuid);
void mdev_remove(Bed *bed, Device *mdev);
/* Lets blocked removes go on that wait for nothing any more. */
void mdev_unblock(Bed *bed, Device *mdev);

/* Types of a file in tests/data. */
GPtrArray *types_read(const char *file, const char *address);
Type *types_find(GPtrArray *types, unsigned id);

/* ---- writes.c: faults, stalls, answers ---- */

struct Write {
    Bed *bed;
    fuse_req_t req;
    Node *node;
    Device *device; /* that the attribute belongs to; NULL: none of ours */
    BedOp op;
    gboolean is_op; /* op is meant */
    char *value;
    size_t size;
    BedTraceEntry *entry;
    gboolean stalled, stalled_after;
    int result;
};

/* A write came in. */
void write_begin(Bed *bed, fuse_req_t req, Opening *opening, const char *data, size_t size);
/* Its outcome is known: 0 or a negative errno. */
void write_done(Write *write, int result);
/* Called by a store before it acts: 0: go on; else what to answer. Sets *@ret_half if it should act all the
 * same. */
int fault_answer(Bed *bed, Device *device, BedOp op, gboolean *ret_half);
gboolean fault_takes_instead(Bed *bed, Device *device, unsigned *ret_type);
gboolean fault_rival(Bed *bed, Device *device, unsigned *ret_type);
void writes_abandon(Bed *bed);
/* A write of 0 is a clear, a UUID a create… */
void write_classify(Write *write);

/* ---- trace.c ---- */

BedTraceEntry *trace_add(Bed *bed, BedTraceKind kind, const char *path, const char *devices,
                         const char *value, pid_t tid);
void trace_end(Bed *bed, BedTraceEntry *entry, int error);
void trace_entry_free(BedTraceEntry *entry);
pid_t process_of_thread(pid_t tid);

/* ---- herald.c ---- */

Herald *herald_new(Bed *bed);
void herald_free(Herald *herald);
/* Queues a uevent of a directory as it is now; @extra: more properties, one a line, or NULL. */
void herald_uevent(Bed *bed, Node *dir, const char *action, const char *extra);
/* Queues word to the kernel that a node went. */
void herald_gone(Bed *bed, Node *node);
/* Without the lock. */
void herald_settle(Herald *herald);

/* ---- clock.c ---- */

typedef void (*Tick)(Bed *bed, gpointer data);
Clock *clock_new(Bed *bed);
void clock_free(Clock *clock);
/* Runs @tick with the lock held, at monotonic time @due. */
void clock_at(Bed *bed, gint64 due, Tick tick, gpointer data);

/* ---- door.c ---- */

Door *door_new(const char *root);
void door_free(Door *door);

/* ---- acl.c ---- */

/* @value is what the kernel passes to setxattr. */
void node_set_acl(Node *node, const char *value, gsize size);
/* As chmod does: with an ACL, the group's bits are its mask. */
void node_chmod(Node *node, mode_t mode);

/* ---- driver.c ---- */

void opening_free(gpointer opening);
void driver_start(Bed *bed);
void driver_stop(Bed *bed);

struct Bed {
    GMutex lock;
    GCond changed; /* anything a wait could be about */
    BedOptions options;
    char *root;
    char *mount;

    struct fuse_session *session;
    int stop_fd;
    GThread *driver;
    Herald *herald;
    Clock *clock;
    Door *door;

    Node *tree;
    GHashTable *nodes; /* id → Node, also gone ones */
    uint64_t last_id;
    GHashTable *devices;  /* name → Device */
    GPtrArray *graveyard; /* every Device there ever was */
    GPtrArray *old_groups;
    GPtrArray *groups;     /* those there are */
    GHashTable *openings;  /* Opening, while open */
    GPtrArray *type_lists; /* every list of types, for the strings in them */
    unsigned late_ms;
    gboolean muted;

    GPtrArray *faults;
    GPtrArray *parked; /* Write: stalled */
    GPtrArray *trace;
    GPtrArray *violations;
    GPtrArray *holders;
    GPtrArray *binds;   /* extra mount points to undo */
    unsigned elsewhere; /* count of nodes made there */
};
