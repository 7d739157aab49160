/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A stand-in for NVIDIA's vGPU host driver, so that the service can be tested against the real PCI, SR-IOV,
 * VFIO and mdev code of Linux on a machine without a GPU. It drives QEMU's NVMe controllers (cards with
 * virtual functions) and QEMU's edu device (a card without), answers in sysfs as the vendor's driver does,
 * and does nothing with the hardware.
 */
#ifndef STAND_IN_H
#define STAND_IN_H

#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/types.h>

/* One row of a card's table of types. */
struct vgpu_type {
    unsigned int id;
    const char *name;
    unsigned int framebuffer_mib;
    unsigned int max_per_card;
};

/* A card model: what NVIDIA's driver knows about it. */
struct model {
    const char *name;
    bool mdev;
    unsigned int n_types;
    const struct vgpu_type *types;
};

struct card;

/* What one vGPU takes on its card. Lives in a VF (vendor VFIO) or in an mdev; guarded by the card's mutex. */
struct vgpu {
    struct list_head on_card;
    const struct vgpu_type *type;
};

/* A physical function. It outlives all its VFs and mdevs: removing the PF removes those first. */
struct card {
    struct pci_dev *pdev;
    const struct model *model;
    struct mutex lock;
    struct list_head vgpus;
    struct mdev_card *mdev; /* only when the card itself is the mdev parent */
};

/* card.c: the catalogue rules. All but card_new and card_free want the card's mutex held. */
struct card *card_new(struct pci_dev *pf);
void card_free(struct card *card);
const struct vgpu_type *card_find_type(struct card *card, unsigned int id);
/* How many more vGPUs of this type fit: one size per card, and the type's maximum. */
unsigned int card_room(struct card *card, const struct vgpu_type *type);
void card_take(struct card *card, struct vgpu *vgpu, const struct vgpu_type *type);
void card_give_back(struct vgpu *vgpu);

/* vendor-vfio.c: a VF with nvidia/ attributes whose VFIO device is the VF itself. */
int vendor_vfio_probe(struct pci_dev *vf, struct card *card);
void vendor_vfio_remove(struct pci_dev *vf);

/* mdev.c: a VF or a card that is an mdev parent. */
int mdev_probe_parent(struct pci_dev *pdev, struct card *card, struct mdev_card **parent);
void mdev_remove_parent(struct mdev_card *parent);
int mdev_driver_init(void);
void mdev_driver_exit(void);

/* faults.c: what goes wrong on demand, and what was seen. */
enum write_kind {
    WRITE_SET,
    WRITE_CLEAR,
    WRITE_CREATE,
    WRITE_REMOVE,
};

/* Called at the start of each write: waits while the kind is held; then the negative errno to answer, or 0.
 */
int fault_before_write(enum write_kind kind);
/* Adds a line to the list of writes: device, kind, value, result (0 or a negative errno), writer. */
void fault_log_write(enum write_kind kind, const char *device, const char *value, int result);
/* The type that the next set shall take in place of the one written, or 0. One shot. */
unsigned int fault_other_type(void);
/* Adds a line to the list of things that must never happen. */
__printf(1, 2) void fault_violation(const char *format, ...);
/* Counts an open of a VFIO device, and is a violation when the service itself did it. */
void fault_opened(const char *device);

extern unsigned int plugin_exit_ms; /* how long the plugin lives on after the last close */
extern unsigned int busy_wait_ms;   /* how long a clear waits for the plugin before it gives EBUSY */
extern bool enable_device;          /* whether an open enables and resets the PCI device, as QEMU needs */
extern char *cards;                 /* ADDRESS=MODEL[,…] for cards that are not the default model */

#endif
