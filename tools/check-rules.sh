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
mapfile -t outside_store < <(files '^src/.*\.rs$' | grep -vE '^src/(store/|store\.rs|worker/runner)')

code "${outside_store[@]}" | grep -E '\bSpi::|\bspi::' | rule "SQL is run in src/store only (and by the runner)"
code "${shell[@]}" | grep -E '"\s*(SELECT|INSERT|UPDATE|DELETE|WITH|CREATE|ALTER|DROP|TRUNCATE|CALL|LOCK|select .* from|insert into|update .* set|delete from|with .* as \()\b' |
    rule "SQL text is in sql/, included with include_str!"
code "${shell[@]}" "${core[@]}" | grep -E '\.unwrap\(\)|\.expect\(' | rule "no unwrap() or expect(): what a user sends must not panic"
code "${shell[@]}" | grep -v '^src/worker/wait\.rs:' | grep -E '\bWaitLatch|wait_latch' | rule "processes wait in src/worker/wait.rs, which handles interrupts"
code "${core[@]}" | grep -E 'SystemTime::now|Utc::now|Local::now|Instant::now' | rule "the core reads no clock: now is an argument"
code "${tests[@]}" | grep -E 'thread::sleep|time::sleep|\bsleep_ms' |
    rule "tests wait for something (wait_until), they do not sleep"
# (An update's script is one file, however much is new.)
files '\.(rs|sql|sh|py|js)$' | grep -v '^sql/scheduler--' | xargs -r wc -l | awk '$2 != "total" && $1 > 450 { print $2 ": " $1 " lines" }' |
    rule "a file has at most 450 lines"
files '(\.(rs|sql|sh|py|js|md|toml)|Makefile)$' | grep -v check-rules | xargs -r grep -nHE '\b(TODO|FIXME|XXX)\b' |
    rule "no notes to self: do it, or open an issue"
files 'package-lock\.json$' | xargs -r grep -nH '"resolved"' | rule "a lock file names no registry (npm's omit-lockfile-registry-resolved)"

exit "$broken"
