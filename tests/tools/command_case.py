# SPDX-License-Identifier: Apache-2.0
"""Shared by the cases of the command: running the built castor, and the promises of every command.

Environment: CASTOR = the program, CASTOR_STUBS = the folder of the plugins that castor must refuse, CASTOR_MINIMAL =
the plugin in plain C.
"""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

CASTOR = os.environ["CASTOR"]
STUBS = os.environ.get("CASTOR_STUBS", "")
MINIMAL = os.environ.get("CASTOR_MINIMAL", "")
MLP = ["--model", "mlp:layers=1,hidden=16", "--batch", "2", "--threads", "1"]
GPT = ["--model", "gpt:layers=1,hidden=32,heads=2,vocab=256", "--seq", "16", "--batch", "2", "--threads", "1"]
TEXT = b"Whoever moves what another has decided does not decide, and whoever decides does not move. " * 40


def run(*arguments, wrapper=(), **environment):
    """Runs castor to its end."""
    return subprocess.run(
        [*wrapper, CASTOR, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=100,
        env={**os.environ, **environment},
    )


def without_capabilities():
    """The command that makes a child of root obey file modes; empty for other users."""
    return ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []


def accepted_plugins():
    found = json.loads(run("plugins", "list", "--json").stdout.splitlines()[-1])["plugins"]
    return {plugin["name"] for plugin in found if plugin["ok"]}


FOUND = json.loads(run("check", "--json").stdout.splitlines()[-1])
HAS_TORCH = FOUND["torch"]["ok"]
HAS_GPU = FOUND["cuda"]["ok"]
HAS_GEMINI = "gemini" in accepted_plugins()


class CommandCase(unittest.TestCase):
    """A temporary folder per case, and checks of the promises of every command."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="castor_command_"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def text(self, content=TEXT, name="text"):
        path = self.folder / name
        path.write_bytes(content)
        return path

    def assert_result(self, done):
        """Exit code 0; returns the object on stdout's last line."""
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout.splitlines()[-1])

    def assert_error(self, done, code, *words):
        """Checks the exit code, one sentence on stderr with `words` in it, and with --json the same on stdout; returns that."""
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        sentence = [line for line in done.stderr.splitlines() if line.startswith("castor: ") and "warning" not in line]
        self.assertEqual(len(sentence), 1, done.stderr)
        for word in words:
            self.assertIn(str(word), sentence[0])
        if "--json" not in done.args:
            return None
        last = json.loads(done.stdout.splitlines()[-1])
        self.assertEqual(last["error"]["code"], code)
        self.assertEqual("castor: " + last["error"]["message"], sentence[0])
        return last
