// SPDX-License-Identifier: Apache-2.0
// The gemini plugin: the engine with the options of gemini.
#include <castor/engine/engine.h>
#include <castor/gemini/gemini_options.h>
#include <castor/plugins/export_strategy.h>

namespace castor {
namespace {

Result<std::unique_ptr<Strategy>> make(ModelHost& host, std::span<const castor_option_value* const> values) {
  CASTOR_ASSIGN(const EngineOptions options, read_gemini_options(values));
  CASTOR_ASSIGN(auto engine, Engine::make(host, options));
  return std::unique_ptr<Strategy>(std::move(engine));
}

const CppPlugin kGemini = {.name = "gemini",
                           .version = CASTOR_VERSION,
                           .summary = "parameters, gradients and optimizer states in chunks over device, host and NVMe",
                           .capabilities = CASTOR_CAP_CPU | CASTOR_CAP_CUDA,
                           .options = gemini_schema(),
                           .make = make};

}  // namespace
}  // namespace castor

extern "C" const castor_plugin_info* castor_plugin_query_v2(void) { return castor::plugin_info<castor::kGemini>(); }
