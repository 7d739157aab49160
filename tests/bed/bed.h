/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib.h>
#include <stdint.h>
#include <sys/types.h>

/* The bed: a host that answers. /sys and /dev/vfio of a machine with vGPU cards, kept in memory, served by a
 * FUSE driver in a thread of the test process, and seen by every process that runs with bed_environ(). It
 * refuses, blocks and shrinks catalogues as the real drivers do, logs every write, and fails on request.
 *
 * Every function may be called from any thread of the test process, but never between fork and exec. A wrong
 * use (an unknown device, a missing data file) aborts the test with a message.
 *
 * `where` names a device: the PCI address of a VF or a card, an mdev's UUID, or a node as "/dev/vfio/40".
 * Where a rule is set up, a card's address means all its VFs and mdevs, and NULL the whole host. */

typedef struct Bed Bed;
typedef struct BedHolder BedHolder;

/* ---- The world around the bed ---- */

/* Makes mount and PID namespaces of their own (with their /proc, and a tmpfs that TMPDIR names), runs @run
 * there, and returns its exit status, or 128 + signal. When @run ends, or the caller dies, every process
 * started there dies and every mount goes. Call it first in main(), before any thread. Needs root and
 * /dev/fuse: without them it says so and returns 1. */
int bed_main(int argc, char **argv, int (*run)(int argc, char **argv));

/* How much slower than usual this run is: $VGPU_TEST_SLOW, 1 by default. */
double bed_slow(void);

/* The monotonic time (as g_get_monotonic_time) at which a wait of @seconds gives up, stretched by bed_slow().
 */
gint64 bed_deadline(double seconds);

typedef struct {
    gboolean cdev;      /* kernel with /dev/vfio/devices/vfioN and /dev/iommu */
    gboolean no_groups; /* kernel without VFIO groups: no /sys/class/vfio/<n>, no group node; implies cdev */
    gboolean noiommu;   /* groups are noiommu groups, nodes are /dev/vfio/noiommu-<n> */
    gboolean mdev_bus;  /* /sys/class/mdev_bus exists although nothing is in it */
} BedOptions;

/* An empty host. @options may be NULL: groups, no cdevs. Only below bed_main(). */
Bed *bed_new(const BedOptions *options);

/* Ends all holders, lets stalled writers go with ENODEV, and takes the host away. Processes that still use it
 * get errors from then on. */
void bed_free(Bed *bed);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Bed, bed_free)

/* The directory for UMOCKDEV_DIR. */
const char *bed_root(Bed *bed);

/* Where the test process itself, which runs without the preload, finds "/sys/…" or "/dev/vfio/…"; a path that
 * does not start with / is below the device it begins with ("0000:3b:00.4/nvidia/current_vgpu_type"). The
 * caller frees it. */
char *bed_path(Bed *bed, const char *path);

/* @base (NULL: our own environment) with UMOCKDEV_DIR and LD_PRELOAD set for a process that is to see the
 * host. Free with g_strfreev(). */
char **bed_environ(Bed *bed, char **base);

/* The value of LD_PRELOAD for such a process: umockdev's library, after libasan where this process uses it.
 * The caller frees it. */
char *bed_preload(void);

/* Waits until all uevents so far are sent. Functions below that change the host do so themselves; only what a
 * write of another process caused needs it. */
void bed_settle(Bed *bed);

/* No uevents from now on (@mute), as under PrivateNetwork= or without udev. */
void bed_mute_uevents(Bed *bed, gboolean mute);

/* Sends a uevent of @action for the directory @path ("/sys/…" or a device). */
void bed_uevent(Bed *bed, const char *path, const char *action);

/* ---- Cards ---- */

typedef enum {
    BED_VENDOR_VFIO, /* VFs with nvidia/current_vgpu_type */
    BED_MDEV_CARD,   /* the card is the mdev parent */
    BED_MDEV_VFS,    /* each VF is an mdev parent with room for one */
    BED_GVTG,        /* an Intel GVT-g mdev parent */
    BED_PLAIN,       /* a display controller that offers nothing */
} BedFramework;

typedef struct {
    BedFramework framework;
    const char *types; /* file in tests/data: .types.tsv, .list or .mdev.tsv; NULL for BED_PLAIN */
    uint16_t vendor;   /* 0: 0x10de */
    uint16_t device;
    uint32_t class;           /* 0: 0x030200 */
    unsigned total_vfs;       /* sriov_totalvfs; 0: no SR-IOV */
    unsigned vfs;             /* sriov_numvfs */
    unsigned offset;          /* of the first VF; 0: 4 */
    uint64_t framebuffer_mib; /* of the card; 0: unlimited */
    int numa_node;
} BedCard;

