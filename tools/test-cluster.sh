#!/usr/bin/env bash
# The tests that need a server of their own, with the real worker.  An argument is a part of a test's name.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"
cd "$SCHEDULER_ROOT"
tools/install.sh
# More threads than cores, because these tests wait more than they work.
RUST_TEST_THREADS=${RUST_TEST_THREADS:-4} cargo test -p scheduler-cluster-tests -- "$@"
