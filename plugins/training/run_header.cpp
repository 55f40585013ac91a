// SPDX-License-Identifier: Apache-2.0
#include "run_header.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <vector>

#include <castor/training/optimizer_families.h>

namespace castor {
namespace {

using Json = nlohmann::json;

constexpr int kFormat = 3;

/// Where it is there, the order of memory, in which the values come: another one than the row-major.
constexpr const char* kOrder = "strides";

/// What has to be equal for values to be those of the same parameter. The dtype is that of an opaque one; others cross
/// in fp32.
Json json_of(const castor_param_info& param) {
  Json described = {{"name", param.name},
                    {"shape", std::vector<std::int64_t>(param.shape, param.shape + param.ndim)},
                    {"trained", is_trainable(param)}};
  if (is_opaque(param)) described["dtype"] = {param.dtype.code, param.dtype.bits, param.dtype.lanes};
  return described;
}

/// `"w" of shape [2,3], trained`
std::string words_for(const Json& param) {
  std::string words = param.at("name").dump() + " of shape " + param.at("shape").dump();
  words += param.at("trained").get<bool>() ? ", trained" : ", frozen";
  return param.contains("dtype") ? words + ", dtype (DLPack) " + param.at("dtype").dump() : words;
}

/// How the parameters of the header `was` differ from `params`; empty if they are equal.
std::string difference(const Json& was, const ModelParams& params, const std::string& model_name) {
  const Json& list = was.at("params");
  if (list.size() != params.size())
    return "it is of a model (" + was.at("model").get<std::string>() + ") with " + std::to_string(list.size()) +
           " parameters, this one (" + model_name + ") has " + std::to_string(params.size());
  for (const ParamId id : params.ids()) {
    Json there = list[index(id)];
    there.erase(kOrder);
    if (const Json here = json_of(params[id]); there != here)
      return "its parameter " + words_for(there) + " is here " + words_for(here);
  }
  return "";
}

/// How the moments of the header `was` differ from those of `optimizer`; empty if they are equal.
std::string difference(const Json& was, castor_optimizer optimizer) {
  const std::string theirs = was.at("moments_of"), ours = states_of(optimizer);
  if (theirs == ours) return "";
  return "it holds the moments of " + theirs + ", `optimizer` " + name(optimizer) + " continues from those of " + ours +
         "; give the optimizer of that run";
}

Json json_of(const RunState& run) {
  Json object = {{"steps", run.n_steps}, {"scaler", nullptr}};
  if (run.scaler) object["scaler"] = {run.scaler->scale, run.scaler->growth_counter, run.scaler->hysteresis_left};
  if (!run.data_position.empty())
    object["data"] = std::vector<std::uint8_t>(run.data_position.begin(), run.data_position.end());
  return object;
}

/// The first reason why a run of this model and optimizer cannot continue from the header `was`; empty if it can.
std::string defect(const Json& was, const Trained& trained, const ModelParams& params) {
  if (!was.is_object() || was.value("castor_checkpoint", 0) != kFormat)
    return "that folder holds no checkpoint that this version of castor can read; name another folder";
  if (std::string why = difference(was, trained.optimizer); !why.empty()) return why;
  const std::string why = difference(was, params, trained.model);
  return why.empty() ? why : why + "; give the model that was trained there";
}

}  // namespace

Json run_header(const Trained& trained, const ModelParams& params, const RunState& run) {
  Json list = Json::array();
  for (const castor_param_info& param : params) {
    list.push_back(json_of(param));
    if (const auto order = order_of(param); order != row_major_order(param)) list.back()[kOrder] = order;
  }
  return {{"castor_checkpoint", kFormat},
          {"model", trained.model},
          {"moments_of", states_of(trained.optimizer)},
          {"run", json_of(run)},
          {"params", list}};
}

Result<Json> read_run_header(const std::string& folders, const std::string& text, const Trained& trained,
                             const ModelParams& params) {
  Json was = Json::parse(text, nullptr, false);
  const std::string why = defect(was, trained, params);
  if (why.empty()) return was;
  return Error{ErrorKind::usage, about_checkpoint(folders, why), "resume_from"};
}

Result<ValueOrders> orders_of(const std::string& folders, const Json& header, const ModelParams& params) {
  ValueOrders orders(params.size());
  for (const ParamId id : params.ids()) {
    const Json& param = header.at("params").at(index(id));
    orders[id] = param.value(kOrder, row_major_order(params[id]));
    if (!is_dense(orders[id], params[id]))
      return Error{ErrorKind::io, about_checkpoint(folders, "the values of its parameter " + words_for(param) +
                                                                " lie in an order that no memory has; continue from "
                                                                "another checkpoint")};
  }
  return orders;
}

RunState run_of(const Json& header) {
  const Json& object = header.at("run");
  RunState run;
  run.n_steps = object.at("steps");
  const Json& scaler = object.at("scaler");
  if (!scaler.is_null()) run.scaler = {scaler.at(0), scaler.at(1), scaler.at(2)};
  const auto data = object.value("data", std::vector<std::uint8_t>());
  run.data_position.assign(data.begin(), data.end());
  return run;
}

Error no_checkpoint(const std::string& folders) {
  return {ErrorKind::usage, about_checkpoint(folders, "there is no checkpoint in that folder"), "resume_from"};
}

std::string about_checkpoint(const std::string& folders, const std::string& why) {
  return "`resume_from` " + folders + ": " + why;
}

}  // namespace castor
