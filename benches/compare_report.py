#!/usr/bin/env python3
"""Writes what `benches/compare.py` measured: JSON, a table, a plot, and which bars are missed.

    python3 benches/compare_report.py NAME.json              # writes NAME.md and NAME.svg again, and prints the missed bars
    python3 benches/compare_report.py NAME.json MACHINE.json # takes its rows into the results of a machine, with a table
"""
import html
import json
import math
import pathlib
import sys

# The least ratio of torch's time, the better of eager and compiled, to ours.
NO_SLOWER = 1.0
# Training of the default models.
TRAINING = 1.2
# The time of a layer without its products.
REST = 2.0
# The rate of bf16 products, of torch's: without matrix instructions, and with AMX, which torch's have.
PRODUCTS, PRODUCTS_BESIDE_AMX = 0.85, 0.6

LAYERS = ("qwen3_layer", "qwen3_moe_layer")
# Rows that other rows are judged by.
WITHOUT_BAR = ("product_sum", "qwen3_products")
PARTS = ("qwen3_layer", "qwen3_products")


def write(out, results):
    """Writes the three files, or two for a machine, whose rows are of several runs."""
    texts = {".json": as_json(results), ".md": markdown(results)}
    if "commit" in results:
        texts[".svg"] = svg(results)
    for ending, text in texts.items():
        file = out.with_name(out.name + ending)
        # A file is there completely or not at all.
        unfinished = file.with_name(file.name + ".unfinished")
        unfinished.write_text(text)
        unfinished.replace(file)
        print(file)


def as_json(results):
    """A line for each row, so that a change of one row is one of a line."""
    rows = ",\n".join("  " + json.dumps(row, ensure_ascii=False) for row in results["rows"])
    rest = {name: value for name, value in results.items() if name != "rows"}
    return json.dumps(rest, indent=1, ensure_ascii=False)[:-2] + f',\n "rows": [\n{rows}\n ]\n}}\n'


def taken(results, machine):
    """The results of a machine with newer rows in place of its own. Each row says what it is of."""
    source = {name: results[name] for name in ("date", "commit", "repeats")}
    rows = {row["key"]: row for row in machine["rows"]}
    rows |= {row["key"]: {**row, **source} for row in results["rows"]}
    shared = {name: results[name] for name in ("machine", "threads", "allocator", "rustc", "burn", "torch")}
    return {**machine, **shared, "rows": list(rows.values())}


def better(row, names=("torch_eager_ms", "torch_compiled_ms")):
    """The better time of torch, or None if it has none."""
    return min((row[name] for name in names if name in row), default=None)


def is_family(row):
    """True if the row is a model of a family, which is judged by transformers' eager one."""
    return row["key"].split("/")[0].endswith("_model")


def ratio(row):
    """How many times as long torch takes, or None if one side has no time."""
    theirs = better(row, ("torch_eager_ms",)) if is_family(row) else better(row)
    return None if theirs is None or "ours_ms" not in row else theirs / row["ours_ms"]


def has_amx(results):
    return "amx_tile" in results["machine"]["flags"]


def bar(row, results):
    """The least ratio that the row should have, or None if it is only reported."""
    group, _, dtype, _ = row["key"].split("/")
    if group in WITHOUT_BAR or (group in LAYERS and dtype == "bf16" and has_amx(results)):
        return None
    if group == "training":
        return TRAINING
    if group == "linear":
        beside = PRODUCTS_BESIDE_AMX if has_amx(results) else PRODUCTS
        return beside if dtype == "bf16" else None
    return NO_SLOWER


def verdicts(results):
    """Returns the bars, for each row and for the parts of the layer: the name, the ratio, the bar, and the path."""
    found = [(row["key"], ratio(row), bar(row, results), row["path"]) for row in results["rows"]]
    return [(*verdict, "") for verdict in rest(results)] + found


