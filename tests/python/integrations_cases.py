# SPDX-License-Identifier: Apache-2.0
"""Loops of other packages around a boosted model: the bits of the same loop around plain torch operations."""

import contextlib
import os
import pathlib
import signal
import tempfile
import time
import unittest
from unittest import mock

import torch

import castor
from castor.booster.plugin import GeminiPlugin, TorchDDPPlugin
from models import causal  # before the packages, whose import needs what torchvision lacks
from pairs import VALUES, SameWeights
from plain_loop import PlainLoop
from where import DEVICE, small_budget

try:
    import accelerate
    import peft
    import safetensors.torch
    import transformers

    from castor.integrations.accelerate import CastorAccelerator
    from castor.integrations.transformers import CastorMixin, CastorTrainer
except ImportError:
    accelerate = transformers = None

try:
    import datasets
    import tokenizers
    import trl
except ImportError:
    trl = None

N_TOKENS, LENGTH, N_TEXTS = 96, 12, 22
SIZES = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 3, "vocab_size": N_TOKENS}
MAKE, _ = causal("Qwen2Config", **SIZES)


def made():
    torch.manual_seed(0)
    return MAKE().train()


def forget_accelerators():
    """All Accelerators of a process share one state."""
    accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
    accelerate.state.GradientState._reset_state()


def plugin(**options):
    return GeminiPlugin(**{"precision": None, "device_budget": small_budget("500KiB"), "placement_policy": "cpu", **options})


class Texts(torch.utils.data.Dataset):
    """Random tokens; some of each text's labels are left out, so that micro-batches weigh differently."""

    def __init__(self, n_texts=N_TEXTS, seed=1):
        random = torch.Generator().manual_seed(seed)
        self.ids = torch.randint(3, N_TOKENS, (n_texts, LENGTH), generator=random)
        self.labels = self.ids.masked_fill(torch.rand(self.ids.shape, generator=random) < 0.3, -100)

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "labels": self.labels[i]}


class PlainOptimizer(torch.optim.Optimizer):
    """PlainLoop as an optimizer."""

    def __init__(self, model, max_norm=0.0, groups=None):
        groups = groups or [{"params": list(model.parameters())}]
        super().__init__(groups, dict(VALUES))  # torch adds to it
        self.max_norm, self.norms = max_norm, []
        self.loop = PlainLoop(model, "adamw", self.param_groups)

    def step(self, closure=None):
        loss = closure() if closure else None
        self.loop.groups = self.param_groups  # which accelerate replaces
        self.norms.append(self.loop.norm())
        self.loop.step(self.max_norm)
        return loss


