#!/usr/bin/env bash
# The cluster tests of leases, claims, fires and crashes by statements, as they run with sched.fast_path off: `cheap` is what `make test`
# runs of them, `rest` what `make test-long` does. After that a part of a test's name: those instead.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export SCHEDULER_FAST_PATH=off

# Two minutes at most, all of them together, on a quiet machine.
cheap=(concurrency:: crash:: drops:: edits:: enqueue:: fast_path:: firing:: heads:: interleaving:: isolation:: lease_ metrics:: queue_pauses:: shards:: skips:: verdicts::
    worker_signs::)
# What takes long alone, or looks at how large tables grow.
slow=(crash_load:: every_second_of_a_minute_once growth:: lease_crash:: poison:: programmes::programmes_)
long=(concurrency::long_ sql_job)

part=${1:?cheap or rest}
shift
if [ $# != 0 ]; then exec tools/test-cluster.sh "$@"; fi
case $part in
    cheap)
        skipped=()
        for name in "${slow[@]}"; do skipped+=(--skip "$name"); done
        exec tools/test-cluster.sh "${cheap[@]}" "${skipped[@]}"
        ;;
    rest) exec tools/test-cluster.sh --include-ignored "${slow[@]}" "${long[@]}" ;;
    *)
        echo "error: $part is neither cheap nor rest" >&2
        exit 1
        ;;
esac
