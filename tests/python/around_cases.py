# SPDX-License-Identifier: Apache-2.0
"""The loop around a training: workers of a DataLoader, hooks, functions of the user, several optimizers and models."""

import collections
import contextlib
import copy
import dataclasses
import gc
import itertools
import multiprocessing
import tempfile
import types
import warnings
import weakref

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import castor
from boost_cases import TiedModel, loss_of
from castor.booster import Booster
from castor.booster.plugin import GeminiPlugin
from forks import in_a_fork, refusals
from pairs import VALUES, Pair, SameWeights, Twins, backward_of, boosted, made, plain
from plain_loop import PlainLoop

SMALL = {"precision": None, "device_budget": "200KiB", "host_budget": "1MiB", "chunk_bytes": "16KiB"}


def boost(model, optimizer=None, **options):
    optimizer = optimizer or torch.optim.AdamW(model.parameters(), **VALUES)
    Booster(plugin=GeminiPlugin(**{**SMALL, **options})).boost(model, optimizer)
    return optimizer


def plain_loop_of(model):
    return PlainLoop(model, "adamw", [{**VALUES, "params": list(model.parameters())}])


class Tokens(Dataset):
    """held: what workers have of the training; they read its config alone."""

    def __init__(self, held):
        self.held = held

    def __len__(self):
        return 8

    def __getitem__(self, number):
        generator = torch.Generator().manual_seed(number)
        return torch.randint(0, self.held.config["n_tokens"], (16,), generator=generator)


class Holder:
    def __init__(self, config):
        self.config = config


class Workers(Pair):
    def losses(self, model, optimizer, loader):
        found = []
        for _ in range(3):
            for batch in loader:
                logits = model(batch).float().flatten(0, 1)
                loss = nn.functional.cross_entropy(logits, batch.roll(-1, 1).flatten())
                loss.backward()
                optimizer.step()
                found.append(loss.item())
        return found

    def test_of_a_loader(self):
        """By fork, for every epoch or for all; their dataset has the model's config, or the model itself."""
        for persistent, holds_model in itertools.product((False, True), repeat=2):
            with self.subTest(persistent=persistent, holds_model=holds_model), tempfile.TemporaryDirectory() as folder:
                self.model, self.optimizer = boosted(device_budget="80KiB", nvme=[folder])
                self.twin, self.loop = plain()
                both = []
                for model, optimizer in ((self.model, self.optimizer), (self.twin, self.loop)):
                    model.config = {"n_tokens": 64}
                    dataset = Tokens(model if holds_model else Holder(model.config))
                    how = {"num_workers": 2, "multiprocessing_context": "fork", "persistent_workers": persistent}
                    both.append(self.losses(model, optimizer, DataLoader(dataset, batch_size=4, **how)))
                self.assertEqual(*both)
                self.assert_same_weights()

    def test_train_models_of_their_own(self):
        """Where the parent has imported castor, and trains."""
        self.step(0)
        expected = [backward_of(self.twin, 1)]

        def in_worker():
            import castor.booster  # noqa: F401

            model, optimizer = boosted()
            losses = [backward_of(model, 0)]
            optimizer.step()
            return [*losses, backward_of(model, 1)][1:]

        self.assertEqual(in_a_fork(in_worker), expected)

    def test_cannot_use_the_model(self):
        """Which says so; and neither its use nor its end there waits for threads of the parent."""
        self.step(0)

        def in_worker():
            calls = (
                lambda: loss_of(self.model, 0),
                lambda: self.model.blocks[0](torch.zeros(1, 1, 32), scale=1.0),
                self.model.state_dict,
                self.optimizer.step,
                self.optimizer.zero_grad,
                lambda: castor.master(self.model.head.weight),
                lambda: castor.gathered(self.model).__enter__(),
            )
            messages = refusals(calls)
            del self.model, self.optimizer, calls
            gc.collect()
            return messages

        messages = in_a_fork(in_worker)
        self.assertEqual(len(messages), 7)
        for message in messages:
            self.assertIn("was boosted in another process, of which this one is a fork", message)
        self.step(1)
        self.assert_same_weights()


class Scaled(torch.autograd.Function):
    """Saves its parameter as autograd knows it."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x * weight

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        return grad * weight, (grad * x).sum((0, 1))


class Projected(torch.autograd.Function):
    """Keeps its parameter as an attribute."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.x, ctx.weight = x.detach(), weight
        return x @ weight.t()

    @staticmethod
    def backward(ctx, grad):
        return grad @ ctx.weight, grad.flatten(0, 1).t() @ ctx.x.flatten(0, 1)