@unittest.skipUnless(accelerate, "accelerate is not installed")
class Accelerate(SameWeights):
    def train(self, accelerator, model, optimizer, max_norm=None, n_epochs=2):
        """As accelerate's own examples: with accumulation, whose last step of an epoch is shorter, and a schedule."""
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.8)
        loader = torch.utils.data.DataLoader(Texts(), batch_size=4)
        model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
        losses = []
        for _ in range(n_epochs):
            for batch in loader:
                with accelerator.accumulate(model):
                    loss = model(**batch).loss
                    accelerator.backward(loss)
                    if accelerator.sync_gradients and max_norm is not None:
                        losses.append(float(accelerator.clip_grad_norm_(model.parameters(), max_norm)))
                    optimizer.step()
                    scheduler.step()
                    optimizer.zero_grad()
                losses.append(loss.item())
        return losses

    def tearDown(self):
        forget_accelerators()

    def plain(self, **options):
        return accelerate.Accelerator(cpu=DEVICE.type == "cpu", gradient_accumulation_steps=2, **options)

    def boosting(self, **options):
        return CastorAccelerator(cpu=DEVICE.type == "cpu", gradient_accumulation_steps=2, **options)

    def test_trains_as_the_plain_loop(self):
        for more in ({}, {"micro_batches": 1}):
            twin, model = made(), made()
            expected = self.train(self.plain(), twin, PlainOptimizer(twin))
            self.tearDown()
            optimizer = torch.optim.AdamW(model.parameters(), **VALUES)
            self.assertEqual(self.train(self.boosting(plugin=plugin(**more)), model, optimizer), expected)
            self.assert_same(model.state_dict(), twin.state_dict())
            self.tearDown()

    def test_clips_over_the_whole_model(self):
        twin, model = made(), made()
        plain = PlainOptimizer(twin, max_norm=0.4)
        losses = self.train(self.plain(), twin, plain)
        self.tearDown()
        got = self.train(self.boosting(plugin=plugin()), model, torch.optim.AdamW(model.parameters(), **VALUES), max_norm=0.4)
        norms = iter(plain.norms)
        expected = []
        for i, loss in enumerate(losses):  # of 6 batches of an epoch, two a step
            if i % 6 % 2 == 1:
                expected.append(float(torch.tensor(next(norms))))
            expected.append(loss)
        self.assertEqual(got, expected)
        self.assert_same(model.state_dict(), twin.state_dict())

    def test_clips_beside_frozen_weights(self):
        norms = []
        for accelerator in (self.plain, lambda: self.boosting(plugin=plugin())):
            model = made()
            model.get_input_embeddings().requires_grad_(False)
            optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], **VALUES)
            norms.append(self.train(accelerator(), model, optimizer, max_norm=0.4))
            self.tearDown()
        torch.testing.assert_close(*map(torch.tensor, norms), rtol=1e-3, atol=0)

    def test_has_the_precision_of_its_launcher(self):
        with mock.patch.dict(os.environ, {"ACCELERATE_MIXED_PRECISION": "bf16"}):
            self.assertEqual(self.boosting().castor_booster.plugin.precision, "bf16")
            self.assertEqual(self.boosting(mixed_precision="fp16").castor_booster.plugin.precision, "fp16")
            self.assertIsNone(self.boosting(mixed_precision="no").castor_booster.plugin.precision)

    def test_scales_losses_in_fp16(self):
        model = made()
        accelerator = self.boosting(mixed_precision="fp16")
        losses = self.train(accelerator, model, torch.optim.AdamW(model.parameters(), **VALUES))
        self.assertEqual({p.dtype for p in model.parameters()}, {torch.float16})
        self.assertLess(sum(losses[-6:]), sum(losses[:6]))
        self.assertFalse(accelerator.optimizer_step_was_skipped)
        self.assertGreater(accelerator._optimizers[0].loss_scale, 1)
        self.assertGreater(accelerator._optimizers[0].get_grad_norm(), 0)
        loss = model(**{name: values.to(DEVICE) for name, values in torch.utils.data.default_collate([Texts()[0]]).items()}).loss
        accelerator.backward(loss, retain_graph=True)
        accelerator.backward(loss)

    def test_a_second_optimizer_of_a_model_is_refused(self):
        model = made()
        accelerator = self.boosting(plugin=plugin())
        model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), **VALUES))
        with self.assertRaisesRegex(castor.Error, "boosted with another optimizer"):
            accelerator.prepare(model, torch.optim.AdamW(model.parameters()))
        accelerator.prepare(model, optimizer)

    def test_parts_are_prepared_together(self):
        accelerator, layer = self.boosting(plugin=plugin()), torch.nn.Linear(8, 8)
        with self.assertRaisesRegex(castor.Error, "together with its optimizer"):
            accelerator.prepare_model(layer)
        with self.assertRaisesRegex(castor.Error, "of no boosted model"):
            accelerator.prepare_optimizer(torch.optim.AdamW(layer.parameters()))
        self.assertIs(accelerator.prepare_model(layer, evaluation_mode=True), layer)
        accelerator.prepare_model(layer.requires_grad_(False))
        self.assertIn("budget_bytes", castor.stats(layer))

    def test_a_schedule_waits_for_steps_that_are_skipped(self):
        model = made()
        accelerator = self.boosting(plugin=GeminiPlugin(precision="fp16", initial_scale=2.0**32, hysteresis=1))
        optimizer = torch.optim.AdamW(model.parameters(), **VALUES)
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda i: 1 / (1 + i))
        model, optimizer, scheduler = accelerator.prepare(model, optimizer, scheduler)
        batch = {name: values.to(DEVICE) for name, values in torch.utils.data.default_collate([Texts()[0]]).items()}
        n_made, skipped = 0, []
        for _ in range(60):
            with accelerator.accumulate(model):
                accelerator.backward(model(**batch).loss)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
            if accelerator.sync_gradients:
                skipped.append(accelerator.optimizer_step_was_skipped)
                self.assertEqual((optimizer.step_was_skipped, optimizer.skipped), (skipped[-1], skipped[-1]))
                n_made += not skipped[-1]
                self.assertAlmostEqual(scheduler.get_last_lr()[0], VALUES["lr"] / (1 + n_made))
        self.assertTrue(skipped[0])
        self.assertFalse(skipped[-1])

    def test_saves_and_goes_on(self):
        with tempfile.TemporaryDirectory() as folder:
            model = made()
            accelerator = self.boosting(plugin=plugin())
            self.train(accelerator, model, torch.optim.AdamW(model.parameters(), **VALUES), n_epochs=1)
            accelerator.save_state(folder)
            before = {name: weight.clone() for name, weight in model.state_dict().items()}
            self.tearDown()
            other = made()
            accelerator = self.boosting(plugin=plugin())
            _, optimizer = accelerator.prepare(other, torch.optim.AdamW(other.parameters(), **VALUES))
            accelerator.load_state(folder)
            self.assert_same(other.state_dict(), before)
            states = optimizer.state_dict()["state"]
            self.assertEqual({float(state["step"]) for state in states.values()}, {3.0})
            self.assertEqual([path.name for path in pathlib.Path(folder).glob("optimizer*")], [])
            self.train(accelerator, other, optimizer, n_epochs=1)  # and back again
            accelerator.load_state(folder)
            self.assert_same(other.state_dict(), before)

    def test_goes_on_from_what_another_accelerator_has_saved(self):
        with tempfile.TemporaryDirectory() as folder:
            usual = accelerate.Accelerator()
            twin = made()
            usual.prepare(twin, torch.optim.AdamW(twin.parameters(), **VALUES))
            usual.save_state(folder)
            self.tearDown()
            model = made()
            accelerator = self.boosting(plugin=plugin())
            accelerator.prepare(model, torch.optim.AdamW(model.parameters(), **VALUES))
            accelerator.load_state(folder)
            self.assert_same(model.state_dict(), twin.state_dict())

    def test_saves_several_models(self):
        with tempfile.TemporaryDirectory() as folder:
            models = [torch.nn.Linear(4, 4), torch.nn.Linear(4, 2)]
            optimizers = [torch.optim.AdamW(model.parameters(), **VALUES) for model in models]
            accelerator = self.boosting(plugin=plugin())
            for model, optimizer in zip(models, optimizers):
                accelerator.prepare(model, optimizer)

            def step():
                for model, optimizer in zip(models, optimizers):
                    accelerator.backward(model(torch.ones(1, 4, device=DEVICE)).sum())
                    optimizer.step()
                    optimizer.zero_grad()

            step()
            accelerator.save_state(folder)
            step()
            expected = [{name: weight.clone() for name, weight in model.state_dict().items()} for model in models]
            accelerator.load_state(folder)
            step()
            for model, weights in zip(models, expected):
                self.assert_same(model.state_dict(), weights)

    def test_wrong_uses_are_refused(self):
        model = made()
        optimizer = torch.optim.AdamW(model.parameters(), **VALUES)
        accelerator = self.boosting(plugin=plugin())
        for call, message in (
            (lambda: accelerator.prepare(model), "together with its optimizer"),
            (lambda: accelerator.prepare(model, optimizer, torch.optim.SGD(model.parameters())), "2 optimizers"),
        ):
            with self.assertRaisesRegex(castor.Error, message):
                call()
        model, optimizer = accelerator.prepare(model, optimizer)
        for call, message in (
            (lambda: accelerator.clip_grad_norm_(list(model.parameters())[:2], 1.0), "as a whole"),
            (lambda: accelerator.clip_grad_norm_(model.parameters(), 1.0, 1), "2-norm"),
            (lambda: accelerator.clip_grad_value_(model.parameters(), 1.0), "by the norm of all gradients"),
            (lambda: CastorAccelerator(plugin="gemini"), "plugin takes a plugin"),
            (lambda: CastorAccelerator(mixed_precision="fp8"), "mixed_precision takes one of"),
        ):
            with self.assertRaisesRegex(castor.Error, message):
                call()


