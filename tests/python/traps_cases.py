# SPDX-License-Identifier: Apache-2.0
"""What goes wrong where memory is managed under a model: frozen parameters, adapters, tied and idle ones, dtypes, exceptions,
files. A number in a docstring is that of the kind of fault; the other cases have theirs too."""

import gc
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import castor
from boost_cases import TiedModel, loss_of
from castor.booster import Booster
from castor.booster.plugin import GeminiPlugin
from forks import in_a_fork
from pairs import VALUES, Pair, Twins, backward_of, boosted, in_the_smallest_budgets, made, plain
from where import DEVICE

try:
    import transformers
except ImportError:
    transformers = None
else:
    from models import MODELS

WIDTH, N_TOKENS = 32, 64


class Adapted(nn.Module):
    """A frozen linear layer and an adapter of low rank, whose second factor is 0 at first."""

    def __init__(self, n_in, n_out):
        super().__init__()
        self.base = nn.Linear(n_in, n_out)
        self.lora_a = nn.Parameter(torch.randn(4, n_in) / 4)
        self.lora_b = nn.Parameter(torch.zeros(n_out, 4))

    def forward(self, x):
        return self.base(x) + nn.functional.linear(nn.functional.linear(x, self.lora_a), self.lora_b)


class Block(nn.Module):
    """recompute: use_reentrant of the checkpoint around it; None: there is none."""

    def __init__(self, linear, recompute):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up = linear(WIDTH, 2 * WIDTH)
        self.down = linear(2 * WIDTH, WIDTH)
        self.recompute = recompute

    def layers(self, x):
        y = self.norm(x.to(self.norm.weight.dtype)).to(x.dtype)
        return x + self.down(torch.relu(self.up(y)))

    def forward(self, x):
        return self.layers(x) if self.recompute is None else checkpoint(self.layers, x, use_reentrant=self.recompute)


class Net(nn.Module):
    def __init__(self, linear=nn.Linear, n_blocks=3, recompute=None):
        super().__init__()
        self.embedding = nn.Embedding(N_TOKENS, WIDTH)
        self.blocks = nn.ModuleList(Block(linear, recompute) for _ in range(n_blocks))
        self.head = nn.Linear(WIDTH, N_TOKENS)

    def forward(self, tokens):
        x = self.embedding(tokens)
        if self.blocks[0].recompute and not x.requires_grad:
            x.requires_grad_()  # which reentrant recompute needs
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def adapted(n_blocks=3, recompute=None):
    return freeze(Net(Adapted, n_blocks, recompute))


def freeze(model):
    """All but adapters."""
    for name, parameter in model.named_parameters():
        parameter.requires_grad_("lora" in name)
    return model


class Adapters(Twins):
    def test_in_blocks_of_frozen_parameters(self):
        """Trap 2-01: frozen and trained parameters in one block; the frozen have neither gradients nor states."""

        def prepare(model):
            for name, parameter in model.named_parameters():
                parameter.requires_grad_("lora" in name or name.endswith("bias"))

        self.check(adapted, loss_of, prepare)
        model, optimizer = self.boosted_twin(adapted, prepare)
        loss_of(model, 0).backward()
        self.assertTrue(all((p.grad is not None) == p.requires_grad for p in model.parameters()))
        optimizer.step()
        self.assertEqual(len(optimizer.state_dict()["state"]), sum(p.requires_grad for p in model.parameters()))

    def test_of_large_frozen_layers_have_small_states(self):
        """Trap 2-01: device and host hold values of all parameters, and states of the trained ones, in 33 KiB of 233."""

        def run(device_budget, host_budget):
            model, optimizer = self.boosted_twin(adapted, device_budget=device_budget, host_budget=host_budget)
            self.steps(model, optimizer, loss_of, range(2))
            n_bytes = [16 * p.numel() if p.requires_grad else 4 * p.numel() for p in model.parameters()]
            return host_budget - sum(n_bytes)

        self.assertLess(in_the_smallest_budgets(run, "device", "host"), 32 << 10)

    def test_in_every_block_get_their_gradient(self):
        """Trap 2-02: adapters in every layer, all of which get a gradient once none is 0."""

        def run(**budgets):
            twin, loop = self.plain_twin(lambda: adapted(n_blocks=8))
            model, optimizer = self.boosted_twin(lambda: adapted(n_blocks=8), **budgets)
            for module, step in ((model, optimizer), (twin, loop)):
                self.steps(module, step, loss_of, range(2))
                loss_of(module, 2).backward()
            for (name, mine), expected in zip(model.named_parameters(), twin.parameters()):
                if mine.requires_grad:
                    self.assertTrue(castor.grad(mine).abs().sum() > 0, name)
                    self.assertTrue(torch.equal(castor.grad(mine).flatten(), loop.sums[expected]), name)

        in_the_smallest_budgets(run, "device")
        run()

    def test_beside_frozen_parameters_under_recompute(self):
        """Trap 2-14: recompute, reentrant or not, fetches frozen parameters again."""
        for recompute in (False, True):
            with self.subTest(reentrant=recompute):
                self.check(lambda: adapted(recompute=recompute), loss_of)

    def test_are_saved_whole(self):
        """Trap 2-23: a file of the adapters alone has all of their values."""
        twin, loop = self.plain_twin(adapted)
        model, optimizer = self.boosted_twin(adapted, device_budget="40KiB")
        self.steps(twin, loop, loss_of, range(2))
        self.steps(model, optimizer, loss_of, range(2))
        file = io.BytesIO()
        torch.save({name: weight for name, weight in model.state_dict().items() if "lora" in name}, file)
        expected = {name: weight for name, weight in twin.state_dict().items() if "lora" in name}
        self.assert_same(torch.load(io.BytesIO(file.getvalue())), expected)
        other, _ = self.boosted_twin(adapted)
        self.assertEqual(other.load_state_dict(expected, strict=False).unexpected_keys, [])
        self.assert_same(other.state_dict(), twin.state_dict())