class Doubled(torch.autograd.Function):
    """Changes its input in place."""

    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


class WithFunctions(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(16))
        self.linear = nn.Linear(16, 16)
        self.weight = nn.Parameter(torch.randn(16, 16) / 4)

    def forward(self, x):
        return x + Projected.apply(Doubled.apply(self.linear(Scaled.apply(x, self.scale))), self.weight)


class Stack(nn.Module):
    def __init__(self, block):
        super().__init__()
        self.embedding = nn.Embedding(64, 16)
        self.blocks = nn.ModuleList(block() for _ in range(3))
        self.head = nn.Linear(16, 64)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class Functions(Twins):
    def test_of_autograd_in_a_block(self):
        self.check(lambda: Stack(WithFunctions), loss_of)


class Normalised(nn.Module):
    """Its hook computes a weight from parameters before forward, as torch.nn.utils.weight_norm does."""

    def __init__(self):
        super().__init__()
        self.direction = nn.Parameter(torch.randn(16, 16))
        self.length = nn.Parameter(torch.ones(16, 1))
        self.register_forward_pre_hook(Normalised.compute)

    def compute(self, _):
        self.weight = self.length * self.direction / self.direction.norm(dim=1, keepdim=True)

    def forward(self, x):
        return x + nn.functional.linear(x, self.weight)


@dataclasses.dataclass(frozen=True)
class Given:
    states: torch.Tensor
    more: object = None


@dataclasses.dataclass(slots=True)
class Slots:
    states: torch.Tensor


class Held:
    def __init__(self, states):
        self.states = [states]
        self.owner = self


class TwoSlots:
    __slots__ = ("states", "unset")

    def __init__(self, states):
        self.states = states


class Wrapping(nn.Module):
    def __init__(self, wrap):
        super().__init__()
        self.linear = nn.Linear(32, 32)
        self.wrap = wrap

    def forward(self, x):
        return self.wrap(self.linear(torch.tanh(x)))


class Results(SameWeights):
    """Blocks whose result is no tree of tuples, lists and dictionaries."""

    KINDS = (
        (Given, lambda given: given.states),
        (Slots, lambda given: given.states),
        (TwoSlots, lambda given: given.states),
        (lambda x: {x}, lambda given: given.pop()),
        (lambda x: Given(None, Given(x)), lambda given: given.more.states),
        (lambda x: types.SimpleNamespace(states=x), lambda given: given.states),
        (lambda x: collections.deque([x]), lambda given: given[0]),
        (Held, lambda given: given.states[0]),
    )

    def trained(self, wrap, taken_from, boosts):
        torch.manual_seed(0)
        model = nn.ModuleList(Wrapping(wrap) for _ in range(6)).bfloat16()
        loop = boost(model, device_budget="10KiB", chunk_bytes="2KiB") if boosts else plain_loop_of(model)
        for seed in range(3):
            x = torch.randn(4, 32, generator=torch.Generator().manual_seed(seed)).bfloat16()
            for block in model:
                x = taken_from(block(x))
            x.float().square().mean().backward()
            loop.step()
        return model.state_dict()

    def test_of_any_kind(self):
        for wrap, taken_from in self.KINDS:
            with self.subTest(wrap):
                self.assert_same(self.trained(wrap, taken_from, True), self.trained(wrap, taken_from, False))


class State:
    def __init__(self, x):
        self.x = x


