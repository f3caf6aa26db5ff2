#!/usr/bin/env bash
# All suites, one after the other, also when one fails; at the end what ran and how long it took.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"
cd "$SCHEDULER_ROOT" || exit 1

report=""
failed=0
SCHEDULER_FLAKY=$(mktemp)
export SCHEDULER_FLAKY
trap 'rm -f "$SCHEDULER_FLAKY"' EXIT
suite() {
    local name=$1 started=$SECONDS result=passed
    shift
    say "$name"
    if ! "$@"; then
        result=FAILED
        failed=1
    fi
    report="$report$(printf '    %-22s%-8s%5s s' "$name" "$result" "$((SECONDS - started))")
"
}

suite "checks" tools/check.sh
suite "core tests" cargo test -p scheduler-core
suite "tests in the server" tools/test-pg.sh
suite "server, no fast path" env SCHEDULER_FAST_PATH=off tools/test-pg.sh
suite "cluster tests" tools/test-cluster.sh
suite "cluster, no fast path" tools/test-statements.sh cheap
suite "released schema" tools/release-sql.sh

say "what ran"
printf '%s' "$report"
if [ -s "$SCHEDULER_FLAKY" ]; then
    say "failed once and passed when run again alone; what they said stands above"
    sed 's/^/    /' "$SCHEDULER_FLAKY"
fi
if [ "$failed" != 0 ]; then say "some of it failed: look for FAILED above"; fi
exit "$failed"
