#!/usr/bin/env bash
# Stop the clusters that are still running (a kept demo) and remove everything that was built or downloaded into this checkout.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"

if [ -d "$SCHEDULER_CLUSTERS" ]; then
    find "$SCHEDULER_CLUSTERS" -mindepth 1 -maxdepth 1 -printf '%f\n' | while read -r name; do remove_cluster "$name"; done
fi
rm -rf "$SCHEDULER_SERVERS" "$CARGO_TARGET_DIR" "$SCHEDULER_ROOT/examples/javascript/node_modules" \
    "$SCHEDULER_ROOT/pgrx-tests/drivers/node_modules" "$SCHEDULER_ROOT/bench/node_modules" \
    "$SCHEDULER_ROOT"/pgrx-tests/orms/{drizzle,vitest}/node_modules
