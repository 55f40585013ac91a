# SPDX-License-Identifier: Apache-2.0
"""Signals to castor train, and readers that go away."""

import fcntl
import json
import os
import signal
import subprocess
import time
import unittest

from command_case import CASTOR, HAS_GEMINI, HAS_TORCH, CommandCase, run

MODEL = ["--model", "gpt:layers=2,hidden=64,heads=4,vocab=256", "--seq", "32", "--batch", "2", "--threads", "1"]


def slow_model(batch):
    """Its step takes about half a second for each sample."""
    model = "gpt:layers=6,hidden=512,heads=8,vocab=256"
    return ["--model", model, "--seq", "256", "--batch", str(batch), "--threads", "1"]


@unittest.skipUnless(HAS_TORCH and HAS_GEMINI, "no plugin gemini here")
class Signals(CommandCase):
    """Whatever asks a run to stop, its completed steps are saved, and the exit code tells what it was."""

    def setUp(self):
        super().setUp()
        self.saved = self.folder / "saved"
        # Tests that were started by nohup ignore it, and so would the runs: rightly, which is not what is tested here.
        self.addCleanup(signal.signal, signal.SIGHUP, signal.signal(signal.SIGHUP, signal.SIG_DFL))

    def begin(self, model=MODEL, before=(), shell=None):
        """A run that trains for long, after its first step."""
        command = [CASTOR, "train", *model, "--plugin", "gemini", "--steps", "1000000", "--json"]
        command += ["--checkpoint", self.saved]
        child = subprocess.Popen(
            [*before, *map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        self.addCleanup(child.communicate)
        self.addCleanup(child.kill)
        for line in child.stderr:
            if line.startswith("step "):
                return child
        return child

    def assert_saved(self, child, code, name):
        out, err = child.communicate(timeout=60)
        self.assertEqual(child.returncode, code, out + err)
        error = json.loads(out.splitlines()[-1])["error"]
        self.assertEqual(error["code"], code)
        self.assertEqual(error["kind"], "interrupted")
        self.assertRegex(error["message"], f"^stopped by {name} after step [0-9]+; continue with --resume {self.saved}$")
        step = int(error["message"].split("after step ")[1].split(";")[0])
        rest = self.assert_result(
            run("train", *MODEL, "--plugin", "none", "--steps", step + 1, "--resume", self.saved, "--json")
        )
        self.assertEqual(rest["first_step"], step)

    def test_each_signal_of_users_and_batch_systems_saves(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU):
            self.saved = self.folder / number.name
            child = self.begin()
            child.send_signal(number)
            self.assert_saved(child, 128 + number, "Ctrl-C" if number == signal.SIGINT else number.name)

    def assert_saved_after(self, first, others, waits_s, name):
        """Whatever the time between the first signal and the others."""
        for number, wait_s in enumerate(waits_s):
            self.saved = self.folder / str(number)
            child = self.begin()
            child.send_signal(first)
            time.sleep(wait_s)
            for other in others:
                child.send_signal(other)
            self.assert_saved(child, 128 + first, name)

    def test_a_second_sigterm_does_not_end_the_save(self):
        self.assert_saved_after(signal.SIGTERM, (signal.SIGTERM, signal.SIGUSR1), (0, 0.01, 0.1), "SIGTERM")

    def test_a_second_ctrl_c_ends_at_once(self):
        """In the middle of a step of seconds; the first one says what a second does. Where the step has ended by the
        second one, and the run is saved, there is another attempt with longer steps."""
        for batch in (6, 18, 54):
            self.saved = self.folder / f"batch {batch}"
            if self.ends_at_once(batch):
                return
        self.fail("the step had ended before the second Ctrl-C, whatever its length")

    def ends_at_once(self, batch):
        """False where the run was saved."""
        child = self.begin(slow_model(batch))
        child.send_signal(signal.SIGINT)
        while "stopping; a second Ctrl-C ends at once" not in child.stderr.readline():
            self.assertIsNone(child.poll())
        time.sleep(0.6)
        if child.poll() is not None:
            return False
        sent_s = time.monotonic()
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=60)
        self.assertLess(time.monotonic() - sent_s, 1)
        self.assertEqual(child.returncode, 130)
        return not (self.saved / "castor.manifest").exists()

    def test_a_ctrl_c_that_arrives_twice_is_one(self):
        """The terminal and a launcher pass it on both."""
        self.assert_saved_after(signal.SIGINT, (signal.SIGINT,), (0, 0.001, 0.05), "Ctrl-C")

    def test_a_reader_of_progress_that_is_paused_holds_nothing_up(self):
        child = self.begin()
        fcntl.fcntl(child.stderr, fcntl.F_SETPIPE_SZ, 4096)
        time.sleep(1)  # it is full long before
        child.send_signal(signal.SIGTERM)
        manifest, began_s = self.saved / "castor.manifest", time.monotonic()
        while not manifest.exists():
            self.assertLess(time.monotonic() - began_s, 30)
            time.sleep(0.01)
        self.assert_saved(child, 143, "SIGTERM")

    def test_before_the_first_step_it_ends_at_once_and_says_so(self):
        command = [CASTOR, "train", "--model", "gpt:layers=24,hidden=1024,heads=16,vocab=256", "--seq", "512", "--batch", "8"]
        command += ["--plugin", "gemini", "--steps", "2", "--json", "--checkpoint", str(self.saved)]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(child.communicate)
        self.addCleanup(child.kill)
        while not os.path.exists(self.saved):
            time.sleep(0.01)
        sent_s = time.monotonic()
        child.send_signal(signal.SIGTERM)
        out, err = child.communicate(timeout=60)
        self.assertLess(time.monotonic() - sent_s, 2)
        self.assertEqual(child.returncode, 143)
        sentence = "stopped by SIGTERM before the first step; there was nothing to save"
        self.assertIn(f"castor: {sentence}\n", err)
        self.assertEqual(json.loads(out)["error"], {"code": 143, "kind": "interrupted", "message": sentence})

    def test_what_the_caller_ignores_stays_ignored(self):
        for number in (signal.SIGINT, signal.SIGHUP):
            self.saved = self.folder / number.name
            ignoring = ["sh", "-c", f'trap "" {number.name[3:]}; exec "$@"', "sh"]
            child = self.begin(before=ignoring)
            child.send_signal(number)
            time.sleep(0.3)
            self.assertIsNone(child.poll())
            child.send_signal(signal.SIGTERM)
            self.assert_saved(child, 143, "SIGTERM")

    def test_it_goes_on_without_a_reader_of_its_progress(self):
        command = [CASTOR, "train", *MODEL, "--plugin", "gemini", "--steps", "60", "--json", "--checkpoint", str(self.saved)]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(child.stdout.close)
        child.stderr.readline()
        child.stderr.close()
        out = child.stdout.read()
        self.assertEqual(child.wait(60), 0)
        self.assertEqual(len(json.loads(out.splitlines()[-1])["losses"]), 60)

    def test_a_result_without_a_reader_is_an_error_after_saving(self):
        command = [CASTOR, "train", *MODEL, "--plugin", "gemini", "--steps", "60", "--json", "--checkpoint", str(self.saved)]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        child.stderr.readline()
        child.stdout.close()
        err = child.stderr.read()
        child.stderr.close()
        self.assertEqual(child.wait(60), 4, err)
        self.assertIn("the result cannot be written to the standard output: Broken pipe", err)
        self.assertTrue((self.saved / "castor.manifest").exists())
