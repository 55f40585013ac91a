# SPDX-License-Identifier: Apache-2.0
"""Lightning's Trainer around a boosted LightningModule: the bits of the same Trainer around plain torch operations."""

import copy
import gc
import logging
import pathlib
import pickle
import tempfile
import unittest
import warnings
import weakref

import torch
from torch import nn

import castor
from castor.booster import Booster
from castor.booster.plugin import GeminiPlugin
from integrations_cases import PlainOptimizer
from pairs import VALUES, SameWeights
from where import DEVICE, small_budget

try:
    import lightning.pytorch as pl

    from castor.integrations.lightning import CastorStrategy
except ImportError:
    pl = None

N_BATCHES = 7


class Rows(torch.utils.data.Dataset):
    def __init__(self, n_rows=4 * N_BATCHES, seed=1):
        self.rows = torch.randn(n_rows, 32, generator=torch.Generator().manual_seed(seed))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


def loader(**options):
    return torch.utils.data.DataLoader(Rows(**options), batch_size=4)


if pl:

    class Module(pl.LightningModule):
        def __init__(self, plain=False, clips=0.0):
            super().__init__()
            torch.manual_seed(0)
            blocks = [nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32), nn.LayerNorm(32)) for _ in range(4)]
            self.layers = nn.Sequential(nn.Linear(32, 32), *blocks, nn.BatchNorm1d(32))
            self.plain, self.clips, self.losses, self.validated = plain, clips, [], []

        def training_step(self, batch, i):
            loss = (self.layers(batch) - batch.roll(1, 1).to(self.layers[0].weight.dtype)).square().mean()
            self.losses.append(loss.item())
            return loss

        def validation_step(self, batch, i):
            self.validated.append(self.layers(batch).square().mean().item())
            self.log("validated", self.validated[-1])

        test_step = validation_step

        def configure_optimizers(self):
            optimizer = PlainOptimizer(self, self.clips) if self.plain else torch.optim.AdamW(self.parameters(), **VALUES)
            return [optimizer], [torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.8)]

    class Manual(Module):
        def __init__(self, **options):
            super().__init__(**options)
            self.automatic_optimization = False

        def training_step(self, batch, i):
            optimizer = self.optimizers()
            optimizer.zero_grad()
            self.manual_backward(super().training_step(batch, i))
            optimizer.step()


