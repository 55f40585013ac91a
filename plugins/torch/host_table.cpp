// SPDX-License-Identifier: Apache-2.0
#include "host_table.h"

#include <castor/plugins/torch/errors.h>
#include "parameter_storage.h"

#include <ATen/Parallel.h>

#include <iostream>

namespace castor {

struct HostTable::Calls {
  static HostTable& of(void* self) { return *static_cast<HostTable*>(self); }

  /// Runs `fn(host)`, a Result<void>; its error becomes the status and the sentence. No exception crosses.
  template <typename Fn>
  static castor_status at_border(void* self, const Fn& fn) noexcept {
    HostTable& host = of(self);
    try {
      const Result<void> done = fn(host);
      if (done.ok()) return CASTOR_OK;
      return host.failed(done.error());
    } catch (...) {
      return host.failed(current_error());
    }
  }

  static Result<void> check(const char* what, std::uint32_t id, std::size_t n) {
    if (id < n) return {};
    return Error{ErrorKind::plugin, std::string("there is no ") + what + ' ' + std::to_string(id) + "; the model has " +
                                        std::to_string(n)};
  }

  static void set_error(void* self, const char* message) { of(self).leave(message == nullptr ? "" : message); }

  static void log(void*, castor_log_level level, const char* message) {
    if (level != CASTOR_LOG_DEBUG) std::cerr << "castor: " << message << '\n';
  }

  static std::uint32_t n_units(void* self) { return static_cast<std::uint32_t>(of(self).map_.units.size()); }
  static std::uint32_t n_params(void* self) { return static_cast<std::uint32_t>(of(self).map_.params.size()); }

  static castor_status unit_info(void* self, std::uint32_t unit, castor_unit_info* out) {
    return at_border(self, [&](HostTable& host) -> Result<void> {
      CASTOR_TRY(check("unit", unit, host.map_.units.size()));
      const UnitEntry& entry = host.map_.units[unit];
      *out = {entry.name.c_str(), entry.params.data(), static_cast<std::uint32_t>(entry.params.size())};
      return {};
    });
  }

  static castor_status param_info(void* self, std::uint32_t param, castor_param_info* out) {
    return at_border(self, [&](HostTable& host) -> Result<void> {
      CASTOR_TRY(check("parameter", param, host.map_.params.size()));
      const ParamEntry& entry = host.map_.params[param];
      const at::Tensor& tensor = entry.tensor;
      *out = {entry.name.c_str(),
              tensor.sizes().data(),
              static_cast<std::int32_t>(tensor.dim()),
              entry.dtype,
              static_cast<std::uint64_t>(tensor.numel()),
              tensor.requires_grad() ? CASTOR_PARAM_TRAINABLE : 0};
      return {};
    });
  }

  static castor_status init_param(void* self, std::uint32_t param, float* out) {
    return at_border(self, [&](HostTable& host) -> Result<void> {
      CASTOR_TRY(check("parameter", param, host.map_.params.size()));
      host.init(param, {out, host.numel(param)}, 0);
      return {};
    });
  }

  static castor_status init_param_range(void* self, std::uint32_t param, std::uint64_t first, std::uint64_t n,
                                        float* out) {
    return at_border(self, [&](HostTable& host) -> Result<void> {
      CASTOR_TRY(check("parameter", param, host.map_.params.size()));
      const std::uint64_t numel = host.numel(param);
      if (first > numel || n > numel - first)
        return Error{ErrorKind::plugin, "first values " + std::to_string(first) + " to " + std::to_string(first + n) +
                                            " of a parameter that has " + std::to_string(numel)};
      host.init(param, {out, n}, first);
      return {};
    });
  }

  static castor_status bind(void* self, std::uint32_t param, void* data) {
    return at_border(self, [&](HostTable& host) -> Result<void> {
      CASTOR_TRY(check("parameter", param, host.map_.params.size()));
      bind_storage(storage_of(host.map_.params[param].tensor), data);
      return {};
    });
  }

  static castor_status unbind(void* self, std::uint32_t param, const char* why) {
    return at_border(self, [&](HostTable& host) -> Result<void> {
      CASTOR_TRY(check("parameter", param, host.map_.params.size()));
      const ParamEntry& entry = host.map_.params[param];
      release_storage(storage_of(entry.tensor), "parameter " + entry.name + ": " + (why == nullptr ? "released" : why));
      return {};
    });
  }

  static DLDevice device(void* self) {
    const c10::Device device = of(self).device_;
    return device.is_cpu() ? DLDevice{kDLCPU, 0} : DLDevice{kDLCUDA, device.index()};
  }

  static void* compute_stream(void* self) { return castor::compute_stream(of(self).device_); }

  static castor_status device_alloc(void* self, std::uint64_t n_bytes, void** out) {
    return at_border(self, [&](HostTable& host) -> Result<void> {
      CASTOR_ASSIGN(*out, host.chunk_memory_.allocate(n_bytes));
      return {};
    });
  }

  static void device_free(void* self, void* data, std::uint64_t n_bytes) { of(self).chunk_memory_.free(data, n_bytes); }

  static std::int32_t device_pages(void* self, std::uint64_t n_bytes) {
    return of(self).chunk_memory_.use_pages(n_bytes) ? 1 : 0;
  }

  static castor_status device_memory(void* self, castor_device_memory* out) {
    return at_border(self, [&](HostTable&) -> Result<void> {
      *out = castor::device_memory();
      return {};
    });
  }

  static void reset_device_peak(void*) { castor::reset_device_peak(); }

  static std::int32_t interrupted(void* self) { return of(self).interrupted() ? 1 : 0; }

  static castor_host_v1 table(HostTable* self) {
    const bool on_device = !self->device_.is_cpu();
    castor_host_v1 table = {};
    table.struct_size = sizeof(castor_host_v1);
    table.self = self;
    table.set_error = set_error;
    table.log = log;
    table.n_units = n_units;
    table.n_params = n_params;
    table.unit_info = unit_info;
    table.param_info = param_info;
    table.init_param = init_param;
    table.bind = bind;
    table.unbind = unbind;
    table.device = device;
    table.compute_stream = compute_stream;
    table.device_alloc = on_device ? device_alloc : nullptr;
    table.device_free = on_device ? device_free : nullptr;
    table.device_pages = on_device ? device_pages : nullptr;
    table.device_memory = device_memory;
    table.reset_device_peak = reset_device_peak;
    table.interrupted = interrupted;
    table.init_param_range = init_param_range;
    return table;
  }
};

std::uint64_t HostTable::numel(std::uint32_t param) const {
  return static_cast<std::uint64_t>(map_.params[param].tensor.numel());
}

std::string HostTable::take_error() {
  const std::lock_guard lock(error_mutex_);
  return std::exchange(error_, {});
}

void HostTable::leave(std::string sentence) {
  const std::lock_guard lock(error_mutex_);
  error_ = std::move(sentence);
}

castor_status HostTable::failed(const Error& error) {
  leave(error.message);
  return static_cast<castor_status>(error.kind);
}

void HostTable::init(std::uint32_t param, std::span<float> out, std::uint64_t first) const {
  fill(out, map_.params[param].init, {seed_, param}, at::get_num_threads(), first);
}

HostTable::HostTable(ModelMap map, c10::Device device, std::uint64_t seed, std::function<bool()> interrupted)
    : map_(std::move(map)),
      device_(device),
      chunk_memory_(device),
      seed_(seed),
      interrupted_(std::move(interrupted)),
      table_(Calls::table(this)) {}

}  // namespace castor
