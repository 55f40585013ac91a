// SPDX-License-Identifier: Apache-2.0
#include "unit_pass.h"

#include <torch/csrc/autograd/python_variable.h>

#include <utility>

namespace castor::python {

namespace py = pybind11;

UnitPass::UnitPass(std::unique_ptr<UnitScope> scope, const py::tuple& args, const py::dict& kwargs)
    : scope_(std::move(scope)) {
  add_inputs(args);
  add_inputs(kwargs);
}

py::object UnitPass::end(const py::object& result) {
  py::object given = add_outputs(result);
  scope_->close();
  return given;
}

void UnitPass::add_inputs(py::handle tree) {
  if (THPVariable_Check(tree.ptr()))
    scope_->add_input(THPVariable_Unpack(tree.ptr()));
  else if (py::isinstance<py::tuple>(tree) || py::isinstance<py::list>(tree))
    for (const py::handle item : tree) add_inputs(item);
  else if (py::isinstance<py::dict>(tree))
    for (const auto& [key, value] : py::reinterpret_borrow<py::dict>(tree)) add_inputs(value);
}

/// A list or dictionary is changed in place; a tuple that holds a copy is made anew.
py::object UnitPass::add_outputs(py::handle tree) {
  const py::object same = py::reinterpret_borrow<py::object>(tree);
  if (THPVariable_Check(tree.ptr())) {
    at::Tensor tensor = THPVariable_Unpack(tree.ptr());
    const c10::TensorImpl* const before = tensor.unsafeGetTensorImpl();
    scope_->add_output(tensor);
    return tensor.unsafeGetTensorImpl() == before ? same : py::reinterpret_steal<py::object>(THPVariable_Wrap(tensor));
  }
  if (py::isinstance<py::tuple>(tree)) {
    py::list items;
    bool is_same = true;
    for (const py::handle item : tree) {
      items.append(add_outputs(item));
      is_same = is_same && py::handle(items[items.size() - 1]).is(item);
    }
    if (is_same) return same;
    // A named tuple is made from its fields.
    const py::object type = py::type::of(same);
    return py::hasattr(type, "_make") ? type.attr("_make")(items) : type(items);
  }
  if (py::isinstance<py::list>(tree)) {
    const auto items = py::reinterpret_borrow<py::list>(tree);
    for (std::size_t i = 0; i < items.size(); ++i)
      if (const py::object item = add_outputs(items[i]); !item.is(items[i])) items[i] = item;
  } else if (py::isinstance<py::dict>(tree)) {
    for (const auto& key : py::list(py::reinterpret_borrow<py::dict>(tree).attr("keys")())) {
      const py::object value = tree[key], given = add_outputs(value);
      if (!given.is(value)) same.attr("__setitem__")(key, given);
    }
  }
  return same;
}

}  // namespace castor::python
