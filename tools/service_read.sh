# Read what the plan of a change needs to know of a unit; change nothing. Arguments: unit, port, mark, and the
# drop-in of an earlier plan where that is looked at.
unit=$1 port=$2 mark=$3 dropin=${4:-}
export LC_ALL=C
section() { printf '\n%s %s\n' "$mark" "$1"; }
show() { systemctl show -p "$1" --value -- "$unit" 2>/dev/null; }
unset http_proxy HTTP_PROXY https_proxy all_proxy ALL_PROXY

section systemd
if [ -d /run/systemd/system ] && command -v systemctl >/dev/null 2>&1; then echo yes; fi
section clock
date +%s
section show
systemctl show -p Id,LoadState,LoadError,Type,SourcePath,Transient,ActiveState,MainPID,NeedDaemonReload,FragmentPath,DropInPaths,EnvironmentFiles \
    -p UnsetEnvironment,PassEnvironment,RequiredBy,BoundBy,PartOf,ConsistsOf,ControlGroup -- "$unit" 2>/dev/null
section cat
systemctl cat -- "$unit" 2>/dev/null
section sha
{ systemctl cat -- "$unit" && printf 'drop-ins %s\n' "$(show DropInPaths)"; } 2>/dev/null | sha256sum | cut -d ' ' -f 1
pid=$(show MainPID)
section cmdline
[ "${pid:-0}" = 0 ] || tr '\0\n' '\n\001' 2>/dev/null <"/proc/$pid/cmdline"
section processes
group=$(show ControlGroup)
for root in /sys/fs/cgroup /sys/fs/cgroup/unified /sys/fs/cgroup/systemd; do
    [ -n "$group" ] && [ -r "$root$group/cgroup.procs" ] || continue
    while read -r one; do
        [ "$one" = "$pid" ] || tr '\0\n' '  ' 2>/dev/null <"/proc/$one/cmdline" | cut -c 1-120
        echo
    done <"$root$group/cgroup.procs" | grep . | head -n 40
    break
done
section envfiles
systemctl cat -- "$unit" 2>/dev/null | sed -n 's/^[[:space:]]*EnvironmentFile=-\{0,1\}//p' | while read -r file; do
    [ -n "$file" ] || continue
    if [ -r "$file" ]; then
        sed -n 's/^[[:space:]]*\([A-Za-z_][A-Za-z0-9_]*\)=.*/\1/p' "$file" | while read -r name; do echo "$name $file"; done
    elif [ -e "$file" ]; then
        echo "? $file"
    else
        case $file in *[*?[%]*) echo "? $file" ;; esac
    fi
done
if [ -n "$dropin" ]; then
    section dropin
    cat "$dropin" 2>/dev/null && echo .
    section ours
    ls "$(dirname "$dropin")" 2>/dev/null | grep '^90-leadline-'
    section environ
    [ "${pid:-0}" = 0 ] || tr '\0\n' '\n\001' 2>/dev/null <"/proc/$pid/environ"
fi
section metrics
if command -v curl >/dev/null 2>&1; then
    curl -fs -m 5 "http://127.0.0.1:$port/metrics"
else
    wget -q -T 5 -O - "http://127.0.0.1:$port/metrics"
fi 2>/dev/null | grep -E '^(sglang:num_(running|queue)_reqs|vllm:num_requests_(running|waiting))[ {]' | head -n 200
section journal
log() { journalctl -u "$unit" -q -o short-unix --no-pager -n 50000 2>/dev/null; }
through() { sudo -n /usr/local/sbin/leadline-svc journal "$unit" 50000 '' '' unix 2>/dev/null </dev/null; }
if [ "$(id -u)" != 0 ] && [ -x /usr/local/sbin/leadline-svc ]; then through || log; else log; fi |
    grep -a -E 'systemd\[1\]: (Started|Starting) |The server is fired up and ready to roll|Application startup complete' |
    tail -n 60
section containers
for program in docker podman crictl; do
    command -v "$program" >/dev/null 2>&1 || continue
    timeout 5 "$program" ps -q 2>/dev/null | head -n 100 | sed "s/^/$program /"
done
section end
