# SPDX-License-Identifier: Apache-2.0
"""castor train with everything resident, and the requests that it refuses."""

import math
import os
import pathlib
import unittest

from command_case import GPT, HAS_GPU, HAS_TORCH, MINIMAL, MLP, STUBS, CommandCase, run, without_capabilities


@unittest.skipUnless(HAS_TORCH, "built without LibTorch")
class TrainRefusals(CommandCase):
    """Errors in the request are reported before training starts."""

    def refused(self, code, *words, options=(), model=("--model", "mlp")):
        last = self.assert_error(run("train", *model, "--plugin", "none", *options, "--json"), code, *words)
        self.assertEqual(last["losses"] if "losses" in last else [], [])

    def test_missing_data_file(self):
        self.refused(
            4, "cannot read the data file", self.folder / "none", model=GPT, options=["--data", self.folder / "none"]
        )

    def test_empty_data_file(self):
        self.refused(4, "it is empty", model=GPT, options=["--data", self.text(b"")])

    def test_short_data_file(self):
        self.refused(4, "it has 16 bytes", "needs 17", model=GPT, options=["--data", self.text(b"x" * 16)])

    def test_data_for_a_model_that_does_not_read(self):
        self.refused(2, "takes no text", options=["--data", self.text()])

    def test_data_for_a_small_vocabulary(self):
        self.refused(
            2,
            "knows 100",
            model=["--model", "gpt:layers=1,hidden=32,heads=2,vocab=100"],
            options=["--data", self.text()],
        )

    def test_unknown_model(self):
        self.refused(2, "gpt3", model=["--model", "gpt3"])

    def test_unknown_plugin(self):
        self.assert_error(run("train", *MLP, "--plugin", "gemnii", "--json"), 5, "gemnii")

    def test_plugin_with_a_wrong_version(self):
        self.assert_error(
            run("train", *MLP, "--plugin", pathlib.Path(STUBS) / "libcastor_stub_other_major.so", "--json"), 5, "ABI"
        )

    def test_unknown_option_of_a_plugin(self):
        self.assert_error(run("train", *MLP, "--plugin", MINIMAL, "--set", "colour=red", "--json"), 2, "colour")

    def test_budget_that_a_plugin_does_not_know(self):
        self.assert_error(
            run("train", *MLP, "--plugin", MINIMAL, "--host-budget", "1GiB", "--json"),
            2,
            "--host-budget",
            "host_budget",
            "minimal_c",
        )

    def test_resident_run_has_no_tiers(self):
        self.refused(2, "--device-budget", options=["--device-budget", "1GiB"])
        self.refused(2, "--nvme", options=["--nvme", self.folder])
        self.refused(2, "--set x=", options=["--set", "x=1"])
        self.refused(2, "--trace", options=["--trace", self.folder / "t"])

    def test_size_that_is_none(self):
        self.refused(2, "--host-budget: 'much' is not a size", options=["--host-budget", "much"])

    def test_nvme_folder_missing(self):
        self.refused(4, "does not exist", options=["--nvme", self.folder / "none"])

    def test_nvme_folder_is_a_file(self):
        self.refused(4, "is not a folder", options=["--nvme", self.text()])

    def test_nvme_folder_not_writable(self):
        os.chmod(self.folder, 0o555)
        done = run("train", *MLP, "--plugin", "none", "--nvme", self.folder, "--json", wrapper=without_capabilities())
        self.assert_error(done, 4, "cannot be written to: Permission denied")

    def test_schedule_options_without_effect(self):
        self.refused(2, "--min-lr has no effect with --lr-schedule constant", options=["--min-lr", "1e-5"])
        self.refused(2, "--lr-schedule exponential needs --gamma", options=["--lr-schedule", "exponential"])
        self.refused(2, "--hysteresis has no effect with --precision bf16", options=["--hysteresis", 3])

    def test_group_that_selects_nothing(self):
        gpt = {"model": GPT, "options": ["--steps", 1, "--group", "*.bais:weight_decay=0"]}
        self.refused(2, "--group *.bais", "did you mean '*.bias'?", **gpt)
        self.refused(
            2, "the groups before it", options=["--group", "*:lr=1e-3", "--group", "vectors:weight_decay=0"]
        )

    def test_group_that_says_nothing_known(self):
        self.refused(2, "--group takes", options=["--group", "*.bias"])
        self.refused(2, "there is no 'decay'", options=["--group", "*.bias:decay=0"])

    def test_clipping_in_two_ways(self):
        self.refused(2, "--clip and --clip-value", options=["--clip", 1, "--clip-value", 1])

    def test_warm_up_longer_than_the_decay(self):
        self.refused(
            2,
            "--warmup-steps takes fewer than the decay's 5 steps, not 5",
            options=["--steps", 5, "--lr-schedule", "cosine", "--warmup-steps", 5],
        )

    @unittest.skipIf(HAS_GPU, "this machine has a GPU")
    def test_no_gpu(self):
        self.refused(1, "no GPU", options=["--device", "cuda"])


