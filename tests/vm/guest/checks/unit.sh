# cards: sriov
# The installed package: what systemd makes of it.

framework_is() {
    [ "$(property Framework)" = "s \"$1\"" ]
}

before_vfio() {
    refused test -e /sys/module/vfio_pci_core
    busctl introspect $BUS_NAME $OBJECT > /dev/null
    systemctl is-active --quiet $SERVICE
    is "$(property Framework)" 's "none"'
    load_stand_in
    enable_vfs "${cards[0]}"
    eventually framework_is vendor-vfio
    take owner root L40S-2Q
    is "$(type_of "$device")" 1148
    release owner "$id"
    is "$(type_of "$device")" 0
}

activation() {
    systemctl stop $SERVICE
    refused systemctl is-active --quiet $SERVICE
    is "$(busctl get-property $BUS_NAME $OBJECT $BUS_NAME Framework)" 's "vendor-vfio"'
    systemctl is-active --quiet $SERVICE
    is "$(busctl status $BUS_NAME | sed -n 's/^Unit=//p')" $SERVICE
}

sandbox() {
    local pid path
    pid=$(main_pid)
    is "$(sed -n 's/^NoNewPrivs:\t//p' "/proc/$pid/status")" 1
    is "$(sed -n 's/^Seccomp:\t//p' "/proc/$pid/status")" 2
    [ "$(sed -n 's/^CapEff:\t//p' "/proc/$pid/status")" != "$(sed -n 's/^CapEff:\t//p' /proc/1/status)" ]
    is "$(stat --format='%a %U' /run/hypeman-vgpu)" '755 root'
    refused nsenter --target "$pid" --mount touch /usr/probe /run/probe
    # By these a service that was taken over would be root again, whatever it may not do itself.
    for path in /proc/sys/kernel/core_pattern /proc/sysrq-trigger /sys/bus/pci/rescan /sys/power/state; do
        test -w $path
        refused nsenter --target "$pid" --mount sh -c "exec 9>> $path"
    done
}

verify() {
    local said
    said=$(systemd-analyze verify --man=no $SERVICE 2>&1)
    is "$said" ''
}

exposure() {
    systemd-analyze security --no-pager --threshold=25 $SERVICE | tail -2
}

stop_keeps() {
    take owner root L40S-2Q
    systemctl stop $SERVICE
    is "$(systemctl show --property=Result --value $SERVICE)" success
    is "$(type_of "$device")" 1148
    systemctl start $SERVICE
    eventually state_is "$id" assigned
    is "$(show "$id" Device)" "$device"
    release owner "$id"
    is "$(type_of "$device")" 0
}

stop_then_owner_goes() {
    take owner root L40S-2Q
    systemctl stop $SERVICE
    end owner
    is "$(type_of "$device")" 1148
    systemctl start $SERVICE
    eventually gone "$id"
    is "$(type_of "$device")" 0
}

restart_keeps() {
    local pid
    pid=$(main_pid)
    take owner root L40S-2Q
    systemctl restart $SERVICE
    [ "$(main_pid)" != "$pid" ]
    eventually state_is "$id" assigned
    forget_writes
    release owner "$id"
    is "$(writes)" 1
}

entries_of() {
    journalctl --sync
    journalctl --no-pager --output=json --output-fields=MESSAGE_ID,VGPU_REASON VGPU_ID="$1" > "$scratch/entries"
    [ "$(wc -l < "$scratch/entries")" -ge "$2" ]
}

journal() {
    take owner root L40S-2Q
    release owner "$id"
    eventually entries_of "$id" 2
    is "$(wc -l < "$scratch/entries")" 2 'one line per change'
    is "$(grep -c '"MESSAGE_ID":"[0-9a-f]\{32\}"' "$scratch/entries")" 2
    is "$(grep -o '"MESSAGE_ID":"[^"]*"' "$scratch/entries" | sort -u | wc -l)" 2
    matches "$(tail -1 "$scratch/entries")" '"VGPU_REASON":"released"'
    is "$(journalctl --no-pager --output=cat "VGPU_DEVICE=$device" VGPU_UID=0 "VGPU_ID=$id" VGPU_RESULT=done | wc -l)" 2
}

# An administrator's options on top of the unit's.
with_options() {
    mkdir -p "/run/systemd/system/$SERVICE.d"
    printf '%s\n' '[Service]' "$@" > "/run/systemd/system/$SERVICE.d/options.conf"
    systemctl daemon-reload
    systemctl restart $SERVICE
}

# The child that asks NVML lives in the unit's sandbox too. The service itself asks about NVIDIA's cards only.
nvml_in_sandbox() {
    local answer=/run/hypeman-vgpu/answer
    printf '1148\tNVIDIA L40S-2Q\n' > /run/types
    with_options "Environment=LD_LIBRARY_PATH=/vm/lib 'FAKE_NVML_CARDS=0000:01:00.0=A card of NVML=/run/types'" \
        "ExecStartPost=/bin/sh -c 'exec /usr/libexec/hypeman-vgpud --nvml-query 20 0000:01:00.0 > $answer'"
    matches "$(tr '\t\n' '  ' < $answer)" 'A card of NVML type 1148 0 0 NVIDIA L40S-2Q end'
}

# assign_says ERROR WORDS
assign_says() {
    spawn owner as root consumer
    tell owner assign L40S-2Q
    hear owner
    matches "$REPLY" "^$1 .*$2"
    nothing_assigned
}

read_only_sys() {
    with_options ReadWritePaths=
    assign_says DeviceFailed 'ReadWritePaths=/sys/devices'
}

closed_nodes() {
    forget_writes
    with_options DeviceAllow=
    assign_says NoCapacity 'DeviceAllow=char-vfio'
    is "$(writes set)" 0
}

check /vm/unit/started-before-vfio-modules-are-loaded before_vfio
check /vm/unit/activation-starts-it activation
check /vm/unit/runs-in-its-sandbox sandbox
check /vm/unit/verify-is-clean verify
check /vm/unit/exposure-at-most-2.5 exposure
check /vm/unit/stop-clears-nothing stop_keeps
check /vm/unit/start-takes-back-what-lost-its-owner stop_then_owner_goes
check /vm/unit/restart-keeps-assignments restart_keeps
check /vm/unit/journal-has-one-line-per-change journal
check /vm/unit/nvml-answers-in-the-sandbox nvml_in_sandbox
# The last ones: the unit stays as they leave it.
check /vm/unit/read-only-sys-is-named read_only_sys
check /vm/unit/closed-nodes-are-named closed_nodes
