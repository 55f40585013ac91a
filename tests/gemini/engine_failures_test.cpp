// SPDX-License-Identifier: Apache-2.0
// For n = 1, 2, 3 … the n-th call of one kind fails in a small training over three tiers, until a run has fewer than n
// calls.
//
// A call of the engine that reports an error is made once more. Every error has a sentence, every gradient is given
// back, and either all steps succeed, with the bits of the untouched run, or from the first step that fails on all do.
#include <castor/engine/engine.h>

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "drives/faulty_engine.h"
#include "gpu_rig.h"
#include "nth_call.h"
#include "refusing_device.h"
#include "scratch_folder.h"
#include "small_training.h"
#include "watchdog.h"

namespace castor {
namespace {

using test::Fault;
using test::FaultyEngine;
using test::GpuRig;
using test::NthCall;
using test::SmallTraining;
using test::Watchdog;

/// Where and how a training runs.
struct Setting {
  std::string name;
  bool on_gpu = false;
  double max_norm = 0;
  friend void PrintTo(const Setting& setting, std::ostream* out) { *out << setting.name; }
};

constexpr std::uint32_t kSteps = 3;

/// A training that meets a failure, and the record of it.
class FailingRun {
 public:
  explicit FailingRun(const Setting& setting)
      : training({.n_units = 4, .numel = 4096, .max_norm = setting.max_norm}),
        options(training.options()),
        host(training.make_host(setting.on_gpu ? GpuRig::kWhere : DLDevice{kDLCPU, 0})),
        machine(setting.on_gpu ? rig.machine() : this_machine()) {
    if (setting.on_gpu) host->allocate_from(rig.allocator);
    options.nvme_folders = {folder.path()};
    options.device_budget_bytes = (setting.on_gpu ? 48 : 20) * kKiB;
    options.host_budget_bytes = 160 * kKiB;
    options.speculative_updates = true;
    machine.open_store = [this](const TensorStoreOptions& store) -> Result<std::unique_ptr<TensorStore>> {
      CASTOR_ASSIGN(auto engine, make_io_engine(EngineChoice::threads));
      return TensorStore::open(store, std::make_unique<FaultyEngine>(std::move(engine), drive));
    };
  }
  ~FailingRun() {
    if (engine) end();
  }

  /// The whole training. The engine is destroyed at its end.
  void run() {
    const Watchdog watchdog([this] { drive->release(); });
    if (make()) train();
    end();
  }
  /// The training up to its first error. The engine lives on.
  void run_until_error() {
    if (!once("make", [this] { return make_engine(); }).ok()) return;
    if (!once("attach", [this] { return engine->attach(); }).ok()) return;
    for (std::uint32_t step = 0; step < kSteps; ++step) {
      for (const SmallTraining::Call& call : training.calls(*engine, *host, step))
        if (!once(call.name, call.make).ok()) return;
      ++n_good_steps;
    }
  }
  bool all_well() const { return n_good_steps == kSteps; }

  bool make() {
    return twice("make", [this] { return make_engine(); }).ok() &&
           twice("attach", [this] { return engine->attach(); }).ok();
  }

  Result<void> make_engine() {
    CASTOR_ASSIGN(engine, Engine::make(*host, options, machine));
    return {};
  }

  void train() {
    bool failed = false;
    for (std::uint32_t step = 0; step < kSteps; ++step)
      for (const SmallTraining::Call& call : training.calls(*engine, *host, step)) {
        const bool made = twice(call.name, call.make).ok();
        if (call.name != "step") continue;
        EXPECT_FALSE(failed && made) << "step " << step << " succeeded after one that had failed";
        failed = failed || !made;
        n_good_steps += made ? 1 : 0;
      }
    if (!failed) expect_untouched_bits();
  }

