// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <castor/memory/buffer.h>
#include <castor/memory/dtype.h>
#include <castor/memory/stream.h>

namespace castor {

/// The operation that combines the ranks' elements. `max` takes the larger; a NaN loses against a number.
enum class ReduceOp : std::uint8_t { sum, max };

/// `sum` or `max`.
const char* name(ReduceOp op);

/// A collective under way: the point in its stream where this rank's part is done.
using Work = Event;

/// One rank of a group that computes together. All ranks call the same collectives in the same order, with the same
/// sizes, types and roots; each on a stream of its own.
///
/// A collective is queued like a copy: it starts after the work that `stream` already holds, the call returns at once
/// (on a stream that runs inline, after it), and work queued afterwards starts when it is done. Its bytes must stay
/// valid, and inputs unchanged, until the returned Work. 0 bytes are legal.
///
/// An error that the call itself shows is a ContractViolation and queues nothing: views that do not fit each other, a
/// root that is no rank, half an element. A later error is in the Work, and stops the stream as a failed copy does. The
/// communicator is broken from then on: every later collective ends with the same error. The thread backend tells every
/// rank when one called something else (usage), left, or brought a stream that had failed. NCCL reports the errors of
/// its library and of the links; where ranks disagree it hangs, and a failed stream's bytes are reduced as they are.
///
/// Order of summation. Threads: rank 0 + rank 1 + ... in fp32, left to right, then for 16-bit types one rounding to
/// nearest, ties to even; so the bits depend on the number of ranks alone. NCCL: the order of the algorithm that it
/// picks for this size and topology, and 16-bit partial sums may be rounded on every hop; equal bits then hold from run
/// to run at the same world size and layout.
///
/// Threads: one thread calls a communicator at a time; ranks that share a process need one thread each where streams
/// run inline.
class Communicator {
 public:
  /// Leaves the group. Wait for your Work first: collectives in which other ranks wait for this one end in an error.
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int world_size() const = 0;

  /// Replaces `data` on every rank by its reduction over all ranks. Requires: whole elements of `dtype`.
  virtual Work all_reduce(BufferView data, DType dtype, ReduceOp op, Stream& stream) = 0;

  /// Cuts `input` into one part per rank, reduces each over all ranks, and leaves part `rank()` in `output`.
  /// Requires: `input` has `world_size()` times the bytes of `output`; whole elements; `output` is apart from `input`,
  /// or exactly its part `rank()` (in place).
  virtual Work reduce_scatter(BufferView input, BufferView output, DType dtype, ReduceOp op, Stream& stream) = 0;

  /// Writes the inputs of all ranks behind each other, in the order of ranks, into `output` on every rank. Moves bytes,
  /// of any type. Requires: `output` has `world_size()` times the bytes of `input`; `input` is apart from `output`, or
  /// exactly its part `rank()`.
  virtual Work all_gather(BufferView input, BufferView output, Stream& stream) = 0;

  /// Replaces `data` on every rank by that of rank `root`. Moves bytes, of any type.
  /// Requires: 0 <= root < world_size().
  virtual Work broadcast(BufferView data, int root, Stream& stream) = 0;

  /// Reached when the streams of all ranks have reached this point.
  virtual Work barrier(Stream& stream) = 0;

  /// The error that broke the communicator, or success; never blocks.
  virtual Result<void> status() const = 0;
};

}  // namespace castor
