#!/usr/bin/env bash
# The peer of the benchmark: Restate (production profile, one node, its log synced to disk) with a Rust handler, on the workload
# lookup-3: two parallel durable reads, one durable effect, one final answer; a durable step for each decision and each call.
# Everything on loopback and free ports; stops only what it started. Progress on stderr, one JSON line on stdout.
# usage: run.sh [CONCURRENCY…] (default 1 16 64 256); environment: SECS=12 and WARMUP=3 per level
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../../../infra/env.sh"
. "$here/../../../infra/process.sh"

server_version=1.7.12
build=$TURNWRIGHT_CACHE/peers/restate
[[ $(uname -sm) == 'Linux x86_64' ]] || die "the peer's server is pinned for Linux on x86_64"
mkdir -p "$build/src"
exec 9>"$build/lock"
flock -w 900 9 || die "another build of the peer does not end"

package=$build/node_modules/@restatedev/restate-server-linux-x64
if [[ $(sed -n 's/.*"version": *"\([^"]*\)".*/\1/p' "$package/package.json" 2>/dev/null) != "$server_version" ]]; then
  command -v npm >/dev/null || die "npm not found; it brings the peer's server"
  say "peer: fetching restate-server $server_version"
  npm install --silent --no-save --prefix "$build" "@restatedev/restate-server-linux-x64@$server_version" >&2
fi
say "peer: building the handler in $build"
cp "$here/Cargo.toml" "$here/Cargo.lock" "$build/"
cp "$here"/src/*.rs "$build/src/"
cargo build --release --quiet --locked --manifest-path "$build/Cargo.toml" --target-dir "$build/target" >&2
exec 9>&-

data=$(mktemp -d "${TMPDIR:-/tmp}/turnwright-peer.XXXXXX")
stop() {
  process_stop 10 "$data/handler.pid" "$data/server.pid"
  rm -rf "$data"
}
trap stop EXIT
trap 'exit 130' INT TERM

handler=127.0.0.1:$(free_port) ingress=127.0.0.1:$(free_port) admin=127.0.0.1:$(free_port) fabric=$(free_port)
export RESTATE_DISABLE_TELEMETRY=true DO_NOT_TRACK=1
export RESTATE_INGRESS__BIND_ADDRESS=$ingress RESTATE_ADMIN__BIND_ADDRESS=$admin
process_spawn "$data/server.pid" "$data/server.log" "$package/bin/restate-server" --production --auto-provision true \
  --base-dir "$data/data" --node-name n1 --bind-ip 127.0.0.1 --bind-port "$fabric" --listen-mode tcp
process_spawn "$data/handler.pid" "$data/handler.log" "$build/target/release/handler" "$handler"
deadline=$((SECONDS + 60))
until curl -sf -m 5 -o /dev/null -X POST "http://$admin/deployments" -H 'content-type: application/json' \
  -d "{\"uri\":\"http://$handler\",\"force\":true}"; do
  if ((SECONDS >= deadline)) || ! process_running "$data/server.pid"; then
    log_tail "$data/server.log"; log_tail "$data/handler.log"
    die "the peer does not start"
  fi
  sleep 0.2
done

levels=("$@")
((${#levels[@]})) || levels=(1 16 64 256)
rows=()
for level in "${levels[@]}"; do
  row=$("$build/target/release/load" "$ingress" /Agent/run "$level" "${SECS:-12}" "${WARMUP:-3}")
  say "peer: $row"
  rows+=("$row")
done
printf '{"name":"restate %s, rust sdk 0.13","workload":"lookup-3","levels":[%s]}\n' "$server_version" "$(IFS=,; echo "${rows[*]}")"
