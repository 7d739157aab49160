# cards: sriov sriov
# payload: none
# The stand-in answers as KERNEL.md §1 says, on a real kernel: what the other checks stand on.

load_stand_in cards="$(card 2)=A10"
one=$(card 1) two=$(card 2)
enable_vfs "$one"
enable_vfs "$two"
free=$(vf "$one" 0) sibling=$(vf "$one" 1)

files_of_a_vf() {
    [ ! -e "$PCI/$one/nvidia" ]
    is "$(readlink -f "$PCI/$free/driver")" /sys/bus/pci/drivers/nvidia
    is "$(cd "$PCI/$free/nvidia" && stat --format='%n %a %U' -- * | xargs)" "creatable_vgpu_types 444 root current_vgpu_type 644 root gpu_instance_id 644 root placement_id 644 root vgpu_params 644 root warm_update 644 root"
    is "$(type_of "$free")" 0
    is "$(head -1 "$PCI/$free/nvidia/creatable_vgpu_types")" 'ID    : vGPU Name'
    is "$(sed -n 2p "$PCI/$free/nvidia/creatable_vgpu_types")" '1145  : NVIDIA L40S-1B'
    is "$(cat "$PCI/$free/nvidia/vgpu_params")" ''
    matches "$(cat "$PCI/$free/nvidia/placement_id" 2>&1 || true)" 'No such device or address'
    matches "$(cat "$PCI/$free/nvidia/gpu_instance_id" 2>&1 || true)" 'No such device or address'
    is "$(cat "$PCI/$free/nvidia/warm_update")" 0
    is "$(put x "$PCI/$free/nvidia/vgpu_params")" 'No such device or address'
}

nodes_of_a_vf() {
    local node
    node=$(group_node "$free")
    [ -c "$node" ]
    is "$(stat --format='%a %U' "$node")" '600 root'
    is "$(ls "$PCI/$free/vfio-dev" | wc -l)" 1
    [ -d "/sys/class/vfio/$(basename "$node")" ]
    is "$(ls "$PCI/$free/iommu_group/devices")" "$free"
}

set_and_clear() {
    is "$(set_type "$free" 1148)" ok
    is "$(type_of "$free")" 1148
    is "$(creatable "$free")" '' 'a set VF lists the header only'
    is "$(cat "$PCI/$free/nvidia/placement_id")" 0
    is "$(set_type "$free" 1148)" 'Operation not permitted' 'even the same type'
    is "$(set_type "$free" 1147)" 'Operation not permitted'
    is "$(set_type "$free" 0)" ok
    is "$(type_of "$free")" 0
    is "$(set_type "$free" 0)" 'Operation not permitted' 'nothing to clear'
    is "$(set_type "$free" L40S)" 'Invalid argument'
    is "$(set_type "$free" 9999)" 'Input/output error'
}

same_size_only() {
    is "$(set_type "$free" 1148)" ok
    is "$(creatable "$sibling" | xargs -d '\n')" '1146  : NVIDIA L40S-2B 1148  : NVIDIA L40S-2Q 1158  : NVIDIA L40S-2A'
    is "$(set_type "$sibling" 1147)" 'Input/output error'
    is "$(set_type "$sibling" 1146)" ok
    is "$(creatable "$(vf "$two" 0)" | wc -l)" 11 'the other card has rules of its own'
    set_type "$free" 0
    set_type "$sibling" 0
}

maximum_per_card() {
    is "$(set_type "$free" 1155)" ok
    is "$(set_type "$sibling" 1155)" ok
    is "$(creatable "$(vf "$one" 2)")" '' 'a full card lists nothing'
    is "$(set_type "$(vf "$one" 2)" 1155)" 'Input/output error'
    set_type "$free" 0
    set_type "$sibling" 0
    is "$(creatable "$free" | wc -l)" 16
}

open_without_type() {
    is "$(attempt "vm $(group_node "$free") $free")" ENODEV
}

one_opener() {
    local node
    node=$(group_node "$free")
    spawn first opener
    ask first ok group "$node"
    is "$(attempt "group $node")" EBUSY
    ask first ok close group
    is "$(attempt "group $node")" ok
}

cleared() {
    [ "$(set_type "$1" 0)" = ok ]
}

clear_while_open() {
    local node
    node=$(group_node "$free")
    set_type "$free" 1148
    spawn vm opener
    ask vm ok vm "$node" "$free"
    is "$(set_type "$free" 0)" 'Operation not permitted'
    is "$(type_of "$free")" 1148
    is "$(put x=1 "$PCI/$free/nvidia/vgpu_params")" 'Operation not permitted'
    end vm KILL
    eventually cleared "$free"
}

device_descriptor_alone() {
    local node
    node=$(group_node "$free")
    set_type "$free" 1148
    spawn vm opener
    ask vm ok vm "$node" "$free"
    ask vm ok close group
    ask vm ok close container
    is "$(ls -l "/proc/${spawned[vm]}/fd" | grep -c /dev/vfio || true)" 0
    is "$(attempt "group $node")" EBUSY
    ask vm ok close device
    is "$(attempt "group $node")" ok
    is "$(set_type "$free" 0)" ok
}

group_descriptor_alone() {
    local node
    node=$(group_node "$free")
    set_type "$free" 1148
    spawn vm opener
    ask vm ok vm "$node" "$free"
    ask vm ok close device
    is "$(set_type "$free" 0)" ok
    ask vm ENODEV device "$free"
    is "$(set_type "$free" 1146)" ok
    is "$(attempt "group $node")" EBUSY 'the new owner is kept out'
    ask vm ok device "$free"
    end vm
    eventually cleared "$free"
}

