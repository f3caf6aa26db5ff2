#!/usr/bin/env python3
"""What can be said about pages without running them: sentences, and links.

    tools/check-docs.py             all of it; 1 and the faults where there are some
    tools/check-docs.py --longest   also each page's longest sentence
    tools/check-docs.py --paths     also whether the files are there that CONTRIBUTING.md and ARCHITECTURE.md name

A sentence has at most 30 words. Code, tables, headings and comments do not count; `code` within a
sentence is one word. README.md and ARCHITECTURE.md are short. A relative link names a file that is there, and a heading of it that is there."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LONGEST = 30
# In bytes: what a reader meets first has to be short.
AT_MOST = {"README.md": 8000, "ARCHITECTURE.md": 12000}
SKIPPED = {"target", "node_modules", ".git", "results"}
# Written by a program: its links count, its sentences do not.
NO_PROSE = ("bench/RESULTS.md",)


def pages():
    for path in sorted(ROOT.rglob("*.md")):
        if not SKIPPED & set(path.relative_to(ROOT).parts):
            yield path


def blocks(text):
    """(line, text) of each paragraph and list item."""
    text = re.sub(r"<!--.*?-->", lambda found: "\n" * found[0].count("\n"), text, flags=re.S)
    fence, start, words = None, 0, []
    for number, line in enumerate(text.splitlines() + [""], 1):
        mark = re.match(r"\s*(```+|~~~+)", line)
        if mark:
            fence = None if fence else mark[1]
        item = re.match(r"\s*(?:[-*+]|\d+\.)\s+(?=\S)", line)
        ends = bool(fence or mark or not line.strip() or item or re.match(r"\s*(\||#|!\[)", line))
        if ends and words:
            yield start, " ".join(words)
            words = []
        if fence or mark or not line.strip() or re.match(r"\s*(\||#|!\[)", line):
            continue
        if not words:
            start = number
        words.append(line[item.end():] if item else line.strip())


def sentences(text):
    for line, block in blocks(text):
        block = re.sub(r"`[^`]*`", "code", block)
        block = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", block)
        block = re.sub(r"\*\*|\*|__", "", block)
        for sentence in re.split(r"(?<=[.!?])[\"'”)\]]*\s+", block):
            count = len([word for word in sentence.split() if re.search(r"\w", word)])
            if count:
                yield line, count, sentence


def slug(heading):
    heading = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading.strip().rstrip("#").strip())
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def without_code(text):
    text = re.sub(r"^\s*(```+).*?^\s*\1\s*$", lambda found: "\n" * found[0].count("\n"), text, flags=re.S | re.M)
    return text


def anchors(path):
    found, seen = set(re.findall(r'<a (?:id|name)="([^"]+)"', path.read_text())), {}
    for heading in re.findall(r"^#{1,6}\s+(.*)$", without_code(path.read_text()), flags=re.M):
        name = slug(heading)
        count = seen[name] = seen.get(name, -1) + 1
        found.add(f"{name}-{count}" if count else name)
    return found


def broken_links(path):
    text = re.sub(r"`[^`\n]*`", "", without_code(path.read_text()))
    for number, line in enumerate(text.splitlines(), 1):
        targets = re.findall(r"\]\(([^)\s]+)\)", line) + re.findall(r'(?:src|href)="([^"]+)"', line)
        for target in targets:
            if re.match(r"[a-z]+:", target):
                continue
            name, _, anchor = target.partition("#")
            other = (path.parent / name).resolve() if name else path
            if not other.exists():
                yield number, f"there is no {target}"
            elif anchor and (other.suffix != ".md" or anchor not in anchors(other)):
                yield number, f"{target}: no such heading"


def missing_files(path):
    """Files and folders that a page names in `code` and that are not there. What has a capital or a * in it stands for many."""
    for number, line in enumerate(without_code(path.read_text()).splitlines(), 1):
        for name in re.findall(r"`([a-z.][\w.-]*/[\w./-]*)`", line):
            if not re.search(r"[A-Z]", name) and not name.startswith("target/") and not (ROOT / name).exists():
                yield number, f"there is no {name}"


def main(arguments):
    faults = 0

    def fault(path, number, text):
        nonlocal faults
        faults += 1
        print(f"{path.relative_to(ROOT)}:{number}: {text}", file=sys.stderr)

    for path in pages():
        for number, text in broken_links(path):
            fault(path, number, text)
        name = str(path.relative_to(ROOT))
        if path.stat().st_size > AT_MOST.get(name, path.stat().st_size):
            fault(path, 1, f"{path.stat().st_size} bytes, of {AT_MOST[name]} that it may have")
        if "--paths" in arguments and name in ("CONTRIBUTING.md", "ARCHITECTURE.md"):
            for number, text in missing_files(path):
                fault(path, number, text)
        if name.startswith(NO_PROSE):
            continue
        found = list(sentences(path.read_text()))
        if not found:
            continue
        if "--longest" in arguments:
            print(f"{name}: {len(found)} sentences; the longest {max(count for _, count, _ in found)}")
        for number, count, sentence in found:
            if count > LONGEST:
                fault(path, number, f"a sentence of {count} words: {sentence[:90]}…")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
