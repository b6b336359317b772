#!/usr/bin/env bash
# Fetches the pinned Kafka into the cache, once; offline afterwards.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../env.sh"
. "$here/../process.sh"

if [[ ${1:-} == --help || ${1:-} == -h ]]; then
  cat <<EOF
usage: infra/kafka/resolve.sh

Copies the jars of Kafka (version in infra/kafka/pom.xml) to the cache and records a class-data archive, which halves a broker's
start-up time. Prints the directory: $KAFKA_HOME
Needs Java $JAVA_MIN+ and Maven the first time. Example: libs=\$(infra/kafka/resolve.sh)/libs
EOF
  exit 0
fi

stamp=$KAFKA_HOME/classpath
if [[ ! -f $stamp ]]; then
  command -v java >/dev/null || die "java not found; run infra/setup.sh full"
  command -v mvn >/dev/null || die "mvn not found; run infra/setup.sh full"
  mkdir -p "$TURNWRIGHT_CACHE"
  exec 9>"$TURNWRIGHT_CACHE/kafka.lock"
  flock 9
  if [[ ! -f $stamp ]]; then
    say "fetching Kafka $KAFKA_VERSION from Maven Central (once, about 45 MB)"
    rm -rf "$KAFKA_HOME" && mkdir -p "$KAFKA_HOME"
    mvn -q -B -f "$here/pom.xml" dependency:copy-dependencies -DoutputDirectory="$KAFKA_HOME/libs" >"$KAFKA_HOME/maven.log" 2>&1 ||
      { log_tail "$KAFKA_HOME/maven.log"; die "Maven could not fetch Kafka $KAFKA_VERSION"; }
    printf '%s:' "$KAFKA_HOME"/libs/*.jar >"$stamp.part"
    mv "$stamp.part" "$stamp"
  fi
  exec 9>&-
fi

# The archive belongs to one Java; another one gets its own. A failure here only costs speed.
archive=$KAFKA_HOME/classes-$(java -XshowSettings:properties -version 2>&1 | sed -n 's/.*java.vm.version = //p' | tr -c 'A-Za-z0-9.\n' _).jsa
if [[ ! -f $archive ]]; then
  exec 9>"$TURNWRIGHT_CACHE/kafka.lock"
  flock 9
  if [[ ! -f $archive ]]; then
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    say "recording Kafka's class-data archive for this Java (once)"
    if KAFKA_CLASSES_TO=$work/classes.jsa "$here/kafka.sh" start --data "$work/kafka" --port auto >/dev/null 2>"$work/log" 9>&- &&
      "$here/kafka.sh" stop --data "$work/kafka" --timeout 60 2>>"$work/log" 9>&- && [[ -s $work/classes.jsa ]]; then
      cp "$work/classes.jsa" "$archive.part"
    else
      say "  it could not be recorded, so brokers start more slowly:"; tail -n 3 "$work/log" >&2
      "$here/kafka.sh" stop --data "$work/kafka" 2>/dev/null 9>&- || true
      : >"$archive.part" # an empty file: do not try again each time
    fi
    mv "$archive.part" "$archive"
  fi
  exec 9>&-
fi
ln -sfn "$(basename "$archive")" "$KAFKA_HOME/classes.jsa"
echo "$KAFKA_HOME"
