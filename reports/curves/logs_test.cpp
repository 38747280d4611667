// Logs of trainers: a line of each, and lines that are drawn.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <random>

#include "reports/curves/curve.h"
#include "reports/curves/log_line.h"

namespace tidemark {
namespace {

using ::testing::ElementsAre;

std::string loss_of(const std::string& text) {
  const CurveFile file = parse_curves(text, "f");
  std::string out;
  for (const Curve* curve : select(file, "")) {
    out += (out.empty() ? "" : " ") + curve->name + ":";
    for (const CurvePoint& p : curve->points) out += fmt::format(" {}={}", p.step, p.value);
  }
  return out;
}

struct Trainer {
  const char *name, *loss, *line;  // {0}: a step; {1}: a loss
};

/// Each as its trainer prints it.
constexpr Trainer kTrainers[] = {
    {"torchtitan", "loss",
     "[rank0]:[titan] 2025-11-30 10:00:00,123 - root - INFO - \x1b[31mstep: {0:2}  \x1b[32mloss: "
     "{1:7.4f}  \x1b[38;2;180;60;0mgrad_norm:  1.2345  \x1b[36mmemory: 12.34GiB(15.6%)  tps: "
     "1,234"},
    {"torchtune", "loss", "Step {0} | loss:{1} lr:2e-05 tokens_per_second_per_gpu:1234.5"},
    {"Megatron-LM", "lm loss",
     " [2025-11-30 10:00:00.123456] iteration {0:8}/     300 | consumed samples:     48 | elapsed "
     "time per iteration (ms): 512.3 | learning rate: 1.0E-04 | global batch size:    16 | lm "
     "loss: {1:.6E} | loss scale: 1.0 | grad norm: 1.234 | number of nan iterations:   0 |"},
    {"NeMo", "reduced_train_loss",
     "Training epoch 0, iteration {0}/299 | lr: 1.499e-05 | global_batch_size: 8 | global_step: "
     "{0} | reduced_train_loss: {1} | train_step_timing in s: 1.234 | consumed_samples: 12"},
    {"nanotron", "lm_loss",
     "[INFO|DP=0|PP=0|TP=0]: iteration: {0} / 100 | consumed_tokens: 655K | lm_loss: {1} | lr: 3"},
    {"DeepSpeed", "loss", "steps: {0} loss: {1} iter time (s): 0.519 samples/sec: 123.2"},
    {"DeepSpeed-Chat", "loss", "Epoch: 0, Step: {0}, Rank: 0, loss = {1}"},
    {"nanoGPT", "loss", "iter {0}: loss {1}, time 32.10ms, mfu 11.20%"},
    {"modded-nanogpt", "train_loss", "step:{0}/1750 train_loss:{1} train_time:1234ms step_avg:1ms"},
    {"nanochat", "loss",
     "step {0:05}/21400 (0.05%) | loss: {1} | lrm: 1.00 | dt: 1234.56ms | tok/sec: 123,456"},
    {"llm.c", "loss",
     "step {0:4}/18865 | loss {1} (+nanz)| norm 5.1234 (+nanz)| lr 1.20e-05 | 312.45 ms | 45.1% "
     "bf16 MFU | 1234567 tok/s"},
    {"LitGPT", "loss train",
     "Epoch 1 | iter {0} step {0} | loss train: {1}, val: n/a | iter time: 123.45 ms (step)"},
    {"OLMo", "train/CrossEntropyLoss",
     "2025-11-30 10:00:00.123\tnode:0\ttrain.py:950\tINFO\t[step={0}/739328]\n    "
     "optim/total_grad_norm=1.2345\n    train/CrossEntropyLoss={1}\n    train/Perplexity=512.3"},
    {"Composer", "Train loss/train/total",
     "[batch={0}/300]:\n\t Train time/batch: 4\n\t Train loss/train/total: {1}\n\t Train "
     "metrics/train/Perplexity: 12.3"},
    {"MaxText", "loss",
     "completed step: {0}, seconds: 1.234, TFLOP/s/device: 120.1, total_weights: 8192, loss: {1}"},
    {"fairseq", "loss",
     "2025-11-30 10:00:00 | INFO | train_inner | epoch 001:    3 / 1000 loss={1}, ups=9.1, "
     "ppl=512.1, num_updates={0}, lr=1e-05, gnorm=1.2"},
    {"fairseq, as JSON", "loss",
     "2025-11-30 10:00:00 | INFO | train_inner | {{\"epoch\": 1, \"update\": 0.1, \"loss\": "
     "\"{1}\", \"ppl\": \"512.1\", \"num_updates\": \"{0}\", \"lr\": \"1e-05\"}}"},
    {"picotron", "Loss",
     "[rank 0] Step: {0:<5} | Loss: {1:6.4f} | Global batch size: 1.0M | Tokens/s: 123.4K"},
    {"verl", "actor/pg_loss",
     "step:{0} - global_seqlen/min:1234.000 - actor/pg_loss:{1} - actor/grad_norm:0.123"},
    {"MLX", "Train loss",
     "Iter {0}: Train loss {1}, Learning Rate 1.000e-05, It/sec 1.23, Peak mem 12.3 GB"},
    {"Colossal-AI", "loss", "[Epoch 0 / Step {0}] loss = {1}"},
    {"Accelerate's examples", "loss",
     "11/30/2025 10:00:00 - INFO - __main__ - Epoch 0, step {0}, loss {1}"},
    {"Ray Train", "loss",
     "(RayTrainWorker pid=123, ip=10.0.0.1) {{'loss': {1}, 'step': {0}, 'epoch': 0}}"},
    {"llama-recipes", "loss",
     "\rTraining Epoch: 1/3, step {0}/300 completed (loss: {1}): 10%|#  | {0}/300 [00:10<05:00]"},
    {"diffusers", "step_loss",
     "\rSteps:   1%|1         | {0}/300 [00:10<05:00,  1.20it/s, lr=1e-5, step_loss={1}]"},
    {"logfmt", "loss", "level=info ts=2025-11-30T10:00:00Z step={0} loss={1}"}};

TEST(Logs, OfEachTrainerAreRead) {
  for (const Trainer& trainer : kTrainers) {
    std::string text, truth = std::string(trainer.loss) + ":";
    for (int step = 3; step <= 9; step += 3) {
      const double loss = 8 - 0.25 * step;
      text +=
          "another line: 3 of them\n" + fmt::format(fmt::runtime(trainer.line), step, loss) + "\n";
      truth += fmt::format(" {}={}", step, loss);
    }
    EXPECT_EQ(loss_of(text), truth) << trainer.name;
  }
}

// Examples of PyTorch, Lightning's bar and Keras count anew in each epoch, beside its length.
TEST(Logs, StepsWithinEpochsFollowEachOther) {
  for (const char* line :
       {"Train Epoch: {0} [{1}/40 (50%)]\tLoss: {2}",
        "Epoch: [{0}][{1:5}/40]\tTime  0.123 ( 0.234)\tLoss {2:.4e} (7.0123e+00)\tAcc@1   0.00",
        "\rEpoch {0}:  50%|#####     | {1}/40 [00:10<00:10,  1.2it/s, v_num=0, train_loss={2}]",
        "Epoch {0}/9\n{1}/40 ---- 1s 2ms/step - accuracy: 0.9123 - loss: {2}"}) {
    std::string text;
    for (int epoch = 1; epoch <= 2; ++epoch)
      for (int step = 10; step <= 40; step += 15)
        text += fmt::format(fmt::runtime(line), epoch, step, epoch + 0.5) + "\n";
    EXPECT_THAT(loss_of(text), ::testing::EndsWith("oss: 50=1.5 65=1.5 80=1.5 90=2.5 105=2.5 "
                                                   "120=2.5"))
        << line;
    EXPECT_THAT(parse_curves(text, "f").notes,
                ElementsAre("has the steps of its progress bar, after those of its epochs"));
  }
}

TEST(Logs, StepsThatBeginAnewInEachEpochAreNumbered) {
  const std::string first = "Epoch 0, step 0, loss 4.5\nEpoch 0, step 9, loss 3.5\n";
  EXPECT_EQ(loss_of(first + "Epoch 1, step 0, loss 2.5\n"), "loss: 1=4.5 2=3.5 3=2.5");
  EXPECT_THAT(parse_curves(first + "Epoch 1, step 0, loss 2.5\n", "f").notes,
              ElementsAre("has steps that begin anew in each epoch: its lines with a loss are "
                          "numbered"));
  EXPECT_EQ(loss_of(first + "Epoch 1, step 10, loss 2.5\n"), "loss: 0=4.5 9=3.5 10=2.5");
  // A run that was resumed within an epoch.
  EXPECT_EQ(loss_of(first + "Epoch 0, step 5, loss 2.5\n"), "loss: 0=4.5 5=2.5 9=3.5");
}

// Lines of ranks arrive in any order: the lowest that logs a loss is read.
TEST(Logs, OfSeveralRanksOneIsRead) {
  std::mt19937 random(3);
  for (const char* label :
       {"[rank{}]:", "[default{}]:", "{}: ", " {}: ", "[rank {}] ", "[Rank: {}] "}) {
    std::string text;
    for (int step = 1; step <= 3; ++step) {
      std::array<int, 3> ranks{12, 3, 7};
      std::ranges::shuffle(ranks, random);
      for (const int rank : ranks)
        text += fmt::format(fmt::runtime(label), rank) +
                fmt::format("step: {}  loss: {}\n", step, rank + step / 4.0);
    }
    EXPECT_EQ(loss_of(text), "loss: 1=3.25 2=3.5 3=3.75") << label;
    EXPECT_THAT(parse_curves(text, "f").notes,
                ElementsAre("has lines of several ranks: those of rank 3 are read"));
  }
}

TEST(Logs, EpochsAreStepsWhereNothingElseIs) {
  EXPECT_EQ(loss_of("Epoch 1: loss = 2.5, acc = 0.5\nEpoch [2/9], loss: 1.5\n"),
            "loss: 1=2.5 2=1.5");
  EXPECT_EQ(loss_of("Epoch 1, step 1, loss: 2.5\nEpoch 1, step 2, loss: 1.5\nEpoch 1: loss = 2\n"),
            "loss: 1=2.5 2=1.5")
      << "the mean of an epoch is no step";
}

TEST(Logs, ALossIsOfTheStepThatWasNamedLast) {
  EXPECT_EQ(loss_of("step 10: saving\nloss: 4.5\nstep 20: saving\nloss: 3.5\n"),
            "loss: 10=4.5 20=3.5");
  EXPECT_EQ(loss_of("step 10: saving\nloss: 4.5\nloss: 3.5\n"), "loss: 10=4.5");
  EXPECT_THAT(parse_curves("step 10: saving\nloss: 4.5\nloss: 3.5\n", "f").notes,
              ElementsAre("has losses whose step nothing names, which are left out"));
  EXPECT_EQ(loss_of("total steps: 300\nstep 1 loss 2.5\ngradient accumulation steps: 8\n"
                    "step 2 loss 1.5\n"),
            "loss: 1=2.5 2=1.5");
}

TEST(Logs, WhatALineNames) {
  const auto named = [](const char* line) {
    std::string out;
    const LogLine read = log_line(line);
    for (const auto& [name, value] : read.fields) out += name + "=" + value + ";";
    return fmt::format("{}{}", read.step ? fmt::format("{}: ", *read.step) : "", out);
  };
  EXPECT_EQ(named("step 5 of 10: lm loss 2.5 norm 3"), "5: lm loss=2.5;norm=3;");
  EXPECT_EQ(named("step: 5 loss: nan lr: 1e-5 tps: 1,234 mfu: 5.1% mem: 3GiB"),
            "5: loss=nan;lr=1e-5;");
  EXPECT_EQ(named("number of nan iterations: 0 | step 3 loss inf"),
            "3: number of nan iterations=0;loss=inf;");
  EXPECT_EQ(named("a date 2025-11-30 10:00:00, 11/30/2025, and nothing else"), "");
  EXPECT_EQ(named("validate step: 10 loss: 9.5"), "10: validate loss=9.5;");
  EXPECT_EQ(named("step: 5 loss: high"), "5: loss=high;");
  EXPECT_EQ(named("criterion loss: mse"), "");
  EXPECT_EQ(named("Epoch [1/5], Step [20/600], Loss: 2.5"), "20: Loss=2.5;");
  EXPECT_EQ(named("===:::|||,,,{{{'''"), "");
}

/// Lines of every shape: signs, order, blanks, brackets and what stands between are drawn.
TEST(Logs, LinesThatAreDrawn) {
  std::mt19937 random(5);
  const auto any = [&](std::initializer_list<const char*> of) {
    return std::string(of.begin()[random() % of.size()]);
  };
  for (int i = 0; i < 400; ++i) {
    const std::string sign = any({": ", "=", " = ", ":", " ", ":   "}),
                      between = any({", ", " | ", "  ", "; ", "\t", " - "}),
                      step = any({"step", "Step", "iter", "iteration", "global_step", "it"}),
                      loss = any({"loss", "Loss", "train_loss", "lm loss", "train/loss"}),
                      before = any({"", "[rank0]: ", "2025-11-30 10:00:00,123 - INFO - ",
                                    "INFO:root:", "[2025-11-30 10:00:00] ", "(pid=12) "}),
                      of = any({"", "/900", " / 900", "/   900"}),
                      more = any({"lr", "grad norm", "elapsed (ms)", "tokens/s"});
    // Without sign or comma a value with a unit is a word of the next name.
    const bool last = sign == " " && between == "  ";
    std::string text, truth;
    for (int at = 7; at < 900; at += 300) {
      const std::string parts[] = {step + sign + std::to_string(at) + of,
                                   loss + sign + fmt::format("{}", at / 8.0), more + sign + "0.25",
                                   "mem" + sign + "3.5GiB"};
      text += before + parts[0];
      for (const int part : last || i % 2 ? std::array{1, 2, 3} : std::array{3, 2, 1})
        text += between + parts[part];
      text += "\n";
      truth += fmt::format(" {}={}", at, at / 8.0);
    }
    EXPECT_EQ(loss_of(text), loss + ":" + truth) << text;
  }
}

}  // namespace
}  // namespace tidemark
