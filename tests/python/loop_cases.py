# SPDX-License-Identifier: Apache-2.0
"""What stands around a training: evaluation, generation, several models, exceptions, copies, compiled blocks."""

import collections
import contextlib
import copy
import unittest
import warnings

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import castor
from boost_cases import loss_of
from castor._outside import WATCH
from castor.booster import Booster
from castor.booster.plugin import GeminiPlugin
from pairs import VALUES, Pair, SameWeights, backward_of, boosted, made, plain
from plain_loop import PlainLoop

try:
    import transformers
except ImportError:
    transformers = None
else:
    from models import MODELS, tokens


class ByParts(SameWeights):
    """A program that calls the modules of the model, and never the model."""

    def test_steps_have_the_values_of_their_last_backward_pass(self):
        """Also where a rate changes between the forward and the backward pass, and where all is recomputed."""
        for use_reentrant in (None, True):
            model, optimizer = boosted(micro_batches=1)
            twin, loop = plain()
            for seed in range(4):
                for one, groups in ((model, optimizer.param_groups), (twin, loop.groups)):
                    inputs = torch.randn(4, 16, one.embedding.embedding_dim, generator=torch.Generator().manual_seed(seed))
                    hidden = inputs.to(one.embedding.weight.dtype).requires_grad_()
                    for block in one.blocks:
                        called = lambda x, block=block: block(x, scale=0.5)["x"][0]  # noqa: E731
                        hidden = called(hidden) if use_reentrant is None else checkpoint(called, hidden, use_reentrant=True)
                    for group in groups:
                        group["lr"] = VALUES["lr"] / (1 + seed)
                    hidden.square().mean().backward()
                optimizer.step()
                loop.step()
            self.assert_same(model.state_dict(), twin.state_dict())

    def test_a_change_after_that_pass_is_refused(self):
        model, optimizer = boosted(micro_batches=1)
        inputs = torch.randn(2, 4, model.embedding.embedding_dim).to(model.embedding.weight.dtype)
        model.blocks[0](inputs, scale=0.5)["x"][0].square().mean().backward()
        optimizer.param_groups[0]["lr"] *= 2
        with self.assertRaisesRegex(castor.Error, "announced with other values"):
            optimizer.step()


class Evaluation(Pair):
    def evaluate(self, seed):
        def loss(model):
            model.eval()
            with torch.no_grad():
                value = loss_of(model, seed).item()
            model.train()
            return value

        self.both(loss)

    def test_at_any_place(self):
        """Trap 2-30: evaluation between backward and step, and between steps."""
        self.evaluate(50)
        for seed in range(4):
            self.step(seed)
            self.evaluate(51)
            self.both(lambda model: backward_of(model, 10 + seed))
            self.evaluate(52)
            self.optimizer.step()
            self.loop.step()
        self.assert_same_weights()

    def test_with_gradients_that_are_not_asked_for(self):
        for seed in range(3):
            self.both(lambda model: loss_of(model, 60).item())
            self.step(seed)
        self.assert_same_weights()

    def test_in_inference_mode(self):
        self.step(0)
        with torch.inference_mode():
            self.both(lambda model: loss_of(model, 5).item())
        self.step(1)
        self.assert_same_weights()