  /// The training; a step that fails, or that `breaks_off` before a call, is abandoned and taken again.
  void train_again(const std::function<bool()>& breaks_off) {
    bool whole = true;
    for (std::uint32_t n_tries = 0; whole && n_good_steps < kSteps; ++n_tries) {
      ASSERT_LT(n_tries, 2 * kSteps) << "one failure made many steps fail\n" << told();
      if (take_step(n_good_steps, breaks_off))
        ++n_good_steps;
      else
        whole = twice("discard_gradients", [this] { return engine->discard_gradients(); }).ok();
    }
    if (whole)
      expect_untouched_bits();
    else
      EXPECT_FALSE(engine->step(training.step_args()).ok()) << "a step succeeded after one that could not be abandoned";
  }
  bool take_step(std::uint32_t step, const std::function<bool()>& breaks_off) {
    for (const SmallTraining::Call& call : training.calls(*engine, *host, step))
      if (breaks_off() || !once(call.name, call.make).ok()) return false;
    return true;
  }

  void expect_untouched_bits() {
    std::vector<std::vector<float>> masters;
    const auto read = twice("read_master", [this, &masters]() -> Result<void> {
      CASTOR_ASSIGN(masters, training.masters(*engine));
      return {};
    });
    EXPECT_TRUE(read.ok() || !errors.empty());
    if (read.ok()) {
      EXPECT_TRUE(masters == expected(training)) << "the bits are not those of the untouched run";
    }
    stats = engine->stats().value();
  }

  void end() {
    drive->release();
    engine.reset();
    EXPECT_EQ(host->n_live_gradients(), 0);
    EXPECT_EQ(rig.allocator.n_live(), 0);
    EXPECT_TRUE(folder.empty());
  }

  /// Makes a call of the engine, and once more where it fails.
  Result<void> twice(const std::string& name, const std::function<Result<void>()>& call) {
    auto outcome = once(name, call);
    return outcome.ok() ? outcome : once(name, call);
  }
  Result<void> once(const std::string& name, const std::function<Result<void>()>& call) {
    Result<void> outcome;
    try {
      outcome = call();
    } catch (const std::exception& thrown) {
      ADD_FAILURE() << name << " threw " << thrown.what();
      outcome = Error{ErrorKind::failed, thrown.what()};
    }
    if (outcome.ok()) return outcome;
    const std::string& sentence = outcome.error().message;
    EXPECT_FALSE(sentence.empty()) << name << " gave no reason";
    errors.push_back({outcome.error().kind, sentence});
    names.push_back(name);
    return outcome;
  }
  /// The errors so far, one a line.
  std::string told() const {
    std::string text;
    for (std::size_t i = 0; i < errors.size(); ++i) text += names[i] + ": " + errors[i].message + "\n";
    return text;
  }

  static const std::vector<std::vector<float>>& expected(const SmallTraining& training) {
    static const auto plain = SmallTraining().expected(kSteps);
    static const auto clipped = SmallTraining({.max_norm = kClip}).expected(kSteps);
    return training.step_args().max_norm == 0 ? plain : clipped;
  }

  static constexpr double kClip = 1000;  // more than any norm here

  const test::ScratchFolder folder{test::ScratchFolder::quick_parent()};
  const SmallTraining training;
  GpuRig rig;
  EngineOptions options;
  const std::unique_ptr<test::FakeModelHost> host;
  const std::shared_ptr<FaultyEngine::Script> drive = std::make_shared<FaultyEngine::Script>();
  Machine machine;
  std::unique_ptr<Engine> engine;
  std::vector<Error> errors;
  std::vector<std::string> names;  ///< of the calls that gave them
  std::uint32_t n_good_steps = 0;
  bool cancelled = false;  ///< the engine was destroyed while the drive kept a request
  castor_stats stats{};
};

class EngineFailures : public ::testing::TestWithParam<Setting> {
 protected:
  /// Runs `one` for n = 1, 2, 3 … until it says that the n-th call was not reached.
  static void for_every_call(const std::function<bool(FailingRun&, std::uint64_t)>& one) {
    std::uint64_t nth = 1;
    int n_whole = 0;
    for (bool reached = true; reached && nth < kMostCalls && !HasFailure(); nth = test::next_nth(nth)) {
      SCOPED_TRACE("call " + std::to_string(nth));
      FailingRun run(GetParam());
      reached = one(run, nth);
      n_whole += reached && run.all_well() ? 1 : 0;
      if (!reached) {
        EXPECT_TRUE(run.errors.empty()) << run.told();
        EXPECT_TRUE(run.all_well());
      }
      if (HasFailure()) ADD_FAILURE() << run.told();
    }
    EXPECT_GT(nth, 3u) << "there are such calls";
    RecordProperty("calls", static_cast<int>(nth) - 2);
    RecordProperty("whole", n_whole);
  }

