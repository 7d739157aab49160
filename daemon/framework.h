/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "sysfs.h"
#include "worker.h"

#include <glib.h>

typedef struct _VgpuFramework VgpuFramework;

/* A kind of vGPU that a slot would take now. */
typedef struct {
    char *id;                /* type id: "1148", "nvidia-231" */
    char *name;              /* profile name: "NVIDIA L40S-2Q", "GRID T4-2Q" */
    guint64 framebuffer_mib; /* 0 when unknown */
    guint max_instances;     /* per card; 0 when unknown */
    guint available;         /* how many of it this slot would take now */
} VgpuType;

/* A vGPU that exists, whoever made it. */
typedef struct {
    char *slot;              /* address of the virtual function or mdev parent */
    char *uuid;              /* of an mdev, else NULL */
    char *type_id;           /* NULL when it could not be read */
    char *name;              /* profile name, NULL when unknown */
    guint64 framebuffer_mib; /* 0 when unknown */
    int iommu_group;         /* -1 when it has none */
    char *group_node;        /* /dev/vfio/<group>, NULL when it has none */
    char *device_node;       /* /dev/vfio/devices/vfio<n>, NULL when the kernel has no cdev */
    guint64 inode;           /* of the directory that holds its attributes */
    guint64 node_inode;      /* of the group node; 0 when it has none */
} VgpuDevice;

/* A place for vGPUs: a virtual function, or an mdev parent. */
typedef struct {
    const VgpuFramework *framework;
    char *address;            /* as the kernel spells it: 0000:3b:00.4 */
    GPtrArray *types;         /* of VgpuType: what it would take now */
    GPtrArray *devices;       /* of VgpuDevice: what is on it */
    gboolean multiple;        /* a card that is itself the parent and takes several */
    int iommu_group;          /* of a virtual function, -1 when it has none */
    gboolean noiommu;         /* its group has no IOMMU behind it */
    guint32 node_uid;         /* whose its group's node is; 0 is root, or there is none */
    char **group_others;      /* other devices of its IOMMU group */
    char *error;              /* why it could not be read, else NULL */
    gboolean stale;           /* it is being written, so this is what an earlier scan found */
    guint64 inode;            /* of its directory */
    guint64 attributes_inode; /* of the directory that its driver made there */
} VgpuSlot;

/* One slot opened for a change: descriptors first, so that what is compared is what is written. */
typedef struct {
    const VgpuFramework *framework;
    VgpuDir *slot;   /* of the virtual function or parent */
    VgpuDir *device; /* the directory with the vGPU's attributes; NULL before an mdev exists */
    char *uuid;      /* of an mdev */
} VgpuTarget;

/* What an answer of the kernel to a write means: the errno table of the two drivers. */
typedef enum {
    VGPU_ANSWER_DONE,
    VGPU_ANSWER_NEXT_SLOT, /* set refused for this slot; nothing changed */
    VGPU_ANSWER_NEXT_CARD, /* set refused, and siblings would answer the same; nothing changed */
    VGPU_ANSWER_RETRY,     /* clear refused for now; nothing changed, may be repeated */
    VGPU_ANSWER_IN_USE,    /* clear refused because it is open; nothing changed */
    VGPU_ANSWER_GONE,      /* the device went away */
    VGPU_ANSWER_FAILED,    /* perhaps half done: never write again */
} VgpuAnswer;

/* How one kernel framework lists, sets, reads and clears. All functions may block; all but list run in a
 * worker's thread, list in the main thread and never while a write on the slot is under way. Errors are of
 * VGPU_SYSFS_ERROR unless said otherwise. */
struct _VgpuFramework {
    const char *name;       /* as the bus says it */
    const char *attributes; /* the directory of a slot that comes and goes with the driver */

    /* Whether the device is a slot of this framework. */
    gboolean (*probe)(const VgpuDir *slot);

    /* Fills types and devices of @slot. @busy: UUIDs of mdevs with a write under way, whose own attributes
     * must not be read (a set of char *), or NULL. */
    gboolean (*list)(const VgpuDir *dir, VgpuSlot *slot, GHashTable *busy, GError **error);

