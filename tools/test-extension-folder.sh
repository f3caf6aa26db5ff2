#!/usr/bin/env bash
# tools/extension-folder.sh's folder in a server that has no file of the extension: it is not offered there until the settings name the
# folder, and then it can be created and fires. The cluster is made here and removed.
#
#   PG=18 tools/test-extension-folder.sh        ASSERT=1 takes the server with assertions
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"
cd "$SCHEDULER_ROOT"

tools/extension-folder.sh >/dev/null
folder=$CARGO_TARGET_DIR/extension/$SERVER_NAME
cluster=$SCHEDULER_CLUSTERS/extension-folder
remove_cluster extension-folder
trap 'remove_cluster extension-folder; rm -rf "$place"' EXIT

# As an image volume would be: somewhere else, and read-only to the server.
place=$(mktemp -d /var/tmp/scheduler-extension.XXXXXX)
chmod 755 "$place"
cp -r "$folder" "$place/volume"
chmod -R a+rX,a-w "$place/volume"

server=$place/server
cp -a "$SCHEDULER_SERVERS/$SERVER_NAME" "$server"
bin=$server/usr/lib/postgresql/$PG/bin
find "$server" -name 'scheduler*' -delete
if find "$server" -name '*scheduler*.so' -o -name 'scheduler.control' | grep .; then fail "that server has the extension already"; fi

as_server_user mkdir -p "$cluster"
as_server_user "$bin/initdb" --no-sync -A trust -U postgres -D "$cluster/data" >"$place/initdb.log"
printf "listen_addresses = ''\nunix_socket_directories = '%s'\nfsync = off\n" "$cluster" >>"$cluster/data/postgresql.conf"
start() { as_server_user "$bin/pg_ctl" start -s -w -D "$cluster/data" -l "$cluster/log"; }
ask() { "$bin/psql" -X -At -v ON_ERROR_STOP=1 -h "$cluster" -U postgres -d postgres -c "$1"; }

start
if [ "$(ask "SELECT count(*) FROM pg_available_extensions WHERE name = 'scheduler'")" != 0 ]; then fail "the server has the extension without the settings"; fi
as_server_user "$bin/pg_ctl" stop -s -m fast -D "$cluster/data"
cat >>"$cluster/data/postgresql.conf" <<END
extension_control_path = '\$system:$place/volume/share'
dynamic_library_path = '\$libdir:$place/volume/lib'
shared_preload_libraries = 'scheduler'
END
start
ask "CREATE EXTENSION scheduler"
ask "CREATE TABLE fired (at timestamptz)"
ask "SELECT sched.schedule_sql('first', 'every 1 second', 'INSERT INTO fired VALUES (clock_timestamp())')"
for _ in $(seq 300); do
    if [ "$(ask "SELECT count(*) FROM fired")" -gt 0 ]; then
        say "it has fired from $folder"
        echo "1 passed, 0 failed"
        exit
    fi
    sleep 0.1
done
tail -n 50 "$cluster/log" >&2
fail "nothing has fired within 30 s"
