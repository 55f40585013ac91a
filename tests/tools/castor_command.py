# SPDX-License-Identifier: Apache-2.0
"""Runs the built castor as a user does: castor_command.py [--gtest_output=xml:FILE] [Class.case …]"""

import pathlib
import sys

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support"), *(str(HERE / room) for room in ("bench", "cli", "memprof", "train"))]
import gtest_runner  # noqa: E402
from bench_cases import *  # noqa: E402,F403
from checkpoint_cases import *  # noqa: E402,F403
from commit_cases import *  # noqa: E402,F403
from command_cases import *  # noqa: E402,F403
from compare_cases import *  # noqa: E402,F403
from digest_cases import *  # noqa: E402,F403
from files_cases import *  # noqa: E402,F403
from limits_cases import *  # noqa: E402,F403
from memprof_cases import *  # noqa: E402,F403
from number_cases import *  # noqa: E402,F403
from signal_cases import *  # noqa: E402,F403
from tiers_cases import *  # noqa: E402,F403
from train_cases import *  # noqa: E402,F403

if __name__ == "__main__":
    sys.exit(gtest_runner.main(sys.argv[1:]))
