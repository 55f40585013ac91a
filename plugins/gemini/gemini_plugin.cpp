// SPDX-License-Identifier: Apache-2.0
// The C border of the gemini plugin: every function calls its namesake in Engine and turns errors and exceptions into a
// status and a sentence.
#include <castor/plugins/abi.h>

#include <new>

#include <castor/engine/engine.h>

#include "gemini_options.h"

namespace castor {
namespace {

/// The object behind the `self` of a strategy table.
struct Instance {
  castor_strategy_v1 table{};
  const castor_host_v1* host = nullptr;
  std::unique_ptr<Engine> engine;
  std::string note;  ///< the memory that committed's result points to
};

castor_status report(const castor_host_v1& host, const Error& error) {
  if (!error.message.empty()) host.set_error(host.self, error.message.c_str());  // else the host has its own message
  return static_cast<castor_status>(error.kind);
}

/// Runs `body`, which returns a Result; no exception leaves it.
template <typename Body>
castor_status guarded(const castor_host_v1& host, const Body& body) {
  try {
    const auto outcome = body();
    return outcome.ok() ? CASTOR_OK : report(host, outcome.error());
  } catch (const ErrorException& e) {
    return report(host, e.error());
  } catch (const ContractViolation& e) {
    return report(host, {ErrorKind::plugin, std::string("gemini: ") + e.what()});
  } catch (const std::bad_alloc&) {
    return report(host, {ErrorKind::does_not_fit, "gemini: out of memory for its own bookkeeping"});
  } catch (const std::exception& e) {
    return report(host, {ErrorKind::failed, std::string("gemini: ") + e.what()});
  } catch (...) {
    return report(host, {ErrorKind::failed, "gemini: an exception that is no std::exception was thrown"});
  }
}

template <typename Call>
castor_status with(void* self, const Call& call) {
  auto& instance = *static_cast<Instance*>(self);
  return guarded(*instance.host, [&] { return call(*instance.engine); });
}

castor_status attach(void* self) {
  return with(self, [](Engine& s) { return s.attach(); });
}
castor_status before_forward(void* self, std::uint32_t unit) {
  return with(self, [unit](Engine& s) { return s.before_forward(unit); });
}
castor_status after_forward(void* self, std::uint32_t unit) {
  return with(self, [unit](Engine& s) { return s.after_forward(unit); });
}
castor_status before_backward(void* self, std::uint32_t unit) {
  return with(self, [unit](Engine& s) { return s.before_backward(unit); });
}
castor_status after_backward(void* self, std::uint32_t unit) {
  return with(self, [unit](Engine& s) { return s.after_backward(unit); });
}
castor_status gradient(void* self, std::uint32_t param, DLManagedTensor* grad) {
  return with(self, [param, grad](Engine& s) { return s.gradient(param, grad); });
}
castor_status end_of_backward(void* self) {
  return with(self, [](Engine& s) { return s.end_of_backward(); });
}
castor_status announce_step(void* self, const castor_step_args* args) {
  return with(self, [args](Engine& s) { return s.announce_step(*args); });
}
castor_status abandon_step(void* self) {
  return with(self, [](Engine& s) { return s.abandon_step(); });
}
castor_status step(void* self, const castor_step_args* args, castor_step_result* out) {
  return with(self, [args, out](Engine& s) -> Result<void> {
    CASTOR_ASSIGN(*out, s.step(*args));
    return {};
  });
}
castor_status read_master(void* self, std::uint32_t param, float* out) {
  return with(self, [param, out](Engine& s) { return s.read_master(param, out); });
}
castor_status read_state(void* self, castor_param_state* state) {
  return with(self, [state](Engine& s) { return s.read_state(*state); });
}
castor_status write_state(void* self, const castor_param_state* state) {
  return with(self, [state](Engine& s) { return s.write_state(*state); });
}
castor_status stats(void* self, castor_stats* out) {
  return with(self, [out](Engine& s) -> Result<void> {
    CASTOR_ASSIGN(*out, s.stats());
    return {};
  });
}
castor_status write_trace(void* self, const char* path) {
  return with(self, [path](Engine& s) { return s.write_trace(path); });
}
castor_status keep(void* self, const void* data, std::uint64_t n_bytes, std::uint32_t* kept) {
  return with(self, [=](Engine& s) -> Result<void> {
    CASTOR_ASSIGN(const auto number, s.keep(data, n_bytes));
    *kept = number.value_or(CASTOR_NOT_KEPT);
    return {};
  });
}
castor_status recall(void* self, std::uint32_t kept, void** data) {
  return with(self, [=](Engine& s) -> Result<void> {
    CASTOR_ASSIGN(*data, s.recall(kept));
    return {};
  });
}
castor_status forget(void* self, std::uint32_t kept) {
  return with(self, [kept](Engine& s) { return s.forget(kept); });
}
castor_status commit(void* self, std::uint64_t step, const void* note, std::uint64_t n_note_bytes,
                     castor_commit_result* out) {
  return with(self, [=](Engine& s) -> Result<void> {
    CASTOR_ASSIGN(*out, s.commit(step, {static_cast<const char*>(note), n_note_bytes}));
    return {};
  });
}
castor_status committed(void* self, castor_committed_run* out) {
  std::string& note = static_cast<Instance*>(self)->note;
  return with(self, [out, &note](Engine& s) -> Result<void> {
    CASTOR_ASSIGN(auto run, s.committed());
    out->exists = run ? 1 : 0;
    if (!run) return {};
    note = std::move(run->note);
    out->step = run->step, out->note = note.data(), out->n_note_bytes = note.size();
    return {};
  });
}
castor_status restore(void* self) {
  return with(self, [](Engine& s) { return s.restore(); });
}
void destroy(void* self) { delete static_cast<Instance*>(self); }

castor_status create(const castor_host_v1* host, const castor_option_value* values, std::size_t n_values,
                     const castor_strategy_v1** out) {
  return guarded(*host, [&]() -> Result<void> {
    CASTOR_ASSIGN(const EngineOptions options, read_gemini_options(values, n_values));
    auto instance = std::make_unique<Instance>();
    instance->host = host;
    CASTOR_ASSIGN(instance->engine, Engine::make(*host, options));
    instance->table = {.struct_size = sizeof(castor_strategy_v1),
                       .self = instance.get(),
                       .attach = attach,
                       .before_forward = before_forward,
                       .after_forward = after_forward,
                       .before_backward = before_backward,
                       .after_backward = after_backward,
                       .gradient = gradient,
                       .end_of_backward = end_of_backward,
                       .step = step,
                       .read_master = read_master,
                       .stats = stats,
                       .write_trace = write_trace,
                       .destroy = destroy,
                       .keep = keep,
                       .recall = recall,
                       .forget = forget,
                       .announce_step = announce_step,
                       .read_state = read_state,
                       .write_state = write_state,
                       .commit = commit,
                       .committed = committed,
                       .restore = restore,
                       .abandon_step = abandon_step};
    *out = &instance.release()->table;  // destroy takes it back
    return {};
  });
}

}  // namespace
}  // namespace castor

extern "C" const castor_plugin_info* castor_plugin_query_v1(void) {
  static const castor_plugin_info info = {
      CASTOR_PLUGIN_MAGIC,
      sizeof(castor_plugin_info),
      CASTOR_ABI_MAJOR,
      CASTOR_ABI_MINOR,
      castor::kGeminiSchemaSize,
      CASTOR_CAP_CPU | CASTOR_CAP_CUDA,
      "",
      "gemini",
      CASTOR_VERSION,
      "parameters, gradients and optimizer states in chunks over device, host and NVMe",
      castor::kGeminiSchema,
      castor::create};
  return &info;
}