/* A card of a known @model at @address (any PCI domain) with @vfs VFs enabled (-1: all it has). Models: l40s,
 * a10, a16, a40, h200x (vendor VFIO); a2 (mdev on VFs); t4, v100d, rtx6000 (mdev on the card); gvtg, gvtg-old
 * (Intel, the old kernel has no `name`); plain (offers nothing). A plain string, so that a command line can
 * say it. */
void bed_add_card(Bed *bed, const char *model, const char *address, int vfs);

/* The models that bed_add_card() knows, static, ending in NULL. */
const char *const *bed_models(void);

/* The same with every choice open. */
void bed_add_card_full(Bed *bed, const char *address, const BedCard *card);

/* Hot-unplug: card, VFs, mdevs and nodes go, whatever is open. */
void bed_remove_card(Bed *bed, const char *card);

/* sriov_numvfs written by an administrator: to 0 and back to @vfs. All VFs are new: other inodes, type 0. */
void bed_disable_vfs(Bed *bed, const char *card);
void bed_enable_vfs(Bed *bed, const char *card, unsigned vfs);

/* One VF goes, as when its driver is unbound for good. */
void bed_remove_vf(Bed *bed, const char *vf);

/* Driver unbind and bind on a VF: its directory keeps its inode; nvidia/, vfio-dev/ and the nodes are new
 * ones. The VF then has @type (0, or the same again). */
void bed_reload_driver(Bed *bed, const char *vf, unsigned type);

/* From now on nvidia/ appears only @ms after the vfio events of a VF that is enabled or reloaded, without an
 * event. */
void bed_late_attributes(Bed *bed, unsigned ms);

/* A VF that no VFIO driver is bound to: no iommu_group, no vfio-dev/, no node. */
void bed_vf_without_group(Bed *bed, const char *vf);

/* Puts @device into the IOMMU group of @other. A @device that does not exist becomes a bare PCI function. */
void bed_share_group(Bed *bed, const char *device, const char *other);

/* nvidia-smi vgpu -shm: sizes may be mixed on @card, as far as its framebuffer goes. */
void bed_mix_sizes(Bed *bed, const char *card, gboolean mixed);

/* The catalogue of @where (a VF, or a card for all its VFs, also those to come) is @text, verbatim; NULL: as
 * it really is. What may be set does not change. */
void bed_catalogue_says(Bed *bed, const char *where, const char *text);

/* The attribute file @path (as for bed_path()) reads @text, verbatim; NULL: as it really is. */
void bed_attribute_says(Bed *bed, const char *path, const char *text);

/* Reading the attribute file @path fails with @error; 0: no longer. */
void bed_attribute_fails(Bed *bed, const char *path, int error);

/* ---- What is there (never through the mount) ---- */

/* Does @where exist? */
gboolean bed_exists(Bed *bed, const char *where);

/* The type a VF has now, 0 for none. */
unsigned bed_vf_type(Bed *bed, const char *vf);

/* How many VFs of @card (NULL: of the host) have a type. */
unsigned bed_vfs_set(Bed *bed, const char *card);

/* Wait until @vf has @type; until @n VFs of @card (NULL: of the host) have a type; until there are @n mdevs
 * of @parent (NULL: of the host). FALSE: not in @seconds. */
gboolean bed_wait_type(Bed *bed, const char *vf, unsigned type, double seconds);
gboolean bed_wait_vfs_set(Bed *bed, const char *card, unsigned n, double seconds);
gboolean bed_wait_mdevs(Bed *bed, const char *parent, unsigned n, double seconds);

/* Addresses of all VFs of @card, in order. Free with g_strfreev(). */
char **bed_vfs(Bed *bed, const char *card);

/* UUIDs of all mdevs of @parent (NULL: of the host), sorted. Free with g_strfreev(). */
char **bed_mdevs(Bed *bed, const char *parent);

/* The type of an mdev, as "nvidia-231"; static as long as the bed lives, NULL if there is no such mdev. */
const char *bed_mdev_type(Bed *bed, const char *uuid);

/* IOMMU group number of a device; -1: none. */
int bed_group(Bed *bed, const char *where);

/* "/dev/vfio/40" (or NULL): the group node of a device, as the host says it. The caller frees it. */
char *bed_group_node(Bed *bed, const char *where);

