// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/memory/result.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace castor {

class UnitHooks;

/// One use of a unit: a forward pass with a graph, and the backward passes through that graph.
struct UnitUse {
  std::uint32_t unit;
  std::shared_ptr<UnitUse> outer;         ///< the use that this one is part of; owners: graphs, and uses within
  bool recomputed;                        ///< entered inside a backward pass
  std::uint64_t begin;                    ///< uses are numbered as they are entered
  std::uint64_t end = ~std::uint64_t{0};  ///< the first number after those of the uses within; set when forward leaves
  bool open = false;                      ///< backward is inside
  int graph_task = 0;                     ///< of the backward pass that is inside
};

/// The uses of a model's units, numbered in the order of forward, and those that backward is inside of.
///
/// Autograd runs the operators of one device in the reverse of the order in which forward has made them (a node waits
/// for its consumers, which are younger; of the nodes that are ready the youngest goes first). So once it gets to an
/// input of a unit that is no leaf, or to an earlier unit, everything in the unit is done, whatever hangs on its other
/// inputs. Leaves are no such sign: their gradients are accumulated as soon as they are there.
///
/// Graphs own it too, and may outlive the strategy. Threads: one at a time.
class UnitUses final : public std::enable_shared_from_this<UnitUses> {
 public:
  /// `hooks` is borrowed until disconnect. `rethrow`: AdapterOptions::rethrow.
  UnitUses(UnitHooks& hooks, std::function<void(const ErrorException&)> rethrow)
      : hooks_(&hooks), rethrow_(std::move(rethrow)) {}
  void disconnect();

  /// Forward enters `unit`; a later leave ends it, and takes forward out of the uses within that are still open.
  std::shared_ptr<UnitUse> enter(std::uint32_t unit);
  void leave(UnitUse& use);

  /// Backward gets to a result of `use`: the uses after it end, and it begins, after the use that it is part of. No
  /// effect where it is open. Throws ErrorException.
  void begin_backward(const std::shared_ptr<UnitUse>& use);
  /// Backward gets to an input of `use`: it ends, after the uses within. No effect where it is not open. Throws
  /// ErrorException.
  void end_backward(const UnitUse& use);
  /// A backward pass ends with all its graph tasks. Throws ErrorException.
  void end_all();

  /// The units that a broken backward pass has left open, the last first; none of them is open any more.
  std::vector<std::uint32_t> take_open();

 private:
  void begin(const std::shared_ptr<UnitUse>& use);
  void end_between(std::uint64_t begin, std::uint64_t end);
  std::shared_ptr<UnitUse> close(std::size_t i);
  void end_with_graph_task(UnitUse& use);
  template <typename Filter>
  void end_open(const Filter& filter);

  UnitHooks* hooks_;
  const std::function<void(const ErrorException&)> rethrow_;
  std::shared_ptr<UnitUse> entered_;  // the innermost use that forward is inside of
  std::uint64_t n_entered_ = 0;
  std::vector<std::shared_ptr<UnitUse>> open_;  // in the order of opening
  std::vector<int> graph_tasks_;                // those whose end is noticed
};

}  // namespace castor
