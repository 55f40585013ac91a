# SPDX-License-Identifier: Apache-2.0
"""Limits of the machine: threads, descriptors, address space, windows, nested files."""

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import tempfile
import termios
import unittest
from pathlib import Path

from command_case import CASTOR, GPT, HAS_GEMINI, HAS_TORCH, MINIMAL, CommandCase, run

TRAIN = ["train", *GPT, "--plugin", "gemini", "--steps", "2", "--json"]


@unittest.skipUnless(HAS_TORCH and HAS_GEMINI, "no plugin gemini here")
class LimitsOfTheProcess(CommandCase):
    """Whatever runs out, the exit code is one that is documented and a sentence names the limit to raise."""

    def assert_one_sentence(self, done, *words):
        self.assertIn(done.returncode, (0, 1, 3, 4), done.stdout + done.stderr)
        if done.returncode != 0:
            sentences = [line for line in done.stderr.splitlines() if line.startswith("castor: ") and "warning" not in line]
            self.assertEqual(len(sentences), 1, done.stderr)
            self.assertTrue(any(word in sentences[0] for word in words), sentences[0])
        return done.returncode

    def test_descriptors(self):
        tiers = ["--nvme", self.folder, "--device-budget", "300KiB", "--host-budget", "1MiB", "--set", "chunk_bytes=64KiB"]
        ended = [
            self.assert_one_sentence(run(*TRAIN, *tiers, wrapper=["prlimit", f"--nofile={n}"]), "ulimit -n")
            for n in range(4, 28, 2)
        ]
        self.assertEqual(ended[-1], 0, "the most suffice")

    def test_descriptors_of_a_save(self):
        """Steps are taken only where there are enough for the save of them."""
        for n in range(6, 28, 2):
            with tempfile.TemporaryDirectory(prefix="castor_limits_") as folder:
                done = run(*TRAIN, "--checkpoint", folder, wrapper=["prlimit", f"--nofile={n}"])
                if self.assert_one_sentence(done, "ulimit -n") != 0:
                    self.assertNotIn("step 1/2", done.stderr)
        self.assertEqual(done.returncode, 0, "the most suffice")

    def test_address_space(self):
        ended = []
        for mib in range(1000, 4001, 500):
            done = run(*TRAIN, wrapper=["prlimit", f"--as={mib << 20}"])
            if done.returncode == 127:  # the loader has no room for LibTorch
                continue
            ended.append(self.assert_one_sentence(done, "ulimit -v", "host memory is full", "host"))
        self.assertIn(0, ended)

    def test_threads(self):
        if os.geteuid() == 0:
            nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
            if subprocess.run([*nobody, CASTOR, "--version"], capture_output=True).returncode != 0:
                self.skipTest("another user may not run the command here")
        else:
            nobody = []
        for n in range(1, 14):
            limited = [*nobody, "prlimit", f"--nproc={n}"]
            self.assert_one_sentence(run(*TRAIN, wrapper=limited), "ulimit -u", "libgomp")
            with tempfile.TemporaryDirectory(prefix="castor_limits_") as folder:
                os.chmod(folder, 0o777)
                saved = run(*TRAIN, "--checkpoint", Path(folder) / "saved", wrapper=limited)
            self.assert_one_sentence(saved, "ulimit -u", "libgomp")
            self.assertIn(run("check", wrapper=limited).returncode, (0, 1))
            many = [*TRAIN[: TRAIN.index("--threads")], "--threads", "16", *TRAIN[TRAIN.index("--threads") + 2 :]]
            self.assert_one_sentence(run(*many, wrapper=limited), "ulimit -u", "libgomp")


