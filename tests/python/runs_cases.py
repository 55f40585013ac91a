# SPDX-License-Identifier: Apache-2.0
"""What save_optimizer keeps, and how one run takes the place of another in a folder."""

import itertools
import os

import torch
from torch import nn

import castor
from castor.booster import Booster
from castor.booster.plugin import GeminiPlugin
from files_cases import Files
from saves_cases import in_child, killed_at, saved_within


class Run:
    """A model whose weights all are `-rate` times the number of its steps: their gradients are 1."""

    def __init__(self, make=lambda parameters: torch.optim.SGD(parameters, lr=0.5), model=None, **options):
        self.model = nn.Linear(8, 8) if model is None else model
        for parameter in self.model.parameters() if model is None else ():
            nn.init.zeros_(parameter)
        self.optimizer = make(self.model.parameters())
        self.booster = Booster(plugin=GeminiPlugin(precision=None, **options))
        self.booster.boost(self.model, self.optimizer)

    def steps(self, n_steps):
        for _ in range(n_steps):
            self.model(torch.ones(1, 8)).sum().backward()
            self.optimizer.step()
        return self

    def save(self, folder):
        self.booster.save_optimizer(self.optimizer, folder)
        return self

    def load(self, folder):
        self.booster.load_optimizer(self.optimizer, folder)
        return self

    def values(self):
        return {value for parameter in self.model.parameters() for value in castor.master(parameter).flatten().tolist()}

    def rates(self):
        return [group["lr"] for group in self.optimizer.param_groups]


def sgd(rate):
    return lambda parameters: torch.optim.SGD(parameters, lr=rate)


def saved(rate, n_steps, folder):
    Run(sgd(rate)).steps(n_steps).save(folder)
    return True


def loaded(folder):
    run = Run(sgd(8.0)).load(folder)
    return run.values(), run.rates()


