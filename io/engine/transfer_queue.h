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
/// Threads: push, cancel and stop from any thread; the rest from the engine's own threads.
class TransferQueue {
 public:
  explicit TransferQueue(std::size_t n_places);

  std::size_t n_places() const { return places_.size(); }
  /// Queues a request; blocks while every place is taken. True where the consumer sleeps in the kernel and must be
  /// woken.
  bool push(const IoRequest& request, IoSink& sink);
  /// Recalls the request of `sink`; take_recalled hands it out. True where there is one.
  bool cancel(const IoSink& sink);
  /// No request comes after this; those queued are still handed out.
  void stop();

  /// Blocks until a request waits and takes it, first come, first served; null when stopped and every request has
  /// ended: the running ones may go on as chains.
  Transfer* pop();
  /// Appends all waiting requests to `taken`. `sleeps`: the consumer goes to sleep where there are none, so the next push
  /// will ask for a wake-up. False when stopped.
  bool take_all(std::vector<Transfer*>& taken, bool sleeps);
  /// Puts a request back, behind those that wait: the next of a chain.
  void put_back(Transfer* transfer);

  /// Recalls what is past its deadline. Appends the waiting requests that are recalled to `waiting`, taken, and those
  /// an engine has taken to `running`; each once.
  void take_recalled(IoDeadline now, std::vector<Transfer*>& waiting, std::vector<Transfer*>& running);
  /// The earliest deadline of any request that is not recalled yet. Cost: nothing where none has one.
  IoDeadline next_deadline() const;
  /// Blocks until take_recalled has something to hand out; false when stopped.
  bool wait_for_recall();

  /// Tells the request's sink how it ended. True where the sink goes on: then `transfer` is its next request, taken and
  /// not empty. Else its place is free.
  bool finish(Transfer* transfer);

 private:
  Transfer* take_first();
  void append(Transfer* transfer);
  IoDeadline earliest_deadline() const;
  void drop_recalled_from_waiting();
  void start_in(Transfer& place, const IoRequest& request, IoSink& sink);
  void end_in(const Transfer& place);
  void give_back(Transfer* transfer);

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
