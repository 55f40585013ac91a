#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a unit adds to the forward and the backward pass of its module under `import castor`, in microseconds a call.

    python3 bench/unit_calls.py         # any machine with transformers, seconds

Layers of Qwen2 with their usual arguments, so narrow that they compute nearly nothing, boosted with everything resident
and not boosted, in turns. Prints the median of the differences of adjacent turns, and their quartiles.
"""

import argparse
import json
import pathlib
import statistics
import sys
import time

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "compare"))
import qwen  # noqa: E402

N_LAYERS = 32


def model_of(device: str) -> torch.nn.Module:
    qwen.SIZES["narrow"] = {**qwen.SIZES["tiny"], "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": N_LAYERS}
    model = qwen.make("qwen2:narrow", 0, recompute=False)
    qwen.place(model, device)
    qwen.initialise(model, 0, device)
    return model


class Turns:
    """Passes over the same tokens, and what each takes a layer, in microseconds."""

    def __init__(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer | None, device: str):
        self.model, self.optimizer = model, optimizer
        self.ids = torch.arange(8, device=device)[None]

    def turn(self) -> tuple[float, float]:
        begin = time.perf_counter()
        loss = self.model(input_ids=self.ids, use_cache=False).logits.sum()
        middle = time.perf_counter()
        loss.backward()
        end = time.perf_counter()
        if self.optimizer:
            self.optimizer.step()
        self.model.zero_grad()
        return (middle - begin) / N_LAYERS * 1e6, (end - middle) / N_LAYERS * 1e6


def boosted(device: str) -> Turns:
    from castor.booster import Booster
    from castor.booster.plugin import TorchDDPPlugin

    model = model_of(device)
    optimizer = torch.optim.AdamW(model.parameters())
    Booster(device=device, plugin=TorchDDPPlugin(micro_batches=1)).boost(model, optimizer)
    return Turns(model, optimizer, device)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--turns", type=int, default=200)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    ours, plain = boosted(arguments.device), Turns(model_of(arguments.device), None, arguments.device)
    pairs = [(ours.turn(), plain.turn()) for _ in range(arguments.turns)][20:]
    found = {}
    for number, name in enumerate(("forward_us", "backward_us")):
        low, middle, high = statistics.quantiles([mine[number] - other[number] for mine, other in pairs])
        found[name] = {"median": middle, "quartiles": [low, high], "of_plain": statistics.median(other[number] for _, other in pairs)}
        print(f"{name}: {middle:.1f} a unit ({low:.1f} to {high:.1f}); the layer itself takes {found[name]['of_plain']:.0f}")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