class Backward(Pair):
    def test_of_two_losses_together(self):
        """Trap 2-10: two forward passes of a module, and one backward pass."""
        for seed in range(3):
            for model in (self.model, self.twin):
                (loss_of(model, seed) + loss_of(model, 10 + seed)).backward()
            self.optimizer.step()
            self.loop.step()
        self.assert_same_weights()

    def test_twice_through_one_graph(self):
        """Trap 2-11: the sum of both passes."""
        for model in (self.model, self.twin):
            loss = loss_of(model, 0)
            loss.backward(retain_graph=True)
            loss.backward()
        self.optimizer.step()
        self.loop.step()
        self.assert_same_weights()

    def test_through_a_graph_older_than_the_weights_is_refused(self):
        """As torch does: it would read the new ones."""

        def expect_refusal(loss):
            with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
                loss.backward()
            self.optimizer.zero_grad()

        self.step(0)
        old = loss_of(self.model, 2)
        self.step(1)
        expect_refusal(old)
        self.step(3)
        self.assert_same_weights()
        old = loss_of(self.model, 4)
        self.model.load_state_dict({name: weight + 1 for name, weight in self.model.state_dict().items()})
        expect_refusal(old)

    def test_through_a_graph_of_other_weights_goes_on_after_a_step(self):
        """The step before changes those alone that had gradients."""
        torch.manual_seed(0)
        models = [nn.ModuleList([nn.Linear(8, 8), nn.Linear(8, 8)]) for _ in range(2)]
        models[1].load_state_dict(models[0].state_dict())
        x = torch.randn(4, 8, generator=torch.Generator().manual_seed(1))
        gradients = []
        for model, boosts in zip(models, (False, True)):
            optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
            if boosts:
                Booster(plugin=GeminiPlugin(precision=None)).boost(model, optimizer)
            one, other = (part(x).pow(2).mean() for part in model)
            one.backward()
            optimizer.step()
            optimizer.zero_grad()
            other.backward()
            gradients.append(castor.grad(model[1].weight) if boosts else model[1].weight.grad)
        self.assertTrue(torch.equal(*gradients))

    def test_of_inputs_alone(self):
        self.step(0)

        def input_gradient(model):
            x = torch.ones(1, 2, 32, dtype=torch.bfloat16, requires_grad=True)
            (grad,) = torch.autograd.grad(model.blocks[0](x, scale=0.5)["x"][0].float().sum(), x)
            return grad.tolist()

        self.both(input_gradient)
        self.step(1)
        self.assert_same_weights()

    def test_through_parts_of_the_model(self):
        def part(model):
            x = torch.linspace(-1, 1, 64, dtype=torch.bfloat16).view(1, 2, 32)
            loss = model.blocks[1](x, scale=1.0)["x"][0].float().square().mean()
            loss.backward()
            return loss.item()

        self.step(0)
        self.both(part)
        self.optimizer.step()
        self.loop.step()
        self.assert_same_weights()

    def test_under_autocast(self):
        self.model, self.optimizer = boosted(torch.float32)
        self.twin, self.loop = plain(torch.float32)
        for seed in range(3):
            with torch.autocast("cpu", torch.bfloat16, cache_enabled=False):
                losses = [loss_of(model, seed) for model in (self.model, self.twin)]
            self.assertEqual(losses[0].item(), losses[1].item())
            for loss in losses:
                loss.backward()
            self.optimizer.step()
            self.loop.step()
        self.assert_same_weights()

    def test_with_hooks_of_the_user(self):
        seen = {id(self.model): [], id(self.twin): []}
        for model in (self.model, self.twin):
            of_model = seen[id(model)]
            model.blocks[1].register_forward_hook(lambda module, args, result: {"x": [result["x"][0] * 0.5]})
            model.blocks[2].norm.weight.register_hook(lambda grad, to=of_model: to.append(grad.float().sum().item()))
            model.head.register_full_backward_hook(
                lambda module, into, out, to=of_model: to.append(out[0].float().norm().item())
            )
        for seed in range(3):
            self.step(seed)
        self.assert_same_weights()
        self.assertEqual(seen[id(self.model)], seen[id(self.twin)])
        self.assertTrue(seen[id(self.model)])


