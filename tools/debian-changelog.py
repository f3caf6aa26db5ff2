#!/usr/bin/env python3
"""CHANGELOG.md in the form of a Debian changelog, on standard output.

    tools/debian-changelog.py PACKAGE VERSION MAINTAINER EPOCH

VERSION is the package's own. What is unreleased is its first entry while it ends with ~dev, dated EPOCH; the other entries have noon
(UTC) of the day that CHANGELOG.md gives them."""

import datetime
import email.utils
import pathlib
import re
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent


def releases(text):
    """(heading, lines) of each part of the changelog, newest first."""
    for part in re.split(r"^## ", text, flags=re.M)[1:]:
        heading, _, body = part.partition("\n")
        yield heading.strip(), [line[2:].strip() for line in body.splitlines() if line.startswith("- ")]


def main(package, version, maintainer, epoch):
    found = []
    for heading, lines in releases((ROOT / "CHANGELOG.md").read_text()):
        if heading == "Unreleased":
            if version.endswith("~dev"):
                found.append((version, datetime.datetime.fromtimestamp(int(epoch), datetime.timezone.utc), lines))
            continue
        number, day = re.fullmatch(r"(\S+) - (\d{4}-\d{2}-\d{2})", heading).groups()
        moment = datetime.datetime.fromisoformat(day + "T12:00:00+00:00")
        found.append((number, moment, lines))
    if found[0][0] != version:
        sys.exit(f"error: the newest part of CHANGELOG.md is {found[0][0]}, not {version}")
    for number, moment, lines in found:
        print(f"{package} ({number}) unstable; urgency=medium\n")
        for line in lines or ["Nothing that a user notices."]:
            print(textwrap.fill(line, 78, initial_indent="  * ", subsequent_indent="    ", break_long_words=False))
        print(f"\n -- {maintainer}  {email.utils.format_datetime(moment)}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
