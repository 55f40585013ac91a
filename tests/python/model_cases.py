# SPDX-License-Identifier: Apache-2.0
"""Models of all kinds, unchanged: losses and weights equal those of a plain loop in torch to the last bit, from the
smallest budget to none, with every kind of recompute. Traps 2-06 (Mixtral and others have idle experts), 2-14 (recompute
beside a frozen parameter) and 2-37 (ResNet is in channels_last)."""

import itertools
import unittest
import warnings

import torch

from castor.booster import Booster
from castor.booster.plugin import GeminiPlugin
from pairs import VALUES, in_the_smallest_budgets
from plain_loop import PlainLoop
from where import DEVICE

try:
    import transformers
except ImportError:
    transformers = None
else:
    transformers.logging.set_verbosity_error()
    from models import MODELS

N_STEPS, N_MICRO_BATCHES = 3, 2
RECOMPUTE = {"none": None, "non-reentrant": False, "reentrant": True}
TRAININGS = list(itertools.product((torch.float32, torch.bfloat16), RECOMPUTE, (False, True)))
if DEVICE.type == "cuda":  # whose small kernels take long
    TRAININGS = [(torch.float32, "none", False), (torch.bfloat16, "non-reentrant", True), (torch.bfloat16, "reentrant", False)]


class Case:
    """One training of a model. `constrained`: clipped, and with its first parameter frozen."""

    def __init__(self, name: str, dtype: torch.dtype, reentrant: bool | None, constrained: bool):
        self.make, self.loss = MODELS[name]
        self.dtype = dtype
        self.reentrant = reentrant
        self.max_norm = 0.05 if constrained else 0.0
        self.freezes = constrained

    def model(self) -> torch.nn.Module:
        torch.manual_seed(0)
        model = self.make().to(DEVICE, self.dtype).train()
        if self.reentrant is not None:
            model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": self.reentrant})
        if self.freezes:
            next(model.parameters()).requires_grad_(False)
        return model

    def steps(self, model, step) -> list[float]:
        losses = []
        for n in range(N_STEPS):
            for micro_batch in range(N_MICRO_BATCHES):
                loss = self.loss(model, 10 * n + micro_batch) / N_MICRO_BATCHES
                loss.backward()
                losses.append(loss.item())
            step()
        return losses

    def plain(self):
        model = self.model()
        loop = PlainLoop(model, "adamw", [{"params": list(model.parameters()), **VALUES}])
        losses = self.steps(model, lambda: loop.step(self.max_norm))
        return losses, dict(model.named_parameters())

    def boosted(self, **options):
        model = self.model()
        optimizer = torch.optim.AdamW(model.parameters(), **VALUES)
        Booster(plugin=GeminiPlugin(precision=None, max_norm=self.max_norm, **options)).boost(model, optimizer)
        losses = self.steps(model, optimizer.step)
        return losses, dict(optimizer.castor_session.state_dict())

    def at_the_smallest_budget(self, **options):
        return in_the_smallest_budgets(self.boosted, "device", **options)


@unittest.skipUnless(transformers, "transformers is not installed")
class Models(unittest.TestCase):
    def check(self, name):
        n_runs = 0
        for dtype, kind, constrained in TRAININGS:
            reentrant = RECOMPUTE[kind]
            case = Case(name, dtype, reentrant, constrained)
            if reentrant is not None and not getattr(case.make(), "supports_gradient_checkpointing", False):
                continue
            losses, weights = case.plain()
            self.assertTrue(all(loss == loss for loss in losses))
            chunks = {"chunk_bytes": "4MiB", "host_budget": "256MiB"} if name == "ResNet" else {"chunk_bytes": "16KiB"}
            for budget, run in (("none", case.boosted), ("smallest", case.at_the_smallest_budget)):
                with self.subTest(dtype=dtype, recompute=kind, constrained=constrained, budget=budget):
                    its_losses, its_weights = run(**chunks)
                    self.assertEqual(its_losses, losses)
                    for key, weight in weights.items():
                        self.assertTrue(torch.equal(its_weights[key].to(DEVICE), weight), key)
                    n_runs += 1
        self.assertGreaterEqual(n_runs, 8 if len(TRAININGS) == 12 else 2)


def add_test(name: str) -> None:
    def test(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # those of transformers and of torch's checkpoint
            self.check(name)

    setattr(Models, f"test_{name.replace(' ', '_').replace('.', '_').replace('-', '_').lower()}", test)


for model_name in MODELS if transformers else ():
    add_test(model_name)