class Shared(nn.Module):
    """One block that is called several times, as ALBERT's; norms in fp32 beside it."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(64, 32)
        self.block = nn.Sequential(nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 32))
        self.norm = nn.LayerNorm(32)
        self.head = nn.Linear(32, 64, bias=False)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for _ in range(4):
            x = x + checkpoint(self.block, x, use_reentrant=False)
        return self.head(self.norm(x.float()).to(x.dtype))


class Blocks(SameWeights):
    def test_that_are_called_several_times_beside_norms_of_another_dtype(self):
        """Traps 2-10 and 2-17: one module called several times in a forward pass; norms that keep their dtype."""

        def made():
            torch.manual_seed(0)
            model = Shared().bfloat16()
            model.norm.float()
            return model

        model, twin = made(), made()
        dtypes = {name: parameter.dtype for name, parameter in model.named_parameters()}
        optimizer = torch.optim.AdamW(model.parameters(), **VALUES)
        plugin = GeminiPlugin(precision=None, device_budget="200KiB", host_budget="1MiB", chunk_bytes="16KiB")
        Booster(plugin=plugin).boost(model, optimizer)
        loop = PlainLoop(twin, "adamw", [{"params": list(twin.parameters()), **VALUES}])
        for seed in range(3):
            losses = [backward_of(model, seed), backward_of(twin, seed)]
            self.assertEqual(*losses)
            optimizer.step()
            loop.step()
        self.assert_same(model.state_dict(), twin.state_dict())
        self.assertEqual({name: parameter.dtype for name, parameter in model.named_parameters()}, dtypes)


class Freezing(Pair):
    def test_later_and_for_a_while(self):
        """Trap 2-03: requires_grad changes after boosting."""
        for seed in range(4):
            for model in (self.model, self.twin):
                model.blocks[0].requires_grad_(seed not in (1, 2))
            self.step(seed)
        self.assert_same_weights()


class Exceptions(Pair):
    def broken(self, module, where):
        """Of a step that `module` breaks in forward or backward."""

        def forward(*_):
            raise RuntimeError("boom")

        if where == "forward":
            handle = module.register_forward_pre_hook(forward)
        else:
            handle = module.register_full_backward_hook(forward)
        with self.assertRaisesRegex(RuntimeError, "boom"), warnings.catch_warnings():
            warnings.simplefilter("error")
            loss_of(self.model, 9).backward()
        handle.remove()

    def test_in_forward_and_backward_cost_one_step(self):
        """Trap 2-31: an exception in the middle."""
        self.step(0)
        for where in ("forward", "backward"):
            for module in (self.model.head, self.model.blocks[1].feed_forward, self.model.blocks[0].norm):
                with self.subTest(where=where, module=type(module).__name__):
                    self.broken(module, where)
                    self.optimizer.zero_grad()
                    self.step(1)
                    self.assert_same_weights()

    def test_in_backward_are_not_forgotten_by_step(self):
        self.broken(self.model.blocks[1].feed_forward, "backward")
        with self.assertRaisesRegex(castor.Error, "drop the step with zero_grad"):
            self.optimizer.step()

    def test_of_ctrl_c(self):
        """Trap 2-32. Which calls no hook; in the first step, which is watched, and later."""

        def interrupt(*_):
            raise KeyboardInterrupt

        for seed in range(3):
            handle = self.model.blocks[1].feed_forward.register_forward_pre_hook(interrupt)
            with self.assertRaises(KeyboardInterrupt):
                loss_of(self.model, 3)
            handle.remove()
            self.optimizer.zero_grad()
            self.step(seed)
            watch = self.optimizer.castor_first_step
            self.assertNotIn(watch, WATCH.of)
            self.assertFalse(watch.passes.open, "a unit is still open")
        self.assert_same_weights()


class Copies(Pair):
    def test_are_plain_models(self):
        for seed in range(2):  # the first within the step that is watched
            mine, expected = copy.deepcopy(self.model), copy.deepcopy(self.twin)
            for (name, weight), wanted in zip(mine.named_parameters(), expected.parameters()):
                self.assertTrue(torch.equal(weight, wanted), name)
            self.assertIs(mine.head.weight, mine.embedding.weight)
            self.assertEqual(loss_of(mine, 5).item(), loss_of(expected, 5).item())
            mine.to(torch.float32)
            loss_of(mine, 5).backward()
            self.assertIsNotNone(mine.head.weight.grad)
            self.step(seed)
        self.assert_same_weights()

    def test_follow_as_moving_averages(self):
        averages = [copy.deepcopy(model) for model in (self.model, self.twin)]
        for seed in range(3):
            self.step(seed)
            contexts = castor.gathered(self.model), contextlib.nullcontext()
            for model, average, context in zip((self.model, self.twin), averages, contexts):
                with context, torch.no_grad():
                    for kept, weight in zip(average.parameters(), model.parameters()):
                        kept.lerp_(weight, 0.25)
        for kept, expected in zip(*(average.parameters() for average in averages)):
            self.assertTrue(torch.equal(kept, expected))


class Compiled(Pair):
    def test_blocks_before_or_after(self):
        """Trap 2-34: torch.compile on either side of boosting; the blocks are compiled indeed."""
        for before in (True, False):
            self.setUp()
            torch._dynamo.reset()
            N_COMPILED.clear()
            if before:
                self.model = made()
                compile_blocks(self.model)
                self.optimizer = torch.optim.AdamW(self.model.parameters(), **VALUES)
                plugin = GeminiPlugin(device_budget="200KiB", host_budget="1MiB", chunk_bytes="16KiB")
                Booster(plugin=plugin).boost(self.model, self.optimizer)
            else:
                compile_blocks(self.model)
            compile_blocks(self.twin)
            for seed in range(3):
                self.step(seed)
            self.assert_same_weights()
            self.assertEqual(N_COMPILED[self.model], N_COMPILED[self.twin])
            self.assertGreater(N_COMPILED[self.model], 0)


N_COMPILED: collections.Counter[nn.Module] = collections.Counter()


def compile_blocks(model):
    """By a backend that counts the graphs of each model."""

    def backend(graph, inputs):
        N_COMPILED[model] += 1
        return torch._dynamo.lookup_backend("aot_eager")(graph, inputs)

    for block in model.blocks:
        block.compile(backend=backend)


class SeveralModels(SameWeights):
    def test_train_one_through_the_other(self):
        """As a generator and its critic."""

        def run(boosts):
            torch.manual_seed(0)
            one, other = nn.Linear(8, 8).bfloat16(), nn.Linear(8, 1).bfloat16()
            steps = []
            for model in (one, other):
                if boosts:
                    optimizer = torch.optim.AdamW(model.parameters(), **VALUES)
                    Booster(plugin=GeminiPlugin(chunk_bytes="16KiB")).boost(model, optimizer)
                    steps.append(optimizer)
                else:
                    steps.append(PlainLoop(model, "adamw", [{"params": list(model.parameters()), **VALUES}]))
            losses = []
            for seed in range(4):
                x = torch.randn(4, 8, generator=torch.Generator().manual_seed(seed)).bfloat16()
                loss = other(one(x)).float().square().mean()
                loss.backward()
                steps[seed % 2].step()
                drop = steps[1 - seed % 2]
                drop.zero_grad() if boosts else drop.sums.clear()
                losses.append(loss.item())
            return losses, [model.state_dict() for model in (one, other)]

        (losses, weights), (expected_losses, expected) = run(True), run(False)
        self.assertEqual(losses, expected_losses)
        for mine, wanted in zip(weights, expected):
            self.assert_same(mine, wanted)


@unittest.skipUnless(transformers, "transformers is not installed")
class Generation(unittest.TestCase):
    def test_with_and_without_cache(self):
        """Trap 2-19: not only `forward`."""
        for name in ("Qwen2", "GPT-2", "T5"):
            torch.manual_seed(0)
            make, loss = MODELS[name]
            model, twin = make().bfloat16(), make().bfloat16()
            twin.load_state_dict(model.state_dict())
            optimizer = torch.optim.AdamW(model.parameters(), **VALUES)
            Booster(plugin=GeminiPlugin(device_budget="200KiB", chunk_bytes="16KiB")).boost(model, optimizer)
            prompt = tokens(3, 2, 4)
            for use_cache in (True, False):
                how = {"max_new_tokens": 6, "do_sample": False, "use_cache": use_cache, "pad_token_id": 0}
                with self.subTest(model=name, use_cache=use_cache):
                    mine = model.eval().generate(prompt, **how)
                    self.assertTrue(torch.equal(mine, twin.eval().generate(prompt, **how)))
            self.assertEqual(loss(model.train(), 0).item(), loss(twin.train(), 0).item())
