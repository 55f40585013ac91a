# SPDX-License-Identifier: Apache-2.0
"""castor bench io, with a stand-in for fio where a case needs one, and castor bench adam."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import unittest

from command_case import CASTOR, FOUND, HAS_GPU, HAS_TORCH, CommandCase, run, without_capabilities

SHORT = {"runs": 1, "seconds": 0.02, "span": "1MiB", "sizes": "16KiB", "depths": 4}
FIELDS = {"name", "value", "unit", "ceiling", "ceiling_name", "share", "min", "max", "runs"}
HAS_IO_URING = FOUND["io_uring"]["ok"]
BARE = ("bare io_uring loop one by one", "bare io_uring loop in batches")
N_TRIALS = 4  # runs of the ceiling before the first round: each pace twice

FIO = """#!{python}
import json, os, signal, sys
words = dict(word.lstrip("-").split("=", 1) for word in sys.argv[1:])
with open({log!r}, "a") as log:
    log.write(json.dumps(words) + "\\n")
n_bytes = 500000000
{act}
side = {{"io_bytes": n_bytes, "runtime": 1000}}
job = {{"error": 0, "job_runtime": 1000, "usr_cpu": 1.0, "sys_cpu": 2.0, "read": side, "write": side}}
print(json.dumps({{"fio version": "fio-9.99", "jobs": [job]}}))
"""


class BenchIo(CommandCase):
    def setUp(self):
        super().setUp()
        self.drive = self.folder / "drive"
        self.drive.mkdir()

    def words(self, *flags, **options):
        """The arguments of a short run, with `options` in place of its own."""
        chosen = {"dir": self.drive, **SHORT, **options}
        pairs = [(f"--{name}", str(value)) for name, value in chosen.items()]
        return ["bench", "io", *(word for pair in pairs for word in pair), "--json", *flags]

    def bench(self, *flags, **options):
        return run(*self.words(*flags, **options))

    def fio(self, act="pass"):
        """A stand-in for fio that runs `act` (Python) before it reports 1 GB/s."""
        path = self.folder / "fio"
        path.write_text(FIO.format(python=sys.executable, log=str(self.folder / "fio_log"), act=act))
        path.chmod(0o755)
        return path

    def fio_runs(self):
        return [json.loads(line) for line in (self.folder / "fio_log").read_text().splitlines()]

    def test_json_has_the_contract(self):
        found = self.assert_result(self.bench(fio="off"))
        self.assertEqual(found["bench"], "io")
        self.assertGreater(found["machine"]["cores"], 0)
        self.assertEqual(found["span_bytes"], 1 << 20)
        self.assertEqual(
            [result["name"] for result in found["results"]],
            [*(f"{rw} 16KiB depth 4" for rw in ("read", "write", "mixed")), "page cache after put and get of 1MiB"],
        )
        for result in found["results"]:
            self.assertLessEqual(FIELDS, set(result), result["name"])
        for result in found["results"][:-1]:
            self.assertEqual((result["unit"], result["runs"]), ("GB/s", 1))
            self.assertGreater(result["value"], 0)
            if HAS_IO_URING:
                self.assertIn(result["ceiling_name"], BARE)
                self.assertAlmostEqual(result["share"], result["value"] / result["ceiling"], 6)

    def test_people_get_a_table_and_a_verdict(self):
        lines = run(*(word for word in self.words(fio="off") if word != "--json")).stdout.splitlines()
        self.assertTrue(lines[0].startswith("GB/s"), lines)
        self.assertTrue(lines[1].startswith("read 16KiB depth 4 "), lines)
        self.assertTrue(any(line.startswith("page cache: ") for line in lines), lines)

    def test_progress_goes_to_stderr(self):
        self.assertIn("read 16KiB depth 4", self.bench(fio="off").stderr)

    def test_nothing_is_left_in_the_folder(self):
        self.assert_result(self.bench(fio="off"))
        self.assertEqual(list(self.drive.iterdir()), [])

    def test_every_byte_is_compared(self):
        for order in ("sequential", "random"):
            self.assert_result(self.bench("--verify", fio="off", order=order, sizes=10001))

    def test_each_engine(self):
        for engine in ["threads", *(["uring"] if HAS_IO_URING else [])]:
            found = self.assert_result(self.bench(engine=engine, rw="mixed", fio="off"))
            self.assertEqual(found["engine"], {"uring": "io_uring"}.get(engine, engine))

    def test_the_null_engine_has_no_ceiling(self):
        for result in self.assert_result(self.bench(engine="null"))["results"]:
            self.assertIsNone(result["ceiling"])
            self.assertIsNone(result["share"])

    def test_two_folders(self):
        other = self.folder / "other"
        other.mkdir()
        found = self.assert_result(self.bench(dir=f"{self.drive},{other}", rw="write", fio=self.fio()))
        self.assertEqual(found["folders"], [str(self.drive), str(other)])
        words = self.fio_runs()[0]
        self.assertEqual((len(words["filename"].split(":")), words["iodepth"]), (2, "8"))

    def test_fio_gets_the_stores_own_file_before_and_after(self):
        found = self.assert_result(self.bench(rw="write", runs=2, fio=self.fio()))
        result = found["results"][0]
        self.assertEqual((result["ceiling"], result["ceiling_name"], result["ceiling_ratio"]), (1.0, "fio-9.99 one by one", 1.0))
        self.assertAlmostEqual(result["ceiling_cpu_s_per_gib"], 0.03 / (1e9 / 2**30), 6)
        words = self.fio_runs()
        self.assertEqual(len(words), N_TRIALS + 4)
        for one in words:
            self.assertRegex(one["filename"], r"^/proc/\d+/fd/\d+$")
            self.assertEqual((one["bs"], one["iodepth"], one["rw"], one["filesize"]), ("16384", "4", "write", "1048576"))
        self.assertEqual(found["notes"], [])

    def test_fio_runs_at_the_pace_that_suits_it(self):
        for batch, name in (("1", "fio-9.99 one by one"), ("4", "fio-9.99 in batches")):
            faster = f"n_bytes *= 2 if words['iodepth_batch_submit'] == {batch!r} else 1"
            result = self.assert_result(self.bench(rw="write", fio=self.fio(faster)))["results"][0]
            self.assertEqual((result["ceiling"], result["ceiling_name"]), (2.0, name))

    def test_bytes_that_fio_wrote_are_put_again(self):
        scribble = "if words['rw'] != 'read': open(words['filename'], 'r+b').write(b'x' * 1000000)"
        self.assert_result(self.bench("--verify", rw="write,read,mixed", fio=self.fio(scribble)))

    def test_fio_that_cannot_open_the_stores_file_gets_one_beside(self):
        refuse = "if words['filename'].startswith('/proc/'): sys.exit('fio: no such file')"
        found = self.assert_result(self.bench(rw="read", fio=self.fio(refuse)))
        self.assertEqual(found["results"][0]["ceiling_name"], "fio-9.99 one by one")
        self.assertIn("files beside the store's", found["notes"][0])
        self.assertIn("no such file", found["notes"][0])
        self.assertEqual(list(self.drive.iterdir()), [])

    def test_fio_without_registered_memory_says_so(self):
        refuse = "if words.get('fixedbufs') == '1': sys.exit('fio: Cannot allocate memory')"
        found = self.assert_result(self.bench(rw="read", fio=self.fio(refuse)))
        self.assertIn("without registered memory", found["notes"][0])

    def test_fio_that_fails_gives_way_to_the_bare_loop(self):
        for act in ("sys.exit('fio: broken')", "print('{'); sys.exit(0)", "os.kill(os.getpid(), signal.SIGKILL)"):
            found = self.assert_result(self.bench(rw="read", fio=self.fio(act)))
            self.assertIn("cannot be a ceiling here", found["notes"][0])
            if HAS_IO_URING:
                self.assertIn(found["results"][0]["ceiling_name"], BARE)

    def test_ctrl_c_ends_cleanly(self):
        ready, tell = os.pipe()
        self.addCleanup(os.close, ready)
        wait = f"os.write({tell}, b'x'); signal.pause()"
        command = [CASTOR, *self.words(fio=self.fio(wait))]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, pass_fds=[tell])
        os.close(tell)
        self.addCleanup(child.kill)
        self.assertEqual(os.read(ready, 1), b"x")
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=30)
        self.assertEqual(child.returncode, 130, err)
        last = json.loads(out.splitlines()[-1])
        self.assertEqual((last["error"]["kind"], last["bench"], last["results"][:-1]), ("interrupted", "io", []))
        self.assertEqual(os.read(ready, 1), b"", "fio is still there")
        self.assertEqual(list(self.drive.iterdir()), [])

    def test_ctrl_c_in_a_run_of_castor(self):
        command = [CASTOR, *self.words(seconds=3600, engine="null")]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(child.kill)
        self.assertIn("16KiB", child.stderr.readline())
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=30)
        self.assertEqual(child.returncode, 130, out + err)

    def test_wrong_options(self):
        for words, said in (
            ([], "--dir is missing;"),
            (["--dir", self.drive, "--rw", "reed"], "--rw takes some of read,write,mixed, not 'reed'"),
            (["--dir", self.drive, "--spam", "1"], "unknown option '--spam'; did you mean '--span'?"),
            (["--dir", self.drive, "--fio", "/no/fio"], "there is no program /no/fio"),
            (["--dir", self.drive, "--span", "1MiB"], "a span of 1.00 MiB holds 1 tensors of 1MiB, but 18 are in flight"),
            (["--dir", self.drive, "--engine", "null", "--tune"], "--tune cannot be combined with --engine null"),
        ):
            self.assert_error(run("bench", "io", *words, "--json"), 2, said)

    def test_unknown_subject(self):
        self.assert_error(run("bench", "oi", "--json"), 2, "oi")
        self.assert_error(run("bench"), 2, "castor bench io --dir DIR", "castor bench adam")

    def test_span_beyond_the_drive(self):
        self.assert_error(self.bench(span="1000TiB"), 3, "--span 1000TiB is more than", "free")

    def test_memory_beyond_the_host(self):
        self.assert_error(self.bench(memory="1000TiB"), 3, "--memory 1000TiB is more than", "available")

    def test_missing_folder(self):
        self.assert_error(self.bench(dir=self.folder / "none"), 4, "none")

    def test_read_only_folder(self):
        self.drive.chmod(0o555)
        done = run(*self.words(fio="off"), wrapper=without_capabilities())
        self.assert_error(done, 4, self.drive, "Permission denied")


class BenchAdam(CommandCase):
    SHORT = ["bench", "adam", "--runs", "1", "--seconds", "0.01", "--elements", "65536"]

    def test_json_has_the_contract(self):
        found = self.assert_result(run(*self.SHORT, "--threads", "1,2", "--part", "8192", "--json"))
        self.assertEqual((found["bench"], found["device"], found["elements"], found["threads"]), ("adam", "cpu", 65536, [1, 2]))
        against = [""] + [", parts of 8Ki"] + [", against torch", ", against torch and casts"] * HAS_TORCH
        names = [f"host, {threads}{what}" for threads in ("1 thread", "2 threads") for what in against]
        self.assertEqual([result["name"] for result in found["results"]], names)
        for result in found["results"]:
            self.assertLessEqual(FIELDS, set(result), result["name"])
            self.assertAlmostEqual(result["share"], result["value"] / result["ceiling"], 6)
            self.assertGreater(result["value"], 0)
            torch = "torch" in result["name"]
            self.assertEqual((result["unit"], result["runs"]), ("Gparam/s" if torch else "GB/s", 1))
            self.assertTrue(result["ceiling_name"].startswith("torch's fused AdamW" if torch else "bare loop"), result)
        self.assertEqual(found["notes"] == [], HAS_TORCH)

    def test_people_get_a_table_and_a_verdict(self):
        done = run(*self.SHORT, "--threads", "1")
        lines = done.stdout.splitlines()
        self.assertTrue(lines[1].startswith("host, 1 thread "), lines)
        self.assertRegex(lines[-1], r"^\d of \d cases reach the share that is wanted$")
        self.assertIn("filling 1.25 MiB", done.stderr)

    def test_a_gpu_that_is_not_there_is_refused_at_once(self):
        if HAS_GPU:
            self.skipTest("this machine has a GPU")
        done = run("bench", "adam", "--device", "cuda", "--json")
        self.assert_error(done, 1, "no GPU")
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)

    def test_on_a_gpu(self):
        if not HAS_GPU:
            self.skipTest("no GPU in this machine")
        found = self.assert_result(run(*self.SHORT, "--threads", "1", "--device", "cuda", "--json"))
        self.assertEqual([result["name"] for result in found["results"]][-2:], ["GPU", "host beside a busy bus, all bytes"])

    def test_more_than_there_is_memory(self):
        self.assert_error(run("bench", "adam", "--elements", 10**12, "--json"), 3, "--elements 1000000000", "lower it")

    def test_ctrl_c_ends_cleanly(self):
        command = [CASTOR, "bench", "adam", "--seconds", "3600", "--elements", "65536", "--json"]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(child.kill)
        self.assertIn("filling", child.stderr.readline())
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=30)
        self.assertEqual(child.returncode, 130, out + err)
        self.assertEqual(json.loads(out.splitlines()[-1])["bench"], "adam")


@unittest.skipUnless(HAS_TORCH, "built without LibTorch")
class BenchStep(CommandCase):
    MODEL = "gpt:layers=2,hidden=128,heads=4,vocab=512"

    def words(self, *more):
        return ["bench", "step", "--dir", self.folder, "--model", self.MODEL, "--runs", "1", "--seconds", "0.05", "--fio", "off", *more]

    def test_json_has_the_contract(self):
        for moments, bytes_per_param in (("fp32", 20), ("bf16", 12)):
            found = self.assert_result(run(*self.words("--set", f"moments={moments}", "--host-budget", "16MiB", "--json")))
            self.assertEqual(found["bench"], "step")
            # Less if states are needed again before they are evicted, because they need not be read.
            self.assertLess(found["nvme_bytes_per_step"], 1.05 * bytes_per_param * found["params"])
            self.assertGreater(found["nvme_bytes_per_step"], 0)
            self.assertEqual(len(found["results"]), 2, "the drive at its best, and in as much memory")
            for result in found["results"]:
                self.assertLessEqual(FIELDS, set(result))
                self.assertGreater(result["value"], 0)
                if HAS_IO_URING:
                    self.assertIn(result["ceiling_name"], BARE)
        self.assertEqual(list(self.folder.iterdir()), [], "what was written has no name")

    def test_people_get_a_table_and_a_verdict(self):
        trace = self.folder / "trace.json"
        lines = run(*self.words("--trace", trace)).stdout.splitlines()
        self.assertIn("parameters", lines[0])
        self.assertIn("nvme_write", {span[0] for span in json.loads(trace.read_text())["spans"]})
        self.assertTrue(any(line.startswith("update of states on NVMe ") for line in lines), lines)

    def test_wrong_words(self):
        self.assert_error(run("bench", "step", "--json"), 2, "--dir")
        self.assert_error(run(*self.words("--json", "--trace", self.folder / "nowhere" / "trace.json")), 4, "nowhere")
        self.assert_error(run(*self.words("--json", "--model", "gtp2-124m")), 2, "--model", "more than once")
        self.assert_error(run("bench", "step", "--dir", self.folder, "--model", "gtp2-124m", "--json"), 2, "gpt2-124m")
        self.assert_error(run(*self.words("--set", "momets=bf16", "--json")), 2, "moments")
        self.assert_error(run("bench", "step", "--dir", self.folder / "nowhere", "--json"), 4, "nowhere")


class BenchTune(CommandCase):
    def test_what_is_found_is_remembered(self):
        found = self.assert_result(
            run("bench", "io", "--dir", self.folder, "--tune", "--json", XDG_CACHE_HOME=str(self.folder / "cache"))
        )
        values = {result["name"].split(" in ")[0]: result["value"] for result in found["results"]}
        self.assertEqual(set(values), {"block", "depth", "threads", "read", "write"})
        self.assertIn(values["block"], [2**n for n in range(18, 23)])
        self.assertIn(values["depth"], [4, 8, 16, 32, 64])
        for result in found["results"]:
            self.assertLessEqual(FIELDS, set(result))
        text = pathlib.Path(self.folder / "cache/castor/io-tuning").read_text()
        self.assertIn(f" block_bytes={int(values['block'])} depth={int(values['depth'])} ", text)

    def test_without_a_place_to_remember(self):
        done = run("bench", "io", "--dir", self.folder, "--tune", "--json", XDG_CACHE_HOME="", HOME="")
        self.assert_error(done, 4, "XDG_CACHE_HOME")


TRAINER = """#!{python}
import json, sys
if sys.argv[1] == "plan":
    print(json.dumps({{"peak_bytes": {{"device": 3 << 30}}, "step_s": 2.5, "bound": {{"by": "h2d"}}}}))
