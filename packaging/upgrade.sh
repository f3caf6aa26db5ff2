#!/usr/bin/env bash
# Run by tools/test-deb.sh in a root of its own, under pg_virtualenv: rows of an old release, the package's upgrade by apt, a restart,
# the extension's update; then the schedules are there and fire.
#
#   upgrade.sh PG FROM TO
set -euo pipefail
pg=$1 from=$2 to=$3
ask() { psql -X -At -v ON_ERROR_STOP=1 -d postgres -c "$1"; }

# The schedule of those rows that fires every 200 milliseconds.
fires() {
    local before
    before=$(ask "SELECT count(*) FROM sched.execution WHERE schedule_name = 'pulse'")
    for _ in $(seq 300); do
        if [ "$(ask "SELECT count(*) FROM sched.execution WHERE schedule_name = 'pulse'")" -gt "$before" ]; then return; fi
        sleep 0.1
    done
    echo "nothing has fired within 30 s" >&2
    return 1
}

kept() { ask "SELECT count(*), string_agg(schedule_name, ',' ORDER BY schedule_name) FROM sched.schedule"; }

ask "CREATE ROLE app LOGIN"
ask "CREATE EXTENSION scheduler"
psql -X -q -v ON_ERROR_STOP=1 -d postgres -f /srv/rows.sql
[ "$(ask "SELECT extversion FROM pg_extension WHERE extname = 'scheduler'")" = "$from" ]
before=$(kept)

rm -rf /srv/packages && mv /srv/next /srv/packages
apt-get -q update
apt-get -q install -y --only-upgrade "postgresql-$pg-scheduler"
[ "$(dpkg-query -W -f '${Version}' "postgresql-$pg-scheduler")" = "${to/-/\~}" ]
pg_ctlcluster "$pg" regress restart
ask "ALTER EXTENSION scheduler UPDATE"
[ "$(ask "SELECT extversion FROM pg_extension WHERE extname = 'scheduler'")" = "$to" ]
after=$(kept)
if [ "$after" != "$before" ]; then
    echo "schedules before: $before; after: $after" >&2
    exit 1
fi
fires
echo "updated from $from to $to, and it fires"
