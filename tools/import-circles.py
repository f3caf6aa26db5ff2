"""Files of a crate that import each other in a circle: `import-circles.py DIR…`, each the folder of a crate's lib.rs. Tests are left out."""

import re
import sys
from pathlib import Path


def modules(root):
    """Each module of the crate by its path: the file that it stands in."""
    found = {}
    for file in sorted(root.rglob("*.rs")):
        parts = list(file.relative_to(root).with_suffix("").parts)
        if parts[-1] in ("mod", "lib"):
            parts.pop()
        found[tuple(parts)] = file
    return found


def leaves(tree, prefix=()):
    """The paths that a `use` names: its braces taken apart."""
    depth, word, words = 0, "", []
    for letter in tree + ",":
        if letter == "," and depth == 0:
            words.append(word.strip())
            word = ""
            continue
        depth += (letter == "{") - (letter == "}")
        word += letter
    for word in filter(None, words):
        head, brace, inner = word.partition("{")
        parts = prefix + tuple(part for part in re.split(r"\s+as\s+", head)[0].strip().split("::") if part not in ("", "self"))
        if brace:
            yield from leaves(inner.rsplit("}", 1)[0], parts)
        else:
            yield parts


def imports(file, own, known):
    """The modules that a file takes something from."""
    text = re.split(r"^#\[cfg\((?:test|any\(test)", file.read_text(), maxsplit=1, flags=re.M)[0]
    text = re.sub(r"//.*", "", text)
    paths = [path for use in re.findall(r"\buse\s+((?:crate|super|self)\b[^;]*);", text) for path in leaves(use)]
    text = re.sub(r"\buse\s+[^;]*;", "", text)
    paths += [tuple(path.split("::")) for path in re.findall(r"\b(?:crate|super)(?:::\w+)+", text)]
    children = {module[-1] for module in known if module and module[:-1] == own}
    paths += [("self", path) for path in re.findall(r"\buse\s+(\w+)::", file.read_text()) if path in children]
    for path in paths:
        where = [] if path[0] == "crate" else list(own)
        rest = list(path)
        while rest and rest[0] in ("crate", "super", "self"):
            if rest.pop(0) == "super":
                where.pop()
        where += rest
        while tuple(where) not in known:
            where.pop()
        if tuple(where) not in ((), own):
            yield tuple(where)


def circles(edges):
    """The strongly connected parts of a graph that have more than one node (Tarjan)."""
    index, low, stack, found = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in edges[node]:
            if other not in index:
                visit(other)
            if other in stack:
                low[node] = min(low[node], low[other])
        if low[node] == index[node]:
            part = stack[stack.index(node) :]
            del stack[stack.index(node) :]
            if len(part) > 1:
                found.append(sorted(part))

    for node in edges:
        if node not in index:
            visit(node)
    return found


def main():
    broken = False
    for root in map(Path, sys.argv[1:]):
        known = modules(root)
        edges = {module: sorted(set(imports(file, module, known))) for module, file in known.items()}
        for circle in circles(edges):
            broken = True
            print("these files import each other in a circle:", file=sys.stderr)
            for module in circle:
                inside = ", ".join("::".join(other) for other in edges[module] if other in circle)
                print(f"    {known[module]}: {inside}", file=sys.stderr)
    sys.exit(broken)


main()
