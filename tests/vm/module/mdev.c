// SPDX-License-Identifier: GPL-2.0
/* mdev: a VF or a whole card is the parent, and a vGPU is an mdev without regions. */
#include <linux/mdev.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <linux/vfio.h>

#include "stand-in.h"

struct mdev_card {
    struct mdev_parent parent;
    struct card *card;
    bool single;            /* a VF holds one, a card many */
    unsigned int n_devices; /* guarded by the card's mutex */
    struct mdev_type **types;
};

struct mdev_vgpu {
    struct vfio_device vdev;
    struct vgpu vgpu;
    struct mdev_card *on;
    char uuid[UUID_STRING_LEN + 1];
};

/* A type as the mdev core wants it, with what it means here. */
struct mdev_vgpu_type {
    struct mdev_type mdev;
    const struct vgpu_type *type;
    char id[12];
};

static struct mdev_card *
parent_of(struct mdev_type *type)
{
    return container_of(type->parent, struct mdev_card, parent);
}

static const struct vgpu_type *
type_of(struct mdev_type *type)
{
    return container_of(type, struct mdev_vgpu_type, mdev)->type;
}

static unsigned int
room_locked(struct mdev_card *on, const struct vgpu_type *type)
{
    unsigned int room = card_room(on->card, type);

    if (!on->single)
        return room;
    return on->n_devices == 0 && room > 0 ? 1 : 0;
}

static unsigned int
mdev_get_available(struct mdev_type *type)
{
    struct mdev_card *on = parent_of(type);
    unsigned int room;

    mutex_lock(&on->card->lock);
    room = room_locked(on, type_of(type));
    mutex_unlock(&on->card->lock);
    return room;
}

static ssize_t
mdev_show_description(struct mdev_type *mdev_type, char *buf)
{
    const struct vgpu_type *type = type_of(mdev_type);

    return sysfs_emit(
        buf, "num_heads=4, frl_config=60, framebuffer=%uM, max_resolution=7680x4320, max_instance=%u\n",
        type->framebuffer_mib, type->max_per_card);
}

static int
vgpu_open(struct vfio_device *vdev)
{
    fault_opened(container_of(vdev, struct mdev_vgpu, vdev)->uuid);
    return 0;
}

static void
vgpu_close(struct vfio_device *vdev)
{
}

static long
vgpu_ioctl(struct vfio_device *vdev, unsigned int command, unsigned long arg)
{
    struct vfio_device_info info;
    unsigned long size = offsetofend(struct vfio_device_info, num_irqs);

    if (command != VFIO_DEVICE_GET_INFO)
        return -ENOTTY;
    if (copy_from_user(&info, (void __user *)arg, size))
        return -EFAULT;
    if (info.argsz < size)
        return -EINVAL;
    info.flags = VFIO_DEVICE_FLAGS_PCI;
    info.num_regions = 0;
    info.num_irqs = 0;
    return copy_to_user((void __user *)arg, &info, size) ? -EFAULT : 0;
}

static const struct vfio_device_ops vgpu_ops = {
    .name = "nvidia-vgpu-vfio",
    .open_device = vgpu_open,
    .close_device = vgpu_close,
    .ioctl = vgpu_ioctl,
    .bind_iommufd = vfio_iommufd_emulated_bind,
    .unbind_iommufd = vfio_iommufd_emulated_unbind,
    .attach_ioas = vfio_iommufd_emulated_attach_ioas,
    .detach_ioas = vfio_iommufd_emulated_detach_ioas,
};

static int
vgpu_take(struct mdev_vgpu *vgpu, const struct vgpu_type *type)
{
    struct mdev_card *on = vgpu->on;
    int error = 0;

    mutex_lock(&on->card->lock);
    if (room_locked(on, type) == 0) {
        error = -EIO;
    } else {
        card_take(on->card, &vgpu->vgpu, type);
        on->n_devices++;
    }
    mutex_unlock(&on->card->lock);
    return error;
}

static void
vgpu_give_back(struct mdev_vgpu *vgpu)
{
    mutex_lock(&vgpu->on->card->lock);
    card_give_back(&vgpu->vgpu);
    vgpu->on->n_devices--;
    mutex_unlock(&vgpu->on->card->lock);
}

