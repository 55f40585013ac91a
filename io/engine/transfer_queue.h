// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <vector>

#include "transfer.h"

namespace castor {

/// The requests of one engine, waiting and running: a fixed number of places, allocated once.
///
/// Invariant: there are never more requests than places. push blocks the caller until a place is free, so nothing
/// behind the queue can overflow, and no request allocates.
///
/// Threads: push, cancel and stop from any thread; the rest from the engine's own threads.
class TransferQueue {
 public:
  explicit TransferQueue(std::size_t n_places);

  std::size_t n_places() const { return places_.size(); }
  /// Queues a request; blocks while every place is taken. True where the consumer sleeps in the kernel and the caller
  /// must wake it.
  bool push(const IoRequest& request, IoSink& sink);
  /// Recalls the request of `sink`, for take_recalled to return. False where there is none, or it is recalled already.
  bool cancel(const IoSink& sink);
  /// Stops the queue: no push follows; queued requests are still handed out.
  void stop();

  /// Blocks until a request waits and takes the oldest; null when the queue is stopped and every request has ended: a
  /// running one may continue as a chain.
  Transfer* pop();
  /// Appends all waiting requests to `taken`. `sleeps`: the consumer will sleep where there are none, so the next push
  /// will ask for a wake-up. False when stopped.
  bool take_all(std::vector<Transfer*>& taken, bool sleeps);
  /// Queues the next request of a chain behind the waiting ones.
  void put_back(Transfer* transfer);

  /// Recalls the requests past their deadlines. Takes the recalled requests that wait and appends them to `waiting`;
  /// appends those that the engine has taken to `running`; each once.
  void take_recalled(IoDeadline now, std::vector<Transfer*>& waiting, std::vector<Transfer*>& running);
  /// The earliest deadline of any request that is not recalled yet. Cost: nothing where none has one.
  IoDeadline next_deadline() const;
  /// Blocks until take_recalled has a request to return; false when stopped.
  bool wait_for_recall();

  /// Reports the outcome to the request's sink. True where the sink returned another request: then `transfer` is that
  /// one, taken and not empty. Else its place is free.
  bool finish(Transfer* transfer);

 private:
  Transfer* take_first();
  void append(Transfer* transfer);
  IoDeadline earliest_deadline() const;
  void drop_recalled_from_waiting();
  void start_in(Transfer& place, const IoRequest& request, IoSink& sink);
  void end_in(const Transfer& place);
  void give_back(Transfer* transfer);
  void cancel_in(Transfer& place);

  mutable std::mutex mutex_;
  std::condition_variable free_place_;
  std::condition_variable waiting_;
  std::condition_variable recall_;
  std::vector<Transfer> places_;
  std::vector<Transfer*> free_;
  std::vector<Transfer*> ring_;  // waiting requests: n_waiting_ of them from first_ on, wrapping around
  std::size_t first_ = 0;
  std::size_t n_waiting_ = 0;
  std::size_t n_deadlines_ = 0;  // requests that have one
  std::size_t n_cancelled_ = 0;  // recalled by cancel and not handed out yet
  bool consumer_sleeps_ = false;
  bool stopped_ = false;
};

}  // namespace castor