/* "/dev/vfio/devices/vfio3" (or NULL). The caller frees it. */
char *bed_device_node(Bed *bed, const char *where);

/* What stat reports as the inode of @path (as for bed_path()); 0: not there. Never reused in the life of a
 * bed. */
uint64_t bed_inode(Bed *bed, const char *path);

/* ---- By another tool's hand: the same rules, nothing in the trace ---- */

/* Sets (or, with 0, clears) a VF. 0 or a negative errno. */
int bed_set_by_hand(Bed *bed, const char *vf, unsigned type);

/* Creates an mdev of @type ("nvidia-231") on @parent; removes one (-EBUSY while it is in use). 0 or a
 * negative errno. */
int bed_create_by_hand(Bed *bed, const char *parent, const char *type, const char *uuid);
int bed_remove_by_hand(Bed *bed, const char *uuid);

/* An mdevctl definition /etc/mdevctl.d/<parent>/<uuid>, seen in this mount namespace only. @json may be NULL.
 */
void bed_define_mdev(Bed *bed, const char *parent, const char *uuid, const char *json);

/* ---- Faults ---- */

typedef enum {
    BED_SET,    /* a type written to current_vgpu_type */
    BED_CLEAR,  /* 0 written to it */
    BED_CREATE, /* a UUID written to create */
    BED_REMOVE, /* 1 written to an mdev's remove */
} BedOp;

#define BED_ALWAYS (-1)

/* The next @times writes (BED_ALWAYS: all) of kind @op at @where are answered with @error and change nothing.
 */
void bed_fail(Bed *bed, const char *where, BedOp op, int error, int times);

/* The same, but what was asked happens all the same: the driver failed half way. */
void bed_fail_half(Bed *bed, const char *where, BedOp op, int error, int times);

/* The next @times sets succeed, but the VF then reads @type (0: none). */
void bed_takes_instead(Bed *bed, const char *where, unsigned type, int times);

/* Just before the next set, somebody else sets the VF to @type; so that set is refused with EPERM. */
void bed_rival_sets(Bed *bed, const char *where, unsigned type);

/* Clears of @where answer EBUSY for @ms from the first one on (once per call of this function). */
void bed_clear_busy_for(Bed *bed, const char *where, unsigned ms);

/* From now on, when the open device of @where is closed, the VM's plugin needs @ms to exit: until then clears
 * and opens of the device answer EBUSY. */
void bed_plugin_lingers(Bed *bed, const char *where, unsigned ms);

/* A driver that refuses the remove of an mdev in use with @error instead of waiting; 0: it waits. */
void bed_remove_refuses(Bed *bed, const char *card, int error);

/* The next write of kind @op at @where does not return until bed_resume(): before it has any effect, or after
 * it. The writer cannot be killed meanwhile. */
void bed_stall(Bed *bed, const char *where, BedOp op);
void bed_stall_after(Bed *bed, const char *where, BedOp op);

/* The next @times such writes return @ms late, after they have taken effect. */
void bed_delay(Bed *bed, const char *where, BedOp op, unsigned ms, int times);

/* Waits until a write at @where is stalled (or a remove blocked by an open device). FALSE: not in @seconds.
 */
gboolean bed_wait_stalled(Bed *bed, const char *where, double seconds);

/* How many writes are stalled or blocked now at @where. */
unsigned bed_stalled(Bed *bed, const char *where);

/* Lets the stalled writes at @where go on, and drops stalls that wait for a write. */
void bed_resume(Bed *bed, const char *where);

/* Forgets every fault, stall, delay and knob that waits to act. */
void bed_no_more_faults(Bed *bed);

/* ---- Nodes and who has them open ---- */

/* Opening the group node of @where fails with @error; 0: no longer. */
void bed_open_fails(Bed *bed, const char *where, int error);

/* The group of @where stays busy without any descriptor that a scan could find. */
void bed_keep_busy(Bed *bed, const char *where, gboolean busy);

/* The same for the next @ms only. */
void bed_keep_busy_for(Bed *bed, const char *where, unsigned ms);

/* From now on the group node of @where is free only @ms after its close event. */
void bed_close_early(Bed *bed, const char *where, unsigned ms);

/* Owner and mode of the group node, as udev or an administrator sets them; with a mode, udev's "change"
 * follows. */
void bed_chown_node(Bed *bed, const char *where, uid_t uid, gid_t gid);
void bed_reapply_mode(Bed *bed, const char *where, mode_t mode);

