#!/usr/bin/env bash
# The whole of Turnwright on this machine for real: Kafka, Redis and every service as a process of its own.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/env.sh"
. "$here/process.sh"

services=(committer decision validation tool-executor reconciler)

usage() {
  cat <<EOF
usage: infra/local.sh up|down|status [options]

  up       starts what does not run yet (Kafka, Redis, topics, services), waits until every service is ready
  down     stops exactly what up started: services first, then Redis and Kafka; the data stay
  status   one line a process; exit 0 if all run, 3 if not

  --dir DIR       data, logs and pid files (default: .turnwright/local in the clone)
  --ports auto    free ports instead of Kafka $TURNWRIGHT_KAFKA_PORT, Redis $TURNWRIGHT_REDIS_PORT, health from $TURNWRIGHT_HTTP_PORT upwards
  --replicas N    processes of each service (default: REPLICAS, else 1)
  --brokers 1|3   Kafka nodes (default: BROKERS, else 1)
  --timeout SEC   deadline for the services to be ready (default 60)

The command line finds the cluster by .turnwright/dev.json (with --dir: DIR/dev.json), which up writes and down removes.
The binary: TURNWRIGHT_BIN, else \${CARGO_TARGET_DIR:-target}/release/turnwright, else debug.
Settings of the services that may be given in the environment: TURNWRIGHT_CONFIG, TURNWRIGHT_TOPIC_PREFIX, TURNWRIGHT_WIRE_PUBLIC,
TURNWRIGHT_KAFKA_PROPERTIES, TURNWRIGHT_DURABILITY, TURNWRIGHT_SHARDS, TURNWRIGHT_SCHEMA_REGISTRY, TURNWRIGHT_LOG,
OTEL_EXPORTER_OTLP_ENDPOINT.

example:
  REPLICAS=2 infra/local.sh up && infra/local.sh status; infra/local.sh down
EOF
}

action=${1:-}
case $action in
  up | down | status) shift ;;
  -h | --help | help) usage; exit 0 ;;
  *) usage >&2; exit 2 ;;
esac
dir='' ports='' replicas=${REPLICAS:-1} brokers=${BROKERS:-1} timeout=60
while (($#)); do
  case $1 in
    -h | --help) usage; exit 0 ;;
    --dir | --ports | --replicas | --brokers | --timeout)
      (($# > 1)) || die "$1 needs a value"
      case $1 in
        --dir) dir=$2 ;; --ports) ports=$2 ;; --replicas) replicas=$2 ;; --brokers) brokers=$2 ;; --timeout) timeout=$2 ;;
      esac
      shift 2 ;;
    *) die "unknown option $1 (see --help)" ;;
  esac
done
[[ $replicas =~ ^[1-9][0-9]?$ ]] || die "--replicas is a number from 1 to 99, not $replicas"
[[ $ports =~ ^(|auto)$ ]] || die "--ports can only be auto"

state=$TURNWRIGHT_ROOT/.turnwright/dev.json
[[ -z $dir ]] || state=$dir/dev.json
dir=${dir:-$TURNWRIGHT_ROOT/.turnwright/local}
[[ $action == up ]] && mkdir -p "$dir/services"
[[ -d $dir ]] || { [[ $action == down ]] && exit 0; say "nothing in $dir"; exit 3; }
dir=$(cd "$dir" && pwd)
[[ $state == */.turnwright/dev.json ]] || state=$dir/dev.json

json_field() { sed -n "s/.*\"$1\" *: *\"\([^\"]*\)\".*/\1/p" "$2" 2>/dev/null | head -n 1; }

