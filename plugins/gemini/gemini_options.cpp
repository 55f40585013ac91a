// SPDX-License-Identifier: Apache-2.0
#include "gemini_options.h"

#include <cstdlib>
#include <iterator>
#include <map>
#include <sstream>

#include <castor/memory/bytes.h>

namespace castor {
namespace {

constexpr double kMaxBytes = 0x1p63;

/// Bytes of an option; an empty text means no limit.
Result<std::uint64_t> limit(const std::string& text) {
  if (text.empty()) return Budget::kUnlimited;
  return parse_bytes(text);
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');)
    if (!part.empty()) parts.push_back(part);
  return parts;
}

}  // namespace

const castor_option kGeminiSchema[] = {
    {"device_budget", CASTOR_OPTION_BYTES, "", 0, kMaxBytes, nullptr,
     "bytes the device may hold, activations included on a GPU (default: no limit)"},
    {"host_budget", CASTOR_OPTION_BYTES, "", 0, kMaxBytes, nullptr,
     "bytes of host memory that chunks may hold (default: no limit)"},
    {"nvme_budget", CASTOR_OPTION_BYTES, "", 0, kMaxBytes, nullptr,
     "bytes that may lie in the folders of nvme (default: no limit)"},
    {"nvme", CASTOR_OPTION_STRING, "", 0, 0, nullptr,
     "folders below host memory, comma-separated; none = no such tier"},
    {"nvme_offload_fraction", CASTOR_OPTION_FLOAT, "0", 0, 1, nullptr,
     "share of the optimizer states that lives in the folders of nvme in any case"},
    {"placement_policy", CASTOR_OPTION_ENUM, "auto", 0, 0, "auto|cpu|cuda",
     "where optimizer states go: device, host, NVMe in this order; never on the device; only there"},
    {"chunk_bytes", CASTOR_OPTION_BYTES, "0", 0, kMaxBytes, nullptr,
     "size at which a chunk of parameters is closed; 0 = a size that suits the model's blocks, up to a sixteenth of the "
     "device budget or a 64th of the host's, 512 KiB to 32 MiB"},
};
const std::uint32_t kGeminiSchemaSize = std::size(kGeminiSchema);

Result<GeminiOptions> GeminiOptions::read(const castor_option_value* values, std::size_t n_values) {
  std::map<std::string, std::string> text;
  for (std::size_t i = 0; i < n_values; ++i) text[values[i].name] = values[i].value;
  GeminiOptions options;
  CASTOR_ASSIGN(options.device_budget_bytes, limit(text["device_budget"]));
  CASTOR_ASSIGN(options.host_budget_bytes, limit(text["host_budget"]));
  CASTOR_ASSIGN(options.nvme_budget_bytes, limit(text["nvme_budget"]));
  options.nvme_folders = split(text["nvme"]);
  options.nvme_offload_fraction = std::strtod(text["nvme_offload_fraction"].c_str(), nullptr);
  CASTOR_ASSIGN(options.placement_policy, parse_placement_policy(text["placement_policy"]));
  CASTOR_ASSIGN(options.chunk_bytes, parse_bytes(text["chunk_bytes"]));
  return options;
}

}  // namespace castor
