#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""HybridAdam on GPT-2 (124 M) without a Booster, or under Gemini's wrappers: states on NVMe beside states in memory.

    python3 bench/nvme_adam.py --folder FOLDER          # a CPU, transformers, and a folder on NVMe; minutes

Each run is a process of its own, in turns: 3 steps of 4 × 128 tokens. Prints the resident memory that NVMe saves, the
losses, the times, and the bar: 1 + moved bytes / (0.85 × the drive's rate of reading and writing at once) / the time without,
where `castor bench io` measures that rate in this call; at least 1.10.
"""

import argparse
import ctypes
import gc
import json
import statistics
import subprocess
import sys
import time

def resident_bytes() -> int:
    """Without what the C library keeps of memory that was freed: of activations, which differs from run to run."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:"))


def run(fraction: float, folder: str, wrapped: bool, n_steps: int = 3) -> dict:
    import torch
    import transformers

    from castor.nn.optimizer import HybridAdam

    torch.manual_seed(0)
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(resid_pdrop=0, embd_pdrop=0, attn_pdrop=0))
    optimizer = HybridAdam(model.parameters(), lr=1e-3, nvme_offload_fraction=fraction, nvme_offload_dir=folder)
    if wrapped:
        from castor.zero import zero_model_wrapper, zero_optim_wrapper

        model = zero_model_wrapper(model, 3, {"device": "cpu"})
        optimizer = zero_optim_wrapper(model, optimizer)
    losses, times = [], []
    for step in range(n_steps):
        ids = torch.randint(0, 50257, (4, 128), generator=torch.Generator().manual_seed(step))
        begin = time.perf_counter()
        loss = model(input_ids=ids, labels=ids).loss
        optimizer.backward(loss) if wrapped else loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        times.append(time.perf_counter() - begin)
        losses.append(loss.item())
    if wrapped:
        import castor

        links = castor.stats(model)["moved_bytes"]
        moved = links["nvme_read"] + links["nvme_write"]
    else:
        moved = sum(optimizer.moved_bytes())
    return {"losses": losses, "seconds": sum(times), "step_s": times, "rss_bytes": resident_bytes(), "moved_bytes": moved}


def child(fraction: float, arguments: argparse.Namespace) -> dict:
    words = ["--fraction", str(fraction), "--folder", arguments.folder, *(["--wrapped"] if arguments.wrapped else [])]
    done = subprocess.run([sys.executable, __file__, *words], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def mixed_rate(arguments: argparse.Namespace) -> float:
    """Bytes per second of a bare io_uring loop that reads and writes in turn."""
    options = ["--rw", "mixed", "--sizes", "8MiB", "--checksums", "on", "--span", "1GiB", "--json"]
    command = [arguments.castor, "bench", "io", "--dir", arguments.folder, *options]
    done = subprocess.run(command, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    if not lines:
        sys.exit(done.stderr)
    return json.loads(lines[-1])["results"][0]["ceiling"] * 1e9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--folder", required=True)
    parser.add_argument("--castor", default="build/castor")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--wrapped", action="store_true", help="under castor.zero's wrappers")
    parser.add_argument("--fraction", type=float, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.fraction is not None:
        return print(json.dumps(run(arguments.fraction, arguments.folder, arguments.wrapped)))
    pairs = []
    for number in range(arguments.rounds):
        pair = [child(fraction, arguments) for fraction in ((0.0, 1.0) if number % 2 else (1.0, 0.0))]
        pairs.append(pair if number % 2 else pair[::-1])
    rate = mixed_rate(arguments)
    plain_s = statistics.median(memory["seconds"] for memory, _ in pairs)
    ratios = sorted(nvme["seconds"] / memory["seconds"] for memory, nvme in pairs)
    bar = max(1.10, 1 + pairs[0][1]["moved_bytes"] / (0.85 * rate) / plain_s)
    saved = statistics.median(memory["rss_bytes"] - nvme["rss_bytes"] for memory, nvme in pairs)
    print(f"resident memory saved: {saved / 1e6:.0f} MB; losses equal: {all(a['losses'] == b['losses'] for a, b in pairs)}")
    print(f"time: {statistics.median(ratios):.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f}) of {plain_s:.2f} s; bar {bar:.3f}")
    print(json.dumps({"pairs": pairs, "drive_bytes_per_s": rate, "bar": bar, "ratios": ratios, "saved_bytes": saved}))


if __name__ == "__main__":
    main()