  /// For n = 1, 2, 3 …: runs `one` with a drive that keeps its n-th request until `one` has returned, then lets the
  /// drive answer and destroys the engine. Returns how many runs ended with an error; the others never waited for the
  /// request.
  static int for_every_hang(const std::function<void(FailingRun&)>& one) {
    int n_stopped = 0, n_hung = 0;
    for (std::uint64_t nth = 1; nth < kMostCalls && !HasFailure(); nth = test::next_nth(nth)) {
      SCOPED_TRACE("request " + std::to_string(nth));
      FailingRun run(GetParam());
      run.drive->set(nth, Fault::hold());
      run.machine.make_team = this_machine().make_team;  // a team without threads would wait for the drive itself
      {
        const Watchdog watchdog([&run] { run.drive->release(); });
        one(run);
      }
      const bool reached = run.drive->reached();
      EXPECT_EQ(run.drive->holds() || run.cancelled, reached) << "the request was kept to the end";
      EXPECT_EQ(run.all_well(), run.errors.empty()) << run.told();
      run.end();
      if (!reached) {
        EXPECT_TRUE(run.errors.empty()) << run.told();
        break;
      }
      ++n_hung;
      n_stopped += run.errors.empty() ? 0 : 1;
    }
    RecordProperty("hung", n_hung);
    RecordProperty("stopped", n_stopped);
    return n_stopped;
  }

