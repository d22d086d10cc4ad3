# Say what this account is, what is in place for it, and what it could do: POSIX sh, nothing is changed.
# Arguments: the helper, its library, then units to look at besides those of the allow file.
# Output lines: `NAME VALUE`; a name may come more than once.
LC_ALL=C
PATH=$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export LC_ALL PATH
svc=$1 library=$2
shift 2
say() { printf '%s %s\n' "$1" "$(printf %s "$2" | tr '\n' ' ')"; }
has() { command -v "$1" >/dev/null 2>&1; }
sum() { sha256sum <"$1" 2>/dev/null | cut -d ' ' -f 1; }

say uid "$(id -u)"
say user "$(id -un)"
for group in $(id -Gn); do say group "$group"; done
for name in CapEff CapAmb; do say "$name" "$(sed -n "s/^$name:[[:space:]]*//p" /proc/self/status)"; done
for program in rg python3 curl wget timeout base64 systemctl journalctl busctl sudo; do
    if has "$program"; then say has "$program"; else say lacks "$program"; fi
done
[ ! -d /run/systemd/system ] || say systemd yes

# --- the helper ---------------------------------------------------------------------------------------------
call() { sudo -n "$svc" "$@" 2>/dev/null </dev/null; }
if [ -e "$svc" ]; then
    for file in "$svc" "$library/transaction.sh" "$library/transaction_enter.sh"; do
        say file "$(stat -c '%U %a' "$file" 2>/dev/null || echo missing) $(sum "$file") $file"
    done
    if has sudo; then
        if said=$(call version); then say version "$said"
        else
            call() { printf '%s\n' "$1" | sudo -n "$svc" 2>/dev/null; }
            if said=$(call version); then
                say version "$said"
                say arguments unchecked
            else
                say unusable "$(sudo -n "$svc" version 2>&1 </dev/null | tail -n 1)"
            fi
        fi
        allowed=$(call allowed) && say allowed "$allowed"
        case $allowed in refused:*) say refuses "${allowed#refused: }" ;; esac
    fi
fi
if has sudo; then
    sudo -n true 2>/dev/null </dev/null && say sudo anything
    sudo -n -l 2>/dev/null </dev/null | grep -a -E '^ *\(' | while read -r line; do say rule "$line"; done
fi

# --- the journal --------------------------------------------------------------------------------------------
units=$(printf '%s' "$allowed" | grep -o '"[^"]*\.service"' | tr -d '"')
if has journalctl; then
    hint=$(journalctl -n 1 -o cat --no-pager 2>&1 >/dev/null)
    case $hint in
    *'not seeing messages'* | *'nsufficient permissions'* | *'not permitted'*) say journal own ;;
    *) say journal all ;;
    esac
fi

# --- what it should not be able to do -----------------------------------------------------------------------
may() { # KIND PATH...: say which of them may be written
    kind=$1
    shift
    for path in "$@"; do
        if [ -e "$path" ] && [ -w "$path" ]; then say "writes-$kind" "$path"; fi
    done
}
reads() { for path in "$@"; do if [ -f "$path" ] && [ -r "$path" ]; then say reads-secret "$path"; fi; done; }

may system /etc/systemd/system /run/systemd/system /usr/local/lib/systemd/system /usr/lib/systemd/system \
    /lib/systemd/system /etc/sudoers /etc/sudoers.d /etc/leadline /etc/leadline/allow.json /usr/local/sbin "$svc" \
    "$library" "$library"/* /etc/ld.so.preload /etc/passwd /etc/cron.d /etc/polkit-1/rules.d
may socket /var/run/docker.sock /run/docker.sock /run/podman/podman.sock /run/containerd/containerd.sock \
    /var/lib/lxd/unix.socket /var/snap/lxd/common/lxd/unix.socket /run/libvirt/libvirt-sock
may disk /dev/sd[a-z] /dev/nvme[0-9]n1 /dev/vd[a-z] /dev/mem
reads /etc/shadow /etc/gshadow /etc/sudoers /etc/ssh/ssh_host_*_key /root/.ssh/id_*
cut -d : -f 6 /etc/passwd | sort -u | while read -r home; do
    [ "$home" != "$HOME" ] && [ "$home" != / ] && [ "$home" != /root ] || continue
    for key in "$home"/.ssh/id_* "$home"/.netrc "$home"/.cache/huggingface/token; do
        case $key in *.pub) ;; *) reads "$key" ;; esac
    done
    may home "$home/.ssh" "$home/.ssh/authorized_keys"
done
if has pkcheck && [ "$(id -u)" != 0 ]; then
    pkcheck --action-id org.freedesktop.systemd1.manage-units --process $$ >/dev/null 2>&1 && say polkit manage-units
fi

look() { # PID WHAT: say what the process runs from that this account may write
    tr '\0' '\n' <"/proc/$1/cmdline" 2>/dev/null | head -n 12 | grep '^/' | while read -r word; do may code "$word"; done
    first=$(tr '\0' '\n' <"/proc/$1/cmdline" 2>/dev/null | head -n 1)
    for site in "${first%/bin/*}"/lib/python3*/site-packages "${first%/bin/*}"/lib/python3*/dist-packages; do
        may code "$site" "$site/sglang" "$site/vllm"
    done
}
if has systemctl; then
    for unit in $units "$@"; do
        state=$(systemctl show -p LoadState --value -- "$unit" 2>/dev/null)
        say unit "$unit ${state:-unknown}"
        for path in $(systemctl show -p FragmentPath,DropInPaths --value -- "$unit" 2>/dev/null); do may unit "$path"; done
        may unit "/etc/systemd/system/$unit.d"
        systemctl cat -- "$unit" 2>/dev/null | sed -n 's/^[[:space:]]*EnvironmentFile=-\{0,1\}//p' |
            while read -r path; do may unit "$path"; done
        pid=$(systemctl show -p MainPID --value -- "$unit" 2>/dev/null)
        [ "${pid:-0}" = 0 ] || look "$pid"
    done
fi
for file in $(grep -laE 'sglang|vllm|ollama|llama' /proc/[0-9]*/cmdline 2>/dev/null | head -n 40); do
    pid=${file#/proc/}
    [ "${pid%/cmdline}" = $$ ] || look "${pid%/cmdline}"
done
say end yes