class Replaced(Files):
    def test_by_a_new_run(self):
        """As of a script that is started again."""
        saved(0.5, 2, self.folder / "run")
        n_bytes = sum(file.stat().st_size for file in (self.folder / "run").iterdir())
        (self.folder / "run/notes").write_text("mine")
        saved(0.25, 3, self.folder / "run")
        self.assertEqual(loaded(self.folder / "run"), ({-0.75}, [0.25]))
        self.assertEqual((self.folder / "run/notes").read_text(), "mine")
        self.assertEqual(len([*(self.folder / "run").iterdir()]), 4)
        self.assertLess(sum(file.stat().st_size for file in (self.folder / "run").iterdir()), n_bytes * 1.2)

    def test_by_the_same_run_and_one_that_goes_on(self):
        run = Run(sgd(0.5)).steps(1).save(self.folder).steps(1).save(self.folder)
        self.assertEqual(loaded(self.folder), ({-1.0}, [0.5]))
        run.steps(1)
        Run(sgd(8.0)).load(self.folder).steps(2).save(self.folder).steps(1).save(self.folder)
        self.assertEqual(loaded(self.folder), ({-2.5}, [0.5]))
        run.save(self.folder)
        self.assertEqual(loaded(self.folder), ({-1.5}, [0.5]))

    def test_only_when_the_new_one_is_whole(self):
        """Wherever the process ends, there is the old run or the new one, each with its values."""
        for name in ("replace", "fsync", "unlink"):
            seen = []
            for number in itertools.count():
                in_child(lambda: saved(0.5, 2, self.folder))
                ended = in_child(lambda: saved_within(killed_at(number, name), lambda: saved(0.25, 3, self.folder)))
                seen.append(in_child(lambda: loaded(self.folder)))
                if ended:
                    break
            self.assertEqual(seen[-1], ({-0.75}, [0.25]))
            self.assertTrue(all(found in (({-1.0}, [0.5]), ({-0.75}, [0.25])) for found in seen), seen)
            self.assertEqual(len([*self.folder.iterdir()]), 3)

    def test_before_a_first_step(self):
        Run(sgd(0.25)).save(self.folder)
        run = Run(sgd(0.5)).steps(1).load(self.folder)
        self.assertEqual((run.values(), run.rates()), ({0.0}, [0.25]))
        self.assertEqual(run.steps(2).values(), {-0.5})
        with self.assertRaisesRegex(castor.Error, "have no values yet"):
            Run(model=nn.Linear(8, 8, device="meta")).save(self.folder)

    def test_not_by_an_error(self):
        saved(0.5, 2, self.folder / "run")
        run = Run(sgd(0.25), micro_batches=1)
        run.model(torch.ones(1, 8)).sum().backward()  # the last before the step, so it may update
        for name in ("run", "new"):
            with self.assertRaisesRegex(castor.Error, "a step is under way; end it with step"):
                run.save(self.folder / name)
        self.assertEqual(loaded(self.folder / "run"), ({-1.0}, [0.5]))
        self.assertEqual([path.name for path in self.folder.iterdir()], ["run"])
        (self.folder / "file").write_text("")
        with self.assertRaisesRegex(castor.Error, "file is a file; name a folder"):
            saved(0.25, 1, self.folder / "file")
        with self.assertRaisesRegex(castor.Error, "cannot write /proc/run: No such file or directory"):
            saved(0.25, 1, "/proc/run")

    def test_between_two_micro_batches(self):
        """As of the last step: its own gradients stay with the step that goes on. Under each home of the states."""
        stored = {"nvme": [str(self.folder / "nvme")], "nvme_offload_fraction": 1.0}
        for number, options in enumerate(({}, {"micro_batches": 2}, stored, {**stored, "durability": "commit"})):
            with self.subTest(**options):
                (self.folder / "nvme").mkdir(exist_ok=True)
                run = Run(sgd(0.5), **options)
                for n_steps in range(3):
                    run.model(torch.ones(1, 8)).sum().backward()
                    run.save(self.folder / ("nvme" if "durability" in options else f"run{number}"))
                    self.assertEqual((self.folder / "nvme/castor.manifest").exists(), "durability" in options)
                    self.assertEqual(run.values(), {-1.0 * n_steps})
                    with castor.gathered(run.model):
                        self.assertEqual(set(run.model.bias.tolist()), {-1.0 * n_steps})
                    run.booster.save_model(run.model, self.folder / f"model{number}")
                    run.steps(1)
                self.assertEqual(run.values(), {-3.0})
                del run
                if "durability" not in options:
                    self.assertEqual(loaded(self.folder / f"run{number}"), ({-2.0}, [0.5]))
                else:
                    again = Run(sgd(0.25), **options).load(self.folder / "nvme")
                    self.assertEqual((again.values(), again.rates()), ({-2.0}, [0.5]))
                alone = nn.Linear(8, 8)
                Booster().load_model(alone, self.folder / f"model{number}")
                self.assertEqual(set(alone.weight.flatten().tolist()), {-2.0})

    def test_between_micro_batches_leaves_the_plan(self):
        """Of moves: a step in which values are read moves more, and those after it what they moved before."""
        nvme_bytes, planned = [], []
        (self.folder / "nvme").mkdir()
        model = nn.Sequential(*(nn.Linear(96, 96) for _ in range(10)))
        budgets = {"device_budget": "200KiB", "host_budget": "700KiB", "chunk_bytes": "40KiB"}
        run = Run(torch.optim.AdamW, model, micro_batches=2, nvme=[str(self.folder / "nvme")], **budgets)
        for step in range(14):
            for micro_batch in range(2):
                model(torch.ones(2, 96)).square().sum().backward()
                if step == 8 and micro_batch == 0:
                    run.save(self.folder / "run")
            run.optimizer.step()
            stats = castor.stats(model)
            nvme_bytes.append(stats["moved_bytes"]["nvme_read"])
            planned.append(stats["bound_by"] is not None)
        self.assertEqual(planned[4:], [True] * 10)
        by_step = [later - before for before, later in zip(nvme_bytes, nvme_bytes[1:])]
        self.assertGreater(by_step[7], 1.3 * by_step[6])
        self.assertLess(max(by_step[8:]), 1.2 * by_step[6])

    def test_not_where_a_store_is_in_use(self):
        """The folder in which another run commits."""
        folder = self.folder / "nvme"
        folder.mkdir()
        run = Run(nvme=[str(folder)], nvme_offload_fraction=1.0, durability="commit").steps(1)
        names = {path.name for path in folder.iterdir()}
        with self.assertRaisesRegex(castor.Error, "nvme: a run keeps a store there; wait .* or name another folder"):
            saved(0.25, 1, folder)
        self.assertEqual({path.name for path in folder.iterdir()}, names)
        self.assertEqual(run.steps(1).values(), {-1.0})

    def test_options_are_checked(self):
        run = Run().steps(1)
        for what, options in {
            "save_optimizer has no option shrad; did you mean shard?": {"shrad": True},
            "save_optimizer has no option anything": {"anything": 3},
            "gather_dtensor is False": {"gather_dtensor": False},
            "use_async is True": {"use_async": True},
            "prefix is given": {"prefix": "a"},
            "size_per_shard is -5": {"size_per_shard": -5},
        }.items():
            with self.assertRaisesRegex(castor.Error, what) as caught:
                run.booster.save_optimizer(run.optimizer, self.folder / "run", **options)
            self.assertEqual(caught.exception.kind, "usage")
        self.assertFalse([*self.folder.iterdir()])
        run.booster.save_optimizer(run.optimizer, self.folder / "run", shard=True, size_per_shard=1024)
        self.assertEqual(loaded(self.folder / "run"), ({-0.5}, [0.5]))


