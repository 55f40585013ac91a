// SPDX-License-Identifier: Apache-2.0
#include "support/drives/torn_calls.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <vector>

namespace castor::test {
namespace {

std::atomic<TornDrive*> watching{nullptr};

struct stat facts_of(int fd) {
  struct stat facts {};
  ::fstat(fd, &facts);
  return facts;
}

int system_fallocate(int fd, int mode, off_t offset, off_t n_bytes) {
  return static_cast<int>(::syscall(SYS_fallocate, fd, mode, offset, n_bytes));
}

/// A hole does not make the file longer: the bytes beyond its end are no part of it.
int punch(TornDrive& drive, int fd, int mode, off_t offset, off_t n_bytes) {
  const auto facts = facts_of(fd);
  const auto n_zeros = std::clamp<off_t>(facts.st_size - offset, 0, n_bytes);
  const std::vector<std::byte> zeros(static_cast<std::size_t>(n_zeros));
  const auto begun = drive.begin_write(facts.st_ino, n_zeros == 0 ? 0 : static_cast<std::uint64_t>(offset), zeros);
  const int answer = system_fallocate(fd, mode, offset, n_bytes);
  if (answer == 0) drive.end(begun);
  return answer;
}

}  // namespace

TornCalls::TornCalls(TornDrive& drive) { watching = &drive; }

TornCalls::~TornCalls() { watching = nullptr; }

}  // namespace castor::test

extern "C" {

int fallocate(int fd, int mode, off_t offset, off_t n_bytes) {
  using namespace castor::test;
  TornDrive* drive = watching;
  if (drive && (mode & FALLOC_FL_PUNCH_HOLE) != 0) return punch(*drive, fd, mode, offset, n_bytes);
  const int answer = system_fallocate(fd, mode, offset, n_bytes);
  const auto facts = facts_of(fd);
  if (drive && answer == 0) drive->note_grown(facts.st_ino, static_cast<std::uint64_t>(facts.st_size));
  return answer;
}

int ftruncate(int fd, off_t n_bytes) noexcept {
  const int answer = static_cast<int>(::syscall(SYS_ftruncate, fd, n_bytes));
  castor::test::TornDrive* drive = castor::test::watching;
  if (drive && answer == 0) drive->note_length(castor::test::facts_of(fd).st_ino, static_cast<std::uint64_t>(n_bytes));
  return answer;
}

int unlinkat(int folder_fd, const char* name, int flags) noexcept {
  const int answer = static_cast<int>(::syscall(SYS_unlinkat, folder_fd, name, flags));
  if (castor::test::TornDrive* drive = castor::test::watching) drive->note_names();
  return answer;
}

}  // extern "C"
