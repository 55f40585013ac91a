#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The same training at several device budgets: checks that the bits are equal, and compares peaks and step times with the plan.

    bench/budgets.py --budgets 3GiB,4GiB,6GiB,12GiB,24GiB --svg budgets.svg -- --device cuda --model gpt2-124m --deterministic …

The options after `--` are passed to `castor train --plugin gemini`. Each run writes a trace, from which `castor plan`
predicts its peak and its step time. Prints a table and draws it; exits with 1 if two runs differ in losses or weights,
or if a run exceeds its budget.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

GIB = 2**30
WIDTH, HEIGHT, MARGIN = 420, 260, 56


def last_object(command):
    """The JSON object on the last line of a castor command's output."""
    done = subprocess.run([*command, "--json"], capture_output=True, text=True)
    lines = done.stdout.strip().splitlines()
    if not lines:
        sys.exit(f"{' '.join(command)} printed nothing: {done.stderr.strip()}")
    return json.loads(lines[-1])


def measure(castor, budget, options, folder):
    trace = folder / f"{budget}.json"
    found = last_object([castor, "train", "--plugin", "gemini", "--device-budget", budget, "--trace", str(trace), *options])
    if "error" in found:
        return {"budget": budget, "error": found["error"]["message"]}
    plan = last_object([castor, "plan", "--trace", str(trace)])
    return {
        "budget": budget,
        "budget_bytes": found["budget_bytes"]["device"],
        "bits": (tuple(found["losses"]), found["weights_digest"]),
        "peak": found["peak_bytes"]["device"],
        "step": found["step_s"],
        "moved": found["moved_bytes_per_step"],
        "expected_peak": plan["peak_bytes"]["device"],
        "expected_step": plan["step_s"],
        "bound": plan["bound"]["by"],
    }


def table(rows):
    lines = ["budget     peak GiB  planned   step s (min … max)         planned   h2d GB  d2h GB  nvme GB  bound by"]
    for row in rows:
        if "error" in row:
            lines.append(f"{row['budget']:<10} {row['error']}")
            continue
        step, moved = row["step"], row["moved"]
        lines.append(
            f"{row['budget']:<10} {row['peak'] / GIB:<9.3f} {row['expected_peak'] / GIB:<9.3f} "
            f"{step['median']:<8.4f} ({step['min']:.4f} … {step['max']:.4f})  {row['expected_step']:<9.4f} "
            f"{moved['h2d'] / 1e9:<7.2f} {moved['d2h'] / 1e9:<7.2f} "
            f"{(moved['nvme_read'] + moved['nvme_write']) / 1e9:<8.2f} {row['bound']}"
        )
    return "\n".join(lines)


def panel(left, title, unit, rows, measured, expected):
    """Bars of the measured values, each crossed by a line at the planned value."""
    top = 1.1 * max(max(measured(row), expected(row)) for row in rows)
    height = HEIGHT - 2 * MARGIN
    slot = (WIDTH - MARGIN) / len(rows)
    y = lambda value: HEIGHT - MARGIN - height * value / top
    parts = [f'<text x="{left + 8}" y="28" font-weight="bold">{title}, {unit}</text>']
    for i, row in enumerate(rows):
        x = left + 8 + i * slot
        value = measured(row)
        above = y(max(value, expected(row))) - 6
        parts += [
            f'<rect x="{x:.1f}" y="{y(value):.1f}" width="{slot * 0.7:.1f}" height="{height * value / top:.1f}" fill="#4a7ebb"/>',
            f'<line x1="{x - 4:.1f}" x2="{x + slot * 0.7 + 4:.1f}" y1="{y(expected(row)):.1f}" y2="{y(expected(row)):.1f}" '
            f'stroke="#c0504d" stroke-width="3"/>',
            f'<text x="{x + slot * 0.35:.1f}" y="{above:.1f}" text-anchor="middle">{value:.3g}</text>',
            f'<text x="{x + slot * 0.35:.1f}" y="{HEIGHT - MARGIN + 18}" text-anchor="middle">{row["budget"]}</text>',
        ]
    return parts


def picture(rows):
    parts = panel(0, "device peak", "GiB", rows, lambda row: row["peak"] / GIB, lambda row: row["expected_peak"] / GIB)
    parts += panel(WIDTH, "step", "s", rows, lambda row: row["step"]["median"], lambda row: row["expected_step"])
    parts.append(f'<text x="8" y="{HEIGHT - 8}">by device budget; bars: measured, lines: planned</text>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{2 * WIDTH}" height="{HEIGHT}" font-family="sans-serif" font-size="12">'
        '<rect width="100%" height="100%" fill="white"/>' + "\n".join(parts) + "</svg>\n"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--castor", default="build/castor")
    parser.add_argument("--budgets", required=True, help="sizes, separated by commas")
    parser.add_argument("--svg", help="where to draw")
    parser.add_argument("options", nargs="*", help="after --: options of castor train")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = [
            measure(arguments.castor, budget, arguments.options, pathlib.Path(folder)) for budget in arguments.budgets.split(",")
        ]
    print(table(rows))
    ran = [row for row in rows if "error" not in row]
    if not ran:
        sys.exit("none of the budgets fits")
    if arguments.svg:
        pathlib.Path(arguments.svg).write_text(picture(ran))
    same = len({row["bits"] for row in ran}) == 1
    within = all(row["budget_bytes"] is None or row["peak"] <= row["budget_bytes"] for row in ran)
    print(f"losses and weights are {'equal' if same else 'NOT equal'}; every peak is {'' if within else 'NOT '}within its budget")
    sys.exit(0 if same and within else 1)


if __name__ == "__main__":
    main()
