// SPDX-License-Identifier: Apache-2.0
#include "fake_model_host.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace castor::test {
namespace {

bool is_bf16(const FakeParam& param) { return param.dtype.code == kDLBfloat; }

std::size_t element_bytes(const FakeParam& param) { return param.dtype.bits / 8; }

float widen(std::uint16_t half) {
  const std::uint32_t bits = std::uint32_t{half} << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

std::uint16_t narrow_exactly(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  if ((bits & 0xffff) != 0) throw std::invalid_argument("a scripted gradient is not exact in bf16");
  return static_cast<std::uint16_t>(bits >> 16);
}

/// A gradient with the memory that it owns; its manager_ctx points here.
struct Gradient {
  DLManagedTensor managed{};
  std::vector<std::int64_t> shape;
  std::vector<unsigned char> bytes;
  std::shared_ptr<int> n_live;
};

void delete_gradient(DLManagedTensor* managed) {
  std::unique_ptr<Gradient> gradient(static_cast<Gradient*>(managed->manager_ctx));
  --*gradient->n_live;
}

std::vector<unsigned char> encode(const FakeParam& param, const std::vector<float>& values) {
  std::vector<unsigned char> bytes(values.size() * element_bytes(param));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint16_t half = is_bf16(param) ? narrow_exactly(values[i]) : std::uint16_t{0};
    if (is_bf16(param))
      std::memcpy(&bytes[2 * i], &half, 2);
    else
      std::memcpy(&bytes[4 * i], &values[i], 4);
  }
  return bytes;
}

}  // namespace

std::uint64_t numel(const std::vector<std::int64_t>& shape) {
  std::uint64_t n = 1;
  for (const std::int64_t extent : shape) n *= static_cast<std::uint64_t>(extent);
  return n;
}

FakeModelHost::FakeModelHost(std::vector<FakeParam> params, std::vector<FakeUnit> units, DLDevice device)
    : params_(std::move(params)),
      units_(std::move(units)),
      device_(device),
      table_(make_table(this)),
      bound_(params_.size()) {
  for (const FakeParam& param : params_)
    if (param.init.size() != numel(param.shape)) throw std::invalid_argument(param.name + ": init and shape differ");
}

castor_host_v1 FakeModelHost::make_table(FakeModelHost* self) {
  castor_host_v1 table{};
  table.struct_size = sizeof table;
  table.self = self;
  table.set_error = [](void* self, const char* message) { of(self).error_ = message; };
  table.log = [](void* self, castor_log_level, const char* message) { of(self).calls_.emplace_back(message); };
  table.n_units = [](void* self) { return static_cast<std::uint32_t>(of(self).units_.size()); };
  table.n_params = [](void* self) { return static_cast<std::uint32_t>(of(self).params_.size()); };
  table.unit_info = [](void* self, std::uint32_t unit, castor_unit_info* out) {
    return of(self).describe_unit(unit, out);
  };
  table.param_info = [](void* self, std::uint32_t param, castor_param_info* out) {
    return of(self).describe(param, out);
  };
  table.init_param = [](void* self, std::uint32_t param, float* out) {
    return of(self).init(param, 0, of(self).params_.at(param).init.size(), out);
  };
  table.init_param_range = [](void* self, std::uint32_t param, std::uint64_t first, std::uint64_t n, float* out) {
    return of(self).init(param, first, n, out);
  };
  table.bind = [](void* self, std::uint32_t param, void* data) { return of(self).bind(param, data); };
  table.unbind = [](void* self, std::uint32_t param, const char* why) { return of(self).unbind(param, why); };
  table.device = [](void* self) { return of(self).device_; };
  table.compute_stream = [](void*) -> void* { return nullptr; };
  table.device_memory = [](void*, castor_device_memory* out) { return *out = {}, CASTOR_OK; };
  table.reset_device_peak = [](void*) {};
  table.interrupted = [](void* self) {
    return static_cast<std::int32_t>(of(self).interrupted_ && of(self).interrupted_());
  };
  return table;
}

