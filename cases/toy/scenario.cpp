// A training script normalizes its batch into a new tensor, and its variable keeps the raw batch
// until the end of the step. Needless: nothing reads the raw batch again. Its own example, seen
// nowhere: the smallest scenario that has everything, to be copied (docs/new-scenario.md).
#include "harness/scenario.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "cases/device_facts.h"
#include "cases/numbers.h"
#include "harness/judge/counts.h"
#include "harness/judge/form.h"
#include "harness/measure/recorder.h"
#include "harness/parallel/adam.h"
#include "harness/parallel/communicator.h"
#include "reference/training.h"

namespace tidemark {
namespace toy {

// The variants, each with the one thing that distinguishes it.
enum class Batch { copied, in_place, copy_in_place };

const VariantTable<Batch>& variants() {
  static const VariantTable<Batch> all{{
      {{"copy", Role::baseline, "normalizes the batch into a new tensor"}, Batch::copied},
      {{"in_place", Role::fixed, "normalizes the batch in place"}, Batch::in_place},
      {{"of_a_copy", Role::control, "normalizes a copy of the batch in place", "memory/"},
       Batch::copy_in_place},
  }};
  return all;
}

namespace {

constexpr double kRate = 5e-3;
std::string batch_name(int step) { return "batch." + std::to_string(step); }
double root(const Trial& trial) { return std::sqrt(static_cast<double>(trial["n"])); }

// The program: one step of training, the same one for all variants.
class Training final : public Program {
 public:
  Training(const Trial& trial, Batch batch, const World& world)
      : trial_(trial), batch_(batch), communicator_(world) {
    model_.add(trial, "w", {1, trial["n"]});
    const CategoryScope category(MemoryKind::persistent_buffers);
    wanted_ = at::zeros({trial["rows"], 1}, model_.values[0].options().requires_grad(false));
  }

  void step(int index, Recorder& recorder) override {
    recorder.phase("forward");
    at::Tensor raw = batch(trial_, batch_name(index), {trial_["rows"], trial_["n"]},
                           communicator_.rank(), at::kFloat);
    at::Tensor x = raw;
    if (batch_ != Batch::in_place) recorder.call("copy", "batch");
    {
      const CategoryScope category(MemoryKind::activations);
      if (batch_ == Batch::copied) x = raw / root(trial_);
      if (batch_ == Batch::copy_in_place) x = raw.clone();
      if (batch_ != Batch::copied) x.div_(root(trial_));
    }
    at::Tensor y, loss;
    {
      const CategoryScope category(MemoryKind::outputs);
      y = at::linear(x, model_.values[0]);
      loss = mean_square_error(y, wanted_);
    }
    recorder.moment("after forward");

    recorder.phase("backward");
    {
      const CategoryScope category(MemoryKind::gradients);
      torch::autograd::backward({loss}, {});
    }
    at::Tensor& gradient = model_.values[0].mutable_grad();
    communicator_.all_reduce(gradient, Reduction::average, {});
    communicator_.all_reduce(loss.detach(), Reduction::average, {});
    recorder.loss(loss);
    recorder.gradients(model_.named(model_.gradients()));

    recorder.phase("optimizer");
    adam_.step(model_.values, model_.gradients());
    gradient.reset();
    recorder.collectives(communicator_.calls(), communicator_.bytes());
  }

  std::vector<Shard> parameters() override { return model_.named(model_.values); }

