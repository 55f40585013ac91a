#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a unit adds to the forward and the backward pass of its module under `import castor`, in microseconds a call.

    python3 bench/unit_calls.py         # any machine, seconds

Units that take the arguments of a layer of Qwen2 and multiply by one parameter, boosted with everything resident and not
boosted, in turns. Prints the median of the differences of adjacent turns, and their quartiles.
"""

import argparse
import json
import statistics
import time

import torch
from torch import nn

N_LAYERS = 64


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(8))

    def forward(
        self,
        hidden_states,
        attention_mask=None,
        position_ids=None,
        past_key_values=None,
        use_cache=False,
        position_embeddings=None,
    ):
        return hidden_states * self.weight


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(N_LAYERS))

    def forward(self, hidden_states):
        positions = torch.arange(4)[None]
        turned = (torch.zeros(1, 4, 8), torch.zeros(1, 4, 8))
        for layer in self.layers:
            hidden_states = layer(hidden_states, attention_mask=None, position_ids=positions, position_embeddings=turned)
        return hidden_states


class Turns:
    """Passes over the same values, and what each takes a layer, in microseconds."""

    def __init__(self, boosts: bool):
        self.model = Model()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0)
        self.x = torch.ones(1, 4, 8, requires_grad=True)
        if boosts:
            from castor.booster import Booster
            from castor.booster.plugin import TorchDDPPlugin

            Booster(device="cpu", plugin=TorchDDPPlugin(micro_batches=1)).boost(self.model, self.optimizer)

    def turn(self) -> tuple[float, float]:
        begin = time.perf_counter()
        loss = self.model(self.x).sum()
        middle = time.perf_counter()
        loss.backward()
        end = time.perf_counter()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return (middle - begin) / N_LAYERS * 1e6, (end - middle) / N_LAYERS * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--turns", type=int, default=300)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    ours, plain = Turns(True), Turns(False)
    pairs = [(ours.turn(), plain.turn()) for _ in range(arguments.turns)][20:]
    found = {}
    for number, name in enumerate(("forward_us", "backward_us")):
        low, middle, high = statistics.quantiles([mine[number] - other[number] for mine, other in pairs])
        found[name] = {"median": middle, "quartiles": [low, high], "of_plain": statistics.median(other[number] for _, other in pairs)}
        print(f"{name}: {middle:.1f} a unit ({low:.1f} to {high:.1f}); the module itself takes {found[name]['of_plain']:.1f}")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
