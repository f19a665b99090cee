#!/usr/bin/env python3
"""Draws which folder imports which: docs/packages.svg, by Graphviz's dot.

    python3 scripts/import_graph.py [--out docs/packages.svg]

A box is a folder at the top with its packages. Red packages read private text, blue ones compute with libtorch, and
the others are pure Go. Arrows point to what a folder's packages import; those that follow from others are left out.
Packages under internal/ and helpers of tests are left out, too.
"""
import argparse
import subprocess

HELPERS = ("internal/", "testdata", "testkit", "scripts")


def run(*command, text=None):
    return subprocess.run(command, input=text, check=True, capture_output=True, text=True).stdout


def packages():
    """The imports of each package, and the packages that need libtorch."""
    imports, native = {}, set()
    form = '{{.ImportPath}}|{{join .Imports " "}}|{{join .Deps " "}}'
    for line in run("go", "list", "-f", form, "./...").splitlines():
        name, direct, deps = line.split("|")
        name = name.removeprefix("popri/")
        if any(h in name + "/" for h in HELPERS):
            continue
        imports[name] = [d.removeprefix("popri/") for d in direct.split() if d.startswith("popri/")]
        if "popri/model/tensor" in deps.split() or name == "model/tensor":
            native.add(name)
    return imports, native


def folders(imports):
    """How many imports go from a folder to another."""
    count = {}
    for name, list_ in imports.items():
        for d in list_:
            a, b = name.split("/")[0], d.split("/")[0]
            if d in imports and a != b:
                count[a, b] = count.get((a, b), 0) + 1
    return count


def reduced(edges):
    """The edges without those that follow from others; the rarer one of two opposite edges is left out before."""
    edges = {(a, b) for a, b in edges if edges[a, b] >= edges.get((b, a), 0)}

    def reach(a, b, without):
        seen, todo = set(), [a]
        while todo:
            x = todo.pop()
            for u, v in edges:
                if u == x and (u, v) != without and v not in seen:
                    if v == b:
                        return True
                    seen.add(v)
                    todo.append(v)
        return False

    for e in sorted(edges):
        if reach(*e, without=e):
            edges.discard(e)
    return edges


def dot(imports, native):
    private = {n for n, list_ in imports.items() if "datasets/clients" in list_} | {"datasets/clients"}
    out = ['digraph { rankdir=TB; ranksep=0.5; nodesep=0.3; node [shape=plain, fontname=Helvetica];'
           ' edge [color="#888888", arrowsize=0.7];']
    for folder in sorted({n.split("/")[0] for n in imports}):
        rows = []
        for name in sorted(n for n in imports if n.split("/")[0] == folder):
            fill = "#ffd9d6" if name in private else "#d6e6ff" if name in native else "#f2f2ee"
            shown = name.removeprefix(folder).removeprefix("/") or folder
            rows.append(f'<td bgcolor="{fill}">{shown}</td>')
        wide = 3 if len(rows) > 6 else 2
        lines = "".join("<tr>" + "".join(rows[i:i + wide]) + "</tr>" for i in range(0, len(rows), wide))
        out.append(
            f'"{folder}" [label=<<table border="1" cellborder="0" cellspacing="3" color="#888888" style="rounded">'
            f'<tr><td colspan="{wide}"><b>{folder}/</b></td></tr>{lines}</table>>];')
    edges = folders(imports)
    out += [f'"{a}" -> "{b}";' for a, b in sorted(reduced(edges))]
    return "\n".join(out + ["}"])


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--out", default="docs/packages.svg")
    a = flags.parse_args()
    imports, native = packages()
    svg = run("dot", "-Tsvg", text=dot(imports, native))
    with open(a.out, "w", encoding="utf-8") as f:
        f.write(svg)
    print(f"{a.out}: {len(imports)} packages in {len({n.split('/')[0] for n in imports})} folders")


main()
