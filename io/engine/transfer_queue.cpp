// SPDX-License-Identifier: Apache-2.0
#include "transfer_queue.h"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace castor {

TransferQueue::TransferQueue(std::size_t n_places) : places_(n_places), ring_(n_places) {
  free_.reserve(n_places);
  for (auto& place : places_) free_.push_back(&place);
}

void TransferQueue::start_in(Transfer& place, const IoRequest& request, IoSink& sink) {
  place.reset(request, sink);
  place.stage = Transfer::Stage::taken;
  if (request.deadline == kNoDeadline) return;
  ++n_deadlines_;
  recall_.notify_all();
}

void TransferQueue::end_in(const Transfer& place) {
  if (place.request().deadline != kNoDeadline) --n_deadlines_;
  if (place.recalled_as() != 0 && !place.recall_told) --n_cancelled_;
}

void TransferQueue::append(Transfer* transfer) {
  transfer->stage = Transfer::Stage::waiting;
  ring_[(first_ + n_waiting_++) % ring_.size()] = transfer;
  waiting_.notify_one();
}

Transfer* TransferQueue::take_first() {
  --n_waiting_;
  Transfer* first = ring_[std::exchange(first_, (first_ + 1) % ring_.size())];
  first->stage = Transfer::Stage::taken;
  return first;
}

bool TransferQueue::push(const IoRequest& request, IoSink& sink) {
  std::unique_lock lock(mutex_);
  free_place_.wait(lock, [this] { return !free_.empty(); });
  Transfer* place = free_.back();
  free_.pop_back();
  start_in(*place, request, sink);
  append(place);
  return std::exchange(consumer_sleeps_, false);
}

void TransferQueue::put_back(Transfer* transfer) {
  const std::lock_guard lock(mutex_);
  append(transfer);
}

bool TransferQueue::cancel(const IoSink& sink) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(places_.begin(), places_.end(), [&sink](const Transfer& place) {
    return place.stage != Transfer::Stage::free && &place.sink() == &sink;
  });
  if (found == places_.end() || found->recalled_as() != 0) return false;
  cancel_in(*found);
  return true;
}

void TransferQueue::cancel_in(Transfer& place) {
  place.recall(ECANCELED);
  ++n_cancelled_;
  recall_.notify_all();
}

void TransferQueue::stop() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  waiting_.notify_all();
  recall_.notify_all();
}

Transfer* TransferQueue::pop() {
  std::unique_lock lock(mutex_);
  waiting_.wait(lock, [this] { return n_waiting_ > 0 || (stopped_ && free_.size() == places_.size()); });
  return n_waiting_ == 0 ? nullptr : take_first();
}

bool TransferQueue::take_all(std::vector<Transfer*>& taken, bool sleeps) {
  const std::lock_guard lock(mutex_);
  consumer_sleeps_ = sleeps && n_waiting_ == 0;
  while (n_waiting_ > 0) taken.push_back(take_first());
  return !stopped_;
}

void TransferQueue::take_recalled(IoDeadline now, std::vector<Transfer*>& waiting, std::vector<Transfer*>& running) {
  const std::lock_guard lock(mutex_);
  if (n_deadlines_ == 0 && n_cancelled_ == 0) return;
  for (auto& place : places_) {
    if (place.stage == Transfer::Stage::free || place.recall_told) continue;
    const bool cancelled = place.recalled_as() != 0;
    if (!cancelled && place.request().deadline > now) continue;
    if (cancelled) --n_cancelled_;
    if (!cancelled) place.recall(ETIMEDOUT);
    place.recall_told = true;
    (place.stage == Transfer::Stage::waiting ? waiting : running).push_back(&place);
  }
  drop_recalled_from_waiting();
}

void TransferQueue::drop_recalled_from_waiting() {
  const auto n_before = n_waiting_;
  n_waiting_ = 0;
  for (std::size_t i = 0; i < n_before; ++i) {
    Transfer* transfer = ring_[(first_ + i) % ring_.size()];
    if (transfer->recall_told)
      transfer->stage = Transfer::Stage::taken;
    else
      ring_[(first_ + n_waiting_++) % ring_.size()] = transfer;
  }
}

IoDeadline TransferQueue::earliest_deadline() const {
  auto next = kNoDeadline;
  if (n_deadlines_ == 0) return next;
  for (const auto& place : places_)
    if (place.stage != Transfer::Stage::free && place.recalled_as() == 0)
      next = std::min(next, place.request().deadline);
  return next;
}

IoDeadline TransferQueue::next_deadline() const {
  const std::lock_guard lock(mutex_);
  return earliest_deadline();
}

bool TransferQueue::wait_for_recall() {
  std::unique_lock lock(mutex_);
  while (!stopped_ && n_cancelled_ == 0) {
    const auto next = earliest_deadline();
    if (next == kNoDeadline)
      recall_.wait(lock);
    else if (recall_.wait_until(lock, next) == std::cv_status::timeout)
      return true;
  }
  return !stopped_;
}

bool TransferQueue::finish(Transfer* transfer) {
  IoSink& sink = transfer->sink();
  do {
    const auto outcome = transfer->outcome();
    const bool cancelled_before = transfer->recalled_as() == ECANCELED;
    const auto next = sink.on_complete(outcome);
    const std::lock_guard lock(mutex_);
    const bool cancelled_meanwhile = transfer->recalled_as() == ECANCELED && !cancelled_before;
    end_in(*transfer);
    if (!next) return give_back(transfer), false;
    start_in(*transfer, *next, sink);
    if (cancelled_meanwhile) cancel_in(*transfer);  // the request that was cancelled may be the next one
  } while (transfer->empty());
  return true;
}

void TransferQueue::give_back(Transfer* transfer) {
  transfer->stage = Transfer::Stage::free;
  free_.push_back(transfer);
  free_place_.notify_one();
  if (stopped_ && free_.size() == places_.size()) waiting_.notify_all();
}

}  // namespace castor
