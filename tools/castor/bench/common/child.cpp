// SPDX-License-Identifier: Apache-2.0
#include "child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <castor/io/unique_fd.h>

#include "cli/cli.h"

namespace castor::bench {
namespace {

constexpr int kPollMs = 100, kNotFound = 127;

struct Pipe {
  UniqueFd read_end;
  UniqueFd write_end;
};

Result<Pipe> make_pipe() {
  std::array<int, 2> fds{};
  if (::pipe2(fds.data(), O_CLOEXEC) != 0)
    return Error{ErrorKind::failed, std::string("cannot make a pipe: ") + std::strerror(errno)};
  return Pipe{UniqueFd(fds[0]), UniqueFd(fds[1])};
}

/// The array that execve expects: a pointer to the characters of each text, and a null pointer at the end.
std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (const std::string& text : texts) all.push_back(const_cast<char*>(text.c_str()));
  all.push_back(nullptr);
  return all;
}

std::string name_of(const std::string& variable) { return variable.substr(0, variable.find('=')); }

/// The environment of this process, in which the variables `more` replace those of the same name.
std::vector<std::string> environment_with(const std::vector<std::string>& more) {
  std::vector<std::string> all = more;
  for (char** variable = environ; *variable; ++variable) {
    const auto same = [&](const std::string& other) { return name_of(other) == name_of(*variable); };
    if (std::none_of(more.begin(), more.end(), same)) all.emplace_back(*variable);
  }
  return all;
}

/// Runs in the child. Calls only functions that are safe between fork and exec while other threads hold locks.
[[noreturn]] void become(char* const* argv, char* const* environment, int out, int err) {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  const int nothing = ::open("/dev/null", O_RDONLY);
  if (nothing >= 0) ::dup2(nothing, STDIN_FILENO);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(err, STDERR_FILENO);
  ::execve(argv[0], argv, environment);
  ::_exit(kNotFound);
}

/// Appends the bytes that can be read now; false at the end of the stream.
bool take(int fd, std::string& text) {
  std::array<char, 65536> part{};
  const auto n_read = ::read(fd, part.data(), part.size());
  if (n_read > 0) text.append(part.data(), static_cast<std::size_t>(n_read));
  return n_read > 0 || (n_read < 0 && errno == EINTR);
}

/// Reads both pipes to their ends; sends the child SIGTERM once `stopped` returns true.
bool collect(pid_t child, const Pipe& out, const Pipe& err, const std::function<bool()>& stopped, ChildOutcome& said) {
  std::array<pollfd, 2> ends = {{{out.read_end.get(), POLLIN, 0}, {err.read_end.get(), POLLIN, 0}}};
  const std::array<std::string*, 2> texts = {&said.out, &said.err};
  bool asked = false;
  while (ends[0].fd >= 0 || ends[1].fd >= 0) {
    if (!asked && stopped()) asked = ::kill(child, SIGTERM) == 0;
    ::poll(ends.data(), ends.size(), kPollMs);
    for (std::size_t i = 0; i < ends.size(); ++i)
      if (ends[i].fd >= 0 && ends[i].revents != 0 && !take(ends[i].fd, *texts[i])) ends[i].fd = -1;
  }
  return asked;
}

int wait_for(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

Result<ChildOutcome> run_child(const std::vector<std::string>& command, const std::vector<std::string>& more,
                               const std::function<bool()>& stopped) {
  CASTOR_ASSIGN(Pipe out, make_pipe());
  CASTOR_ASSIGN(Pipe err, make_pipe());
  const std::vector<std::string> environment = environment_with(more);
  const std::vector<char*> argv = pointers(command), variables = pointers(environment);
  const pid_t child = ::fork();
  if (child == 0) become(argv.data(), variables.data(), out.write_end.get(), err.write_end.get());
  if (child < 0) return Error{ErrorKind::failed, "cannot start " + command[0] + ": " + std::strerror(errno)};
  out.write_end = UniqueFd();
  err.write_end = UniqueFd();
  ChildOutcome said;
  const bool stopped_it = collect(child, out, err, stopped, said);
  said.exit_code = wait_for(child);
  if (stopped_it || stopped()) return Error{ErrorKind::interrupted, "stopped on request"};
  if (said.exit_code == kNotFound) return Error{ErrorKind::failed, "cannot start " + command[0]};
  return said;
}

std::string find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return ::access(name.c_str(), X_OK) == 0 ? name : "";
  const char* path = std::getenv("PATH");
  for (const std::string& folder : cli::split(path ? path : "", ':')) {
    const std::string file = (folder.empty() ? "." : folder) + "/" + name;
    if (::access(file.c_str(), X_OK) == 0) return file;
  }
  return "";
}

}  // namespace castor::bench
