// SPDX-License-Identifier: Apache-2.0
#include "transfer_queue.h"

#include <utility>

namespace castor {

TransferQueue::TransferQueue(std::size_t n_places) : places_(n_places), ring_(n_places) {
  free_.reserve(n_places);
  for (auto& place : places_) free_.push_back(&place);
}

bool TransferQueue::push(const IoRequest& request, IoSink& sink) {
  std::unique_lock lock(mutex_);
  free_place_.wait(lock, [this] { return !free_.empty(); });
  Transfer* place = free_.back();
  free_.pop_back();
  *place = Transfer(request, sink);
  ring_[(first_ + n_waiting_++) % ring_.size()] = place;
  waiting_.notify_one();
  return std::exchange(consumer_sleeps_, false);
}

void TransferQueue::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  waiting_.notify_all();
}

Transfer* TransferQueue::pop() {
  std::unique_lock lock(mutex_);
  waiting_.wait(lock, [this] { return n_waiting_ > 0 || stopped_; });
  if (n_waiting_ == 0) return nullptr;
  --n_waiting_;
  return ring_[std::exchange(first_, (first_ + 1) % ring_.size())];
}

bool TransferQueue::take_all(std::vector<Transfer*>& taken) {
  const std::lock_guard lock(mutex_);
  for (; n_waiting_ > 0; --n_waiting_) taken.push_back(ring_[std::exchange(first_, (first_ + 1) % ring_.size())]);
  consumer_sleeps_ = true;
  return !stopped_;
}

void TransferQueue::finish(Transfer* transfer) {
  IoSink& sink = transfer->sink();
  auto outcome = transfer->outcome();
  give_back(transfer);
  sink.on_complete(std::move(outcome));
}

void TransferQueue::give_back(Transfer* transfer) {
  {
    const std::lock_guard lock(mutex_);
    free_.push_back(transfer);
  }
  free_place_.notify_one();
}

}  // namespace castor