void FakeModelHost::allocate_from(FakeAllocator& allocator) {
  allocator_ = &allocator;
  table_.device_alloc = [](void* self, std::uint64_t n_bytes, void** out) {
    FakeModelHost& host = of(self);
    *out = host.allocator_->allocate(n_bytes);
    if (*out != nullptr) return CASTOR_OK;
    host.error_ = "the fake GPU has no " + std::to_string(n_bytes) + " B left";
    return CASTOR_DOES_NOT_FIT;
  };
  table_.device_free = [](void* self, void* data, std::uint64_t n_bytes) {
    of(self).allocator_->deallocate(data, n_bytes);
  };
  table_.device_memory = [](void* self, castor_device_memory* out) {
    return *out = of(self).allocator_->memory(), CASTOR_OK;
  };
  table_.reset_device_peak = [](void* self) { of(self).allocator_->reset_peak(); };
  if (allocator.builds_pages())
    table_.device_pages = [](void* self, std::uint64_t n_bytes) { return of(self).allocator_->build_pages(n_bytes); };
}

castor_status FakeModelHost::record(const std::string& call) {
  const std::lock_guard lock(mutex_);
  calls_.push_back(call);
  if (call != failing_call_) return CASTOR_OK;
  error_ = call + " was told to fail";
  return failing_status_;
}

castor_status FakeModelHost::init(std::uint32_t param, std::uint64_t first, std::uint64_t n, float* out) {
  const FakeParam& fake = params_.at(param);
  if (first + n > fake.init.size()) throw std::out_of_range(fake.name + ": more first values than it has");
  std::copy_n(fake.init.begin() + static_cast<std::ptrdiff_t>(first), n, out);
  return record("init " + fake.name);
}

castor_status FakeModelHost::bind(std::uint32_t param, void* data) {
  const std::string call = "bind " + params_.at(param).name;
  const castor_status status = record(call);
  if (status != CASTOR_OK) return status;
  if (failing_bind_ != nullptr && failing_bind_->is_this()) {
    error_ = call + " was told to fail";
    return CASTOR_FAILED;
  }
  if (!data || reinterpret_cast<std::uintptr_t>(data) % 512 != 0) {
    error_ = "bind " + params_[param].name + ": its memory does not start at a multiple of 512 B";
    return CASTOR_PLUGIN;
  }
  bound_[param] = data;
  return CASTOR_OK;
}

castor_status FakeModelHost::unbind(std::uint32_t param, const char* why) {
  bound_.at(param) = nullptr;
  return record("unbind " + params_[param].name + ": " + why);
}

castor_status FakeModelHost::describe(std::uint32_t param, castor_param_info* out) const {
  const FakeParam& fake = params_.at(param);
  *out = {fake.name.c_str(), fake.shape.data(), static_cast<std::int32_t>(fake.shape.size()),
          fake.dtype,        numel(fake.shape), fake.trainable ? CASTOR_PARAM_TRAINABLE : 0};
  return CASTOR_OK;
}

castor_status FakeModelHost::describe_unit(std::uint32_t unit, castor_unit_info* out) const {
  const FakeUnit& fake = units_.at(unit);
  *out = {fake.name.c_str(), fake.params.data(), static_cast<std::uint32_t>(fake.params.size())};
  return CASTOR_OK;
}

std::vector<float> FakeModelHost::weights(std::uint32_t param) const {
  const FakeParam& fake = params_.at(param);
  std::vector<float> values(fake.init.size());
  if (!is_bf16(fake)) std::memcpy(values.data(), bound_.at(param), values.size() * sizeof(float));
  for (std::size_t i = 0; is_bf16(fake) && i < values.size(); ++i)
    values[i] = widen(static_cast<const std::uint16_t*>(bound_.at(param))[i]);
  return values;
}

DLManagedTensor* FakeModelHost::make_gradient(std::uint32_t param, const std::vector<float>& values) {
  const FakeParam& fake = params_.at(param);
  if (values.size() != fake.init.size())
    throw std::invalid_argument(fake.name + ": a scripted gradient has the wrong length");
  auto gradient = std::make_unique<Gradient>();
  gradient->shape = fake.shape;
  gradient->bytes = encode(fake, values);
  gradient->n_live = n_live_gradients_;
  ++*n_live_gradients_;
  gradient->managed.dl_tensor = {gradient->bytes.data(),
                                 device_,
                                 static_cast<int>(fake.shape.size()),
                                 fake.dtype,
                                 gradient->shape.data(),
                                 nullptr,
                                 0};
  gradient->managed.deleter = delete_gradient;
  gradient->managed.manager_ctx = gradient.get();
  return &gradient.release()->managed;
}

}  // namespace castor::test
