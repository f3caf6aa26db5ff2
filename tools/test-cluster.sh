#!/usr/bin/env bash
# The tests that need a server of their own, with the real worker.  An argument is a part of a test's name.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"
cd "$SCHEDULER_ROOT"
tools/install.sh

tests() {
    # More threads than cores, because these tests wait more than they work.
    RUST_TEST_THREADS=${RUST_TEST_THREADS:-6} cargo test -p scheduler-cluster-tests -- "$@"
}

# These are real processes on a machine that others may keep busy. `make test` names a file for what failed once and passed alone: at most two
# tests get that chance, and each is a bug to look at, in the test or in what it tests.
if [ -z "${SCHEDULER_FLAKY:-}" ]; then
    tests "$@"
    exit
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if tests "$@" 2>&1 | tee "$log"; then exit 0; fi
# The last list of failures has the names, one in a line.
mapfile -t failed < <(awk '/^failures:$/ { n = 0; on = 1 } on && /^    [a-z_0-9:]+$/ { names[n++] = $1 } /^test result/ { on = 0 } END { for (i = 0; i < n; i++) print names[i] }' "$log")
if [ "${#failed[@]}" = 0 ] || [ "${#failed[@]}" -gt 2 ]; then exit 1; fi
for name in "${failed[@]}"; do
    say "$name failed: once more, alone"
    RUST_TEST_THREADS=1 tests --include-ignored --exact "$name"
    printf '%s\n' "$name" >>"$SCHEDULER_FLAKY"
done