class Switches(Twins):
    def test_of_requires_grad_leave_states_alone(self):
        """Trap 2-03: what is frozen for a while keeps its moments, its counter and its value."""

        def losses(model, step):
            found = []
            for seed in range(5):
                model.head.requires_grad_(seed not in (1, 2))
                found += self.steps(model, step, loss_of, [seed])
                with torch.no_grad():
                    found.append(loss_of(model, 50).item())
            return found

        with tempfile.TemporaryDirectory(prefix="castor_python_") as folder:
            twin, loop = self.plain_twin(Net)
            model, optimizer = self.boosted_twin(Net, device_budget="40KiB", host_budget="40KiB", nvme=[folder])
            self.assertEqual(losses(model, optimizer), losses(twin, loop))
            self.assert_same(model.state_dict(), twin.state_dict())
            states = optimizer.state_dict()["state"]
        for number, parameter in enumerate(twin.parameters()):
            self.assertEqual(states[number]["step"], loop.states[parameter].n_updates)
            self.assertTrue(torch.equal(states[number]["exp_avg"].flatten(), loop.states[parameter].exp_avg))

    def test_that_train_what_was_frozen_before_are_refused_by_name(self):
        """Trap 2-03: a parameter that was frozen when the model was boosted is never left out in silence."""
        make = lambda: freeze_norm(Net())  # noqa: E731
        twin, loop = self.plain_twin(make)
        for groups_have_it in (True, False):
            torch.manual_seed(0)
            model = make()
            optimizer = torch.optim.AdamW([p for p in model.parameters() if groups_have_it or p.requires_grad], **VALUES)
            Booster(plugin=GeminiPlugin(precision=None, device_budget="40KiB", chunk_bytes="4KiB")).boost(model, optimizer)
            norm = model.blocks[1].norm.weight.requires_grad_()
            with self.assertRaisesRegex(castor.Error, "blocks.1.norm.weight was frozen .* freeze it after that"):
                loss_of(model, 0).backward()
            norm.requires_grad_(False)
            optimizer.zero_grad()
            losses = self.steps(model, optimizer, loss_of, range(2))
            if groups_have_it:
                expected = self.steps(twin, loop, loss_of, range(2))
            self.assertEqual(losses, expected)
            self.assert_same(model.state_dict(), twin.state_dict())


def freeze_norm(model):
    model.blocks[1].norm.weight.requires_grad_(False)
    return model


