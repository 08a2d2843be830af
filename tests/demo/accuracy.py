#!/usr/bin/env python3
"""Puts the JSON of several `plumb demo --all --faults-seed N --json` together: the tables of
docs/accuracy.md, on standard output.

    tests/demo/accuracy.py 1.json 2.json ...
"""
import json
import math
import statistics
import sys

Z = 1.959963984540054


def interval(k, n):
    """Wilson's, from the roots of (k/n - p)^2 = z^2 p (1 - p) / n."""
    a, b, c = 1 + Z * Z / n, -2 * k / n - Z * Z / n, (k / n) ** 2
    root = math.sqrt(max(0, b * b - 4 * a * c))
    return (-b - root) / (2 * a), (-b + root) / (2 * a)


def part(k, n):
    if n == 0:
        return "0 of 0"
    least, most = interval(k, n)
    return f"{k} of {n} = {100 * k / n:.0f} % ({100 * least:.0f} to {100 * most:.0f} %)"


def fails(draw):
    return draw["counts"]


def early(draw):
    return not draw["counts"] and draw["said"] != "healthy" and 0 < draw["failed_at"] < place(draw)[2]


def tell(draw):
    return draw["said"] not in ("cannot tell", "not reproducible")


def place(draw):
    fault = (draw["entry"].get("faults") or [{}])[0]
    what = fault.get("kind") or draw["entry"]["rules"][0]["use"]
    more = ", ".join(f"{k} {v}" for k, v in fault.items() if k not in ("kind", "sites", "from"))
    return what + (f" ({more})" if more else ""), draw["entry"]["sites"][0], fault.get("from", 1)


def summary(label, draws):
    counted = [d for d in draws if fails(d)]
    n = len(counted)
    print(f"| {label} | {len(draws)} | {sum(d['said'] == 'healthy' for d in draws)} "
          f"| {sum(early(d) for d in draws)} "
          f"| {sum(d['said'] == 'not numerics' and not early(d) for d in draws)} "
          f"| {part(sum(d['class_right'] for d in counted), n)} "
          f"| {part(sum(d['site_right'] for d in counted), n)} "
          f"| {part(sum(not tell(d) for d in counted), n)} |")


def main():
    results = [json.load(open(path)) for path in sys.argv[1:]]
    every = [draw for result in results for draw in result["draws"]]
    print("| draws | made | do not fail | fail before the fault | fail in bf16 too | class right | site right | cannot tell |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for result in results:
        summary(f"seed {result['faults_seed']}", result["draws"])
    summary("all", every)
    for name in ("collective", "optimizer", "backward", "forward"):
        summary(f"planted in {name}", [d for d in every if d["planted"] == name])
    costs = [draw["horizons"] for draw in every if fails(draw)]
    if costs:
        print(f"\nMedian cost of a draw that counts: {statistics.median(costs):.1f} horizons.")
    print("\n| draw | planted | site | from | said | class | site | horizons |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for draw in every:
        what, site, begin = place(draw)
        mark = ["right" if draw[k] else "wrong" for k in ("class_right", "site_right")]
        if not fails(draw):
            mark = ["apart", "apart"]
        print(f"| {'-'.join(draw['name'].split('-')[1:3])} | {draw['planted']}: {what} | `{site}` "
              f"| {begin} | {draw['said']} | {mark[0]} | {mark[1]} | {draw['horizons']:.1f} |")


main()