/* Another node of the same device and group, as libvirt makes one: stat says the same device and inode, but
 * watches on the first one see nothing. Returns its real path; the caller frees it. */
char *bed_node_elsewhere(Bed *bed, const char *where);

typedef enum {
    BED_HOLD_VM = 0,               /* opens the group and its device, as a VM does */
    BED_HOLD_GROUP_ONLY = 1 << 0,  /* opens the group, never its device */
    BED_HOLD_DEVICE_ONLY = 1 << 1, /* opens both and keeps nothing that /proc/<pid>/fd shows */
    BED_HOLD_CDEV = 1 << 2,        /* opens the cdev and binds it */
    BED_HOLD_CDEV_UNBOUND = 1 << 3,
    BED_HOLD_ELSEWHERE = 1 << 4,   /* through bed_node_elsewhere() */
    BED_HOLD_BIND_MOUNT = 1 << 5,  /* through a bind mount of the node at another path */
    BED_HOLD_OTHER_PIDNS = 1 << 6, /* from a PID namespace below ours */
    BED_HOLD_AS_ROOT = 1 << 7,     /* with @uid: opens as root, and only then becomes @uid */
} BedHold;

/* A real child process that opens the node of @where and keeps it; it returns once the node is open. It is
 * called
 * @comm (NULL: qemu-system-x86; any bytes) and runs as @uid. NULL and @ret_error (may be NULL) if it cannot
 * open it. */
BedHolder *bed_hold_full(Bed *bed, const char *where, BedHold how, const char *comm, uid_t uid,
                         int *ret_error);

/* The usual one: a VM of root. Aborts the test if it cannot open the device. */
BedHolder *bed_hold(Bed *bed, const char *where);

/* Whether @uid can open the group node of @where now. It is free again when this returns; any refusal but
 * EACCES is an assertion. */
gboolean bed_user_can_open(Bed *bed, const char *where, uid_t uid);

pid_t bed_holder_pid(const BedHolder *holder);

/* The holder closes what it holds and lives on. */
void bed_holder_close(BedHolder *holder);

/* The holder ends, by itself or by SIGKILL, and is waited for; @holder is freed. The node may be free a
 * moment later. */
void bed_let_go(BedHolder *holder);
void bed_kill_holder(BedHolder *holder);

/* Waits until nothing keeps the node of @where open. FALSE: not in @seconds. */
gboolean bed_wait_free(Bed *bed, const char *where, double seconds);

/* ---- The trace ---- */

typedef enum {
    BED_TRACE_WRITE = 1 << 0,   /* to any attribute */
    BED_TRACE_OPEN = 1 << 1,    /* of a node below /dev/vfio */
    BED_TRACE_RELEASE = 1 << 2, /* of one, with the pid of who had opened it */
    BED_TRACE_DEVICE = 1 << 3,  /* the device behind a group opened, or a cdev bound, by ioctl */
    BED_TRACE_ALL = 15,
} BedTraceKind;

typedef struct {
    BedTraceKind kind;
    char *path;    /* canonical: /sys/devices/…, /dev/vfio/… */
    char *devices; /* names of the devices it is about, separated by spaces */
    char *value;   /* what was written, as it came; "" otherwise */
    int error;     /* what was answered: 0, an errno, or -1 while there is no answer yet */
    pid_t pid;     /* of the process, not the thread */
    pid_t tid;
    char comm[32];
    gint64 began; /* monotonic, µs */
    gint64 ended;
} BedTraceEntry;

/* Everything so far of @kinds at @where (a device, a card alone, a path, or NULL), oldest first:
 * BedTraceEntry *, free with g_ptr_array_unref(). */
GPtrArray *bed_trace(Bed *bed, BedTraceKind kinds, const char *where);

/* How many there are; @value: only writes of that text (a newline at its end does not count), or NULL. */
unsigned bed_trace_count(Bed *bed, BedTraceKind kinds, const char *where, const char *value);

/* Waits until there are @count of them, answered. FALSE: not in @seconds. */
gboolean bed_trace_wait(Bed *bed, BedTraceKind kinds, const char *where, const char *value, unsigned count,
                        double seconds);

/* Forgets what was traced. */
void bed_trace_reset(Bed *bed);

/* The whole trace as text, for a failed test. The caller frees it. */
char *bed_trace_text(Bed *bed);

/* Rules of the kernel that somebody broke: an attribute of a VF read while a write to it was under way, two
 * writes to a VF at once. One sentence each; free with g_strfreev(). The test process itself is exempt. */
char **bed_violations(Bed *bed);
