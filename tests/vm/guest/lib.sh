# SPDX-License-Identifier: LGPL-2.1-or-later
# What checks are written with. A file of checks says what hardware it wants in its head:
#
#   # cards: sriov sriov edu
#
# prepares the machine, and calls
#
#   check /vm/what/is-promised FUNCTION
#
# for each promise. FUNCTION runs in a subshell in which any command that fails ends the check; processes that
# it spawned end with it. What it printed is kept, and shown when it failed.

STAND_IN=/sys/module/vgpu_stand_in/parameters
PCI=/sys/bus/pci/devices
SERVICE=hypeman-vgpud.service
BUS_NAME=org.hypeman.VGPU1
OBJECT=/org/hypeman/VGPU1
SLOW=$(cat /vm/slow)
# Seconds. Generous: an emulated machine on a loaded host is slow, and waiting costs nothing if all is well.
DEADLINE=$((40 * SLOW))

tests=0
failures=0
scratch=$(mktemp -d /run/vm.XXXXXX)

note() {
    printf '%s\n' "$*"
}

fail() {
    note "$*"
    exit 1
}

check() {
    local name=$1 status
    shift
    tests=$((tests + 1))
    began=$EPOCHSECONDS
    (
        # bash forgets -e inside conditions, so this subshell is not part of one.
        set -eE -o pipefail
        trap 'status=$?; note "command failed ($status) in ${FUNCNAME[0]:-check}, line $LINENO: $BASH_COMMAND" >&2' ERR
        trap end_spawned EXIT
        "$@"
    ) > "$scratch/output" 2>&1 < /dev/null
    status=$?
    clean_up >> "$scratch/output" 2>&1
    if [ "$status" = 0 ]; then
        echo "ok $tests - $name"
    else
        failures=$((failures + 1))
        echo "not ok $tests - $name"
        sed 's/^/# /' "$scratch/output"
        circumstances | sed 's/^/# /'
    fi
}

# What a check left behind must not reach the next: no fault, and nothing that is still being taken back.
clean_up() {
    local name
    if [ -d "$STAND_IN" ]; then
        for name in fail_set fail_clear fail_create; do
            echo '0 0' > "$STAND_IN/$name"
        done
        for name in hold other_type plugin_exit_ms enable_device; do
            echo 0 > "$STAND_IN/$name"
        done
        echo 5000 > "$STAND_IN/busy_wait_ms"
    fi
    if [ -e /vm/package ] && systemctl is-active --quiet $SERVICE; then
        (eventually nothing_assigned)
    fi
}

# What a person needs to see why a check failed.
circumstances() {
    echo '--- journal of the service'
    journalctl --unit="$SERVICE" --since="@$began" --output=short-monotonic --no-pager 2> /dev/null
    echo '--- processes'
    ps -eo pid,ppid,user,stat,wchan:20,args | grep -v -e '\[.*\]$'
    if [ -d "$STAND_IN" ]; then
        echo '--- writes seen by the driver'
        cat "$STAND_IN/writes"
        echo '--- violations'
        cat "$STAND_IN/violations"
    fi
    echo '--- kernel log'
    dmesg --notime | tail -20
}

nothing_forbidden() {
    if [ -d "$STAND_IN" ]; then
        [ -z "$(cat "$STAND_IN/violations")" ] || fail "$(cat "$STAND_IN/violations")"
    fi
    if dmesg | grep -E 'WARNING: |BUG: |Oops|general protection|blocked for more than|segfault'; then
        fail 'the kernel complained'
    fi
    if journalctl --no-pager --boot --unit="$SERVICE" | grep -E 'dumped core|status=(6|11)/|CRITICAL'; then
        fail 'the service crashed or complained of itself'
    fi
}

finish() {
    check "/vm/$(cat /vm/name)/nothing-forbidden-happened" nothing_forbidden
    echo "1..$tests"
}

# --- waiting and comparing

