"""Do two runs say the same?  compare.py ONE.json OTHER.json

Compares the ratios (ours to each peer), not the absolute figures, whose speed is that of the machine. Lists those that
differ by more than 20 %, and ends with 1 if there are any."""

import json
import pathlib
import statistics
import sys

from board import OURS, ratios

LIMIT = 0.2


def medians(run) -> dict:
    """(section, case, contestant) → the median of its ratios."""
    found = {}
    for case in run["cases"]:
        for name in case["samples"]:
            values = ratios(case, name) if name != OURS else []
            if values:
                found[case["section"], case["case"], name] = statistics.median(values)
    return found


def differences(one: dict, other: dict):
    """(what, ratio of one, ratio of the other, by how much the larger exceeds the smaller) of all that both have."""
    for key in one.keys() & other.keys():
        small, large = sorted((one[key], other[key]))
        yield key, one[key], other[key], large / small - 1


def main(paths) -> int:
    if len(paths) != 2:
        sys.exit(__doc__)
    runs = [json.loads(pathlib.Path(path).read_text()) for path in paths]
    one, other = map(medians, runs)
    for name in ("machine", "scheduler", "date"):
        print(f"{name}: " + "  and  ".join(str(run["facts"].get(name)) for run in runs))
    found = sorted(differences(one, other), key=lambda row: -row[3])
    if not found:
        sys.exit("the two runs have no ratio in common")
    apart = [row for row in found if row[3] > LIMIT]
    for key, first, second, by in apart:
        print(f"{by:6.0%}  {' | '.join(key)}: {first:.2f} and {second:.2f}")
    print(f"{len(found) - len(apart)} of {len(found)} ratios agree within {LIMIT:.0%};"
          f" half of them within {statistics.median(row[3] for row in found):.0%}")
    for name, only in (("first", one.keys() - other.keys()), ("second", other.keys() - one.keys())):
        if only:
            print(f"{len(only)} ratios are in the {name} run only")
    return 1 if apart else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
