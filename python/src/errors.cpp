// SPDX-License-Identifier: Apache-2.0
#include "errors.h"

#include <torch/csrc/Exceptions.h>

#include <exception>

namespace castor::python {
namespace {

namespace py = pybind11;

/// castor.Error(message, kind, option, tier, needed, available)
py::object raised(const Error& error) {
  const py::object none = py::none();
  py::object option = none, tier = none, needed = none, available = none;
  if (!error.option.empty()) option = py::str(error.option);
  if (error.shortage) {
    tier = py::str(name(error.shortage->tier));
    needed = py::int_(error.shortage->needed_bytes);
    available = py::int_(error.shortage->available_bytes);
  }
  return py::module_::import("castor._errors")
      .attr("Error")(error.message, name(error.kind), option, tier, needed, available);
}

void set_error(const ErrorException& exception) {
  const py::object error = raised(exception.error());
  PyErr_SetObject(py::type::handle_of(error).ptr(), error.ptr());
}

}  // namespace

void translate_errors() {
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const ErrorException& exception) {
      set_error(exception);
    }
  });
}

void raise(const ErrorException& exception) {
  python_error carried;
  {
    const py::gil_scoped_acquire interpreter;
    set_error(exception);
    carried.persist();
  }
  throw carried;
}

}  // namespace castor::python