# Wait until a command succeeds. It runs in a subshell, where it may also end by fail.
eventually() {
    local end=$((SECONDS + DEADLINE))
    until ("$@") > "$scratch/last" 2>&1; do
        [ "$SECONDS" -lt "$end" ] || fail "never came true: $*; at last: $(cat "$scratch/last")"
        sleep 0.05
    done
}

is() {
    [ "$1" = "$2" ] || fail "is '$1', should be '$2'${3:+: $3}"
}

matches() {
    [[ $1 =~ $2 ]] || fail "is '$1', should match '$2'"
}

refused() {
    if "$@"; then
        fail "should fail: $*"
    fi
}

# Write a value to a file and print "ok" or the errno's text, as the kernel gave it.
put() {
    local said
    if said=$( { printf '%s\n' "$1" > "$2"; } 2>&1); then
        echo ok
    else
        echo "${said##*: }"
    fi
}

# --- processes that stay: spawn NAME COMMAND…; tell NAME LINE; hear NAME, which sets $REPLY

declare -A spawned to_spawned from_spawned

spawn() {
    local name=$1 in out prefix=()
    shift
    if [ "$1" = as ]; then
        become "$2"
        shift 2
    fi
    rm -f "$scratch/$name".{in,out}
    mkfifo "$scratch/$name".{in,out}
    # Not through a function: the process must be the command's, to be killed by its number.
    "${prefix[@]}" "$@" < "$scratch/$name.in" > "$scratch/$name.out" &
    spawned[$name]=$!
    exec {in}> "$scratch/$name.in" {out}< "$scratch/$name.out"
    to_spawned[$name]=$in
    from_spawned[$name]=$out
}

tell() {
    local name=$1
    shift
    printf '%s\n' "$*" >&"${to_spawned[$name]}"
}

hear() {
    read -r -t "$DEADLINE" -u "${from_spawned[$1]}" || fail "$1 says nothing"
}

# Say something and want a certain answer.
ask() {
    local name=$1 wanted=$2
    shift 2
    tell "$name" "$@"
    hear "$name"
    [[ $REPLY == "$wanted" || $REPLY == "$wanted "* ]] || fail "$name was told '$*', answered '$REPLY', should be '$wanted'"
}

# Do what opener does, at once, and print the last answer; whatever was opened is closed again.
attempt() {
    opener "$@" | tail -1 || true
}

# End a process and wait until it is gone.
end() {
    local name=$1 signal=${2:-TERM} in=${to_spawned[$1]} out=${from_spawned[$1]}
    kill -"$signal" "${spawned[$name]}" 2> /dev/null || true
    wait "${spawned[$name]}" 2> /dev/null || true
    exec {in}>&- {out}<&-
    unset "spawned[$name]" "to_spawned[$name]" "from_spawned[$name]"
}

end_spawned() {
    local name
    set +e
    trap - ERR
    for name in "${!spawned[@]}"; do
        kill -KILL "${spawned[$name]}" 2> /dev/null
    done
}

# Sets $prefix: what runs a command as somebody without privileges and without a session.
become() {
    prefix=(setpriv --reuid="$1" --regid="$1" --init-groups env HOME="/home/$1")
}

as() {
    local prefix
    become "$1"
    shift
    "${prefix[@]}" "$@"
}

# --- the package

# What the package's scripts do after its files were unpacked, and a user who may take vGPUs.
install_package() {
    systemd-sysusers
    systemctl daemon-reload
    usermod --append --groups vgpu alice
}