  static constexpr std::uint64_t kMostCalls = 2000;
};

INSTANTIATE_TEST_SUITE_P(On, EngineFailures,
                         ::testing::Values(Setting{"Cpu"}, Setting{"CpuWithNorm", false, FailingRun::kClip},
                                           Setting{"Gpu", true}, Setting{"GpuWithNorm", true, FailingRun::kClip}),
                         [](const auto& info) { return info.param.name; });

TEST_P(EngineFailures, TheUntouchedRunUsesEveryTier) {
  FailingRun run(GetParam());
  run.run();
  EXPECT_TRUE(run.all_well()) << run.told();
  EXPECT_GT(run.stats.h2d_bytes, 0u);
  EXPECT_GT(run.stats.nvme_write_bytes, 0u);
  EXPECT_GT(run.stats.nvme_read_bytes, 0u);
}

TEST_P(EngineFailures, ABindingThatFails) {
  for_every_call([](FailingRun& run, std::uint64_t nth) {
    NthCall call(nth);
    run.host->fail_bind(call);
    run.run();
    EXPECT_EQ(call.reached(), !run.errors.empty());
    EXPECT_TRUE(run.all_well()) << "the unit is not entered, and can be once more";
    return call.reached();
  });
}

TEST_P(EngineFailures, AnAllocationThatFails) {
  for_every_call([](FailingRun& run, std::uint64_t nth) {
    NthCall on_device(nth);
    test::Refusal refusal{nth - 1};
    if (GetParam().on_gpu)
      run.rig.allocator.fail_allocation(on_device);
    else
      run.machine.make_device = [&refusal](DLDevice) -> Result<std::unique_ptr<Device>> {
        return std::unique_ptr<Device>(std::make_unique<test::RefusingDevice>(refusal));
      };
    run.run();
    return on_device.reached() || refusal.n_asked >= nth;
  });
}

TEST_P(EngineFailures, AHostAllocationThatFails) {
  if (!GetParam().on_gpu) GTEST_SKIP() << "AnAllocationThatFails has both tiers";
  for_every_call([](FailingRun& run, std::uint64_t nth) {
    const auto cpu = make_cpu_device();
    test::Refusal refusal{nth - 1};
    test::RefusingResource memory(cpu->host_memory(), refusal);
    run.rig.host_memory = &memory;
    run.run();
    return refusal.n_asked >= nth;
  });
}

TEST_P(EngineFailures, AStepThatTheCallerBreaksOff) {
  for_every_call([](FailingRun& run, std::uint64_t nth) {
    NthCall call(nth);
    if (run.make()) run.train_again([&call] { return call.is_this(); });
    run.end();
    return call.reached();
  });
}

TEST_P(EngineFailures, AFailureAfterWhichTheStepIsTakenAgain) {
  for_every_call([](FailingRun& run, std::uint64_t nth) {
    run.drive->set(nth, Fault::fail(EIO));
    if (run.make()) run.train_again([] { return false; });
    run.end();
    return run.drive->reached();
  });
}

TEST_P(EngineFailures, ACopyThatFails) {
  if (!GetParam().on_gpu) GTEST_SKIP() << "the streams of the fake GPU can fail";
  for_every_call([](FailingRun& run, std::uint64_t nth) {
    NthCall copy(nth);
    run.rig.failing_copy = &copy;
    run.run();
    return copy.reached();
  });
}

TEST_P(EngineFailures, ARequestToTheDriveThatFails) {
  for_every_call([](FailingRun& run, std::uint64_t nth) {
    run.drive->set(nth, Fault::fail(EIO));
    run.run();
    return run.drive->reached();
  });
}

TEST_P(EngineFailures, ARequestToTheDriveThatFlipsABit) {
  for_every_call([](FailingRun& run, std::uint64_t nth) {
    run.drive->set(nth, Fault::corrupt());
    run.run();
    return run.drive->reached();
  });
}

TEST_P(EngineFailures, AnInterruption) {
  for_every_call([](FailingRun& run, std::uint64_t nth) {
    NthCall question(nth);
    run.host->set_interrupted([&question] { return question.is_this(); });
    run.run();
    for (const Error& error : run.errors)
      EXPECT_TRUE(error.kind == ErrorKind::interrupted || error.kind == ErrorKind::failed) << error.message;
    return question.reached();
  });
}

TEST_P(EngineFailures, ADriveThatHangsWhileTheUserStops) {
  const int n_stopped = for_every_hang([](FailingRun& run) {
    run.host->set_interrupted([&run] { return run.drive->holds(); });
    run.run_until_error();
    if (run.errors.empty()) return;
    EXPECT_EQ(run.errors[0].kind, ErrorKind::interrupted) << run.told();
  });
  EXPECT_GT(n_stopped, 0);
}

TEST_P(EngineFailures, ADriveThatNeverAnswersDoesNotKeepTheEngineFromItsEnd) {
  const int n_stopped = for_every_hang([](FailingRun& run) {
    run.drive->set_cancels(true);
    run.host->set_interrupted([&run] { return run.drive->holds(); });
    run.run_until_error();
    const bool held = run.drive->holds();
    run.engine.reset();
    EXPECT_FALSE(run.drive->holds()) << "the request was cancelled";
    run.cancelled = held;
  });
  EXPECT_GT(n_stopped, 0);
}

TEST_P(EngineFailures, ADriveThatHangsLongerThanTheTimeout) {
  const int n_stopped = for_every_hang([](FailingRun& run) {
    run.options.io_timeout = std::chrono::seconds(20);
    run.machine.now_ns = [&run, ns = std::make_shared<std::atomic<std::uint64_t>>(1)] {
      return *ns += run.drive->holds() ? 1'000'000'000 : 1;  // a slow machine alone is no drive that hangs
    };
    run.run_until_error();
    if (run.errors.empty()) return;
    EXPECT_EQ(run.errors[0].kind, ErrorKind::io) << run.told();
    EXPECT_NE(run.errors[0].message.find("the drive or the device hangs"), std::string::npos) << run.told();
  });
  EXPECT_GT(n_stopped, 0);
}

}  // namespace
}  // namespace castor
