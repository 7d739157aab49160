// SPDX-License-Identifier: GPL-2.0
/* The PCI driver: cards, and the functions of cards. */
#include <linux/module.h>
#include <linux/pci.h>

#include "stand-in.h"

static struct card *
card_of_vf(struct pci_dev *vf)
{
    /* A VF exists only while its PF is bound to this driver: remove disables the VFs first. */
    return pci_get_drvdata(pci_physfn(vf));
}

static int
probe_vf(struct pci_dev *vf)
{
    struct card *card = card_of_vf(vf);
    struct mdev_card *parent;
    int error;

    if (!card)
        return -ENODEV;
    if (!card->model->mdev)
        return vendor_vfio_probe(vf, card);
    error = mdev_probe_parent(vf, card, &parent);
    if (!error)
        pci_set_drvdata(vf, parent);
    return error;
}

static int
probe_pf(struct pci_dev *pf)
{
    struct card *card = card_new(pf);
    int error = 0;

    if (IS_ERR(card))
        return PTR_ERR(card);
    if (card->model->mdev && pci_sriov_get_totalvfs(pf) == 0)
        error = mdev_probe_parent(pf, card, &card->mdev);
    if (error) {
        card_free(card);
        return error;
    }
    pci_set_drvdata(pf, card);
    pci_info(pf, "stands in for an %s\n", card->model->name);
    return 0;
}

static int
stand_in_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
    return pdev->is_virtfn ? probe_vf(pdev) : probe_pf(pdev);
}

static void
stand_in_remove(struct pci_dev *pdev)
{
    struct card *card;

    if (pdev->is_virtfn) {
        if (card_of_vf(pdev)->model->mdev)
            mdev_remove_parent(pci_get_drvdata(pdev));
        else
            vendor_vfio_remove(pdev);
        return;
    }
    card = pci_get_drvdata(pdev);
    pci_disable_sriov(pdev);
    if (card->mdev)
        mdev_remove_parent(card->mdev);
    pci_set_drvdata(pdev, NULL);
    card_free(card);
}

static const struct pci_device_id stand_in_ids[] = {
    {PCI_DEVICE(0x1b36, 0x0010)}, /* QEMU's NVMe controller, and its VFs */
    {PCI_DEVICE(0x1234, 0x11e8)}, /* QEMU's edu */
    {},
};
MODULE_DEVICE_TABLE(pci, stand_in_ids);

static struct pci_driver stand_in_driver = {
    .name = "nvidia",
    .id_table = stand_in_ids,
    .probe = stand_in_probe,
    .remove = stand_in_remove,
    .sriov_configure = pci_sriov_configure_simple,
    .driver_managed_dma = true,
};

static int __init
stand_in_init(void)
{
    int error = mdev_driver_init();

    if (error)
        return error;
    error = pci_register_driver(&stand_in_driver);
    if (error)
        mdev_driver_exit();
    return error;
}

static void __exit
stand_in_exit(void)
{
    pci_unregister_driver(&stand_in_driver);
    mdev_driver_exit();
}

module_init(stand_in_init);
module_exit(stand_in_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Stands in for NVIDIA's vGPU host driver in tests");
