# SPDX-License-Identifier: Apache-2.0
"""The results of short trainings, which a change of structure must preserve.

    python3 tests/tools/train/digests.py CASTOR             compares with digests.json; exit status 1 if a result differs
    python3 tests/tools/train/digests.py CASTOR --write F   records the results of CASTOR in F

Each training runs resident and on placements over device, host and NVMe memory. A result is the digest of the fp32 masters
and one of the losses. Torch's own kernels give other bits on other processors and in other versions, so the recorded
results apply to the processor and version named in the file.
"""

import argparse
import hashlib
import json
import pathlib
import subprocess
import sys
import tempfile

RECORD = pathlib.Path(__file__).with_name("digests.json")
MODEL = "--model gpt:layers=2,hidden=64,heads=4,vocab=256 --seq 32 --batch 2 --threads 1 --steps 6".split()
TEXT = b"Sphinx of black quartz, judge my vow. Pack my box with five dozen liquor jugs. " * 60

# Name: options. The placements of one training must have one result.
TRAININGS = {
    "fp32-adamw": "--precision fp32",
    "fp32-adamw-clip-accumulate-recompute": "--precision fp32 --clip 0.5 --accumulate 3 --recompute",
    "fp32-adam-clip_value": "--precision fp32 --optimizer adam --clip-value 1e-3",
    "fp32-sgd-clip": "--precision fp32 --optimizer sgd --momentum 0.9 --lr 0.1 --clip 0.5",
    "fp32-lars-accumulate": "--precision fp32 --optimizer lars --lr 1 --accumulate 2",
    "fp32-lamb-clip-recompute": "--precision fp32 --optimizer lamb --clip 0.5 --recompute",
    "bf16-adamw": "",
    "bf16-adamw-accumulate-recompute": "--accumulate 3 --recompute",
    "bf16-adamw-clip": "--clip 0.5",
    "bf16-adamw-clip_at_times": "--clip 1.5 --accumulate 2 --recompute",
    "bf16-adamw-groups": "--group vectors:weight_decay=0,betas=0.8/0.95 --group blocks.0.*:lr=1e-2,eps=1e-6 --clip 0.5",
    "bf16-adamw-moments_bf16-clip": "--moments bf16 --clip 0.5",
    "bf16-sgd-nesterov": "--optimizer sgd --momentum 0.9 --nesterov --lr 0.1",
    "bf16-lars-clip-accumulate": "--optimizer lars --lr 1 --clip 0.5 --accumulate 2",
    "bf16-lamb": "--optimizer lamb",
    "fp16-adamw-skips": "--precision fp16 --lr 1",
    "fp16-adamw-clip-accumulate": "--precision fp16 --clip 0.5 --accumulate 2",
    "fp16-lamb-clip": "--precision fp16 --optimizer lamb --clip 0.5",
    "fp16-sgd-accumulate-recompute": "--precision fp16 --optimizer sgd --lr 0.1 --accumulate 2 --recompute",
}

TIERS = "--plugin gemini --device-budget 300KiB --host-budget 1MiB --set chunk_bytes=64KiB --nvme {nvme}"
HOST = "--plugin gemini --device-budget 1200KiB --host-budget 8MiB --set chunk_bytes=64KiB --set placement_policy=cpu"
PLACEMENTS = {
    "device": "--plugin gemini --device-budget 64MiB --host-budget 64MiB",
    "host": HOST,
    "drive": TIERS + " --set nvme_offload_fraction=1",
    "streamed": HOST + " --set stream_optim_frac=0.5",
    "speculative": HOST + " --set speculative_updates=on",
    "serial": TIERS + " --set overlap_updates=false",
    "static": "--plugin gemini --device-budget 4MiB --host-budget 16MiB --set placement_policy=static",
}


def cases():
    """Yields (name of the training, name of the placement, options): resident, three tiers, and one further placement in turn."""
    others = list(PLACEMENTS.items())
    for i, (training, options) in enumerate(TRAININGS.items()):
        placements = [("none", "--plugin none"), ("tiers", TIERS), others[i % len(others)]]
        for placement, more in placements:
            yield training, placement, f"{options} {more}"


def result(castor, options):
    """The digests of one training."""
    with tempfile.TemporaryDirectory(prefix="castor_digests_") as folder:
        nvme = pathlib.Path(folder, "nvme")
        nvme.mkdir()
        text = pathlib.Path(folder, "text")
        text.write_bytes(TEXT)
        command = [castor, "train", *MODEL, "--data", text, *options.format(nvme=nvme).split(), "--json"]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        raise RuntimeError(f"{options}: exit code {done.returncode}: {done.stderr}")
    last = json.loads(done.stdout.splitlines()[-1])
    losses = hashlib.sha256(json.dumps([last["losses"], last["skipped_steps"]]).encode()).hexdigest()[:16]
    return {"weights": last["weights_digest"], "losses": losses}


def all_results(castor, show=lambda name: None):
    found = {}
    for training, placement, options in cases():
        show(f"{training}/{placement}")
        found.setdefault(training, {})[placement] = result(castor, options)
    return found


def machine(castor):
    """The processor and the version of torch, on which torch's bits depend."""
    check = json.loads(subprocess.run([castor, "check", "--json"], capture_output=True, text=True).stdout.splitlines()[-1])
    cpuinfo = pathlib.Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines()
    said = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in cpuinfo)}
    kind = [said.get(key, "?") for key in ("model name", "cpu family", "model", "stepping")]
    flags = hashlib.sha256(" ".join(sorted(said.get("flags", "").split())).encode()).hexdigest()[:8]
    return {"torch": check["torch"]["detail"], "processor": ", ".join([*kind, "flags " + flags])}


def differences(found, recorded):
    """One line per result that differs from the recorded one."""
    return [
        f"{training}/{placement}: {of} {value}, recorded {recorded.get(training, {}).get(of)}"
        for training, placements in found.items()
        for placement, values in placements.items()
        for of, value in values.items()
        if value != recorded.get(training, {}).get(of)
    ]


def torn_apart(found):
    """The trainings whose placements have more than one result."""
    return [training for training, placements in found.items() if len({str(v) for v in placements.values()}) > 1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("castor")
    parser.add_argument("--write", metavar="F")
    arguments = parser.parse_args()
    found = all_results(arguments.castor, lambda name: print(name, file=sys.stderr))
    torn = torn_apart(found)
    for training in torn:
        print(f"{training}: placements differ: {found[training]}")
    here = machine(arguments.castor)
    if arguments.write:
        digests = {training: placements["none"] for training, placements in found.items()}
        text = json.dumps({"recorded_with": here, "results": digests}, indent=1)
        pathlib.Path(arguments.write).write_text(text + "\n")
        return bool(torn)
    record = json.loads(RECORD.read_text())
    changed = differences(found, record["results"])
    n_runs = sum(map(len, found.values()))
    print(*changed, f"{n_runs} trainings, {len(changed)} values differ from the record", sep="\n")
    if here != record["recorded_with"]:
        print(f"recorded with {record['recorded_with']}, run with {here}")
    return bool(torn or changed)


if __name__ == "__main__":
    sys.exit(main())
