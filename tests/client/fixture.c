/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fixture.h"

#include <string.h>

void
fixture_fill(Mock *mock)
{
    mock_set(mock, "GPUs",
             "[{'Address': <'0000:3b:00.0'>, 'Name': <'NVIDIA L40S'>, 'Framework': <'vendor-vfio'>,"
             "  'NumaNode': <0>, 'FramebufferMiB': <uint64 49152>, 'FramebufferAssignedMiB': <uint64 4096>,"
             "  'Slots': <uint32 32>, 'SlotsFree': <uint32 30>, 'Occupied': <["
             "   {'Device': <'0000:3b:00.4'>, 'Profile': <'NVIDIA L40S-2Q'>, 'TypeId': <'1148'>,"
             "    'GroupNode': <'/dev/vfio/42'>, 'Assignment': <'aaaa'>},"
             "   {'Device': <'0000:3b:00.5'>, 'TypeId': <'1199'>}]>},"
             " {'Address': <'0000:af:00.0'>, 'Framework': <'vendor-vfio'>,"
             "  'Slots': <uint32 0>, 'SlotsFree': <uint32 0>,"
             "  'Reason': <'no virtual functions are enabled'>}]");
    mock_set(mock, "Profiles",
             "[{'Name': <'NVIDIA L40S-2A'>, 'FramebufferMiB': <uint64 2048>, 'Available': <uint32 30>,"
             "  'Remaining': <uint32 22>, 'GPUs': <['0000:3b:00.0']>},"
             " {'Name': <'NVIDIA L40S-12A'>, 'FramebufferMiB': <uint64 12288>, 'Available': <uint32 0>,"
             "  'Remaining': <uint32 0>, 'GPUs': <['0000:3b:00.0', '0000:af:00.0']>},"
             " {'Name': <'ODD-4-96'>, 'Available': <uint32 3>}]");
    mock_add(
        mock, "aaaa",
        "{'State': <'in-use'>, 'Profile': <'NVIDIA L40S-2Q'>, 'TypeId': <'1148'>, 'Device': <'0000:3b:00.4'>,"
        " 'GPU': <'0000:3b:00.0'>, 'GroupNode': <'/dev/vfio/42'>, 'Owner': <':1.77'>, 'UID': <uint32 0>,"
        " 'PID': <uint32 4711>, 'Label': <'build vm'>, 'Since': <uint64 1700000000000000>,"
        " 'Holders': <['4712 qemu-system-x86']>, 'FramebufferMiB': <uint64 2048>}");
    mock_add(mock, "bbbb",
             "{'State': <'failed'>, 'TypeId': <'1199'>, 'Device': <'0000:3b:00.6'>, 'UID': <uint32 4242>,"
             " 'Error': <'/sys/x refused 0: Input/output error'>}");
}

void
fixture_assert_has(const char *where, const char *text, bool wanted, const char *location)
{
    if ((strstr(where, text) != NULL) != wanted)
        g_error("%s: \"%s\" should %sbe in: %s", location, text, wanted ? "" : "not ", where);
}

JsonNode *
fixture_json(const GString *text)
{
    g_autoptr(GError) error = NULL;
    JsonNode *node = json_from_string(text->str, &error);
    g_assert_no_error(error);
    return node;
}
