// SPDX-License-Identifier: Apache-2.0
#include "io_tuning.h"

#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <span>
#include <sstream>

#include <castor/memory/bytes.h>

#include "files/folder_ops.h"
#include "engine/io_error.h"
#include "store/store_format.h"

namespace castor {
namespace {

constexpr const char* kFirstLine = "castor-io-tuning 1";
constexpr const char* kComment =
    "# Found by tuning (castor bench io), one line per drive; delete a line to go back to the defaults.";
constexpr std::uint64_t kLargestFileBytes = kMiB;

/// Bytes of the block device with that number; those of the file system where there is none (network, overlay).
std::uint64_t device_bytes(dev_t device, const struct statfs& facts) {
  std::ifstream file("/sys/dev/block/" + std::to_string(major(device)) + ":" + std::to_string(minor(device)) + "/size");
  std::uint64_t n_sectors = 0;
  if (file >> n_sectors && n_sectors > 0) return n_sectors * 512;
  return std::uint64_t{facts.f_blocks} * static_cast<std::uint64_t>(facts.f_bsize);
}

/// The five numbers of a line, in their order there.
std::array<std::uint64_t, 5> values_of(const IoTuning& tuning) {
  return {tuning.block_bytes, tuning.depth, tuning.n_threads, tuning.read_bytes_per_s, tuning.write_bytes_per_s};
}

constexpr std::array<const char*, 5> kNames = {"block_bytes", "depth", "n_threads", "read_bytes_per_s",
                                               "write_bytes_per_s"};

/// Reads `name=123`; nothing where `word` is not of that form.
std::optional<std::uint64_t> named_number(const std::string& word, const std::string& name) {
  if (word.rfind(name + "=", 0) != 0) return std::nullopt;
  std::uint64_t number = 0;
  const char* end_of_word = word.data() + word.size();
  const auto [end, errc] = std::from_chars(word.data() + name.size() + 1, end_of_word, number);
  return errc == std::errc() && end == end_of_word ? std::optional(number) : std::nullopt;
}

std::optional<IoTuning> parse_values(std::istringstream& words) {
  std::array<std::uint64_t, kNames.size()> values{};
  std::string word;
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    const auto number = words >> word ? named_number(word, kNames[i]) : std::nullopt;
    if (!number) return std::nullopt;
    values[i] = *number;
  }
  if (words >> word || values[1] > UINT32_MAX || values[2] > UINT32_MAX) return std::nullopt;
  const IoTuning tuning{values[0], static_cast<unsigned>(values[1]), static_cast<unsigned>(values[2]), values[3],
                        values[4]};
  return is_sound(tuning) ? std::optional(tuning) : std::nullopt;
}

Error wrong_line(std::size_t number, const std::string& why) {
  return {ErrorKind::failed, "line " + std::to_string(number) + " " + why};
}

Result<TuningTable> read_table(const std::filesystem::path& path) {
  CASTOR_ASSIGN(const auto bytes, SystemFolderOps().read_file(path.string(), kLargestFileBytes));
  if (!bytes) return TuningTable();
  return parse_tunings(std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size()));
}

}  // namespace

bool is_sound(const IoTuning& tuning) {
  return is_store_block_size(tuning.block_bytes) && tuning.depth >= 1 && tuning.depth <= kMostDepth &&
         tuning.n_threads >= 1 && tuning.n_threads <= 256;
}

Result<std::string> drive_id(const std::string& folder) {
  struct stat file {};
  struct statfs system {};
  if (::stat(folder.c_str(), &file) != 0 || ::statfs(folder.c_str(), &system) != 0)
    return path_error("cannot look at folder " + folder, folder, errno);
  std::ostringstream id;
  id << major(file.st_dev) << ':' << minor(file.st_dev) << '-' << std::hex
     << static_cast<unsigned>(system.f_fsid.__val[0]) << '.' << static_cast<unsigned>(system.f_fsid.__val[1])
     << std::dec << '-' << device_bytes(file.st_dev, system);
  return id.str();
}

std::string format_tunings(const TuningTable& table) {
  std::string text = std::string(kFirstLine) + "\n" + kComment + "\n";
  for (const auto& [drive, tuning] : table) {
    text += drive;
    const auto values = values_of(tuning);
    for (std::size_t i = 0; i < kNames.size(); ++i)
      text += std::string(" ") + kNames[i] + "=" + std::to_string(values[i]);
    text += "\n";
  }
  return text;
}

Result<TuningTable> parse_tunings(const std::string& text) {
  std::istringstream lines(text);
  std::string line;
  if (!std::getline(lines, line) || line != kFirstLine)
    return wrong_line(1, "is not '" + std::string(kFirstLine) + "'");
  if (text.back() != '\n') return Error{ErrorKind::failed, "its last line is cut short"};
  TuningTable table;
  for (std::size_t number = 2; std::getline(lines, line); ++number) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    std::string drive;
    words >> drive;
    const auto tuning = parse_values(words);
    if (!tuning) return wrong_line(number, "is not the tuning of a drive");
    table[drive] = *tuning;
  }
  return table;
}

std::filesystem::path io_tuning_path() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache && cache[0] == '/') return std::filesystem::path(cache) / "castor/io-tuning";
  const char* home = std::getenv("HOME");
  return home && home[0] == '/' ? std::filesystem::path(home) / ".cache/castor/io-tuning" : std::filesystem::path();
}

Result<LoadedTuning> load_tuning(const std::string& folder) {
  CASTOR_ASSIGN(const std::string drive, drive_id(folder));
  const auto path = io_tuning_path();
  if (path.empty()) return LoadedTuning();
  const auto table = read_table(path);
  if (!table.ok())
    return LoadedTuning{std::nullopt, "ignoring " + path.string() + ", which cannot be used: " + table.error().message +
                                          "; `tune` writes it anew"};
  const auto found = table->find(drive);
  return found == table->end() ? LoadedTuning() : LoadedTuning{found->second, ""};
}

Result<void> save_tuning(const std::string& folder, const IoTuning& tuning) {
  if (!is_sound(tuning))
    return Error{ErrorKind::usage, "a tuning with requests of " + format_bytes(tuning.block_bytes) + ", " +
                                       std::to_string(tuning.depth) + " in flight and " +
                                       std::to_string(tuning.n_threads) +
                                       " threads cannot be; requests have a power of two from 4 KiB to 1 GiB, 1 to "
                                       "1024 are in flight, and there are 1 to 256 threads"};
  CASTOR_ASSIGN(const std::string drive, drive_id(folder));
  const auto path = io_tuning_path();
  if (path.empty())
    return Error{ErrorKind::io, "the tuning cannot be saved: neither XDG_CACHE_HOME nor HOME names a folder"};
  std::error_code ignored;
  std::filesystem::create_directories(path.parent_path(), ignored);  // an error shows when the file is written
  auto table = read_table(path);
  TuningTable kept = table.ok() ? std::move(*table) : TuningTable();
  kept[drive] = tuning;
  SystemFolderOps system;
  const std::string text = format_tunings(kept);
  return replace_file(system, path.parent_path().string(), path.filename().string(), std::as_bytes(std::span(text)));
}

}  // namespace castor
