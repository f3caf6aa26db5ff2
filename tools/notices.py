#!/usr/bin/env python3
"""The notices of what is linked into the library: each crate, its licence, and the text that the licence wants beside each copy.

    PG=15 tools/notices.py FILE      equal sources give an equal file

Of a crate that may be taken under one of several licences the MIT one is taken, where it brings that.
"""
import json
import os
import re
import subprocess
import sys
from pathlib import Path

FEATURES = ["--locked", "--no-default-features", "--features", "pg" + os.environ["PG"]]
OURS = {"scheduler", "scheduler-core"}
NOTICE = re.compile(r"(?i)(licen[cs]e|copying|notice|copyright|unlicense)")
# Of crates that bring no file: the words of the licence, which are the same for all, with who is named as author.
MIT = """Copyright (c) {authors}

Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated documentation files (the
"Software"), to deal in the Software without restriction, including without limitation the rights to use, copy, modify, merge, publish,
distribute, sublicense, and/or sell copies of the Software, and to permit persons to whom the Software is furnished to do so, subject to the
following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF
MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY
CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE
SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
"""


def cargo(*arguments: str) -> str:
    return subprocess.run(["cargo", *arguments], check=True, capture_output=True, text=True).stdout


def linked() -> list[tuple[str, str]]:
    """Name and version of each crate of which there is code in the library, without what only ran in the compiler."""
    tree = cargo("tree", "-p", "scheduler", "-e", "normal,no-proc-macro", "--prefix", "none", "--format", "{p}", *FEATURES)
    crates = {(line.split()[0], line.split()[1].removeprefix("v")) for line in tree.splitlines() if line.strip()}
    return sorted(crate for crate in crates if crate[0] not in OURS)


def texts(package: dict) -> list[str]:
    folder = Path(package["manifest_path"]).parent
    files = sorted(file for file in folder.rglob("*") if file.is_file() and NOTICE.match(str(file.relative_to(folder))))
    of_mit = [file for file in files if re.search(r"(?i)mit", file.name)]
    if of_mit and re.search(r"\bMIT\b", package["license"]) and " AND " not in package["license"]:
        files = of_mit
    if files:
        return [file.read_text().strip() for file in files]
    if package["license"] != "MIT":
        sys.exit(f"error: {package['name']} brings no text of its licence, {package['license']}")
    return [MIT.format(authors=", ".join(package["authors"]) or f"the authors of {package['name']}").strip()]


def main() -> None:
    packages = {(p["name"], p["version"]): p for p in json.loads(cargo("metadata", "--format-version", "1", *FEATURES))["packages"]}
    of_text: dict[str, list[str]] = {}
    for crate in linked():
        package = packages[crate]
        for text in texts(package):
            of_text.setdefault(text, []).append(f"{crate[0]} {crate[1]} ({package['license']})")
    parts = ["The library of this extension has code of these crates in it, and of Rust's standard library (MIT OR Apache-2.0).\n"]
    for text, crates in of_text.items():
        parts.append("=" * 80 + "\n" + "\n".join(crates) + "\n" + "-" * 80 + "\n" + text + "\n")
    Path(sys.argv[1]).write_text("\n".join(parts))


if __name__ == "__main__":
    main()