def adam_groups(model, **values):
    """Decay for matrices alone."""
    matrices = [parameter for parameter in model.parameters() if parameter.dim() > 1]
    vectors = [parameter for parameter in model.parameters() if parameter.dim() < 2]
    return torch.optim.AdamW([{"params": matrices}, {"params": vectors, "weight_decay": 0.0}], **values)


def net(seed):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 8))


def train(model, optimizer, seeds, scheduler=None):
    for seed in seeds:
        optimizer.zero_grad()
        model(torch.randn(4, 8, generator=torch.Generator().manual_seed(seed))).square().mean().backward()
        optimizer.step()
        if scheduler is not None:
            scheduler.step()


class Groups(Files):
    def pair(self, seed, **values):
        """A boosted model with its optimizer, and the same in torch alone."""
        model, twin = net(seed), net(seed)
        run = Run(lambda _: adam_groups(model, **values), model=model)
        return run, twin, adam_groups(twin, **values)

    def assert_close(self, model, twin):
        for name, values in twin.state_dict().items():
            torch.testing.assert_close(model.state_dict()[name], values, rtol=1e-5, atol=1e-6)

    def test_go_on_with_the_values_that_were_saved(self):
        """As torch's load_state_dict: those of the last step, and a rate that no step has used yet."""
        run, twin, its_optimizer = self.pair(0, lr=5e-3, weight_decay=0.3, betas=(0.8, 0.95))
        schedulers = [torch.optim.lr_scheduler.ExponentialLR(each, 0.5) for each in (run.optimizer, its_optimizer)]
        train(run.model, run.optimizer, range(2), schedulers[0])
        train(twin, its_optimizer, range(2), schedulers[1])
        run.optimizer.param_groups[1]["lr"] = its_optimizer.param_groups[1]["lr"] = 0.125
        run.save(self.folder)
        other, other_twin, other_optimizer = self.pair(1, lr=0.01)
        with self.assertNoLogs("castor", "WARNING"):
            other.load(self.folder)
        other_twin.load_state_dict(twin.state_dict())
        other_optimizer.load_state_dict(its_optimizer.state_dict())
        self.assertEqual(other.rates(), [5e-3 / 4, 0.125])
        for mine, its in zip(other.optimizer.param_groups, other_optimizer.param_groups):
            self.assertEqual({**mine, "params": None}, {**its, "params": None})
        schedulers = [
            torch.optim.lr_scheduler.LambdaLR(each, lambda step: 0.5**step, last_epoch=2)
            for each in (other.optimizer, other_optimizer)
        ]
        train(other.model, other.optimizer, range(2, 5), schedulers[0])
        train(other_twin, other_optimizer, range(2, 5), schedulers[1])
        self.assert_close(other.model, other_twin)
        self.assertEqual(other.rates(), [group["lr"] for group in other_optimizer.param_groups])

    def test_are_found_by_the_names_of_their_parameters(self):
        run, _, _ = self.pair(0, lr=5e-3)
        train(run.model, run.optimizer, range(1))
        run.optimizer.param_groups[1]["lr"] = 0.125
        run.save(self.folder)
        one_each = Run(lambda ps: torch.optim.AdamW([{"params": [p]} for p in ps], lr=1.0), model=net(0))
        with self.assertLogs("castor", "WARNING"):  # of the groups themselves
            one_each.load(self.folder)
        self.assertEqual(one_each.rates(), [5e-3, 0.125, 5e-3, 0.125])
        together = Run(lambda ps: torch.optim.AdamW(ps, lr=1.0, eps=1e-3), model=net(1))
        before = together.model.state_dict()
        with self.assertRaisesRegex(castor.Error, r"group 0 has parameters that were saved .* \(weight_decay 0.01 and 0.0\)"):
            together.load(self.folder)
        self.assertEqual((together.rates(), together.optimizer.param_groups[0]["eps"]), ([1.0], 1e-3))
        self.assert_same(together.model.state_dict(), before)

    def test_stay_where_nothing_is_loaded(self):
        run, _, _ = self.pair(0, lr=5e-3)
        train(run.model, run.optimizer, range(1))
        run.save(self.folder)
        other = Run(lambda ps: torch.optim.AdamW(ps, lr=1.0), model=nn.Linear(8, 8))
        with self.assertRaisesRegex(castor.Error, "parameter"):
            other.load(self.folder)
        self.assertEqual(other.rates(), [1.0])
        (groups,) = self.folder.glob("*.groups")
        os.truncate(groups, groups.stat().st_size // 2)
        with self.assertRaisesRegex(castor.Error, f"cannot read {groups}"):
            self.pair(1)[0].load(self.folder)

    def test_of_a_run_that_the_core_has_saved(self):
        """Without a file of groups those of the optimizer stay, and a warning names what differs."""
        run, _, _ = self.pair(0, lr=5e-3)
        train(run.model, run.optimizer, range(1))
        run.optimizer.castor_session.save(str(self.folder / "run"))
        other, _, _ = self.pair(1, lr=0.25)
        with self.assertLogs("castor", "WARNING"):
            other.load(self.folder / "run")
        self.assertEqual(other.rates(), [0.25, 0.25])


class WithRandomNumbers(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Dropout(0.5), nn.Linear(16, 8))

    def forward(self, x):
        return self.inner(x).square().mean()


class AllOfARun(Files):
    def test_goes_on_as_the_readme_says(self):
        """Weights and buffers, states, scheduler, random numbers, and the place in the data."""
        data = torch.randn(24, 8, generator=torch.Generator().manual_seed(1))

        def make(seed):
            torch.manual_seed(seed)
            run = Run(lambda ps: torch.optim.AdamW(ps, lr=0.01), model=WithRandomNumbers())
            scheduler = torch.optim.lr_scheduler.StepLR(run.optimizer, 1, 0.5)
            return run, scheduler, run.booster.plugin.prepare_dataloader(data, batch_size=4, shuffle=True, seed=3)

        def epoch(run, scheduler, loader):
            for batch in loader:
                run.model(batch).backward()
                run.optimizer.step()
            scheduler.step()

        run, scheduler, loader = make(0)
        epoch(run, scheduler, loader)
        run.booster.save_model(run.model, self.folder / "model.safetensors")
        run.booster.save_optimizer(run.optimizer, self.folder / "optimizer")
        run.booster.save_lr_scheduler(scheduler, self.folder / "scheduler")
        torch.save({"epoch": 1, "random": torch.get_rng_state()}, self.folder / "rest")
        epoch(run, scheduler, loader)
        other, its_scheduler, its_loader = make(1)
        other.booster.load_model(other.model, self.folder / "model.safetensors")
        other.booster.load_optimizer(other.optimizer, self.folder / "optimizer")
        other.booster.load_lr_scheduler(its_scheduler, self.folder / "scheduler")
        rest = torch.load(self.folder / "rest")
        its_loader.sampler.set_epoch(rest["epoch"])
        torch.set_rng_state(rest["random"])
        epoch(other, its_scheduler, its_loader)
        self.assert_same(other.model.state_dict(), run.model.state_dict())
        self.assertEqual(other.rates(), run.rates())