class Replaced(Twins):
    def test_modules_are_refused_by_name(self):
        """Trap 2-04: another module in place of one that is trained."""
        model, _ = boosted()
        model.blocks[0].norm = nn.LayerNorm(WIDTH).bfloat16()
        with self.assertRaisesRegex(castor.Error, "another tensor in place of its parameter blocks.0.norm.weight"):
            loss_of(model, 0)

    @unittest.skipUnless(transformers, "transformers is not installed")
    def test_vocabularies_are_refused_by_name(self):
        """Trap 2-04: a vocabulary resized afterwards: before anything is changed where the embedding is released, otherwise
        before it is trained."""
        make, loss = MODELS["Qwen2"]
        twin, loop = self.plain_twin(make)
        self.steps(twin, loop, loss, range(2))
        model, optimizer = self.boosted_twin(make, device_budget="60KiB")
        self.steps(model, optimizer, loss, range(1))
        with self.assertRaisesRegex(RuntimeError, "parameter model.embed_tokens.weight: it is not on the device"):
            model.resize_token_embeddings(120, mean_resizing=False)
        self.steps(model, optimizer, loss, range(1, 2))
        self.assert_same(model.state_dict(), twin.state_dict())
        model, optimizer = self.boosted_twin(make)
        model.resize_token_embeddings(120, mean_resizing=False)
        with self.assertRaisesRegex(castor.Error, "model.embed_tokens.weight was given other memory"):
            loss(model, 1)
        model.resize_token_embeddings(96, mean_resizing=False)  # its configuration; the weight has 96 rows again
        self.steps(model, optimizer, loss, range(2))
        self.assert_same(model.state_dict(), twin.state_dict())


class Optimizers(Pair):
    def test_made_before_update_what_forward_uses(self):
        """Trap 2-05: an optimizer made before boost(), by the user's own handle."""
        with torch.no_grad():
            before = loss_of(self.model, 7).item()
        self.step(0)
        with torch.no_grad():
            self.assertNotEqual(loss_of(self.model, 7).item(), before)
            self.both(lambda model: loss_of(model, 7).item())

    def test_are_not_advanced_by_boosting(self):
        """Trap 2-26: boosting changes no weight, no moment and no counter; the first update is the first one."""
        self.assert_same_weights()
        self.assertEqual(self.optimizer.state_dict()["state"], {})
        self.step(0)
        self.assertEqual({state["step"].item() for state in self.optimizer.state_dict()["state"].values()}, {1.0})
        self.assert_same_weights()

    def test_in_files_are_read_by_name(self):
        """Trap 2-24: two groups, in another order than those that saved."""

        def groups(model):
            vectors = [p for p in model.parameters() if p.dim() < 2]
            matrices = [p for p in model.parameters() if p.dim() >= 2]
            return [{"params": vectors, "weight_decay": 0.0}, {"params": matrices}]

        self.model, self.optimizer = boosted(groups=groups)
        self.twin, self.loop = plain(groups=groups)
        for seed in range(2):
            self.step(seed)
        booster = Booster(plugin=GeminiPlugin())
        with tempfile.TemporaryDirectory(prefix="castor_python_") as folder:
            booster.save_optimizer(self.optimizer, folder)
            self.model, self.optimizer = boosted(groups=lambda model: groups(model)[::-1])
            booster.load_optimizer(self.optimizer, folder)
        states = self.optimizer.state_dict()["state"]
        in_order = [p for group in groups(self.twin)[::-1] for p in group["params"]]
        for number, parameter in enumerate(in_order):
            expected = self.loop.states[parameter]
            self.assertTrue(torch.equal(states[number]["exp_avg"].flatten(), expected.exp_avg))
            self.assertTrue(torch.equal(states[number]["exp_avg_sq"].flatten(), expected.exp_avg_sq))
        self.step(2)
        self.assert_same_weights()


class Chosen(nn.Module):
    """One expert for each step; the third is never chosen."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(N_TOKENS, WIDTH)
        self.experts = nn.ModuleList(Block(nn.Linear, None) for _ in range(4))
        self.head = nn.Linear(WIDTH, N_TOKENS)

    def forward(self, tokens, expert):
        return self.head(self.experts[expert](self.embedding(tokens)))

    def loss(self, seed):
        batch = torch.randint(0, N_TOKENS, (2, 8), generator=torch.Generator().manual_seed(seed)).to(DEVICE)
        return nn.functional.cross_entropy(self(batch, (0, 1, 1, 3, 0)[seed]).flatten(0, 1), batch.flatten())


class Experts(Twins):
    def test_that_are_idle_stay_as_they_are(self):
        """Trap 2-06: without a gradient neither moments nor decay nor counter move."""
        twin, loop = self.check(Chosen, Chosen.loss, n_steps=5)
        model, optimizer = self.boosted_twin(Chosen, device_budget="40KiB")
        self.steps(model, optimizer, Chosen.loss, range(5))
        states = optimizer.state_dict()["state"]
        n_updates = [loop.states[parameter].n_updates for parameter in twin.parameters()]
        self.assertEqual([int(states[i]["step"]) if i in states else 0 for i in range(len(n_updates))], n_updates)
        self.assertEqual(set(n_updates), {0, 1, 2, 5})


class Shared(nn.Module):
    """A block that is called several times, a projection that two blocks share, and an embedding that is the head."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(N_TOKENS, WIDTH)
        self.blocks = nn.ModuleList(Block(nn.Linear, None) for _ in range(2))
        self.blocks[1].up = self.blocks[0].up
        self.head = nn.Linear(WIDTH, N_TOKENS)
        self.head.weight = self.embedding.weight

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in (*self.blocks, *self.blocks):
            x = block(x)
        return self.head(x) + self.head(x.detach())


