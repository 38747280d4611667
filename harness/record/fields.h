// Fields of the record: one `visit` for each struct names every field once. What writes, reads and
// checks report.json is made from it (json_write.cpp, json_read.cpp, schema.cpp): a new field needs
// a member in record.h and a line here. A visitor `f` offers
//
//   f.title(name, about)                the struct's name in the schema
//   f(key, member, meaning, about)      a field that every file has
//   f.later(...)                        the same; files of older versions lack it
//   f.optional(..., usual)              a field that is there only where it is not empty, or
//                                       another
//   f.runs(key, list, about)            items that are the same in a row once, with "times"
//   f.exact(key, hex, number)           a number as a decimal and, to the bit, in hexadecimal
//   f.derived(key, value, about)        a copy of other fields; a reader holds it against them
//   f.group(key, about, fields)         an object that is no struct of its own
//   f.either(key, text, about, fields)  the text alone where there is one, else the fields
//   f.columns(rows, columns)            a list of equal length for each field of many small rows
//   f.grouped(key, verdicts, about)     verdicts that differ in the rank alone once, with "ranks"
//   f.detail(...)                       a later one that a run's folder keeps in details/
//   f.exported(...)                     a later one that it keeps in trace/ and snapshot/ alone
//   f.check(holds, fault)               a condition on what was read
//   f.once_read(act)                    what is to be done with the fields before it, once read
#pragma once

#include "harness/record/meaning.h"
#include "harness/record/program_fields.h"
#include "harness/record/rank_fields.h"
#include "harness/record/record.h"

