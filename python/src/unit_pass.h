// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <castor/plugins/torch/model_parts.h>
#include <castor/plugins/torch/unit_border.h>

#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

namespace castor::python {

/// One forward pass of a unit, from the call of its module's forward hook to that of the hook after it. Tensors are
/// found in tuples, lists and dictionaries, in dataclasses and, among results, in sets and other objects, nested in any
/// way.
class UnitPass {
 public:
  /// The unit's parameters have memory from now on. Throws ErrorException with the strategy's failure, as end does.
  UnitPass(std::unique_ptr<UnitScope> scope, const pybind11::tuple& args, const pybind11::dict& kwargs);

  /// Ends the pass with its result, and returns what takes the result's place: itself, or one in which the tensors that
  /// shared memory with a parameter are copies. Where no tensor in it leads to the unit's part of the graph, those in
  /// the arguments are results too, as they are. True where none leads there either: the pass goes on until this is
  /// destroyed. A pass that is destroyed without end was cut short by an exception.
  std::pair<pybind11::object, bool> end(const pybind11::object& result, const pybind11::tuple& args,
                                        const pybind11::dict& kwargs);
  /// Backward gets to the unit, which is not noticed by itself.
  void begin_backward() { scope_->begin_backward(); }

 private:
  /// Results that share memory with a parameter become copies, or stay.
  enum class Mode : std::uint8_t { replace, mark };

  void add_inputs(pybind11::handle tree);
  pybind11::object add_outputs(pybind11::handle tree, int depth = 0);
  pybind11::object add_output(pybind11::handle given);
  pybind11::object add_tuple(const pybind11::object& tuple, int depth);
  void replace(const pybind11::object& container, pybind11::handle key, int depth);
  void replace_attributes(const pybind11::object& object, int depth);
  bool is_new(pybind11::handle container);

  std::unique_ptr<UnitScope> scope_;  // null once it is closed
  Mode mode_ = Mode::replace;
  std::unordered_set<const void*> seen_;  ///< lists, dictionaries and other objects
};

/// The pass that begins at `border`; null without a strategy.
std::unique_ptr<UnitPass> entered(UnitBorder& border, const pybind11::tuple& args, const pybind11::dict& kwargs);

/// Of each unit its name, and the positions of its parameters.
using Units = std::vector<std::pair<std::string, std::vector<std::size_t>>>;

ModelParts parts_of(NamedTensors params, Units units);

}  // namespace castor::python
