#include "reports/fit/samples.h"

#include <algorithm>
#include <string>
#include <vector>

#include "harness/record/fit_fields.h"
#include "harness/record/json_writer.h"
#include "reports/fit/page.h"
#include "reports/write.h"

namespace tidemark {
namespace {

constexpr Bytes kMiB = 1 << 20;

FitGpu gpu(const std::string& name, Bytes total) {
  FitGpu out;
  out.name = name, out.total = total, out.context = 512 * kMiB;
  out.total_source = out.context_source = out.nccl_source = "made up";
  return out;
}

/// 900 MiB and, for each of the batch, `each`; a fifth of that is the loss's.
FitRun run_of(const FitValues& values, const std::string& profile, Bytes each) {
  FitRun run;
  run.values = values, run.gpu = profile, run.room = true, run.capacity = Bytes{1} << 40;
  const Bytes batch = std::stoll(values.at("batch"));
  run.allocated = run.active = 900 * kMiB + batch * each - 12;
  run.reserved = run.allocated + 12 + 20 * kMiB;
  run.worst = "the process", run.steady = run.stepped = true;
  run.step_ns = 2'000'000 * batch, run.tokens = 1024 * batch, run.seconds = 5;
  run.alive = AliveAtPeak{"process 1", run.active, run.reserved, {}};
  run.alive->parts = {
      {MemoryKind::parameters, "model", "train.py:10", 3, 300 * kMiB},
      {MemoryKind::optimizer_state, "model", "train.py:20", 6, 600 * kMiB},
      {MemoryKind::activations, "layers.*", "forward train.py:14", 24, batch * each / 5 * 4 - 12},
      {MemoryKind::backward, "", "cross entropy train.py:22", 2,
       batch * each - batch * each / 5 * 4}};
  return run;
}

FitAnswer answer_of(const FitRecord& record, const FitValues& listed, const FitGpu& gpu) {
  FitAnswer out;
  out.values = listed, out.gpu = gpu.name, out.room = record.gpus.front().name;
  out.capacity = gpu.capacity(false);
  for (const FitRun& run : record.runs) {
    const bool same = std::ranges::all_of(
        listed, [&](const auto& one) { return run.values.at(one.first) == one.second; });
    if (!same || run.exit_code != 0) continue;
    if (run.reserved <= out.capacity) {
      out.verdict = "fits", out.run = run, out.largest = run.values.at("batch");
      continue;
    }
    out.next = run.values.at("batch"), out.missing = run.reserved - out.capacity;
    out.because = "activations, forward train.py:14";
    if (!out.run) out.verdict = "does not fit", out.run = run;
    break;
  }
  return out;
}

FitRecord record_of(std::vector<FitGpu> gpus, std::vector<FitVariable> variables, Bytes each) {
  FitRecord record;
  record.program = {"python3", "train.py", "--batch", "{batch}"};
  record.gpus = std::move(gpus), record.variables = std::move(variables);
  const FitVariable& batches = record.variables.back();
  std::vector<FitValues> lists{{}};
  if (record.variables.size() == 2) {
    lists.clear();
    for (const std::string& value : record.variables[0].values)
      lists.push_back({{record.variables[0].name, value}});
  }
  for (std::size_t at = 0; at < lists.size(); ++at)
    for (const std::string& batch : batches.values) {
      FitValues values = lists[at];
      values["batch"] = batch;
      record.runs.push_back(
          run_of(values, record.gpus.front().name, each / static_cast<Bytes>(at + 1)));
    }
  for (const FitValues& listed : lists)
    for (const FitGpu& one : record.gpus) record.answers.push_back(answer_of(record, listed, one));
  record.notes = {"8 runs here, 0 from the cache."};
  return record;
}

void write_fit(const std::filesystem::path& folder, const FitRecord& record) {
  write_files(folder,
              {{"fit.json", json_text(json_of(record))}, {"report.html", fit_page(record)}});
}

FitVariable batches(std::vector<std::string> values) { return {"batch", true, std::move(values)}; }

Advice advice_of(const FitRecord& record) {
  Advice out;
  const FitAnswer& nearest = record.answers.front();
  out.values = nearest.run->values, out.gpu = nearest.gpu, out.capacity = nearest.capacity;
  out.run = *nearest.run, out.fits = "no";
  AdviceRow ran{"recompute all repeated modules",
                "exact",
                "saves",
                "the same",
                "yes",
                "",
                400 * kMiB,
                390 * kMiB,
                out.run};
  ran.run->reserved -= 400 * kMiB, ran.run->step_ns += ran.run->step_ns / 4;
  AdviceRow stops{"bf16 autocast",
                  "exact",
                  "does not run",
                  "of less precision",
                  "",
                  "RuntimeError: expected Float",
                  0,
                  0,
                  out.run};
  AdviceRow none{"zero_grad(set_to_none=True)",
                 "exact",
                 "nothing to change",
                 "the same",
                 "no",
                 "",
                 0,
                 0,
                 out.run};
  AdviceRow computed{"optimizer states of 8 bits",
                     "computed",
                     "saves",
                     "of less precision",
                     "",
                     "157,286,400 elements of 32 bits",
                     0,
                     440 * kMiB,
                     {}};
  out.rows = {ran, stops, none, computed};
  return out;
}

}  // namespace

void write_fits(const std::filesystem::path& folder) {
  const FitGpu small = gpu("t4-16g", 15'000 * kMiB), middle = gpu("l4-24g", 22'000 * kMiB),
               large = gpu("h100-80g", 81'000 * kMiB);
  write_fit(folder / "fit_one",
            record_of({small, middle, large}, {batches({"1", "9", "10", "14", "15", "55", "64"})},
                      1400 * kMiB));
  write_fit(folder / "fit_two", record_of({small, large},
                                          {{"recompute", false, {"none", "half", "full"}},
                                           batches({"1", "8", "16", "32", "64"})},
                                          1400 * kMiB));
  FitRecord none = record_of({gpu("t4-16g", 1'500 * kMiB)}, {batches({"1", "2", "4"})}, 300 * kMiB);
  none.advice = advice_of(none);
  write_fit(folder / "fit_none", none);
  FitRecord refused = record_of(
      {small}, {{"<img src=x>", false, {"</script>", "b"}}, batches({"1", "2", "3"})}, 1400 * kMiB);
  for (FitRun& run : refused.runs)
    if (run.values.at("batch") == "3")
      run.exit_code = 1, run.alive.reset(), run.last = "ValueError: 3 is odd";
  refused.answers.pop_back();
  refused.answers.push_back({.values = {{"<img src=x>", "b"}},
                             .gpu = "t4-16g",
                             .room = "t4-16g",
                             .verdict = "refused by the program",
                             .why = "ValueError: 3 is odd"});
  refused.notes.push_back("Refused by the program: batch 3: ValueError: 3 is odd");
  write_fit(folder / "fit_refused", refused);
}

}  // namespace tidemark
