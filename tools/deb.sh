#!/usr/bin/env bash
# Debian's package of the extension for PostgreSQL $PG: target/deb/postgresql-$PG-scheduler_VERSION_ARCH.deb. It has no maintainer script:
# whether a server preloads it is for its administrator to say. Equal sources give an equal file.
#
#   PG=15 tools/deb.sh [FOLDER]     into FOLDER instead of target/deb
#
# DEBFULLNAME and DEBEMAIL name the maintainer. PACKAGE_PG_CONFIG has it built for another server than the private one of that version.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"
cd "$SCHEDULER_ROOT"

if [ -n "$ASSERT" ]; then fail "a package is not built for a server with assertions: leave ASSERT out"; fi
folder=$(realpath -m "${1:-$CARGO_TARGET_DIR/deb}")
name=postgresql-$PG-scheduler
version=$(scheduler_version)
version=${version/-/\~}
architecture=$(dpkg --print-architecture)
maintainer="${DEBFULLNAME:-the scheduler authors} <${DEBEMAIL:-scheduler@example.org}>"
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(tools/source-date.sh)}
export SOURCE_DATE_EPOCH TZ=UTC
case $version in *~dev) ;; *)
    if [ -z "${DEBEMAIL:-}" ]; then say "a package to publish names who maintains it: set DEBFULLNAME and DEBEMAIL"; fi
    ;;
esac

say "building $name $version (about 4 minutes; less when little has changed)"
root=$folder/root-$PG
rm -rf "$root"
mkdir -p "$root"
tools/package.sh "${PACKAGE_PG_CONFIG:-$SCHEDULER_PG_CONFIG}" "$folder/files-$PG"
install -D -m 644 -t "$root/usr/lib/postgresql/$PG/lib" "$folder/files-$PG/lib/scheduler.so"
install -D -m 644 -t "$root/usr/share/postgresql/$PG/extension" "$folder/files-$PG/extension/"*
strip --strip-unneeded --remove-section=.comment --remove-section=.note "$root/usr/lib/postgresql/$PG/lib/scheduler.so"

documents=$root/usr/share/doc/$name
install -d "$documents"
install -m 644 packaging/debian/copyright packaging/debian/README.Debian "$documents"
gzip -9n <"$folder/files-$PG/licenses/THIRD-PARTY-NOTICES" >"$documents/THIRD-PARTY-NOTICES.gz"
sed -i "s/@PG@/$PG/g" "$documents/README.Debian"
tools/debian-changelog.py "$name" "$version" "$maintainer" "$SOURCE_DATE_EPOCH" | gzip -9n >"$documents/changelog.gz"

# What the library needs of libc. The tool wants to see a source package.
mkdir -p "$folder/source-$PG/debian"
printf 'Source: scheduler\n\nPackage: %s\nArchitecture: any\n' "$name" >"$folder/source-$PG/debian/control"
libraries=$(cd "$folder/source-$PG" && dpkg-shlibdeps -O --warnings=0 --ignore-missing-info "$root/usr/lib/postgresql/$PG/lib/scheduler.so")
libraries=${libraries#shlibs:Depends=}

# As dpkg-gencontrol counts it, for file systems differ in how large a folder is: each file in whole KiB, and one for a folder.
size=$(find "$root/usr" -printf '%y %s\n' | awk '{ kib += $1 == "f" ? int(($2 + 1023) / 1024) : 1 } END { print kib }')
mkdir "$root/DEBIAN"
sed -e "s/@NAME@/$name/; s/@VERSION@/$version/; s/@ARCH@/$architecture/; s/@MAINTAINER@/$maintainer/; s/@PG@/$PG/g" \
    -e "s/@LIBRARIES@/$libraries/; s/@SIZE@/$size/" packaging/debian/control >"$root/DEBIAN/control"
(cd "$root" && find usr -type f -print0 | sort -z | xargs -0 md5sum >DEBIAN/md5sums)
find "$root" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +

package=$folder/${name}_${version}_$architecture.deb
# One thread: how a file is cut into blocks is not to depend on the machine.
DPKG_DEB_THREADS_MAX=1 dpkg-deb --build --root-owner-group -Zxz "$root" "$package" >/dev/null
rm -rf "$root" "$folder/files-$PG" "$folder/source-$PG"
say "$package"
sha256sum "$package"
