# cards: sriov
# A real virtual machine of an unprivileged user on a virtual function.

load_stand_in
one=${cards[0]}
enable_vfs "$one"
fault enable_device 1

emulator() {
    echo qemu-system-x86_64 -accel tcg -machine q35 -nodefaults -display none -S -m 32 -device '{qemu}' \
        -qmp "unix:/tmp/qemu.qmp,server=on,wait=off"
}

# The one assignment there is: sets $id and $device.
the_assignment() {
    local said
    said=$(property Assignments)
    id=$(sed -n 's/.*"Id" s "\([0-9a-f]*\)".*/\1/p' <<< "$said")
    device=$(sed -n 's/.*"Device" s "\([^"]*\)".*/\1/p' <<< "$said")
    [ -n "$id" ] && [ -n "$device" ]
}

opened() {
    [ "$(cat "$STAND_IN/opens")" -gt "$1" ]
}

start() {
    local before
    fault enable_device 1
    before=$(cat "$STAND_IN/opens")
    # shellcheck disable=SC2046
    spawn run as alice vgpuctl run L40S-2Q -- $(emulator)
    eventually opened "$before"
    the_assignment
    eventually state_is "$id" in-use
    is "$(type_of "$device")" 1148
    qemu=$(pgrep --uid alice qemu-system-x86)
    is "$(ps -o user= -p "$qemu")" alice
    matches "$(readlink "/proc/$qemu/fd/"*)" 'anon_inode:\[?vfio-device'
}

ends_by_itself() {
    start
    ask_owner_in_use
    kill -TERM "$qemu"
    wait "${spawned[run]}" || true
    eventually gone "$id"
    is "$(type_of "$device")" 0
}

ask_owner_in_use() {
    local said
    said=$(echo "release $id" | consumer)
    matches "$said" "^InUse .*$qemu"
}

qemu_is_killed() {
    local status=0
    start
    kill -KILL "$qemu"
    wait "${spawned[run]}" || status=$?
    is $status 137 "the command's status"
    eventually gone "$id"
    is "$(type_of "$device")" 0
}

client_is_killed() {
    start
    forget_writes
    kill -KILL "${spawned[run]}"
    eventually state_is "$id" lingering
    is "$(type_of "$device")" 1148
    is "$(writes)" 0
    kill -0 "$qemu"
    kill -KILL "$qemu"
    eventually gone "$id"
    is "$(type_of "$device")" 0
}

check /vm/qemu/released-when-it-ends ends_by_itself
check /vm/qemu/released-when-it-is-killed qemu_is_killed
check /vm/qemu/kept-when-the-client-is-killed client_is_killed
