// SPDX-License-Identifier: GPL-2.0
/* Cards, their models, and what still fits on them. */
#include <linux/slab.h>
#include <linux/string.h>

#include "stand-in.h"

#define TYPE(id_, name_, mib_, max_)                                                                         \
    {                                                                                                        \
        .id = id_, .name = name_, .framebuffer_mib = mib_, .max_per_card = max_                              \
    }
#define MODEL(name_, mdev_, types_)                                                                          \
    {                                                                                                        \
        .name = name_, .mdev = mdev_, .n_types = ARRAY_SIZE(types_), .types = types_                         \
    }

static const struct vgpu_type l40s[] = {
    TYPE(1145, "NVIDIA L40S-1B", 1024, 32),  TYPE(1146, "NVIDIA L40S-2B", 2048, 24),
    TYPE(1147, "NVIDIA L40S-1Q", 1024, 32),  TYPE(1148, "NVIDIA L40S-2Q", 2048, 24),
    TYPE(1149, "NVIDIA L40S-3Q", 3072, 16),  TYPE(1150, "NVIDIA L40S-4Q", 4096, 12),
    TYPE(1151, "NVIDIA L40S-6Q", 6144, 8),   TYPE(1152, "NVIDIA L40S-8Q", 8192, 6),
    TYPE(1153, "NVIDIA L40S-12Q", 12288, 4), TYPE(1154, "NVIDIA L40S-16Q", 16384, 3),
    TYPE(1155, "NVIDIA L40S-24Q", 24576, 2), TYPE(1156, "NVIDIA L40S-48Q", 49152, 1),
    TYPE(1157, "NVIDIA L40S-1A", 1024, 32),  TYPE(1158, "NVIDIA L40S-2A", 2048, 24),
    TYPE(1163, "NVIDIA L40S-12A", 12288, 4), TYPE(1166, "NVIDIA L40S-48A", 49152, 1),
};

static const struct vgpu_type a10[] = {
    TYPE(588, "NVIDIA A10-1B", 1024, 24),  TYPE(589, "NVIDIA A10-2B", 2048, 12),
    TYPE(590, "NVIDIA A10-1Q", 1024, 24),  TYPE(591, "NVIDIA A10-2Q", 2048, 12),
    TYPE(592, "NVIDIA A10-3Q", 3072, 8),   TYPE(593, "NVIDIA A10-4Q", 4096, 6),
    TYPE(594, "NVIDIA A10-6Q", 6144, 4),   TYPE(595, "NVIDIA A10-8Q", 8192, 3),
    TYPE(596, "NVIDIA A10-12Q", 12288, 2), TYPE(597, "NVIDIA A10-24Q", 24576, 1),
    TYPE(599, "NVIDIA A10-2A", 2048, 12),
};

/* The same card under a driver branch that numbers its types otherwise: 1148 is something else here. */
static const struct vgpu_type a10_other_branch[] = {
    TYPE(1147, "NVIDIA A10-2Q", 2048, 12),
    TYPE(1148, "NVIDIA A10-4Q", 4096, 6),
    TYPE(1149, "NVIDIA A10-8Q", 8192, 3),
    TYPE(1150, "NVIDIA A10-24Q", 24576, 1),
};

static const struct vgpu_type a16[] = {
    TYPE(709, "NVIDIA A16-1B", 1024, 16),  TYPE(710, "NVIDIA A16-2B", 2048, 8),
    TYPE(711, "NVIDIA A16-1Q", 1024, 16),  TYPE(712, "NVIDIA A16-2Q", 2048, 8),
    TYPE(713, "NVIDIA A16-4Q", 4096, 4),   TYPE(714, "NVIDIA A16-8Q", 8192, 2),
    TYPE(715, "NVIDIA A16-16Q", 16384, 1), TYPE(717, "NVIDIA A16-2A", 2048, 8),
};

static const struct vgpu_type t4[] = {
    TYPE(230, "GRID T4-1Q", 1024, 16), TYPE(231, "GRID T4-2Q", 2048, 8),   TYPE(232, "GRID T4-4Q", 4096, 4),
    TYPE(233, "GRID T4-8Q", 8192, 2),  TYPE(234, "GRID T4-16Q", 16384, 1),
};

static const struct model models[] = {
    MODEL("L40S", false, l40s), MODEL("A10", false, a10), MODEL("A10-other-branch", false, a10_other_branch),
    MODEL("A16", true, a16),    MODEL("T4", true, t4),
};

static const struct model *
find_model(const char *name, size_t length)
{
    for (unsigned int i = 0; i < ARRAY_SIZE(models); i++)
        if (strlen(models[i].name) == length && strncmp(models[i].name, name, length) == 0)
            return &models[i];
    return NULL;
}

/* The model that the module's parameter names for this address, else the default for its kind. */
static const struct model *
model_of(struct pci_dev *pf)
{
    const char *entry = cards, *address = pci_name(pf);
    size_t length = strlen(address);

    while (entry && *entry) {
        if (strncmp(entry, address, length) == 0 && entry[length] == '=') {
            const char *name = entry + length + 1;

            return find_model(name, strcspn(name, ",\n"));
        }
        entry = strchr(entry, ',');
        if (entry)
            entry++;
    }
    return pci_sriov_get_totalvfs(pf) > 0 ? find_model("L40S", 4) : find_model("T4", 2);
}

struct card *
card_new(struct pci_dev *pf)
{
    const struct model *model = model_of(pf);
    struct card *card;

    if (!model) {
        pci_err(pf, "no such card model in cards=%s\n", cards);
        return ERR_PTR(-EINVAL);
    }
    if (!model->mdev && pci_sriov_get_totalvfs(pf) == 0) {
        pci_err(pf, "%s needs virtual functions\n", model->name);
        return ERR_PTR(-EINVAL);
    }
    card = kzalloc(sizeof(*card), GFP_KERNEL);
    if (!card)
        return ERR_PTR(-ENOMEM);
    card->pdev = pf;
    card->model = model;
    mutex_init(&card->lock);
    INIT_LIST_HEAD(&card->vgpus);
    return card;
}

void
card_free(struct card *card)
{
    WARN_ON(!list_empty(&card->vgpus));
    mutex_destroy(&card->lock);
    kfree(card);
}

const struct vgpu_type *
card_find_type(struct card *card, unsigned int id)
{
    for (unsigned int i = 0; i < card->model->n_types; i++)
        if (card->model->types[i].id == id)
            return &card->model->types[i];
    return NULL;
}

unsigned int
card_room(struct card *card, const struct vgpu_type *type)
{
    unsigned int taken = 0;
    struct vgpu *vgpu;

    list_for_each_entry(vgpu, &card->vgpus, on_card)
    {
        if (vgpu->type->framebuffer_mib != type->framebuffer_mib)
            return 0;
        taken++;
    }
    return taken < type->max_per_card ? type->max_per_card - taken : 0;
}

void
card_take(struct card *card, struct vgpu *vgpu, const struct vgpu_type *type)
{
    vgpu->type = type;
    list_add_tail(&vgpu->on_card, &card->vgpus);
}

void
card_give_back(struct vgpu *vgpu)
{
    if (!vgpu->type)
        return;
    list_del(&vgpu->on_card);
    vgpu->type = NULL;
}