@unittest.skipUnless(HAS_TORCH, "built without LibTorch")
class Train(CommandCase):
    def train(self, *options):
        return self.assert_result(run("train", *options, "--json"))

    def test_resident_twice_gives_the_same_bits(self):
        options = [*GPT, "--plugin", "none", "--data", self.text(), "--steps", 6]
        first, second = self.train(*options), self.train(*options)
        self.assertEqual(first["losses"], second["losses"])
        self.assertEqual(first["weights_digest"], second["weights_digest"])
        self.assertNotEqual(first["weights_digest"], self.train(*options, "--seed", 1)["weights_digest"])

    def test_json_keeps_its_contract(self):
        found = self.train(*GPT, "--plugin", "none", "--data", self.text(), "--steps", 6)
        self.assertEqual(len(found["losses"]), 6)
        self.assertEqual(found["step_s"]["n_left_out"], 2)
        self.assertLessEqual(found["step_s"]["min"], found["step_s"]["median"])
        self.assertLessEqual(found["step_s"]["median"], found["step_s"]["max"])
        for field in ("peak_bytes", "budget_bytes"):
            self.assertEqual(set(found[field]), {"device", "host", "nvme"})
        self.assertEqual(set(found["moved_bytes_per_step"]), {"h2d", "d2h", "nvme_read", "nvme_write"})
        self.assertEqual(set(found["bound"]), {"seconds", "by", "share"})
        self.assertRegex(found["weights_digest"], "^[0-9a-f]{16}$")
        self.assertGreater(found["tokens_per_s"], 0)
        self.assertGreater(found["peak_rss_bytes"], 1 << 20)

    def test_params_are_counted_once(self):
        # Embedding 256×32 (tied to the head), positions 16×32, one block of 12·32² + 13·32, the last norm 2·32.
        found = self.train(
            "--model",
            "gpt:layers=1,hidden=32,heads=2,vocab=256,tied=1",
            "--seq",
            16,
            "--batch",
            1,
            "--steps",
            1,
            "--plugin",
            "none",
        )
        self.assertEqual(found["params"], 256 * 32 + 16 * 32 + 12 * 32 * 32 + 13 * 32 + 2 * 32)

    def test_losses_fall(self):
        losses = self.train(
            *GPT, "--plugin", "none", "--data", self.text(), "--steps", 60, "--lr", "1e-2", "--precision", "fp32"
        )["losses"]
        self.assertLess(sum(losses[-10:]) / 10, losses[0] - 1)

    def test_every_precision_trains(self):
        for precision in ("fp32", "fp16", "bf16"):
            self.assertEqual(
                len(self.train(*MLP, "--plugin", "none", "--steps", 2, "--precision", precision)["losses"]), 2
            )

    def test_options_change_the_run(self):
        base = [*GPT, "--plugin", "none", "--data", self.text(), "--steps", 3, "--precision", "fp32"]
        digests = {
            self.train(*base, *more)["weights_digest"]
            for more in (
                [],
                ["--clip", "0.1"],
                ["--optimizer", "adam", "--weight-decay", "0.5"],
                ["--weight-decay", "0.5"],
                ["--accumulate", 2],
                ["--lr", "1e-3"],
                ["--clip-value", "1e-3"],
                ["--group", "vectors:weight_decay=0.5"],
                ["--group", "*.bias:lr=1e-3"],
                ["--group", "*.bias:betas=0.5/0.9"],
                ["--optimizer", "sgd"],
                ["--optimizer", "sgd", "--momentum", "0.5"],
                ["--optimizer", "sgd", "--nesterov"],
                ["--optimizer", "sgd", "--group", "*.bias:momentum=0"],
                ["--optimizer", "lars"],
                ["--optimizer", "lars", "--trust-coefficient", "0.1"],
                ["--optimizer", "lars", "--group", "vectors:trust_coefficient=0"],
                ["--optimizer", "lamb"],
                ["--optimizer", "lamb", "--weight-decay", "0.5"],
                ["--optimizer", "lamb", "--group", "*.bias:betas=0.5/0.9"],
            )
        }
        self.assertEqual(len(digests), 20)

    def test_sgd_learns_and_its_groups_have_momentum(self):
        options = ["--optimizer", "sgd", "--lr", "0.1", "--group", "vectors:momentum=0.5", "--precision", "fp32"]
        found = self.train(*GPT, "--plugin", "none", "--data", self.text(), "--steps", 60, *options)
        self.assertLess(sum(found["losses"][-10:]) / 10, found["losses"][0] - 1)
        self.assertEqual([group["momentum"] for group in found["groups"]], [0.5, 0.9])
        self.assertNotIn("betas", found["groups"][0])

    def test_lamb_learns_with_the_same_bits_on_all_tiers(self):
        options = ["--optimizer", "lamb", "--lr", "0.01", "--group", "vectors:weight_decay=0,eps=1e-6"]
        base = [*GPT, "--data", self.text(), "--steps", 60, *options]
        found = self.train(*base, "--plugin", "none")
        self.assertLess(sum(found["losses"][-10:]) / 10, found["losses"][0] - 1)
        self.assertEqual([group["betas"] for group in found["groups"]], [[0.9, 0.999]] * 2)
        self.assertNotIn("momentum", found["groups"][0])
        # Chunks so small that matrices span several tiles, with whole and with split masters, and on a drive.
        small = ["--plugin", "gemini", "--set", "placement_policy=cpu", "--set", "chunk_bytes=4096"]
        for more in (
            ["--set", "split_master=false"],
            ["--set", "stream_optim_frac=1"],
            ["--nvme", self.folder, "--set", "nvme_offload_fraction=1"],
        ):
            self.assertEqual(self.train(*base, *small, *more)["losses"], found["losses"], more)

    def test_sgd_keeps_four_bytes_a_parameter_less(self):
        base = [*GPT, "--plugin", "gemini", "--set", "placement_policy=cpu", "--data", self.text(), "--steps", 3]
        adam, sgd = self.train(*base), self.train(*base, "--optimizer", "sgd")
        saved = adam["peak_bytes"]["host"] - sgd["peak_bytes"]["host"]
        self.assertGreaterEqual(saved, 4 * adam["params"])

    def test_the_norm_shown_is_the_one_that_is_clipped(self):
        base = [*GPT, "--plugin", "none", "--data", self.text(), "--steps", 1, "--optimizer", "sgd", "--precision", "fp32"]
        plain = self.train(*base)
        self.assertEqual((plain["grad_norms"], plain["clipped_steps"]), ([], 0))
        (norm,) = self.train(*base, "--clip", 1e9)["grad_norms"]
        under, over = self.train(*base, "--clip", norm * 1.001), self.train(*base, "--clip", norm * 0.999)
        self.assertEqual((under["weights_digest"], under["clipped_steps"]), (plain["weights_digest"], 0))
        self.assertNotEqual(over["weights_digest"], plain["weights_digest"])
        self.assertEqual((over["grad_norms"], over["clipped_steps"]), ([norm], 1))

    def test_groups_that_change_nothing_keep_the_bits(self):
        base = [*GPT, "--plugin", "none", "--data", self.text(), "--steps", 3, "--lr-schedule", "cosine"]
        plain = self.train(*base)
        self.assertEqual(plain["groups"][0]["params"], plain["params"])
        grouped = self.train(*base, "--group", "vectors:lr=6e-4,weight_decay=0.01", "--clip-value", 1e30)
        self.assertEqual(plain["weights_digest"], grouped["weights_digest"])

    def test_json_names_the_groups(self):
        options = ["--group", "*.bias:lr=0.5", "--group", "vectors:weight_decay=0", "--optimizer", "adam"]
        found = self.train(*GPT, "--plugin", "none", "--data", self.text(), "--steps", 1, *options)
        groups = found["groups"]
        self.assertEqual([group["selector"] for group in groups], ["*.bias", "vectors", "*"])
        self.assertEqual(sum(group["params"] for group in groups), found["params"])
        self.assertEqual([group["lr"] for group in groups], [0.5, 6e-4, 6e-4])
        self.assertEqual([group["weight_decay"] for group in groups], [0.01, 0, 0.01])
        self.assertEqual(groups[1]["tensors"] * 32, groups[1]["params"])  # weights of norms
        self.assertEqual(groups[0]["betas"], [0.9, 0.999])
        self.assertEqual(groups[0]["eps"], 1e-8)

    def test_json_names_the_rate_of_each_step(self):
        base = [*MLP, "--plugin", "none", "--steps", 6, "--lr", "0.1"]
        self.assertEqual(self.train(*base)["lr"], [0.1] * 6)
        found = self.train(*base, "--lr-schedule", "cosine", "--warmup-steps", 2, "--min-lr", "0.02")["lr"]
        expected = [0.05, 0.1] + [0.06 + 0.04 * math.cos(math.radians(45 * i)) for i in range(4)]
        self.assertEqual(len(found), 6)
        for rate, wanted in zip(found, expected):
            self.assertAlmostEqual(rate, wanted, 15)

    def test_every_schedule_trains_as_it_says(self):
        base = [*MLP, "--plugin", "none", "--steps", 4]
        digests = {
            self.train(*base, "--lr-schedule", schedule, *more)["weights_digest"]
            for schedule, more in (
                ("constant", []),
                ("constant", ["--warmup-steps", 2]),
                ("linear", []),
                ("cosine", []),
                ("multistep", ["--milestones", "1,3", "--gamma", "0.5"]),
                ("onecycle", []),
                ("polynomial", ["--power", 2]),
                ("exponential", ["--gamma", "0.9"]),
            )
        }
        self.assertEqual(len(digests), 8)
        self.assertIn(self.train(*base)["weights_digest"], digests)

    def test_a_skipped_step_uses_up_its_rate(self):
        base = [*MLP, "--plugin", "none", "--steps", 20, "--precision", "fp16", "--lr", "0.1", "--lr-schedule", "linear"]
        skipped = []
        for hysteresis in (1, 3):
            found = self.train(*base, "--initial-scale", 2**20, "--hysteresis", hysteresis)
            skipped.append(found["skipped_steps"])
            for step, rate in enumerate(found["lr"]):
                self.assertAlmostEqual(rate, 0.1 * (20 - step) / 20, 15)
        self.assertGreater(skipped[0], 0)
        self.assertGreater(skipped[1], skipped[0], "two overflows more are forgiven")

    def test_recomputing_gives_the_same_bits(self):
        base = [*GPT, "--plugin", "none", "--data", self.text(), "--steps", 3]
        self.assertEqual(self.train(*base)["weights_digest"], self.train(*base, "--recompute")["weights_digest"])

    def test_people_get_progress_and_a_table(self):
        done = run("train", *MLP, "--plugin", "none", "--steps", 3)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("step 1/3  loss ", done.stderr)
        self.assertIn("tier         peak         budget", done.stdout)

    def test_the_plugin_in_plain_c_trains_as_the_resident_run(self):
        base = [*GPT, "--data", self.text(), "--steps", 3, "--precision", "fp32"]
        for more in ([], ["--group", "vectors:weight_decay=0,lr=1e-2", "--clip-value", "1e-3"]):
            resident, minimal = (self.train(*base, *more, "--plugin", plugin) for plugin in ("none", MINIMAL))
            self.assertEqual(resident["losses"], minimal["losses"])
            self.assertEqual(resident["weights_digest"], minimal["weights_digest"])
