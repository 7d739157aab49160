// SPDX-License-Identifier: GPL-2.0
/* Vendor VFIO: a VF is handed out itself, after a type was written to nvidia/current_vgpu_type. */
#include <linux/delay.h>
#include <linux/device.h>
#include <linux/jiffies.h>
#include <linux/module.h>
#include <linux/string.h>
#include <linux/sysfs.h>
#include <linux/vfio.h>
#include <linux/vfio_pci_core.h>

#include "stand-in.h"

struct slot {
    struct vfio_pci_core_device core;
    struct card *card;
    struct vgpu vgpu;
    atomic_t writers;

    /* Guarded by the card's mutex. */
    bool open;
    bool enabled;
    unsigned long plugin_gone; /* in jiffies: when the plugin of the last VM has exited */
    char params[256];
};

static struct slot *
slot_of(struct vfio_device *vdev)
{
    return container_of(vdev, struct slot, core.vdev);
}

static struct slot *
slot_from_dev(struct device *dev)
{
    return container_of(dev_get_drvdata(dev), struct slot, core);
}

/* The vendor's driver frees a vGPU before it clears the pointer that readers use. */
static void
slot_reading(struct slot *slot, const char *file)
{
    if (atomic_read(&slot->writers) > 0)
        fault_violation("%s of %s was read by %s/%d during a write\n", file, pci_name(slot->core.pdev),
                        current->group_leader->comm, task_tgid_nr(current));
}

static bool
plugin_lives(struct slot *slot)
{
    return slot->plugin_gone && time_before(jiffies, slot->plugin_gone);
}

static int
slot_set(struct slot *slot, unsigned int id)
{
    struct card *card = slot->card;
    unsigned int other = fault_other_type();
    const struct vgpu_type *type = card_find_type(card, other ? other : id);
    int error = 0;

    mutex_lock(&card->lock);
    if (slot->vgpu.type)
        error = -EPERM;
    else if (!type || card_room(card, type) == 0)
        error = -EIO;
    else
        card_take(card, &slot->vgpu, type);
    mutex_unlock(&card->lock);
    return error;
}

static int
slot_clear(struct slot *slot)
{
    struct card *card = slot->card;
    unsigned long deadline = jiffies + msecs_to_jiffies(busy_wait_ms);
    int error = 0;

    mutex_lock(&card->lock);
    while (slot->vgpu.type && !slot->open && plugin_lives(slot) && time_before(jiffies, deadline)) {
        mutex_unlock(&card->lock);
        msleep(5);
        mutex_lock(&card->lock);
    }
    if (!slot->vgpu.type || slot->open) {
        error = -EPERM;
    } else if (plugin_lives(slot)) {
        error = -EBUSY;
    } else {
        card_give_back(&slot->vgpu);
        slot->params[0] = '\0';
    }
    mutex_unlock(&card->lock);
    return error;
}

static ssize_t
current_vgpu_type_show(struct device *dev, struct device_attribute *attr, char *buf)
{
    struct slot *slot = slot_from_dev(dev);
    unsigned int id;

    slot_reading(slot, "current_vgpu_type");
    mutex_lock(&slot->card->lock);
    id = slot->vgpu.type ? slot->vgpu.type->id : 0;
    mutex_unlock(&slot->card->lock);
    return sysfs_emit(buf, "%u\n", id);
}

static ssize_t
current_vgpu_type_store(struct device *dev, struct device_attribute *attr, const char *buf, size_t count)
{
    struct slot *slot = slot_from_dev(dev);
    enum write_kind kind;
    char value[12];
    unsigned int id;
    int error;

    if (kstrtouint(buf, 10, &id))
        return -EINVAL;
    kind = id ? WRITE_SET : WRITE_CLEAR;
    if (atomic_inc_return(&slot->writers) > 1)
        fault_violation("two writes at once to %s, the second by %s/%d\n", pci_name(slot->core.pdev),
                        current->group_leader->comm, task_tgid_nr(current));
    error = fault_before_write(kind);
    if (!error)
        error = kind == WRITE_SET ? slot_set(slot, id) : slot_clear(slot);
    atomic_dec(&slot->writers);
    snprintf(value, sizeof(value), "%u", id);
    fault_log_write(kind, pci_name(slot->core.pdev), value, error);
    return error ? error : count;
}
static DEVICE_ATTR_RW(current_vgpu_type);