# The bits of a caller's long answer, as in: value_of Id "$REPLY"
value_of() {
    local word
    for word in $2; do
        [[ $word != "$1="* ]] || { word=${word#*=}; echo "${word//%/ }"; return; }
    done
}

# What the service lists for an id: all of it, or one value; nothing when it is not listed.
show() {
    local said
    said=$(echo "show $1" | consumer)
    if [ -n "${2:-}" ]; then
        value_of "$2" "$said"
    else
        echo "${said#ok}"
    fi
}

state_is() {
    local state
    state=$(show "$1" State)
    [ "$state" = "$2" ] || {
        echo "it is ${state:-gone}"
        return 1
    }
}

property() {
    busctl get-property $BUS_NAME $OBJECT $BUS_NAME "$1"
}

main_pid() {
    systemctl show --property=MainPID --value $SERVICE
}

nothing_assigned() {
    [ "$(property Assignments)" = 'aa{sv} 0' ]
}

gone() {
    [ -z "$(show "$1")" ]
}

# end_with NAME ID REASON COMMAND…: the answer and the signal come in either order.
end_with() {
    local name=$1 removed="removed $2 $3" first
    shift 3
    tell "$name" "$@"
    hear "$name"
    first=$REPLY
    hear "$name"
    is "$(printf '%s\n' "$first" "$REPLY" | sort | xargs)" "ok $removed"
}

release() {
    end_with "$1" "$2" released release "$2"
}

# Wait until the service runs, as another process than the given one.
runs_again() {
    local pid
    pid=$(main_pid)
    [ "$pid" != 0 ] && [ "$pid" != "$1" ] && systemctl is-active --quiet $SERVICE
}

# A caller named NAME of USER that takes PROFILE; sets $id, $device and $node.
take() {
    local name=$1 user=$2
    shift 2
    spawn "$name" as "$user" consumer
    take_more "$name" "$@"
}

take_more() {
    ask "$1" ok assign "${@:2}"
    id=$(value_of Id "$REPLY")
    device=$(value_of Device "$REPLY")
    node=$(value_of GroupNode "$REPLY")
    uuid=$(value_of UUID "$REPLY")
}

# --- the hardware

# Load the stand-in for the driver, with its parameters, and what it stands on.
load_stand_in() {
    modprobe vfio-pci-core
    modprobe vfio_iommu_type1
    modprobe mdev
    insmod /vm/vgpu_stand_in.ko "$@"
    udevadm settle
}

unload_stand_in() {
    rmmod vgpu_stand_in
}

# The cards' addresses in the order they were asked for; without a subprocess, as those cost most here.
find_cards() {
    local path vendor
    cards=()
    for path in "$PCI"/*; do
        vendor=$(< "$path/vendor")$(< "$path/device")
        if [[ $vendor == 0x1b360x0010 || $vendor == 0x12340x11e8 ]] && [ ! -e "$path/physfn" ]; then
            cards+=("${path##*/}")
        fi
    done
    [ ${#cards[@]} = "$1" ]
}

card() {
    echo "${cards[$1 - 1]}"
}

# enable_vfs CARD [N]: few by default, as each costs an emulated machine a third of a second
enable_vfs() {
    echo "${2:-4}" > "$PCI/$1/sriov_numvfs"
    udevadm settle
}

disable_vfs() {
    echo 0 > "$PCI/$1/sriov_numvfs"
}

# vf CARD N: the address of one of its virtual functions
vf() {
    basename "$(readlink "$PCI/$1/virtfn$2")"
}

type_of() {
    cat "$PCI/$1/nvidia/current_vgpu_type"
}

creatable() {
    sed 1d "$PCI/$1/nvidia/creatable_vgpu_types"
}

set_type() {
    put "$2" "$PCI/$1/nvidia/current_vgpu_type"
}

# Whether nobody has the group open.
is_free() {
    [ "$(attempt "group $1")" = ok ]
}

# group_node DEVICE: of a PCI device, or of an mdev by its UUID
group_node() {
    local path=$PCI/$1
    [ -e "$path" ] || path=/sys/bus/mdev/devices/$1
    echo "/dev/vfio/$(basename "$(readlink "$path/iommu_group")")"
}

available() {
    cat "$PCI/$1/mdev_supported_types/nvidia-$2/available_instances"
}

# writes [KIND]: how many writes the driver has seen; forget_writes starts anew
writes() {
    grep -c "^${1:-}" "$STAND_IN/writes" || true
}

forget_writes() {
    echo > "$STAND_IN/writes"
}

# Bits for hold: which writes wait in the driver until they are let go.
HOLD_SET=1 HOLD_CLEAR=2 HOLD_CREATE=4 HOLD_REMOVE=8

fault() {
    echo "$2" > "$STAND_IN/$1"
}