class Ties(Twins):
    def test_of_modules_that_are_called_several_times(self):
        """Trap 2-10: the gradients of all uses add up."""
        self.check(Shared, loss_of)
        self.check(Shared, lambda model, seed: loss_of(model, seed) + loss_of(model, 20 + seed))

    def test_outlive_loading(self):
        """Trap 2-08: tied weights are one parameter after boosting and after loading, and once in the file."""
        model, optimizer = self.boosted_twin(TiedModel)
        self.steps(model, optimizer, loss_of, range(2))
        twin, loop = self.plain_twin(TiedModel)
        self.steps(twin, loop, loss_of, range(2))
        booster = Booster(plugin=GeminiPlugin())
        with tempfile.TemporaryDirectory(prefix="castor_python_") as folder:
            booster.save_model(model, f"{folder}/weights.safetensors")
            torch.manual_seed(9)
            other = TiedModel()
            optimizer = torch.optim.AdamW(other.parameters(), **VALUES)
            Booster(plugin=GeminiPlugin(precision=None)).boost(other, optimizer)
            booster.load_model(other, f"{folder}/weights.safetensors")
        self.assertIs(other.head.weight, other.embedding.weight)
        self.assertEqual(len(list(other.parameters())), len(list(twin.parameters())))
        self.assert_same(other.state_dict(), twin.state_dict())
        self.assertEqual(loss_of(other, 5).item(), loss_of(twin, 5).item())

    @unittest.skipUnless(transformers, "transformers is not installed")
    def test_have_the_names_of_hugging_face_in_files(self):
        """Trap 2-08: the file has the names that transformers itself writes."""
        make, _ = MODELS["Qwen2"]
        names = []
        for model in (make(), self.boosted_twin(make)[0]):
            with tempfile.TemporaryDirectory(prefix="castor_python_") as folder:
                model.save_pretrained(folder)
                header = (Path(folder) / "model.safetensors").read_bytes()
                length = int.from_bytes(header[:8], "little")
                names.append(sorted(json.loads(header[8 : 8 + length])))
        self.assertEqual(*names)
        self.assertNotIn("lm_head.weight", names[0])


class Passes(Twins):
    def test_without_the_last_micro_batch_alone(self):
        """Trap 2-11: backward in pieces, whose gradients are summed."""

        def loss(model, seed):
            for micro_batch in range(3):
                (loss_of(model, 10 * seed + micro_batch) / 4).backward()
            return loss_of(model, 10 * seed + 3) / 4

        self.check(Net, loss)

    def test_of_a_gradient_of_gradients_are_refused(self):
        """Trap 2-13: of the inputs of a model, and of its parameters; the next step is right."""
        model, optimizer = self.boosted_twin(Net)
        twin, loop = self.plain_twin(Net)
        x = torch.ones(1, 2, WIDTH, requires_grad=True)
        loss = model.blocks[0](x).sum()
        with self.assertRaisesRegex(castor.Error, "a gradient of gradients"):
            torch.autograd.grad(loss, x, create_graph=True)
        with self.assertRaisesRegex(castor.Error, "a gradient of gradients"):
            loss_of(model, 0).backward(create_graph=True)
        optimizer.zero_grad()
        self.assertEqual(self.steps(model, optimizer, loss_of, range(2)), self.steps(twin, loop, loss_of, range(2)))
        self.assert_same(model.state_dict(), twin.state_dict())


