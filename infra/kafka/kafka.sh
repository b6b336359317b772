#!/usr/bin/env bash
# A real Kafka on loopback: one or three KRaft nodes, each broker and controller, with everything they own in one directory.
# Knows nothing of Turnwright's topics or services. Several clusters may run at once, each in its own directory.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../env.sh"
. "$here/../process.sh"

usage() {
  cat <<EOF
usage: infra/kafka/kafka.sh start|stop|status --data DIR [options]

  start    starts the nodes that are not running, waits until all answer, prints "host:port[,host:port…]" (also in DIR/brokers)
  stop     stops exactly what start started; the data stay in DIR
  status   one line a node; exit 0 if all run, 3 if not

  --data DIR        data, logs and pid files of this cluster
  --port N|auto     port of the first broker, the others follow (default: the last one used in DIR, else $TURNWRIGHT_KAFKA_PORT);
                    auto picks free ones
  --brokers 1|3     how many (default: as DIR has it, else 1)
  --node N          only this node (1…): start brings one back that a test has killed
  --set KEY=VALUE   a broker property; may be repeated
  --timeout SEC     deadline of start (default 90) or stop (default 10; what remains is killed)

environment: KAFKA_HEAP (e.g. "-Xms256m -Xmx512m"), KAFKA_JVM_OPTS (added to the command line)

example:
  infra/kafka/kafka.sh start --data /tmp/k --port auto --brokers 3
  kill -9 \$(cut -d' ' -f1 /tmp/k/node-2/kafka.pid); infra/kafka/kafka.sh start --data /tmp/k --node 2
  infra/kafka/kafka.sh stop --data /tmp/k
EOF
}

action=${1:-}
case $action in
  start | stop | status) shift ;;
  -h | --help | help) usage; exit 0 ;;
  *) usage >&2; exit 2 ;;
esac
data='' port='' brokers='' only='' timeout='' extra=()
while (($#)); do
  case $1 in
    -h | --help) usage; exit 0 ;;
    --data | --port | --brokers | --node | --set | --timeout)
      (($# > 1)) || die "$1 needs a value"
      case $1 in
        --data) data=$2 ;; --port) port=$2 ;; --brokers) brokers=$2 ;; --node) only=$2 ;;
        --set) extra+=("$2") ;; --timeout) timeout=$2 ;;
      esac
      shift 2 ;;
    *) die "unknown option $1 (see --help)" ;;
  esac
done
[[ -n $data ]] || die "--data DIR is missing"
[[ $port =~ ^(|auto|[0-9]+)$ ]] || die "--port is a number or auto, not $port"
[[ $brokers =~ ^(|1|3)$ ]] || die "--brokers is 1 or 3, not $brokers"
[[ $action == start ]] && mkdir -p "$data"
[[ -d $data ]] || { [[ $action == stop ]] && exit 0; say "no cluster in $data"; exit 3; }
data=$(cd "$data" && pwd)

# DIR/cluster remembers the identity and the ports, so that a restart is the same cluster at the same address.
cluster_id='' nodes='' broker_ports=() controller_ports=()
if [[ -f $data/cluster ]]; then
  while IFS='=' read -r key value; do
    case $key in
      cluster_id) cluster_id=$value ;; nodes) nodes=$value ;;
      broker_ports) read -ra broker_ports <<<"$value" ;; controller_ports) read -ra controller_ports <<<"$value" ;;
    esac
  done <"$data/cluster"
  [[ -z $brokers || $brokers == "$nodes" ]] || die "$data holds a cluster of $nodes, not $brokers"
fi
nodes=${nodes:-${brokers:-1}}
[[ -z $only ]] || { [[ $only =~ ^[1-9]$ ]] && ((only <= nodes)); } || die "--node is a number from 1 to $nodes"
chosen=$(if [[ -n $only ]]; then echo "$only"; else seq "$nodes"; fi)
pidfile() { echo "$data/node-$1/kafka.pid"; }
log() { echo "$data/node-$1/kafka.log"; }

if [[ $action == status ]]; then
  all=0
  for n in $chosen; do
    if process_running "$(pidfile "$n")"; then echo "node $n running pid=$(process_pid "$(pidfile "$n")") broker=127.0.0.1:${broker_ports[n - 1]}"
    else echo "node $n stopped"; all=3; fi
  done
  exit $all
fi

