// SPDX-License-Identifier: Apache-2.0
#include "forecast/estimate/request.h"

namespace castor::estimates {
namespace {

Error no_torch() {
  return {ErrorKind::failed,
          "this castor was built without LibTorch and cannot build a model; pip install torch and build again"};
}

}  // namespace

Result<Forecast> estimate_model(const Request&, ModelFacts&, const std::function<void()>&) { return no_torch(); }
Result<RecordedStep> record_model(const ModelChoice&) { return no_torch(); }
std::string model_names_in_lines() { return ""; }

}  // namespace castor::estimates
