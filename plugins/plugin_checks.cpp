// SPDX-License-Identifier: Apache-2.0
#include "plugin_checks.h"

#include <castor/plugins/option_schema.h>

#include <cinttypes>
#include <cstdio>
#include <string>

namespace castor {
namespace {

constexpr const char* kRebuild = "; rebuild it against this host's <castor/plugins/abi.h>";

Error refused(std::string message) { return {ErrorKind::plugin, std::move(message)}; }

std::string hex(std::uint64_t bits) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%" PRIx64, bits);
  return text;
}

std::string in_quotes(std::string_view text) { return "'" + std::string(text) + "'"; }

Result<void> check_magic(const castor_plugin_info& info) {
  if (info.magic == CASTOR_PLUGIN_MAGIC) return {};
  return refused("its magic number is " + hex(info.magic) + ", a Castor plugin has " + hex(CASTOR_PLUGIN_MAGIC) +
                 kRebuild);
}

Result<void> check_size(const castor_plugin_info& info) {
  if (info.struct_size >= sizeof(castor_plugin_info)) return {};
  return refused("its description has " + std::to_string(info.struct_size) + " bytes, version 2.0 has " +
                 std::to_string(sizeof(castor_plugin_info)) + kRebuild);
}

Result<void> check_major(const castor_plugin_info& info) {
  if (info.abi_major == CASTOR_ABI_MAJOR) return {};
  return refused("it speaks plugin ABI " + std::to_string(info.abi_major) + ", this host speaks " +
                 std::to_string(CASTOR_ABI_MAJOR) + kRebuild);
}

/// ABI 2 is provisional: nothing is promised between two minor versions.
Result<void> check_minor(const castor_plugin_info& info) {
  if (info.abi_minor == CASTOR_ABI_MINOR) return {};
  const std::string major = std::to_string(CASTOR_ABI_MAJOR) + ".";
  return refused("it speaks plugin ABI " + major + std::to_string(info.abi_minor) + ", this host speaks " + major +
                 std::to_string(CASTOR_ABI_MINOR) + kRebuild);
}

Result<void> check_capabilities(const castor_plugin_info& info) {
  const std::uint64_t unknown = info.capabilities & ~static_cast<std::uint64_t>(CASTOR_CAP_KNOWN);
  if (unknown == 0) return {};
  return refused("it needs the capabilities " + hex(unknown) + ", this host knows " + hex(CASTOR_CAP_KNOWN) +
                 " and no others; use a newer Castor");
}

/// Checks the tag of a library that the plugin links.
Result<void> check_tag(const char* library, const char* tag, const std::string& host_tag) {
  const std::string found = tag != nullptr ? tag : "";
  if (!found.empty() && found == host_tag) return {};
  const std::string host = host_tag.empty() ? std::string("has no ") + library : "runs with " + in_quotes(host_tag);
  return refused(std::string("it was built for ") + library + " " + in_quotes(found) + ", this host " + host +
                 "; rebuild it against the same " + library);
}

Result<void> check_tags(const castor_plugin_info& info, const HostTags& host) {
  if (info.capabilities & CASTOR_CAP_LINKS_TORCH) CASTOR_TRY(check_tag("LibTorch", info.torch_tag, host.torch));
  if (info.capabilities & CASTOR_CAP_LINKS_CASTOR) CASTOR_TRY(check_tag("libcastor", info.castor_tag, host.castor));
  return {};
}

bool is_empty(const char* text) { return !text || !*text; }

Result<void> check_description(const castor_plugin_info& info) {
  if (is_empty(info.name) || is_empty(info.version) || !info.summary)
    return refused("it lacks a name, a version or a summary; the plugin must be corrected");
  if (!info.create) return refused("it offers no create function; the plugin must be corrected");
  if (!info.options && info.n_options > 0)
    return refused("it declares " + std::to_string(info.n_options) +
                   " options but lists none; the plugin must be corrected");
  return check_schema(option_schema(info));
}

}  // namespace

Result<void> check_plugin_info(const castor_plugin_info& info, const HostTags& host) {
  CASTOR_TRY(check_magic(info));
  CASTOR_TRY(check_size(info));
  CASTOR_TRY(check_major(info));
  CASTOR_TRY(check_minor(info));
  CASTOR_TRY(check_capabilities(info));
  CASTOR_TRY(check_tags(info, host));
  return check_description(info);
}

}  // namespace castor
