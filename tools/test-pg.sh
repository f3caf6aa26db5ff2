#!/usr/bin/env bash
# The #[pg_test]s: pgrx builds them into the extension, starts a cluster, and runs each in a transaction that is rolled back.
# An argument is a part of a test's name.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"
cd "$SCHEDULER_ROOT"

# pgrx stops its server, but not when it is killed: those of runs that no longer exist go first.
find "$SCHEDULER_CLUSTERS" -maxdepth 1 -name 'pgrx-*' -printf '%f\n' | while read -r left; do
    if [ ! -d "/proc/${left#pgrx-}" ]; then remove_cluster "$left"; fi
done
trap 'remove_cluster "pgrx-$$"' EXIT

as_user=()
if [ -n "$SCHEDULER_RUNAS" ]; then as_user=(--runas "$SCHEDULER_RUNAS"); fi
# With backtraces an error's details would hold source paths, and differ from what users see.
RUST_BACKTRACE=0 cargo pgrx test "pg$PG" "$@" --no-default-features --features "pg$PG" \
    --pgdata "$SCHEDULER_CLUSTERS/pgrx-$$/data" "${as_user[@]}"