class Changing(nn.Module):
    """Changes its argument, and has no result."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(32, 32)

    def forward(self, state):
        state.x = state.x + self.linear(torch.tanh(state.x))


class Row(nn.Module):
    """Of blocks that hand on `state`, or that leave what they compute in a list or behind an iterator."""

    def __init__(self, how):
        super().__init__()
        self.how = how
        self.blocks = nn.ModuleList((Changing() if how == "argument" else Leaving(how)) for _ in range(6))

    def forward(self, x):
        state = State(x)
        for block in self.blocks:
            given = block(state) if self.how == "argument" else block(state.x)
            if self.how != "argument":
                state.x = next(given) if given else block.left.pop()
        return state.x


class Leaving(nn.Module):
    def __init__(self, how):
        super().__init__()
        self.how = how
        self.linear = nn.Linear(32, 32)
        self.left = []

    def forward(self, x):
        y = x + self.linear(torch.tanh(x))
        if self.how == "iterator":
            return iter([y])
        self.left.append(y)


class Hidden(Twins):
    """Results of blocks that are neither in what they return nor in tensors that they take."""

    @staticmethod
    def loss(model, seed):
        return model(torch.randn(4, 32, generator=torch.Generator().manual_seed(seed))).square().mean()

    def test_in_arguments_are_found(self):
        model, optimizer = self.boosted_twin(lambda: Row("argument"), device_budget="10KiB", chunk_bytes="2KiB")
        self.steps(model, optimizer, self.loss, range(1))
        self.check(lambda: Row("argument"), self.loss)

    def test_elsewhere_stay_in_memory(self):
        for how in ("attribute", "iterator"):
            with self.assertLogs("castor", "WARNING") as logged:
                self.check(lambda: Row(how), self.loss)
            self.assertIn("blocks.0 hands on what it computes in a way that Castor does not see", logged.output[0])
        with self.assertRaisesRegex(castor.Error, "device_budget"):
            model, optimizer = self.boosted_twin(lambda: Row("attribute"), device_budget="10KiB", chunk_bytes="2KiB")
            self.steps(model, optimizer, self.loss, range(1))
        model, optimizer = self.boosted_twin(
            lambda: Row("attribute"), device_budget="10KiB", chunk_bytes="2KiB", units=[nn.Linear]
        )
        self.steps(model, optimizer, self.loss, range(2))

    def test_in_arguments_are_found_while_an_exception_is_handled(self):
        """As where a step is taken again after one."""
        twin, loop = self.plain_twin(lambda: Row("argument"))
        model, optimizer = self.boosted_twin(lambda: Row("argument"), device_budget="10KiB", chunk_bytes="2KiB")
        for one, its in ((model, optimizer), (twin, loop)):
            try:
                raise ValueError
            except ValueError:
                self.steps(one, its, self.loss, range(2))
        self.assert_same(model.state_dict(), twin.state_dict())

    def test_elsewhere_take_micro_batches_and_dropped_gradients(self):
        twin, loop = self.plain_twin(lambda: Row("attribute"))
        model, optimizer = self.boosted_twin(lambda: Row("attribute"), device_budget="60KiB", chunk_bytes="2KiB")
        for one, its, drop in ((model, optimizer, optimizer.zero_grad), (twin, loop, loop.sums.clear)):
            for seed in range(3):
                self.loss(one, seed + 3).backward()
                loss = self.loss(one, seed + 6)
                drop()
                loss.backward()
                self.loss(one, seed).backward()
                its.step()
        self.assert_same(model.state_dict(), twin.state_dict())

    def test_elsewhere_hold_no_arguments(self):
        """Whose object may have the model."""
        model, optimizer = self.boosted_twin(lambda: Row("attribute"))
        taken = []
        for block in model.blocks:
            block.register_forward_pre_hook(lambda module, args: taken.append(weakref.ref(args[0])))
        self.steps(model, optimizer, self.loss, range(1))
        gc.collect()
        self.assertEqual([one() for one in taken], [None] * 6)
        gone = weakref.ref(optimizer.castor_session)
        del model, optimizer, block
        gc.collect()
        self.assertIsNone(gone())

    def test_are_not_where_no_graph_is_left(self):
        """Operators without gradients, a custom function without, or of frozen weights, and numbers from weights."""

        class Twice(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return 2 * x

            @staticmethod
            def backward(ctx, gradient):
                return 2 * gradient

        class Gate(nn.Module):
            def __init__(self, compute):
                super().__init__()
                self.linear = nn.Linear(32, 32)
                self.compute = compute

            def forward(self, x):
                return self.compute(self.linear, x)

        class Gated(nn.Module):
            def __init__(self, compute):
                super().__init__()
                self.gates = nn.ModuleList(Gate(compute) for _ in range(6))
                self.linear = nn.Linear(32, 32)

            def forward(self, x):
                for gate in self.gates:
                    x = torch.where(gate(x) > 0, x, 2 * x)
                return self.linear(x)

        kinds = {
            "no_grad": torch.no_grad()(lambda linear, x: linear(x)),
            "a function under no_grad": torch.no_grad()(lambda linear, x: Twice.apply(linear(x))),
            "a function of frozen weights": lambda linear, x: Twice.apply(linear.requires_grad_(False)(x)),
            "numbers": lambda linear, x: linear(x).argmax(-1, keepdim=True),
        }
        for name, compute in kinds.items():
            with self.subTest(name), self.assertNoLogs("castor", "WARNING"):
                twin, loop = self.plain_twin(lambda: Gated(compute))
                model, optimizer = self.boosted_twin(lambda: Gated(compute), device_budget="10KiB", chunk_bytes="2KiB")
                for one, its in ((model, optimizer), (twin, loop)):
                    self.steps(one, its, self.loss, range(3))
                self.assert_same(model.state_dict(), twin.state_dict())


class Hooks(Twins):
    def test_before_forward_may_read_parameters(self):
        self.check(lambda: Stack(Normalised), loss_of)

    def test_of_modules_see_what_a_plain_model_has(self):
        kinds = {
            "register_forward_pre_hook": lambda module, args: args[0].float().sum().item(),
            "register_forward_hook": lambda module, args, result: args[0].float().sum().item(),
            "register_full_backward_hook": lambda module, into, out: out[0].float().sum().item(),
            "register_full_backward_pre_hook": lambda module, out: out[0].float().sum().item(),
        }

        def register(model, seen):
            for (name, module), (kind, read) in itertools.product(model.named_modules(), kinds.items()):
                if isinstance(module, (nn.Linear, nn.LayerNorm, nn.Embedding)):
                    getattr(module, kind)(lambda *args, at=(name, kind), read=read: seen.append((at, read(*args))))

        for before in (True, False):
            with self.subTest(before=before):
                model, twin, seen, expected = made(), made(), [], []
                register(twin, expected)
                if before:
                    register(model, seen)
                optimizer, loop = boost(model), plain_loop_of(twin)
                if not before:
                    register(model, seen)
                self.assertEqual(self.steps(model, optimizer, loss_of, range(2)), self.steps(twin, loop, loss_of, range(2)))
                self.assertEqual(seen, expected)
                self.assertEqual({kind for (_, kind), _ in seen}, set(kinds))
                self.assert_same(model.state_dict(), twin.state_dict())

    def test_of_all_modules_see_what_a_plain_model_has(self):
        seen = {}
        handles = [
            nn.modules.module.register_module_forward_hook(lambda module, *_: seen[self.running].append(type(module))),
            nn.modules.module.register_module_full_backward_hook(lambda module, *_: seen[self.running].append(type(module))),
        ]
        for handle in handles:
            self.addCleanup(handle.remove)
        for self.running, model in (("boosted", made()), ("plain", made())):
            seen[self.running] = []
            optimizer = boost(model) if self.running == "boosted" else plain_loop_of(model)
            self.steps(model, optimizer, loss_of, range(2))
        self.assertEqual(seen["boosted"], seen["plain"])

    def test_of_gradients_change_them(self):
        """Before and after accumulation, registered before and after boosting, and removed."""

        def register(model):
            weight = model.blocks[1].norm.weight
            return [
                weight.register_hook(lambda grad: grad * 0.5),
                weight.register_post_accumulate_grad_hook(triple),
                model.head.weight.register_post_accumulate_grad_hook(halve),
            ]

        def triple(parameter):
            parameter.grad.mul_(3)

        def halve(parameter):
            parameter.grad = parameter.grad * 0.5

        for before in (True, False):
            with self.subTest(before=before):
                model, twin = made(torch.float32), made(torch.float32)
                if before:
                    handles = register(model)
                optimizer = boost(model)
                if not before:
                    handles = register(model)
                handles += register(twin)
                loop = plain_loop_of(twin)
                for seeds in (range(2), range(2, 4)):
                    self.steps(model, optimizer, loss_of, seeds)
                    self.steps(twin, loop, loss_of, seeds)
                    self.assert_same(model.state_dict(), twin.state_dict())
                    for handle in handles:
                        handle.remove()

    def test_of_optimizers_are_called(self):
        model = made()
        optimizer = torch.optim.AdamW(model.parameters(), **VALUES)
        called = []
        kinds = ("step_pre", "step_post", "state_dict_pre", "state_dict_post", "load_state_dict_pre", "load_state_dict_post")
        for kind in kinds:
            getattr(optimizer, f"register_{kind}_hook")(lambda *_, kind=kind: called.append(kind))
        optimizer.register_state_dict_post_hook(lambda _, state_dict: {**state_dict, "mine": 1})
        boost(model, optimizer)
        loss_of(model, 0).backward()
        optimizer.step()
        state_dict = optimizer.state_dict()
        optimizer.load_state_dict(state_dict)
        self.assertEqual(called, list(kinds))
        self.assertEqual(state_dict["mine"], 1)


class Scaler(Pair):
    def test_of_torch_is_refused(self):
        """At its step, or at the backward pass where gradients are fp16; the next step is right."""
        scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
        scaler.scale(loss_of(self.model, 9)).backward()
        with self.assertRaisesRegex(castor.Error, "GradScaler .* zero_grad.* optimizer.backward"):
            scaler.step(self.optimizer)
        with self.assertRaisesRegex(RuntimeError, "is with Castor"):
            scaler.unscale_(self.optimizer)
        self.optimizer.zero_grad()
        self.step(0)
        self.assert_same_weights()
        model = made(torch.float32)
        boost(model, precision="fp16")
        with self.assertRaisesRegex(castor.Error, r"call optimizer.backward\(loss\)"):
            scaler.scale(loss_of(model, 0)).backward()

    def test_that_is_off_is_served(self):
        scaler = torch.amp.GradScaler("cpu", enabled=False)
        for seed in range(2):
            scaler.scale(loss_of(self.model, seed)).backward()
            scaler.unscale_(self.optimizer)
            scaler.step(self.optimizer)
            scaler.update()
            loss_of(self.twin, seed).backward()
            self.loop.step()
        self.assert_same_weights()


class Copies(Pair):
    def test_of_a_block_are_plain_modules(self):
        with castor.gathered(self.model):
            copied, expected = copy.deepcopy(self.model.blocks[0]), copy.deepcopy(self.twin.blocks[0])
        x = torch.randn(2, 8, 32).bfloat16()
        for block in (copied, expected):
            block(x, scale=0.5)["x"][0].float().sum().backward()
        for mine, other in zip(copied.parameters(), expected.parameters()):
            self.assertTrue(torch.equal(mine.grad, other.grad))
        self.step(0)
        self.assert_same_weights()


class Functional(Pair):
    def test_calls_with_other_weights(self):
        """Right where no gradient is asked for, or of a block; otherwise refused by name."""
        others = {name: weight.detach() + 1 for name, weight in self.twin.named_parameters()}
        tokens = torch.arange(12).view(2, 6)

        def call(model):
            with torch.no_grad():
                return torch.func.functional_call(model, others, (tokens,)).tolist()

        def gradients(model):
            weights = {name: weight.clone().requires_grad_() for name, weight in others.items() if "blocks.1." in name}
            weights = {name.removeprefix("blocks.1."): weight for name, weight in weights.items()}
            x = torch.ones(1, 2, 32, dtype=torch.bfloat16)
            result = torch.func.functional_call(model.blocks[1], weights, (x,), {"scale": 0.5})["x"][0].sum()
            return [grad.tolist() for grad in torch.autograd.grad(result, list(weights.values()))]

        for seed in range(2):
            self.both(call)
            self.both(gradients)
            self.step(seed)
        self.assert_same_weights()
        with self.assertRaisesRegex(castor.Error, "in place of its parameter embedding.weight, .*functional_call"):
            torch.func.functional_call(self.model, others, (tokens,))

    def test_transforms(self):
        """vmap is right; a gradient by torch.func is one of gradients, and refused."""
        x = torch.linspace(-1, 1, 192, dtype=torch.bfloat16).view(3, 2, 32)

        def mapped(model):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # attention has no operator for it
                return torch.func.vmap(lambda row: model.blocks[0](row[None], scale=0.5)["x"][0])(x).tolist()

        def sum_of(row):
            return self.model.blocks[0](row, scale=0.5)["x"][0].float().sum()

        for seed in range(2):
            self.both(mapped)
            with self.assertRaisesRegex(castor.Error, "a gradient of gradients"):
                torch.func.grad(sum_of)(x[:1])
            self.step(seed)
        self.assert_same_weights()


class Groups(Pair):
    @staticmethod
    def groups(model):
        norms = [block.norm.weight for block in model.blocks]
        biases = [block.norm.bias for block in model.blocks]
        others = [p for p in model.parameters() if not any(p is known for known in (*norms, *biases))]
        return [{"params": norms, "lr": 0.5}, {"params": biases}, {"params": others}]

    def setUp(self):
        self.model, self.optimizer = boosted(groups=self.groups)
        self.twin, self.loop = plain(groups=self.groups)
        self.step(0)

    def test_that_exchange_parameters_are_followed(self):
        """Also where no group has another size afterwards."""
        for groups in (self.optimizer.param_groups, self.loop.groups):
            groups[0]["params"][1], groups[1]["params"][1] = groups[1]["params"][1], groups[0]["params"][1]
        self.step(1)
        self.assert_same_weights()

    def test_that_lose_a_parameter_are_refused_by_name(self):
        last = self.optimizer.param_groups[1]["params"].pop()
        loss_of(self.model, 9).backward()
        with self.assertRaisesRegex(castor.Error, "blocks.2.norm.bias requires a gradient and is in no group"):
            self.optimizer.step()
        self.optimizer.zero_grad()
        self.optimizer.param_groups[1]["params"].append(last)
        self.step(1)
        self.assert_same_weights()

    def test_that_gain_an_unknown_parameter_are_refused(self):
        self.optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(3))]})
        loss_of(self.model, 9).backward()
        with self.assertRaisesRegex(castor.Error, r"sizes \(3,\) that the model does not have"):
            self.optimizer.step()


class Gan(nn.Module):
    def __init__(self):
        super().__init__()
        self.generator = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8))
        self.critic = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))


class SeveralModels(SameWeights):
    def test_with_an_optimizer_each_in_one_module(self):
        """A generator and its critic, which is frozen while it trains the other."""

        def run(boosts, freezes):
            torch.manual_seed(0)
            gan = Gan()
            parts = (gan.critic, gan.generator)
            how = {"device_budget": "8KiB", "chunk_bytes": "1KiB"}
            critics, generators = (boost(part, **how) if boosts else plain_loop_of(part) for part in parts)
            losses = []
            for seed in range(4):
                noise, real = torch.randn(2, 4, 8, generator=torch.Generator().manual_seed(seed))
                loss = (gan.critic(gan.generator(noise).detach()) - 1).square().mean() + gan.critic(real).square().mean()
                loss.backward()
                critics.step()
                if freezes:
                    gan.critic.requires_grad_(False)
                other = gan.critic(gan.generator(noise)).square().mean()
                other.backward()
                generators.step()
                gan.critic.requires_grad_(True)
                critics.zero_grad() if boosts else critics.sums.clear()
                losses += [loss.item(), other.item()]
            return losses, gan.state_dict()

        for freezes in (False, True):
            (losses, weights), (expected_losses, expected) = run(True, freezes), run(False, freezes)
            self.assertEqual(losses, expected_losses)
            self.assert_same(weights, expected)

    def test_of_which_one_teaches_the_other(self):
        """The teacher is boosted too, and follows the student as an average of its weights."""

        def average(teacher, student):
            with torch.no_grad():
                for kept, weight in zip(teacher.parameters(), student.parameters()):
                    kept.lerp_(weight, 0.25)

        def run(boosts):
            torch.manual_seed(0)
            student, teacher = TiedModel(), TiedModel().requires_grad_(False)
            optimizer = boost(student) if boosts else plain_loop_of(student)
            if boosts:
                boost(teacher)
            losses = []
            for seed in range(3):
                tokens = torch.randint(0, 64, (2, 8), generator=torch.Generator().manual_seed(seed))
                with torch.no_grad():
                    wanted = teacher(tokens)
                loss = nn.functional.mse_loss(student(tokens), wanted)
                loss.backward()
                optimizer.step()
                with contextlib.ExitStack() as stack:
                    if boosts:
                        stack.enter_context(castor.gathered(student))
                        stack.enter_context(castor.gathered(teacher, write=True))
                    average(teacher, student)
                losses.append(loss.item())
            return losses, student.state_dict(), teacher.state_dict()

        mine, expected = run(True), run(False)
        self.assertEqual(mine[0], expected[0])
        self.assert_same(mine[1], expected[1])
        self.assert_same(mine[2], expected[2])


class Sharing(Pair):
    def test_of_memory_with_other_processes_is_refused(self):
        """For which torch would end the process."""
        self.step(0)
        with self.assertRaisesRegex(castor.Error, "cannot be moved"):
            self.model.share_memory()
        with self.assertRaisesRegex(castor.Error, "cannot be shared with other processes"):
            self.model.blocks[1].share_memory()
        self.assertFalse(self.model.head.weight.is_shared())
        with self.assertRaisesRegex(castor.Error, "cannot be an argument of another process"):
            multiprocessing.get_context("spawn").Process(target=print, args=(self.model,)).start()
        self.step(1)
        self.assert_same_weights()
