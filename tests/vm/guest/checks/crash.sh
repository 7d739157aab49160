# cards: sriov sriov
# The service dies, at rest and under load; what it lent is neither lost nor leaked.

load_stand_in
enable_vfs "${cards[0]}"
enable_vfs "${cards[1]}"

killed_at_rest() {
    local pid
    take owner root L40S-2Q
    forget_writes
    pid=$(main_pid)
    kill -KILL "$pid"
    eventually runs_again "$pid"
    eventually state_is "$id" assigned
    is "$(writes)" 0
    release owner "$id"
    is "$(type_of "$device")" 0
}

killed_with_owner() {
    local pid
    take owner root L40S-2Q
    pid=$(main_pid)
    kill -KILL "$pid"
    end owner KILL
    eventually runs_again "$pid"
    eventually gone "$id"
    is "$(type_of "$device")" 0
}

killed_with_owner_while_open() {
    local pid
    take owner root L40S-2Q
    spawn vm opener
    ask vm ok vm "$node" "$device"
    forget_writes
    pid=$(main_pid)
    kill -KILL "$pid"
    end owner KILL
    eventually runs_again "$pid"
    eventually state_is "$id" lingering
    is "$(writes)" 0
    is "$(type_of "$device")" 1148
    end vm
    eventually gone "$id"
    is "$(type_of "$device")" 0
}

# Takes and gives back until it is stopped; answers are whatever they are.
worker() {
    local words
    trap 'exit 0' TERM
    while true; do
        echo 'assign L40S-2Q' | consumer | while read -r words; do
            echo "$words" >> "$scratch/answers"
        done
    done
}

assigned_so_far() {
    [ "$(grep -c '^ok' "$scratch/answers")" -ge "$1" ]
}

killed_under_load() {
    local pid round workers=()
    : > "$scratch/answers"
    for round in 1 2; do
        worker &
        workers+=($!)
    done
    for round in 1 2 3; do
        : > "$scratch/answers"
        eventually assigned_so_far 1
        pid=$(main_pid)
        kill -KILL "$pid"
        eventually runs_again "$pid"
    done
    kill "${workers[@]}"
    wait "${workers[@]}" || true
    eventually nothing_assigned
    for device in "$PCI/${cards[0]}"/virtfn* "$PCI/${cards[1]}"/virtfn*; do
        is "$(cat "$device/nvidia/current_vgpu_type")" 0 "$device"
    done
}

check /vm/crash/killed-at-rest-keeps-assignments killed_at_rest
check /vm/crash/killed-with-its-owner-leaks-nothing killed_with_owner
check /vm/crash/killed-with-its-owner-disturbs-nobody killed_with_owner_while_open
check /vm/crash/killed-under-load-leaks-nothing killed_under_load
