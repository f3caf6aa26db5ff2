#!/usr/bin/env bash
# A folder that a server of PostgreSQL 18 or later takes the extension from, without a file in the server's own folders: as an image volume
# of CloudNativePG, or by two settings.
#
#   PG=18 tools/extension-folder.sh        leaves share/extension, lib and licenses in target/extension/18
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"
cd "$SCHEDULER_ROOT"

if [ "$PG" -lt 18 ]; then fail "PostgreSQL $PG has no extension_control_path: say PG=18"; fi
folder=$CARGO_TARGET_DIR/extension/$SERVER_NAME
say "building the extension for PostgreSQL $PG (about 4 minutes; seconds when nothing has changed)"
tools/package.sh "$SCHEDULER_PG_CONFIG" "$folder"
mkdir "$folder/share"
mv "$folder/extension" "$folder/share/extension"
cat <<END

To use it, put these into postgresql.conf and restart the server:

    extension_control_path = '\$system:$folder/share'
    dynamic_library_path = '\$libdir:$folder/lib'
    shared_preload_libraries = 'scheduler'
END
