// SPDX-License-Identifier: Apache-2.0
#include <castor/models/model.h>
#include "gpt.h"
#include "llama.h"
#include "mlp.h"
#include "model_spec.h"
#include "vit.h"

namespace castor {
namespace {

using Made = Result<std::shared_ptr<Model>>;

Result<void> check_multiple(const char* what, std::int64_t value, const char* of, std::int64_t divisor) {
  if (value % divisor == 0) return {};
  return Error{ErrorKind::usage, std::string(what) + " " + std::to_string(value) + " is not a multiple of " + of + " " +
                                     std::to_string(divisor)};
}

Made make_gpt(const ModelSpec& spec, const ModelOptions& options) {
  const auto& v = spec.values;
  const auto spelled = v.find("seq");
  const std::int64_t positions = spelled == v.end() ? options.seq : spelled->second;
  CASTOR_TRY(check_multiple("hidden size", v.at("hidden"), "heads", v.at("heads")));
  if (options.seq < 1 || options.seq > positions)
    return Error{ErrorKind::usage, "a sample of " + std::to_string(options.seq) +
                                       " tokens was asked for, the model has positions for 1 to " +
                                       std::to_string(positions)};
  const GptShape shape = {v.at("layers"), v.at("hidden"), v.at("heads"), v.at("vocab"), positions, v.at("tied") == 1};
  return Made(std::make_shared<Gpt>(shape, options));
}

Made make_llama(const ModelSpec& spec, const ModelOptions& options) {
  const auto& v = spec.values;
  CASTOR_TRY(check_multiple("hidden size", v.at("hidden"), "heads", v.at("heads")));
  CASTOR_TRY(check_multiple("heads", v.at("heads"), "kv_heads", v.at("kv_heads")));
  CASTOR_TRY(check_multiple("head size", v.at("hidden") / v.at("heads"), "the pairs that rotary positions turn:", 2));
  if (options.seq < 1)
    return Error{ErrorKind::usage,
                 "a sample of " + std::to_string(options.seq) + " tokens was asked for; 1 or more work"};
  const bool mixtral = spec.kind == "mixtral";
  if (mixtral && v.at("experts") < 2)
    return Error{ErrorKind::usage, "mixtral: has 2 experts or more, since each token takes two; llama: has one"};
  const LlamaShape shape = {.layers = v.at("layers"),
                            .hidden = v.at("hidden"),
                            .heads = v.at("heads"),
                            .kv_heads = v.at("kv_heads"),
                            .ffn = v.at("ffn"),
                            .experts = mixtral ? v.at("experts") : 1,
                            .rotary_base = static_cast<double>(v.at("rotary_base"))};
  return Made(std::make_shared<Llama>(shape, v.at("vocab"), options));
}

Made make_vit(const ModelSpec& spec, const ModelOptions& options) {
  const auto& v = spec.values;
  CASTOR_TRY(check_multiple("hidden size", v.at("hidden"), "heads", v.at("heads")));
  CASTOR_TRY(check_multiple("image size", Vit::kImageSize, "patch", v.at("patch")));
  const VitShape shape = {v.at("layers"), v.at("hidden"), v.at("heads"), v.at("patch"), v.at("classes")};
  return Made(std::make_shared<Vit>(shape, options));
}

Made make_mlp(const ModelSpec& spec, const ModelOptions& options) {
  const auto& v = spec.values;
  const MlpShape shape = {v.at("layers"), v.at("hidden"), v.at("features"), v.at("classes")};
  return Made(std::make_shared<Mlp>(shape, options));
}

}  // namespace

Result<std::string> spelled_out(std::string_view name) {
  CASTOR_ASSIGN(const ModelSpec spec, parse_model_name(name));
  std::string text = spec.kind;
  for (const auto& [key, value] : spec.values)
    text += (text == spec.kind ? ":" : ",") + key + "=" + std::to_string(value);
  return text;
}

Result<std::shared_ptr<Model>> make_model(std::string_view name, const ModelOptions& options) {
  CASTOR_ASSIGN(const ModelSpec spec, parse_model_name(name));
  if (spec.kind == "gpt") return make_gpt(spec, options);
  if (spec.kind == "vit") return make_vit(spec, options);
  if (spec.kind == "llama" || spec.kind == "mixtral") return make_llama(spec, options);
  return make_mlp(spec, options);
}

}  // namespace castor