class LimitsOfTheControlGroup(CommandCase):
    """A real control group: what is beyond its limit is said before it is taken."""

    def group(self, controller, **limits):
        """A wrapper that runs a command in a new control group; skips the test where none can be made."""
        v1, v2 = Path("/sys/fs/cgroup", controller), Path("/sys/fs/cgroup")
        group = (v1 if v1.is_dir() else v2) / f"castor_{os.getpid()}"
        try:
            group.mkdir()
            self.addCleanup(group.rmdir)
            for file, value in limits.items():
                (group / f"{controller}.{file}").write_text(str(value))
        except OSError as error:
            self.skipTest(f"no control group can be made here: {error}")
        return ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh"], f"/{group.name}"

    def memory(self, mib):
        limit = "limit_in_bytes" if Path("/sys/fs/cgroup/memory").is_dir() else "max"
        wrapper, name = self.group("memory", **{limit: mib << 20})
        return wrapper, f"the memory limit of the control group {name}, {mib} MiB"

    def test_check_says_the_memory(self):
        wrapper, limit = self.memory(700)
        found = json.loads(run("check", "--json", wrapper=wrapper).stdout)
        self.assertIn("700 MiB in all", found["memory"]["detail"])
        self.assertIn(limit, found["memory"]["detail"])

    def test_check_says_the_cpus(self):
        if not Path("/sys/fs/cgroup/cpu").is_dir():
            self.skipTest("no version 1 here")
        wrapper, name = self.group("cpu", cfs_period_us=100_000, cfs_quota_us=100_000)
        found = json.loads(run("check", "--json", wrapper=wrapper).stdout)
        self.assertEqual(found["cpus"]["detail"], f"1 usable, under the CPU quota of the control group {name}, 1 CPU")

    @unittest.skipUnless(HAS_TORCH and HAS_GEMINI, "no plugin gemini here")
    def test_training_warns_before_it_takes_memory(self):
        model = "gpt:layers=8,hidden=768,heads=8,vocab=256"  # 57 M parameters, 16 bytes each
        wrapper, limit = self.memory(700)
        stated = ["gemini", "--device-budget", "600MiB", "--host-budget", "200MiB"]
        for plugin in (["none"], ["gemini"], ["gemini", "--device-budget", "64MiB"], stated):
            done = run("train", "--model", model, "--batch", "1", "--seq", "16", "--steps", "1", "--plugin", *plugin, wrapper=wrapper)
            warning = next((line for line in done.stderr.splitlines() if "warning" in line), "")
            self.assertIn(limit, warning, done.stderr)


@unittest.skipUnless(HAS_TORCH and MINIMAL, "no plugin to load here")
class PluginsOnANoexecMount(CommandCase):
    """A plugin that the loader may not map is refused with what to do."""

    def test_says_so(self):
        copy = self.folder / Path(MINIMAL).name
        mount = f'mount -t tmpfs -o noexec tmpfs {self.folder} && cp {MINIMAL} {copy} && exec "$@"'
        wrapper = ["unshare", "--mount", "sh", "-c", mount, "sh"]
        if subprocess.run([*wrapper, "true"], capture_output=True).returncode != 0:
            self.skipTest("nothing may be mounted here")
        done = run("train", "--model", "mlp", "--plugin", copy, "--steps", "1", wrapper=wrapper)
        self.assertEqual(done.returncode, 5, done.stderr)
        self.assertIn("mounted noexec", done.stderr)
        self.assertIn("copy the plugin to another folder", done.stderr)


class NestedFiles(CommandCase):
    """A file of 400,000 nested brackets is a sentence, not the end of the stack."""

    def test_in_every_command_that_reads_json(self):
        for what, text in (("open", "[" * 400_000), ("field", '{"castor_trace": ' + "[" * 400_000 + "]" * 400_000 + "}")):
            trace = self.folder / what
            trace.write_text(text)
            for command in (["memprof", trace], ["plan", "--trace", trace]):
                error = self.assert_error(run(*command, "--json"), 1, trace, "nests more than 32 levels deep")["error"]
                self.assertLess(len(error["message"]), 1000)


@unittest.skipUnless(HAS_TORCH and HAS_GEMINI, "no plugin gemini here")
class Windows(CommandCase):
    """The progress line fits the window; a terminal that cannot rewrite lines gets plain text."""

    def shown(self, columns, term="xterm"):
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        child = subprocess.Popen(
            [CASTOR, "train", *GPT, "--plugin", "gemini", "--steps", "30", "--clip", "1", "--json"],
            stdout=subprocess.DEVNULL,
            stderr=slave,
            env={**os.environ, "TERM": term},
        )
        os.close(slave)
        text = b""
        while True:
            try:
                part = os.read(master, 65536)
            except OSError:
                break
            if not part:
                break
            text += part
        os.close(master)
        self.assertEqual(child.wait(100), 0)
        return text.decode()

    def test_lines_fit(self):
        for columns in (40, 60, 80, 120):
            lines = re.split(r"\r\x1b\[2K|\r?\n", self.shown(columns))
            self.assertTrue(any(line.startswith("step 30/30") for line in lines))
            self.assertLess(max(map(len, lines)), columns)

    def test_a_dumb_terminal_gets_text_alone(self):
        text = self.shown(80, term="dumb")
        self.assertNotIn("\x1b", text)
        self.assertIn("step 30/30", text)