def rest(results):
    """The layer without its products: the name, the ratio and the bar."""
    rows = {row["key"]: row for row in results["rows"]}
    for key, layer in rows.items():
        group, _, setting = key.partition("/")
        products = rows.get(f"{PARTS[1]}/{setting}")
        if group != PARTS[0] or products is None or None in (ratio(layer), ratio(products)):
            continue
        theirs, ours = better(layer) - better(products), layer["ours_ms"] - products["ours_ms"]
        name = f"{key} without products"
        # Times of two runs can differ by more than the rest of the layer takes.
        found = theirs / ours if theirs > 0 and ours > 0 else None
        yield name, found, REST if key.split("/")[2] == "f32" else None


def verdicts_text(results):
    """The missed bars, a line each."""
    judged = [verdict for verdict in verdicts(results) if verdict[2] is not None]
    unknown = [f"not known: {name} (aimed at {least:g})" for name, found, least, _ in judged if found is None]
    missed = [(name, found, least, path) for name, found, least, path in judged if found is not None and found < least]
    missed.sort(key=lambda verdict: verdict[1] / verdict[2])
    lines = [
        f"missed: {name}: {found:.2f} times torch's speed, aimed at {least:g}" + (f" ({path})" if path not in ("", "fused") else "")
        for name, found, least, path in missed
    ]
    total = f"{len(judged) - len(missed) - len(unknown)} of {len(judged)} bars are met"
    return "\n".join([total, *lines, *unknown])


def time(row, name):
    ms = row.get(f"{name}_ms")
    if ms is None:
        return "–"
    way = row.get(f"{name}_way")
    return f"{ms:.3f} ms" + (f" ({way})" if way else "")


def times_as_fast(found):
    return "–" if found is None else f"{found:.2f}×"


def markdown(results):
    """The page of the results."""
    of_machine = "commit" not in results
    last = " measured |" if of_machine else ""
    text = [
        about_machine(results) if of_machine else about_run(results),
        "",
        "| row | ours | torch eager | torch compiled | ratio | bar | path |" + last,
        "|---|---|---|---|---|---|---|" + ("---|" if of_machine else ""),
    ]
    for row in results["rows"]:
        least, found = bar(row, results), ratio(row)
        aimed = "–" if least is None else f"{least:g}×"
        cells = [row["key"], time(row, "ours"), time(row, "torch_eager"), time(row, "torch_compiled"),
                 times_as_fast(found), aimed, row["path"]]
        if of_machine:
            cells.append(f"{row['date']}, {row['commit'][:8]}, {row['repeats']}")
        text.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    for name, found, least in rest(results):
        aimed = "–" if least is None else f"{least:g}×"
        text.append(f"| {name} | | | | {times_as_fast(found)} | {aimed} | |" + (" |" if of_machine else ""))
    text += ["", *(f"* {line}" for line in verdicts_text(results).splitlines())]
    text += [f"* {row['key']}: torch {error}" for row in results["rows"] for error in row["torch_errors"]]
    text += ["", *(f"{note}\n" for note in results["notes"])] if of_machine else []
    return "\n".join(text).rstrip() + "\n"


RATIO = (
    "*Ratio* is the better time of torch divided by ours, of the families' models transformers' eager time; *bar* is what "
    "was aimed at."
)


def machine_text(results):
    machine = results["machine"]
    return (
        f"{machine['processor']}, {machine['usable_cores']} of {machine['cores']} cores ({', '.join(machine['flags'])}), "
        f"{machine['memory_gib']} GiB, {machine['system']}, {results['rustc']}, Burn {results['burn']}, torch "
        f"{results['torch']}, {results['threads']} threads each, and `GLIBC_TUNABLES` that keep freed memory."
    )


def about_machine(results):
    return (
        f"# {results['name']}\n\n`python3 benches/compare.py --threads {results['threads']}` on "
        f"{machine_text(results)} {RATIO} *Measured* is the date, the commit, and of how many runs of each side, in turn, a "
        "row has the medians. Another row may be older: each is the newest of this machine."
    )