namespace tidemark {

void visit(LossPoint& x, auto& f) {
  f.title("loss",
          "value and hex are the same number; both null where the mode has no numbers, value alone "
          "where it is nan or infinite");
  f("step", x.step, meaning::count);
  f.exact("value", "hex", x.value);
}

void visit(SweepPoint& x, auto& f) {
  f.title("sweep_point",
          "peaks of the worst rank with kernels 'ratio' times as long as the host takes to launch "
          "one");
  f("ratio", x.ratio, meaning::ratio);
  f("allocated", x.allocated, meaning::bytes);
  f("active", x.active, meaning::bytes);
  f("reserved", x.reserved, meaning::bytes);
  f("step_time_ns", x.step_time_ns, meaning::ns);
}

void visit(Peaks& x, auto& f) {
  f.title("peaks");
  f("allocated", x.allocated, meaning::count);
  f("active", x.active, meaning::count);
  f("reserved", x.reserved, meaning::count);
  f("resident", x.resident, meaning::count,
    "requested, at the highest of the moments that the program names");
}

void visit(GrowthPoint& x, auto& f) {
  f.title("growth_point");
  f("value", x.value);
  f("predicted", x.predicted);
  f("measured", x.measured);
}

void visit(Growth& x, auto& f) {
  f.title("growth",
          "peaks of one rank with one parameter of the trial changed, ascending in its value; null "
          "where no closed form says, or where it was not measured");
  f("parameter", x.parameter, meaning::name);
  f("rank", x.rank, meaning::rank);
  f("points", x.points);
}

void visit(Timing::Ratio& x, auto& f) {
  f.title("timing_ratio");
  f("median", x.median, meaning::ratio);
  f("lowest", x.lowest, meaning::ratio);
  f("highest", x.highest, meaning::ratio);
}

void visit(Timing& x, auto& f) {
  f.title("timing",
          "of a real GPU: step times of rank 0's compute stream by CUDA events, over all "
          "repetitions, the first step of each left out; low and high are the quartiles; ratios to "
          "the baseline are taken within each repetition");
  f("repetitions", x.repetitions, meaning::count);
  f("samples", x.samples, meaning::count);
  f("median_ns", x.median, meaning::ns);
  f("low_ns", x.low, meaning::ns);
  f("high_ns", x.high, meaning::ns);
  f("ratio", x.ratio);
}

void visit(Fit& x, auto& f) {
  f.title("fits",
          "whether a GPU of the profile holds what the allocator reserved on the worst rank in any "
          "step, beside CUDA's context and NCCL");
  f("profile", x.profile);
  f("capacity_bytes", x.capacity, meaning::bytes);
  f("reserved_bytes", x.reserved, meaning::bytes);
  f.derived(
      "fits", [&] { return x.fits(); }, "", "differs from what the bytes say");
}

void visit(FileBeside& x, auto& f) {
  f.title("file", "a file beside report.json: its path below the run's folder");
  f("what", x.what, meaning::name);
  f("path", x.path, meaning::name);
  f.check(
      [&] {
        const std::string first = x.path.substr(0, x.path.find('/'));
        return (first == "details" || first == "trace" || first == "snapshot" || first == "loss") &&
               (x.path + '/').find("/../") == std::string::npos;
      },
      "is not a path into details/, trace/, snapshot/ or loss/");
}

void visit(RankError& x, auto& f) {
  f.title("rank_error", "partner: NCCL says that another rank has failed or has left");
  f("rank", x.rank, meaning::rank);
  f("kind", x.kind);
  f("text", x.text);
  f("place", x.place, meaning::none, "of the program");
}

void visit(VariantRecord& x, auto& f) {
  f.title("variant");
  f("name", x.name, meaning::name);
  f("role", x.role);
  f("error", x.error, meaning::reason, "what ended it");
  f("loss", x.loss);
  f("step_time_ns", x.step_time_ns, meaning::ns);
  f("ranks", x.ranks);
  f("sweep", x.sweep);
  f.later("growth", x.growth);
  f.later("what", x.what, meaning::none, "the variant in a sentence");
  f.optional("timing", x.timing);
  f.optional("not_run", x.not_run, meaning::name, "why it did not run: the run ended before it");
  f.optional("fits", x.fit);
  f.optional("files", x.files);
  f.optional("errors", x.errors, meaning::none, "of which 'error' consists");
  f.detail("gradients", x.gradients, meaning::none,
           "of step 0, a parameter each, the worst of all ranks; empty where the mode has no "
           "numbers");
}

void visit(Verdict& x, auto& f) {
  f.title("verdict");
  f("name", x.name, meaning::verdict);
  f("variant", x.variant);
  f("status", x.status);
  f.group("expected", "", [&](auto& g) {
    g("low", x.low);
    g("high", x.high);
    g("formula", x.formula);
    g("values", x.values);
  });
  f("measured", x.measured);
  f.optional("unit", x.unit, meaning::none, "not there: bytes", "bytes");
  f.optional("slack", x.slack);
  f.optional("why", x.why, meaning::none, "it failed, was skipped, or has a slack");
}

void visit(Symbol& x, auto& f) {
  f.title("symbol");
  f("name", x.name, meaning::name);
  f("what", x.what);
  f.later("kinds", x.kinds, meaning::none,
          "of memory, that of most of its bytes first; empty: a plain number");
  f("value", x.value);
}

void visit(Source& x, auto& f) {
  f.title(
      "source",
      "where the waste was seen: a public issue or pull request, by its number; without a link: "
      "the scenario is of its author's own making");
  f("name", x.name, meaning::name, "owner/repository#number, or own");
  f.optional("link", x.link, meaning::link);
  f("what", x.what, meaning::name);
  f.check([&] { return x.link.empty() || x.link.starts_with("https://"); },
          "has a link that does not begin with https://");
}

void visit(PublishedFigure& x, auto& f) {
  f.title(
      "published_figure",
      "a saving that a source publishes, and that of the same two variants in this trial: peaks "
      "of the last step on the worst rank, in the trial's statistic");
  f("source", x.source, meaning::name);
  f("what", x.what, meaning::name, "of which model and layout, as far as the source says");
  f("value", x.value, meaning::name, "as published");
  f("from", x.from, meaning::name);
  f("to", x.to, meaning::name);
  f.optional("before_bytes", x.before, meaning::bytes, "not there: the variant did not run");
  f.optional("after_bytes", x.after, meaning::bytes);
}

void visit(TrialRecord& x, auto& f) {
  f.title("trial");
  f("scenario", x.scenario, meaning::name);
  f("size", x.size, meaning::name);
  f("mode", x.mode);
  f("schedule", x.schedule, meaning::name);
  f("ranks", x.ranks, meaning::positive);
  f("steps", x.steps, meaning::count);
  f("seed", x.seed, meaning::count);
  f("params", x.params);
  f("skipped", x.skipped, meaning::reason, "why the trial did not run");
  f("variants", x.variants);
  f.grouped("verdicts", x.verdicts, "an assertion each, of the ranks that agree on it");
  f.later("story", x.story, meaning::none,
          "of the scenario: what is retained, why that is needless");
  f.later("statistic", x.statistic, meaning::none,
          "in which the saving of a step is told and judged");
  f.later("symbols", x.symbols, meaning::none,
          "of the scenario's forms; value: on rank 0, in requested bytes or as a number, where all "
          "forms have the same one");
  f.optional("kept", x.kept, meaning::name,
             "what keeps the scenario's wasted memory, or how long: 'by the communication stream'");
  f.optional("seen", x.seen, meaning::none, "where the scenario's waste was seen");
  f.optional("published", x.published, meaning::none,
             "figures of others beside those of this trial");
  f.optional("not_run", x.not_run, meaning::name,
             "why the trial did not run, or not to its end; where it had begun, its variants that "
             "had ended are kept and not judged");
  f.optional("capacity_bytes", x.capacity, meaning::bytes, "of each virtual GPU that it ran on");
  f.optional("needs_bytes", x.needs, meaning::bytes,
             "the most that the closed forms say a variant reserves on a rank");
  f.optional("program", x.program);
  f.optional("alive", x.alive);
}

void visit(RunRecord& x, auto& f) {
  f.title("run");
  f("id", x.id);
  f("started", x.started, meaning::none, "UTC, ISO 8601");
  f("duration_ns", x.duration_ns, meaning::ns, "wall time");
  f("argv", x.argv);
  f("tidemark", x.tidemark);
  f("git", x.git);
  f("host", x.host);
  f.group("device", "", [&](auto& g) {
    g("kind", x.device_kind, meaning::device);
    g("profile", x.profile);
    g("capacity_bytes", x.capacity_bytes, meaning::bytes,
      "the profile's, or what was asked for; a trial may have had more");
    g.optional("sharing", x.sharing, meaning::name, "which ranks have one GPU together, and how");
    g.optional("arithmetic", x.arithmetic, meaning::name,
               "by which numbers come about: TF32, 16-bit sums, the library of the kernels");
    g.optional("profile_bytes", x.profile_bytes, meaning::bytes, "of the virtual GPU's profile");
    g.optional("context_bytes", x.context_bytes, meaning::bytes,
               "that CUDA's context holds on such a GPU, at most as far as it is known");
    g.optional("nccl_bytes", x.nccl_bytes, meaning::bytes, "of NCCL, likewise");
  });
  f("torch", x.torch);
  f("nccl", x.nccl);
  f("mpi", x.mpi);
  f("env", x.env);
  f.optional("ended", x.ended, meaning::name, "how the run ended before all its trials had run");
  f.optional("interrupted", x.interrupted);
  f.optional("require_all", x.require_all, meaning::none, "a skipped trial is a failure");
  f.optional("faults_not_happened", x.faults, meaning::name,
             "planned faults (TIDEMARK_FAULT) that did not happen");
  f.optional("trial_ns", x.trial_ns, meaning::ns, "wall time of each trial");
}

/// Verdicts of every rank, and trials, by how they went; each counted once.
struct Summary {
  struct Trials {
    int planned = 0, finished = 0, skipped = 0, cut_short = 0, not_run = 0;
  };
  int passed = 0, failed = 0, skipped = 0;
  Trials trials;
  int exit_code = 0;
  explicit Summary(const Report& report = {});
};

void visit(Summary::Trials& x, auto& f) {
  f.title("planned_trials", "planned trials, each counted once");
  f("planned", x.planned, meaning::count);
  f("finished", x.finished, meaning::count);
  f("skipped", x.skipped, meaning::count);
  f("cut_short", x.cut_short, meaning::count);
  f("not_run", x.not_run, meaning::count);
}

void visit(Summary& x, auto& f) {
  f.title("summary", "passed, failed and skipped count verdicts, those of every rank");
  f("passed", x.passed, meaning::count);
  f("failed", x.failed, meaning::count);
  f("skipped", x.skipped, meaning::count);
  f("trials", x.trials);
  f("exit_code", x.exit_code, meaning::exit_code);
}

}  // namespace tidemark