class Dtypes(Twins):
    def test_of_autocast_with_recompute(self):
        """Trap 2-15: recompute within backward, which is outside of autocast, computes in the dtypes of the first time."""
        for recompute in (False, True):
            for cache in (False, True):

                def loss(model, seed):
                    with torch.autocast("cpu", torch.bfloat16, cache_enabled=cache):
                        return loss_of(model, seed)

                with self.subTest(reentrant=recompute, cache=cache):
                    self.check(lambda: Net(recompute=recompute), loss)

    def test_of_norms_in_fp32_with_recompute(self):
        """Trap 2-15: a model in bf16 with norms in fp32."""
        for recompute in (None, False, True):
            with self.subTest(reentrant=recompute):
                self.check(lambda: with_norms_in_fp32(Net(recompute=recompute)), loss_of)

    def test_that_a_module_insists_on(self):
        """Trap 2-17: norms in fp32 beside bf16 keep their dtype; batch norms with statistics, too."""

        def make():
            model = nn.Sequential(nn.Linear(8, 8), ToFloat(), nn.BatchNorm1d(8), nn.LayerNorm(8))
            return with_norms_in_fp32(model)

        def loss(model, seed):
            x = torch.randn(6, 8, generator=torch.Generator().manual_seed(seed)).to(DEVICE, torch.bfloat16)
            return model(x).square().sum(1).sin().sum()

        self.check(make, loss)
        model, _ = self.boosted_twin(make)
        self.assertEqual([p.dtype for p in model.parameters()], [torch.bfloat16] * 2 + [torch.float32] * 4)

    @unittest.skipUnless(transformers, "transformers is not installed")
    def test_of_buffers_outside_the_state_dict(self):
        """Trap 2-28: frequencies stay in fp32, with their values, under precision='bf16'."""
        for name in ("Llama", "Gemma"):
            make, loss = MODELS[name]
            buffers = dict(make().named_buffers())
            self.assertEqual(buffers["model.rotary_emb.inv_freq"].dtype, torch.float32)
            with self.subTest(model=name):
                self.check(make, loss, n_steps=2, dtype=torch.bfloat16, precision="bf16")
                model, optimizer = self.boosted_twin(make, precision="bf16")
                self.steps(model, optimizer, loss, range(1))
                self.assert_same(dict(model.named_buffers()), buffers)

    def test_of_statistics_follow_the_plain_model(self):
        """Trap 2-28: buffers of the state_dict get the dtype, and the values that training gives them."""

        def make():
            return nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 2))

        def loss(model, seed):
            dtype = model[1].running_mean.dtype
            return model(torch.randn(6, 8, generator=torch.Generator().manual_seed(seed)).to(DEVICE, dtype)).float().square().sum()

        twin, loop = self.plain_twin(make, dtype=torch.bfloat16)
        for name in ("running_mean", "running_var"):
            setattr(twin[1], name, getattr(twin[1], name).bfloat16())
        model, optimizer = self.boosted_twin(make, precision="bf16")
        self.assertEqual(self.steps(model, optimizer, loss, range(3)), self.steps(twin, loop, loss, range(3)))
        self.assert_same(model.state_dict(), twin.state_dict())


class ToFloat(nn.Module):
    def forward(self, x):
        return x.float()


def with_norms_in_fp32(model):
    model.bfloat16()
    for module in model.modules():
        if isinstance(module, (nn.LayerNorm, nn.BatchNorm1d)):
            module.float()
    return model


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
        self.head = nn.Linear(8, 2)

    def encode(self, x):
        return self.layers(x).tanh()

    def forward(self, x):
        return self.head(self.encode(x))


