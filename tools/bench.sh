#!/usr/bin/env bash
# What `make bench` runs: a release build in a private server of its own, the peers from their registries, then bench/run.py.
#
#   QUICK=1           fewer cases, within eight minutes (and four for the first build); its results stand in a file of their own
#   ONLY=leases,queue some parts (leases, queue, delayed, clients, firing, lateness, tick, size, million, sql; and seen, reads), in place of what the last run of the same
#                     sources has of them: the others stay
#   ROUNDS=3          rounds of each case
#   RESUME=1          only the parts that an interrupted run of the same sources has not ended
#   AGAINST=REVISION  only this build beside that of another revision: is anything slower than before? (half an hour; ONLY, ROUNDS as above)
#   MINUTES=15        with AGAINST and ONLY=snapshot: the dead entries come from so many minutes of 500 executions a second
#   AGAINST=sched.fast_path=off  only this build beside itself with that setting: what does it cost?
#   REPORT=1          only write bench/RESULTS.md, the charts and docs/benchmarks.md anew, from the JSON of the last run
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"
cd "$SCHEDULER_ROOT"

server=$SCHEDULER_SERVERS/$PG-bench
other=$SCHEDULER_SERVERS/$PG-bench-before
bin=$server/usr/lib/postgresql/$PG/bin
python=$CARGO_TARGET_DIR/bench-python
export BENCH_SERVER=$bin BENCH_RESULTS=$CARGO_TARGET_DIR/bench-${QUICK:+quick-}results.json PYTHONDONTWRITEBYTECODE=1

# A copy of the server, so that the release build and the peers' extensions meet no test.
own_server() {
    local server=$1 folder
    if [ -x "$server/usr/lib/postgresql/$PG/bin/postgres" ]; then return; fi
    for folder in lib/postgresql/$PG share/postgresql/$PG include/postgresql; do
        mkdir -p "$server/usr/$folder"
        cp -a "/usr/$folder/." "$server/usr/$folder"
    done
}

release_build() {
    local key
    key=$(find src core/src sql Cargo.toml Cargo.lock core/Cargo.toml scheduler.control -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum)
    if [ "$(cat "$server/built" 2>/dev/null)" = "$key" ]; then return; fi
    say "building the release version of the extension (4 minutes)"
    quietly bench-build cargo pgrx install --release --pg-config "$bin/pg_config" --no-default-features --features "pg$PG"
    printf '%s\n' "$key" >"$server/built"
}

# The release version of the revision $AGAINST, from a checkout of its own.
build_before() {
    local revision work=$CARGO_TARGET_DIR/bench-before
    revision=$(git rev-parse --verify "$AGAINST^{commit}") || fail "no such revision: $AGAINST"
    if [ "$(cat "$other/built" 2>/dev/null)" = "$revision" ]; then return; fi
    say "building the release version of $AGAINST (4 minutes)"
    own_server "$other"
    rm -rf "$work"
    mkdir -p "$work"
    git archive "$revision" | tar -x -C "$work"
    # In a folder of its own: cargo takes two checkouts' crates for one, and goes by the time of their files.
    (cd "$work" && CARGO_TARGET_DIR=$CARGO_TARGET_DIR/release-before quietly bench-build-before cargo pgrx install --release --no-default-features --features "pg$PG" \
        --pg-config "$other/usr/lib/postgresql/$PG/bin/pg_config")
    printf '%s\n' "$revision" >"$other/built"
}

# pg_cron's package is unpacked into that copy and never installed. Without it its line in the table says so.
pg_cron() {
    local folder=$CARGO_TARGET_DIR/bench-pg_cron
    if [ -f "$bin/../lib/pg_cron.so" ] || [ -d "$folder" ]; then return; fi
    mkdir -p "$folder"
    if (cd "$folder" && apt-get download "postgresql-$PG-cron" && dpkg -x ./*.deb .) >/dev/null 2>&1; then
        cp -a "$folder/usr/lib/postgresql/$PG/lib/pg_cron.so" "$bin/../lib/"
        cp -a "$folder/usr/share/postgresql/$PG/extension/." "$server/usr/share/postgresql/$PG/extension/"
    fi
}

packages() {
    local key
    key=$(cat bench/requirements.txt bench/package.json bench/package-lock.json | sha256sum)
    key="$python $key" # a copied environment still names the folder that it was made in
    if [ "$(cat "$python/done" 2>/dev/null)" = "$key" ] && [ -d bench/node_modules ]; then return; fi
    say "installing the peers (npm, pip) and the drawing library (pip)"
    quietly bench-venv python3 -m venv --clear "$python"
    quietly bench-pip "$python/bin/python" -m pip install --disable-pip-version-check -r bench/requirements.txt
    # a peer that cannot be installed says so in the table
    (cd bench && quietly bench-npm npm ci --no-audit --no-fund) || say "npm failed: the Node peers will not run"
    printf '%s\n' "$key" >"$python/done"
}

mkdir -p "$CARGO_TARGET_DIR"
exec 8>"$CARGO_TARGET_DIR/bench.lock"
flock -n 8 || fail "another make bench runs in this checkout: both would measure the other, and use one cluster"
tools/setup.sh packages pgrx server javascript
own_server "$server"
packages
if [ -z "${REPORT:-}" ]; then
    pg_cron
    release_build
fi

against=()
case ${AGAINST:-} in
    sched.*=*)
        other=$server
        against=(--setting "$AGAINST")
        ;;
    ?*) build_before ;;
esac
if [ -n "${AGAINST:-}" ]; then
    exec "$python/bin/python" bench/against.py "$bin" "$other/usr/lib/postgresql/$PG/bin" "$SCHEDULER_CLUSTERS" ${SCHEDULER_RUNAS:+"$SCHEDULER_RUNAS"} \
        --rounds "${ROUNDS:-3}" --only "${ONLY:-}" --minutes "${MINUTES:-0}" "${against[@]}"
fi
arguments=(--rounds "${ROUNDS:-$([ -n "${QUICK:-}" ] && echo 1 || echo 3)}" --only "${ONLY:-}")
if [ -n "${QUICK:-}" ]; then arguments+=(--quick); fi
if [ -n "${RESUME:-}" ]; then arguments+=(--resume); fi
if [ -n "${REPORT:-}" ]; then arguments+=(--report); fi
exec "$python/bin/python" bench/run.py "${arguments[@]}"
