# cards: sriov
# People without privileges, real polkit, and the shipped rules.

load_stand_in
one=${cards[0]}
enable_vfs "$one"

may_open() {
    is "$(as "$1" opener "group $2" || true)" "$3" "$1 opens $2"
}

member_assigns() {
    local other
    take owner alice L40S-2Q
    is "$(show "$id" UID)" 1000
    may_open alice "$node" ok
    may_open bob "$node" EACCES
    for other in /dev/vfio/[0-9]*; do
        [ "$other" = "$node" ] || may_open alice "$other" EACCES
    done
    is "$(as alice opener "vm $node $device")" ok 'a real device, not just a node'
    eventually state_is "$id" assigned
    release owner "$id"
    may_open alice "$node" EACCES
    is "$(getfacl --omit-header --absolute-names "$node" | grep -c '^user:[^:]' || true)" 0
}

others_are_refused() {
    spawn stranger as bob consumer
    tell stranger assign L40S-2Q
    hear stranger
    matches "$REPLY" '^(AccessDenied|InteractiveAuthorizationRequired) '
    nothing_assigned
    is "$(vgpuctl_as_bob; echo $?)" 3
}

vgpuctl_as_bob() {
    as bob vgpuctl --no-ask-password assign L40S-2Q > /dev/null 2>&1
}

release_of_others() {
    local other
    take owner alice L40S-2Q
    spawn stranger as bob consumer
    tell stranger release "$id"
    hear stranger
    matches "$REPLY" '^(AccessDenied|InteractiveAuthorizationRequired) '
    is "$(type_of "$device")" 1148
    spawn second as alice consumer
    ask second ok release "$id"
    is "$(type_of "$device")" 0
}

withdrawn_at_once() {
    take owner alice L40S-2Q
    spawn vm as alice opener
    ask vm ok vm "$node" "$device"
    end owner KILL
    eventually state_is "$id" lingering
    eventually withdrawn "$node"
    may_open alice "$node" EACCES
    is "$(type_of "$device")" 1148 'the open one goes on'
    end vm
    eventually gone "$id"
}

withdrawn() {
    ! getfacl --omit-header --absolute-names "$1" | grep -q '^user:alice'
}

mask_is_put_back() {
    take owner alice L40S-2Q
    chmod 0600 "$node"
    may_open alice "$node" EACCES
    udevadm trigger --action=change --settle "$(udevadm info --query=path --name="$node" | sed 's,^,/sys,')"
    eventually granted "$node"
    may_open alice "$node" ok
    release owner "$id"
}

granted() {
    [ "$(as alice opener "group $1" || true)" = ok ]
}

strangers_entry_goes() {
    local path
    for path in /dev/vfio/[0-9]*; do
        setfacl --modify=user:bob:rw "$path"
    done
    take owner alice L40S-2Q
    may_open bob "$node" EACCES
    may_open alice "$node" ok
    release owner "$id"
    setfacl --remove-all /dev/vfio/[0-9]*
}

quota() {
    local i
    spawn owner as alice consumer
    for i in 1 2 3 4; do
        ask owner ok assign L40S-1Q
    done
    ask owner NoCapacity assign L40S-1Q
}

root_gets_no_acl() {
    take owner root L40S-2Q
    is "$(stat --format=%a "$node")" 600
    is "$(getfacl --omit-header --absolute-names "$node" | grep -c '^user:[^:]' || true)" 0
    release owner "$id"
}

check /vm/users/member-opens-the-node-it-was-given-and-no-other member_assigns
check /vm/users/refused-without-the-group others_are_refused
check /vm/users/release-of-anothers-is-refused release_of_others
check /vm/users/access-is-withdrawn-at-once withdrawn_at_once
check /vm/users/mask-is-put-back mask_is_put_back
check /vm/users/strangers-entry-goes strangers_entry_goes
check /vm/users/root-gets-no-entry root_gets_no_acl
check /vm/users/full quota
