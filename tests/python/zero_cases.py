# SPDX-License-Identifier: Apache-2.0
"""castor.zero: the pair of wrappers in place of a Booster."""

import unittest
import warnings

import torch

import castor
from boost_cases import TiedModel, loss_of
from castor.zero import zero_model_wrapper, zero_optim_wrapper
from pairs import VALUES, SameWeights
from plain_loop import PlainLoop


def made(dtype=torch.float32):
    torch.manual_seed(0)
    model = TiedModel().to(dtype)
    return model, torch.optim.AdamW(model.parameters(), **VALUES)


class Wrappers(SameWeights):
    def assert_trains_as_plain(self, model, optimizer, dtype, max_norm=0.0):
        twin, _ = made()
        loop = PlainLoop(twin, "adamw", [{"params": list(twin.parameters()), **VALUES}], dtype)
        for seed in range(3):
            optimizer.zero_grad()
            loss, expected = loss_of(model, seed), loss_of(twin, seed)
            self.assertEqual(loss.item(), expected.item())
            optimizer.backward(loss)
            expected.backward()
            optimizer.step()
            loop.step(max_norm)
        self.assert_same(model.state_dict(), twin.state_dict())

    def test_stage_3_moves_chunks(self):
        config = {"device": torch.device("cpu"), "device_budget": "200KiB", "host_budget": "1MiB", "chunk_bytes": "16KiB"}
        model, optimizer = made()
        self.assertIs(zero_model_wrapper(model, zero_stage=3, gemini_config=config), model)
        self.assertIs(zero_optim_wrapper(model, optimizer, max_norm=0.5), optimizer)
        self.assert_trains_as_plain(model, optimizer, torch.bfloat16, 0.5)

    def test_stage_3_is_the_default(self):
        model, optimizer = made()
        zero_optim_wrapper(zero_model_wrapper(model), optimizer)
        self.assertEqual(model.head.weight.dtype, torch.bfloat16)

    def test_lower_stages_keep_the_dtype(self):
        for stage in (1, 2):
            model, optimizer = made()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                zero_optim_wrapper(zero_model_wrapper(model, stage), optimizer, optim_config={"cpu_offload": True})
            self.assert_trains_as_plain(model, optimizer, torch.float32)

    def test_the_loss_scale(self):
        for options in ({"initial_scale": 2**5}, {"optim_config": {"initial_scale": 2**5}}):
            model, optimizer = made(torch.float16)
            zero_optim_wrapper(zero_model_wrapper(model, 1), optimizer, **options)
            self.assertEqual(optimizer.castor_session.loss_scale(), 32)
            optimizer.backward(loss_of(model, 0))
            optimizer.step()

    def test_precision_by_a_dtype(self):
        model, optimizer = made()
        zero_optim_wrapper(zero_model_wrapper(model, 3, {"mixed_precision": torch.float16}), optimizer)
        self.assertEqual(model.head.weight.dtype, torch.float16)


class Options(unittest.TestCase):
    def warnings_of(self, stage, gemini_config=None, **options):
        model, optimizer = made()
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            zero_optim_wrapper(zero_model_wrapper(model, stage, gemini_config), optimizer, **options)
        return sorted(str(each.message).partition(":")[0] for each in seen)

    def test_without_effect_are_warned_of(self):
        config = {
            "device": "cpu",
            "placement_policy": "cpu",
            "pin_memory": True,
            "hidden_dim": 64,
            "strict_ddp_mode": False,
            "search_range_mb": 128,
        }
        optim_config = {"reduce_bucket_size": 12 << 20, "overlap_communication": True, "gpu_margin_mem_ratio": 0.0}
        self.assertEqual(
            self.warnings_of(3, config, optim_config=optim_config),
            [
                *(f"GeminiPlugin({name}=…) has no effect" for name in ("hidden_dim", "pin_memory", "search_range_m")),
                *(
                    f"optim_config has {name}, which has no effect with zero_stage=3"
                    for name in ("overlap_communication", "reduce_bucket_size")
                ),
            ],
        )
        sharded = ["LowLevelZeroPlugin(stage=…) has no effect"]
        self.assertEqual(self.warnings_of(1, optim_config={"reduce_bucket_size": 12 << 20}), [])
        self.assertEqual(self.warnings_of(1, optim_config={"partition_grad": True}), sharded)
        self.assertEqual(self.warnings_of(2), sharded)

    def test_wrong_ones_are_refused_early(self):
        model, optimizer = made()
        for call, message in (
            (lambda: zero_model_wrapper(model, 4), "zero_stage takes one of 1, 2, 3, not 4"),
            (lambda: zero_model_wrapper(model, 3, {"hiden_dim": 64}), "did you mean hidden_dim"),
            (lambda: zero_model_wrapper(model, 3, {"device": "meta"}), "device meta, and the model is on cpu"),
            (lambda: zero_optim_wrapper(model, optimizer), "not given to zero_model_wrapper"),
        ):
            with self.assertRaisesRegex(castor.Error, message):
                call()
        zero_model_wrapper(model)
        for options, message in (
            ({"norm_type": 1.0}, "clips by the 2-norm"),
            ({"optim_config": {"cpu_offlod": True}}, "no option cpu_offlod"),
        ):
            with self.assertRaisesRegex(castor.Error, message):
                zero_optim_wrapper(model, optimizer, **options)
            self.assertIs(type(optimizer), torch.optim.AdamW)
        zero_optim_wrapper(model, optimizer)
        optimizer.backward(loss_of(model, 0))
        optimizer.step()