static ssize_t
creatable_vgpu_types_show(struct device *dev, struct device_attribute *attr, char *buf)
{
    struct slot *slot = slot_from_dev(dev);
    struct card *card = slot->card;
    ssize_t length = sysfs_emit(buf, "ID    : vGPU Name\n");

    slot_reading(slot, "creatable_vgpu_types");
    mutex_lock(&card->lock);
    for (unsigned int i = 0; !slot->vgpu.type && i < card->model->n_types; i++) {
        const struct vgpu_type *type = &card->model->types[i];

        if (card_room(card, type) > 0)
            length += sysfs_emit_at(buf, length, "%-5u : %s\n", type->id, type->name);
    }
    mutex_unlock(&card->lock);
    return length;
}
static DEVICE_ATTR_RO(creatable_vgpu_types);

static ssize_t
vgpu_params_show(struct device *dev, struct device_attribute *attr, char *buf)
{
    struct slot *slot = slot_from_dev(dev);
    ssize_t length;

    slot_reading(slot, "vgpu_params");
    mutex_lock(&slot->card->lock);
    length = sysfs_emit(buf, "%s\n", slot->params);
    mutex_unlock(&slot->card->lock);
    return length;
}

static ssize_t
vgpu_params_store(struct device *dev, struct device_attribute *attr, const char *buf, size_t count)
{
    struct slot *slot = slot_from_dev(dev);
    ssize_t result = count;

    mutex_lock(&slot->card->lock);
    if (!slot->vgpu.type) {
        result = -ENXIO;
    } else if (slot->open) {
        result = -EPERM;
    } else if (count >= sizeof(slot->params)) {
        result = -EINVAL;
    } else {
        strscpy(slot->params, buf, sizeof(slot->params));
        strim(slot->params);
    }
    mutex_unlock(&slot->card->lock);
    return result;
}
static DEVICE_ATTR_RW(vgpu_params);

/* Decimal files that have an answer only while a vGPU exists. */
static ssize_t
of_a_vgpu_show(struct device *dev, const char *file, char *buf)
{
    struct slot *slot = slot_from_dev(dev);
    ssize_t length;

    slot_reading(slot, file);
    mutex_lock(&slot->card->lock);
    length = slot->vgpu.type ? sysfs_emit(buf, "0\n") : -ENXIO;
    mutex_unlock(&slot->card->lock);
    return length;
}

static ssize_t
gpu_instance_id_show(struct device *dev, struct device_attribute *attr, char *buf)
{
    return of_a_vgpu_show(dev, "gpu_instance_id", buf);
}

static ssize_t
placement_id_show(struct device *dev, struct device_attribute *attr, char *buf)
{
    return of_a_vgpu_show(dev, "placement_id", buf);
}

static ssize_t
warm_update_show(struct device *dev, struct device_attribute *attr, char *buf)
{
    return sysfs_emit(buf, "0\n");
}

/* Files that the service leaves alone: a write to one of them is a mistake worth hearing of. */
static ssize_t
left_alone_store(struct device *dev, struct device_attribute *attr, const char *buf, size_t count)
{
    fault_violation("%s of %s was written by %s/%d\n", attr->attr.name, dev_name(dev),
                    current->group_leader->comm, task_tgid_nr(current));
    return -EPERM;
}

static struct device_attribute dev_attr_gpu_instance_id =
    __ATTR(gpu_instance_id, 0644, gpu_instance_id_show, left_alone_store);
static struct device_attribute dev_attr_placement_id =
    __ATTR(placement_id, 0644, placement_id_show, left_alone_store);
static struct device_attribute dev_attr_warm_update =
    __ATTR(warm_update, 0644, warm_update_show, left_alone_store);

static struct attribute *slot_attrs[] = {
    &dev_attr_creatable_vgpu_types.attr,
    &dev_attr_current_vgpu_type.attr,
    &dev_attr_vgpu_params.attr,
    &dev_attr_gpu_instance_id.attr,
    &dev_attr_placement_id.attr,
    &dev_attr_warm_update.attr,
    NULL,
};

static const struct attribute_group slot_group = {.name = "nvidia", .attrs = slot_attrs};

