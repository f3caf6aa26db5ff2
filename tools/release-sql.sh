#!/usr/bin/env bash
# The install script of each release is kept in sql/release/, so that a changed schema shows as a diff and upgrades can be tried from
# every old version.
#
#   tools/release-sql.sh           while the version is a released one: is the generated script still the kept one?
#   tools/release-sql.sh diff      what is new since the last release: what the update's script has to bring
#   tools/release-sql.sh freeze    keep the generated script as that of the version in Cargo.toml
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"
cd "$SCHEDULER_ROOT"

version=$(scheduler_version)
generated=$("$SCHEDULER_PG_CONFIG" --sharedir)/extension/scheduler--$version.sql
kept=sql/release/scheduler--$version.sql
kept_cron=sql/release/scheduler_cron--$version.sql
if [ ! -f "$generated" ]; then fail "there is no $generated: run tools/install.sh"; fi

# The generator orders its blocks anew each time and names source lines. Without them, and sorted, equal schemas are equal files.
normal_form() {
    awk 'BEGIN { RS = "/\\* </end connected objects> \\*/\n"; ORS = "\0" } { gsub(/(^|\n)-- (src\/|scheduler::)[^\n]*/, ""); gsub(/^\n+/, ""); print }' "$1" |
        LC_ALL=C sort -z | tr '\0' '\n'
}

case ${1:-check} in
    freeze)
        case $version in *-dev) fail "$version is not a release: take the -dev from the version in Cargo.toml first" ;; esac
        cp --no-preserve=all "$generated" "$kept"
        cat sql/cron/*.sql >"$kept_cron"
        say "kept as $kept and $kept_cron"
        ;;
    check)
        if [ ! -f "$kept" ]; then
            case $version in *-dev) exit 0 ;; esac
            fail "version $version has no script in sql/release: run tools/release-sql.sh freeze, or give it the ending -dev"
        fi
        cat sql/cron/*.sql | diff -u "$kept_cron" - || fail "sql/cron is no longer what was released as $version: give the version in Cargo.toml a new number, and write sql/scheduler_cron--$version--NEW.sql"
        diff -u --label "$kept" --label "generated" <(normal_form "$kept") <(normal_form "$generated") ||
            fail "the generated script of $version is no longer the one that was released: give the version in Cargo.toml a new number, and write sql/scheduler--$version--NEW.sql"
        ;;
    diff)
        last=$(find sql/release -name '*.sql' ! -path "$kept" | sort -V | tail -n 1)
        diff -u --label "$last" --label "generated" <(normal_form "$last") <(normal_form "$generated") || true
        ;;
    *) fail "no such command: $1" ;;
esac
