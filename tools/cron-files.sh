#!/usr/bin/env bash
# scheduler_cron is SQL alone, with the version of the other extension: its control file, and its parts in one script, into FOLDER.
#
#   tools/cron-files.sh FOLDER
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"

version=$(scheduler_version)
sed "s/@VERSION@/$version/" "$SCHEDULER_ROOT/sql/cron/scheduler_cron.control" >"$1/scheduler_cron.control"
cat "$SCHEDULER_ROOT"/sql/cron/*.sql >"$1/scheduler_cron--$version.sql"
chmod 644 "$1/scheduler_cron.control" "$1/scheduler_cron--$version.sql"
