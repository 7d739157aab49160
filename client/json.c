/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "json.h"

#include <json-glib/json-glib.h>

void
vgpu_json_print(VgpuJson how, GVariant *value)
{
    g_autoptr(JsonGenerator) generator = json_generator_new();
    g_autoptr(JsonNode) node = json_gvariant_serialize(value);

    json_generator_set_pretty(generator, how == VGPU_JSON_PRETTY);
    json_generator_set_root(generator, node);
    g_autofree char *text = json_generator_to_data(generator, NULL);
    puts(text);
}