class Around(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder()

    def forward(self, x):
        return self.encoder(x).square().mean()


class Methods(Twins):
    def test_other_than_forward(self):
        """Trap 2-19: a method of an inner module, and a weight outside of every module, between steps."""

        def loss(model, seed):
            return model(torch.randn(4, 8, generator=torch.Generator().manual_seed(seed)).to(DEVICE))

        model, optimizer = self.boosted_twin(Around, device_budget="4KiB", chunk_bytes="1KiB")
        twin, loop = self.plain_twin(Around)
        x = torch.ones(1, 8)
        for seed in range(3):
            self.assertEqual(self.steps(model, optimizer, loss, [seed]), self.steps(twin, loop, loss, [seed]))
            with torch.no_grad():
                self.assertTrue(torch.equal(model.encoder.encode(x), twin.encoder.encode(x)))
                with castor.gathered(model.encoder.head):
                    mine = nn.functional.linear(x, model.encoder.head.weight)
                self.assertTrue(torch.equal(mine, nn.functional.linear(x, twin.encoder.head.weight)))
        self.assert_same(model.state_dict(), twin.state_dict())


class Files(Twins):
    def test_have_no_parameter_without_memory(self):
        """Trap 2-23: parameters themselves in torch.save() are refused by name."""
        model, optimizer = self.boosted_twin(Net, device_budget="40KiB")
        self.steps(model, optimizer, loss_of, range(1))
        for weights in (dict(model.named_parameters()), model.state_dict(keep_vars=True)):
            with self.assertRaisesRegex(RuntimeError, "parameter .*weight: it is not on the device"):
                torch.save(weights, io.BytesIO())

    def test_of_the_whole_model_are_plain_models(self):
        """Trap 2-23: torch.save(model) has every weight, and nothing of Castor's."""
        twin, loop = self.plain_twin(Net)
        model, optimizer = self.boosted_twin(Net, device_budget="40KiB")
        for seed in range(2):  # the first step is watched
            self.steps(twin, loop, loss_of, [seed])
            self.steps(model, optimizer, loss_of, [seed])
            file = io.BytesIO()
            torch.save(model, file)
            read = torch.load(io.BytesIO(file.getvalue()), weights_only=False)
            self.assert_same(read.state_dict(), twin.state_dict())
            self.assertEqual(vars(read).keys(), vars(twin).keys())
            loss_of(read, 5).backward()
            self.assertIsNotNone(read.head.weight.grad)
        self.assertNotIn(b"castor", file.getvalue())


class Layouts(Twins):
    def test_of_parameters_stay(self):
        """Trap 2-37: channels_last and transposed parameters keep their strides, through files and back."""

        def make():
            model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.Flatten(), nn.Linear(128, 10))
            model.to(memory_format=torch.channels_last)
            model[4].weight = nn.Parameter(model[4].weight.detach().t().contiguous().t())
            return model

        def loss(model, seed):
            pixels = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(seed)).to(DEVICE)
            return model(pixels.contiguous(memory_format=torch.channels_last)).square().mean()

        strides = [p.stride() for p in make().parameters()]
        self.check(make, loss)
        twin, loop = self.plain_twin(make)
        model, optimizer = self.boosted_twin(make)
        self.steps(twin, loop, loss, range(2))
        self.steps(model, optimizer, loss, range(2))
        booster = Booster(plugin=GeminiPlugin())
        with tempfile.TemporaryDirectory(prefix="castor_python_") as folder:
            booster.save_model(model, f"{folder}/weights.safetensors")
            booster.save_optimizer(optimizer, f"{folder}/optimizer")
            other, its_optimizer = self.boosted_twin(make)
            booster.load_model(other, f"{folder}/weights.safetensors")
            self.assert_same(other.state_dict(), twin.state_dict())
            booster.load_optimizer(its_optimizer, f"{folder}/optimizer")
        self.assertEqual(self.steps(other, its_optimizer, loss, range(2, 4)), self.steps(twin, loop, loss, range(2, 4)))
        self.assert_same(other.state_dict(), twin.state_dict())
        self.assertEqual([p.stride() for p in other.parameters()], strides)


class Exceptions(Pair):
    def test_at_any_place_cost_one_step(self):
        """Trap 2-31: of the loss, of hooks of gradients, and before the optimizer's step."""
        weight = self.model.blocks[1].norm.weight
        places = {
            "before accumulation": lambda boom: weight.register_hook(boom),
            "after accumulation": lambda boom: weight.register_post_accumulate_grad_hook(boom),
            "loss": lambda boom: self.model.register_forward_hook(boom),
            "step": lambda boom: self.optimizer.register_step_pre_hook(boom),
        }

        def boom(*_):
            raise ValueError("boom")

        for seed, (place, register) in enumerate(places.items()):
            with self.subTest(place):
                handle = register(boom)
                with self.assertRaisesRegex(ValueError, "boom"):
                    loss_of(self.model, 9).backward()
                    self.optimizer.step()
                handle.remove()
                self.optimizer.zero_grad()
                self.step(seed)
                self.assert_same_weights()


