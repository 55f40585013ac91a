# SPDX-License-Identifier: Apache-2.0
"""The command `castor`. Not in the package, whose import loads torch."""

import importlib.util
import os
import sys
from pathlib import Path


def main() -> None:
    """Runs the command in place of this process; it finds torch's libraries where this interpreter has them. An estimate of a
    model of Hugging Face is made by the package."""
    if sys.argv[1:2] == ["estimate"] and any(argument.partition("=")[0] == "--hf" for argument in sys.argv[2:]):
        from castor._estimate_command import main as estimate

        sys.exit(estimate(sys.argv[2:]))
    torch = importlib.util.find_spec("torch")
    if torch is None:
        sys.exit("castor: there is no torch in this environment; install it with: pip install torch")
    libraries = [Path(torch.origin).parent / "lib", os.environ.get("LD_LIBRARY_PATH")]
    os.environ["LD_LIBRARY_PATH"] = os.pathsep.join(str(folder) for folder in libraries if folder)
    command = Path(__file__).parent / "castor" / "bin" / "castor"
    try:
        os.execv(command, ["castor", *sys.argv[1:]])
    except OSError as refused:
        sys.exit(f"castor: cannot run {command}: {refused.strerror}; install the package again")
