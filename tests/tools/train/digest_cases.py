# SPDX-License-Identifier: Apache-2.0
"""The recorded results of short trainings (digests.py)."""

import json
import unittest

import digests
from command_case import CASTOR, HAS_GEMINI, HAS_TORCH

CASES = {}
for _training, _placement, _options in digests.cases():
    CASES.setdefault(_training, {})[_placement] = _options


def check(case, training):
    found = {placement: digests.result(CASTOR, options) for placement, options in CASES[training].items()}
    for placement, result in found.items():
        case.assertEqual(result, found["none"], f"{training}: {placement} beside the resident run")
    record = json.loads(digests.RECORD.read_text())
    if digests.machine(CASTOR) != record["recorded_with"]:
        case.skipTest(f"placements agree; the record holds for {record['recorded_with']}")
    case.assertEqual(found["none"], record["results"][training], f"{training} beside the record")


@unittest.skipUnless(HAS_TORCH and HAS_GEMINI, "no plugin gemini here")
class Digests(unittest.TestCase):
    """All placements of a training have one result, which equals the recorded one on the processor of the record."""

    def test_the_record_names_every_training(self):
        self.assertEqual(set(json.loads(digests.RECORD.read_text())["results"]), set(digests.TRAININGS))
        self.assertGreaterEqual(sum(map(len, CASES.values())), 40)


for _training in digests.TRAININGS:
    setattr(Digests, "test_" + _training.replace("-", "_"), lambda case, training=_training: check(case, training))