class Compiled(Pair):
    def setUp(self):
        super().setUp()
        torch._dynamo.reset()

    def assert_trains_as_plain(self, compiled, of, n_steps):
        """compiled: self.model, which is boosted as `of`."""
        self.optimizer = torch.optim.AdamW(self.model.parameters(), **VALUES)
        plugin = GeminiPlugin(precision=None, device_budget="200KiB", host_budget="1MiB", chunk_bytes="16KiB")
        Booster(plugin=plugin).boost(of, self.optimizer)
        self.twin, self.loop = plain()
        for seed in range(n_steps):
            self.assertEqual(backward_of(compiled, seed), backward_of(self.twin, seed))
            self.optimizer.step()
            self.loop.step()
        self.assert_same_weights()

    def test_models_as_a_whole(self):
        """Trap 2-34: torch.compile around a model that is boosted afterwards, and a compiled model that is boosted."""
        n_operators = []

        def backend(graph, inputs):
            n_operators.append(len(graph.graph.nodes))
            return graph.forward

        for before in (True, False):
            torch._dynamo.reset()
            n_operators.clear()
            with self.subTest(before=before):
                self.model = made()
                compiled = torch.compile(self.model, backend=backend)
                self.assert_trains_as_plain(compiled, compiled if before else self.model, n_steps=3)
                self.assertGreater(sum(n_operators), 8, "compiled, in one graph or more")

    def test_that_ran_before_they_were_boosted(self):
        """torch's guards do not look at hooks: what was compiled before a boost would go on without them."""
        for runs_itself in (True, False):
            torch._dynamo.reset()
            with self.subTest(runs_itself=runs_itself):
                self.model, other = made(), made()
                compiled = torch.compile(self.model, backend="aot_eager")
                backward_of(compiled if runs_itself else torch.compile(other, backend="aot_eager"), 0)
                self.model.zero_grad()
                self.assert_trains_as_plain(compiled, self.model, n_steps=4)

    def test_first_steps_leave_other_models_compiled(self):
        """What a first step runs uncompiled ends with its backward pass, or with its graph if none comes."""
        n_graphs = []

        def backend(graph, inputs):
            n_graphs.append(1)
            return graph.forward

        one, other, third = boosted(), boosted(), boosted()
        losses = [loss_of(model, 0) for model, _ in (one, other, third)]
        for loss in losses[:2]:
            loss.backward()
        compiled = torch.compile(nn.Linear(8, 8), backend=backend)
        compiled(torch.zeros(2, 8))
        self.assertEqual(len(n_graphs), 0, "the third may be differentiated yet")
        del loss, losses
        compiled(torch.zeros(2, 8))
        self.assertEqual(len(n_graphs), 1)

    def test_recompute_in_the_first_step(self):
        """torch 2.11: what ran as it is written was recomputed compiled, and the numbers of saved tensors differed."""
        block = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 8))
        block.compile(backend="aot_eager")

        class Recomputed(nn.Module):
            def __init__(self):
                super().__init__()
                self.block = block

            def forward(self, x):
                return checkpoint(self.block, x, use_reentrant=False)

        model = Recomputed()
        optimizer = torch.optim.AdamW(model.parameters(), **VALUES)
        Booster(plugin=GeminiPlugin(precision=None)).boost(model, optimizer)
        for _ in range(2):
            model(torch.ones(2, 8)).square().mean().backward()
            optimizer.step()

    def test_without_breaks_are_refused(self):
        """Trap 2-34: a graph without a break has no room for the units' hooks."""
        self.step(0)  # is watched, which torch does not compile at all
        compiled = torch.compile(self.model, backend="eager", fullgraph=True)
        with self.assertRaisesRegex(RuntimeError, "castor moves parameters there; compile blocks"):
            loss_of(compiled, 1)
        self.step(1)
        self.assert_same_weights()


