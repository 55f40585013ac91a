# SPDX-License-Identifier: Apache-2.0
"""bench/compare/compare.py, with stand-ins for castor and the peers; and once with every engine that is available."""

import importlib.util
import json
import os
import pathlib
import signal
import subprocess
import sys
import unittest

from command_case import CASTOR, HAS_GEMINI, HAS_TORCH, CommandCase

SCRIPT = pathlib.Path(__file__).resolve().parents[3] / "bench" / "compare" / "compare.py"
GIB = 1 << 30

ENGINE = """#!{python}
import json, os, pathlib, signal, sys
name = {name!r}
with open({log!r}, "a") as log:
    log.write(json.dumps([name, *sys.argv[1:]]) + "\\n")
found = {found!r}
{act}
print(json.dumps(found))
"""

CASTOR_FOUND = {
    "params": 10,
    "losses": [6.0, 5.5, 5.0],
    "step_s": {"median": 0.5, "min": 0.4, "max": 0.75, "n_left_out": 2},
    "peak_bytes": {"device": 7 * GIB},
    "peak_rss_bytes": 3 * GIB,
}
PEER_FOUND = {
    "params": 10,
    "losses": [6.0, 5.5, 5.25],
    "step_s": [9.0, 8.0, 1.0, 0.75, 1.25],
    "peak_device_bytes": 8 * GIB,
    "peak_rss_bytes": 4 * GIB,
}


