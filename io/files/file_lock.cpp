// SPDX-License-Identifier: Apache-2.0
#include "file_lock.h"

#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <thread>

namespace castor {
namespace {

/// The name of the file in /proc/locks: `fe:00:2146405`.
std::string lock_id(const struct stat& facts) {
  char text[64];
  std::snprintf(text, sizeof text, "%02x:%02x:%lu", major(facts.st_dev), minor(facts.st_dev),
                static_cast<unsigned long>(facts.st_ino));
  return text;
}

/// The process that holds a flock on `id`, from lines like `1: FLOCK  ADVISORY  WRITE 4711 fe:00:2146405 0 EOF`; 0
/// where none is listed. A process that waits for the lock has an arrow as second word and is skipped.
long holder_of(const std::string& id) {
  std::ifstream locks("/proc/locks");
  std::string line;
  while (std::getline(locks, line)) {
    std::istringstream words(line);
    std::string number, kind, mode, access, file;
    long process = 0;
    if (words >> number >> kind >> mode >> access >> process >> file && kind == "FLOCK" && file == id) return process;
  }
  return 0;
}

long holder_of(int fd) {
  struct stat facts {};
  return ::fstat(fd, &facts) == 0 ? holder_of(lock_id(facts)) : 0;
}

std::string holder_text(long process) {
  if (process == ::getpid()) return "this process";
  return process > 0 ? "process " + std::to_string(process) : "another process";
}

/// Whether the kernel is about to release the locks of the process. A process that is not listed has released its lock
/// since, or is dead and of another process name space, where its number means nothing.
bool is_going(long process) { return process <= 0 || (::kill(static_cast<pid_t>(process), 0) != 0 && errno == ESRCH); }

bool lock_now(int fd, FileLock kind) {
  int answer = 0;
  do {
    answer = ::flock(fd, (kind == FileLock::shared ? LOCK_SH : LOCK_EX) | LOCK_NB);
  } while (answer != 0 && errno == EINTR);
  return answer == 0 || errno != EWOULDBLOCK;
}

/// How long the kernel may take to release the locks of a killed process: it takes the rings down after the process.
constexpr int kMostLookBacks = 2000;
constexpr auto kLookBackPause = std::chrono::milliseconds(1);

}  // namespace

std::optional<std::string> lock_or_holder(int fd, FileLock kind) {
  for (int n_look_backs = 0;; ++n_look_backs) {
    if (lock_now(fd, kind)) return std::nullopt;
    const long holder = holder_of(fd);
    if (!is_going(holder) || n_look_backs == kMostLookBacks) return holder_text(holder);
    std::this_thread::sleep_for(kLookBackPause);
  }
}

}  // namespace castor
