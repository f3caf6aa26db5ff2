# shellcheck shell=bash disable=SC2034 # most of these are for the scripts that source it
# What depends on this machine, decided once and sourced by every other script: which PostgreSQL, where its private copy lives,
# and which user runs the servers.  `. tools/env.sh` in a bash gives you the same, e.g. to run one test with plain cargo.
#
#   PG=15                        the PostgreSQL major version
#   ASSERT=1                     a server built from source with assertions (--enable-cassert), beside the ordinary one
#
# The system's PostgreSQL is only ever read.  The extension goes into private copies of it, and every cluster that is started
# lives in $SCHEDULER_CLUSTERS.  A user's own PG* variables are dropped, so that nothing here can reach another cluster.

SCHEDULER_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
PG=${PG:-15}
ASSERT=${ASSERT:-}
case $ASSERT in '' | 1) ;; *)
    echo "error: ASSERT is \"$ASSERT\": say ASSERT=1, or leave it out" >&2
    exit 1
    ;;
esac
SERVER_NAME=$PG${ASSERT:+-assert} # one private server for each kind
PGRX_VERSION=0.18.1

# What programs say is read here: by their words, not by their translations.
export LC_ALL=C.UTF-8
unset LANGUAGE

for name in ${!PG@}; do
    case $name in PG | PGRX_VERSION | PG_CRON_NAME) ;; *) unset "$name" ;; esac
done
unset name
umask 022

CARGO_TARGET_DIR=$SCHEDULER_ROOT/target
PGRX_HOME=$CARGO_TARGET_DIR/pgrx-$SERVER_NAME
mkdir -p "$PGRX_HOME"

# PostgreSQL refuses to run as root: there the servers run as `postgres`, who must be able to enter the folders.
SCHEDULER_RUNAS=
if [ "$(id -u)" = 0 ]; then SCHEDULER_RUNAS=postgres; fi

anyone_can_enter() {
    local folder=$1
    while :; do
        case $(stat -Lc %A "$folder") in *[xt]) ;; *) return 1 ;; esac
        if [ "$folder" = / ]; then return 0; fi
        folder=$(dirname "$folder")
    done
}

# The path must also be short: a Unix socket's may have 107 bytes.
SCHEDULER_SERVERS=$CARGO_TARGET_DIR/servers
if [ "${#SCHEDULER_SERVERS}" -gt 60 ] || { [ -n "$SCHEDULER_RUNAS" ] && ! anyone_can_enter "$CARGO_TARGET_DIR"; }; then
    SCHEDULER_SERVERS=/var/tmp/scheduler-$(printf %s "$SCHEDULER_ROOT" | sha256sum | cut -c1-12)
fi
unset -f anyone_can_enter

SCHEDULER_SERVER=$SCHEDULER_SERVERS/$SERVER_NAME/usr/lib/postgresql/$PG/bin        # demo and cluster tests
SCHEDULER_PGRX_SERVER=$SCHEDULER_SERVERS/$SERVER_NAME-pgrx/usr/lib/postgresql/$PG/bin # its twin, for the build with #[pg_test]s in it
SCHEDULER_PG_CONFIG=$SCHEDULER_SERVER/pg_config
SCHEDULER_CLUSTERS=$SCHEDULER_SERVERS/clusters
SCHEDULER_PYTHON=$CARGO_TARGET_DIR/python/bin/python3
PATH=$CARGO_TARGET_DIR/tools/bin:$SCHEDULER_SERVER:$PATH

# Run a command as the user who runs the servers.
as_server_user() {
    if [ -n "$SCHEDULER_RUNAS" ]; then (cd / && runuser -u "$SCHEDULER_RUNAS" -- "$@"); else "$@"; fi
}

# remove_cluster NAME: stop the server of $SCHEDULER_CLUSTERS/NAME, if one runs, and remove all of it.
# A cluster is a folder with `data` in it; its sockets lie beside.
remove_cluster() {
    local folder=$SCHEDULER_CLUSTERS/$1
    if [ -f "$folder/data/postmaster.pid" ]; then
        as_server_user "$SCHEDULER_SERVER/pg_ctl" stop -s -m immediate -D "$folder/data" || true
    fi
    rm -rf "$folder"
}

# scheduler_version: the version in Cargo.toml, also where cargo is not at hand
scheduler_version() { sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' "$SCHEDULER_ROOT/Cargo.toml"; }

say() { printf '==> %s\n' "$*"; }
fail() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

# quietly LOG COMMAND…: on a terminal one sees it work; elsewhere its output is shown only when it fails.
quietly() {
    local log=$CARGO_TARGET_DIR/setup/$1.log
    shift
    mkdir -p "${log%/*}"
    if [ -t 2 ]; then
        "$@" 9>&-
    elif ! "$@" >"$log" 2>&1 9>&-; then
        tail -n 100 "$log" >&2
        fail "this failed: $* (all of its output: $log)"
    fi
}

export PG ASSERT PGRX_HOME CARGO_TARGET_DIR PATH SCHEDULER_ROOT SCHEDULER_RUNAS SCHEDULER_SERVER SCHEDULER_PG_CONFIG \
    SCHEDULER_CLUSTERS SCHEDULER_PYTHON
