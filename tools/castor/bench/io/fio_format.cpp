// SPDX-License-Identifier: Apache-2.0
#include "fio_format.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <utility>

namespace castor::bench {
namespace {

using nlohmann::json;

std::string direction(const IoCase& one) {
  const std::string sequential = one.rw == Rw::mixed ? "rw" : name(one.rw);
  return one.random ? "rand" + sequential : sequential;
}

std::string joined(const std::vector<std::string>& paths) {
  std::string text;
  for (const std::string& path : paths) text += (text.empty() ? "" : ":") + path;
  return text;
}

std::string flag(const char* name, bool on) { return std::string("--") + name + (on ? "=1" : "=0"); }

Error unreadable(const std::string& why) { return {ErrorKind::failed, "fio's report cannot be used: " + why}; }

/// `object[name]` as a number; throws json::exception if it is none.
double at(const json& object, const char* name) { return object.at(name).get<double>(); }

Result<FioReport> read(const json& object) {
  const json& job = object.at("jobs").at(0);
  if (const int error_number = job.value("error", 0))
    return unreadable("its job ended with error " + std::to_string(error_number));
  FioReport report;
  report.version = object.at("fio version").get<std::string>();
  const json &read = job.at("read"), &write = job.at("write");
  report.sample.n_bytes = read.at("io_bytes").get<std::uint64_t>() + write.at("io_bytes").get<std::uint64_t>();
  report.sample.seconds = std::max(at(read, "runtime"), at(write, "runtime")) / 1e3;
  report.sample.cpu_s = (at(job, "usr_cpu") + at(job, "sys_cpu")) / 100 * at(job, "job_runtime") / 1e3;
  if (report.sample.n_bytes == 0 || !(report.sample.seconds > 0)) return unreadable("it moved no byte");
  return report;
}

std::vector<std::string> depths(const IoCase& one, Pace pace) {
  const std::string depth = std::to_string(one.total_depth());
  const std::string batch = pace == Pace::in_batches ? depth : "1";
  return {"--iodepth=" + depth, "--iodepth_batch_submit=" + batch, "--iodepth_batch_complete_max=" + batch};
}

}  // namespace

std::vector<std::string> fio_arguments(const FioMode& mode, const FioFiles& files, const IoCase& one, double seconds) {
  std::vector<std::string> arguments = {
      "--name=castor",
      "--output-format=json",
      "--thread=1",
      "--filename=" + joined(files.paths),
      "--filesize=" + std::to_string(files.file_bytes),
      "--size=" + std::to_string(files.file_bytes * files.paths.size()),
      "--allow_file_create=0",
      "--overwrite=1",
      "--fallocate=none",
      "--invalidate=0",
      "--ioengine=" + mode.engine,
      flag("direct", mode.direct),
      "--bs=" + std::to_string(one.request_bytes()),
      "--rw=" + direction(one),
      "--rwmixread=50",
      "--randrepeat=0",
      "--norandommap=1",
      "--scramble_buffers=0",
      "--iomem_align=2m",
  };
  if (mode.engine == "io_uring") {
    arguments.push_back(flag("fixedbufs", mode.registered_memory));
    arguments.push_back("--registerfiles=1");
  }
  for (auto& argument : depths(one, mode.pace)) arguments.push_back(std::move(argument));
  if (seconds > 0) {
    arguments.push_back("--time_based=1");
    arguments.push_back("--runtime=" + std::to_string(std::llround(seconds * 1e3)) + "ms");
  }
  return arguments;
}

std::string fio_environment(const std::string& now) {
  return "GLIBC_TUNABLES=" + now + (now.empty() ? "" : ":") + "glibc.malloc.hugetlb=1";
}

Result<FioReport> parse_fio(const std::string& text) {
  const auto begin = text.find('{');
  if (begin == std::string::npos) return unreadable("there is no JSON in it");
  try {
    return read(json::parse(text.substr(begin)));
  } catch (const json::exception& e) {
    return unreadable(e.what());
  }
}

}  // namespace castor::bench
