#!/bin/sh
# Refreshes the Debian cron tables in this folder from the packages that MANIFEST.tsv names, and writes the versions
# it found back into the manifest. Needs apt (a Debian system with its package lists up to date) and dpkg-deb; installs
# nothing. Further packages: add a line to the manifest with any version, then run this.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM

tab=$(printf '\t')
manifest=$here/MANIFEST.tsv
head -n 1 "$manifest" > "$work/manifest"

tail -n +2 "$manifest" > "$work/lines"
while IFS=$tab read -r package version path style licence; do
    if [ "$version" != - ]; then
        root=$work/root/$package
        if [ ! -d "$root" ]; then
            (cd "$work" && apt-get -q -o APT::Sandbox::User=root download "$package" >&2 </dev/null)
            mkdir -p "$root"
            dpkg-deb -x "$work/$package"_*.deb "$root"
        fi
        version=$(dpkg-deb -f "$work/$package"_*.deb Version)
        mkdir -p "$here/$package"
        cat "$root/$path" > "$here/$package/${path##*/}"
    fi
    printf '%s\t%s\t%s\t%s\t%s\n' "$package" "$version" "$path" "$style" "$licence" >> "$work/manifest"
done < "$work/lines"

cat "$work/manifest" > "$manifest"
