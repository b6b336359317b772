#!/usr/bin/env bash
# Checks the chart without a cluster: lint, rendering with default and overridden values, and that a wrong value is refused.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/env.sh"
. "$here/process.sh"

if [[ ${1:-} == --help || ${1:-} == -h ]]; then
  echo "usage: infra/helm-check.sh    (needs helm: infra/setup.sh full)"
  exit 0
fi
command -v helm >/dev/null || die "helm not found; run infra/setup.sh full"

chart=$TURNWRIGHT_ROOT/helm/turnwright
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export HELM_CACHE_HOME=$work/cache HELM_CONFIG_HOME=$work/config HELM_DATA_HOME=$work/data # touch nobody's settings

check() { # check TITLE FILE PATTERN COUNT
  local found; found=$(grep -cE -- "$3" "$2" || true)
  [[ $found == "$4" ]] || { say "helm: $1: expected $4 lines like '$3', found $found"; exit 1; }
}
refused() { # refused TITLE HELM-ARGUMENT…
  local title=$1; shift
  if helm template check "$chart" "$@" >/dev/null 2>"$work/refused"; then die "helm: $title was not refused"; fi
  grep -qiE 'schema|additional propert' "$work/refused" || { cat "$work/refused" >&2; die "helm: $title was refused, but not by the schema"; }
}

helm lint --strict "$chart" >"$work/lint" 2>&1 || { cat "$work/lint" >&2; exit 1; }
helm lint --strict "$chart" -f "$chart/ci/overrides-values.yaml" >"$work/lint" 2>&1 || { cat "$work/lint" >&2; exit 1; }

helm template check "$chart" >"$work/default.yaml"
check "one deployment a service" "$work/default.yaml" '^kind: Deployment$' 5
check "every container's root is read-only" "$work/default.yaml" 'readOnlyRootFilesystem: true' 5
check "no service account token" "$work/default.yaml" 'automountServiceAccountToken: false' 6
check "callers read Avro by default" "$work/default.yaml" 'value: "avro"' 5
check "five commands" "$work/default.yaml" 'command: \["turnwright", "serve", "(committer|decision|validation|tool-executor|reconciler)"\]' 5

helm template check "$chart" -f "$chart/ci/overrides-values.yaml" >"$work/overrides.yaml"
check "the store's URL comes from the secret" "$work/overrides.yaml" 'name: store-credentials' 5
check "plain and secret Kafka properties together" "$work/overrides.yaml" 'value: "linger.ms=0,sasl.mechanism=SCRAM-SHA-512,security.protocol=SASL_SSL,\$\(KAFKA_SECRET_PROPERTIES\)"' 5
check "the image by digest" "$work/overrides.yaml" 'image: "registry.example/turnwright@sha256:0{64}"' 5
check "a service's own replicas win, even zero" "$work/overrides.yaml" '^  replicas: (0|3)$' 2
check "an own account is not created" "$work/overrides.yaml" '^kind: ServiceAccount$' 0

refused "an unknown value" --set kafka.broker=kafka:9092
refused "an unknown service" --set services.planner.replicas=1
refused "an unknown setting of a service" --set services.committer.replica=1
refused "a password among the plain properties" --set 'kafka.properties.sasl\.password=hunter2'
refused "a misspelt durability" --set store.durability=strickt

echo "helm: the chart lints, renders with default and overridden values, and refuses unknown ones"
