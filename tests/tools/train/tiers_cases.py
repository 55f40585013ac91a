# SPDX-License-Identifier: Apache-2.0
"""castor train through memory tiers, and runs that end early."""

import json
import os
import signal
import subprocess
import unittest

from command_case import CASTOR, GPT, HAS_GEMINI, HAS_GPU, HAS_TORCH, MINIMAL, MLP, CommandCase, run


def start_endless(case, *options):
    """Starts a run and returns after its first step."""
    command = [CASTOR, "train", *GPT, "--steps", "1000000", "--json", *map(str, options)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    case.addCleanup(child.communicate)
    case.addCleanup(child.kill)
    for line in child.stderr:
        if line.startswith("step "):
            return child
    return case.fail(child.communicate())


def finish(case, child, code):
    """Waits for a failing run to end; returns its last object, which holds the losses so far."""
    out, _ = child.communicate(timeout=60)
    case.assertEqual(child.returncode, code, out)
    last = json.loads(out.splitlines()[-1])
    case.assertEqual(last["error"]["code"], code)
    case.assertGreaterEqual(len(last["losses"]), 1)
    return last


@unittest.skipUnless(HAS_TORCH, "built without LibTorch")
class TrainFailures(CommandCase):
    """A run that ends early shows the losses of its completed steps."""

    def test_ctrl_c(self):
        child = start_endless(self, "--plugin", "none")
        child.send_signal(signal.SIGINT)
        self.assertEqual(finish(self, child, 130)["error"]["kind"], "interrupted")

    def test_termination_ends_as_cleanly(self):
        child = start_endless(self, "--plugin", "none")
        child.terminate()
        finish(self, child, 143)

    def test_ctrl_c_with_a_plugin(self):
        child = start_endless(self, "--plugin", MINIMAL)
        child.send_signal(signal.SIGINT)
        finish(self, child, 130)

    def test_data_file_that_shrinks(self):
        text = self.text()
        child = start_endless(self, "--plugin", "none", "--data", text)
        os.truncate(text, 20)
        self.assertIn("it ends at byte", finish(self, child, 4)["error"]["message"])


@unittest.skipUnless(HAS_TORCH and HAS_GEMINI, "no plugin gemini here")
class TrainThroughTiers(CommandCase):
    """The same run with its memory spread over three tiers."""

    MODEL = [
        "--model",
        "gpt:layers=2,hidden=64,heads=4,vocab=256",
        "--seq",
        "32",
        "--batch",
        "2",
        "--threads",
        "1",
        "--steps",
        "6",
    ]

    def setUp(self):
        super().setUp()
        self.nvme = self.folder / "nvme"
        self.nvme.mkdir()
        self.small = [
            "--plugin",
            "gemini",
            "--device-budget",
            "300KiB",
            "--host-budget",
            "1MiB",
            "--nvme",
            self.nvme,
            "--set",
            "chunk_bytes=64KiB",
        ]

    def train(self, *options):
        return self.assert_result(run("train", *self.MODEL, "--data", self.text(), *options, "--json"))

    def assert_same_bits(self, *options):
        resident, tiered = self.train(*options, "--plugin", "none"), self.train(*options, *self.small)
        for same in ("losses", "weights_digest", "skipped_steps", "grad_norms", "clipped_steps"):
            self.assertEqual(resident[same], tiered[same], same)
        return tiered

    def test_losses_and_weights_are_those_of_the_resident_run(self):
        tiered = self.assert_same_bits()
        for tier in ("device", "host"):
            self.assertLessEqual(tiered["peak_bytes"][tier], tiered["budget_bytes"][tier])
        self.assertGreater(tiered["peak_bytes"]["nvme"], 0)
        self.assertGreater(tiered["moved_bytes_per_step"]["nvme_read"], 0)
        self.assertGreater(tiered["link_bytes_per_s"]["nvme_read"], 0)
        self.assertEqual(list(self.nvme.iterdir()), [])

    def test_clipping_and_micro_batches_keep_the_bits(self):
        self.assert_same_bits("--clip", "0.5", "--accumulate", "3", "--recompute")

    def test_groups_and_clipped_values_keep_the_bits(self):
        groups = ["--group", "vectors:weight_decay=0,betas=0.8/0.95", "--group", "blocks.0.*:lr=1e-2,eps=1e-6"]
        schedule = ["--lr-schedule", "cosine", "--warmup-steps", 2]
        self.assert_same_bits(*groups, *schedule)
        self.assert_same_bits(*groups, "--clip-value", "1e-3", "--precision", "fp16", "--initial-scale", 2**20)
        self.assert_same_bits(*groups, "--clip", "0.5", "--optimizer", "adam")

    def test_updates_beside_the_thread_keep_the_bits(self):
        trace = self.folder / "trace.json"
        self.MODEL = [*self.MODEL[:-1], "10"]
        for options in (
            [],
            ["--clip", "0.5", "--accumulate", "2"],
            ["--precision", "fp16", "--lr", "1", "--on-nan", "continue"],
            ["--lr-schedule", "cosine", "--warmup-steps", "3"],
        ):
            self.assert_same_bits(*options)
        self.train(*self.small, "--trace", trace)
        moments = json.loads(trace.read_text())["moments"]
        beside = [i for i, row in enumerate(moments) if row[6]]
        self.assertEqual({moments[i][0] for i in beside}, {"update"})
        last_backward = max(i for i, row in enumerate(moments) if row[0] == "backward")
        self.assertLess(beside[0], last_backward, "without clipping updates begin during backward")
        planned = self.assert_result(run("plan", "--trace", trace, "--json"))
        self.assertGreater(planned["update_beside_s"], 0)

    def test_speculative_updates_keep_the_bits_and_begin_during_backward(self):
        trace = self.folder / "trace.json"
        self.MODEL = [*self.MODEL[:-1], "10"]
        self.small[self.small.index("1MiB")] = "8MiB"
        self.small += ["--set", "placement_policy=cpu", "--set", "speculative_updates=on"]
        overflowing = ["--precision", "fp16", "--initial-scale", 2**20, "--lr", "1"]
        for options in (["--clip", "1e9"], ["--clip", "1.5"], ["--clip", "1e-3"], overflowing):
            self.assert_same_bits(*options)
        first_update = {}
        for clip in ("1e9", "1e-3"):
            self.train(*self.small, "--clip", clip, "--trace", trace)
            kinds = [row[0] for row in json.loads(trace.read_text())["moments"]]
            last_backward = max(i for i, kind in enumerate(kinds) if kind == "backward")
            first_update[clip] = kinds.index("update") - last_backward
        self.assertLess(first_update["1e9"], 0, "while no norm is too large")
        self.assertGreater(first_update["1e-3"], 0, "once one was")
        for clip, told in (([], 0), (["--clip", "1.5"], 1)):
            done = run("train", *self.MODEL, "--data", self.text(), *self.small, *clip)
            self.assertEqual(done.stderr.count("for updates that begin before the norm of the gradients is known"), told)

    def test_streamed_states_keep_the_bits(self):
        trace = self.folder / "trace.json"
        self.MODEL = [*self.MODEL[:-1], "10"]
        self.small[self.small.index("300KiB")] = "1200KiB"
        self.small += ["--set", "placement_policy=cpu", "--set", "stream_optim_frac=0.5"]
        for options in ([], ["--clip", "0.5", "--accumulate", "2"], ["--precision", "fp16", "--lr", "1", "--on-nan", "continue"]):
            self.assert_same_bits(*options)
        self.train(*self.small, "--clip", "0.5", "--trace", trace)
        moments = json.loads(trace.read_text())["moments"]
        first_backward = next(i for i, row in enumerate(moments) if row[0] == "backward")
        streamed = [i for i, row in enumerate(moments) if row[0] == "update" and not row[6]]
        self.assertGreater(len(streamed), 0)
        self.assertLess(max(streamed), first_backward, "after a norm they wait for the next use of their weights")

    def test_what_is_tried_on_a_gpu_keeps_the_bits(self):
        if not HAS_GPU:
            self.skipTest("no GPU in this machine")
        model = ["--model", "gpt:layers=6,hidden=512,heads=8,vocab=256", "--seq", "32", "--batch", "2"]
        self.MODEL = [*model, "--device", "cuda", "--deterministic", "--steps", "48"]
        for clip in ([], ["--clip", "0.5"], ["--clip", "2"]):  # enough steps to try shares of streamed states and
                                                               # numbers of threads
            resident = self.train(*clip, "--plugin", "none")
            tiered = self.train(*clip, "--plugin", "gemini", "--set", "placement_policy=cpu")
            self.assertEqual(resident["losses"], tiered["losses"])
            self.assertEqual(resident["weights_digest"], tiered["weights_digest"])

    def test_moments_in_16_bits_keep_the_bits_and_take_less(self):
        trace = self.folder / "trace.json"
        digests = {self.train("--plugin", "none")["weights_digest"]}
        for moments, bytes_per_param in (("mixed", 8), ("bf16", 6)):
            digests.add(self.assert_same_bits("--moments", moments, "--seed", "3", "--clip", "0.5")["weights_digest"])
            result = self.train(*self.small, "--moments", moments, "--trace", trace)
            chunks = json.loads(trace.read_text())["chunks"]
            n_bytes = {kind: sum(c["bytes"] for c in chunks if c["kind"] == kind) for kind in ("state", "payload")}
            self.assertEqual(n_bytes["state"], n_bytes["payload"] // 2 * bytes_per_param)
            self.assertGreaterEqual(n_bytes["state"], result["params"] * bytes_per_param)
        self.assertEqual(len(digests), 3, "each is a training of its own")
        self.assert_error(run("train", *self.MODEL, "--plugin", MINIMAL, "--moments", "bf16"), 2, "has no option 'moments'")

    def test_whole_masters_take_two_bytes_more(self):
        whole = self.train(*self.small, "--set", "split_master=false")
        split = self.assert_same_bits()
        self.assertEqual(whole["weights_digest"], split["weights_digest"])
        share = split["moved_bytes_per_step"]["nvme_write"] / whole["moved_bytes_per_step"]["nvme_write"]
        self.assertLess(share, 0.95)

    def test_schedules_keep_the_bits(self):
        tiered = self.assert_same_bits("--lr-schedule", "onecycle", "--clip", "0.5")
        self.assertEqual(len(set(tiered["lr"])), 6)

    def test_inputs_of_recomputed_blocks_move_and_keep_the_bits(self):
        trace = self.folder / "trace.json"
        resident = self.train("--recompute", "--plugin", "none")
        tiered = self.train("--recompute", *self.small, "--set", "offload_activations=true", "--trace", trace)
        self.assertEqual(resident["losses"], tiered["losses"])
        self.assertEqual(resident["weights_digest"], tiered["weights_digest"])
        kept = [chunk for chunk in json.loads(trace.read_text())["chunks"] if chunk["kind"] == "activation"]
        self.assertEqual([chunk["bytes"] for chunk in kept], [2 * 32 * 64 * 2] * 2)
        self.assert_result(run("plan", "--trace", trace, "--device-budget", "400KiB", "--json"))

    def test_fp16_keeps_the_bits_and_skips_alike(self):
        tiered = self.assert_same_bits(
            "--precision", "fp16", "--lr", "1"
        )  # a rate that throws the weights far off, so that gradients overflow
        self.assertGreater(tiered["skipped_steps"], 0)

    def test_device_budget_below_the_working_set(self):
        self.small[3] = "8KiB"
        self.assert_error(
            run("train", *self.MODEL, *self.small, "--json"),
            3,
            "needs",
            "the budget is 8.00 KiB; raise --device-budget to",
        )

    def test_host_budget_below_the_working_set(self):
        self.small[5] = "8KiB"
        self.assert_error(
            run("train", *self.MODEL, *self.small, "--json"), 3, "the budget is 8.00 KiB; raise --host-budget to"
        )

    def test_unknown_option_suggests_the_nearest(self):
        self.assert_error(
            run("train", *self.MODEL, "--plugin", "gemini", "--set", "placment_policy=cpu", "--json"),
            2,
            "placment_policy",
            "placement_policy",
        )

    def test_option_out_of_range(self):
        self.assert_error(
            run("train", *self.MODEL, "--plugin", "gemini", "--set", "nvme_offload_fraction=2", "--json"),
            2,
            "nvme_offload_fraction",
            "0 to 1",
        )

    def test_same_thing_twice(self):
        self.assert_error(
            run("train", *self.MODEL, *self.small, "--set", "host_budget=1GiB", "--json"),
            2,
            "--host-budget",
            "--set host_budget=",
        )

    def test_budget_above_the_memory_warns(self):
        done = run("train", *MLP, "--steps", "1", "--plugin", "gemini", "--host-budget", "4096TiB")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("castor: warning: --host-budget 4096 TiB is more than the ", done.stderr)

    def test_trace_is_read_by_memprof(self):
        trace = self.folder / "trace.json"
        self.train(*self.small, "--trace", trace)
        found = self.assert_result(run("memprof", trace, "--json"))
        self.assertGreater(found["lanes"]["nvme_read"]["bytes"], 0)
        self.assertEqual(found["tiers"]["device"]["budget_bytes"], 300 << 10)
        self.assertLessEqual(found["tiers"]["device"]["peak_bytes"], 300 << 10)

    def test_trace_is_planned_under_other_budgets(self):
        trace = self.folder / "trace.json"
        self.train(*self.small, "--trace", trace)
        recorded = self.assert_result(run("plan", "--trace", trace, "--json"))
        self.assertGreater(recorded["moved_bytes_per_step"]["h2d"], 0)
        ample = self.assert_result(
            run("plan", "--trace", trace, "--device-budget", "1GiB", "--host-budget", "1GiB", "--json")
        )
        self.assertEqual(ample["moved_bytes_per_step"]["nvme_read"], 0)
        self.assertLessEqual(ample["step_s"], recorded["step_s"] * (1 + 1e-9), "the same seconds in another order")

    def test_trace_that_cannot_be_written_ends_the_run_before_it_begins(self):
        nowhere = self.folder / "none" / "t"
        done = run("train", *self.MODEL, *self.small, "--trace", nowhere, "--json")
        self.assert_error(done, 4, f"cannot write {nowhere}: No such file or directory")
        self.assertNotIn("step 1/", done.stderr)

    def test_ctrl_c_leaves_nothing_behind(self):
        child = start_endless(self, *self.small)
        child.send_signal(signal.SIGINT)
        finish(self, child, 130)
        self.assertEqual(list(self.nvme.iterdir()), [])


def can_mount():
    return subprocess.run(["unshare", "-Urm", "true"], capture_output=True).returncode == 0


@unittest.skipUnless(HAS_TORCH and HAS_GEMINI, "no plugin gemini here")
@unittest.skipUnless(can_mount(), "no mounts of one's own here")
class TrainOnAFullDrive(CommandCase):
    """NVMe folders on a small file system that the test mounts."""

    # $1: mount point, $2: its size, $3: file for the result; the rest is the command.
    SCRIPT = """mount -t tmpfs -o size=$2 none "$1" || exit 99
        where=$1 result=$3; shift 3
        "$@" 2>&1 >"$result"; echo "exit code $?"
        echo "left:" $(ls -A "$where")"""

    def train(self, size, *options):
        """Trains until the drive is full; returns the result, and the files that remain there."""
        nvme, result = self.folder / "nvme", self.folder / "result"
        nvme.mkdir()
        command = [
            CASTOR,
            "train",
            "--model",
            "gpt:layers=2,hidden=64,heads=4,vocab=256",
            "--seq",
            "64",
            "--batch",
            "4",
            "--threads",
            "1",
            "--steps",
            "20",
            "--plugin",
            "gemini",
            "--device-budget",
            "300KiB",
            "--host-budget",
            "1MiB",
            "--set",
            "chunk_bytes=64KiB",
            "--nvme",
            str(nvme),
            "--json",
            *options,
        ]
        done = subprocess.run(
            ["unshare", "-Urm", "bash", "-c", self.SCRIPT, "bash", str(nvme), size, str(result), *command],
            capture_output=True,
            text=True,
            timeout=100,
        )
        self.assertIn("exit code 4\n", done.stdout, done.stderr)
        last = json.loads(result.read_text().splitlines()[-1])
        self.assertEqual(last["error"]["kind"], "io")
        self.assertIn("No space left on device", last["error"]["message"])
        return last, done.stdout.splitlines()[-1]

    def test_full_from_the_start(self):
        last, left = self.train("512k")
        self.assertEqual((last["losses"], left), ([], "left:"))

    # The drive has room for the 1.8 MiB of one commit, but not for a second one beside it.
    def test_full_in_mid_run_shows_the_losses_so_far(self):
        last, left = self.train("2m", "--durability", "commit", "--checkpoint-every", "1")
        self.assertGreaterEqual(len(last["losses"]), 1)
        self.assertLess(len(last["losses"]), 20)
        self.assertRegex(left, r"^left: castor-\w+-0\.data castor\.manifest$")
