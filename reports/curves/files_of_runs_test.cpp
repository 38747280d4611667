// Files as runs leave them: resumed, cut short, packed, in folders, still being written.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "harness/record/gzip.h"
#include "harness/testing/refusal.h"
#include "reports/curves/curve.h"
#include "reports/curves/testing/events_file.h"
#include "reports/testing/sample.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string shown(const Curve& curve) {
  std::string out = curve.name + ":";
  for (const CurvePoint& p : curve.points) out += fmt::format(" {}={}", p.step, p.value);
  return out;
}
std::string loss_of(const CurveFile& file) { return shown(*select(file, "").at(0)); }
std::string loss_of(const std::string& text) { return loss_of(parse_curves(text, "f")); }

TEST(FilesOfRuns, LogsBetweenOtherLines) {
  EXPECT_EQ(loss_of("step 0: train loss 4.25, val loss 4.5\niter 0: loss 4.25, time 9ms\n"
                    "saving checkpoint\niter 10: loss 3.5, time 9ms, mfu -100.00%\n"),
            "loss: 0=4.25 10=3.5");
  EXPECT_EQ(loss_of("  0%|  | 0/30 [00:00<?]{'loss': 4.25, 'learning_rate': 5e-05, 'epoch': 0.1}\n"
                    "{'eval_loss': 9.0, 'epoch': 0.1}\n{'loss': '3.5', 'epoch': 0.2}\n"
                    "{'train_runtime': 9.1, 'train_loss': 3.9, 'epoch': 0.2}\n"),
            "loss: 1=4.25 2=3.5");
  EXPECT_THAT(parse_curves("{'loss': 4.25}\n{'loss': nan}\n", "f").notes,
              ElementsAre("has no steps: its lines with a loss are numbered"));
  EXPECT_EQ(loss_of("Epoch 1 Step 1, Loss: 4.25\nEpoch 1 Step 2, Loss: 3.5\n"),
            "Loss: 1=4.25 2=3.5");
}

/// A bar of tqdm, as it draws itself.
std::string bar(int step, int of) {
  return fmt::format("\r{:3}%|{:10}| {}/{} [00:01<00:07, 14.20it/s]", 100 * step / of, "", step,
                     of);
}

/// Logs of Hugging Face's Trainer: it draws its bar between steps when it likes, and anew behind
/// each line; an evaluation has a bar of its own, two lines lower.
TEST(FilesOfRuns, StepsOfAProgressBar) {
  std::mt19937 random(11);
  for (int i = 0; i < 60; ++i) {
    const int every = 1 + static_cast<int>(random() % 20), steps = every * (2 + i % 7);
    const int first = i % 3 == 0 ? static_cast<int>(random() % 50) : 0;  // of a run that goes on
    std::string text = bar(0, 300) + bar(first, first + steps), truth = "loss:";
    for (int step = first + 1; step <= first + steps; ++step) {
      if (random() % 3 == 0) text += bar(step, first + steps);
      if ((step - first) % every == 0) {
        text += "\r               \r" + fmt::format("{{'loss': '{}.5', 'epoch': '0.1'}}\n", step);
        text += bar(step, first + steps);
        truth += fmt::format(" {}={}.5", step, step);
      }
      if (random() % 9 == 0)
        text += "\n" + bar(0, 2) +
                "\x1b[A\r    \r\n   \r\x1b[A{'eval_loss': '0.9', 'epoch': '1'}\n" +
                bar(step, first + steps) + "\n" + bar(2, 2) + "\x1b[A\n   \x1b[A\r";
    }
    const CurveFile file = parse_curves(text, "f");
    EXPECT_EQ(loss_of(file), truth) << i;
    EXPECT_THAT(file.notes, ElementsAre("has the steps of its progress bar"));
    // Where bars went to another file than lines, or lines waited in a buffer, they are numbered.
    std::string apart, lines;
    for (std::size_t at = 0; (at = text.find("{'loss", at)) != std::string::npos; ++at)
      lines += text.substr(at, text.find('\n', at) + 1 - at);
    for (const std::string& one :
         {lines, text.substr(0, text.find('{')) + lines + bar(steps, steps)})
      EXPECT_THAT(parse_curves(one, "f").notes,
                  ElementsAre("has no steps: its lines with a loss are numbered"));
  }
  const std::string two = "{'loss': 4.5}\n" + bar(10, 30) + "\r   \r{'loss': 3.5}\n";
  EXPECT_EQ(loss_of(two), "loss: 10=4.5");
  EXPECT_THAT(parse_curves(two, "f").notes[1], HasSubstr("line 2 is the last with a loss"));
  EXPECT_EQ(loss_of(two + bar(10, 30)), "loss: 1=4.5 2=3.5") << "two lines have one step";
}

