// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace castor {

/// The threads that update on the host, and the CPUs that they leave to others.
struct TeamSize {
  unsigned n_threads, n_spared_cpus;
};

/// As many threads as `update_threads` says (EngineOptions); where it is 0, as many as this process can use CPUs. Beside a
/// GPU a quarter of them is left to the threads that queue its work: updates are bound by memory, and a GPU that waits for
/// a thread costs more. An eighth no update runs on, so that what trains always finds a CPU of its own (docs/planning.md).
TeamSize team_size_of(unsigned update_threads, bool on_gpu);

}  // namespace castor
