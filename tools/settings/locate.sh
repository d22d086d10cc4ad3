# Runs after process.sh, whose names it uses, and before fetch.sh: where the engine's package comes from and what its
# host is, as records of the same form.
if has nvidia-smi; then # beside the rest: a driver that is not kept loaded takes seconds to answer
  {
    query='--query-gpu=name,memory.total,compute_cap --format=csv,noheader,nounits'
    rows=$(timeout 8 nvidia-smi $query </dev/null 2>/dev/null | head -c 8192 | enc)
    printf 'gpus %s\n' "$rows"
  } &
fi
short() { cat "$@" 2>/dev/null | head -c 4096; }
each() { IFS=$NL; set -f; }
located() {
send prefix "${PY%/*/*}"
for folder in "${PY%/*/*}" "${EXE%/*/*}"; do
  if [ -f "$ROOT$folder/pyvenv.cfg" ]; then short "$ROOT$folder/pyvenv.cfg" | pipe venv; fi
  if [ -d "$ROOT$folder/conda-meta" ]; then send conda "$folder"; fi
done
send namespaces "$(readlink "/proc/$PID/ns/mnt") $(readlink /proc/self/ns/mnt)"
cat "/proc/$PID/cgroup" 2>/dev/null | pipe cgroup
grep -E '^btime ' /proc/stat | pipe btime
send output "$(readlink "/proc/$PID/fd/1")"
printf '%s\n' "$environ" | sed -n 's/^\([A-Za-z_][A-Za-z0-9_]*\)=.*/\1/p' | pipe names
home=$(printf '%s\n' "$environ" | sed -n 's/^HOME=//p' | head -n 1)
path=$(printf '%s\n' "$environ" | sed -n 's/^PATH=//p' | head -n 1)
hub=$(printf '%s\n' "$environ" | sed -n -e 's/^HF_HUB_CACHE=//p' -e 's,^HF_HOME=\(.*\),\1/hub,p' | head -n 1)
send home "$home"
grep -hE '^gfx_target_version ' /sys/class/kfd/kfd/topology/nodes/*/properties 2>/dev/null | pipe gfx

named() { # FOLDER WAY: print a place of sys.path that holds the package or points to it
  if [ -f "$ROOT$1/$ENGINE/__init__.py" ]; then printf '%s\t%s\t%s\t%s\n' "$2" "$1" "$1/$ENGINE" "$(version_in "$1")"; fi
  for file in "$ROOT$1"/__editable__*"$ENGINE"*.pth "$ROOT$1/_$ENGINE.pth" "$ROOT$1/easy-install.pth" "$ROOT$1/$ENGINE.egg-link"; do
    [ -f "$file" ] || continue
    while IFS= read -r folder || [ -n "$folder" ]; do
      case $folder in /*) ;; *) continue ;; esac
      [ ! -f "$ROOT$folder/$ENGINE/__init__.py" ] || printf '%s\t%s\t%s\t%s\n' "${file##*/}" "$1" "$folder/$ENGINE" "$(version_in "$1")"
    done <"$file"
  done
  for file in "$ROOT$1"/__editable___*"$ENGINE"*_finder.py; do
    [ -f "$file" ] || continue
    folder=$(sed -n "s/.*'$ENGINE': *'\([^']*\)'.*/\1/p" "$file" | head -n 1)
    [ -z "$folder" ] || printf '%s\t%s\t%s\t%s\n' "${file##*/}" "$1" "$folder" "$(version_in "$1")"
  done
}
version_in() {
  for info in "$ROOT$1/$ENGINE"-*.dist-info; do
    if [ -d "$info" ]; then info=${info##*/}; info=${info#"$ENGINE"-}; printf %s "${info%.dist-info}"; return; fi
  done
}
sites_of() { # PREFIX WAY
  set +f
  for site in "$ROOT$1"/lib/python3*/site-packages "$ROOT$1"/lib64/python3*/site-packages \
    "$ROOT$1"/lib/python3*/dist-packages "$ROOT$1"/local/lib/python3*/dist-packages; do
    if [ -d "$site" ]; then named "${site#"$ROOT"}" "$2"; fi
  done
  each
}
installs() {
  case $NL$argv$NL in *"$NL-m$NL"*) [ -z "$CWD" ] || named "$CWD" 'working directory' ;; esac
  IFS=:
  set -f
  for folder in $PYPATH; do case $folder in /*) set +f; named "$folder" PYTHONPATH; set -f ;; esac; done
  each
  for prefix in "${PY%/*/*}" "${EXE%/*/*}" "$VENV"; do [ -z "$prefix" ] || sites_of "$prefix" environment; done
  [ -z "$home" ] || sites_of "$home/.local" 'user site'
  base=$(sed -n 's/^home *= *\(.*\)\/[^/]*$/\1/p' "$ROOT${PY%/*/*}/pyvenv.cfg" 2>/dev/null | head -n 1)
  [ -z "$base" ] || sites_of "$base" 'base interpreter'
  IFS=:
  for folder in $path; do
    if [ -x "$ROOT$folder/python3" ]; then sites_of "${folder%/*}" "PATH ($folder)"; fi
    IFS=:
  done
  set +f
  unset IFS
}
installs 2>/dev/null | awk '!seen[$0]++' | head -n 40 | pipe installs
unset IFS
set +f

