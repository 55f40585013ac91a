# SPDX-License-Identifier: Apache-2.0
"""castor train --durability commit: the folders of --nvme are the checkpoint."""

import os
import random
import shutil
import signal
import subprocess
import time
import unittest

from command_case import CASTOR, HAS_GEMINI, HAS_GPU, HAS_TORCH, CommandCase, run

N_KILLS = int(os.environ.get("CASTOR_N_KILLS", "4"))


@unittest.skipUnless(HAS_TORCH and HAS_GEMINI, "no plugin gemini here")
class Commits(CommandCase):
    """A run resumed from its own commit has the bits of one that never stopped, whichever plugin resumes it."""

    MODEL = ["--model", "gpt:layers=2,hidden=64,heads=4,vocab=256", "--seq", "32", "--batch", "2", "--threads", "1"]
    RESIDENT = ["--plugin", "none"]
    ROOMY = ["--plugin", "gemini"]

    def setUp(self):
        super().setUp()
        self.folders = [self.folder / "nvme0", self.folder / "nvme1"]
        for folder in self.folders:
            folder.mkdir()
        self.both = ",".join(map(str, self.folders))
        budgets = ["--device-budget", "300KiB", "--host-budget", "1MiB"]
        self.tight = ["--plugin", "gemini", *budgets, "--nvme", self.both, "--set", "chunk_bytes=64KiB"]
        self.kept = [*self.tight, "--durability", "commit"]

    def command(self, *options):
        return ["train", *self.MODEL, "--data", self.text(), "--json", *options]

    def train(self, *options):
        return self.assert_result(run(*self.command(*options)))

    def start(self, *options, until="step "):
        """Starts a run and waits for a line that begins with `until`."""
        command = [CASTOR, *map(str, self.command(*options))]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(child.communicate)
        self.addCleanup(child.kill)
        for line in child.stderr:
            if line.startswith(until):
                return child
        return self.fail(child.communicate())

    def assert_goes_on(self, whole, first, *options):
        rest = self.train(*options)
        self.assertEqual(rest["first_step"], first)
        self.assertEqual(rest["losses"], whole["losses"][first:])
        self.assertEqual(rest["weights_digest"], whole["weights_digest"])

    def test_any_placement_goes_on_from_the_folders(self):
        whole = self.train(*self.RESIDENT, "--steps", "8", "--clip", "0.5")
        self.train(*self.kept, "--steps", "3", "--clip", "0.5")
        other_chunks = [*self.kept, "--set", "split_master=false"]
        for target in (self.RESIDENT, self.ROOMY, self.tight):
            self.assert_goes_on(whole, 3, *target, "--steps", "8", "--clip", "0.5", "--resume", self.both)
        self.train(*other_chunks, "--steps", "5", "--clip", "0.5", "--resume", self.both)
        self.assert_goes_on(whole, 5, *self.kept, "--steps", "8", "--clip", "0.5", "--resume", self.folders[0])

    def test_schedule_loss_scale_moments_and_data_go_on(self):
        job = ["--precision", "fp16", "--lr", "1", "--growth-interval", "2", "--accumulate", "2", "--moments", "bf16"]
        job += ["--lr-schedule", "cosine", "--decay-steps", "9", "--warmup-steps", "2"]
        whole = self.train(*self.RESIDENT, *job, "--steps", "9")
        self.assertGreater(whole["skipped_steps"], 0)
        self.train(*self.kept, *job, "--steps", "4")
        self.assert_goes_on(whole, 4, *self.RESIDENT, *job, "--steps", "9", "--resume", self.both)
        backwards = ",".join(map(str, reversed(self.folders)))
        self.assert_goes_on(whole, 4, *self.kept, *job, "--steps", "9", "--resume", backwards)

    def test_on_a_gpu_too(self):
        if not HAS_GPU:
            self.skipTest("no GPU in this machine")
        job = ["--device", "cuda", "--deterministic", "--clip", "0.5"]
        kept = ["--plugin", "gemini", "--nvme", self.both, "--durability", "commit", "--set", "chunk_bytes=64KiB"]
        whole = self.train(*self.RESIDENT, *job, "--steps", "8")
        self.train(*kept, *job, "--set", "nvme_offload_fraction=0.5", "--steps", "3")
        for below in ("0.5", "1"):
            target = [*kept, "--set", f"nvme_offload_fraction={below}"]
            self.assert_goes_on(whole, 3, *target, *job, "--steps", "8", "--resume", self.both)
            for folder in self.folders:
                shutil.rmtree(folder)
                folder.mkdir()
            self.train(*kept, *job, "--set", "placement_policy=cpu", "--steps", "3")
        self.assert_goes_on(whole, 3, *self.RESIDENT, *job, "--steps", "8", "--resume", self.both)

    def test_other_optimizers_go_on_and_their_moments_are_not_taken_for_others(self):
        job = ["--optimizer", "sgd", "--momentum", "0.9", "--lr", "0.01"]
        whole = self.train(*self.RESIDENT, *job, "--steps", "6")
        self.train(*self.kept, *job, "--steps", "3")
        self.assert_goes_on(whole, 3, *self.RESIDENT, *job, "--steps", "6", "--resume", self.both)
        for target in (self.RESIDENT, self.kept):
            refused = run(*self.command(*target, "--steps", "6", "--resume", self.both))
            self.assert_error(refused, 2, "it holds the moments of sgd, --optimizer adamw continues from those of adam")
        self.assert_goes_on(whole, 3, *self.kept, *job, "--steps", "6", "--resume", self.both)

    def test_a_checkpoint_of_copies_goes_on_in_folders_of_its_own(self):
        saved = self.folder / "saved"
        self.train(*self.ROOMY, "--steps", "3", "--checkpoint", saved)
        whole = self.train(*self.RESIDENT, "--steps", "8")
        self.train(*self.kept, "--steps", "5", "--resume", saved)
        self.assert_goes_on(whole, 5, *self.kept, "--steps", "8", "--resume", self.both)

    def test_what_lies_in_the_folders_is_not_written_again(self):
        below = ["--set", "nvme_offload_fraction=1", "--set", "overlap_updates=false"]
        kept = self.train(*self.kept, *below, "--steps", "6", "--checkpoint-every", "2")
        scratch = self.train(*self.tight, *below, "--steps", "6")
        self.assertEqual(kept["weights_digest"], scratch["weights_digest"])
        self.assertEqual(kept["saves"]["count"], 3)
        self.assertGreater(kept["saves"]["referenced_bytes"], 2 * kept["saves"]["written_bytes"])
        self.assertGreater(kept["wear"]["bytes_per_day"], 0)
        done = run(*self.command(*self.kept, *below, "--steps", "7", "--resume", self.both))
        self.assertRegex(done.stderr, r"saved after step 7: [\d.]+ [KM]iB written, [\d.]+ [KM]iB referenced\n")

    def test_ctrl_c_commits_what_was_trained(self):
        child = self.start(*self.kept, "--steps", "1000000")
        child.send_signal(signal.SIGINT)
        out, _ = child.communicate(timeout=60)
        self.assertEqual(child.returncode, 130, out)
        self.assertIn(f"continue with --resume {self.both}", out)
        refused = self.assert_error(run(*self.command(*self.ROOMY, "--steps", "1", "--resume", self.both)), 2)
        n_steps = int(refused["error"]["message"].split("is a run of ")[1].split()[0])
        whole = self.train(*self.RESIDENT, "--steps", str(n_steps + 2))
        self.assert_goes_on(whole, n_steps, *self.kept, "--steps", str(n_steps + 2), "--resume", self.both)

    def test_killed_again_and_again_it_gets_to_the_same_end(self):
        steps = str(40 + 10 * N_KILLS)
        whole = self.train(*self.RESIDENT, "--steps", steps)
        job = [*self.kept, "--steps", steps, "--checkpoint-every", "2"]
        others = [*job, "--set", "split_master=false"]
        chance = random.Random(N_KILLS)
        resume = []
        for _ in range(N_KILLS):
            child = self.start(*chance.choice((job, others)), *resume, until=chance.choice(("step ", "saved ")))
            time.sleep(0.2 * chance.random())
            child.kill()
            child.communicate()
            resume = ["--resume", self.both] if (self.folders[0] / "castor.manifest").exists() else []
        rest = self.train(*job, *resume)
        self.assertEqual(rest["weights_digest"], whole["weights_digest"])
        self.assertEqual(rest["losses"], whole["losses"][rest["first_step"] :])

    def test_two_runs_in_one_folder_are_refused(self):
        child = self.start(*self.kept, "--steps", "1000000")
        self.assert_error(run(*self.command(*self.kept, "--steps", "2")), 4, "keeps a store there")
        child.kill()

    def test_a_full_drive_leaves_the_last_commit(self):
        alone = ["--plugin", "gemini", "--nvme", self.folders[0], "--durability", "commit"]
        self.train(*alone, "--steps", "2")
        largest = max(os.path.getsize(self.folders[0] / name) for name in os.listdir(self.folders[0]))
        limited = ["bash", "-c", f"trap '' XFSZ; ulimit -f {largest // 1024 + 8}; exec \"$@\"", "bash", CASTOR]
        job = self.command(*alone, "--steps", "4", "--resume", self.folders[0])
        done = subprocess.run([*limited, *map(str, job)], capture_output=True, text=True)
        self.assertEqual(done.returncode, 4, done.stdout + done.stderr)
        whole = self.train(*self.RESIDENT, "--steps", "4")
        self.assert_goes_on(whole, 2, *alone, "--steps", "4", "--resume", self.folders[0])

    def test_what_cannot_be_is_refused(self):
        self.train(*self.kept, "--steps", "2")
        saved = self.folder / "saved"
        self.train(*self.ROOMY, "--steps", "2", "--checkpoint", saved)
        other = ["train", "--model", "gpt:layers=1,hidden=64,heads=4,vocab=256", "--seq", "32", "--json"]
        in_saved = ["--plugin", "gemini", "--nvme", saved, "--durability", "commit"]
        alone = ["--resume", self.folders[0], "--steps", "4"]
        for command, words in (
            (self.command(*self.kept), "holds a run of 2 steps already"),
            (self.command("--resume", self.both, "--steps", "2"), "leaves nothing to do"),
            (self.command(*self.RESIDENT, "--nvme", self.folder, "--durability", "commit"), "has no option"),
            (self.command(*in_saved, "--resume", saved), "a store of something else"),
            ([*other, *self.kept, "--resume", self.both], "it is of the model gpt:heads=4,hidden=64,layers=2"),
            ([*other, *self.RESIDENT, "--resume", self.both], "it is of the model gpt:heads=4,hidden=64,layers=2"),
        ):
            self.assert_error(run(*command), 2, words)
        self.assert_error(run(*self.command(*self.RESIDENT, *alone)), 4, "name the folder it is in")

    def test_damage_is_found(self):
        self.train(*self.kept, "--steps", "2")
        for data in (path for folder in self.folders for path in folder.iterdir() if path.suffix == ".data"):
            content = bytearray(data.read_bytes())
            for at in range(100, len(content), 4096):
                content[at] ^= 1
            data.write_bytes(content)
        for target in (self.RESIDENT, self.kept):
            self.assert_error(run(*self.command(*target, "--steps", "4", "--resume", self.both)), 4)
