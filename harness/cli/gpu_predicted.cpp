// tidemark gpu predicted VIRTUAL GPU
#include <fmt/format.h>

#include <memory>

#include "harness/cli/files.h"
#include "harness/record/json.h"
#include "reports/predicted/predicted.h"

namespace tidemark {
namespace {

struct PredictedArguments {
  std::string predicted, measured;
  Output output;
};

int run_predicted(const PredictedArguments& arguments) {
  arguments.output.check();
  const Report predicted = read_report(arguments.predicted),
               measured = read_report(arguments.measured);
  const Prediction prediction = predict(predicted, measured);
  arguments.output.deliver((arguments.output.format == "json" ? prediction_json : prediction_text)(
                               prediction, predicted, measured),
                           prediction_summary(prediction));
  if (prediction.exit_code() == 4)
    fmt::print(stderr,
               "error: nothing to compare: no step time of a GPU (run --schedule device) in {} has "
               "its prediction (run --schedule calibrated) in {} (same scenario, size, ranks, "
               "mode, steps, seed and parameters)\n",
               arguments.measured, arguments.predicted);
  return prediction.exit_code();
}

}  // namespace

void add_predicted(CLI::App& gpu, Act& act) {
  auto* command = gpu.add_subcommand(
      "predicted",
      "compare step times of the virtual device with those of a GPU: the error of a profile");
  auto arguments = std::make_shared<PredictedArguments>();
  command
      ->add_option("virtual", arguments->predicted,
                   "a run with --gpu PROFILE --schedule calibrated: report.json or its folder")
      ->required();
  command
      ->add_option("gpu", arguments->measured,
                   "a run on the GPU with --schedule device --repetitions N")
      ->required();
  arguments->output.add(command, {"text", "json"});
  command->footer("exit codes: 0 compared, 2 usage or bad input, 4 nothing was compared");
  command->callback([arguments, &act] { act = [arguments] { return run_predicted(*arguments); }; });
}

}  // namespace tidemark
