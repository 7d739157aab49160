# cards: sriov sriov edu
# payload: none
# The stand-in answers as KERNEL.md §2 says, on a real kernel, and both frameworks live side by side.

load_stand_in cards="$(card 1)=A16"
one=$(card 1) two=$(card 2) whole=$(card 3)
enable_vfs "$one"
enable_vfs "$two" 2
parent=$(vf "$one" 0) sibling=$(vf "$one" 1)
uuid=c0ffee00-0000-4000-8000-000000000001 other=c0ffee00-0000-4000-8000-000000000002

create() {
    put "$3" "$PCI/$1/mdev_supported_types/nvidia-$2/create"
}

remove() {
    put 1 "/sys/bus/mdev/devices/$1/remove"
}

exists() {
    [ -e "/sys/bus/mdev/devices/$1" ]
}

both_frameworks() {
    [ -e "/sys/class/mdev_bus/$parent" ]
    [ -e "/sys/class/mdev_bus/$whole" ]
    [ ! -e "/sys/class/mdev_bus/$one" ]
    [ ! -e "$PCI/$parent/nvidia" ]
    [ -e "$PCI/$(vf "$two" 0)/nvidia/current_vgpu_type" ]
}

files_of_a_type() {
    local type=$PCI/$parent/mdev_supported_types/nvidia-712
    is "$(cat "$type/name")" 'NVIDIA A16-2Q'
    matches "$(cat "$type/description")" '^num_heads=4, frl_config=60, framebuffer=2048M,.* max_instance=8$'
    is "$(cat "$type/device_api")" vfio-pci
    is "$(cat "$type/available_instances")" 1
    is "$(stat --format=%a "$type/create")" 200
}

vf_holds_one() {
    is "$(create "$parent" 712 $uuid)" ok
    exists $uuid
    is "$(basename "$(readlink "/sys/bus/mdev/devices/$uuid/mdev_type")")" nvidia-712
    is "$(basename "$(readlink -f "/sys/bus/mdev/devices/$uuid/driver")")" nvidia-vgpu-vfio
    udevadm settle
    [ -c "$(group_node $uuid)" ]
    is "$(available "$parent" 712)" 0
    is "$(available "$sibling" 712)" 1
    is "$(available "$sibling" 711)" 0 'another size'
    is "$(create "$parent" 712 $other)" 'Input/output error'
    is "$(create "$sibling" 712 $uuid)" 'File exists'
    is "$(create "$sibling" 712 not-a-uuid)" 'Invalid argument'
    is "$(remove $uuid)" ok
    is "$(available "$parent" 711)" 1
}

card_holds_many() {
    is "$(available "$whole" 231)" 8
    is "$(create "$whole" 230 $uuid)" ok
    is "$(available "$whole" 230)" 15
    is "$(available "$whole" 231)" 0 'another size'
    is "$(create "$whole" 230 $other)" ok
    is "$(available "$whole" 230)" 14
    is "$(remove $uuid)" ok
    is "$(remove $other)" ok
    is "$(available "$whole" 231)" 8
}

faults() {
    fault fail_create 28
    is "$(create "$parent" 712 $uuid)" 'No space left on device'
    refused exists $uuid
    fault fail_create 0
}

open_and_remove() {
    local node
    create "$parent" 712 $uuid
    udevadm settle
    node=$(group_node $uuid)
    spawn vm opener
    ask vm ok vm "$node" $uuid
    is "$(attempt "group $node")" EBUSY
    spawn remover sh -c "echo 1 > /sys/bus/mdev/devices/$uuid/remove"
    eventually remover_waits
    kill -KILL "${spawned[remover]}"
    [ -e "/proc/${spawned[remover]}/fd" ] || fail 'the remover died of SIGKILL'
    # Only the parent's folder tells that it is still there.
    refused exists $uuid
    [ -e "$PCI/$parent/$uuid" ]
    end vm
    wait "${spawned[remover]}" || true
    eventually test ! -e "$PCI/$parent/$uuid"
}

remover_waits() {
    [[ $(cat "/proc/${spawned[remover]}/wchan") == *vfio_unregister_group_dev* ]]
}

events() {
    udevadm monitor --kernel --subsystem-match=mdev --property > "$scratch/events" &
    eventually grep -q KERNEL "$scratch/events"
    create "$parent" 712 $uuid
    eventually grep -q "^ACTION=add" "$scratch/events"
    remove $uuid
    eventually grep -q "^ACTION=remove" "$scratch/events"
    kill $!
}

check /vm/stand-in/mdev/both-frameworks-at-once both_frameworks
check /vm/stand-in/mdev/files files_of_a_type
check /vm/stand-in/mdev/vf-holds-one vf_holds_one
check /vm/stand-in/mdev/card-holds-many card_holds_many
check /vm/stand-in/mdev/faults-on-demand faults
check /vm/stand-in/mdev/remove-of-open-blocks-under-sigkill open_and_remove
check /vm/stand-in/mdev/events events
