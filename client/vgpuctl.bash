# SPDX-License-Identifier: LGPL-2.1-or-later
# bash completion for vgpuctl(1)

__vgpuctl_json() {
    # The values of key $2 in the lists that command $1 prints.
    vgpuctl "$1" --json=short 2>/dev/null | grep -o "\"$2\":\"[^\"]*\"" | cut -d'"' -f4
}

_vgpuctl() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command='' word i
    local commands='status gpus profiles list plan assign run adopt release reclaim monitor'
    local common='--host --json --no-legend --no-pager --no-ask-password --quiet --help --version -H -q -h'
    local place='--gpu --device --placement --numa-node --uuid --label'
    local options=$common words=''

    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if [[ $word == -- && $command == run ]]; then
            # What follows is a command line of its own.
            if declare -F _command_offset >/dev/null; then
                _command_offset $((i + 1))
            else
                mapfile -t COMPREPLY < <(compgen -c -- "$cur")
            fi
            return
        fi
        if [[ -z $command && " $commands " == *" $word "* ]]; then
            command=$word
        fi
    done

    # `--option=value` comes in three words where `=` breaks them.
    if [[ $cur == '=' ]]; then
        cur=''
    elif [[ $prev == '=' && $COMP_CWORD -ge 2 ]]; then
        prev=${COMP_WORDS[COMP_CWORD-2]}
    fi

    case $prev in
    --json) words='short pretty' ;;
    --placement) words='spread pack' ;;
    --format) words='qemu libvirt json' ;;
    --gpu) words=$(__vgpuctl_json gpus Address) ;;
    --host | -H | --device | --numa-node | --uuid | --label | --number | -n) return ;;
    esac
    if [[ -n $words ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
        return
    fi

    case $command in
    plan) options+=" $place" ;;
    assign) options+=" $place --format" ;;
    run) options+=" $place --number -n --" ;;
    adopt) options+=' --format' ;;
    release) options+=' --all' ;;
    esac
    if [[ $cur == -* ]]; then
        words=$options
    else
        case $command in
        '') words=$commands ;;
        # The short form of a name has no spaces.
        plan | assign | run) words=$(__vgpuctl_json profiles Name | sed -E 's/^(NVIDIA|GRID) //; s/ /_/g') ;;
        adopt | release) words=$(__vgpuctl_json list Id) ;;
        reclaim) words=$(__vgpuctl_json gpus Device) ;;
        esac
    fi
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
}

complete -F _vgpuctl vgpuctl
