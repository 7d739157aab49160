/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "bed-private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The vendor VFIO framework: nvidia/ on each VF. */

/* ---- What fits ---- */

static unsigned
vgpus_of_size(Device *card, uint64_t mib)
{
    unsigned n = 0;

    for (guint i = 0; i < card->vfs->len; i++) {
        Type *type = types_find(card->types, ((Device *)card->vfs->pdata[i])->type);

        n += type && type->framebuffer_mib == mib;
    }
    return n;
}

static uint64_t
framebuffer_used(Device *card, unsigned *ret_vgpus)
{
    uint64_t used = 0;

    *ret_vgpus = 0;
    for (guint i = 0; i < card->vfs->len; i++) {
        Device *vf = card->vfs->pdata[i];
        Type *type = types_find(card->types, vf->type);

        *ret_vgpus += vf->type != 0;
        used += type ? type->framebuffer_mib : 0;
    }
    return used;
}

/* On an unset VF; a set one takes nothing. */
static gboolean
type_fits(Device *card, Type *type)
{
    unsigned vgpus;
    uint64_t used = framebuffer_used(card, &vgpus);
    unsigned same = vgpus_of_size(card, type->framebuffer_mib);

    if (same >= type->max)
        return FALSE;
    if (card->framebuffer_mib > 0 && used + type->framebuffer_mib > card->framebuffer_mib)
        return FALSE;
    return card->mixed || same == vgpus;
}

/* ---- Reads ---- */

static int
show_creatable(Bed *bed, Node *node, GString *text)
{
    Device *vf = node->owner;
    Device *card = vf->card;
    const char *says = vf->catalogue ? vf->catalogue : card->catalogue;

    if (says) {
        g_string_append(text, says);
        return 0;
    }
    g_string_append(text, "ID    : vGPU Name\n");
    for (guint i = 0; vf->type == 0 && i < card->types->len; i++) {
        Type *type = card->types->pdata[i];

        if (type_fits(card, type))
            g_string_append_printf(text, "%-5u : %s\n", type->id, type->name);
    }
    return 0;
}

static int
show_type(Bed *bed, Node *node, GString *text)
{
    g_string_append_printf(text, "%u\n", ((Device *)node->owner)->type);
    return 0;
}

static int
show_params(Bed *bed, Node *node, GString *text)
{
    Device *vf = node->owner;

    g_string_append_printf(text, "%s\n", vf->params ? vf->params : "");
    return 0;
}

static int
show_when_set(Bed *bed, Node *node, GString *text)
{
    if (((Device *)node->owner)->type == 0)
        return -ENXIO;
    g_string_append(text, "0\n");
    return 0;
}

static int
show_zero(Bed *bed, Node *node, GString *text)
{
    g_string_append(text, "0\n");
    return 0;
}

/* ---- Writes ---- */

/* As the kernel parses: digits, perhaps a newline, nothing else. */
static gboolean
parse_type(const char *value, unsigned *ret_type)
{
    char *end;
    unsigned long number;

    if (!g_ascii_isdigit(*value))
        return FALSE;
    errno = 0;
    number = strtoul(value, &end, 10);
    if (errno || number > G_MAXUINT || (*end && strcmp(end, "\n") != 0))
        return FALSE;
    *ret_type = (unsigned)number;
    return TRUE;
}

static int
vendor_clear(Device *vf)
{
    gint64 now = g_get_monotonic_time();

    if (vf->type == 0 || device_is_open(vf))
        return -EPERM;
    if (vf->clear_busy_ms > 0) {
        vf->clear_busy_until = now + vf->clear_busy_ms * (gint64)1000;
        vf->clear_busy_ms = 0;
    }
    if (vf->clear_busy_until > now || vf->plugin_until > now)
        return -EBUSY;
    vf->type = 0;
    g_clear_pointer(&vf->params, g_free);
    return 0;
}

int
vendor_set(Bed *bed, Device *vf, unsigned id)
{
    Type *type;

    if (vf->gone)
        return -ENODEV;
    if (id == 0)
        return vendor_clear(vf);
    if (vf->type != 0)
        return -EPERM;
    type = types_find(vf->card->types, id);
    if (!type || !type_fits(vf->card, type))
        return -EIO;
    vf->type = id;
    return 0;
}

static int
store_type(Bed *bed, Node *node, Write *write)
{
    Device *vf = node->owner;
    gboolean half;
    unsigned type;
    unsigned other;
    int answer, r;

    if (!parse_type(write->value, &type))
        return -EINVAL;
    if (type != 0 && fault_rival(bed, vf, &other) && vf->type == 0)
        vf->type = other;
    answer = fault_answer(bed, vf, write->op, &half);
    if (answer < 0 && !half)
        return answer;
    r = vendor_set(bed, vf, type);
    if (r == 0 && type != 0 && fault_takes_instead(bed, vf, &other))
        vf->type = other;
    return answer < 0 ? answer : r;
}

static int
store_params(Bed *bed, Node *node, Write *write)
{
    Device *vf = node->owner;

    if (vf->type == 0)
        return -ENXIO;
    if (device_is_open(vf))
        return -EPERM;
    g_free(vf->params);
    vf->params = g_strndup(write->value, strcspn(write->value, "\n"));
    return 0;
}

static int
store_refused(Bed *bed, Node *node, Write *write)
{
    return ((Device *)node->owner)->type == 0 ? -ENXIO : -EPERM;
}

static int
store_ignored(Bed *bed, Node *node, Write *write)
{
    return 0;
}

void
write_classify(Write *write)
{
    const Node *node = write->node;
    unsigned type;

    if (node->store == store_type) {
        write->is_op = TRUE;
        write->op = parse_type(write->value, &type) && type == 0 ? BED_CLEAR : BED_SET;
    } else if (node->store && strcmp(node->name, "create") == 0) {
        write->is_op = TRUE;
        write->op = BED_CREATE;
    } else if (node->store && strcmp(node->name, "remove") == 0) {
        write->is_op = TRUE;
        write->op = BED_REMOVE;
    }
}

/* ---- The directory ---- */

void
vendor_setup(Bed *bed, Device *vf)
{
    if (vf->gone || vf->nvidia)
        return;
    vf->nvidia = node_dir(bed, vf->dir, "nvidia");
    node_attr(bed, vf->nvidia, "creatable_vgpu_types", 0444, show_creatable, NULL, vf);
    node_attr(bed, vf->nvidia, "current_vgpu_type", 0644, show_type, store_type, vf);
    node_attr(bed, vf->nvidia, "vgpu_params", 0644, show_params, store_params, vf);
    node_attr(bed, vf->nvidia, "gpu_instance_id", 0644, show_when_set, store_refused, vf);
    node_attr(bed, vf->nvidia, "placement_id", 0644, show_when_set, store_refused, vf);
    node_attr(bed, vf->nvidia, "warm_update", 0644, show_zero, store_ignored, vf);
}

void
vendor_teardown(Bed *bed, Device *vf)
{
    node_remove(bed, vf->nvidia);
    vf->nvidia = NULL;
    vf->type = 0;
    g_clear_pointer(&vf->params, g_free);
}
