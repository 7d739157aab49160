# cards: sriov sriov
# The driver refuses, takes its time, or does something else than it was told.

load_stand_in
one=${cards[0]} two=${cards[1]}
enable_vfs "$one"
enable_vfs "$two"

set_eio() {
    fault fail_set 5
    forget_writes
    take owner root L40S-2Q
    is "$(cut -d' ' -f1,4 "$STAND_IN/writes" | xargs)" 'set -5 set 0' 'a refused set is not undone'
    [ "$(sed -n '1s/.* \([0-9a-f:]*\)\..*/\1/p' "$STAND_IN/writes")" != "${device%.*}" ] || fail 'a sibling was tried'
    release owner "$id"
}

set_eperm() {
    fault fail_set 1
    forget_writes
    take owner root L40S-2Q gpu="$one"
    is "$(cut -d' ' -f1,4 "$STAND_IN/writes" | xargs)" 'set -1 set 0'
    release owner "$id"
}

set_other() {
    fault other_type 1158
    forget_writes
    spawn owner consumer
    ask owner DeviceFailed assign L40S-2Q gpu="$one"
    is "$(cut -d' ' -f1,4 "$STAND_IN/writes" | xargs)" 'set 0 clear 0'
    nothing_assigned
}

clear_ebusy() {
    take owner root L40S-2Q
    fault plugin_exit_ms 3000
    fault busy_wait_ms 100
    is "$(attempt "vm $node $device")" ok
    fault plugin_exit_ms 0
    forget_writes
    release owner "$id"
    is "$(type_of "$device")" 0
    matches "$(cut -d' ' -f4 "$STAND_IN/writes" | xargs)" '^-16 .*0$'
}

clear_eio() {
    local failed first
    take owner root L40S-2Q
    failed=$device first=$id
    fault fail_clear 5
    forget_writes
    ask owner DeviceFailed release "$id"
    state_is "$id" failed
    ask owner DeviceFailed release "$id"
    systemctl restart $SERVICE
    state_is "$id" failed
    take other root L40S-2Q gpu="${failed%.*}.0"
    [ "$device" != "$failed" ] || fail 'a failed slot was handed out'
    release other "$id"
    is "$(grep -c "^clear $failed" "$STAND_IN/writes")" 1 'after EIO there is no second write'
    end_with owner "$first" reclaimed reclaim "$failed"
    is "$(type_of "$failed")" 0
}

caller_goes_during_set() {
    fault hold $HOLD_SET
    forget_writes
    spawn owner consumer
    tell owner assign L40S-2Q
    eventually writer_waits
    end owner KILL
    fault hold 0
    eventually has_written clear
    eventually nothing_assigned
    is "$(cut -d' ' -f1,4 "$STAND_IN/writes" | xargs)" 'set 0 clear 0'
}

has_written() {
    [ "$(writes "$1")" -gt 0 ]
}

writer_waits() {
    ps -eLo wchan:40 | grep -q fault_before_write
}

others_do_not_wait() {
    fault hold $HOLD_SET
    spawn owner consumer
    tell owner assign L40S-2Q gpu="$one"
    eventually writer_waits
    spawn other consumer
    ask other ok plan L40S-2Q gpu="$two"
    matches "$(property GPUs)" "$two"
    fault hold 0
    hear owner
    matches "$REPLY" '^ok '
}

killed_during_set() {
    local pid
    fault hold $HOLD_SET
    forget_writes
    pid=$(main_pid)
    spawn owner consumer
    tell owner assign L40S-2Q
    eventually writer_waits
    kill -KILL "$pid"
    fault hold 0
    hear owner
    [[ $REPLY != ok* ]] || fail "answered '$REPLY'"
    eventually runs_again "$pid"
    eventually nothing_assigned
    is "$(cut -d' ' -f1,4 "$STAND_IN/writes" | xargs)" 'set 0 clear 0' 'nobody knows the id, so it is taken back'
}

check /vm/faults/set-eio-tries-the-next-card set_eio
check /vm/faults/set-eperm-tries-the-next-slot set_eperm
check /vm/faults/set-of-another-type-is-cleared set_other
check /vm/faults/clear-ebusy-is-repeated clear_ebusy
check /vm/faults/clear-eio-is-never-repeated clear_eio
check /vm/faults/caller-goes-during-set caller_goes_during_set
check /vm/faults/a-held-write-holds-nobody-else others_do_not_wait
check /vm/faults/killed-during-set killed_during_set
