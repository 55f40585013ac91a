// SPDX-License-Identifier: Apache-2.0
// The gemini plugin: the engine with the options of gemini.
#include <castor/engine/engine.h>
#include <castor/plugins/abi.h>
#include <castor/plugins/export_strategy.h>

#include "gemini_options.h"

namespace castor {
namespace {

castor_status create(const castor_host_v2* host, const castor_option_value* const* values, std::size_t n_values,
                     const castor_strategy_v2** out) {
  const auto make = [&](ModelHost& model) -> Result<std::unique_ptr<Strategy>> {
    CASTOR_ASSIGN(const EngineOptions options, read_gemini_options({values, n_values}));
    CASTOR_ASSIGN(auto engine, Engine::make(model, options));
    return std::unique_ptr<Strategy>(std::move(engine));
  };
  return export_strategy("gemini", *host, make, out);
}

}  // namespace
}  // namespace castor

extern "C" const castor_plugin_info* castor_plugin_query_v2(void) {
  static const castor_plugin_info info = {
      .magic = CASTOR_PLUGIN_MAGIC,
      .struct_size = sizeof(castor_plugin_info),
      .abi_major = CASTOR_ABI_MAJOR,
      .abi_minor = CASTOR_ABI_MINOR,
      .n_options = static_cast<std::uint32_t>(castor::gemini_schema().size()),
      .capabilities = CASTOR_CAP_CPU | CASTOR_CAP_CUDA | CASTOR_CAP_LINKS_CASTOR,
      .torch_tag = "",
      .castor_tag = CASTOR_VERSION,
      .name = "gemini",
      .version = CASTOR_VERSION,
      .summary = "parameters, gradients and optimizer states in chunks over device, host and NVMe",
      .options = castor::gemini_schema().data(),
      .create = castor::create};
  return &info;
}