else:
    budget = sys.argv[sys.argv.index("--device-budget") + 1]
    found = {{
        "budget_bytes": {{"device": int(budget[0]) << 30}}, "losses": [1.0, 0.5], "weights_digest": {digest},
        "peak_bytes": {{"device": {peak}}}, "step_s": {{"median": 2.0, "min": 1.0, "max": 3.0}},
        "moved_bytes_per_step": {{"h2d": 7e9, "d2h": 0, "nvme_read": 1e9, "nvme_write": 1e9}},
    }}
    print(json.dumps({{"error": {{"message": "too small"}}}} if budget == "1GiB" else found))
"""


class Budgets(CommandCase):
    """bench/budgets.py, with a stand-in for castor."""

    def sweep(self, digest='"same"', peak="1 << 30"):
        castor = self.folder / "castor"
        castor.write_text(TRAINER.format(python=sys.executable, digest=digest, peak=peak))
        castor.chmod(0o755)
        script = pathlib.Path(__file__).parents[3] / "bench" / "budgets.py"
        arguments = ["--castor", castor, "--budgets", "1GiB,2GiB,4GiB", "--svg", self.folder / "picture.svg", "--", "--steps", "3"]
        return subprocess.run([sys.executable, script, *arguments], capture_output=True, text=True, timeout=60)

    def test_a_table_and_a_picture(self):
        done = self.sweep()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("1GiB       too small", done.stdout)
        self.assertRegex(done.stdout, r"2GiB +1\.000 +3\.000 +2\.0000 +\(1\.0000 … 3\.0000\) +2\.5000 +7\.00 +0\.00 +2\.00 +h2d")
        self.assertIn("losses and weights are equal", done.stdout)
        picture = (self.folder / "picture.svg").read_text()
        self.assertEqual(picture.count("<rect x="), 4, "two bars a budget that fits")

    def test_bits_that_differ_and_peaks_above_the_budget_fail(self):
        done = self.sweep(digest="budget")
        self.assertEqual(done.returncode, 1)
        self.assertIn("losses and weights are NOT equal", done.stdout)
        done = self.sweep(peak="3 << 30")
        self.assertEqual(done.returncode, 1)
        self.assertIn("every peak is NOT within its budget", done.stdout)
