#include "harness/fit/fit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <set>

#include "harness/exec/describe.h"
#include "harness/fit/advise.h"
#include "harness/fit/options.h"
#include "harness/fit/question.h"
#include "harness/fit/runs.h"
#include "harness/fit/torch.h"
#include "harness/fit/written.h"
#include "harness/print.h"
#include "harness/record/fit_fields.h"
#include "harness/record/json_writer.h"
#include "harness/record/units.h"
#include "reports/fit/page.h"
#include "reports/fit/text.h"
#include "reports/write.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

const FitVariable* searched_of(const FitOptions& fit) {
  for (const Variable& each : fit.variables)
    if (each.values.searched) return &each.values;
  return nullptr;
}

std::vector<Question> questions_of(const FitOptions& fit) {
  std::vector<Question> out;
  for (const FitValues& listed : combinations(fit.variables))
    for (const Gpu& gpu : fit.gpus) {
      const auto first = std::ranges::find(fit.gpus, gpu.chip, &Gpu::chip);
      out.emplace_back(listed, gpu, first->memory.name, searched_of(fit));
    }
  const std::size_t gpus = fit.gpus.size();
  for (std::size_t i = 0; i < out.size(); ++i)
    if (const Question& first = out[i - i % gpus]; out[i].room() != first.room())
      out[i].follow(first);
  return out;
}

/// Runs that the questions want, each once: several GPUs may want the same ones.
std::vector<Wanted> wanted_by(const std::vector<Question>& questions, const Store& store) {
  std::vector<Wanted> all;
  for (const Question& question : questions)
    for (const Wanted& one : question.next(store))
      if (std::ranges::find(all, one) == all.end()) all.push_back(one);
  return all;
}

/// One answer of each GPU runs at its size, and what that shows holds for the program.
std::vector<Wanted> checks(std::vector<Question>& questions, const Store& store) {
  std::vector<Wanted> all;
  std::set<std::string> checked;
  for (Question& question : questions) {
    if (!question.fits(store) || !checked.insert(question.gpu()).second) continue;
    for (const Wanted& one : question.check(store)) all.push_back(one);
    if (!question.adapts()) continue;
    for (Question& other : questions)
      if (other.gpu() == question.gpu()) other.adapt();
  }
  return all;
}

std::vector<Wanted> wanted_now(std::vector<Question>& questions, const Store& store) {
  std::vector<Wanted> all = wanted_by(questions, store);
  if (all.empty()) all = checks(questions, store);
  return all.empty() ? wanted_by(questions, store) : all;
}

/// "Not known: batch 3: a run was ended by signal 9 (Killed), ...".
std::vector<std::string> kills(const Store& store) {
  std::map<std::string, std::set<std::string>> by_line;
  for (const FitRun& run : store.all())
    if (run.killed) by_line[run.unknown].insert(values_text(run.values));
  std::vector<std::string> out;
  for (const auto& [line, values] : by_line)
    out.push_back(fmt::format("Not known: {}: {}; the same command tries it again",
                              fmt::join(values, "; "), line));
  return out;
}

/// "recompute full, batch 1 to 216; recompute none, batch 3": of the values that ran, those in
/// `chosen`, with the ones in a row as a range.
std::string chosen_text(const std::vector<FitRun>& all, const std::set<std::string>& chosen,
                        const FitVariable* searched) {
  std::vector<std::string> out;
  if (searched == nullptr) return fmt::format("{}", fmt::join(chosen, "; "));
  std::map<std::string, std::map<std::int64_t, bool>> rows;  // by the listed values, by place
  for (const FitRun& run : all) {
    FitValues listed = run.values;
    const std::string value = listed.at(searched->name);
    listed.erase(searched->name);
    const auto place = std::ranges::find(searched->values, value) - searched->values.begin();
    rows[values_text(listed)][place] |= chosen.contains(values_text(run.values));
  }
  for (const auto& [listed, places] : rows) {
    std::vector<std::string> ranges;
    for (auto at = places.begin(); at != places.end(); ++at) {
      if (!at->second) continue;
      auto last = at;
      for (auto next = std::next(at); next != places.end() && next->second; ++next) last = next;
      const auto value = [&](auto one) {
        return searched->values[static_cast<std::size_t>(one->first)];
      };
      ranges.push_back(last == at ? value(at) : value(at) + " to " + value(last));
      at = last;
    }
    if (!ranges.empty())
      out.push_back(fmt::format("{}{}{} {}", listed, listed.empty() ? "" : ", ", searched->name,
                                fmt::join(ranges, ", ")));
  }
  return fmt::format("{}", fmt::join(out, "; "));
}

/// "Refused by the program: batch 3 to 5: ValueError: ...": values with the same line together.
std::vector<std::string> refusals(const Store& store, const FitVariable* searched) {
  std::map<std::string, std::set<std::string>> by_line;
  std::set<std::string> all, without_steps;
  const std::vector<FitRun> runs = store.all();
  for (const FitRun& run : runs) {
    if (run.killed) continue;
    if (run.exit_code != 0 && run.ooms == 0) by_line[run.last].insert(values_text(run.values));
    all.insert(values_text(run.values));
    if (run.exit_code == 0 && !run.stepped) without_steps.insert(values_text(run.values));
  }
  std::vector<std::string> out;
  for (const auto& [line, values] : by_line)
    out.push_back(
        fmt::format("Refused by the program: {}: {}", chosen_text(runs, values, searched), line));
  if (!without_steps.empty())
    out.push_back(fmt::format(
        "No optimizer of torch.optim has stepped with {} of {} combinations of values: their "
        "peaks are those of what ran.",
        without_steps.size(), all.size()));
  return out;
}

