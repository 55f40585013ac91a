// SPDX-License-Identifier: Apache-2.0
#include "unit_uses.h"

#include "rethrowing.h"
#include "unit_hooks.h"

#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <utility>

namespace castor {
namespace {

constexpr int kNoGraphTask = -1;

[[noreturn]] void refuse(const char* sentence) { throw ErrorException({ErrorKind::usage, sentence}); }

}  // namespace

void UnitUses::disconnect() {
  hooks_ = nullptr;
  (void)take_open();
}

std::shared_ptr<UnitUse> UnitUses::enter(std::uint32_t unit) {
  const bool recomputed = torch::autograd::get_current_graph_task_id() != kNoGraphTask;
  entered_ = std::make_shared<UnitUse>(UnitUse{unit, entered_, recomputed, n_entered_++});
  return entered_;
}

void UnitUses::leave(UnitUse& use) {
  use.end = n_entered_;
  for (const UnitUse* open = entered_.get(); open != nullptr; open = open->outer.get())
    if (open == &use) return void(entered_ = use.outer);
}

void UnitUses::begin_backward(const std::shared_ptr<UnitUse>& use) {
  rethrowing(rethrow_, [&] { begin(use); });
}

void UnitUses::end_backward(const UnitUse& use) {
  rethrowing(rethrow_, [&] { end_between(use.begin, use.end); });
}

void UnitUses::begin(const std::shared_ptr<UnitUse>& use) {
  if (use->open) return;
  if (hooks_ == nullptr)
    refuse(
        "backward through a graph whose strategy was destroyed; keep the boosted model and optimizer until backward "
        "ends");
  if (c10::GradMode::is_enabled())
    refuse(
        "a gradient of gradients (create_graph) needs all parameters at once; take it of a model that was not boosted");
  if (use->outer) begin(use->outer);
  end_between(use->end, n_entered_);
  end_with_graph_task(*use);
  hooks_->before_backward(use->unit);
  use->open = true;
  open_.push_back(use);
}

void UnitUses::end_between(std::uint64_t begin, std::uint64_t end) {
  for (std::size_t i = open_.size(); i-- > 0;)
    if (open_[i]->begin >= begin && open_[i]->begin < end) hooks_->after_backward(close(i)->unit);
}

/// A use is closed before its unit is told, so that it stays closed if that fails.
std::shared_ptr<UnitUse> UnitUses::close(std::size_t i) {
  std::shared_ptr<UnitUse> use = std::move(open_[i]);
  open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(i));
  use->open = false;
  return use;
}

/// Autograd forgets the callback where the graph task fails.
void UnitUses::end_with_graph_task(UnitUse& use) {
  use.graph_task = torch::autograd::get_current_graph_task_id();
  if (std::find(graph_tasks_.begin(), graph_tasks_.end(), use.graph_task) != graph_tasks_.end()) return;
  graph_tasks_.push_back(use.graph_task);
  torch::autograd::Engine::get_default_engine().queue_callback([self = weak_from_this(), graph_task = use.graph_task] {
    const auto uses = self.lock();
    if (!uses) return;
    std::erase(uses->graph_tasks_, graph_task);
    rethrowing(uses->rethrow_,
               [&] { uses->end_open([&](const UnitUse& use) { return use.graph_task == graph_task; }); });
  });
}

void UnitUses::end_all() {
  end_open([](const UnitUse&) { return true; });
}

/// Units of a recomputed part that are still open end with it. The others end with the micro-batch, of which the
/// strategy is told by end_of_backward.
template <typename Filter>
void UnitUses::end_open(const Filter& filter) {
  for (std::size_t i = open_.size(); i-- > 0;) {
    if (!filter(*open_[i])) continue;
    const std::shared_ptr<UnitUse> use = close(i);
    if (use->recomputed) hooks_->after_backward(use->unit);
  }
}

std::vector<std::uint32_t> UnitUses::take_open() {
  std::vector<std::uint32_t> units;
  while (!open_.empty()) units.push_back(close(open_.size() - 1)->unit);
  graph_tasks_.clear();
  return units;
}

}  // namespace castor