    /* Opens the attributes of the vGPU @uuid (mdev) or of the slot itself; leaves NULL in target->device
     * without an error when there is no such mdev. */
    gboolean (*open)(VgpuTarget *target, GError **error);

    /* The type id that is set now, NULL without an error for none. */
    char *(*read)(const VgpuTarget *target, GError **error);

    gboolean (*set)(VgpuTarget *target, const char *type_id, GError **error);

    /* @keep_fd: the open group node, which must stay open as long as the write lasts. */
    gboolean (*clear)(VgpuTarget *target, VgpuJob *job, int keep_fd, GError **error);

    /* What identifies the vGPU in /sys: for QEMU's sysfsdev=. The caller frees it. */
    char *(*device_path)(const char *slot, const char *uuid);

    /* Whether the IOMMU group is the slot's own and can be taken before the slot is set. */
    gboolean clear_once; /* a second clear after one that failed, or whose answer nobody heard, can corrupt
                            the driver */
    gboolean group_before_set;

    /* What stands before a type's number in its id. */
    const char *type_prefix;
};

extern const VgpuFramework vgpu_mdev;
extern const VgpuFramework vgpu_vendor_vfio;

/* The framework with @name, NULL when there is none. */
const VgpuFramework *vgpu_framework_by_name(const char *name);

/* How @framework spells the id of NVIDIA's type @number. The caller frees it. */
char *vgpu_framework_type_id(const VgpuFramework *framework, guint32 number);

/* The framework of the device with directory @slot, NULL when it is no slot. */
const VgpuFramework *vgpu_framework_probe(const VgpuDir *slot);

/* The inode of the directory that the driver of @framework made in @slot, 0 when there is none. A driver that
 * was loaded anew makes it anew, and a new version of it may mean other types by the same ids; the device's
 * own directory stays. */
guint64 vgpu_framework_attributes_inode(const VgpuFramework *framework, const VgpuDir *slot);

VgpuType *vgpu_type_new(const char *id, const char *name);
void vgpu_type_free(VgpuType *type);

/* The one with @id of @types (of VgpuType), borrowed; NULL when there is none or @id is NULL. */
VgpuType *vgpu_type_find(const GPtrArray *types, const char *id);
VgpuDevice *vgpu_device_new(const char *slot, const char *uuid);
VgpuDevice *vgpu_device_copy(const VgpuDevice *device);
void vgpu_device_free(VgpuDevice *device);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(VgpuDevice, vgpu_device_free)
VgpuSlot *vgpu_slot_new(const VgpuFramework *framework, const char *address);
void vgpu_slot_free(VgpuSlot *slot);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(VgpuSlot, vgpu_slot_free)

/* Reads group, nodes and inodes of a vGPU whose attributes are in @attributes and whose VFIO links are in
 * @vfio (the same directory for an mdev, the virtual function for vendor VFIO). What is missing stays unset.
 */
void vgpu_device_read_nodes(VgpuDevice *device, const VgpuDir *vfio, const VgpuDir *attributes);

/* The number of the IOMMU group of the device with directory @dir, -1 when it has none. */
int vgpu_iommu_group(const VgpuDir *dir);

/* The directory of the virtual function or mdev parent @address. The caller frees it. */
VgpuDir *vgpu_slot_open(const char *address, GError **error);

/* Opens the slot @address and, where it exists, its vGPU. The caller frees it. */
VgpuTarget *vgpu_target_open(const VgpuFramework *framework, const char *address, const char *uuid,
                             GError **error);
void vgpu_target_free(VgpuTarget *target);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(VgpuTarget, vgpu_target_free)

/* What a refused set with errno @err means. */
VgpuAnswer vgpu_answer_to_set(int err);

/* What a refused clear with errno @err means, when the device read @still (NULL for none) afterwards. */
VgpuAnswer vgpu_answer_to_clear(int err, const char *still);