TEST(FilesOfRuns, OfAStepThatComesTwiceTheLastCounts) {
  std::mt19937 random(7);
  for (int i = 0; i < 50; ++i) {
    const int cut = 2 + static_cast<int>(random() % 50), back = static_cast<int>(random() % 20);
    const int again = std::max(cut - back, 0), end = again + 1 + static_cast<int>(random() % 60);
    std::string text, csv = "step,loss\n";
    const auto add = [&](int from, int to, double value) {
      for (int step = from; step < to; ++step) {
        text += fmt::format("{{\"step\": {}, \"loss\": {}}}\n", step, value);
        csv += fmt::format("{},{}\n", step, value);
      }
    };
    add(0, cut, 1), add(again, end, 2);
    for (const std::string& one : {text, csv}) {
      const CurveFile file = parse_curves(one, "f");
      const Curve& curve = file.curves.at(0);
      ASSERT_EQ(curve.points.size(), static_cast<std::size_t>(std::max(cut, end)));
      for (const CurvePoint& p : curve.points)
        EXPECT_EQ(p.value, p.step >= again && p.step < end ? 2 : 1);
      EXPECT_EQ(curve.twice.size(), static_cast<std::size_t>(std::min(cut, end) - again));
      EXPECT_EQ(curve.falls, again < cut - 1);
    }
  }
}

TEST(FilesOfRuns, StepsThatFallAreSorted) {
  const CurveFile file = parse_curves("3 1\n2 2\n1 3\n", "f");
  EXPECT_EQ(loss_of(file), "loss: 1=3 2=2 3=1");
  EXPECT_TRUE(file.curves[0].falls);
  EXPECT_THAT(file.curves[0].twice, IsEmpty());
}

/// Every length of a text: what has ended is read.
TEST(FilesOfRuns, ACutEndIsLeftOut) {
  std::string text;
  for (int i = 0; i < 4; ++i) text += fmt::format("{{\"step\": {}, \"loss\": 1.5}}\n", i);
  const std::size_t line = text.size() / 4;
  for (std::size_t size = line + 1; size < text.size(); ++size) {
    const CurveFile file = parse_curves(text.substr(0, size), "f", "jsonl");
    EXPECT_EQ(file.curves[0].points.size(), (size + 1) / line) << size;
    const bool whole = size % line == 0 || size % line == line - 1;
    EXPECT_EQ(file.notes.size(), whole ? 0u : 1u) << size;
    if (!whole) EXPECT_THAT(file.notes[0], HasSubstr("is cut short and left out"));
  }
  EXPECT_THAT(refusal([&] { parse_curves(text.substr(0, 30) + "\n{}\n" + text, "f", "jsonl"); }),
              HasSubstr("line 2: not JSON"));
  EXPECT_EQ(loss_of("step,loss,lr\n0,1,2\n1,2"), "loss: 0=1");
  EXPECT_EQ(loss_of("step: 1  loss: 2.5  lr: 1\nstep: 2  lo"), "loss: 1=2.5");
}

TEST(FilesOfRuns, EventsThatAreCutAnywhere) {
  const std::string file = events_file();
  const CurveFile all = parse_curves(file, "f");
  std::size_t read = 0;
  for (std::size_t size = 150; size < file.size(); ++size) {
    const CurveFile cut = parse_curves(file.substr(0, size), "f");
    std::size_t points = 0;
    for (const Curve& curve : cut.curves) points += curve.points.size();
    EXPECT_GE(points, read);
    read = points;
  }
  EXPECT_EQ(read, 3u) << "of four points the last is missing";
  EXPECT_THAT(parse_curves(file.substr(0, file.size() - 5), "f").notes,
              ElementsAre("event 3 is cut short and left out"));
}

TEST(FilesOfRuns, NothingIsNoNumber) {
  const CurveFile file =
      parse_curves("{\"step\":1,\"loss\":2.0}\n{\"step\":2,\"loss\":null}\n", "f");
  EXPECT_EQ(loss_of(file), "loss: 1=2");
  EXPECT_THAT(file.notes, ElementsAre("1 value of a loss without a number, which is left out"));
  EXPECT_EQ(loss_of("step,loss\n0,1\n1,None\n2,\n3,4\n"), "loss: 0=1 3=4");
  EXPECT_EQ(loss_of("step: 0  loss: 1\nstep: 1  loss: None\n"), "loss: 0=1");
}

