# SPDX-License-Identifier: Apache-2.0
"""Losses, norms and states that are not finite, and settings that change between two halves of a run."""

import unittest

from command_case import HAS_GEMINI, HAS_TORCH, CommandCase, run

MODEL = ["--model", "gpt:layers=2,hidden=64,heads=2,vocab=256", "--seq", "64", "--batch", "4", "--threads", "1"]


@unittest.skipUnless(HAS_TORCH and HAS_GEMINI, "no plugin gemini here")
class NotFinite(CommandCase):
    """No state that holds inf or nan replaces one that does not."""

    WILD = ["--precision", "fp32", "--lr", "1e30"]

    def setUp(self):
        super().setUp()
        self.saved = self.folder / "saved"
        self.nvme = self.folder / "nvme"
        self.nvme.mkdir()

    def train(self, *options):
        return run("train", *MODEL, "--json", *options)

    def wild_after_two_steps(self, *where, resume):
        """A run of two good steps that goes on with a rate which no model survives."""
        self.assert_result(self.train("--precision", "fp32", "--steps", "2", *where))
        return self.train(*self.WILD, "--steps", "9", *where, "--resume", resume, "--checkpoint-every", "1")

    def test_a_norm_that_is_nan_stops_the_run_without_a_loss_scale(self):
        for precision in ("fp32", "bf16"):
            wild = ["--precision", precision, "--clip", "1", "--optimizer", "sgd", "--lr", "1e30", "--steps", "6"]
            done = self.train(*wild)
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertRegex(done.stderr, "the (loss|norm of the gradients) is -?(nan|inf)")
            self.assertNotIn("loss scale", done.stderr)

    def test_a_checkpoint_stays_that_of_the_last_finite_state(self):
        where = ["--checkpoint", self.saved]
        done = self.wild_after_two_steps(*where, resume=self.saved)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, "inf or nan|the loss is -?(nan|inf)")
        after = self.assert_error(self.train("--precision", "fp32", "--steps", "1", "--resume", self.saved), 2)
        n_steps = int(after["error"]["message"].split("is a run of ")[1].split()[0])
        self.assertIn(n_steps, (2, 3))

    def test_a_commit_stays_that_of_the_last_finite_state(self):
        where = ["--plugin", "gemini", "--device-budget", "300KiB", "--host-budget", "1MiB", "--set", "chunk_bytes=64KiB"]
        where += ["--nvme", self.nvme, "--durability", "commit"]
        done = self.wild_after_two_steps(*where, resume=self.nvme)
        self.assertEqual(done.returncode, 1, done.stderr)
        goes_on = [*where, "--resume", self.nvme, "--on-nan", "continue"]
        rest = self.assert_result(self.train("--precision", "fp32", "--steps", "5", *goes_on))
        self.assertIn(rest["first_step"], (2, 3))

    def test_the_first_loss_that_is_not_finite_is_said_with_its_step(self):
        done = self.train(*self.WILD, "--steps", "50")
        error = self.assert_error(done, 1, "the loss is", "--on-nan continue")["error"]
        self.assertRegex(error["message"], r"^step [0-9]+: the loss is -?(nan|inf)")
        self.assertLess(int(error["message"].split(":")[0].split()[1]), 10)

    def test_on_nan_continue_goes_on_and_says_it_once(self):
        done = self.train(*self.WILD, "--steps", "12", "--on-nan", "continue", "--checkpoint", self.saved)
        result = self.assert_result(done)
        self.assertEqual(len(result["losses"]), 12)
        said = [line for line in done.stderr.splitlines() if "the loss is" in line]
        self.assertEqual(len(said), 1, done.stderr)
        self.assertIn("warning: the state after step 12 is not saved", done.stderr)
        self.assertFalse((self.saved / "castor.manifest").exists())
        self.assert_error(self.train("--on-nan", "maybe"), 2, "--on-nan", "stop|continue")

    def test_overflows_at_the_least_loss_scale_are_said(self):
        scale = ["--precision", "fp16", "--initial-scale", "4294967296", "--min-scale", "4294967296", "--steps", "50"]
        done = self.train(*scale)
        self.assert_error(done, 1, "not one of the 50 steps was taken", "--min-scale")
        said = [line for line in done.stderr.splitlines() if "least loss scale" in line and "warning" in line]
        self.assertEqual(len(said), 2, "the first and the tenth")


@unittest.skipUnless(HAS_TORCH and HAS_GEMINI, "no plugin gemini here")
class SettingsOfTwoHalves(CommandCase):
    """A run goes on with another model never, with other settings only with one sentence that names them."""

    JOB = ["--lr-schedule", "cosine", "--warmup-steps", "2"]

    def setUp(self):
        super().setUp()
        self.saved = self.folder / "saved"

    def train(self, *options, model=MODEL):
        return run("train", *model, "--json", *options)

    def warnings(self, done):
        self.assert_result(done)
        return [line for line in done.stderr.splitlines() if "other settings" in line]

    def test_another_model_of_the_same_shapes_is_refused(self):
        self.assert_result(self.train("--steps", "2", "--checkpoint", self.saved))
        other = ["--model", "gpt:layers=2,hidden=64,heads=4,vocab=256", *MODEL[2:]]
        self.assert_error(self.train("--steps", "3", "--resume", self.saved, model=other), 2, "heads=2", "heads=4")

    def test_another_spelling_of_the_same_model_goes_on(self):
        self.assert_result(self.train("--steps", "2", "--checkpoint", self.saved))
        same = ["--model", "gpt:vocab=256,heads=2,hidden=64,layers=2,tied=1", *MODEL[2:]]
        self.assert_result(self.train("--steps", "3", "--resume", self.saved, model=same))

    def test_other_settings_are_named_with_both_values(self):
        data = self.text()
        spelled = MODEL[1] + ",seq=64"
        model = [MODEL[0], spelled, *MODEL[2:]]
        job = ["--data", data, "--steps", "10", "--lr-schedule", "cosine"]
        self.assert_result(self.train(*job, "--checkpoint", self.saved, model=model))
        longer = self.text(content=b"another text, of another length " * 50, name="longer")
        model = [MODEL[0], spelled, "--seq", "32", "--batch", "8", "--threads", "1"]
        done = self.train(
            *("--data", longer, "--steps", "20", "--lr-schedule", "cosine", "--seed", "7", "--resume", self.saved), model=model
        )
        said = self.warnings(done)
        self.assertEqual(len(said), 1, done.stderr)
        for words in ("--seed 7 (was 0)", "--batch 8 (was 4)", "--seq 32 (was 64)", "--decay-steps 20 (was 10)"):
            self.assertIn(words, said[0])
        self.assertIn("--data longer (1600 bytes) (was text (", said[0])

    def test_the_same_settings_say_nothing_and_two_halves_are_the_whole(self):
        job = [*self.JOB, "--decay-steps", "8"]
        whole = self.assert_result(self.train(*job, "--steps", "8"))
        self.assert_result(self.train(*job, "--steps", "4", "--checkpoint", self.saved))
        done = self.train(*job, "--steps", "8", "--resume", self.saved)
        self.assertEqual(self.warnings(done), [])
        rest = self.assert_result(done)
        self.assertEqual(rest["losses"], whole["losses"][4:])
        self.assertEqual(rest["lr"], whole["lr"][4:])
        self.assertEqual(rest["weights_digest"], whole["weights_digest"])
