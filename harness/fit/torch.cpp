#include "harness/fit/torch.h"

#include "harness/device/linked_device.h"
#include "harness/errors.h"
#include "harness/exec/program.h"

namespace tidemark {

std::string torch_of(const FitOptions& fit) try {
  const std::filesystem::path program = find_program(fit.program.front());
  const auto python = python_of(program);
  return libraries_for(python ? *python : find_program("python3"), linked_folder()).torch;
} catch (const UsageError& error) {
  const std::string what = error.what();
  throw UsageError("fit" + what.substr(what.find(':')));
}

}  // namespace tidemark
