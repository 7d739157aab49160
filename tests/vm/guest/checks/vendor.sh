# cards: sriov sriov
# Vendor VFIO: virtual functions are lent and taken back, and nothing that is open is ever written to.

load_stand_in cards="${cards[1]}=A10"
one=${cards[0]} two=${cards[1]}
enable_vfs "$one"
enable_vfs "$two"

set_and_clear() {
    forget_writes
    take owner root L40S-2Q
    is "$(type_of "$device")" 1148
    is "$node" "$(group_node "$device")"
    is "$(show "$id" State)" assigned
    is "$(readlink -f "$(show "$id" DevicePath)")" "$(readlink -f "$PCI/$device")"
    is "$(attempt "vm $node $device")" ok 'a VM can have it'
    release owner "$id"
    is "$(type_of "$device")" 0
    is "$(cut -d' ' -f1,2,4 "$STAND_IN/writes" | xargs)" "set $device 0 clear $device 0"
}

owner_goes() {
    take owner root L40S-2Q
    end owner KILL
    eventually gone "$id"
    is "$(type_of "$device")" 0
}

owner_dies_while_open() {
    take owner root L40S-2Q
    spawn vm opener
    ask vm ok vm "$node" "$device"
    eventually state_is "$id" in-use
    ask owner InUse release "$id"
    matches "$REPLY" "${spawned[vm]}"
    forget_writes
    end owner KILL
    eventually state_is "$id" lingering
    is "$(type_of "$device")" 1148
    is "$(writes)" 0 'nothing is written while it is open'
    end vm KILL
    eventually gone "$id"
    is "$(type_of "$device")" 0
    is "$(writes)" 1
}

device_descriptor_alone() {
    take owner root L40S-2Q
    spawn vm opener
    ask vm ok vm "$node" "$device"
    ask vm ok close group
    ask vm ok close container
    forget_writes
    ask owner InUse release "$id"
    end owner KILL
    eventually state_is "$id" lingering
    is "$(writes)" 0
    is "$(type_of "$device")" 1148
    ask vm ok close device
    eventually gone "$id"
    is "$(type_of "$device")" 0
}

group_descriptor_alone() {
    local stale
    take owner root L40S-2Q
    stale=$device
    spawn vm opener
    ask vm ok vm "$node" "$device"
    ask vm ok close device
    ask owner InUse release "$id"
    # Somebody else clears it and sets it: it is not ours any more.
    is "$(set_type "$stale" 0)" ok
    is "$(set_type "$stale" 1158)" ok
    forget_writes
    tell owner release "$id"
    hear owner
    [[ $REPLY == removed* ]] || hear owner
    is "$REPLY" "removed $id lost"
    is "$(type_of "$stale")" 1158
    is "$(grep -c "hypeman-vgpud" "$STAND_IN/writes" || true)" 0
    # The answer to Release may be still to come.
    end owner
    spawn owner consumer
    # And when it is free again, whoever kept the group would get the next owner's device.
    is "$(set_type "$stale" 0)" ok
    tell owner assign L40S-2Q device="$stale"
    hear owner
    matches "$REPLY" "^[A-Z].* open in .*${spawned[vm]}"
    take_more owner L40S-2Q gpu="$one"
    [ "$device" != "$stale" ] || fail 'was given a VF whose group is open'
    is "$(grep -c "hypeman-vgpud" "$STAND_IN/writes")" 1
    end vm
    release owner "$id"
    eventually is_free "$(group_node "$stale")"
    take_more owner L40S-2Q device="$stale"
    release owner "$id"
}

chowned_node() {
    local path
    for path in /dev/vfio/[0-9]*; do
        chown alice:alice "$path"
        chmod 0600 "$path"
    done
    take owner root L40S-2Q
    is "$(type_of "$device")" 1148
    release owner "$id"
    is "$(type_of "$device")" 0
    chown root:root /dev/vfio/[0-9]*
}

foreign() {
    local other
    other=$(vf "$one" 3)
    set_type "$other" 1148
    forget_writes
    take owner root L40S-2Q gpu="$one"
    [ "$device" != "$other" ]
    systemctl restart $SERVICE
    release owner "$id"
    is "$(type_of "$other")" 1148
    is "$(grep -c "$other" "$STAND_IN/writes" || true)" 0
    spawn vm opener
    ask vm ok vm "$(group_node "$other")" "$other"
    ask owner InUse reclaim "$other"
    end vm
    eventually is_free "$(group_node "$other")"
    ask owner ok reclaim "$other"
    is "$(type_of "$other")" 0
}

changed_by_hand() {
    take owner root L40S-2Q
    is "$(set_type "$device" 0)" ok
    property GPUs > /dev/null
    hear owner
    is "$REPLY" "removed $id lost"
    is "$(grep -c "^clear $device 0 0 hypeman" "$STAND_IN/writes" || true)" 0
}

full() {
    spawn owner consumer
    ask owner UnknownProfile assign H100-80C
    take_more owner L40S-48Q
    ask owner NoCapacity assign L40S-48Q
    matches "$REPLY" "$one"
    ask owner ok assign A10-24Q
    ask owner ok plan A10-24Q
    is "$(value_of Device "$REPLY")" ''
}

spread() {
    # Both cards know a profile of this name once their driver numbers it.
    spawn owner consumer
    take_more owner L40S-12Q
    is "$(show "$id" GPU)" "$one"
    take_more owner A10-12Q
    is "$(show "$id" GPU)" "$two"
    is "$(type_of "$device")" 596
}

check /vm/vendor/assign-sets-and-release-clears set_and_clear
check /vm/vendor/owner-goes/cleared owner_goes
check /vm/vendor/owner-goes/open-device-is-kept owner_dies_while_open
check /vm/vendor/holder-of-device-descriptor-alone-is-seen device_descriptor_alone
check /vm/vendor/holder-of-group-descriptor-alone-gets-no-new-vgpu group_descriptor_alone
check /vm/vendor/chowned-group-node chowned_node
check /vm/vendor/foreign-vgpu-is-left-alone foreign
check /vm/vendor/change-by-hand-is-noticed-by-the-next-scan changed_by_hand
check /vm/vendor/full-and-unknown-differ full
check /vm/vendor/two-models-side-by-side spread
