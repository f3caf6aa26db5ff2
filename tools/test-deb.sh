#!/usr/bin/env bash
# The package that tools/deb.sh makes, as an administrator meets it. Nothing of it is installed on this machine: apt, the servers and
# autopkgtest run in roots of their own under target/deb/, with processes and mounts that end with this script.
#
#   PG=15 tools/test-deb.sh                     all of it
#   PG=15 tools/test-deb.sh lintian install     some of it, of the package that is there
#
#   lintian       no error and no warning
#   name          the package of the empty pg_cron: its files ask for it and find it, Debian's pg_cron and it exclude each other
#   install       apt install from a signed repository, first fire within 60 s, removal
#   upgrade       from the schema of each release: apt upgrade, restart, ALTER EXTENSION UPDATE, rows kept, fires
#   autopkgtest   packaging/autopkgtest
#   piuparts      install, upgrade, remove and purge leave nothing behind
#   reproduce     a second build, from a copy of the sources at another path, gives the same file
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"
cd "$SCHEDULER_ROOT"

if [ "$(id -u)" != 0 ]; then fail "roots of their own need root: run this as root"; fi
if [ -n "$ASSERT" ]; then fail "there is no package for a server with assertions: leave ASSERT out"; fi
if ! apt-cache show "postgresql-$PG" >/dev/null 2>&1; then
    fail "this machine's Debian has no postgresql-$PG, which the package depends on: test it with PG=15"
