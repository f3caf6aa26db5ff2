"""Every measured number in a document comes from bench/results.json.  measured.py [--write] FILE…

What stands between BEGIN and END is made of that file as a whole; --write does it. Elsewhere, write a number with the key of its sample behind it, in a comment that nobody sees:

    15,300<!-- bench: firing | 100,000 due at once | scheduler | median --> fires a second

Section, case and contestant as in results.json; then `min`, `median` or `max` of the samples, `ratio` (the median of ours over
theirs), `wal` or `cpu`. The number may be rounded, to two digits or more that count. A number that looks measured and has no such
comment is an error too, outside of blocks of code."""

import json
import pathlib
import re
import statistics
import sys

import summary
from board import ratios, spread

RESULTS = pathlib.Path(__file__).parent / "results.json"
BEGIN, END = "<!-- bench: begin; `make bench` writes what follows -->", "<!-- bench: end -->"
MARKED = re.compile(r"([\d][\d,]*(?:\.\d+)?)<!-- bench: (.*?) -->")
MEASURED = re.compile(
    r"\d[\d,.]*\s*(?:k\s*)?(?:fires|jobs|executions|claims|leases|schedules)?\s*(?:/s\b|per second\b|a second\b)"
    r"|\d[\d,.]*\s*(?:ms|µs)\b|\d[\d,.]*\s*(?:times as|times faster|× as|× faster)", re.IGNORECASE)


def value(run, key: str) -> float:
    """The number that the key names; KeyError with what is wrong about it."""
    parts = [part.strip() for part in key.split("|")]
    if len(parts) != 4:
        raise KeyError(f"a key is section | case | contestant | figure, not {key!r}")
    section, title, name, figure = parts
    case = next((case for case in run["cases"] if (case["section"], case["case"]) == (section, title)), None)
    samples = case and case["samples"].get(name)
    if not samples:
        raise KeyError(f"no samples of {key!r} in results.json")
    if figure in ("min", "median", "max"):
        return spread([sample["value"] for sample in samples])[("min", "median", "max").index(figure)]
    found = ratios(case, name) if figure == "ratio" else [sample[figure] for sample in samples if figure in sample]
    if not found:
        raise KeyError(f"no {figure!r} in {key!r}")
    return statistics.median(found)


def agrees(text: str, measured: float) -> bool:
    """Whether the text is the measured number, rounded to as many digits as it shows (zeros at the end of a whole number do not
    count beyond the first two)."""
    digits = text.replace(",", "")
    whole, _, fraction = digits.partition(".")
    if fraction:
        return f"{measured:.{len(fraction)}f}" == digits and len(digits.replace(".", "").lstrip("0")) >= 2
    zeros = len(whole) - len(whole.rstrip("0"))
    counted = max(len(whole) - zeros, 2)
    if len(whole) < 2:
        return False
    unit = 10 ** (len(whole) - counted)
    return round(measured / unit) * unit == int(whole)


def made(text: str) -> tuple:
    """(what stands before the section that is made of the results, that section or None, what stands after it)."""
    before, begin, rest = text.partition(BEGIN + "\n")
    section, end, after = rest.partition(END)
    return (before + begin, section, end + after) if begin and end else (text, None, "")


def fill(path: pathlib.Path) -> None:
    """Writes that section of a document."""
    before, section, after = made(path.read_text())
    if section is None:
        sys.exit(f"{path.name} has no {BEGIN} … {END}")
    path.write_text(before + summary.section(load()) + after)


def load():
    """The results, or None when there are none yet."""
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else None


def faults(text: str, run):
    """(line, what is wrong) of a document; run is None when there are no results yet."""
    before, section, after = made(text)
    if section is not None and section != summary.section(run):
        yield before.count("\n"), "this section is not what bench/results.json says: bench/measured.py --write docs/benchmarks.md"
    blank = "\n" * (section or "").count("\n")
    code = False
    for number, line in enumerate((before + blank + after).splitlines(), 1):
        code ^= line.startswith("```")
        if code:
            continue
        for shown, key in MARKED.findall(line):
            if run is None:
                yield number, f"{shown} is marked as measured, but there is no bench/results.json"
                continue
            try:
                measured = value(run, key)
            except KeyError as error:
                yield number, error.args[0]
                continue
            if not agrees(shown, measured):
                yield number, f"{shown} is said, {measured:,.4g} was measured: {key}"
        bare = MARKED.sub("", line)
        if found := MEASURED.search(bare):
            yield number, f"{found[0]!r} looks measured and names no sample (<!-- bench: … -->)"


def main(arguments) -> int:
    paths = [pathlib.Path(path) for path in arguments if path != "--write"]
    if "--write" in arguments:
        for path in paths:
            fill(path)
    run, wrong = load(), 0
    for path in paths:
        for number, fault in faults(path.read_text(), run):
            print(f"{path}:{number}: {fault}", file=sys.stderr)
            wrong += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
