#!/usr/bin/env bash
# Build the extension and install it in the private server of tests and demo; a few seconds when nothing has changed.
# `tools/install.sh PG_CONFIG` builds the release version and installs it in the server that this pg_config belongs to.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"
cd "$SCHEDULER_ROOT"

if [ $# = 0 ]; then
    hint=
    if [ ! -f "$CARGO_TARGET_DIR/debug/libscheduler.so" ]; then hint=" (first time only: about 2 minutes)"; fi
    say "building the extension for PostgreSQL $PG$hint"
    quietly install cargo pgrx install --pg-config "$SCHEDULER_PG_CONFIG" --no-default-features --features "pg$PG"
    # The tests upgrade from every release; a user's server gets the upgrade scripts only.
    cp --no-preserve=all sql/release/*.sql "$("$SCHEDULER_PG_CONFIG" --sharedir)/extension/"
    exit
fi

pg_config=$1
if ! [ -x "$pg_config" ]; then fail "no such program: $pg_config (say make install PG_CONFIG=/path/to/pg_config)"; fi
tools/setup.sh pgrx
version=$("$pg_config" --version | sed -E 's/^PostgreSQL ([0-9]+).*/\1/')
folder=$("$pg_config" --pkglibdir)
say "building the extension for PostgreSQL $version (about 4 minutes)"
built=$CARGO_TARGET_DIR/package
rm -rf "$built"
PGRX_PG_CONFIG_PATH=$pg_config quietly install cargo pgrx package --pg-config "$pg_config" --out-dir "$built" \
    --no-default-features --features "pg$version"

say "installing it in $folder"
# A running server has the old library mapped: it must be replaced, not overwritten.
copy=(cp -r --no-preserve=all --remove-destination "$built/." /)
if [ -w "$folder" ]; then "${copy[@]}"; else sudo "${copy[@]}"; fi
cat <<END

To start using it, add this to postgresql.conf and restart the server (the extension's worker starts with it):

    shared_preload_libraries = 'scheduler'

then, in the database that is to have a scheduler:  CREATE EXTENSION scheduler;
END
