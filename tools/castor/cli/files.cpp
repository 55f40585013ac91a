// SPDX-License-Identifier: Apache-2.0
#include "files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include <castor/io/folder.h>
#include <castor/io/file_beside.h>
#include <castor/io/whole_file.h>

namespace castor::cli {
namespace {

namespace fs = std::filesystem;

/// A file by itself; one that is not there yet by its folder and name.
struct Identity {
  dev_t device = 0;
  ino_t inode = 0;
  std::string name;

  bool operator==(const Identity&) const = default;
};

std::optional<struct stat> facts_of(const fs::path& path) {
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0) return std::nullopt;
  return facts;
}

/// None where not even the folder is there.
std::optional<Identity> identity_of(const fs::path& path) {
  if (const auto facts = facts_of(path)) return Identity{facts->st_dev, facts->st_ino, ""};
  const fs::path target = fs::absolute(followed(path.string()));
  const auto folder = facts_of(target.parent_path());
  if (!folder) return std::nullopt;
  return Identity{folder->st_dev, folder->st_ino, target.filename().string()};
}

/// The file that stdout or stderr goes to; none where it is no regular file.
std::optional<Identity> identity_of_stream(int fd) {
  struct stat facts {};
  if (::fstat(fd, &facts) != 0 || !S_ISREG(facts.st_mode)) return std::nullopt;
  return Identity{facts.st_dev, facts.st_ino, ""};
}

/// The names of the files that Castor keeps in folders: those of stores, its libraries, and plugins.
bool is_kept(std::string_view name) {
  return is_store_file(name) || (name.starts_with("libcastor") && name.ends_with(".so"));
}

Error clash(const NamedPath& output, const std::string& what) {
  return {ErrorKind::usage,
          output.option + " " + output.path.string() + " is " + what + ", which it would replace; name another file"};
}

/// The file of `folder` that `output` would replace; none where it is none.
std::optional<Error> clash_in(const NamedPath& folder, const NamedPath& output, const Identity& written) {
  const Error error = clash(output, "a file of " + folder.option + " " + folder.path.string());
  const auto own = facts_of(folder.path);
  const auto beside = facts_of(output.path.has_parent_path() ? output.path.parent_path() : fs::path("."));
  const bool is_there = own && beside && own->st_dev == beside->st_dev && own->st_ino == beside->st_ino;
  const bool is_below = !own && fs::weakly_canonical(output.path).parent_path() == fs::weakly_canonical(folder.path);
  if ((is_there || is_below) && is_kept(output.path.filename().string())) return error;
  std::error_code refused;
  for (const auto& entry : fs::directory_iterator(folder.path, refused))
    if (is_kept(entry.path().filename().string()) && identity_of(entry.path()) == written) return error;
  return std::nullopt;
}

Result<void> check_output(const CommandFiles& files, std::size_t which) {
  const NamedPath& output = files.outputs[which];
  if (const auto facts = facts_of(output.path); facts && !S_ISREG(facts->st_mode))
    return Error{ErrorKind::usage, output.option + " " + output.path.string() + " is " +
                                       (S_ISDIR(facts->st_mode) ? "a folder" : "no regular file") + "; name a file"};
  const auto written = identity_of(output.path);
  for (const NamedPath& input : files.inputs)
    if (written && identity_of(input.path) == written)
      return clash(output, "the file of " + input.option + " " + input.path.string());
  for (const auto& [fd, stream] : {std::pair(STDOUT_FILENO, "output"), std::pair(STDERR_FILENO, "error")})
    if (written && identity_of_stream(fd) == written)
      return clash(output, std::string("the file of the standard ") + stream);
  for (std::size_t other = 0; other < which; ++other)
    if (written && identity_of(files.outputs[other].path) == written)
      return clash(output, "the file of " + files.outputs[other].option);
  for (const NamedPath& folder : files.folders)
    if (const auto found = clash_in(folder, output, written.value_or(Identity{}))) return *found;
  return {};
}

}  // namespace

Result<void> check_outputs(const CommandFiles& files) {
  for (std::size_t which = 0; which < files.outputs.size(); ++which) CASTOR_TRY(check_output(files, which));
  for (const NamedPath& output : files.outputs) CASTOR_TRY(check_whole_file(output.path.string()));
  return {};
}

}  // namespace castor::cli