fi
folder=$CARGO_TARGET_DIR/deb
name=postgresql-$PG-scheduler
steps=("$@")
if [ $# = 0 ]; then
    steps=(lintian install name upgrade autopkgtest piuparts reproduce)
    tools/deb.sh
fi
version=$(scheduler_version)
package=$folder/${name}_${version/-/\~}_$(dpkg --print-architecture).deb
pg_cron=$folder/$name-pg-cron_${version/-/\~}_all.deb
for file in "$package" "$pg_cron"; do
    if [ ! -f "$file" ]; then fail "there is no $file: run make deb"; fi
done

work=$(mktemp -d /var/tmp/scheduler-deb.XXXXXX)
trap 'rm -rf "$work"' EXIT

# Debian's mirrors that apt uses here, as lines of a sources.list.
# shellcheck disable=SC2016 # apt reads it, not the shell
mirrors() {
    apt-get indextargets --format 'deb $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
        grep -E '^deb \S+/debian(-security)?/? ' | sort -u
}

# A tree of a Debian with PostgreSQL $PG, made once a day: tests unpack it.
base=$folder/base-$PG.tar
base() {
    if [ -n "$(find "$base" -mtime -1 2>/dev/null)" ]; then return; fi
    say "making a Debian with PostgreSQL $PG to install the package in (about a minute)"
    mirrors >"$work/mirrors"
    # Not started and no cluster made: pg_virtualenv makes them.
    # shellcheck disable=SC2016 # mmdebstrap's shell reads it
    quietly deb-base mmdebstrap --mode=root --variant=apt --include=postgresql-"$PG",postgresql-common,gpgv,ca-certificates \
        --customize-hook='rm -rf "$1/etc/postgresql/'"$PG"'" "$1/var/lib/postgresql/'"$PG"'"' \
        --setup-hook='mkdir -p "$1/usr/sbin" && printf "#!/bin/sh\nexit 101\n" >"$1/usr/sbin/policy-rc.d" && chmod +x "$1/usr/sbin/policy-rc.d"' \
        "" "${base%.tar}.new.tar" "$work/mirrors"
    mv "${base%.tar}.new.tar" "$base"
}

# fresh ROOT: a new tree to install in
fresh() {
    base
    mkdir "$1"
    tar -C "$1" -xf "$base"
    cp /etc/resolv.conf "$1/etc/"
}

# inside ROOT COMMAND…: in the tree, with processes and mounts that end with the command
inside() {
    local root=$1
    shift
    # shellcheck disable=SC2016 # the inner shell reads it
    unshare --mount --pid --fork --kill-child bash -euc '
        root=$1; shift
        mount -t proc proc "$root/proc"
        mount --rbind /dev "$root/dev" && mount --make-rslave "$root/dev"
        mount -t tmpfs shm "$root/dev/shm"
        exec chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"' \
        inside "$root" "$@"
}

# repository ROOT DEB…: ROOT/srv/packages is a repository that apt trusts by its key only
repository() {
    local root=$1 home=$work/gnupg
    shift
    if [ ! -d "$home" ]; then
        install -d -m 700 "$home"
        quietly deb-key gpg --homedir "$home" --batch --passphrase '' --quick-generate-key 'a test of packages' ed25519 sign 1d
    fi
    rm -rf "$root/srv/packages"
    mkdir -p "$root/srv/packages"
    cp "$@" "$root/srv/packages/"
    (
        cd "$root/srv/packages"
        apt-ftparchive packages . >Packages
        apt-ftparchive release . >"$work/Release"
        gpg --homedir "$home" --batch --yes --clearsign --output InRelease "$work/Release" 2>/dev/null
    )
    gpg --homedir "$home" --export >"$root/etc/apt/keyrings/packages.gpg"
    echo 'deb [signed-by=/etc/apt/keyrings/packages.gpg] file:/srv/packages ./' >"$root/etc/apt/sources.list.d/packages.list"
}

# sources ROOT: packaging/autopkgtest for this version
sources() {
    cp -r packaging/autopkgtest "$1"
    find "$1" -type f -exec sed -i "s/@PG@/$PG/g" {} +
    tools/debian-changelog.py scheduler "${version/-/\~}" 'the scheduler authors <scheduler@example.org>' "$(tools/source-date.sh)" \
        >"$1/debian/changelog"
}

step_lintian() {
    lintian --allow-root --fail-on error,warning --tag-display-limit 0 "$package" "$pg_cron"
}

step_name() {
    local root=$work/name
    fresh "$root"
    repository "$root" "$package" "$pg_cron"
    cp pgrx-tests/data/pg_cron_files/guarded.sql "$root/srv/"
    inside "$root" bash -ec "apt-get -q update && apt-get -q install -y --no-install-recommends $name-pg-cron"
    # shellcheck disable=SC2016 # the inner shell reads it
    inside "$root" pg_virtualenv -v "$PG" -o shared_preload_libraries=scheduler bash -euc '
        psql -X -q -v ON_ERROR_STOP=1 -c "CREATE EXTENSION pg_cron CASCADE; CREATE TABLE sessions (i int)" -f /srv/guarded.sql
        if [ "$(psql -X -A -t -c "SELECT count(*) FROM cron.job")" != 2 ]; then echo "the guarded jobs are not there" >&2; exit 1; fi'
    if inside "$root" apt-get -q install -y --no-install-recommends --no-remove "postgresql-$PG-cron"; then fail "Debian's pg_cron came beside it"; fi
    inside "$root" bash -ec "apt-get -q install -y --no-install-recommends postgresql-$PG-cron"
    if inside "$root" dpkg-query -W "$name-pg-cron" 2>/dev/null | grep -q .; then fail "it is there beside Debian's pg_cron"; fi
    if ! grep -q libdir "$root/usr/share/postgresql/$PG/extension/pg_cron.control"; then fail "the control file is not Debian's"; fi
    inside "$root" dpkg-query -W "$name" >/dev/null
}

step_install() {
    local root=$work/install started
    fresh "$root"
    repository "$root" "$package"
    sources "$root/srv/tests"
    inside "$root" bash -c 'find /etc/postgresql-common /usr/share/postgresql -type f -exec sha256sum {} + | sort -k 2 >/srv/before'
    started=$SECONDS
    inside "$root" bash -ec "apt-get -q update && apt-get -q install -y --no-install-recommends $name && /srv/tests/debian/tests/first-fire"
    say "from apt install to the first fire: $((SECONDS - started)) s"
    if [ $((SECONDS - started)) -gt 60 ]; then fail "that is to take 60 s at most"; fi
    inside "$root" bash -ec "sha256sum --quiet --check /srv/before"
    if [ -n "$(find "$root/var/lib/dpkg/info" -name "$name.*inst" -o -name "$name.*rm")" ]; then fail "the package has a maintainer script"; fi
    # Without its key the repository is nothing to apt.
    inside "$root" bash -ec "apt-get -q purge -y $name && rm /etc/apt/keyrings/packages.gpg"
    if inside "$root" bash -c "apt-get -q -o APT::Update::Error-Mode=any update" >/dev/null 2>&1; then fail "apt took a repository that nobody signed for it"; fi
    if find "$root/usr" -name '*scheduler*' -path '*postgresql*' | grep .; then fail "the purged package has left these files"; fi
}

# older RELEASE FOLDER: a package of the schema of that release. Its library is this version's, which has every symbol that a release had.
older() {
    local root=$2/root-$1
    mkdir -p "$root"
    dpkg-deb --raw-extract "$package" "$root"
    (
        cd "$root/usr/share/postgresql/$PG/extension"
        rm scheduler--*.sql
        cp "$SCHEDULER_ROOT/sql/release/scheduler--$1.sql" .
        sed -i "s/^default_version = .*/default_version = '$1'/" scheduler.control
    )
    rm "$root/DEBIAN/md5sums"
    sed -i "s/^Version: .*/Version: $1/" "$root/DEBIAN/control"
    quietly deb-older dpkg-deb --build --root-owner-group "$root" "$2/${name}_$1_$(dpkg --print-architecture).deb"
}

step_upgrade() {
    local release root
    for release in $(find sql/release -name 'scheduler--*.sql' ! -name "scheduler--$version.sql" -printf '%f\n' | sed 's/scheduler--\(.*\)\.sql/\1/' | sort -V); do
        say "from $release"
        root=$work/upgrade-$release
        fresh "$root"
        older "$release" "$work"
        repository "$root" "$work/${name}_${release}_$(dpkg --print-architecture).deb"
        cp packaging/upgrade.sh "$root/srv/upgrade.sh"
        cp "pgrx-tests/data/releases/$release.sql" "$root/srv/rows.sql"
        quietly deb-upgrade inside "$root" bash -ec "apt-get -q update && apt-get -q install -y --no-install-recommends $name"
        # What apt is to find next.
        mkdir -p "$work/next-$release/etc/apt/keyrings" "$work/next-$release/etc/apt/sources.list.d"
        repository "$work/next-$release" "$work/${name}_${release}_$(dpkg --print-architecture).deb" "$package"
        mv "$work/next-$release/srv/packages" "$root/srv/next"
        inside "$root" pg_virtualenv -v "$PG" -o shared_preload_libraries=scheduler bash /srv/upgrade.sh "$PG" "$release" "$version"
        rm -rf "$root"
    done
}

step_autopkgtest() {
    local root=$work/autopkgtest result=0
    fresh "$root"
    sources "$work/tests"
    # Its chroot has no mounts of its own: they are made around it, and end with it.
    # shellcheck disable=SC2016 # the inner shell reads it
    unshare --mount --pid --fork --kill-child bash -euc '
        mount -t proc proc /proc
        mount -t proc proc "$1/proc"
        mount --rbind /dev "$1/dev" && mount --make-rslave "$1/dev"
        mount -t tmpfs shm "$1/dev/shm"
        autopkgtest --setup-commands="apt-get -q update" --no-built-binaries "$2" "$3" -- chroot "$1"' autopkgtest "$root" "$package" "$work/tests" || result=$?
    # 8 says that no test was there, 2 that some was skipped: neither has shown anything.
    if [ "$result" != 0 ]; then fail "autopkgtest says $result"; fi
}

step_piuparts() {
    local mirror=() line
    while read -r line; do mirror+=(--extra-repo="$line"); done < <(mirrors | grep -vE '^deb \S+ bookworm ')
    base
    # Its own Debian, of what is essential only: the package brings PostgreSQL with it.
    quietly deb-piuparts unshare --mount bash -euc 'mount --make-rprivate /; exec piuparts "$@"' piuparts \
        --distribution=bookworm --mirror="$(mirrors | sed -nE 's/^deb (\S+) bookworm (.*)/\1 \2/p')" "${mirror[@]}" \
        --keyring=/usr/share/keyrings/debian-archive-keyring.gpg --no-eatmydata --tmpdir="$work" "$package"
}

step_reproduce() {
    local copy=$work/another/place
    mkdir -p "$copy/target" "$work/built"
    git ls-files -z | xargs -0 cp --parents -t "$copy"
    # The server, the tools and the crates' sources are the same ones; what is compiled is compiled anew.
    ln -s "$CARGO_TARGET_DIR/tools" "$copy/target/tools"
    SOURCE_DATE_EPOCH=$(tools/source-date.sh) PACKAGE_PG_CONFIG=$SCHEDULER_PG_CONFIG "$copy/tools/deb.sh" "$work/built"
    local file
    for file in "$package" "$pg_cron"; do
        if ! cmp "$file" "$work/built/${file##*/}"; then
            rm -rf "$folder/another"
            mkdir "$folder/another"
            dpkg-deb --raw-extract "$file" "$folder/another/first"
            dpkg-deb --raw-extract "$work/built/${file##*/}" "$folder/another/second"
            diff -rq "$folder/another/first" "$folder/another/second" || true
            fail "two builds gave two files; both are unpacked in $folder/another"
        fi
    done
    say "two builds, one file: $(sha256sum <"$package" | cut -c1-64)"
}

for step in "${steps[@]}"; do
    case $step in
        lintian | install | name | upgrade | autopkgtest | piuparts | reproduce) ;;
        *) fail "no such step: $step" ;;
    esac
    say "$step"
    "step_$step"
done
printf '%s passed, 0 failed\n' "${#steps[@]}"
