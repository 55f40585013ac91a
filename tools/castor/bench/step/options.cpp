// SPDX-License-Identifier: Apache-2.0
#include "bench/step/options.h"

#include "bench/common/run_length.h"
#include "cli/option_values.h"

namespace castor::bench {

cli::CommandSyntax step_syntax() {
  namespace po = boost::program_options;
  cli::CommandSyntax syntax(
      "castor bench step --dir DIR[,DIR] [options]",
      "Measures optimizer steps of a model whose states are all on the drives under DIR: gradients arrive, states are\n"
      "read, updated and written back, and nothing else is computed. Alternates with the drives' own\n"
      "mixed rate, reads and writes in requests of the same size and number: fio, or a bare io_uring loop, in the few\n"
      "MiB that are on the drive at a time, and a bare loop in as much memory as --host-budget says.\n"
      "For figures to quote: --runs 7 --seconds 5 on a machine that does nothing else.");
  const auto text = [](const char* takes, const char* value) {
    return po::value<std::string>()->value_name(takes)->default_value(value);
  };
  syntax.options.add_options()                                                                                  //
      ("dir", po::value<std::string>()->value_name("DIR[,DIR]"), "one folder per drive, as --nvme of train")    //
      ("model", text("NAME", "gpt2-124m"), "the model, with bf16 weights; names as in castor estimate --help")  //
      ("host-budget", text("SIZE", "512MiB"), "host memory for states, gradients and weights in transfer")      //
      ("set", po::value<std::vector<std::string>>()->value_name("name=value"), "an option of plugin gemini")    //
      ("runs", text("N", "3"), "rounds; the median counts")                                                     //
      ("seconds", text("S", "1"), "length of one run, to the next whole step")                                  //
      ("trace", po::value<std::string>()->value_name("FILE"),
       "write the steps, for castor memprof FILE")  //
      ("fio", text("PROGRAM|off", "fio"), "the ceiling; off = a bare io_uring loop");
  return syntax;
}

Result<StepBenchOptions> read_step_options(const cli::Values& values) {
  StepBenchOptions options;
  CASTOR_ASSIGN(options.folders, cli::folders_of(values, "dir"));
  if (options.folders.empty())
    return Error{ErrorKind::usage, "--dir is missing; name a folder on each drive, for example --dir /nvme0"};
  options.model = values["model"].as<std::string>();
  CASTOR_ASSIGN(const auto host_bytes, cli::bytes_of(values, "host-budget"));
  options.host_budget_bytes = *host_bytes;
  CASTOR_TRY(read_run_length(values, options.runs, options.seconds));
  options.trace = cli::text_of(values, "trace");
  options.fio = values["fio"].as<std::string>();
  CASTOR_TRY(cli::read_set(values, options.set));
  return options;
}

}  // namespace castor::bench
