#!/usr/bin/env bash
# A durable Redis on loopback with everything it owns in one directory. Several may run at once, each in its own directory.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../env.sh"
. "$here/../process.sh"

usage() {
  cat <<EOF
usage: infra/redis/redis.sh start|stop|status --data DIR [options]

  start    starts it unless it runs, waits until it answers, prints its URL (also in DIR/url)
  stop     stops exactly what start started; the data stay in DIR
  status   one line; exit 0 if it runs, 3 if not

  --data DIR        append-only file, log and pid file
  --port N|auto     default: the last one used in DIR, else $TURNWRIGHT_REDIS_PORT; auto picks a free one
  --set KEY=VALUE   a redis.conf setting; may be repeated
  --timeout SEC     deadline of start (default 30) or stop (default 10; then it is killed)

example:
  infra/redis/redis.sh start --data /tmp/r --port auto
  redis-cli -u "\$(cat /tmp/r/url)" ping
  infra/redis/redis.sh stop --data /tmp/r
EOF
}

action=${1:-}
case $action in
  start | stop | status) shift ;;
  -h | --help | help) usage; exit 0 ;;
  *) usage >&2; exit 2 ;;
esac
data='' port='' timeout='' settings=()
while (($#)); do
  case $1 in
    -h | --help) usage; exit 0 ;;
    --data | --port | --set | --timeout)
      (($# > 1)) || die "$1 needs a value"
      case $1 in
        --data) data=$2 ;; --port) port=$2 ;; --timeout) timeout=$2 ;; --set) settings+=("--${2%%=*}" "${2#*=}") ;;
      esac
      shift 2 ;;
    *) die "unknown option $1 (see --help)" ;;
  esac
done
[[ -n $data ]] || die "--data DIR is missing"
[[ $port =~ ^(|auto|[0-9]+)$ ]] || die "--port is a number or auto, not $port"
[[ $action == start ]] && mkdir -p "$data/data"
[[ -d $data ]] || { [[ $action == stop ]] && exit 0; say "no Redis in $data"; exit 3; }
data=$(cd "$data" && pwd)
pidfile=$data/redis.pid
last=$(cat "$data/port" 2>/dev/null || true)

if [[ $action == status ]]; then
  process_running "$pidfile" || { echo "redis stopped"; exit 3; }
  echo "redis running pid=$(process_pid "$pidfile") url=$(cat "$data/url")"
  exit 0
fi
exec 9>"$data/lock"
flock -w 60 9 || die "another start or stop of $data does not end"
if [[ $action == stop ]]; then
  [[ -f $pidfile ]] && process_stop "${timeout:-10}" "$pidfile"
  exit 0
fi

# ---- start
command -v redis-server >/dev/null || die "redis-server not found; run infra/setup.sh"
deadline=$((SECONDS + ${timeout:-30}))
for try in 1 2 3; do
  if process_running "$pidfile"; then
    now=$last
    [[ -z $port || $port == auto || $port == "$now" ]] || die "Redis in $data runs on port $now; stop it first"
  else
    case ${port:-${last:-$TURNWRIGHT_REDIS_PORT}} in
      auto) if [[ -n $last && $try == 1 ]] && ! port_open "$last"; then now=$last; else now=$(free_port); fi ;;
      *) now=${port:-${last:-$TURNWRIGHT_REDIS_PORT}}; ! port_open "$now" || die "port $now is in use" ;;
    esac
    echo "$now" >"$data/port"
    echo "redis://127.0.0.1:$now" >"$data/url"
    : >"$data/redis.log"
    process_spawn "$pidfile" "$data/redis.log" \
      redis-server "$here/redis.conf" --port "$now" --dir "$data/data" ${settings[@]+"${settings[@]}"}
  fi
  failed=''
  until [[ $(redis-cli -p "$now" ping 2>/dev/null) == PONG ]]; do
    process_running "$pidfile" || { failed=ended; break; }
    ((SECONDS < deadline)) || { failed=late; break; }
    sleep 0.02
  done
  # Another server may have answered the ping in its place.
  [[ -n $failed ]] || process_running "$pidfile" || failed=ended
  [[ -n $failed ]] || break
  if [[ $failed == ended && $port == auto && $try != 3 ]] && grep -q 'Address already in use' "$data/redis.log"; then continue; fi
  log_tail "$data/redis.log"
  [[ -f $pidfile ]] && process_stop 3 "$pidfile"
  die "Redis in $data $([[ $failed == late ]] && echo "did not answer within ${timeout:-30} s" || echo "ended at once")"
done
cat "$data/url"