@unittest.skipUnless(pl, "lightning is not installed")
class Lightning(SameWeights):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
        warnings.simplefilter("ignore")
        self.addCleanup(warnings.resetwarnings)

    def trainer(self, strategy="auto", **options):
        options = {"max_epochs": 2, "logger": False, "enable_checkpointing": False, **options}
        quiet = {"enable_progress_bar": False, "enable_model_summary": False}
        accelerator = "cpu" if DEVICE.type == "cpu" else "cuda"
        root = self.folder.name
        return pl.Trainer(accelerator=accelerator, devices=1, strategy=strategy, default_root_dir=root, **quiet, **options)

    def strategy(self, **options):
        options = {"precision": None, "device_budget": small_budget("70KiB"), "placement_policy": "cpu", **options}
        return CastorStrategy(GeminiPlugin(chunk_bytes="18KiB", **options))

    def assert_trained_alike(self, module, twin):
        self.assertEqual(module.losses, twin.losses)
        self.assertEqual(module.validated, twin.validated)
        self.assert_same(module.state_dict(), twin.state_dict())

    def test_trains_as_the_plain_loop(self):
        for options in ({}, {"accumulate_grad_batches": 3}):  # the last step of an epoch has one micro-batch
            with self.subTest(**options):
                module, twin = Module(), Module(plain=True)
                self.trainer(**options).fit(twin, loader(), loader(n_rows=8, seed=2))
                self.trainer(self.strategy(), **options).fit(module, loader(), loader(n_rows=8, seed=2))
                self.assertEqual(len(module.losses), 2 * N_BATCHES)
                self.assert_trained_alike(module, twin)

    def test_clips(self):
        module, twin = Module(), Module(plain=True, clips=0.05)
        self.trainer(accumulate_grad_batches=2).fit(twin, loader())
        self.assertGreater(min(twin.optimizers().optimizer.norms), 0.05)
        self.trainer(self.strategy(), accumulate_grad_batches=2, gradient_clip_val=0.05).fit(module, loader())
        self.assert_trained_alike(module, twin)

    def test_tells_the_norm_through_its_wrapper(self):
        module, norms = Module(), []
        module.on_train_batch_end = lambda *_: norms.append((module.optimizers().get_grad_norm(), module.optimizers().skipped))
        self.trainer(self.strategy(), gradient_clip_val=0.05).fit(module, loader())
        self.assertTrue(all(norm > 0 and not skipped for norm, skipped in norms), norms)

    def test_a_module_that_its_scheduler_knows_is_freed(self):
        class Warming(Module):
            def configure_optimizers(self):
                optimizer = torch.optim.AdamW(self.parameters(), **VALUES)
                return [optimizer], [torch.optim.lr_scheduler.LambdaLR(optimizer, self.rate)]

            def rate(self, i):
                return 1 / (1 + i)

        module = Warming()
        self.trainer(self.strategy()).fit(module, loader())
        gone = weakref.ref(module), weakref.ref(module.optimizers().optimizer.castor_session)
        module.trainer = None
        del module
        gc.collect()
        self.assertEqual([each() for each in gone], [None, None])

    def test_a_copy_is_boosted_anew(self):
        module = Module()
        self.trainer(self.strategy()).fit(module, loader())
        for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
            self.trainer(self.strategy()).fit(other, loader())
            self.assertGreater(len(other.losses), len(module.losses))

    def test_optimizes_by_hand(self):
        module, twin = Manual(), Manual(plain=True)
        self.trainer().fit(twin, loader())
        self.trainer(self.strategy()).fit(module, loader())
        self.assert_trained_alike(module, twin)

    def test_precisions_are_the_plugins(self):
        for precision, dtype in (("bf16-mixed", torch.bfloat16), ("16-true", torch.float16), ("32-true", torch.float32)):
            with self.subTest(precision):
                module = Module()
                self.trainer(self.strategy(), precision=precision, max_epochs=4).fit(module, loader())
                self.assertEqual({parameter.dtype for parameter in module.parameters()}, {dtype})
                self.assertLess(sum(module.losses[-N_BATCHES:]), sum(module.losses[:N_BATCHES]))

    def test_goes_on_from_a_checkpoint(self):
        module, other = Module(), Module()
        path = pathlib.Path(self.folder.name) / "run.ckpt"
        trainer = self.trainer(self.strategy(), max_epochs=1)
        trainer.fit(module, loader())
        trainer.save_checkpoint(path)
        half = len(module.losses)
        self.trainer(self.strategy(), max_epochs=2).fit(other, loader(), ckpt_path=path)
        twin = Module(plain=True)
        self.trainer(max_epochs=2).fit(twin, loader())
        self.assertEqual(module.losses, twin.losses[:half])
        self.assertEqual(other.losses, twin.losses[half:])
        self.assert_same(other.state_dict(), twin.state_dict())
        del other.losses[:]  # and again, from the same checkpoint
        self.trainer(self.strategy(), max_epochs=2).fit(other, loader(), ckpt_path=path)
        self.assertEqual(other.losses, twin.losses[half:])
        self.assert_same(other.state_dict(), twin.state_dict())
        tested = Module()
        self.trainer("castor").test(tested, loader(n_rows=8, seed=2), ckpt_path=path, verbose=False)
        module.validated.clear()
        another = self.trainer(self.strategy())
        another.test(module, loader(n_rows=8, seed=2), verbose=False)
        self.assertEqual(tested.validated, module.validated)
        another.save_checkpoint(path.with_name("again.ckpt"), weights_only=True)

    def test_is_saved_between_two_micro_batches(self):
        """After each second of them, where steps have three: training goes on as if nothing had been saved."""
        options = {"accumulate_grad_batches": 3, "val_check_interval": 2, "max_epochs": 1}
        module, twin, loaded = Module(), Module(plain=True), Module()
        self.trainer(**options).fit(twin, loader(), loader(n_rows=8, seed=2))
        saving = pl.callbacks.ModelCheckpoint(self.folder.name, "{step}", save_top_k=-1, every_n_epochs=1, save_on_train_epoch_end=False)
        trainer = self.trainer(self.strategy(), callbacks=[saving], **{**options, "enable_checkpointing": True})
        trainer.fit(module, loader(), loader(n_rows=8, seed=2))
        self.assert_trained_alike(module, twin)
        path = next(pathlib.Path(self.folder.name).glob("step=1.ckpt"))
        self.trainer(self.strategy()).validate(loaded, loader(n_rows=8, seed=2), ckpt_path=path, verbose=False)
        self.assertIn(loaded.validated[-1], twin.validated)

    def test_goes_on_from_a_checkpoint_of_another_strategy(self):
        usual, module = Module(), Module()
        path = pathlib.Path(self.folder.name) / "run.ckpt"
        trainer = self.trainer(max_epochs=1)
        trainer.fit(usual, loader())
        trainer.save_checkpoint(path)
        self.trainer(max_epochs=2).fit(usual, loader(), ckpt_path=path)
        self.trainer(self.strategy(), max_epochs=2).fit(module, loader(), ckpt_path=path)
        for one, other in zip(module.losses, usual.losses[N_BATCHES:], strict=True):
            self.assertAlmostEqual(one, other, delta=1e-4)

    def test_a_further_fit_begins_anew(self):
        """With the values that configure_optimizers has then, no moments, and a schedule from its beginning."""
        module, usual = Module(), Module()
        for _ in range(2):
            self.trainer(self.strategy(), max_epochs=1).fit(module, loader())
            self.trainer(max_epochs=1).fit(usual, loader())
        self.assertEqual(module.optimizers().param_groups[0]["lr"], usual.optimizers().param_groups[0]["lr"])
        for one, other in zip(module.losses, usual.losses, strict=True):
            self.assertAlmostEqual(one, other, delta=1e-3 * other)
        with self.assertRaisesRegex(castor.Error, "another max_norm"):
            self.trainer(self.strategy(), gradient_clip_val=0.5).fit(module, loader())

    def test_fits_after_a_validation(self):
        module, twin = Module(), Module(plain=True)
        trainer, usual = self.trainer(self.strategy(), max_epochs=1), self.trainer(max_epochs=1)
        for one, of_one in ((trainer, module), (usual, twin)):
            one.validate(of_one, loader(n_rows=8, seed=2), verbose=False)
            one.fit(of_one, loader())
        self.assertEqual(module.validated, twin.validated)
        self.assertEqual(module.losses, twin.losses)
        self.assert_same(module.state_dict(), twin.state_dict())
        frozen = Module()
        self.trainer(self.strategy()).test(frozen, loader(n_rows=8, seed=2), verbose=False)
        with self.assertRaisesRegex(castor.Error, "is frozen; fit another one"):
            self.trainer(self.strategy(), max_epochs=1).fit(frozen, loader())

    def test_keeps_the_best_checkpoint(self):
        best = pl.callbacks.ModelCheckpoint(self.folder.name, monitor="validated", save_top_k=1)
        trainer = self.trainer(self.strategy(), max_epochs=3, enable_checkpointing=True, callbacks=[best])
        trainer.fit(Module(), loader(), loader(n_rows=8, seed=2))
        kept = [path for path in pathlib.Path(self.folder.name).iterdir() if path.suffix == ".ckpt"]
        self.assertEqual(kept, [pathlib.Path(best.best_model_path)])
        tested = Module()
        self.trainer(self.strategy()).test(tested, loader(n_rows=8, seed=2), ckpt_path=best.best_model_path, verbose=False)
        self.assertAlmostEqual(sum(tested.validated) / 2, best.best_model_score.item(), delta=1e-6)

    def test_saves_where_an_exception_ends_it(self):
        """Between two micro-batches as well: the values are those of the last whole step."""

        class Failing(Module):
            def on_train_batch_end(self, outputs, batch, i):
                if i == 3:
                    raise ValueError("a failure of the user's")

        options = {"accumulate_grad_batches": 3, "max_epochs": 1}
        expected = Module()
        self.trainer(self.strategy(), **options, limit_train_batches=3).fit(expected, loader())
        saves = pl.callbacks.OnExceptionCheckpoint(self.folder.name)
        with self.assertRaisesRegex(ValueError, "of the user's"):
            self.trainer(self.strategy(), **{**options, "enable_checkpointing": True}, callbacks=[saves]).fit(Failing(), loader())
        module = Module()
        Booster().load_model(module, f"{self.folder.name}/on_exception.ckpt")
        self.assert_same(dict(module.named_parameters()), {name: expected.state_dict()[name] for name, _ in module.named_parameters()})

    def test_fits_again_after_an_exception_between_two_micro_batches(self):
        class Breaking(Module):
            def training_step(self, batch, i):
                if i == 3 and not self.validated:
                    self.validated.append(None)
                    raise ArithmeticError
                return super().training_step(batch, i)

        module = Breaking()
        with self.assertRaises(ArithmeticError):
            self.trainer(self.strategy(), accumulate_grad_batches=2).fit(module, loader())
        n_before = len(module.losses)
        self.trainer(self.strategy(), accumulate_grad_batches=2).fit(module, loader())
        self.assertEqual(len(module.losses), n_before + 2 * N_BATCHES)

    def test_other_budgets_for_a_further_fit_are_refused(self):
        module = Module()
        self.trainer(CastorStrategy(GeminiPlugin(precision=None, host_budget="64MiB"))).fit(module, loader())
        with self.assertRaisesRegex(castor.Error, "boosted with another host_budget"):
            self.trainer(CastorStrategy(GeminiPlugin(precision=None, host_budget="32MiB"))).fit(module, loader())
        self.trainer(CastorStrategy(GeminiPlugin(precision=None, host_budget="64MiB"))).fit(module, loader())
        self.trainer(CastorStrategy()).fit(module, loader())

    def test_wrong_uses_are_refused(self):
        class Several(Manual):
            def configure_optimizers(self):
                return [torch.optim.SGD(self.parameters(), lr=0.1) for _ in range(2)]

        with self.assertRaisesRegex(castor.Error, "2 optimizers"):
            self.trainer(self.strategy()).fit(Several(), loader())
        with self.assertRaisesRegex(castor.Error, "by their norm"):
            clips = {"gradient_clip_val": 1.0, "gradient_clip_algorithm": "value"}
            self.trainer(self.strategy(), **clips).fit(Module(), loader())
        with self.assertRaisesRegex(castor.Error, "precision takes one of"):
            self.trainer(self.strategy(), precision="64-true")
        with self.assertRaisesRegex(castor.Error, "StochasticWeightAveraging reads and writes weights between steps"):
            averages = pl.callbacks.StochasticWeightAveraging(swa_lrs=1e-2)
            self.trainer(self.strategy(), callbacks=[averages]).fit(Module(), loader())
        module = Module()
        self.trainer(self.strategy()).test(module, loader(), verbose=False)
        with self.assertRaisesRegex(castor.Error, "call fit before them"):
            self.trainer(self.strategy()).fit(module, loader())


if __name__ == "__main__":
    unittest.main()
