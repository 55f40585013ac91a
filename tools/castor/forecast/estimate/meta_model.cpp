// SPDX-License-Identifier: Apache-2.0
#include "forecast/estimate/request.h"

#include <castor/models/model.h>
#include <castor/plugins/torch/estimate.h>
#include <castor/plugins/torch/record_step.h>

namespace castor::estimates {
namespace {

/// A model that has shapes and no memory, and a batch of its step.
struct MetaModel {
  std::shared_ptr<Model> model;
  Batch batch;

  std::function<at::Tensor()> loss() const {
    return [*this] { return model->loss(batch); };
  }
};

Result<MetaModel> build(const ModelChoice& choice) {
  const ModelOptions options{.dtype = choice.precision,
                             .device = c10::kMeta,
                             .recompute = choice.recompute,
                             .seq = static_cast<std::int64_t>(choice.seq)};
  CASTOR_ASSIGN(auto model, make_model(choice.name, options));
  Batch batch = model->random_batch(static_cast<std::int64_t>(choice.batch), 0);
  return MetaModel{std::move(model), std::move(batch)};
}

}  // namespace

Result<Forecast> estimate_model(const Request& request, ModelFacts& facts, const std::function<void()>& on_built) {
  CASTOR_ASSIGN(const MetaModel meta, build(request.model));
  for (const at::Tensor& param : meta.model->parameters())
    facts.n_params += static_cast<std::uint64_t>(param.numel()), ++facts.n_tensors;
  facts.reads_text = meta.model->reads_text();
  facts.n_counted = request.model.batch * static_cast<std::uint64_t>(meta.model->tokens_per_sample());
  on_built();
  SessionOptions session;
  session.max_norm = request.max_norm;
  return castor::estimate(meta.model, meta.loss(), request.plugin, request.optimizer, request.machine, session);
}

Result<RecordedStep> record_model(const ModelChoice& choice) {
  CASTOR_ASSIGN(const MetaModel meta, build(choice));
  return record_step(meta.model, meta.loss());
}

std::string model_names_in_lines() {
  std::string text, family;
  for (const std::string& model : model_names()) {
    const std::string its_family = model.substr(0, model.find('-'));
    if (!family.empty()) text += its_family == family ? ", " : "\n";
    text += model;
    family = its_family;
  }
  return text;
}

}  // namespace castor::estimates
