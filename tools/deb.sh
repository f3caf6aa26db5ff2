#!/usr/bin/env bash
# Debian's package of the extension for PostgreSQL $PG: target/deb/postgresql-$PG-scheduler_VERSION_ARCH.deb. It has no maintainer script:
# whether a server preloads it is for its administrator to say. Equal sources give an equal file. Beside it lies
# postgresql-$PG-scheduler-pg-cron_VERSION_all.deb, with the name pg_cron alone.
#
#   PG=15 tools/deb.sh [FOLDER]     into FOLDER instead of target/deb
#
# ONLY_NAME=1 builds the second alone. DEBFULLNAME and DEBEMAIL name the maintainer. PACKAGE_PG_CONFIG has it built for another server than
# the private one of that version.
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

# documents NAME ROOT: what each package has in its folder
documents() {
    local documents=$2/usr/share/doc/$1
    install -d "$documents"
    install -m 644 packaging/debian/copyright "$documents"
    tools/debian-changelog.py "$1" "$version" "$maintainer" "$SOURCE_DATE_EPOCH" | gzip -9n >"$documents/changelog.gz"
}

# pack NAME ROOT ARCHITECTURE CONTROL: FOLDER/NAME_VERSION_ARCHITECTURE.deb
pack() {
    local size package=$folder/$1_${version}_$3.deb
    # As dpkg-gencontrol counts it, for file systems differ in how large a folder is: each file in whole KiB, and one for a folder.
    size=$(find "$2/usr" -printf '%y %s\n' | awk '{ kib += $1 == "f" ? int(($2 + 1023) / 1024) : 1 } END { print kib }')
    mkdir "$2/DEBIAN"
    sed -e "s/@NAME@/$1/; s/@VERSION@/$version/; s/@ARCH@/$3/; s/@MAINTAINER@/$maintainer/; s/@PG@/$PG/g" \
        -e "s/@LIBRARIES@/${libraries:-}/; s/@SIZE@/$size/" "$4" >"$2/DEBIAN/control"
    (cd "$2" && find usr -type f -print0 | sort -z | xargs -0 md5sum >DEBIAN/md5sums)
    find "$2" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
    # One thread: how a file is cut into blocks is not to depend on the machine.
    DPKG_DEB_THREADS_MAX=1 dpkg-deb --build --root-owner-group -Zxz "$2" "$package" >/dev/null
    rm -rf "$2"
    say "$package"
    sha256sum "$package"
}

# The empty extension pg_cron, which is a package of its own: it cannot be there beside Debian's.
own=$folder/root-name-$PG
rm -rf "$own"
install -D -m 644 -t "$own/usr/share/postgresql/$PG/extension" sql/pg_cron/pg_cron.control sql/pg_cron/pg_cron--1.6.sql
documents "$name-pg-cron" "$own"
pack "$name-pg-cron" "$own" all packaging/debian/control-pg-cron
if [ -n "${ONLY_NAME:-}" ]; then exit; fi

say "building $name $version (about 4 minutes; less when little has changed)"
root=$folder/root-$PG
rm -rf "$root"
mkdir -p "$root"
tools/package.sh "${PACKAGE_PG_CONFIG:-$SCHEDULER_PG_CONFIG}" "$folder/files-$PG"
install -D -m 644 -t "$root/usr/lib/postgresql/$PG/lib" "$folder/files-$PG/lib/scheduler.so"
install -D -m 644 -t "$root/usr/share/postgresql/$PG/extension" "$folder/files-$PG/extension/"*
strip --strip-unneeded --remove-section=.comment --remove-section=.note "$root/usr/lib/postgresql/$PG/lib/scheduler.so"

documents "$name" "$root"
install -m 644 packaging/debian/README.Debian "$root/usr/share/doc/$name"
gzip -9n <"$folder/files-$PG/licenses/THIRD-PARTY-NOTICES" >"$root/usr/share/doc/$name/THIRD-PARTY-NOTICES.gz"
sed -i "s/@PG@/$PG/g" "$root/usr/share/doc/$name/README.Debian"

# What the library needs of libc. The tool wants to see a source package.
mkdir -p "$folder/source-$PG/debian"
printf 'Source: scheduler\n\nPackage: %s\nArchitecture: any\n' "$name" >"$folder/source-$PG/debian/control"
libraries=$(cd "$folder/source-$PG" && dpkg-shlibdeps -O --warnings=0 --ignore-missing-info "$root/usr/lib/postgresql/$PG/lib/scheduler.so")
libraries=${libraries#shlibs:Depends=}
pack "$name" "$root" "$architecture" packaging/debian/control
rm -rf "$folder/files-$PG" "$folder/source-$PG"
