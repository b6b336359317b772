# shellcheck shell=bash
# Sourced: start a background process, know it again later, stop exactly it; find free ports; wait with a deadline.
# A pid alone is no identity, for the kernel reuses pids. A pid file therefore holds "PID START", START being the start time
# from /proc/PID/stat, and nothing is ever signalled unless both still match.

say() { printf '%s\n' "$*" >&2; }
die() { say "${0##*/}: $*"; exit 1; }

# The process's start time in clock ticks since boot; fails if there is no such process, or only its zombie.
process_start_time() {
  local stat fields
  [[ -n ${1:-} ]] || return 1
  { read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 1
  stat=${stat##*) } # the command's name may itself hold blanks and brackets
  read -ra fields <<<"$stat"
  [[ ${fields[0]} != Z && ${fields[0]} != X ]] || return 1
  echo "${fields[19]}"
}

# process_spawn PIDFILE LOG COMMAND…: in its own session, so that neither a closed terminal nor Ctrl-C reaches it, and holding
# none of our pipes or locks, so that a caller that reads our output is not kept waiting for it.
process_spawn() {
  local pidfile=$1 log=$2; shift 2
  setsid "$@" </dev/null >>"$log" 2>&1 9>&- 8>&- &
  local pid=$!
  echo "$pid $(process_start_time "$pid" || echo gone)" >"$pidfile"
  disown "$pid" 2>/dev/null || true
}

process_pid() { local pid start; read -r pid start <"$1" 2>/dev/null && echo "$pid"; }

process_running() {
  local pid start
  [[ -f $1 ]] && read -r pid start <"$1" && [[ $(process_start_time "$pid") == "$start" ]]
}

# process_stop SECONDS PIDFILE…: SIGTERM to all, and SIGKILL to those still there at the deadline. Returns when all are gone.
process_stop() {
  local seconds=$1 file; shift
  for file in "$@"; do if process_running "$file"; then kill -TERM "$(process_pid "$file")" 2>/dev/null || true; fi; done
  local deadline=$((SECONDS + seconds))
  for file in "$@"; do
    while process_running "$file"; do
      if ((SECONDS >= deadline)); then
        say "${0##*/}: $(basename "${file%.pid}") did not stop within $seconds s; killing it"
        kill -KILL "$(process_pid "$file")" 2>/dev/null || true
        deadline=$((SECONDS + 5))
      fi
      sleep 0.05
    done
    rm -f "$file"
  done
}

port_open() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# Prints a free port, and keeps others who call this from getting it within the next minute, by when its owner listens on it.
# Below the ephemeral range, so that no outgoing connection can hold it.
free_port() {
  local dir=$TURNWRIGHT_CACHE/ports port
  mkdir -p "$dir"
  find "$dir" -type f -mmin +1 -delete 2>/dev/null || true
  for _ in {1..200}; do
    port=$((12000 + (RANDOM * 32768 + RANDOM) % 13000))
    port_open "$port" && continue
    if (set -C; echo $$ >"$dir/$port") 2>/dev/null; then echo "$port"; return; fi
  done
  die "found no free port between 12000 and 25000"
}

log_tail() {
  [[ -f $1 ]] || return 0
  say "--- last lines of $1"; tail -n "${2:-25}" "$1" >&2; say "---"
}
