# cards: sriov
# Devices go and come under the service's hands.

load_stand_in
one=${cards[0]}

available_now() {
    [[ $(vgpuctl profiles --json=short) == *'"NVIDIA L40S-2Q"'* ]]
}

enabled_late() {
    spawn owner consumer
    matches "$(property GPUs)" 'no virtual functions|"none"|aa\{sv\} 0'
    enable_vfs "$one"
    eventually available_now
    take_more owner L40S-2Q
    release owner "$id"
}

disabled_and_enabled() {
    take owner root L40S-2Q
    forget_writes
    disable_vfs "$one"
    hear owner
    is "$REPLY" "removed $id lost"
    enable_vfs "$one"
    # Another's, on the slot that was ours: our owner's end means nothing to it.
    is "$(set_type "$device" 1148)" ok
    end owner
    systemctl restart $SERVICE
    property Assignments
    is "$(type_of "$device")" 1148
    is "$(grep -c hypeman-vgpud "$STAND_IN/writes" || true)" 0
    is "$(set_type "$device" 0)" ok
}

quickly_disabled_and_enabled() {
    take owner root L40S-2Q
    forget_writes
    echo 0 > "$PCI/$one/sriov_numvfs"
    echo 4 > "$PCI/$one/sriov_numvfs"
    is "$(set_type "$device" 1148)" ok
    end owner
    udevadm settle
    eventually gone "$id"
    is "$(type_of "$device")" 1148 'the same type, but not the one that was lent'
    is "$(grep -c hypeman-vgpud "$STAND_IN/writes" || true)" 0
    is "$(set_type "$device" 0)" ok
}

disabled_while_open() {
    take owner root L40S-2Q
    spawn vm opener
    ask vm ok vm "$node" "$device"
    disable_vfs "$one" &
    hear owner
    is "$REPLY" "removed $id lost"
    end vm
    wait $!
    enable_vfs "$one"
    is "$(type_of "$device")" 0
    take_more owner L40S-2Q
    release owner "$id"
}

rebound() {
    take owner root L40S-2Q
    echo "$device" > /sys/bus/pci/drivers/nvidia/unbind
    hear owner
    is "$REPLY" "removed $id lost"
    echo "$device" > /sys/bus/pci/drivers/nvidia/bind
    udevadm settle
    is "$(set_type "$device" 1148)" ok
    forget_writes
    end owner
    property Assignments
    is "$(type_of "$device")" 1148
    is "$(writes)" 0
    is "$(set_type "$device" 0)" ok
}

reloaded() {
    take owner root L40S-2Q
    unload_stand_in
    hear owner
    is "$REPLY" "removed $id lost"
    load_stand_in
    enable_vfs "$one"
    eventually available_now
    take_more owner L40S-2Q
    is "$(type_of "$device")" 1148
    release owner "$id"
}

check /vm/hotplug/functions-enabled-late-are-offered enabled_late
check /vm/hotplug/disabled-functions-are-lost disabled_and_enabled
check /vm/hotplug/enabled-again-at-once-is-not-ours quickly_disabled_and_enabled
check /vm/hotplug/disabled-while-open disabled_while_open
check /vm/hotplug/rebound-driver-is-not-ours rebound
check /vm/hotplug/reloaded-driver reloaded