def about_run(results):
    quick = " **Each row ran once: these are no measurements.**" if results["quick"] else ""
    return (
        f"`python3 benches/compare.py --threads {results['threads']}` on {machine_text(results)} {results['date']}: commit "
        f"{results['commit']}. Load before and after: {load(results, 'before')} and {load(results, 'after')}. Medians of "
        f"{results['repeats']} runs of each side in turn.{quick} {RATIO}"
    )


def load(results, when):
    return f"{results[f'load_{when}'][0]:.2f}"


# The plot: a bar for each row, on a logarithmic axis on which twice and half as fast are as far from 1.
LEFT, WIDTH, RIGHT, TOP, LINE = 310, 480, 60, 60, 16
LEAST, MOST = 1 / 4, 16
GOOD, BAD = "#2f7d4f", "#b3412e"


def place(value):
    """The horizontal place of a ratio."""
    value = min(max(value, LEAST), MOST)
    return LEFT + WIDTH * math.log(value / LEAST) / math.log(MOST / LEAST)


def svg(results):
    """A plot of the ratios, which needs no library."""
    rows = [(row["key"], found, bar(row, results)) for row in results["rows"] if (found := ratio(row)) is not None]
    height = TOP + LINE * len(rows) + 20
    title = f"torch {results['torch']}: its better time divided by ours ({results['machine']['processor']}, " \
            f"{results['threads']} threads)"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + RIGHT}" height="{height}" '
        'font-family="sans-serif" font-size="11">',
        f'<rect width="100%" height="100%" fill="white"/><text x="10" y="20" font-size="13">{html.escape(title)}</text>',
    ]
    for mark in (1 / 4, 1 / 2, 1, 2, 4, 8, 16):
        x, strong = place(mark), mark == 1
        parts.append(f'<line x1="{x:.1f}" y1="{TOP - 8}" x2="{x:.1f}" y2="{height - 16}" '
                     f'stroke="{"black" if strong else "#dddddd"}"/>')
        parts.append(f'<text x="{x:.1f}" y="{TOP - 14}" text-anchor="middle">{mark:g}×</text>')
    for index, (key, found, least) in enumerate(rows):
        parts.append(plotted(TOP + LINE * index, key, found, least))
    return "\n".join([*parts, "</svg>"]) + "\n"


def plotted(y, key, found, least):
    """The bar of a row, which begins at 1, and a mark where it should reach."""
    start, end = sorted((place(1), place(found)))
    colour = GOOD if found >= (least or 1) else BAD
    middle = y + LINE - 5
    text = f'<text x="{LEFT - 8}" y="{middle}" text-anchor="end">{html.escape(key)}</text>'
    text += f'<rect x="{start:.1f}" y="{y + 2}" width="{end - start:.1f}" height="{LINE - 4}" fill="{colour}"/>'
    text += f'<text x="{max(end, place(1)) + 4:.1f}" y="{middle}">{found:.2f}</text>'
    if least not in (None, 1):
        x = place(least)
        text += f'<line x1="{x:.1f}" y1="{y}" x2="{x:.1f}" y2="{y + LINE}" stroke="black" stroke-dasharray="2"/>'
    return text


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__.strip())
    file = pathlib.Path(sys.argv[-1])
    results = json.loads(file.read_text())
    if len(sys.argv) == 3:
        new = json.loads(pathlib.Path(sys.argv[1]).read_text())
        same = [(of["machine"]["processor"], of["machine"]["flags"]) for of in (new, results)]
        assert same[0] == same[1], "these are results of another machine"
        assert not new["quick"], "rows that ran once are no measurements"
        results = taken(new, results)
    write(file.with_suffix(""), results)
    print(verdicts_text(results))


if __name__ == "__main__":
    main()
