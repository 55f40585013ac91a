// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "cuda_launch.h"

namespace castor::kernels {

/// Working memory of a kernel, in doubles, on one device.
class Scratch {
 public:
  /// `whose` names the kernel in messages. The first allocation has room for `n_least` doubles at least.
  Scratch(std::string whose, std::uint64_t n_least) : whose_(std::move(whose)), n_least_(n_least) {}
  ~Scratch() { (void)cudaFree(data_); }  // frees on its own device, after the kernels that still use it
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  /// Room for `n` doubles on `device`, which is current. The contents are lost where it must grow. Errors:
  /// does_not_fit.
  Result<double*> room(int device, std::uint64_t n) {
    if (device == device_ && n <= n_room_) return data_;
    (void)cudaFree(std::exchange(data_, nullptr));
    n_room_ = 0;
    const std::uint64_t n_wanted = std::max(n_least_, n);
    auto allocated = cuda_result(cudaMalloc(&data_, n_wanted * sizeof(double)),
                                 whose_ + ": " + std::to_string(n_wanted * sizeof(double)) + " bytes of scratch");
    if (!allocated.ok()) return Error{ErrorKind::does_not_fit, allocated.error().message};
    device_ = device;
    n_room_ = n_wanted;
    return data_;
  }

 private:
  const std::string whose_;
  const std::uint64_t n_least_;
  double* data_ = nullptr;
  std::uint64_t n_room_ = 0;
  int device_ = -1;
};

}  // namespace castor::kernels
