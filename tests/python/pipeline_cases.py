# SPDX-License-Identifier: Apache-2.0
"""Booster.execute_pipeline on one rank: a batch in micro-batches."""

import collections
import unittest

import torch
from torch import nn

import castor
from castor.booster import Booster
from castor.booster.plugin import GeminiPlugin, HybridParallelPlugin

N_SAMPLES = 12


class Regression(nn.Module):
    """Takes its inputs by position or name; its result has a tensor, a scalar and something else."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))

    def forward(self, x, y=None):
        prediction = self.layers(x)
        return {"prediction": prediction, "mean": prediction.mean(), "n": len(x)}


def data(n=N_SAMPLES):
    generator = torch.Generator().manual_seed(4)
    return {"x": torch.randn(n, 3, generator=generator), "y": torch.randn(n, 2, generator=generator)}


def squares(result, inputs):
    """Not a mean over samples, so that the mean over micro-batches differs from the loss of the whole batch."""
    return ((result["prediction"] - inputs["y"]) ** 2).sum()


def made():
    torch.manual_seed(0)
    return Regression()


def plain_mean(model, n_micro_batches):
    """The mean of the losses of the micro-batches."""
    columns = [values.chunk(n_micro_batches) for values in data().values()]
    return sum(squares(model(x, y), {"y": y}) for x, y in zip(*columns)) / n_micro_batches


class Pipeline(unittest.TestCase):
    def boosted(self, **options):
        self.model = made()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.booster = Booster(plugin=HybridParallelPlugin(1, 1, **{"precision": None, **options}))
        self.booster.boost(self.model, self.optimizer)

    def execute(self, batch=None, criterion=squares, optimizer=True, **options):
        batches = iter([data() if batch is None else batch])
        return self.booster.execute_pipeline(batches, self.model, criterion, self.optimizer if optimizer else None, **options)

    def assert_trained(self, n_micro_batches):
        """As a plain model."""
        twin = made()
        loss = plain_mean(twin, n_micro_batches)
        loss.backward()
        result = self.execute(return_outputs=True)
        self.assertAlmostEqual(result["loss"].item(), loss.item(), delta=1e-5)
        self.assertFalse(result["loss"].requires_grad)
        for mine, expected in zip(self.model.parameters(), twin.parameters()):
            torch.testing.assert_close(castor.grad(mine), expected.grad)
        whole = made()(**data())["prediction"]
        torch.testing.assert_close(result["outputs"]["prediction"], whole.detach())
        self.assertIsNone(result["outputs"]["mean"])
        self.assertEqual(result["outputs"]["n"], [N_SAMPLES // n_micro_batches] * n_micro_batches)
        self.optimizer.step()
        with torch.no_grad():
            for parameter in twin.parameters():
                parameter -= 0.1 * parameter.grad
        for name, weight in self.model.state_dict().items():
            torch.testing.assert_close(weight, twin.state_dict()[name])

    def test_by_number(self):
        self.boosted(num_microbatches=4)
        self.assert_trained(4)

    def test_by_size(self):
        self.boosted(microbatch_size=2)
        self.assert_trained(6)

    def test_by_both(self):
        self.boosted(num_microbatches=3, microbatch_size=4)
        self.assert_trained(3)

    def test_a_whole_batch_where_none_is_stated(self):
        self.boosted()
        self.assert_trained(1)

    def test_scaled_losses(self):
        self.boosted(num_microbatches=4, precision="fp16", initial_scale=2**4)
        twin = made()
        plain_mean(twin, 4).backward()
        gradient = twin.layers[0].weight.grad
        self.execute()
        torch.testing.assert_close(castor.grad(self.model.layers[0].weight), gradient, rtol=1e-2, atol=1e-2)
        self.optimizer.step()
        expected = made().layers[0].weight.detach() - 0.1 * gradient
        torch.testing.assert_close(castor.master(self.model.layers[0].weight), expected, rtol=1e-2, atol=1e-2)

    def test_inputs_of_other_structures(self):
        self.boosted(num_microbatches=2)
        batch = data()
        for given in ([batch["x"], batch["y"]], (batch["x"], batch["y"]), batch["x"], collections.OrderedDict(batch)):
            result = self.execute(given, lambda result, inputs: result["prediction"].sum(), optimizer=False)
            self.assertAlmostEqual(result["loss"].item(), made()(**batch)["prediction"].sum().item() / 2, delta=1e-5)

    def test_what_was_not_asked_for(self):
        self.boosted(num_microbatches=2)
        self.assertEqual(self.execute(return_loss=False), {"loss": None, "outputs": None})

    def test_evaluation(self):
        self.boosted(num_microbatches=4)
        batch = data(10)  # 3, 3, 3 and 1
        sizes = []

        def loss(result, inputs):
            sizes.append(result["n"])
            return squares(result, inputs)

        expected = squares(made()(**batch), batch).item() / 4
        for optimizer in (False, True):
            with torch.set_grad_enabled(not optimizer):
                result = self.execute(batch, loss, optimizer)
            self.assertAlmostEqual(result["loss"].item(), expected, delta=1e-5)
        self.assertEqual(sizes, [3, 3, 3, 1] * 2)
        self.assertIsNone(castor.grad(self.model.layers[0].weight))
        self.optimizer.step()

    def test_batches_that_cannot_be_divided(self):
        for options, message in (
            ({"num_microbatches": 5}, "a batch of 12 samples is not 5 micro-batches of 3"),
            ({"microbatch_size": 5}, "a batch of 12 samples is not 3 micro-batches of 5"),
            ({"num_microbatches": 2, "microbatch_size": 3}, "a batch of 12 samples is not 2 micro-batches of 3"),
        ):
            self.boosted(**options)
            with self.assertRaisesRegex(castor.Error, message) as raised:
                self.execute()
            self.assertEqual(raised.exception.option, next(iter(options)))
            self.assertIsNone(castor.grad(self.model.layers[0].weight))
        with self.assertRaisesRegex(castor.Error, "no tensor to divide"):
            self.execute({"n": 3})
        self.boosted(num_microbatches=2)
        with self.assertRaisesRegex(castor.Error, r"has 12 samples, and a tensor of sizes \(5,\)"):
            self.execute({**data(), "weights": torch.ones(5)})

    def test_what_all_samples_share_goes_to_every_micro_batch(self):
        self.boosted(num_microbatches=2)
        shared = {"scale": torch.full((1, 2), 3.0), "shift": torch.tensor(2.0), "name": "all"}
        seen = []

        def loss(result, inputs):
            seen.append({name: inputs[name] for name in shared})
            return squares(result, inputs)

        x, y = data().values()
        self.model.register_forward_pre_hook(lambda model, args, kwargs: (args, {n: kwargs[n] for n in ("x", "y")}), with_kwargs=True)
        self.execute({**shared, "x": x, "y": y}, loss)
        self.assertEqual([each["scale"].tolist() for each in seen], [[[3.0, 3.0]]] * 2)
        self.assertEqual([(each["shift"].item(), each["name"]) for each in seen], [(2.0, "all")] * 2)

    def test_is_of_one_plugin(self):
        booster = Booster(plugin=GeminiPlugin())
        with self.assertRaisesRegex(castor.Error, "execute_pipeline is of HybridParallelPlugin, .* GeminiPlugin"):
            booster.execute_pipeline(iter([data()]), made(), squares)