if [[ $action == status ]]; then
  result=0
  "$here/kafka/kafka.sh" status --data "$dir/kafka" | sed 's/^node/kafka/' || result=3
  "$here/redis/redis.sh" status --data "$dir/redis" || result=3
  shopt -s nullglob
  seen=0
  for file in "$dir"/services/*.pid; do
    seen=$((seen + 1))
    name=$(basename "${file%.pid}"); http=$(cat "${file%.pid}.http")
    if ! process_running "$file"; then echo "$name stopped"; result=3
    elif curl -sf -m 2 -o /dev/null "http://$http/readyz"; then echo "$name ready pid=$(process_pid "$file") http=$http"
    else echo "$name not ready pid=$(process_pid "$file") http=$http"; result=3; fi
  done
  ((seen)) || { echo "services stopped"; result=3; }
  exit $result
fi

exec 8>"$dir/lock"
flock -w 300 8 || die "another up or down of $dir does not end"

if [[ $action == down ]]; then
  shopt -s nullglob
  files=("$dir"/services/*.pid)
  ((${#files[@]} == 0)) || process_stop "${STOP_TIMEOUT:-30}" "${files[@]}"
  rm -f "$dir"/services/*.http
  "$here/redis/redis.sh" stop --data "$dir/redis" 8>&-
  [[ $(json_field kind "$state") == local && $(json_field brokers "$state") == "$(cat "$dir/kafka/brokers" 2>/dev/null)" ]] && rm -f "$state"
  "$here/kafka/kafka.sh" stop --data "$dir/kafka" 8>&-
  say "down; data and logs stay in $dir"
  exit 0
fi

# ---- up

target=${CARGO_TARGET_DIR:-$TURNWRIGHT_ROOT/target}
binary=${TURNWRIGHT_BIN:-}
if [[ -z $binary ]]; then
  for candidate in "$target/release/turnwright" "$target/debug/turnwright"; do
    if [[ -x $candidate ]]; then binary=$candidate; break; fi
  done
fi
[[ -n $binary && -x $binary ]] || die "no turnwright binary${binary:+ at $binary}; run cargo build -p turnwright (or make up), or set TURNWRIGHT_BIN"
command -v curl >/dev/null || die "curl not found; run infra/setup.sh full"

# `turnwright dev` writes the same file. Take it over only if nobody is at the address it names.
if [[ -f $state && $(json_field kind "$state") != local ]]; then
  other=$(json_field brokers "$state")
  ! port_open "${other##*:}" || die "$state points to a running cluster at $other; stop that one first (turnwright dev?)"
fi

kafka_port=$TURNWRIGHT_KAFKA_PORT redis_port=$TURNWRIGHT_REDIS_PORT
[[ -z $ports ]] || { kafka_port=auto; redis_port=auto; }
"$here/kafka/resolve.sh" >/dev/null 8>&- # its first run takes a while and says so
say "starting Kafka and Redis"
"$here/kafka/kafka.sh" start --data "$dir/kafka" --port "$kafka_port" --brokers "$brokers" >/dev/null 8>&- &
kafka_job=$!
"$here/redis/redis.sh" start --data "$dir/redis" --port "$redis_port" >/dev/null 8>&- || { wait "$kafka_job" || true; exit 1; }
wait "$kafka_job"

TURNWRIGHT_BROKERS=$(cat "$dir/kafka/brokers")
TURNWRIGHT_STORE=$(cat "$dir/redis/url")
TURNWRIGHT_CONFIG=${TURNWRIGHT_CONFIG:-$TURNWRIGHT_ROOT/infra/examples/demo}
[[ -d $TURNWRIGHT_CONFIG ]] || die "TURNWRIGHT_CONFIG is no directory: $TURNWRIGHT_CONFIG"
TURNWRIGHT_CONFIG=$(cd "$TURNWRIGHT_CONFIG" && pwd)
export TURNWRIGHT_BROKERS TURNWRIGHT_STORE TURNWRIGHT_CONFIG
export TURNWRIGHT_WIRE_PUBLIC=${TURNWRIGHT_WIRE_PUBLIC:-json}

say "applying the topics"
"$binary" topics apply --file "$here/topics.yaml" >"$dir/topics.log" 2>&1 </dev/null 8>&- || { log_tail "$dir/topics.log"; die "the topics could not be applied"; }

# The address must be known to the command line before the first service is, so that a failure can be looked into with it.
cat >"$state.part" <<EOF
{"brokers":"$TURNWRIGHT_BROKERS","store":"$TURNWRIGHT_STORE","kind":"local","config":"$TURNWRIGHT_CONFIG","public_wire":"$TURNWRIGHT_WIRE_PUBLIC"}
EOF
mv "$state.part" "$state"

say "starting the services"
names=()
number=0
for ((replica = 1; replica <= replicas; replica++)); do
  for service in "${services[@]}"; do
    name=$service; ((replicas == 1)) || name=$service-$replica
    names+=("$name")
    file=$dir/services/$name.pid
    if ! process_running "$file"; then
      if [[ -n $ports ]]; then http=127.0.0.1:$(free_port); else http=127.0.0.1:$((TURNWRIGHT_HTTP_PORT + number)); fi
      ! port_open "${http##*:}" || die "port ${http##*:} for $name is in use"
      echo "$http" >"$dir/services/$name.http"
      : >"$dir/services/$name.log"
      TURNWRIGHT_HTTP=$http process_spawn "$file" "$dir/services/$name.log" "$binary" serve "$service"
    fi
    number=$((number + 1))
  done
done

deadline=$((SECONDS + timeout))
for name in "${names[@]}"; do
  http=$(cat "$dir/services/$name.http")
  until curl -sf -m 2 -o /dev/null "http://$http/readyz"; do
    if ! process_running "$dir/services/$name.pid"; then
      log_tail "$dir/services/$name.log"
      die "$name ended. What did start goes on; infra/local.sh down stops it"
    fi
    if ((SECONDS >= deadline)); then
      log_tail "$dir/services/$name.log"
      say "$name answers: $(curl -s -m 2 "http://$http/readyz" || true)"
      die "$name is not ready after $timeout s. What did start goes on; infra/local.sh down stops it"
    fi
    sleep 0.1
  done
done

prefix=${TURNWRIGHT_TOPIC_PREFIX:-turnwright}
cat <<EOF
up: Kafka $TURNWRIGHT_BROKERS, Redis ${TURNWRIGHT_STORE#redis://}, ${#names[@]} services ready; logs in $dir

  see every terminal event     kcat -b $TURNWRIGHT_BROKERS -C -t $prefix.terminals.v1 -o end -f '%k  %s\n'
  stop                         $([[ $dir == "$TURNWRIGHT_ROOT/.turnwright/local" ]] && echo "make down" || echo "infra/local.sh down --dir $dir")
  look into a run              $binary list; $binary inspect INVOCATION_ID
EOF
