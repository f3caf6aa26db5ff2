#!/usr/bin/env bash
# Build the extension and install it in the private server of tests and demo; a few seconds when nothing has changed.
# `tools/install.sh PG_CONFIG` builds the release version and installs it in the server that this pg_config belongs to, below DESTDIR if that
# is set; `tools/install.sh PG_CONFIG build` only builds it.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"
cd "$SCHEDULER_ROOT"

if [ $# = 0 ]; then
    hint=
    if [ ! -f "$CARGO_TARGET_DIR/debug/libscheduler.so" ]; then hint=" (first time only: about 2 minutes)"; fi
    say "building the extension for PostgreSQL $PG$hint"
    quietly install cargo pgrx install --pg-config "$SCHEDULER_PG_CONFIG" --no-default-features --features "pg$PG"
    # The tests upgrade from every release; a user's server gets the upgrade scripts only.
    extensions=$("$SCHEDULER_PG_CONFIG" --sharedir)/extension
    cp --no-preserve=all sql/release/*.sql "$extensions/"
    tools/cron-files.sh "$extensions"
    exit
fi

pg_config=$1
if ! [ -x "$(command -v "$pg_config")" ]; then fail "no such program: \"$pg_config\" (say make install PG_CONFIG=/path/to/pg_config)"; fi
pg_config=$(command -v "$pg_config")
tools/setup.sh pgrx
say "building the extension for $("$pg_config" --version) (about 4 minutes; seconds when nothing has changed)"
built=$CARGO_TARGET_DIR/package
tools/package.sh "$pg_config" "$built"
if [ "${2:-}" = build ]; then exit; fi

libraries=${DESTDIR:-}$("$pg_config" --pkglibdir)
scripts=${DESTDIR:-}$("$pg_config" --sharedir)/extension
say "installing it in $libraries and $scripts"
as_owner() { "$@"; }
if [ -z "${DESTDIR:-}" ] && [ ! -w "$libraries" ]; then as_owner() { sudo "$@"; }; fi
as_owner mkdir -p "$libraries" "$scripts"
# A running server has the old library mapped: it must be replaced, not overwritten.
as_owner cp --no-preserve=all --remove-destination "$built/lib/scheduler.so" "$libraries/"
as_owner cp --no-preserve=all --remove-destination "$built/extension/"* "$scripts/"
cat <<END

To start using it, add this to postgresql.conf and restart the server (the extension's worker starts with it):

    shared_preload_libraries = 'scheduler'

then, in the database that is to have a scheduler:  CREATE EXTENSION scheduler;
END
