# SPDX-License-Identifier: Apache-2.0
"""The programs of the documents, each as it is written, in an empty folder with a small model of the name they use."""

import contextlib
import gc
import io
import logging
import os
import pathlib
import re
import runpy
import tempfile
import unittest
import warnings

import torch

from integrations_cases import forget_accelerators
from models import causal, tokens
from where import DEVICE

try:
    import bitsandbytes  # noqa: F401
    import lightning  # noqa: F401
    import peft  # noqa: F401
    import transformers
except ImportError:
    transformers = None

ROOT = pathlib.Path(__file__).parents[2]
SIZES = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 3, "vocab_size": 128}
N_BATCHES = 3


def programs(document):
    """By section: what stands between ```python and ```."""
    for section in re.split(r"(?m)^#+ ", (ROOT / document).read_text())[1:]:
        for n, program in enumerate(re.findall(r"(?ms)^```python\n(.*?)^```", section)):
            yield f"{section.splitlines()[0]} {n}", program


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, i):
        ids = tokens(i)[0].cpu()
        return {"input_ids": ids, "labels": ids}


@unittest.skipUnless(transformers, "transformers, peft, lightning or bitsandbytes is not installed")
class Documents(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder.name)
        os.mkdir("drive")
        torch.manual_seed(0)
        causal("Qwen2Config", **SIZES)[0]().save_pretrained("Qwen2.5-7B")
        logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
        transformers.utils.logging.disable_progress_bar()

    def tearDown(self):
        gc.collect()  # models of the programs before
        forget_accelerators()

    def run_programs(self, document, least):
        names = []
        for name, program in programs(document):
            names.append(name)
            with self.subTest(name), warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
                warnings.simplefilter("ignore")
                batches = [{"input_ids": tokens(n), "labels": tokens(n)} for n in range(N_BATCHES)]
                exec(compile(program, f"{document}: {name}", "exec"), {"batches": batches, "dataset": Rows(), "__name__": "program"})
                self.tearDown()
        self.assertGreaterEqual(len(names), least, names)

    def test_python(self):
        self.run_programs("docs/python.md", 12)

    @unittest.skipUnless(torch.__version__.startswith("2.13."), "some signatures are torch's")
    def test_all_names(self):
        printed = io.StringIO()
        with warnings.catch_warnings(), contextlib.redirect_stdout(printed):
            warnings.simplefilter("ignore")
            runpy.run_path(str(ROOT / "scripts/python_api"), run_name="__main__")
        written = (ROOT / "docs/python_api.md").read_text()
        self.assertTrue(printed.getvalue() == written, "docstrings have changed: scripts/python_api >docs/python_api.md")
        without = re.findall(r"(?m)^### (.*)\n\n```text\n[^`]*```\n(?=\n#|\Z)", written)
        self.assertEqual(without, [], "names without a docstring")

    @unittest.skipIf(DEVICE.type != "cpu", "its loop is one of the CPU")
    def test_readme(self):
        self.run_programs("README.md", 1)


if __name__ == "__main__":
    unittest.main()
