// SPDX-License-Identifier: Apache-2.0
#include "unit_pass.h"

#include <torch/csrc/autograd/python_variable.h>

#include <utility>

namespace castor::python {

namespace py = pybind11;

namespace {

/// Objects within objects that are looked into: more are a graph, as an object that holds its owner.
constexpr int kMostDepth = 8;

/// Adds the names of the slots of a class to `names`.
void add_slots(py::list& names, py::handle of_class) {
  const py::object slots = py::getattr(of_class, "__slots__", py::tuple());
  if (py::isinstance<py::str>(slots))
    names.append(slots);
  else
    for (const py::handle name : slots) names.append(name);
}

/// None, numbers and strings: most arguments, which are asked for no attributes.
bool holds_nothing(py::handle tree) {
  return tree.is_none() || PyLong_Check(tree.ptr()) || PyFloat_Check(tree.ptr()) || PyUnicode_Check(tree.ptr());
}

bool is_list(py::handle tree) {
  return py::isinstance<py::list>(tree) || py::isinstance(tree, py::module_::import("collections").attr("deque"));
}

/// The names of the attributes that may hold tensors: those of a dataclass, or of an object with a dictionary or slots.
py::list attributes_of(py::handle object) {
  if (py::isinstance<py::type>(object) || py::isinstance<py::function>(object) || py::hasattr(object, "_parameters"))
    return py::list();
  if (py::hasattr(object, "__dataclass_fields__")) return py::list(object.attr("__dataclass_fields__"));
  py::list names = py::hasattr(object, "__dict__") ? py::list(object.attr("__dict__")) : py::list();
  if (py::hasattr(object, "__slots__"))
    for (const py::handle base : py::type::of(object).attr("__mro__")) add_slots(names, base);
  return names;
}

}  // namespace

UnitPass::UnitPass(std::unique_ptr<UnitScope> scope, const py::tuple& args, const py::dict& kwargs)
    : scope_(std::move(scope)) {
  add_inputs(args);
  add_inputs(kwargs);
}

std::pair<py::object, bool> UnitPass::end(const py::object& result, const py::tuple& args, const py::dict& kwargs) {
  py::object given = add_outputs(result);
  if (scope_->leads_nowhere()) {
    mode_ = Mode::mark;
    add_outputs(args);
    add_outputs(kwargs);
  }
  if (scope_->hides_graph()) return {std::move(given), true};
  scope_->close();
  scope_.reset();
  return {std::move(given), false};
}

void UnitPass::add_inputs(py::handle tree) {
  if (holds_nothing(tree)) return;
  if (THPVariable_Check(tree.ptr()))
    scope_->add_input(THPVariable_Unpack(tree.ptr()));
  else if (py::isinstance<py::tuple>(tree) || py::isinstance<py::list>(tree))
    for (const py::handle item : tree) add_inputs(item);
  else if (py::isinstance<py::dict>(tree))
    for (const auto& [key, value] : py::reinterpret_borrow<py::dict>(tree)) add_inputs(value);
  else if (py::hasattr(tree, "__dataclass_fields__") && !py::isinstance<py::type>(tree))
    for (const py::handle name : attributes_of(tree)) add_inputs(tree.attr(name));
}

py::object UnitPass::add_outputs(py::handle tree, int depth) {
  if (THPVariable_Check(tree.ptr())) return add_output(tree);
  const auto same = py::reinterpret_borrow<py::object>(tree);
  if (depth == kMostDepth || holds_nothing(tree)) return same;
  if (py::isinstance<py::tuple>(tree)) return add_tuple(same, depth);
  if (!is_new(tree)) return same;
  if (py::isinstance<py::dict>(tree)) {
    for (const py::handle key : py::list(same)) replace(same, key, depth);
  } else if (is_list(tree)) {
    for (std::size_t i = 0; i < py::len(tree); ++i) replace(same, py::int_(i), depth);
  } else if (py::isinstance<py::anyset>(tree)) {
    for (const py::handle item : py::list(same)) add_outputs(item, depth + 1);
  } else {
    replace_attributes(same, depth);
  }
  return same;
}

/// False where the object was looked into already.
bool UnitPass::is_new(py::handle container) { return seen_.insert(container.ptr()).second; }

py::object UnitPass::add_output(py::handle given) {
  at::Tensor tensor = THPVariable_Unpack(given.ptr());
  const c10::TensorImpl* const before = tensor.unsafeGetTensorImpl();
  scope_->add_output(tensor);
  if (mode_ == Mode::mark || tensor.unsafeGetTensorImpl() == before) return py::reinterpret_borrow<py::object>(given);
  return py::reinterpret_steal<py::object>(THPVariable_Wrap(tensor));
}

/// A tuple that holds a copy is made anew, a named one from its fields.
py::object UnitPass::add_tuple(const py::object& tuple, int depth) {
  py::list items;
  bool is_same = true;
  for (const py::handle item : tuple) {
    const py::object given = add_outputs(item, depth + 1);
    is_same = is_same && given.is(item);
    items.append(given);
  }
  if (is_same) return tuple;
  const py::object type = py::type::of(tuple);
  return py::hasattr(type, "_make") ? type.attr("_make")(items) : type(items);
}

/// What takes the place of an item of a list or dictionary, which is changed in place.
void UnitPass::replace(const py::object& container, py::handle key, int depth) {
  const py::object item = container.attr("__getitem__")(key), given = add_outputs(item, depth + 1);
  if (!given.is(item)) container.attr("__setitem__")(key, given);
}

/// The same for an object's attributes, also where it is frozen.
void UnitPass::replace_attributes(const py::object& object, int depth) {
  for (const py::handle name : attributes_of(object)) {
    const py::object item = py::getattr(object, name, py::none()), given = add_outputs(item, depth + 1);
    if (!given.is(item) && PyObject_GenericSetAttr(object.ptr(), name.ptr(), given.ptr()) != 0)
      throw py::error_already_set();
  }
}

std::unique_ptr<UnitPass> entered(UnitBorder& border, const py::tuple& args, const py::dict& kwargs) {
  std::unique_ptr<UnitScope> scope = border.enter();
  return scope ? std::make_unique<UnitPass>(std::move(scope), args, kwargs) : nullptr;
}

ModelParts parts_of(NamedTensors params, Units units) {
  ModelParts parts{std::move(params), {}};
  for (auto& [name, ids] : units) parts.units.push_back({std::move(name), std::move(ids)});
  return parts;
}

}  // namespace castor::python