# One start or stop at a time for one directory.
exec 9>"$data/lock"
flock -w 120 9 || die "another start or stop of $data does not end"

if [[ $action == stop ]]; then
  files=()
  for n in $chosen; do [[ -f $(pidfile "$n") ]] && files+=("$(pidfile "$n")"); done
  ((${#files[@]})) && process_stop "${timeout:-10}" "${files[@]}"
  exit 0
fi

# ---- start
[[ -n ${KAFKA_CLASSES_TO:-} ]] || [[ -f $KAFKA_HOME/classpath && -e $KAFKA_HOME/classes.jsa ]] || "$here/resolve.sh" >/dev/null 9>&-
java=(java -XX:+UseSerialGC -XX:-UsePerfData -cp "$(cat "$KAFKA_HOME/classpath")"
  -Dorg.slf4j.simpleLogger.showDateTime=true "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS"
  -Dorg.slf4j.simpleLogger.log.org.apache.kafka.common.config=warn -Dorg.slf4j.simpleLogger.log.state.change.logger=warn)
if [[ -n ${KAFKA_CLASSES_TO:-} ]]; then java+=("-XX:ArchiveClassesAtExit=$KAFKA_CLASSES_TO")
elif [[ -s $KAFKA_HOME/classes.jsa ]]; then java+=("-XX:SharedArchiveFile=$KAFKA_HOME/classes.jsa"); fi
read -ra heap <<<"${KAFKA_HEAP:-$( ((nodes == 1)) && echo "-Xms256m" || echo "-Xms64m") -Xmx512m}"
read -ra jvm_opts <<<"${KAFKA_JVM_OPTS:-}"

running=0
for n in $(seq "$nodes"); do if process_running "$(pidfile "$n")"; then running=$((running + 1)); fi; done

# Ports change only while nothing runs: a member that comes back must be where the others look for it.
choose_ports() {
  local n first=$1
  broker_ports=() controller_ports=()
  for n in $(seq "$nodes"); do
    if [[ $first == auto ]]; then broker_ports+=("$(free_port)"); else broker_ports+=($((first + n - 1))); fi
    controller_ports+=("$(free_port)")
  done
}
if ((running == 0)); then
  # The last ports, unless others are asked for; with auto, unless somebody has taken one meanwhile.
  keep=0
  if ((${#broker_ports[@]})) && [[ -z $port || $port == auto || $port == "${broker_ports[0]}" ]]; then
    keep=1
    for p in "${broker_ports[@]}" "${controller_ports[@]}"; do
      port_open "$p" || continue
      [[ $port == auto ]] || die "port $p is in use"
      keep=0
    done
  fi
  if ((keep == 0)); then
    port=${port:-$TURNWRIGHT_KAFKA_PORT}
    [[ $port == auto ]] || for n in $(seq "$nodes"); do ! port_open $((port + n - 1)) || die "port $((port + n - 1)) is in use"; done
    choose_ports "$port"
  fi
elif [[ -n $port && $port != auto && $port != "${broker_ports[0]}" ]]; then
  die "the cluster in $data runs on port ${broker_ports[0]}; stop it first"
fi

write_configuration() {
  local n voters=() addresses=()
  for n in $(seq "$nodes"); do
    voters+=("$n@127.0.0.1:${controller_ports[n - 1]}"); addresses+=("127.0.0.1:${broker_ports[n - 1]}")
  done
  address_list=$(IFS=,; echo "${addresses[*]}")
  cluster_id=${cluster_id:-$(head -c 16 /dev/urandom | base64 | tr '+/' '-_' | tr -d '=\n')}
  # An ID that begins with a dash would be taken for an option by the storage tool.
  cluster_id=${cluster_id/#-/k}
  printf '%s\n' "cluster_id=$cluster_id" "nodes=$nodes" "broker_ports=${broker_ports[*]}" "controller_ports=${controller_ports[*]}" >"$data/cluster"
  for n in $chosen; do
    mkdir -p "$data/node-$n"
    {
      cat "$here/server.properties"
      cat <<EOF

node.id=$n
controller.quorum.voters=$(IFS=,; echo "${voters[*]}")
listeners=PLAINTEXT://127.0.0.1:${broker_ports[n - 1]},CONTROLLER://127.0.0.1:${controller_ports[n - 1]}
advertised.listeners=PLAINTEXT://127.0.0.1:${broker_ports[n - 1]}
log.dirs=$data/node-$n/data
offsets.topic.replication.factor=$nodes
transaction.state.log.replication.factor=$nodes
share.coordinator.state.topic.replication.factor=$nodes
default.replication.factor=$nodes
min.insync.replicas=$(((nodes + 1) / 2))
transaction.state.log.min.isr=$(((nodes + 1) / 2))
share.coordinator.state.topic.min.isr=$(((nodes + 1) / 2))
# A killed broker's partitions are to move within seconds, and a single one need not ask often.
broker.heartbeat.interval.ms=$( ((nodes == 1)) && echo 2000 || echo 500)
broker.session.timeout.ms=$( ((nodes == 1)) && echo 9000 || echo 4000)
EOF
      printf '%s\n' ${extra[@]+"${extra[@]}"}
    } >"$data/node-$n/server.properties"
  done
}

format_storage() {
  local n pids=() pid failed=0
  for n in $chosen; do
    [[ -f $data/node-$n/formatted ]] && continue
    rm -rf "$data/node-$n/data" # half formatted, if at all
    (
      # The archive being recorded, if any, is the broker's, not the formatter's.
      KAFKA_CLASSES_TO='' "${java[@]/#-XX:ArchiveClassesAtExit*/-XX:+UseSerialGC}" -Xmx128m -XX:TieredStopAtLevel=1 kafka.tools.StorageTool \
        format --cluster-id "$cluster_id" --config "$data/node-$n/server.properties" >"$data/node-$n/format.log" 2>&1 9>&- &&
        touch "$data/node-$n/formatted"
    ) &
    pids+=($!)
  done
  for pid in ${pids[@]+"${pids[@]}"}; do wait "$pid" || failed=1; done
  if ((failed)); then
    for n in $chosen; do [[ -f $data/node-$n/formatted ]] || log_tail "$data/node-$n/format.log"; done
    die "the storage in $data could not be formatted"
  fi
}

started=()
start_nodes() {
  local n
  for n in $chosen; do
    process_running "$(pidfile "$n")" && continue
    : >"$(log "$n")"
    process_spawn "$(pidfile "$n")" "$(log "$n")" \
      "${java[@]}" "${heap[@]}" ${jvm_opts[@]+"${jvm_opts[@]}"} kafka.Kafka "$data/node-$n/server.properties"
    started+=("$n")
  done
}
stop_started() {
  local n files=()
  for n in ${started[@]+"${started[@]}"}; do files+=("$(pidfile "$n")"); done
  ((${#files[@]} == 0)) || process_stop 3 "${files[@]}"
  started=()
}

# Ready: each chosen node listens, and (where kcat is there to ask) the cluster's metadata names every node expected to run.
answers() {
  local n wanted seen
  for n in $chosen; do port_open "${broker_ports[n - 1]}" || return 1; done
  if command -v kcat >/dev/null; then
    wanted=$(for n in $(seq "$nodes"); do if process_running "$(pidfile "$n")"; then echo "$n"; fi; done | wc -l)
    seen=$(kcat -b "127.0.0.1:${broker_ports[${chosen%%$'\n'*} - 1]}" -L -m 2 2>/dev/null | grep -c '^  broker ') || true
    ((seen >= wanted))
  else
    for n in $chosen; do grep -q 'Kafka Server started' "$(log "$n")" || return 1; done
  fi
}

deadline=$((SECONDS + ${timeout:-90}))
for try in 1 2 3; do
  write_configuration
  format_storage
  start_nodes
  failed=''
  until answers; do
    for n in $chosen; do process_running "$(pidfile "$n")" || failed=$n; done
    [[ -z $failed ]] || break
    ((SECONDS < deadline)) || { failed=late; break; }
    sleep 0.05
  done
  [[ -n $failed ]] || break
  # Somebody else may have taken a port between our choice and the broker's bind: then, and only then, choose again.
  if [[ $failed != late && $port == auto && $running == 0 && $try != 3 ]] && grep -q 'Address already in use' "$(log "$failed")"; then
    stop_started; choose_ports auto; continue
  fi
  for n in $chosen; do log_tail "$(log "$n")"; done
  stop_started
  [[ $failed == late ]] && die "Kafka in $data did not answer within ${timeout:-90} s"
  die "node $failed of Kafka in $data ended at once"
done

echo "$address_list" >"$data/brokers"
echo "$address_list"