if transformers:
    transformers.utils.logging.disable_progress_bar()

    class PlainMixin:
        """PlainLoop in a trainer, which clips."""

        def create_optimizer(self, model=None):
            if self.optimizer is None:
                groups = super().create_optimizer(model).param_groups
                self.optimizer = PlainOptimizer(self.model, self.args.max_grad_norm, groups)
            return self.optimizer

        def _clip_grad_norm(self, model):
            return self.optimizer.optimizer.loop.norm()

        def _get_grad_norm(self, model, grad_norm=None):
            return grad_norm

    class PlainTrainer(PlainMixin, transformers.Trainer):
        pass

    class HalfLoss:
        """A trainer that others have made from transformers'."""

        def compute_loss(self, *args, **kwargs):
            return super().compute_loss(*args, **kwargs) / 2

    class PlainOfOthers(HalfLoss, PlainTrainer):
        pass

    class CastorOfOthers(CastorMixin, HalfLoss, transformers.Trainer):
        pass


@unittest.skipUnless(transformers, "transformers is not installed")
class Trainer(SameWeights):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def tearDown(self):
        forget_accelerators()

    def args(self, **options):
        options = {"save_strategy": "no", "max_grad_norm": 0.4, "num_train_epochs": 2, **options}
        return transformers.TrainingArguments(
            output_dir=self.folder.name,
            use_cpu=DEVICE.type == "cpu",
            per_device_train_batch_size=2,
            per_device_eval_batch_size=2,
            gradient_accumulation_steps=2,
            learning_rate=1e-2,
            weight_decay=0.1,
            logging_steps=1,
            report_to=[],
            disable_tqdm=True,
            **options,
        )

    def trainer(self, kind, model, own=None, **options):
        own = {"train_dataset": Texts(), **(own or {})}
        made = kind(model=model, args=self.args(**options), **own)
        made.remove_callback(transformers.PrinterCallback)
        return made

    def boosting(self, model, own=None, kind=None, **options):
        own = {"plugin": plugin(), **(own or {})}
        return self.trainer(kind or CastorTrainer, model, own, **options)

    def logged(self, trainer):
        """What each step has logged, without times."""
        names = ("loss", "grad_norm", "learning_rate", "eval_loss", "step")
        return [{name: entry[name] for name in names if name in entry} for entry in trainer.state.log_history[:-1]]

    def assert_trained_alike(self, trainer, twin):
        self.assertEqual(self.logged(trainer), self.logged(twin))
        self.assert_same(trainer.model.state_dict(), twin.model.state_dict())

    def test_trains_as_the_plain_loop(self):
        """Accumulates, with a shorter last step of an epoch, and clips."""
        twin = self.trainer(PlainTrainer, made())
        twin.train()
        self.assertEqual(len(self.logged(twin)), 12)
        self.assertGreater(min(entry["grad_norm"] for entry in self.logged(twin)), 0.4)
        trainer = self.boosting(made())
        trainer.train()
        self.assert_trained_alike(trainer, twin)
        usual = self.trainer(transformers.Trainer, made())
        usual.train()
        for one, other in zip(self.logged(trainer), self.logged(usual)):
            self.assertAlmostEqual(one["loss"], other["loss"], delta=1e-3)
            self.assertAlmostEqual(one["grad_norm"], other["grad_norm"], delta=1e-3)

    def test_does_not_clip_without_a_norm(self):
        twin = self.trainer(PlainTrainer, made(), max_grad_norm=0.0)
        twin.train()
        trainer = self.boosting(made(), max_grad_norm=0.0)
        trainer.train()
        self.assertTrue(all(entry.pop("grad_norm", None) is None for entry in self.logged(trainer)))
        self.assert_same(trainer.model.state_dict(), twin.model.state_dict())

    def test_evaluates_before_and_in_training(self):
        data = {"eval_dataset": Texts(6, seed=2)}
        options = {"eval_strategy": "steps", "eval_steps": 2, "eval_on_start": True}
        twin, trainer = self.trainer(PlainTrainer, made(), data, **options), self.boosting(made(), data, **options)
        self.assertEqual(trainer.evaluate()["eval_loss"], twin.evaluate()["eval_loss"])
        twin.train()
        trainer.train()
        self.assert_trained_alike(trainer, twin)
        predicted, expected = trainer.predict(Texts(4, seed=3)), twin.predict(Texts(4, seed=3))
        self.assertEqual(predicted.predictions.tolist(), expected.predictions.tolist())

    def test_evaluates_without_training(self):
        data = {"train_dataset": None, "eval_dataset": Texts(6, seed=2)}
        trainer = self.boosting(made(), data)
        self.assertEqual(trainer.evaluate()["eval_loss"], self.trainer(transformers.Trainer, made(), data).evaluate()["eval_loss"])
        with self.assertRaisesRegex(castor.Error, "give train_dataset before"):
            self.boosting(trainer.model).train()
        with self.assertRaisesRegex(castor.Error, "plugin takes a plugin"):
            self.boosting(made(), {"plugin": "gemini"})

    def test_goes_on_from_a_checkpoint(self):
        """Also where the model is built without memory, and with a plugin of other budgets."""
        trainer = self.boosting(made(), save_strategy="steps", save_steps=4)
        trainer.train()
        for n_steps in (4, 8):  # in the first epoch, and in the second
            with torch.device("meta"):
                model = MAKE().train()
            again = self.boosting(model, {"plugin": GeminiPlugin(precision=None)})
            again.train(resume_from_checkpoint=f"{self.folder.name}/checkpoint-{n_steps}")
            self.assert_trained_alike(again, trainer)

    def test_ends_between_two_micro_batches(self):
        """By Ctrl-C or a callback: the values are those of the last whole step."""

        class Ended(transformers.TrainerCallback):
            def __init__(self, raises):
                self.raises = raises

            def on_substep_end(self, args, state, control, **kwargs):
                if state.global_step == 2:
                    if self.raises:
                        raise KeyboardInterrupt
                    control.should_training_stop = control.should_save = True

        expected = self.boosting(made(), max_steps=2, lr_scheduler_type="constant")
        expected.train()
        for raises in (True, False):
            with self.subTest(raises=raises):
                options = {"lr_scheduler_type": "constant", "save_strategy": "epoch", "eval_strategy": "epoch", "load_best_model_at_end": True}
                trainer = self.boosting(made(), {"callbacks": [Ended(raises)], "eval_dataset": Texts(6, seed=2)}, **options)
                with self.assertRaises(KeyboardInterrupt) if raises else contextlib.nullcontext():
                    trainer.train()
                trainer.save_model(f"{self.folder.name}/last")
                saved = safetensors.torch.load_file(f"{self.folder.name}/last/model.safetensors")
                self.assert_same(saved, {name: weight for name, weight in expected.model.state_dict().items() if name in saved})

    def test_that_is_to_end_saves_after_the_step(self):
        """SIGTERM in the middle of an accumulated step, with checkpoints just in time."""

        class Ended(transformers.TrainerCallback):
            def on_substep_end(self, args, state, control, **kwargs):
                if state.global_step == 2:
                    os.kill(os.getpid(), signal.SIGTERM)
                    while not manager.is_checkpoint_requested:
                        time.sleep(0.001)

        expected = self.boosting(made())
        expected.train()
        trainer = self.boosting(made(), {"callbacks": [Ended()]}, enable_jit_checkpoint=True)
        (manager,) = [callback.jit_manager for callback in trainer.callback_handler.callbacks if hasattr(callback, "jit_manager")]
        manager.kill_wait = 0
        trainer.train()
        self.assertEqual(os.listdir(self.folder.name), ["checkpoint-3"])
        self.assertNotIn("checkpoint-is-incomplete.txt", os.listdir(f"{self.folder.name}/checkpoint-3"))
        again = self.boosting(made())
        again.train(resume_from_checkpoint=f"{self.folder.name}/checkpoint-3")
        self.assertEqual(self.logged(again)[2:], self.logged(expected)[3:])  # what step 3 logs comes after its checkpoint
        self.assert_same(again.model.state_dict(), expected.model.state_dict())

    def test_goes_on_from_a_checkpoint_of_its_own_after_training(self):
        trainer = self.boosting(made(), save_strategy="steps", save_steps=4)
        trainer.train()
        expected = {name: weight.clone() for name, weight in trainer.model.state_dict().items()}
        trainer.train(resume_from_checkpoint=f"{self.folder.name}/checkpoint-4")
        self.assert_same(trainer.model.state_dict(), expected)

    def test_goes_on_from_a_checkpoint_of_the_usual_trainer(self):
        usual = self.trainer(transformers.Trainer, made(), save_strategy="steps", save_steps=4)
        usual.train()
        trainer = self.boosting(made())
        trainer.train(resume_from_checkpoint=f"{self.folder.name}/checkpoint-4")
        for one, other in zip(self.logged(trainer), self.logged(usual), strict=True):
            self.assertAlmostEqual(one["loss"], other["loss"], delta=1e-3)

    def test_the_usual_trainer_reads_its_weights(self):
        trainer = self.boosting(made(), save_strategy="steps", save_steps=12)
        trainer.train()
        trainer.save_model(f"{self.folder.name}/last")
        for name in ("checkpoint-12", "last"):
            read = type(made()).from_pretrained(f"{self.folder.name}/{name}")
            self.assert_same(read.state_dict(), trainer.model.state_dict())

    def test_loads_the_best_model_at_the_end(self):
        options = {"eval_strategy": "steps", "eval_steps": 3, "save_strategy": "steps", "save_steps": 3, "load_best_model_at_end": True}
        trainer = self.boosting(made(), {"eval_dataset": Texts(6, seed=2)}, **options)
        trainer.train()
        losses = {entry["step"]: entry["eval_loss"] for entry in trainer.state.log_history if "eval_loss" in entry}
        best = min(losses, key=losses.get)
        self.assertLess(best, 12, "a case in which the last is not the best")
        self.assertEqual(trainer.state.best_model_checkpoint, f"{self.folder.name}/checkpoint-{best}")
        self.assertEqual(trainer.evaluate()["eval_loss"], losses[best])
        trainer.state.best_model_checkpoint = f"{self.folder.name}/deleted"
        trainer._load_best_model()  # warns, as the usual one
        self.assertEqual(trainer.evaluate()["eval_loss"], losses[best])

    def test_the_mixin_is_for_other_trainers(self):
        twin, trainer = self.trainer(PlainOfOthers, made()), self.boosting(made(), kind=CastorOfOthers)
        twin.train()
        trainer.train()
        self.assert_trained_alike(trainer, twin)

    def test_adapters_are_saved_alone_and_go_on(self):
        def with_adapters():
            torch.manual_seed(0)
            return peft.get_peft_model(made(), peft.LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM"))

        own = {"plugin": plugin(device_budget=small_budget("900KiB"))}
        trainer = self.boosting(with_adapters(), own, save_strategy="steps", save_steps=8)
        base = {name: weight.clone() for name, weight in trainer.model.state_dict().items() if "lora_" not in name}
        trainer.train()
        losses = [entry["loss"] for entry in self.logged(trainer)]
        self.assertLess(sum(losses[-6:]), sum(losses[:6]))
        trained = trainer.model.state_dict()
        self.assert_same({name: trained[name] for name in base}, base)
        saved = safetensors.torch.load_file(f"{self.folder.name}/checkpoint-8/adapter_model.safetensors")
        self.assertTrue(saved and all("lora_" in name for name in saved))
        again = self.boosting(with_adapters(), own)
        again.train(resume_from_checkpoint=f"{self.folder.name}/checkpoint-8")
        self.assert_trained_alike(again, trainer)

    def test_arguments_say_what_the_plugin_does_not(self):
        for given, options, precision, max_norm in (
            (None, {}, None, 0.4),
            (None, {"bf16": True}, "bf16", 0.4),
            (None, {"fp16": True, "max_grad_norm": 0.0}, "fp16", 0.0),
            (TorchDDPPlugin(), {"bf16": True}, "bf16", 0.4),
            (GeminiPlugin(max_norm=2.0), {}, "bf16", 2.0),
            (GeminiPlugin(), {"fp16": True}, "fp16", 0.4),
        ):
            with self.subTest(given=given, options=options):
                trainer = self.boosting(made(), {"plugin": given}, **options)
                used = trainer.castor_booster.plugin
                self.assertEqual((used.precision, used.max_norm), (precision, max_norm))
                trainer.train()
                dtype = {None: torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[precision]
                self.assertEqual({parameter.dtype for parameter in trainer.model.parameters()}, {dtype})
                losses = [entry["loss"] for entry in self.logged(trainer)]
                self.assertLess(sum(losses[-6:]), sum(losses[:6]))
                self.tearDown()


@unittest.skipUnless(trl and transformers, "trl is not installed")
class SupervisedFineTuning(SameWeights):
    def tearDown(self):
        forget_accelerators()

    def tokenizer(self):
        words = {"<pad>": 0, "<eos>": 1, "<unk>": 2, **{f"w{i}": i + 3 for i in range(N_TOKENS - 3)}}
        made = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="<unk>"))
        made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
        return transformers.PreTrainedTokenizerFast(tokenizer_object=made, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>")

    def trained(self, kind, **own):
        with tempfile.TemporaryDirectory() as folder:
            args = trl.SFTConfig(
                output_dir=folder,
                use_cpu=DEVICE.type == "cpu",
                per_device_train_batch_size=2,
                gradient_accumulation_steps=2,
                learning_rate=1e-2,
                max_grad_norm=0.4,
                num_train_epochs=1,
                logging_steps=1,
                report_to=[],
                disable_tqdm=True,
                save_strategy="no",
                bf16=False,
            )
            texts = [{"text": " ".join(f"w{i - 3}" for i in ids[: 4 + n % 9])} for n, ids in enumerate(Texts().ids.tolist())]
            trainer = kind(
                model=made(), args=args, train_dataset=datasets.Dataset.from_list(texts), processing_class=self.tokenizer(), **own
            )
            trainer.remove_callback(transformers.PrinterCallback)
            trainer.train()
            return trainer

    def test_trains_as_the_plain_loop(self):
        class Plain(PlainMixin, trl.SFTTrainer):
            pass

        class Castor(CastorMixin, trl.SFTTrainer):
            pass

        trainer, twin = self.trained(Castor, plugin=plugin()), self.trained(Plain)
        for entry, expected in zip(trainer.state.log_history[:-1], twin.state.log_history[:-1], strict=True):
            for name in ("loss", "grad_norm", "learning_rate", "mean_token_accuracy"):
                self.assertEqual(entry[name], expected[name], name)
        self.assert_same(trainer.model.state_dict(), twin.model.state_dict())


if __name__ == "__main__":
    unittest.main()
