# SPDX-License-Identifier: Apache-2.0
"""castor train --checkpoint and --resume."""

import os
import random
import signal
import subprocess
import time
import unittest

from command_case import CASTOR, HAS_GEMINI, HAS_TORCH, MINIMAL, CommandCase, run

N_KILLS = int(os.environ.get("CASTOR_N_KILLS", "4"))


@unittest.skipUnless(HAS_TORCH and HAS_GEMINI, "no plugin gemini here")
class Checkpoints(CommandCase):
    """A resumed run has the bits of one that never stopped, on whichever tiers either keeps its memory."""

    MODEL = ["--model", "gpt:layers=2,hidden=64,heads=4,vocab=256", "--seq", "32", "--batch", "2", "--threads", "1"]
    RESIDENT = ["--plugin", "none"]
    ROOMY = ["--plugin", "gemini"]

    def setUp(self):
        super().setUp()
        self.saved = self.folder / "saved"
        self.nvme = self.folder / "nvme"
        self.nvme.mkdir()
        tight = ["--device-budget", "300KiB", "--host-budget", "1MiB", "--nvme", self.nvme]
        self.tight = ["--plugin", "gemini", *tight, "--set", "chunk_bytes=64KiB"]

    def command(self, *options):
        return ["train", *self.MODEL, "--data", self.text(), "--json", *options]

    def train(self, *options):
        return self.assert_result(run(*self.command(*options)))

    def assert_goes_on(self, whole, first, *options):
        rest = self.train(*options)
        self.assertEqual(rest["first_step"], first)
        self.assertEqual(rest["losses"], whole["losses"][first:])
        self.assertEqual(rest["weights_digest"], whole["weights_digest"])

    def test_any_placement_goes_on_from_any_other(self):
        whole = self.train(*self.RESIDENT, "--steps", "8", "--clip", "0.5")
        for number, source in enumerate((self.RESIDENT, self.ROOMY, self.tight)):
            folder = self.folder / str(number)
            self.train(*source, "--steps", "3", "--clip", "0.5", "--checkpoint", folder)
            for target in (self.RESIDENT, self.ROOMY, self.tight):
                self.assert_goes_on(whole, 3, *target, "--steps", "8", "--clip", "0.5", "--resume", folder)

    def test_schedule_loss_scale_and_data_go_on(self):
        job = ["--precision", "fp16", "--lr", "1", "--growth-interval", "2", "--accumulate", "2"]
        job += ["--lr-schedule", "cosine", "--decay-steps", "9", "--warmup-steps", "2"]
        whole = self.train(*self.RESIDENT, *job, "--steps", "9")
        self.assertGreater(whole["skipped_steps"], 0)
        self.train(*self.tight, *job, "--steps", "4", "--checkpoint", self.saved)
        self.assert_goes_on(whole, 4, *self.tight, *job, "--steps", "9", "--resume", self.saved)

    def test_moments_in_16_bits_go_on(self):
        job = ["--moments", "bf16", "--seed", "5"]
        whole = self.train(*self.RESIDENT, *job, "--steps", "6")
        self.train(*self.tight, *job, "--steps", "3", "--checkpoint", self.saved)
        for target in (self.RESIDENT, self.ROOMY, [*self.tight, "--set", "split_master=false"]):
            self.assert_goes_on(whole, 3, *target, *job, "--steps", "6", "--resume", self.saved)

    def test_sgd_goes_on_with_its_momentum(self):
        job = ["--optimizer", "sgd", "--momentum", "0.8", "--nesterov", "--lr", "0.05", "--clip", "0.5", "--accumulate", "2"]
        job += ["--group", "vectors:weight_decay=0,momentum=0.5"]
        whole = self.train(*self.RESIDENT, *job, "--steps", "6")
        self.train(*self.tight, *job, "--steps", "3", "--checkpoint", self.saved)
        for target in (self.RESIDENT, self.ROOMY, [*self.tight, "--set", "split_master=false"]):
            self.assert_goes_on(whole, 3, *target, *job, "--steps", "6", "--resume", self.saved)
        refused = run(*self.command(*self.ROOMY, "--steps", "6", "--resume", self.saved))
        self.assert_error(refused, 2, "it holds the moments of sgd, --optimizer adamw continues from those of adam")

    def test_lars_goes_on_with_its_momentum(self):
        job = ["--optimizer", "lars", "--trust-coefficient", "0.02", "--lr", "1", "--accumulate", "2"]
        job += ["--group", "vectors:weight_decay=0,trust_coefficient=0,lr=0.01"]
        whole = self.train(*self.RESIDENT, *job, "--steps", "6")
        self.train(*self.tight, *job, "--steps", "3", "--checkpoint", self.saved)
        for target in (self.RESIDENT, self.ROOMY, [*self.tight, "--set", "split_master=false"]):
            self.assert_goes_on(whole, 3, *target, *job, "--steps", "6", "--resume", self.saved)
        refused = run(*self.command(*self.ROOMY, "--optimizer", "sgd", "--steps", "6", "--resume", self.saved))
        self.assert_error(refused, 2, "it holds the moments of lars, --optimizer sgd continues from those of sgd")

    def test_lamb_goes_on_with_its_moments(self):
        job = ["--optimizer", "lamb", "--lr", "0.01", "--accumulate", "2", "--group", "vectors:weight_decay=0"]
        whole = self.train(*self.RESIDENT, *job, "--steps", "6")
        self.train(*self.tight, *job, "--steps", "3", "--checkpoint", self.saved)
        for target in (self.RESIDENT, self.ROOMY, [*self.tight, "--set", "split_master=false"]):
            self.assert_goes_on(whole, 3, *target, *job, "--steps", "6", "--resume", self.saved)
        refused = run(*self.command(*self.ROOMY, "--optimizer", "lars", "--steps", "6", "--resume", self.saved))
        self.assert_error(refused, 2, "it holds the moments of adam, --optimizer lars continues from those of lars")

    def test_every_n_steps_the_one_before_gives_way(self):
        done = self.train(*self.tight, "--steps", "7", "--checkpoint", self.saved, "--checkpoint-every", "2")
        unsaved = self.train(*self.tight, "--steps", "7")
        self.assertEqual(done["weights_digest"], unsaved["weights_digest"])
        self.assert_goes_on(self.train(*self.RESIDENT, "--steps", "8"), 7, *self.ROOMY, "--steps", "8", "--resume", self.saved)

    def test_ctrl_c_saves_what_was_trained(self):
        command = [CASTOR, *map(str, self.command(*self.tight, "--steps", "1000000", "--checkpoint", self.saved))]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(child.communicate)
        self.addCleanup(child.kill)
        for line in child.stderr:
            if line.startswith("step 1/"):
                break
        child.send_signal(signal.SIGINT)
        out, _ = child.communicate(timeout=60)
        self.assertEqual(child.returncode, 130, out)
        self.assertIn(f"continue with --resume {self.saved}", out)
        refused = self.assert_error(run(*self.command(*self.ROOMY, "--steps", "1", "--resume", self.saved)), 2)
        n_steps = int(refused["error"]["message"].split("is a run of ")[1].split()[0])
        whole = self.train(*self.RESIDENT, "--steps", str(n_steps + 2))
        self.assert_goes_on(whole, n_steps, *self.tight, "--steps", str(n_steps + 2), "--resume", self.saved)

    def test_killed_again_and_again_it_gets_to_the_same_end(self):
        steps = str(40 + 10 * N_KILLS)
        whole = self.train(*self.RESIDENT, "--steps", steps)
        job = self.command(*self.tight, "--steps", steps, "--checkpoint", self.saved, "--checkpoint-every", "1")
        chance = random.Random(N_KILLS)
        for _ in range(N_KILLS):
            resume = ["--resume", self.saved] if (self.saved / "castor.manifest").exists() else []
            child = subprocess.Popen(
                [CASTOR, *map(str, [*job, *resume])], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
            for line in child.stderr:
                if line.startswith("step "):
                    break
            time.sleep(0.2 * chance.random())
            child.kill()
            child.communicate()
        rest = self.assert_result(run(*job, "--resume", self.saved))
        self.assertEqual(rest["weights_digest"], whole["weights_digest"])
        self.assertEqual(rest["losses"], whole["losses"][rest["first_step"] :])

    def test_a_full_drive_leaves_the_last_checkpoint(self):
        self.train(*self.ROOMY, "--steps", "2", "--checkpoint", self.saved)
        largest = max(os.path.getsize(self.saved / name) for name in os.listdir(self.saved))
        limited = ["bash", "-c", f"trap '' XFSZ; ulimit -f {largest // 1024 + 8}; exec \"$@\"", "bash", CASTOR]
        job = self.command(*self.ROOMY, "--steps", "4", "--resume", self.saved, "--checkpoint", self.saved)
        done = subprocess.run([*limited, *map(str, job)], capture_output=True, text=True)
        self.assertEqual(done.returncode, 4, done.stdout + done.stderr)
        whole = self.train(*self.RESIDENT, "--steps", "4")
        self.assert_goes_on(whole, 2, *self.ROOMY, "--steps", "4", "--resume", self.saved)

    def test_what_cannot_be_is_refused(self):
        self.train(*self.ROOMY, "--steps", "2", "--checkpoint", self.saved)
        other = ["train", "--model", "gpt:layers=1,hidden=64,heads=4,vocab=256", "--seq", "32", "--json"]
        elsewhere = self.folder / "elsewhere"
        elsewhere.mkdir()
        for command, words in (
            (self.command("--checkpoint", self.saved), "holds a run of 2 steps already"),
            (self.command("--resume", self.saved, "--steps", "2"), "leaves nothing to do"),
            (self.command("--resume", self.folder / "nowhere"), "no such folder"),
            (self.command("--resume", elsewhere), "no checkpoint in that folder"),
            (self.command("--checkpoint-every", "2"), "needs --checkpoint"),
            (self.command("--plugin", MINIMAL, "--checkpoint", elsewhere), "cannot save its states"),
            ([*other, "--resume", self.saved], "it is of the model gpt:heads=4,hidden=64,layers=2"),
        ):
            self.assert_error(run(*command), 2, words)

    def test_damage_is_found(self):
        self.train(*self.ROOMY, "--steps", "2", "--checkpoint", self.saved)
        data = next(path for path in self.saved.iterdir() if path.suffix == ".data")
        with open(data, "r+b") as file:
            file.seek(8192)  # inside the first parameter, which is larger than that
            byte = file.read(1)
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte[0] ^ 1]))
        self.assert_error(run(*self.command(*self.ROOMY, "--steps", "4", "--resume", self.saved)), 4)