plugin_takes_time() {
    fault plugin_exit_ms 2000
    fault busy_wait_ms 200
    set_type "$free" 1148
    is "$(attempt "vm $(group_node "$free") $free")" ok
    fault plugin_exit_ms 0
    is "$(set_type "$free" 0)" 'Device or resource busy'
    is "$(attempt "vm $(group_node "$free") $free")" EBUSY
    is "$(type_of "$free")" 1148
    fault busy_wait_ms 5000
    is "$(set_type "$free" 0)" ok 'the driver itself waits up to five seconds'
}

faults() {
    fault fail_set '5 2'
    is "$(set_type "$free" 1148)" 'Input/output error'
    is "$(set_type "$free" 1148)" 'Input/output error'
    is "$(set_type "$free" 1148)" ok
    fault fail_clear 16
    is "$(set_type "$free" 0)" 'Device or resource busy'
    is "$(type_of "$free")" 1148
    is "$(set_type "$free" 0)" ok
    fault other_type 1146
    is "$(set_type "$free" 1148)" ok
    is "$(type_of "$free")" 1146
    is "$(set_type "$free" 0)" ok
}

held_write() {
    fault hold $HOLD_SET
    forget_writes
    set_type "$free" 1148 &
    eventually writer_waits
    is "$(writes set)" 0
    fault hold 0
    wait $!
    is "$(writes set)" 1
    is "$(type_of "$free")" 1148
    is "$(set_type "$free" 0)" ok
    is "$(cut -d' ' -f1-4 "$STAND_IN/writes" | xargs)" "set $free 1148 0 clear $free 0 0"
}

writer_waits() {
    ps -eo wchan:40 | grep -q fault_before_write
}

violations_are_seen() {
    fault hold $HOLD_SET
    set_type "$free" 1148 &
    eventually writer_waits
    type_of "$free"
    fault hold 0
    wait
    matches "$(cat "$STAND_IN/violations")" "current_vgpu_type of $free was read by"
    is "$(set_type "$free" 0)" ok
    is "$(put 1 "$PCI/$free/nvidia/placement_id")" 'Operation not permitted'
    matches "$(cat "$STAND_IN/violations")" 'placement_id of .* was written'
    echo > "$STAND_IN/violations"
}

vfs_go_and_come() {
    local before after
    before=$(stat --format=%i "$PCI/$free/")
    set_type "$free" 1148
    disable_vfs "$one"
    [ ! -e "$PCI/$free" ]
    enable_vfs "$one"
    after=$(stat --format=%i "$PCI/$free/")
    is "$(type_of "$free")" 0
    [ "$before" != "$after" ] || fail 'same inode'
}

driver_goes_and_comes() {
    local before files node
    before=$(stat --format=%i "$PCI/$free/")
    files=$(stat --format=%i "$PCI/$free/nvidia")
    node=$(stat --format=%i "$(group_node "$free")")
    set_type "$free" 1148
    echo "$free" > /sys/bus/pci/drivers/nvidia/unbind
    [ ! -e "$PCI/$free/nvidia" ]
    echo "$free" > /sys/bus/pci/drivers/nvidia/bind
    udevadm settle
    is "$(type_of "$free")" 0
    is "$(stat --format=%i "$PCI/$free/")" "$before"
    [ "$(stat --format=%i "$PCI/$free/nvidia")" != "$files" ] || fail 'the files are the old ones'
    [ "$(stat --format=%i "$(group_node "$free")")" != "$node" ] || fail 'the node is the old one'
}

open_enables_the_device() {
    fault enable_device 1
    set_type "$free" 1148
    is "$(attempt "vm $(group_node "$free") $free")" ok
    fault enable_device 0
    is "$(set_type "$free" 0)" ok
}

module_reloads() {
    set_type "$free" 1148
    unload_stand_in
    [ ! -e "$PCI/$free" ] || fail 'the VFs outlive their driver'
    load_stand_in
    enable_vfs "$one"
    is "$(type_of "$free")" 0
}

check /vm/stand-in/vendor/files files_of_a_vf
check /vm/stand-in/vendor/nodes-exist-before-a-type nodes_of_a_vf
check /vm/stand-in/vendor/set-and-clear set_and_clear
check /vm/stand-in/vendor/same-size-only same_size_only
check /vm/stand-in/vendor/maximum-per-card maximum_per_card
check /vm/stand-in/vendor/open-without-type-is-enodev open_without_type
check /vm/stand-in/vendor/group-has-one-opener one_opener
check /vm/stand-in/vendor/clear-while-open-is-eperm clear_while_open
check /vm/stand-in/vendor/device-descriptor-alone-keeps-busy device_descriptor_alone
check /vm/stand-in/vendor/group-descriptor-alone-opens-next-vgpu group_descriptor_alone
check /vm/stand-in/vendor/plugin-exiting-is-ebusy plugin_takes_time
check /vm/stand-in/vendor/faults-on-demand faults
check /vm/stand-in/vendor/writes-can-be-held held_write
check /vm/stand-in/vendor/violations-are-seen violations_are_seen
check /vm/stand-in/vendor/types-end-with-their-vfs vfs_go_and_come
check /vm/stand-in/vendor/types-end-with-their-driver driver_goes_and_comes
check /vm/stand-in/vendor/open-can-enable-the-device open_enables_the_device
check /vm/stand-in/vendor/module-reloads module_reloads
