// SPDX-License-Identifier: Apache-2.0
#include <castor/plugins/torch/on_meta.h>

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <algorithm>
#include <cstddef>
#include <memory>

namespace castor {
namespace {

/// A key that LibTorch keeps free, above those of autograd and of devices.
constexpr c10::DispatchKey kRedirected = c10::DispatchKey::TESTING_ONLY_GenericMode;

bool takes_tensors(const c10::FunctionSchema& schema) {
  return std::any_of(schema.arguments().begin(), schema.arguments().end(), [](const c10::Argument& argument) {
    return argument.type()->isSubtypeOf(*c10::TensorType::get()) ||
           argument.type()->isSubtypeOf(*c10::ListType::ofTensors());
  });
}

/// An operator without tensors that is told a device is a factory.
void on_meta(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const auto& arguments = op.schema().arguments();
  const bool is_factory = !takes_tensors(op.schema());
  for (std::size_t i = 0; is_factory && i < arguments.size(); ++i)
    if (arguments[i].name() == "device") (*stack)[stack->size() - arguments.size() + i] = c10::Device(c10::kMeta);
  op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kRedirected), stack);
}

/// For the life of the process; without the key it is not called.
void register_fallback() {
  static const auto library = [] {
    auto made = std::make_unique<torch::Library>(torch::Library::IMPL, "_", kRedirected, __FILE__, __LINE__);
    made->fallback(torch::CppFunction::makeFromBoxedFunction<&on_meta>());
    return made;
  }();
}

}  // namespace

struct OnMeta::Redirection {
  Redirection() { register_fallback(); }
  c10::impl::IncludeDispatchKeyGuard included{kRedirected};
};

OnMeta::OnMeta() : redirection_(std::make_unique<Redirection>()) {}
OnMeta::~OnMeta() = default;

bool OnMeta::active() { return c10::impl::tls_is_dispatch_key_included(kRedirected); }

}  // namespace castor
