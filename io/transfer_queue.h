// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <vector>

#include "transfer.h"

namespace castor {

/// The requests of one engine, waiting and running: a fixed number of places, made once.
///
/// Invariant: there are never more requests than places. push holds the caller back until a place is free, so nothing
/// behind the queue can overflow, and no request allocates.
///
/// Threads: push from any thread; the rest from the engine's own threads.
class TransferQueue {
 public:
  explicit TransferQueue(std::size_t n_places);

  /// Queues a request; blocks while every place is taken. True where the consumer sleeps in the kernel and must be
  /// woken.
  bool push(const IoRequest& request, IoSink& sink);
  /// No request comes after this; those queued are still handed out.
  void stop();

  /// Blocks until a request waits and takes it, first come, first served; null when stopped and empty.
  Transfer* pop();
  /// Appends all waiting requests to `taken` and notes that the consumer goes to sleep: the next push will ask for a
  /// wake-up. False when stopped.
  bool take_all(std::vector<Transfer*>& taken);

  /// Tells the request's sink how it ended, and frees its place.
  void finish(Transfer* transfer);

 private:
  void give_back(Transfer* transfer);

  std::mutex mutex_;
  std::condition_variable free_place_;
  std::condition_variable waiting_;
  std::vector<Transfer> places_;
  std::vector<Transfer*> free_;
  std::vector<Transfer*> ring_;  // waiting requests: n_waiting_ of them from first_ on, wrapping around
  std::size_t first_ = 0;
  std::size_t n_waiting_ = 0;
  bool consumer_sleeps_ = false;
  bool stopped_ = false;
};

}  // namespace castor