class Compare(CommandCase):
    def engine(self, name, found=PEER_FOUND, act=""):
        path = self.folder / (name if name == "castor" else f"engine_{name}.py")
        log = str(self.folder / "log")
        path.write_text(ENGINE.format(python=sys.executable, name=name, log=log, found=found, act=act))
        path.chmod(0o755)
        return path

    def setUp(self):
        super().setUp()
        self.engine("castor", CASTOR_FOUND)
        self.engine("torch")
        self.engine("fsdp2")

    def words(self, *arguments, cases="tiny"):
        own = ["--castor", self.folder / "castor", "--engines", self.folder, "--cases", cases]
        return [*map(str, [sys.executable, "-B", SCRIPT, *own, "--json", self.folder / "json", *arguments])]

    def compare(self, *arguments, **options):
        return subprocess.run(self.words(*arguments, **options), capture_output=True, text=True, timeout=60)

    def log(self):
        return [json.loads(line) for line in (self.folder / "log").read_text().splitlines()]

    def rows(self):
        written = json.loads((self.folder / "json").read_text())
        return {row["engine"]: row for table in written["tables"] for row in table["rows"]}

    def test_engines_in_turns_become_a_table(self):
        done = self.compare("--rounds", 2, "--steps", 5)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"castor +0\.5000 \(0\.4000 … 0\.7500\) +0\.500 +7\.000 +3\.00 +6\.0000 → 5\.0000")
        self.assertRegex(done.stdout, r"fsdp2 +1\.0000 \(0\.7500 … 1\.2500\) +1\.000 +8\.000 +4\.00 +6\.0000 → 5\.2500")
        self.assertIn("median of 2 runs' medians; the first 2 steps of each run are left out", done.stdout)
        self.assertEqual([line[0] for line in self.log()], ["castor", "torch", "fsdp2", "fsdp2", "torch", "castor"])
        self.assertEqual(self.rows()["castor"]["ratio_to_fsdp2"], 0.5)

    def test_every_engine_is_given_the_same_job(self):
        self.compare("--rounds", 1, "--clip", "none,1.0", "--threads", 3)
        castor, torch, _, clipped, *_ = self.log()
        common = castor[2 : castor.index("--plugin")]
        self.assertEqual(torch[1:], [*common, "--loss", "sliced"])
        self.assertEqual(common[common.index("--clip") + 1], "0")
        self.assertEqual(clipped[clipped.index("--clip") + 1], "1.0")
        self.assertEqual(castor[castor.index("--plugin") :], ["--plugin", "gemini", "--device-budget", "8MiB", "--host-budget", "64MiB", "--json"])

    def test_more_options_of_castor_are_rows_of_their_own(self):
        self.compare("--rounds", 1, "--peers", "", "--castor-args=--device-budget 1GiB", "--castor-args=--plugin none")
        small, resident = self.log()
        self.assertEqual(small[-7:], ["--plugin", "gemini", "--host-budget", "64MiB", "--device-budget", "1GiB", "--json"])
        self.assertNotIn("--host-budget", resident, "the resident run takes no budget")
        self.assertEqual(list(self.rows()), ["castor --device-budget 1GiB", "castor --plugin none"])

    def test_models_of_hugging_face_train_under_import_castor(self):
        (self.folder / "castor").rename(self.folder / "engine_castor.py")
        done = self.compare("--rounds", 1, "--clip", "1.0", cases="tiny-qwen")
        self.assertEqual(done.returncode, 0, done.stderr)
        castor, torch, fsdp2 = self.log()
        self.assertEqual(castor[1:3], ["--model", "qwen2:tiny"])
        self.assertEqual(castor[-6:-1], ["gemini", "--device-budget", "8MiB", "--host-budget", "64MiB"])
        self.assertEqual(torch[1:], [*castor[1 : castor.index("--plugin")], "--loss", "sliced"])
        self.assertEqual(list(self.rows()), ["castor", "torch", "fsdp2"])

    def test_cases_of_one_job_share_the_peers(self):
        self.engine("deepspeed")
        done = self.compare("--rounds", 1, cases="b8-8g,b8-16g")
        self.assertEqual([line[0] for line in self.log()], ["castor", "torch", "fsdp2", "deepspeed", "castor"])
        self.assertEqual(done.stdout.count("\nfsdp2 "), 2)

    def test_who_fails_is_a_row_and_stops_nobody(self):
        self.engine("castor", {"error": {"code": 3, "message": "device tier: too small"}}, "print(json.dumps(found)); sys.exit(3)")
        self.engine("torch", act="print('first'); sys.exit('it broke')")
        self.engine("deepspeed", act="print('step 3/8  loss 1', file=sys.stderr, flush=True); signal.pause()")
        done = self.compare("--rounds", 2, "--peers", "torch,deepspeed,fsdp2", "--timeout", 5)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"castor +device tier: too small\n")
        self.assertRegex(done.stdout, r"torch +exit code 1: it broke\n")
        self.assertRegex(done.stdout, r"deepspeed +stopped after 5 s, at step 3/8\n")
        self.assertRegex(done.stdout, r"fsdp2 +1\.0000 ")
        self.assertEqual(sorted(line[0] for line in self.log()), ["castor", "deepspeed", "fsdp2", "fsdp2", "torch"])

    def test_nobody_through_ends_with_1(self):
        self.engine("castor", act="sys.exit('it broke')")
        done = self.compare("--peers", "")
        self.assertEqual(done.returncode, 1)
        self.assertIn("it broke", done.stdout)

    def test_without_the_program_nothing_is_started(self):
        done = self.compare("--castor", self.folder / "missing")
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, r"there is no program \S+/missing; `make` builds it")
        self.assertFalse((self.folder / "log").exists())

    def test_other_models_and_other_starts_are_said(self):
        self.engine("torch", {**PEER_FOUND, "params": 11, "losses": [7.0, 6.0]})
        done = self.compare("--rounds", 1)
        self.assertEqual(done.returncode, 1)
        self.assertIn("NOT the same model: castor has 10 parameters, torch has 11 parameters", done.stdout)
        self.assertIn("first losses are more than 1 % apart (6.0000 to 7.0000)", done.stdout)

    def test_a_stop_ends_the_engine_and_shows_what_there_is(self):
        fifo = self.folder / "fifo"
        os.mkfifo(fifo)
        self.engine("torch", act=f"pathlib.Path({str(fifo)!r}).write_text(str(os.getpid())); signal.pause()")
        for number in (signal.SIGINT, signal.SIGTERM):
            with subprocess.Popen(self.words(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
                child = int(fifo.read_text())  # waits until the child runs
                process.send_signal(number)
                out, err = process.communicate(timeout=30)
            self.assertEqual(process.returncode, 130, err)
            self.assertRegex(out, r"castor +0\.5000 ")
            self.assertRegex(out, r"torch +did not run\n")
            with self.assertRaises(ProcessLookupError):
                os.kill(child, 0)

    @unittest.skipUnless(HAS_TORCH and HAS_GEMINI, "this castor has no LibTorch, or its gemini is not here")
    @unittest.skipUnless(importlib.util.find_spec("torch"), "this Python has no torch")
    def test_all_that_is_here_trains_the_same_model(self):
        words = ["--castor", CASTOR, "--engines", SCRIPT.parent, "--steps", 3, "--rounds", 1, "--threads", 1]
        done = self.compare(*words)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        rows = self.rows()
        self.assertEqual(list(rows), ["castor", "torch", "fsdp2"])
        for row in rows.values():
            self.assertEqual(row["params"], 167680, row)
            for mine, other in zip(rows["castor"]["losses"], row["losses"]):
                self.assertAlmostEqual(mine, other, delta=2e-3, msg="the same weights and tokens")
