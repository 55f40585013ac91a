# SPDX-License-Identifier: Apache-2.0
"""A boosted model that several threads of the program use."""

import copy
import threading
import unittest

import torch
from torch import nn

import castor
from castor.booster import Booster
from castor.booster.plugin import GeminiPlugin
from where import DEVICE, small_budget

OTHER = "another thread is in a {} pass of the model"


class Gate:
    """Where a thread stops until another one lets it go on."""

    def __init__(self):
        self.is_closed = False
        self.reached, self.opened = threading.Event(), threading.Event()

    def close(self):
        self.is_closed = True

    def pass_through(self):
        if self.is_closed:
            self.is_closed = False
            self.reached.set()
            self.opened.wait(60)


class StopInBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, gate):
        ctx.gate = gate
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        ctx.gate.pass_through()
        return grad, None


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(64, 64)
        self.in_forward, self.in_backward = Gate(), Gate()

    def forward(self, x):
        self.in_forward.pass_through()
        return StopInBackward.apply(self.linear(x).relu(), self.in_backward)

    def __deepcopy__(self, memo):
        made = Block().to(self.linear.weight.device)
        made.load_state_dict(self.state_dict())
        return made


class SeveralThreads(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        self.model = nn.Sequential(*(Block() for _ in range(6))).to(DEVICE)
        self.twin = copy.deepcopy(self.model)
        self.optimizer, self.of_twin = boosted(self.model), boosted(self.twin)
        self.x = torch.randn(2, 64, device=DEVICE)

    def in_a_thread(self, call):
        """Runs `call` in a thread that the test joins; returns that and where its exception will be."""
        raised = []

        def run():
            try:
                call()
            except BaseException as error:
                raised.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        return thread, raised

    def train(self, model, optimizer):
        model(self.x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    def check_equal(self):
        self.train(self.twin, self.of_twin)
        for one, other in zip(self.model.state_dict().values(), self.twin.state_dict().values()):
            self.assertTrue(torch.equal(one, other))

    def test_a_forward_pass_beside_another_is_refused(self):
        gate = self.model[3].in_forward
        gate.close()
        thread, raised = self.in_a_thread(lambda: self.train(self.model, self.optimizer))
        self.assertTrue(gate.reached.wait(60))
        with torch.no_grad(), self.assertRaisesRegex(castor.Error, OTHER.format("forward") + ".*take turns"):
            self.model(self.x)
        gate.opened.set()
        thread.join()
        self.assertEqual(raised, [])
        self.check_equal()

    def test_calls_beside_a_backward_pass_are_refused(self):
        gate = self.model[3].in_backward
        gate.close()
        thread, raised = self.in_a_thread(lambda: self.train(self.model, self.optimizer))
        self.assertTrue(gate.reached.wait(60))
        for call in (lambda: self.model(self.x), self.optimizer.step, self.optimizer.zero_grad):
            with self.assertRaisesRegex(castor.Error, OTHER.format("backward")):
                call()
        with self.assertRaises(castor.Error):
            self.model.state_dict()
        gate.opened.set()
        thread.join()
        self.assertEqual(raised, [])
        self.check_equal()

    def test_threads_may_take_turns(self):
        for _ in range(3):
            thread, raised = self.in_a_thread(lambda: self.train(self.model, self.optimizer))
            thread.join()
            self.assertEqual(raised, [])
            self.train(self.twin, self.of_twin)
        self.train(self.model, self.optimizer)
        self.check_equal()

    def test_a_pass_that_a_thread_has_left_half_way_is_dropped(self):
        broken = self.model[3].register_forward_pre_hook(fail)
        thread, raised = self.in_a_thread(lambda: self.model(self.x))
        thread.join()
        self.assertIsInstance(raised[0], KeyboardInterrupt)
        broken.remove()
        failing = self.model[3].in_backward
        failing.pass_through = fail
        thread, raised = self.in_a_thread(lambda: self.model(self.x).sum().backward())
        thread.join()
        self.assertIsInstance(raised[0], KeyboardInterrupt)
        del failing.pass_through
        self.optimizer.zero_grad()
        self.train(self.model, self.optimizer)
        self.check_equal()

    def test_no_value_is_wrong_without_turns(self):
        """Whatever is refused, what is computed is right."""
        self.train(self.model, self.optimizer)
        expected, values, refused = self.model(self.x).detach(), [], []

        def evaluate():
            for _ in range(50):
                try:
                    with torch.no_grad():
                        values.append(self.model(self.x))
                except castor.Error as error:
                    refused.append(error)

        threads = [threading.Thread(target=evaluate) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(values) + len(refused), 150)
        self.assertTrue(all(torch.equal(value, expected) for value in values))
        with torch.no_grad():
            self.assertTrue(torch.equal(self.model(self.x), expected))


def fail(*_):
    raise KeyboardInterrupt


def boosted(model):
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    plugin = GeminiPlugin(precision=None, device_budget=small_budget("150KiB"), placement_policy="cpu")
    Booster(plugin=plugin).boost(model, optimizer)
    return optimizer


if __name__ == "__main__":
    unittest.main()
