# SPDX-License-Identifier: Apache-2.0
"""Compares two builds of castor: the results of `castor plan` and `castor estimate` for the same steps.

    python3 bench/compare/plans.py OLD NEW      prints the cases that differ, and how far; exit status 1 if a peak differs or
                                                a step is more than 0.5 % longer or shorter

OLD records the traces, of small trainings on the CPU through all tiers; both builds plan them under the same budgets.
"""

import argparse
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile

SLACK = 0.005

MODELS = {
    "gpt": "--model gpt:layers=4,hidden=128,heads=4,vocab=256 --seq 64 --batch 4",
    "vit": "--model vit:layers=3,hidden=64,heads=4 --batch 2",
    "mlp": "--model mlp:layers=6,hidden=256 --batch 8",
}
TRAININGS = {
    "tiers": "",
    "clipped": "--clip 0.5",
    "recomputed": "--recompute --accumulate 2 --set offload_activations=true",
    "streamed": "--set placement_policy=cpu --set stream_optim_frac=0.5",
    "serial": "--set overlap_updates=false",
}
RECORD = "--steps 10 --threads 1 --plugin gemini --device-budget 3MiB --host-budget 24MiB --set chunk_bytes=256KiB --nvme"
PLANNED = ["", "--device-budget 2MiB", "--device-budget 8MiB --host-budget 16MiB", "--device-budget 64MiB --host-budget 256MiB"]

ESTIMATED = ["gpt2-124m", "gpt2-1.5b", "gpt2-774m --recompute", "llama2-7b --recompute", "mixtral-8x7b --recompute", "vit-l"]
BUDGETS = ["--device-budget 8GiB --host-budget 64GiB", "--device-budget 24GiB --host-budget 64GiB --nvme on",
           "--device-budget 80GiB --host-budget 512GiB", "--device-budget 24GiB --host-budget 256GiB --clip 1.0"]


def run(castor, command):
    """The JSON object on the last line of standard output, or the error message."""
    done = subprocess.run([castor, *command.split(), "--json"], capture_output=True, text=True, timeout=900)
    lines = done.stdout.splitlines()
    return json.loads(lines[-1]) if lines else {"error": {"message": done.stderr}}


def record(castor, folder):
    """Yields (name, trace) of each training that can be recorded."""
    for (model, options), (training, more) in itertools.product(MODELS.items(), TRAININGS.items()):
        trace = folder / f"{model}-{training}.json"
        if model == "mlp" and training == "recomputed":
            continue  # the MLP has no blocks
        found = run(castor, f"train {options} {more} {RECORD} {folder} --trace {trace}")
        if "error" in found:
            raise RuntimeError(f"{model}, {training}: {found['error']['message']}")
        yield trace.stem, trace


def cases(old, folder):
    for name, trace in record(old, folder):
        for budgets in PLANNED:
            yield f"plan {name} {budgets}", f"plan --trace {trace} {budgets}"
    for model, budgets in itertools.product(ESTIMATED, BUDGETS):
        yield f"estimate {model} {budgets}", f"estimate --model {model} {budgets}"


def difference(old, new):
    """How the two differ by more than the tolerance, or None; and the relative difference of the step times."""
    if "error" in old or "error" in new:
        words = [found.get("error", {}).get("message", "no error") for found in (old, new)]
        return (None, 0.0) if words[0] == words[1] else (f"{words[0]} | {words[1]}", 0.0)
    if old["fits"] != new["fits"] or old["peak_bytes"] != new["peak_bytes"]:
        return f"{old['fits']} {old['peak_bytes']} | {new['fits']} {new['peak_bytes']}", 0.0
    if not old.get("step_s"):
        return None, 0.0
    off = new["step_s"] / old["step_s"] - 1
    return (f"{old['step_s']} s | {new['step_s']} s" if abs(off) > SLACK else None), off


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    arguments = parser.parse_args()
    n, n_errors, bad, most = 0, 0, 0, 0.0
    with tempfile.TemporaryDirectory(prefix="castor_plans_") as folder:
        for name, command in cases(arguments.old, pathlib.Path(folder)):
            old, new = (run(castor, command) for castor in (arguments.old, arguments.new))
            why, off = difference(old, new)
            n, n_errors, bad, most = n + 1, n_errors + ("error" in old), bad + (why is not None), max(most, abs(off))
            if why:
                print(f"{name}: {why}")
    print(f"{n} cases ({n_errors} refused by both), {bad} differ; steps differ by {100 * most:.3f} % at most")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