static int
vgpu_probe(struct mdev_device *mdev)
{
    struct mdev_vgpu *vgpu;
    int error = fault_before_write(WRITE_CREATE);

    if (error)
        goto log;
    vgpu = vfio_alloc_device(mdev_vgpu, vdev, &mdev->dev, &vgpu_ops);
    if (IS_ERR(vgpu)) {
        error = PTR_ERR(vgpu);
        goto log;
    }
    vgpu->on = parent_of(mdev->type);
    snprintf(vgpu->uuid, sizeof(vgpu->uuid), "%pUl", &mdev->uuid);
    error = vgpu_take(vgpu, type_of(mdev->type));
    if (error)
        goto put;
    error = vfio_register_emulated_iommu_dev(&vgpu->vdev);
    if (error)
        goto give_back;
    dev_set_drvdata(&mdev->dev, vgpu);
    goto log;

give_back:
    vgpu_give_back(vgpu);
put:
    vfio_put_device(&vgpu->vdev);
log:
    fault_log_write(WRITE_CREATE, dev_name(mdev->type->parent->dev), dev_name(&mdev->dev), error);
    return error;
}

static void
vgpu_remove(struct mdev_device *mdev)
{
    struct mdev_vgpu *vgpu = dev_get_drvdata(&mdev->dev);

    fault_before_write(WRITE_REMOVE);
    vfio_unregister_group_dev(&vgpu->vdev);
    vgpu_give_back(vgpu);
    vfio_put_device(&vgpu->vdev);
    fault_log_write(WRITE_REMOVE, dev_name(mdev->type->parent->dev), dev_name(&mdev->dev), 0);
}

static struct mdev_driver vgpu_driver = {
    .device_api = VFIO_DEVICE_API_PCI_STRING,
    .driver =
        {
            .name = "nvidia-vgpu-vfio",
            .owner = THIS_MODULE,
            .mod_name = KBUILD_MODNAME,
        },
    .probe = vgpu_probe,
    .remove = vgpu_remove,
    .get_available = mdev_get_available,
    .show_description = mdev_show_description,
};

static void
parent_free(struct mdev_card *on)
{
    for (unsigned int i = 0; on->types && i < on->card->model->n_types && on->types[i]; i++)
        kfree(container_of(on->types[i], struct mdev_vgpu_type, mdev));
    kfree(on->types);
    kfree(on);
}

static struct mdev_type *
type_new(const struct vgpu_type *type)
{
    struct mdev_vgpu_type *new = kzalloc(sizeof(*new), GFP_KERNEL);

    if (!new)
        return NULL;
    new->type = type;
    snprintf(new->id, sizeof(new->id), "%u", type->id);
    new->mdev.sysfs_name = new->id;
    new->mdev.pretty_name = type->name;
    return &new->mdev;
}

int
mdev_probe_parent(struct pci_dev *pdev, struct card *card, struct mdev_card **parent)
{
    struct mdev_card *on = kzalloc(sizeof(*on), GFP_KERNEL);
    unsigned int n = card->model->n_types;
    int error = -ENOMEM;

    if (!on)
        return -ENOMEM;
    on->card = card;
    on->single = pdev->is_virtfn;
    on->types = kcalloc(n, sizeof(*on->types), GFP_KERNEL);
    if (!on->types)
        goto free;
    for (unsigned int i = 0; i < n; i++) {
        on->types[i] = type_new(&card->model->types[i]);
        if (!on->types[i])
            goto free;
    }
    error = mdev_register_parent(&on->parent, &pdev->dev, &vgpu_driver, on->types, n);
    if (error)
        goto free;
    *parent = on;
    return 0;

free:
    parent_free(on);
    return error;
}

void
mdev_remove_parent(struct mdev_card *parent)
{
    mdev_unregister_parent(&parent->parent);
    parent_free(parent);
}

int
mdev_driver_init(void)
{
    return mdev_register_driver(&vgpu_driver);
}

void
mdev_driver_exit(void)
{
    mdev_unregister_driver(&vgpu_driver);
}
