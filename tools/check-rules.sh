#!/usr/bin/env bash
# The house rules of ARCHITECTURE.md that a grep can hold. It reads text, not Rust: where it is wrong, say the same thing differently.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

shopt -s lastpipe # so that a rule at the end of a pipe can set `broken`
broken=0
# rule TEXT, with the lines that break it on its input
rule() {
    local lines
    mapfile -t lines
    if [ "${#lines[@]}" != 0 ]; then
        printf 'rule: %s\n' "$1" >&2
        printf '    %s\n' "${lines[@]}" >&2
        broken=1
    fi
}

# files REGEX: what is written here by hand, as paths from the root
files() {
    find . \( -name target -o -name node_modules -o -name .git -o -path ./sql/release \) -prune -o -type f -printf '%P\n' | grep -E "$1" | sort
}

# code FILE…: FILE:LINE:TEXT of what is code: neither comments nor what follows `#[cfg(test)]`, which ends a file.
code() {
    [ $# = 0 ] || awk 'FNR == 1 { test = 0 } /^ *#\[cfg\((test|any\(test)/ { test = 1 } /^ *\/\// || test { next } { print FILENAME ":" FNR ":" $0 }' "$@"
}

mapfile -t shell < <(files '^src/.*\.rs$')
mapfile -t core < <(files '^core/src/.*\.rs$')
mapfile -t tests < <(files '^(pgrx-tests|core/tests)/.*\.rs$' | grep -vFx pgrx-tests/cluster/src/wait.rs)
mapfile -t outside_store < <(files '^src/.*\.rs$' | grep -vE '^src/(store|pg)/')

code "${outside_store[@]}" | grep -E '\bSpi::|\bspi::' | rule "SQL is run in src/store only, by the session of src/pg"
# layer ROOM… -- PATH…: no file of these rooms names one of these modules
layer() {
    local rooms=()
    while [ "$1" != -- ]; do
        rooms+=("$1")
        shift
    done
    shift
    local above files
    above=$(IFS='|' && printf '%s' "$*")
    mapfile -t files < <(files "^src/($(IFS='|' && printf '%s' "${rooms[*]}"))(/|\.rs$)")
    code "${files[@]}" | grep -E "\bcrate::($above)\b" | rule "${rooms[*]} lie below $*, and know nothing of them"
}
layer pg shmem heap -- store dispatch worker api utility_hooks
layer pg -- shmem heap
layer shmem -- heap
layer store -- dispatch worker api utility_hooks
layer dispatch -- worker api utility_hooks
layer worker -- api utility_hooks
python3 tools/import-circles.py src core/src pgrx-tests/cluster/src || broken=1
code "${shell[@]}" | grep -E '"\s*(SELECT|INSERT|UPDATE|DELETE|WITH|CREATE|ALTER|DROP|TRUNCATE|CALL|LOCK|select .* from|insert into|update .* set|delete from|with .* as \()\b' |
    rule "SQL text is in sql/, included with include_str!"
# In test mode the clock of a database is not the server's. (Other schedulers go by the server's, and so do processes.)
code "${shell[@]}" | grep -E '\bconvert::now\b|"clock_timestamp' | grep -vE '^src/(pg|shmem|worker|health)/|^src/store/database_clock\.rs:' |
    rule "the time in a database is database_clock::now()"
mapfile -t statements < <(files '^sql/(schema|query|cron)/.*\.sql$' | grep -vE '^sql/(schema/04_test_clock|query/handover/(celery_beat_switch|pgagent_running))\.sql$')
grep -nE '\bclock_timestamp\(' "${statements[@]}" | rule "the time in a database is sched.now()"
code "${shell[@]}" "${core[@]}" | grep -E '\.unwrap\(\)|\.expect\(' | rule "no unwrap() or expect(): what a user sends must not panic"
code "${shell[@]}" | grep -v '^src/pg/latch\.rs:' | grep -E '\bWaitLatch|wait_latch' |
    rule "processes wait in src/pg/latch.rs, whose callers handle interrupts"
code "${core[@]}" | grep -E 'SystemTime::now|Utc::now|Local::now|Instant::now' | rule "the core reads no clock: now is an argument"
code "${tests[@]}" | grep -E '\bthread::sleep|\btime::sleep|\bsleep_ms' |
    rule "tests wait for something (wait_until), they do not sleep"
# Of the tests only pgrx-tests/support (tables.rs has the words) knows these tables and their indexes, so that another layout touches no other.
files '^pgrx-tests/' | grep -vE '^pgrx-tests/(support|data/releases)/' | xargs -r grep -nHIE '\bsched\.(ready|retry|pending|lease|timer)\b|\b(ready_order|retry_pkey|lease_(pkey|sweep_at)|timer_(pkey|fire_at|troubled))\b' |
    rule "tests name the tables of executions and timers by the words of pgrx-tests/support/tables.rs"
# (The script of an update cannot be split: ALTER EXTENSION runs one file.)
files '\.(rs|sql|sh|py|js)$' | grep -vE '^sql/scheduler(_cron)?--' | xargs -r wc -l |
    awk '$2 != "total" && $1 > 450 { print $2 ": " $1 " lines" }' | rule "a file has at most 450 lines"
files '(\.(rs|sql|sh|py|js|md|toml)|Makefile)$' | grep -v check-rules | xargs -r grep -nHE '\b(TODO|FIXME|XXX)\b' |
    rule "no notes to self: do it, or open an issue"
files 'package-lock\.json$' | xargs -r grep -nH '"resolved": "http' | rule "a lock file names no registry (npm's omit-lockfile-registry-resolved)"
version=$(. tools/env.sh && scheduler_version)
grep -n '^ *"version": "' META.json | grep -vF -e "\"$version\"" -e '"1.0.0", "url"' | rule "META.json has the version of Cargo.toml"

exit "$broken"
