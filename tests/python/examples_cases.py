# SPDX-License-Identifier: Apache-2.0
"""The programs of examples/python, with small sizes."""

import contextlib
import io
import pathlib
import runpy
import tempfile
import unittest
import warnings
from unittest import mock

import models  # noqa: F401  before torchvision, which needs what it does
from where import DEVICE

try:
    import torchvision
    import transformers
except ImportError:
    torchvision = transformers = None

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples" / "python"


@unittest.skipUnless(torchvision and transformers and DEVICE.type == "cpu", "transformers or torchvision is not installed")
class Examples(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def run_program(self, name, *arguments):
        """What its main() returns, and its lines."""
        out = io.StringIO()
        with mock.patch("sys.argv", [name, *map(str, arguments)]), contextlib.redirect_stdout(out), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = runpy.run_path(str(EXAMPLES / name))["main"]()
        return result, out.getvalue().splitlines()

    def test_image_classifier_with_each_plugin(self):
        """Those that cast to bf16 and clip have the same bits."""
        for model in ("resnet", "vit"):
            lines = []
            for plugin in ("low_level_zero", "gemini", "hybrid_parallel"):
                with self.subTest(model, plugin=plugin):
                    lines.append(self.run_program("image_classifier.py", "--model", model, "--plugin", plugin, "--samples", 64)[1])
                    self.assertEqual(lines[-1], lines[0])
            self.assertEqual(len(lines[0]), 2)
        accuracy, _ = self.run_program("image_classifier.py", "--model", "resnet", "--plugin", "torch_ddp", "--samples", 128)
        self.assertGreater(accuracy, 0.9)

    def test_image_classifier_goes_on(self):
        options = ("image_classifier.py", "--model", "resnet", "--samples", 64, "--epochs", 2, "--checkpoint")
        _, whole = self.run_program(*options, f"{self.folder}/whole")
        with mock.patch("pathlib.Path.write_text", autospec=True, side_effect=self.stop_after_the_first_epoch):
            with self.assertRaises(KeyboardInterrupt):
                self.run_program(*options, f"{self.folder}/part")
        _, rest = self.run_program(*options, f"{self.folder}/part", "--resume")
        self.assertEqual(rest, whole[1:])
        accuracy, lines = self.run_program(*options, f"{self.folder}/part", "--resume")
        self.assertEqual(lines, ["2 epochs are done already; --epochs 3 goes on"])
        self.assertIn(f"accuracy {accuracy:.3f}", whole[1])
        with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()):
            self.run_program("image_classifier.py", "--resume")

    @staticmethod
    def stop_after_the_first_epoch(path, text, *_, **__):
        path.write_bytes(text.encode())
        if path.name == "epoch":
            raise KeyboardInterrupt

    def test_gpt2_has_the_same_losses_with_states_on_a_drive(self):
        small = ("gpt2_zero.py", "--small", "--seq", 16)
        losses, _ = self.run_program(*small)
        on_drive, lines = self.run_program(*small, "--nvme-offload-fraction", 1.0, "--nvme-offload-dir", self.folder)
        self.assertEqual(on_drive, losses)
        self.assertRegex(lines[-1], r"nvme [1-9.]+ MiB")


if __name__ == "__main__":
    unittest.main()