TEST(FilesOfRuns, TheAxisThatIsMeant) {
  EXPECT_EQ(loss_of("\"trainer/global_step\",\"a - loss\",\"a - loss__MIN\",\"a - _step\"\n"
                    "\"10\",\"2.0\",\"2.0\",\"3\"\n\"20\",\"1.5\",\"1.5\",\"4\"\n"),
            "a - loss: 10=2 20=1.5");
  EXPECT_EQ(loss_of("_step,trainer/global_step,train_loss_step,epoch\n0,9,2,0\n1,19,1,0\n2,,,1\n"),
            "train_loss_step: 9=2 19=1");
  EXPECT_EQ(loss_of("epoch,step,train_loss,val_loss\n0,0,2,\n0,1,1.5,\n0,1,,3\n1,2,1,\n"),
            "train_loss: 0=2 1=1.5 2=1");
}

TEST(FilesOfRuns, TwoLossesInALine) {
  for (const char* text : {"step: 1  loss: 2 step: 2  loss: 1\n", "step 1 loss 2 loss 3\n",
                           "step,loss,loss\n1,2,3\n", "{\"step\": 1, \"loss\": 2, \"loss\": 3}\n"})
    EXPECT_THAT(refusal([&] { parse_curves(text, "f"); }), HasSubstr("'loss' twice")) << text;
}

class Folders : public ::testing::Test {
 protected:
  void put(const std::string& name, const std::string& bytes) {
    const fs::path file = folder_ / name;
    fs::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << bytes;
  }
  ScratchFolder folder_;
};

TEST_F(Folders, FilesOfARun) {
  put("packed.jsonl.gz", gzip("{\"step\": 1, \"loss\": 2}\n{\"step\": 2, \"loss\": 1}\n"));
  EXPECT_EQ(loss_of(read_curves(folder_ / "packed.jsonl.gz")), "loss: 1=2 2=1");
  put("cut.gz", gzip("step loss\n0 1\n").substr(0, 20));
  EXPECT_THAT(refusal([&] { read_curves(folder_ / "cut.gz"); }),
              HasSubstr("is cut short, or is no"));

  put("tb/events.out.tfevents.1.host.1", events_file());
  put("tb/events.out.tfevents.2.host.1", "");
  put("tb/hparams.yaml", "lr: 1\n");
  EXPECT_EQ(loss_of(read_curves(folder_ / "tb")), "Loss/train: 3=2.5 4=0.10000000149011612");
  put("tb/events.out.tfevents.3.host.1", events_file());
  const CurveFile twice = read_curves(folder_ / "tb");
  EXPECT_THAT(select(twice, "").at(0)->twice, ElementsAre(3, 4));
  EXPECT_EQ(twice.path, folder_ / "tb");

  put("lightning/metrics.csv", "epoch,step,train_loss\n0,1,2\n");
  EXPECT_EQ(loss_of(read_curves(folder_ / "lightning")), "train_loss: 1=2");
  put("hf/trainer_state.json",
      R"({"log_history": [{"loss": 2, "step": 5, "epoch": 0.1}, {"eval_loss": 1, "step": 5}]})");
  EXPECT_EQ(loss_of(read_curves(folder_ / "hf")), "loss: 5=2");
  fs::create_directory(folder_ / "empty");
  EXPECT_THAT(refusal([&] { read_curves(folder_ / "empty"); }), HasSubstr("is a folder without"));
}

/// A file grows line by line, in pieces that end anywhere, while it is read again and again.
TEST_F(Folders, AFileThatGrows) {
  const std::string file = folder_ / "grows.csv";
  std::ofstream out(file, std::ios::binary);
  out << "step,loss\n0,1.25\n" << std::flush;
  constexpr int kSteps = 2000;
  std::atomic<bool> ended = false;
  std::thread writer([&] {
    for (int step = 1; step < kSteps; ++step)
      out << step << ",1." << std::flush << "25\n" << std::flush;
    ended = true;
  });
  std::size_t before = 0;
  for (bool last = false; !last;) {
    last = ended;
    const CurveFile read = read_curves(file);
    const auto& points = read.curves.at(0).points;
    EXPECT_GE(points.size(), before);
    before = points.size();
    for (std::size_t at = 0; at < points.size(); ++at)
      ASSERT_EQ(points[at].step, static_cast<std::int64_t>(at));
  }
  writer.join();
  EXPECT_EQ(before, kSteps);
}

}  // namespace
}  // namespace tidemark
