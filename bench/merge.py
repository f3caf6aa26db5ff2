"""Makes one run of several.  merge.py INTO.json ONE.json OTHER.json …

Each part is taken from the last of the files that has it whole. All must be of the same machine, and as long. The sources may have
changed in between: the report says of each part which it was measured of."""

import json
import pathlib
import sys

import board


def merged(runs: list) -> dict:
    """The parts of all; board.Different says what keeps two from being one."""
    whole = {"facts": dict(runs[-1]["facts"]), "rounds": runs[-1]["rounds"], "parts": {}, "cases": []}
    for run in runs:
        if different := board.differs(whole["facts"], run["facts"], but=("scheduler",)):
            raise board.Different(different)
        for name, part in run["parts"].items():
            if "failed" in part and "failed" not in whole["parts"].get(name, part):
                continue
            whole["parts"][name] = part
            whole["cases"] = [case for case in whole["cases"] if case["part"] != name]
            whole["cases"] += [case for case in run["cases"] if case["part"] == name]
    sources = {part.get("scheduler"): None for part in whole["parts"].values()}
    whole["facts"]["scheduler"] = "; ".join(filter(None, sources)) or whole["facts"].get("scheduler")
    whole["facts"]["minutes"] = round(sum(part.get("minutes", 0) for part in whole["parts"].values()), 1)
    return whole


def main(paths) -> None:
    if len(paths) < 3:
        sys.exit(__doc__)
    try:
        board.write(merged([json.loads(pathlib.Path(path).read_text()) for path in paths[1:]]), pathlib.Path(paths[0]))
    except board.Different as error:
        sys.exit(f"these are not parts of one run: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
