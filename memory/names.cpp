// SPDX-License-Identifier: Apache-2.0
#include <castor/memory/dtype.h>
#include <castor/memory/result.h>
#include <castor/memory/tier.h>
#include <castor/memory/timeline.h>

namespace castor {

const char* name(Tier tier) {
  switch (tier) {
    case Tier::device: return "device";
    case Tier::host: return "host";
    case Tier::nvme: return "nvme";
  }
  throw ContractViolation("Tier holds no tier");
}

const char* name(DType dtype) {
  switch (dtype) {
    case DType::f32: return "fp32";
    case DType::bf16: return "bf16";
    case DType::f16: return "fp16";
    case DType::u8: return "bytes";
  }
  throw ContractViolation("DType holds no dtype");
}

const char* name(Lane lane) {
  switch (lane) {
    case Lane::compute: return "compute";
    case Lane::h2d: return "h2d";
    case Lane::d2h: return "d2h";
    case Lane::nvme_read: return "nvme_read";
    case Lane::nvme_write: return "nvme_write";
    case Lane::host_update: return "host_update";
    case Lane::wait: return "wait";
  }
  throw ContractViolation("Lane holds no lane");
}

const char* name(Phase phase) {
  switch (phase) {
    case Phase::none: return "";
    case Phase::forward: return "forward";
    case Phase::backward: return "backward";
    case Phase::update: return "update";
  }
  throw ContractViolation("Phase holds no phase");
}

const char* name(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::failed: return "failed";
    case ErrorKind::usage: return "usage";
    case ErrorKind::does_not_fit: return "does_not_fit";
    case ErrorKind::io: return "io";
    case ErrorKind::plugin: return "plugin";
    case ErrorKind::interrupted: return "interrupted";
  }
  throw ContractViolation("ErrorKind holds no kind");
}

}  // namespace castor
