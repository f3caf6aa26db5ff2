#!/usr/bin/env bash
# Builds the release version for one PostgreSQL and lays its files into FOLDER/lib, FOLDER/extension and FOLDER/licenses. Equal sources and an equal
# toolchain give equal files, wherever the checkout is: no path of this machine is in them.
#
#   tools/package.sh PG_CONFIG FOLDER       4 minutes on two idle cores; seconds when nothing has changed
#
# PACKAGE_BUILD=FOLDER has it built elsewhere than under target/package-build.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"
cd "$SCHEDULER_ROOT"

pg_config=$1
into=$2
if ! [ -x "$pg_config" ]; then fail "no such program: $pg_config (say PG_CONFIG=/path/to/pg_config)"; fi
major=$("$pg_config" --version | sed -E 's/^PostgreSQL ([0-9]+).*/\1/')
version=$(scheduler_version)
build=${PACKAGE_BUILD:-$CARGO_TARGET_DIR/package-build}
mkdir -p "$build"
rm -rf "$build/pgrx-$major" # which another server of that version may have left

case $SCHEDULER_ROOT$build$HOME${CARGO_HOME:-} in *[[:space:]]*)
    fail "the compiler's flags cannot name a folder with a space: \"$SCHEDULER_ROOT\", \"$build\", \"${CARGO_HOME:-$HOME}\""
    ;;
esac
# The narrower path last: of several that match, rustc takes the last.
flags="--remap-path-prefix=$HOME=/home --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo --remap-path-prefix=$(rustc --print sysroot)=/rust"
flags="$flags --remap-path-prefix=$SCHEDULER_ROOT=/scheduler --remap-path-prefix=$build=/build"
# cargo-pgrx gives the linker this flag, by which the description of our functions stays in the library; RUSTFLAGS takes its place.
flags="$flags -C link-arg=-Wl,--no-gc-sections"
# The same for the C that pgrx compiles against the server's headers, some of which name themselves in messages.
cflags="-ffile-prefix-map=$SCHEDULER_ROOT=/scheduler -ffile-prefix-map=$build=/build -ffile-prefix-map=$("$pg_config" --includedir-server)=/server"
PGRX_PG_CONFIG_PATH=$pg_config CFLAGS="${CFLAGS:-} $cflags" RUSTFLAGS="${RUSTFLAGS:-} $flags" CARGO_TARGET_DIR=$build CARGO_INCREMENTAL=0 \
    quietly package cargo pgrx package --pg-config "$pg_config" --out-dir "$build/pgrx-$major" --no-default-features --features "pg$major"

library=$(find "$build/pgrx-$major" -name scheduler.so)
control=$(find "$build/pgrx-$major" -name scheduler.control)
if grep -qaF -e "$SCHEDULER_ROOT/" -e "$build/" "$library"; then
    fail "the library names folders of this machine: $(strings -a "$library" | grep -F -e "$SCHEDULER_ROOT/" -e "$build/" | head -n 3)"
fi
rm -rf "$into"
mkdir -p "$into/lib" "$into/extension" "$into/licenses"
cp --no-preserve=all LICENSE "$into/licenses/"
PG=$major tools/notices.py "$into/licenses/THIRD-PARTY-NOTICES"
cp --no-preserve=all "$library" "$into/lib/"
cp --no-preserve=all "$control" sql/scheduler--*--*.sql "$into/extension/"
# A release has the script that was frozen; it says the same (tools/release-sql.sh), and stays as it is.
if [ -f "sql/release/scheduler--$version.sql" ]; then
    cp --no-preserve=all "sql/release/scheduler--$version.sql" "$into/extension/"
else
    python3 tools/order-sql.py "${control%/*}/scheduler--$version.sql" "$into/extension/scheduler--$version.sql"
fi
tools/cron-files.sh "$into/extension"