static int
slot_open(struct vfio_device *vdev)
{
    struct slot *slot = slot_of(vdev);
    struct card *card = slot->card;
    int error = 0;

    fault_opened(pci_name(slot->core.pdev));
    mutex_lock(&card->lock);
    if (plugin_lives(slot)) {
        error = -EBUSY;
    } else if (!slot->vgpu.type) {
        error = -ENODEV;
    } else {
        slot->open = true;
        slot->plugin_gone = 0;
        slot->enabled = enable_device;
    }
    mutex_unlock(&card->lock);
    if (error || !slot->enabled)
        return error;

    error = vfio_pci_core_enable(&slot->core);
    if (error) {
        mutex_lock(&card->lock);
        slot->open = false;
        slot->enabled = false;
        mutex_unlock(&card->lock);
        return error;
    }
    vfio_pci_core_finish_enable(&slot->core);
    return 0;
}

static void
slot_close(struct vfio_device *vdev)
{
    struct slot *slot = slot_of(vdev);
    bool enabled = slot->enabled;

    if (enabled)
        vfio_pci_core_close_device(vdev);
    mutex_lock(&slot->card->lock);
    slot->open = false;
    slot->enabled = false;
    if (plugin_exit_ms)
        slot->plugin_gone = jiffies + msecs_to_jiffies(plugin_exit_ms);
    mutex_unlock(&slot->card->lock);
}

/* A device that was not enabled has no configuration space behind it that VFIO could show. */
static long
slot_ioctl(struct vfio_device *vdev, unsigned int command, unsigned long arg)
{
    return slot_of(vdev)->enabled ? vfio_pci_core_ioctl(vdev, command, arg) : -ENOTTY;
}

static ssize_t
slot_read(struct vfio_device *vdev, char __user *buf, size_t count, loff_t *offset)
{
    return slot_of(vdev)->enabled ? vfio_pci_core_read(vdev, buf, count, offset) : -EIO;
}

static ssize_t
slot_write(struct vfio_device *vdev, const char __user *buf, size_t count, loff_t *offset)
{
    return slot_of(vdev)->enabled ? vfio_pci_core_write(vdev, buf, count, offset) : -EIO;
}

static int
slot_mmap(struct vfio_device *vdev, struct vm_area_struct *vma)
{
    return slot_of(vdev)->enabled ? vfio_pci_core_mmap(vdev, vma) : -EINVAL;
}

static int
slot_feature(struct vfio_device *vdev, u32 flags, void __user *arg, size_t size)
{
    return slot_of(vdev)->enabled ? vfio_pci_core_ioctl_feature(vdev, flags, arg, size) : -ENOTTY;
}

static const struct vfio_device_ops slot_ops = {
    .name = "nvidia-vgpu-vfio",
    .init = vfio_pci_core_init_dev,
    .release = vfio_pci_core_release_dev,
    .open_device = slot_open,
    .close_device = slot_close,
    .ioctl = slot_ioctl,
    .device_feature = slot_feature,
    .read = slot_read,
    .write = slot_write,
    .mmap = slot_mmap,
    .request = vfio_pci_core_request,
    .match = vfio_pci_core_match,
    .bind_iommufd = vfio_iommufd_physical_bind,
    .unbind_iommufd = vfio_iommufd_physical_unbind,
    .attach_ioas = vfio_iommufd_physical_attach_ioas,
    .detach_ioas = vfio_iommufd_physical_detach_ioas,
};

int
vendor_vfio_probe(struct pci_dev *vf, struct card *card)
{
    struct slot *slot = vfio_alloc_device(slot, core.vdev, &vf->dev, &slot_ops);
    int error;

    if (IS_ERR(slot))
        return PTR_ERR(slot);
    slot->card = card;
    dev_set_drvdata(&vf->dev, &slot->core);
    error = vfio_pci_core_register_device(&slot->core);
    if (error)
        goto put;
    /* As with the vendor's driver, the files come after the node and without an event of their own. */
    error = sysfs_create_group(&vf->dev.kobj, &slot_group);
    if (error)
        goto unregister;
    return 0;

unregister:
    vfio_pci_core_unregister_device(&slot->core);
put:
    vfio_put_device(&slot->core.vdev);
    return error;
}

void
vendor_vfio_remove(struct pci_dev *vf)
{
    struct slot *slot = slot_from_dev(&vf->dev);
    struct card *card = slot->card;

    /* Waits for readers and writers of the files, then for the last user of the device. */
    sysfs_remove_group(&vf->dev.kobj, &slot_group);
    vfio_pci_core_unregister_device(&slot->core);
    mutex_lock(&card->lock);
    card_give_back(&slot->vgpu);
    mutex_unlock(&card->lock);
    vfio_put_device(&slot->core.vdev);
}
