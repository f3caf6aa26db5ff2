#!/usr/bin/env bash
# scheduler_cron is SQL alone, with the version of the other extension: its control file, its parts in one script, and its updates, into FOLDER.
#
#   tools/cron-files.sh FOLDER
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"

version=$(scheduler_version)
sed "s/@VERSION@/$version/" "$SCHEDULER_ROOT/sql/cron/scheduler_cron.control" >"$1/scheduler_cron.control"
cat "$SCHEDULER_ROOT"/sql/cron/*.sql >"$1/scheduler_cron--$version.sql"
shopt -s nullglob # before its second release there is no update
for update in "$SCHEDULER_ROOT"/sql/scheduler_cron--*--*.sql; do cp --no-preserve=all "$update" "$1/"; done
chmod 644 "$1/scheduler_cron.control" "$1/scheduler_cron"--*.sql