 private:
  const Trial& trial_;
  const Batch batch_;
  Communicator communicator_;
  Parameters model_;
  at::Tensor wanted_;  // answers: zero
  Adam adam_{{.rate = kRate}};
};

// The forms: what is alive at the highest moment of each phase, derived on paper. The fix has one
// tensor x as large as the batch, and the baseline two.
//   forward    the output y and its distance from the answer (2*y), the loss
//   backward   that and the loss's gradient, and the gradient of w
//   optimizer  the output, the loss, the gradient of w, Adam's temporary, which is as large
std::vector<Expectation> forms(const Trial& trial, const Variant& variant, int /*rank*/) {
  const Bytes w = 4 * trial["n"], y = 4 * trial["rows"], x = y * trial["n"];
  const Bytes workspace = current_device_facts().workspace_bytes;
  Vocabulary paper;  // has to be told of every tensor once, those of `rest` included
  paper.tensors("x", {x});
  paper.tensors("y", {y});
  paper.tensors("loss", {4});
  paper.tensors("w", {w});
  paper.tensors("rest", {w, w, w, y, workspace, workspace});
  // A control has the form of the fix that it claims to be.
  const std::string base = variant.role == Role::baseline ? "rest + 2*x" : "rest + x";
  const FormMoment forward{"the loss", base + " + 2*y + loss"};
  std::vector<Expectation> all;
  append(all, paper.forms("forward", false, kOnPaper, {forward}));
  append(all, paper.forms("backward", false, kOnPaper,
                          {{"the gradient of w", base + " + 2*y + 2*loss + w"}}));
  append(all, paper.forms("optimizer", false, kOnPaper,
                          {{"Adam's temporary", base + " + y + loss + 2*w"}}));
  append(all,
         paper.forms_at("after forward", {Statistic::requested, Statistic::allocated}, forward));
  return all;
}

std::vector<Symbol> symbols() {
  using enum MemoryKind;
  return {{"rest",
           "what stays between steps: w, Adam's two moments, the answers, two cuBLAS workspaces",
           {parameters, optimizer_state, persistent_buffers, workspaces}},
          {"x", "one batch of this rank", {inputs, activations}},
          {"y", "outputs of this rank", {outputs}},
          {"loss", "the loss, or its gradient", {outputs, gradients}},
          {"w", "as large as w: its gradient, and Adam's temporary", {gradients}}};
}

// The verdicts of its own: a step copies its batch once, or never.
std::vector<Verdict> inspect(const Trial&, const Variant& variant, const RankRecord& record) {
  return {counted("order/copies", variants()[variant.name] == Batch::in_place ? 0 : 1,
                  std::ssize(record.steps.back().calls), "calls", "copies of the batch")};
}

// The reference: the same training in double precision, on the batches of all ranks.
reference::Trained train(const Trial& trial, reference::Noise noise) {
  const auto rows = trial["rows"] * trial.ranks;
  const auto pass = [&](const reference::Leaves& w, int step) {
    const auto raw = reference::initial(trial.seed, batch_name(step), rows * trial["n"]).values;
    const auto x = noise.rounded(raw.view({rows, trial["n"]}) / root(trial));
    const auto y = reference::product(noise, x, w[0]);
    const auto loss = noise.rounded(y.square().mean(), static_cast<double>(rows));
    loss.backward();
    return loss.item<double>();
  };
  return reference::train_with_adam({reference::initial(trial.seed, "w", trial["n"])}, trial.steps,
                                    {.rate = kRate}, pass, noise);
}

}  // namespace
}  // namespace toy

Scenario toy_scenario() {
  using namespace toy;
  Scenario s;
  s.name = "toy";
  s.title = "the raw batch kept beside the normalized one";
  s.kept = "by a variable of the training script";
  s.seen = {own("a batch that is normalized into a new tensor")};
  s.story =
      "A training script normalizes its batch into a new tensor, and keeps the raw batch in a "
      "variable until the end of the step. Nothing reads the raw batch again, so the memory of one "
      "batch is wasted at every peak.";
  s.symbols = symbols();
  s.parameters = {{"n", "elements of a row, and of the parameter w", 1, 1 << 15, true},
                  {"rows", "rows of one rank's batch", 1, 1 << 12}};
  s.sizes = {{"smoke", {{"n", 48}, {"rows", 64}}, {Mode::math, Mode::shapes}},
             {"seed", {{"n", 1 << 15}, {"rows", 1 << 12}}, {Mode::shapes}}};
  variants().put_into(s, [](const Trial& trial, Batch batch, const World& world) {
    return std::make_unique<Training>(trial, batch, world);
  });
  s.forms = forms;
  s.inspect = inspect;
  s.reference = [](const Trial& trial) {
    return oracle_of(train(trial, {}), precision_of(trial, 4, 4),
                     [&](reference::Noise noise) { return train(trial, std::move(noise)); });
  };
  return s;
}

}  // namespace tidemark
