#!/usr/bin/env bash
# Build the extension and install it in the private server of tests and demo; a few seconds when nothing has changed.
# `tools/install.sh PG_CONFIG` builds the release version and installs it in the server that this pg_config belongs to, below DESTDIR if that
# is set; `tools/install.sh PG_CONFIG build` only builds it. PG_CRON_NAME=1 installs the empty extension pg_cron as well.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"
cd "$SCHEDULER_ROOT"

if [ $# = 0 ]; then
    hint=
    if [ ! -f "$CARGO_TARGET_DIR/debug/libscheduler.so" ]; then hint=" (first time only: about 2 minutes)"; fi
    say "building the extension for PostgreSQL $PG$hint"
    quietly install cargo pgrx install --pg-config "$SCHEDULER_PG_CONFIG" --no-default-features --features "pg$PG"
    # The tests upgrade from every release; a user's server gets the upgrade scripts only. This version's stays as generated, for
    # tools/release-sql.sh compares it with the one that is kept.
    extensions=$("$SCHEDULER_PG_CONFIG" --sharedir)/extension
    find sql/release -name '*.sql' ! -name "*--$(scheduler_version).sql" -exec cp --no-preserve=all {} "$extensions/" ';'
    tools/cron-files.sh "$extensions"
    exit
fi

pg_config=$1
if ! [ -x "$(command -v "$pg_config")" ]; then fail "no such program: \"$pg_config\" (say make install PG_CONFIG=/path/to/pg_config)"; fi
pg_config=$(command -v "$pg_config")
built=$CARGO_TARGET_DIR/package
# Who installs after `make all` is often root by sudo, who has no cargo or another one: what was built for this server is copied then.
built_for="$(scheduler_version) for $("$pg_config" --version) in $("$pg_config" --pkglibdir)"
acts_for_another() { [ "$(id -u)" = 0 ] && [ -e "$built" ] && [ "$(stat -c %u "$built")" != 0 ]; }
if [ "${2:-}" != build ] && [ "$(cat "$built/built-for" 2>/dev/null)" = "$built_for" ] && { acts_for_another || ! command -v cargo >/dev/null; }; then
    if [ -n "$(find src core sql Cargo.toml Cargo.lock -type f -newer "$built/built-for" -print -quit)" ]; then
        fail "what was built before is older than the sources: as who built it, run make all PG_CONFIG=$pg_config"
    fi
    say "taking what was built before: $built_for"
else
    tools/setup.sh pgrx
    say "building the extension for $("$pg_config" --version) (about 4 minutes; seconds when nothing has changed)"
    tools/package.sh "$pg_config" "$built"
    printf '%s\n' "$built_for" >"$built/built-for"
fi
if [ "${2:-}" = build ]; then exit; fi

if [ -n "${PG_CRON_NAME:-}" ]; then tools/pg-cron-name.sh "$pg_config" check; fi
libraries=${DESTDIR:-}$("$pg_config" --pkglibdir)
scripts=${DESTDIR:-}$("$pg_config" --sharedir)/extension
documents=${DESTDIR:-}$("$pg_config" --docdir)/extension/scheduler
say "installing it in $libraries and $scripts"
as_owner() { "$@"; }
if [ -z "${DESTDIR:-}" ] && [ ! -w "$libraries" ]; then as_owner() { sudo "$@"; }; fi
as_owner mkdir -p "$libraries" "$scripts" "$documents"
# A running server has the old library mapped: it must be replaced, not overwritten.
as_owner cp --no-preserve=all --remove-destination "$built/lib/scheduler.so" "$libraries/"
as_owner cp --no-preserve=all --remove-destination "$built/extension/"* "$scripts/"
as_owner cp --no-preserve=all --remove-destination "$built/licenses/"* README.md "$documents/"
if [ -n "${PG_CRON_NAME:-}" ]; then tools/pg-cron-name.sh "$pg_config"; fi
cat <<END

To start using it, add this to postgresql.conf and restart the server (the extension's worker starts with it):

    shared_preload_libraries = 'scheduler'

then, in the database that is to have a scheduler:  CREATE EXTENSION scheduler;
END
