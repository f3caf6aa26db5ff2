#!/usr/bin/env bash
# What `make demo` runs: a throw-away cluster with the extension, SQL jobs, example schedules and three example workers; shows what happens for
# 20 seconds and removes all of it.  KEEP=1 leaves it running; `tools/demo.sh stop` (make demo-stop) ends that.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"
cd "$SCHEDULER_ROOT"

folder=$SCHEDULER_CLUSTERS/demo
workers=$CARGO_TARGET_DIR/demo-workers # their process ids
worker=$SCHEDULER_ROOT/examples/python/worker.py

# still_there PID: a process with this id runs, and it is one of our workers
still_there() { tr '\0' ' ' 2>/dev/null <"/proc/$1/cmdline" | grep -qF "$worker"; }

remove_demo() {
    local pid
    if [ -f "$workers" ]; then
        while read -r pid; do
            if still_there "$pid"; then kill "$pid" 2>/dev/null || true; fi
        done <"$workers"
        while read -r pid; do # they finish what they are doing
            if still_there "$pid"; then timeout 10 tail --pid="$pid" -s 0.1 -f /dev/null >/dev/null || true; fi
            if still_there "$pid"; then kill -KILL "$pid" || true; fi
        done <"$workers"
        rm -f "$workers"
    fi
    remove_cluster demo
}

start_server() {
    as_server_user mkdir -m 700 "$folder"
    as_server_user "$SCHEDULER_SERVER/initdb" --username=postgres --auth=trust --encoding=UTF8 --locale=C --no-sync \
        --pgdata "$folder/data" >/dev/null
    # fsync off: nothing here has to outlive the machine
    as_server_user tee -a "$folder/data/postgresql.conf" >/dev/null <<END
listen_addresses = ''
unix_socket_directories = '$folder'
shared_preload_libraries = 'scheduler'
fsync = off
log_line_prefix = '%m %b[%p] %d '
END
    as_server_user env -u RUST_BACKTRACE LC_ALL=C "$SCHEDULER_SERVER/pg_ctl" start -s -w -t 60 -D "$folder/data" -l "$folder/log" \
        </dev/null 9>&- || fail "the server does not start"
}

start_worker() {
    PGHOST=$folder PGPORT=5432 PGUSER=app PGDATABASE=demo setsid "$SCHEDULER_PYTHON" "$worker" --queue "$1" --log-to work_done \
        </dev/null >"$folder/worker-$1-$2.log" 2>&1 9>&- &
    echo $! >>"$workers"
}

say_how_to_connect() {
    printf '    %s\n' "$SCHEDULER_SERVER/psql 'host=$folder port=5432 user=app dbname=demo'"
}

exec 9>"$CARGO_TARGET_DIR/demo.lock"
flock -n 9 || fail "another make demo is running in this checkout"

if [ "${1:-}" = stop ]; then
    if [ ! -d "$folder" ]; then say "no demo is running" && exit; fi
    remove_demo
    say "the demo is stopped and removed"
    exit
fi
if [ -f "$folder/kept" ] && as_server_user "$SCHEDULER_SERVER/pg_ctl" status -D "$folder/data" >/dev/null; then
    say "the demo that you kept is still running; connect to it with"
    say_how_to_connect
    say "and stop it, before you start another, with:  make demo-stop"
    exit 1
fi

"$SCHEDULER_PYTHON" tools/demo.py explain
tools/install.sh
remove_demo # what an interrupted demo may have left

kept=false
show=
clean_up() {
    local result=$?
    trap '' HUP INT TERM PIPE # once is enough, and nobody need listen
    set +e
    if [ -n "$show" ]; then
        kill "$show" 2>/dev/null
        wait "$show"
    fi
    if [ "$result" -gt 128 ]; then say "stopping the server and removing its data"; fi
    if [ "$result" = 1 ]; then tail -n 20 "$folder"/*log >&2; fi
    if ! $kept; then remove_demo; fi
}
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
trap clean_up EXIT

say "starting a throw-away PostgreSQL $PG server with the extension"
start_server
export PGHOST=$folder PGPORT=5432 PGDATABASE=demo
"$SCHEDULER_PYTHON" tools/demo.py setup "$SCHEDULER_ROOT/pgrx-tests/data/crontabs"
start_worker default 1
start_worker default 2
start_worker crontab 1
say "Ctrl-C stops and removes all of it. To look into it meanwhile, from another terminal:"
say_how_to_connect
"$SCHEDULER_PYTHON" tools/demo.py show 9>&- & # not in the foreground: a signal is to be heard at once
show=$!
wait "$show"
show=

if [ -n "${KEEP:-}" ]; then
    kept=true
    touch "$folder/kept"
    say "the server and three workers go on running; look around with"
    say_how_to_connect
    say "for example:  SELECT * FROM sched.schedules;  SELECT * FROM sched.execution ORDER BY created_at DESC LIMIT 10;"
    say "stop and remove them with:  make demo-stop"
else
    say "stopping the server and removing its data.  To keep it and look around yourself:  make demo KEEP=1"
fi
