# cards: sriov sriov edu
# Mediated devices on virtual functions and on a whole card, and vendor VFIO beside them.

load_stand_in cards="${cards[0]}=A16"
one=${cards[0]} two=${cards[1]} whole=${cards[2]}
enable_vfs "$one"
enable_vfs "$two" 2

parent_has() {
    [ -e "$PCI/$1/$2" ]
}

both() {
    local ours=$uuid
    is "$(property Framework)" 's "mixed"'
    spawn owner consumer
    take_more owner L40S-2Q
    is "$(type_of "$device")" 1148
    take_more owner A16-2Q
    is "$(available "$device" 712)" 0
    take_more owner T4-2Q
    is "$device" "$whole"
    parent_has "$whole" "$uuid"
    end owner
    eventually nothing_assigned
    refused parent_has "$whole" "$uuid"
}

on_vf() {
    forget_writes
    take owner root A16-2Q
    parent_has "$device" "$uuid"
    is "$(show "$id" Framework)" mdev
    is "$(basename "$(readlink "/sys/bus/mdev/devices/$uuid/mdev_type")")" nvidia-712
    is "$node" "$(group_node "$uuid")"
    is "$(attempt "vm $node $uuid")" ok
    release owner "$id"
    refused parent_has "$device" "$uuid"
    is "$(cut -d' ' -f1,4 "$STAND_IN/writes" | xargs)" 'create 0 remove 0'
}

on_card() {
    local first
    take owner root T4-2Q
    first=$uuid
    take_more owner T4-2Q
    is "$(available "$whole" 231)" 6
    ask owner NoCapacity assign T4-16Q
    end owner
    eventually nothing_assigned
    is "$(available "$whole" 231)" 8
    refused parent_has "$whole" "$first"
}

chosen_uuid() {
    local chosen=c0ffee00-0000-4000-8000-00000000000a
    take owner root T4-2Q uuid=$chosen
    is "$uuid" $chosen
    ask owner InvalidArgs assign T4-2Q uuid=$chosen
    release owner "$id"
}

owner_dies_while_open() {
    take owner root A16-2Q
    spawn vm opener
    ask vm ok vm "$node" "$uuid"
    forget_writes
    ask owner InUse release "$id"
    end owner KILL
    eventually state_is "$id" lingering
    parent_has "$device" "$uuid"
    is "$(ps -eLo wchan:40 | grep -c vfio_unregister || true)" 0 'no remove waits'
    end vm KILL
    eventually gone "$id"
    refused parent_has "$device" "$uuid"
}

refused_create() {
    fault fail_create '5 9'
    spawn owner consumer
    ask owner DeviceFailed assign A16-2Q
    nothing_assigned
    is "$(ls /sys/bus/mdev/devices | wc -l)" 0
}

remove_waits() {
    ps -eLo wchan:40 | grep -q fault_before_write
}

blocked_remove() {
    local pid lent=$uuid
    take owner root T4-2Q
    lent=$uuid
    fault hold $HOLD_REMOVE
    forget_writes
    tell owner release "$id"
    eventually remove_waits
    # The service still answers, and lends.
    spawn other consumer
    take_more other A16-2Q
    # Killed, it starts anew although its writer cannot die, and has not lost the other.
    pid=$(main_pid)
    kill -KILL "$pid"
    eventually runs_again "$pid"
    remove_waits
    eventually state_is "$id" assigned
    take_more other A16-2Q
    # What is half removed is not offered again.
    parent_has "$whole" "$lent"
    ask other NoCapacity assign T4-16Q
    fault hold 0
    eventually refused parent_has "$whole" "$lent"
    eventually refused remove_waits
    ask other ok assign T4-16Q
    is "$(grep -c "^remove .* $lent " "$STAND_IN/writes")" 1
}

kept_over_restart() {
    local pid
    take owner root T4-2Q
    pid=$(main_pid)
    kill -KILL "$pid"
    eventually runs_again "$pid"
    eventually state_is "$id" assigned
    parent_has "$whole" "$uuid"
    release owner "$id"
    refused parent_has "$whole" "$uuid"
}

check /vm/mdev/both-frameworks-at-once both
check /vm/mdev/on-a-virtual-function on_vf
check /vm/mdev/on-a-whole-card on_card
check /vm/mdev/chosen-uuid chosen_uuid
check /vm/mdev/owner-goes/open-device-is-kept owner_dies_while_open
check /vm/mdev/refused-create-leaves-nothing refused_create
check /vm/mdev/blocked-remove-survives-the-service blocked_remove
check /vm/mdev/killed-at-rest-keeps-assignments kept_over_restart
