// SPDX-License-Identifier: Apache-2.0
#include "run_header.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <vector>

#include <castor/memory/json_bounds.h>
#include <castor/memory/text.h>
#include <castor/training/optimizer_families.h>

namespace castor {
namespace {

using Json = nlohmann::json;

constexpr int kFormat = 4;
constexpr std::size_t kMostLetters = 200;  ///< of a sentence that come from the file

/// `text`, cut where it is long.
std::string brief(const std::string& text) {
  return text.size() <= kMostLetters ? text : text.substr(0, kMostLetters) + "…";
}

/// Where it is there, the order of memory, in which the values come: another one than the row-major.
constexpr const char* kOrder = "strides";

/// What has to be equal for values to be those of the same parameter. The dtype is that of an opaque one; others cross
/// in fp32.
Json json_of(const castor_param_info& param) {
  Json described = {{"name", as_utf8(param.name)},
                    {"shape", std::vector<std::int64_t>(param.shape, param.shape + param.ndim)},
                    {"trained", is_trainable(param)}};
  if (is_opaque(param)) described["dtype"] = {param.dtype.code, param.dtype.bits, param.dtype.lanes};
  return described;
}

/// `"w" of shape [2,3], trained`
std::string words_for(const Json& param) {
  std::string words = param.at("name").dump() + " of shape " + param.at("shape").dump();
  words += param.at("trained").get<bool>() ? ", trained" : ", frozen";
  return brief(param.contains("dtype") ? words + ", dtype (DLPack) " + param.at("dtype").dump() : words);
}

/// How the parameters of the header `was` differ from `params`; empty if they are equal.
std::string difference(const Json& was, const ModelParams& params, const std::string& model_name) {
  const Json& list = was.at("params");
  if (was.at("model") != as_utf8(model_name))
    return "it is of the model " + brief(was.at("model").get<std::string>()) + ", this one is " + model_name;
  if (list.size() != params.size())
    return "it is of a model (" + brief(was.at("model").get<std::string>()) + ") with " + std::to_string(list.size()) +
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
  const std::string theirs = brief(was.at("moments_of")), ours = states_of(optimizer);
  if (theirs == ours) return "";
  return "it holds the moments of " + theirs + ", `optimizer` " + name(optimizer) + " continues from those of " + ours +
         "; give the optimizer of that run";
}

RunSettings in_utf8(const RunSettings& settings) {
  RunSettings readable;
  for (const auto& [setting, value] : settings) readable[as_utf8(setting)] = as_utf8(value);
  return readable;
}

Json json_of(const RunState& run) {
  Json object = {{"steps", run.n_steps}, {"scaler", nullptr}, {"settings", in_utf8(run.settings)}};
  if (run.scaler) object["scaler"] = {run.scaler->scale, run.scaler->growth_counter, run.scaler->hysteresis_left};
  if (!run.data_position.empty())
    object["data"] = std::vector<std::uint8_t>(run.data_position.begin(), run.data_position.end());
  return object;
}

RunState run_of(const Json& header) {
  const Json& object = header.at("run");
  RunState run;
  run.n_steps = object.at("steps");
  run.settings = object.at("settings").get<RunSettings>();
  const Json& scaler = object.at("scaler");
  if (!scaler.is_null()) run.scaler = {scaler.at(0), scaler.at(1), scaler.at(2)};
  for (const std::int64_t byte : object.value("data", std::vector<std::int64_t>()))
    run.data_position += static_cast<char>(byte);
  return run;
}

ValueOrders orders_of(const Json& header, const ModelParams& params) {
  ValueOrders orders(params.size());
  for (const ParamId id : params.ids())
    orders[id] = header.at("params").at(index(id)).value(kOrder, row_major_order(params[id]));
  return orders;
}

/// Those of a strategy's own commit are in its map of states.
IndexedVector<ParamId, std::uint64_t> updates_of(const Json& header, const ModelParams& params) {
  IndexedVector<ParamId, std::uint64_t> updates(params.size());
  if (!header.contains("updates")) return updates;
  for (const ParamId id : params.ids()) updates[id] = header.at("updates").at(index(id));
  return updates;
}

Error damaged(const std::string& folders) {
  return {ErrorKind::io, about_checkpoint(folders, "its description is damaged; continue from another checkpoint")};
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
          {"model", as_utf8(trained.model)},
          {"moments_of", states_of(trained.optimizer)},
          {"run", json_of(run)},
          {"params", list}};
}

Result<RunHeader> read_run_header(const std::string& folders, const std::string& text, const Trained& trained,
                                  const ModelParams& params) {
  try {
    const Json was = json_out_of_bounds(text) ? Json() : Json::parse(text, nullptr, false);
    if (const std::string why = defect(was, trained, params); !why.empty())
      return Error{ErrorKind::usage, about_checkpoint(folders, why), "resume_from"};
    RunHeader header{run_of(was), orders_of(was, params), updates_of(was, params)};
    for (const ParamId id : params.ids())
      if (!is_dense(header.orders[id], params[id])) return damaged(folders);
    return header;
  } catch (const Json::exception&) {  // a field is missing or of another type
    return damaged(folders);
  }
}

Error no_checkpoint(const std::string& folders) {
  return {ErrorKind::usage, about_checkpoint(folders, "there is no checkpoint in that folder"), "resume_from"};
}

std::string about_checkpoint(const std::string& folders, const std::string& why) {
  return "`resume_from` " + folders + ": " + why;
}

}  // namespace castor