class Wide(nn.Module):
    """12 MiB in bf16, and 72 MiB of states."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(512, 512), nn.ReLU()) for _ in range(24))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x.float().square().mean()


def peaks_of_steps(folder, goes_on):
    """The bytes that this process grew by at most, and those of its files of the NVMe tier. Saves the run, or goes on."""
    torch.manual_seed(0)
    model = Wide()
    optimizer = torch.optim.AdamW(model.parameters(), **VALUES)
    plugin = GeminiPlugin(device_budget="4MiB", host_budget="8MiB", nvme=[f"{folder}/nvme"], chunk_bytes="1MiB")
    booster = Booster(plugin=plugin)
    booster.boost(model, optimizer)
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # forgets the peak
    before = memory("VmRSS")
    if goes_on:
        booster.load_optimizer(optimizer, f"{folder}/saved")
    for seed in range(3):
        model(torch.randn(4, 512, generator=torch.Generator().manual_seed(seed)).to(DEVICE, torch.bfloat16)).backward()
        optimizer.step()
    peaks = (memory("VmHWM") - before, bytes_of_open_files(f"{folder}/nvme"))
    if not goes_on:
        booster.save_optimizer(optimizer, f"{folder}/saved")
    return peaks


def memory(name):
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name + ":"))
    return int(line.split()[1]) << 10


def bytes_of_open_files(folder):
    """Most of which have no name any more."""
    files = [f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd")]
    files = [file for file in files if os.path.exists(file) and os.readlink(file).startswith(folder)]
    return sum(os.stat(file).st_blocks * 512 for file in files)


class Memory(unittest.TestCase):
    @unittest.skipUnless(os.path.exists("/proc/self/clear_refs"), "peaks of memory cannot be measured here")
    def test_of_a_run_that_goes_on_is_that_of_training(self):
        """Trap 2-27: peaks of the process, which has device and host tier, and of the NVMe tier."""
        with tempfile.TemporaryDirectory(prefix="castor_python_") as folder:
            os.mkdir(f"{folder}/nvme")
            trained = in_a_fork(lambda: peaks_of_steps(folder, False))
            went_on = in_a_fork(lambda: peaks_of_steps(folder, True))
        self.assertGreater(trained[0], 2 << 20)
        self.assertGreater(trained[1], 60 << 20)
        self.assertLess(went_on[0], trained[0] + (4 << 20))
        self.assertLessEqual(went_on[1], trained[1] + (2 << 20))  # two chunks: what is there at once depends on times

    def test_budgets_that_train_go_on(self):
        """Trap 2-27: from the smallest budgets of every tier."""
        with tempfile.TemporaryDirectory(prefix="castor_python_") as folder:

            def run(**budgets):
                model, optimizer = boosted(**budgets, nvme=[f"{folder}/nvme"], chunk_bytes="4KiB")
                for seed in range(3):
                    loss_of(model, seed).backward()
                    optimizer.step()
                return budgets

            os.mkdir(f"{folder}/nvme")
            budgets = in_the_smallest_budgets(run, "device", "host")
            booster = Booster(plugin=GeminiPlugin())
            model, optimizer = boosted(chunk_bytes="4KiB")
            loss_of(model, 0).backward()
            optimizer.step()
            booster.save_model(model, f"{folder}/weights.safetensors")
            booster.save_optimizer(optimizer, f"{folder}/optimizer")
            other, its_optimizer = boosted(**budgets, nvme=[f"{folder}/nvme"], chunk_bytes="4KiB")
            booster.load_model(other, f"{folder}/weights.safetensors")
            booster.load_optimizer(its_optimizer, f"{folder}/optimizer")
            for seed in range(1, 3):
                losses = [backward_of(model, seed), backward_of(other, seed)]
                self.assertEqual(*losses)
                optimizer.step()
                its_optimizer.step()


ENDLESS = """
import sys
from pairs import boosted
from boost_cases import loss_of
model, optimizer = boosted(device_budget="80KiB", host_budget="160KiB", nvme=[sys.argv[1]], chunk_bytes="16KiB")
for step in range(10**9):
    loss_of(model, step).backward()
    optimizer.step()
    if step == 2:
        print("trains", flush=True)
"""


def end_by_ctrl_c(run):
    """Python drops a KeyboardInterrupt that is raised in a finalizer, so it may take another."""
    for _ in range(5):
        run.send_signal(signal.SIGINT)
        try:
            return run.communicate(timeout=4)[1]
        except subprocess.TimeoutExpired:
            pass
    run.kill()
    raise AssertionError(f"still running after five interrupts: {run.communicate()[1].decode()}")


class Processes(unittest.TestCase):
    def test_that_ctrl_c_ends_leave_nothing(self):
        """Trap 2-32: the process ends at once, and its files are gone."""
        with tempfile.TemporaryDirectory(prefix="castor_python_") as folder:
            run = subprocess.Popen(
                [sys.executable, "-c", ENDLESS, folder],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            )
            self.assertEqual(run.stdout.readline(), b"trains\n")
            errors = end_by_ctrl_c(run)
            self.assertIn(b"KeyboardInterrupt", errors)
            self.assertEqual(run.returncode, -signal.SIGINT)
            self.assertEqual(os.listdir(folder), [])