where=${SITE:-${PACKAGE%/*}}
for info in "$where/$ENGINE"-*.dist-info "${PACKAGE%/*}/$ENGINE"-*.dist-info; do
  [ -d "$info" ] || continue
  send info "${info#"$ROOT"}"
  short "$info/INSTALLER" | pipe installer
  short "$info/direct_url.json" | pipe direct_url
  sed -n '/^$/q;s/^Requires-Dist: *//p' "$info/METADATA" 2>/dev/null | head -n 400 | pipe requires
  break
done
for site in $where $SITES; do
  if [ -d "$site" ]; then ls -1 "$site" 2>/dev/null; fi
done | awk '!seen[$0]++' | head -c 131072 | pipe packages
for site in $where $SITES; do
  [ ! -f "$site/torch/version.py" ] || { short "$site/torch/version.py" | pipe torch; break; }
done

git_of() { # look upwards for a checkout and read where it stands, without running git
  folder=$PACKAGE
  while [ -n "$folder" ] && [ "$folder" != "$ROOT" ]; do
    if [ -e "$folder/.git" ]; then break; fi
    folder=${folder%/*}
  done
  [ -n "$folder" ] && [ -e "$folder/.git" ] || return 0
  git=$folder/.git
  if [ -f "$git" ]; then
    to=$(sed -n 's/^gitdir: //p' "$git" | head -n 1)
    case $to in /*) git=$ROOT$to ;; *) git=$folder/$to ;; esac
  fi
  echo "folder=${folder#"$ROOT"}"
  head=$(short "$git/HEAD")
  echo "head=$head"
  common=$git
  if [ -f "$git/commondir" ]; then common=$git/$(cat "$git/commondir"); fi
  case $head in 'ref: '*)
    ref=${head#ref: }
    sha=$(short "$common/$ref")
    [ -n "$sha" ] || sha=$(grep -E "^[0-9a-f]{40} $ref\$" "$common/packed-refs" 2>/dev/null | cut -d ' ' -f 1)
    echo "sha=$sha" ;;
  esac
}
if [ -n "$PACKAGE" ]; then git_of 2>/dev/null | pipe git; fi

model=$(printf '%s\n' "$argv" | sed -n -e 's/^--model\(-path\)\{0,1\}=//p' -e '/^--model\(-path\)\{0,1\}$/{n;p;}' | tail -n 1)
[ -n "$model" ] || model=$(printf '%s\n' "$argv" | sed -n '/^serve$/{n;/^-/!p;}' | head -n 1)
model_folder() {
  case $model in
    '') return ;;
    /*) echo "$model" ;;
    *)
      if [ -d "$ROOT$CWD/$model" ]; then echo "$CWD/$model"; return; fi
      cache=${hub:-$home/.cache/huggingface/hub}/models--$(printf %s "$model" | sed 's,/,--,g')
      snapshot=$(short "$ROOT$cache/refs/main")
      for one in "$ROOT$cache/snapshots/${snapshot:-*}"; do [ ! -d "$one" ] || { echo "${one#"$ROOT"}"; return; }; done ;;
  esac
}
folder=$(model_folder)
send model "$model"
if [ -n "$folder" ] && [ -d "$ROOT$folder" ]; then
  send model_folder "$folder"
  if [ -r "$ROOT$folder" ] && [ -x "$ROOT$folder" ]; then
    ls -1 "$ROOT$folder" 2>/dev/null | head -c 65536 | pipe model_files
    for file in config.json generation_config.json hf_quant_config.json params.json; do
      case $(readlink -f "$ROOT$folder/$file") in */"$file" | */blobs/*) ;; *) continue ;; esac
      [ ! -f "$ROOT$folder/$file" ] || head -c 524288 "$ROOT$folder/$file" | pipe "model:$file"
    done
  else echo "denied model"
  fi
fi
}
# Collected first: a record is not torn by the line that comes from beside.
text=$(located)
wait
printf '%s\n' "$text"
[ -n "$PACKAGE" ] && [ -r "$PACKAGE" ] || exit 0
