# SPDX-License-Identifier: Apache-2.0
"""Builds a model of N_BYTES and gives it weights in three ways, and prints how much memory each adds, in bytes."""

import json
import pathlib
import sys

import torch
from torch import nn

from castor.booster import Booster
from castor.booster._files import write
from castor.booster._saving import save_shards
from castor.booster.plugin import GeminiPlugin
from castor.lazy import LazyInitContext

WIDTH, N_LAYERS = 1280, 40
LARGEST = WIDTH * WIDTH * 4
N_BYTES = N_LAYERS * LARGEST
HOST_BUDGET = 32 << 20


def resident(which: str) -> int:
    line = next(line for line in pathlib.Path("/proc/self/status").read_text().splitlines() if line.startswith(which))
    return int(line.split()[1]) << 10


def added(call) -> int:
    """The peak of the program's memory within `call`, above that before."""
    pathlib.Path("/proc/self/clear_refs").write_text("5")
    before = resident("VmRSS")
    call()
    return resident("VmHWM") - before


def make():
    return nn.Sequential(*(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(N_LAYERS)))


def boost(model, folder):
    plugin = GeminiPlugin(device_budget="32MiB", host_budget=HOST_BUDGET, nvme=[str(folder)], chunk_bytes="8MiB")
    booster = Booster(device="cpu", plugin=plugin)
    booster.boost(model, torch.optim.SGD(model.parameters(), lr=0.1))
    return booster


def main(folder: pathlib.Path) -> None:
    weights = {f"{number}.weight": torch.full((WIDTH, WIDTH), float(number)) for number in range(N_LAYERS)}
    (folder / "shards").mkdir()
    save_shards(weights, folder / "shards", "model.safetensors", N_BYTES // 2)
    write(weights, folder / "weights.bin", False)
    del weights
    with torch.device("meta"):
        model = make()
    booster = boost(model, folder)
    found = {
        "the first weights, and the host tier": added(lambda: booster.load_model(model, folder / "shards")),
        "safetensors": added(lambda: booster.load_model(model, folder / "shards")),
        "bin": added(lambda: booster.load_model(model, folder / "weights.bin")),
    }
    del model, booster
    with LazyInitContext():
        model = make()
    found["lazy"] = added(lambda: boost(model, folder))
    print(json.dumps(found))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