std::vector<std::string> notes_of(const FitOptions& fit, const Store& store, const Runs& runs,
                                  const std::vector<Question>& questions) {
  std::vector<std::string> out;
  const std::vector<FitRun> all = store.all();
  for (const Question& question : questions)
    for (const std::string& note : question.notes(store)) out.push_back(note);
  for (const std::string& note : kills(store)) out.push_back(note);
  for (const std::string& note : refusals(store, searched_of(fit))) out.push_back(note);
  if (const FitVariable* searched = searched_of(fit))
    out.push_back(fmt::format(
        "Between the values of {} that ran, peaks are taken to grow with it (said above if they do "
        "not).",
        searched->name));
  const auto steady = std::ranges::count_if(all, [](const FitRun& run) { return run.steady; });
  if (steady > 0)
    out.push_back(
        fmt::format("{} of {} runs were ended when a step had the peaks of the one before "
                    "(--no-until-steady runs to the end).",
                    steady, all.size()));
  if (runs.copies() > 0)
    out.push_back(
        fmt::format("{} of {} runs were copies of a process that had imported torch once "
                    "(--no-server).",
                    runs.copies(), runs.count()));
  const bool nccl = std::ranges::any_of(all, [](const FitRun& run) { return run.nccl; });
  for (const Gpu& gpu : fit.gpus) {
    const FitGpu& memory = gpu.memory;
    out.push_back(fmt::format(
        "{}: {} ({}), less {} of its context ({}){}.", memory.name, bytes_text(memory.total),
        memory.total_source, bytes_text(memory.context), memory.context_source,
        !nccl ? ""
              : fmt::format(" and {} of NCCL ({})", bytes_text(memory.nccl), memory.nccl_source)));
  }
  out.push_back(fmt::format("{} here, {} from the cache.",
                            plural(static_cast<std::int64_t>(runs.count()), "run"), runs.cached()));
  return out;
}

void write_results(const FitOptions& fit, const FitRecord& record) {
  const std::string text = document_of("tidemark/fit", json_of(record));
  if (!fit.report.empty()) {
    fs::create_directories(fit.report);
    write_files(fit.report, {{"fit.json", text}, {"report.html", fit_page(record)}},
                "name another folder (--report)");
    print(stderr, "report: {}\n", (fs::path(fit.report) / "report.html").string());
  }
  if (!fit.out.empty()) write_out(fit.out, text);
}

/// The combination that lacks least, with the next value that does not fit.
std::optional<Advice> advice_on(const FitOptions& fit, Runs& runs, const FitRecord& record) {
  const FitAnswer* nearest = nullptr;
  for (const FitAnswer& each : record.answers)
    if (each.missing && (nearest == nullptr || *each.missing < *nearest->missing)) nearest = &each;
  if (nearest == nullptr || runs.interrupted() != 0) return std::nullopt;
  FitValues values = nearest->values;
  if (const FitVariable* searched = searched_of(fit)) values[searched->name] = nearest->next;
  const auto gpu = std::ranges::find(record.gpus, nearest->gpu, &FitGpu::name);
  return advise(runs, values, *gpu, nearest->room);
}

}  // namespace

int fit_program(int argc, char** argv, const RunRecord& version) {
  FitOptions fit;
  if (const int code = parse_fit(argc, argv, fit); code >= 0) return code;
  const auto begun = Clock::now();
  const std::string torch = torch_of(fit);
  FitRecord record;
  record.program = fit.program;
  record.run = describe_exec(argc, argv, torch, version);
  for (const Gpu& gpu : fit.gpus) record.gpus.push_back(gpu.memory);
  for (const Variable& each : fit.variables) record.variables.push_back(each.values);
  Runs runs(fit, version.tidemark + " " + version.git, torch);
  std::vector<Question> questions = questions_of(fit);
  Store store;
  for (auto wanted = wanted_now(questions, store); !wanted.empty() && runs.interrupted() == 0;
       wanted = wanted_now(questions, store)) {
    const auto answered = std::ranges::count_if(
        questions, [&](const Question& question) { return question.next(store).empty(); });
    runs.stage(fmt::format("{} of {} answers", answered, questions.size()));
    for (const FitRun& run : runs.run(wanted)) store.add(run);
  }
  for (const Question& question : questions) record.answers.push_back(question.answer(store));
  record.runs = store.all();
  if (fit.advise) record.advice = advice_on(fit, runs, record);
  record.notes = notes_of(fit, store, runs, questions);
  record.run.duration_ns = std::chrono::nanoseconds(Clock::now() - begun).count();
  if (runs.interrupted() != 0) {
    record.run.interrupted = true;
    record.notes.push_back(
        "Interrupted: what has run is kept, and the same command goes on from there.");
  }
  print(stdout, "{}", fit_text(record));
  write_results(fit, record);
  if (runs.interrupted() != 0) return 128 + runs.interrupted();
  const bool fits =
      std::ranges::any_of(record.answers, [](const FitAnswer& a) { return a.verdict == "fits"; });
  return fits ? 0 : 1;
}

}  // namespace tidemark
