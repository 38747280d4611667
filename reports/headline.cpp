#include "reports/headline.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "harness/record/units.h"
#include "harness/record/verdict_kind.h"
#include "reports/cause.h"
#include "reports/program/finding.h"

namespace tidemark {
namespace {

int errors(const Report& report) {
  int n = 0;
  for (const TrialRecord& trial : report.trials)
    for (const VariantRecord& variant : trial.variants) n += !variant.error.empty();
  return n;
}

int unfinished(const Report& report) {
  return report.count(Course::cut_short) + report.count(Course::not_run);
}

std::string trials_text(const Report& report) {
  const int all = static_cast<int>(report.trials.size()), done = report.count(Course::finished);
  std::string out = done == all ? plural(all, "trial") + " finished"
                                : fmt::format("{} of {} finished", done, plural(all, "trial"));
  for (const auto& [course, what] : {std::pair{Course::skipped, "skipped"},
                                     {Course::cut_short, "cut short"},
                                     {Course::not_run, "not run"}})
    if (const int n = report.count(course); n > 0) out += fmt::format(", {} {}", n, what);
  return out;
}

std::string passed_text(const Report& report) {
  const int passed = report.count(Status::pass), skipped = report.count(Status::skip);
  const int left = report.count(Course::skipped);
  if (skipped == 0 && left == 0)
    return passed == 1 ? "The one verdict passed"
                       : fmt::format("All {} verdicts passed", exact(passed));
  std::string out = plural(passed, "verdict") + " passed";
  if (skipped > 0) out += fmt::format(", {} skipped", exact(skipped));
  return left == 0 ? out : out + "; " + trials_text(report);
}

/// The finding of the program that ended worst, or else has the highest peak; how its checks went.
std::string programs_headline(const Report& report) {
  const auto peak = [](const TrialRecord& trial) -> Bytes {
    if (trial.alive) return trial.alive->active;
    Bytes most = 0;
    for (const ProcessRecord& process : trial.program->processes)
      for (const DeviceRecord& device : process.devices) most = std::max(most, device.active);
    return most;
  };
  const TrialRecord* worst = nullptr;
  Finding finding;
  for (const TrialRecord& trial : report.trials) {
    Finding one = finding_in(trial, report.run);
    if (worst != nullptr && one.kind >= finding.kind &&
        (one.kind != FindingKind::peak || finding.kind != FindingKind::peak ||
         peak(trial) <= peak(*worst)))
      continue;
    worst = &trial, finding = std::move(one);
  }
  std::string out = one_line(finding.text);
  if (report.trials.size() > 1) out += " (schedule " + worst->schedule + ")";
  const int failed = report.count(Status::fail), passed = report.count(Status::pass);
  if (failed > 0)
    return out + fmt::format("; {} of {} failed", failed, plural(failed + passed, "check"));
  return passed > 0 ? out + fmt::format("; {} passed", plural(passed, "check")) : out;
}

}  // namespace

std::string headline(const Report& report) {
  if (report.of_programs()) return programs_headline(report);
  const int all = static_cast<int>(report.trials.size());
  const int failed = report.count(Status::fail), passed = report.count(Status::pass);
  if (!report.run.ended.empty() || unfinished(report) > 0)
    return fmt::format(
        "Incomplete: {} of {} finished; {}", report.count(Course::finished), plural(all, "trial"),
        report.run.ended.empty() ? "why is not recorded" : one_line(report.run.ended));
  if (const std::string full = all_out_of_memory(report); !full.empty())
    return "Not judged: " + full;
  const std::string cause = common_cause(report);
  const std::string because = cause.empty() ? "" : ": " + one_line(cause);
  if (const int n = errors(report); n > 0)
    return plural(n, "variant") + " ended in error" +
           (failed > 0 ? fmt::format(", {} of {} failed", exact(failed),
                                     plural(passed + failed, "verdict"))
                       : "") +
           because;
  if (failed > 0)
    return fmt::format("{} of {} failed", exact(failed), plural(passed + failed, "verdict")) +
           because;
  if (!report.run.faults.empty())
    return plural(static_cast<int>(report.run.faults.size()), "planned fault") + " did not happen";
  if (const int n = report.count(Course::skipped); n > 0 && report.run.require_all)
    return fmt::format("{} of {} skipped, and all are required", n, plural(all, "trial"));
  if (passed > 0) return passed_text(report);
  return report.count(Course::finished) > 0 || report.count(Status::skip) > 0 ||
                 report.count(Course::skipped) > 0
             ? "Nothing was judged"
             : "Nothing ran";
}

Status headline_status(const Report& report) {
  const int code = report.exit_code();
  if (report.of_programs() && code != 0) {  // a program's own may be any
    const bool nothing = std::ranges::all_of(report.trials, [](const TrialRecord& trial) {
      return trial.program->exit_code == 0 && trial.program->processes.empty();
    });
    return nothing && report.count(Status::fail) == 0 ? Status::skip : Status::fail;
  }
  return code == 0 ? Status::pass : code == 4 || code == 77 ? Status::skip : Status::fail;
}

std::string counts_text(const Report& report) {
  if (!all_out_of_memory(report).empty()) return trials_text(report) + "; no verdict was judged";
  return fmt::format("{}; {} passed, {} failed, {} skipped", trials_text(report),
                     plural(report.count(Status::pass), "verdict"),
                     exact(report.count(Status::fail)), exact(report.count(Status::skip)));
}

int ControlTally::count() const {
  std::size_t n = static_cast<std::size_t>(caught) + missed.size();
  for (const Untried& each : untried) n += each.names.size();
  return static_cast<int>(n);
}

std::string ControlTally::text() const {
  if (caught == count())
    return caught == 1 ? "the one control caught" : fmt::format("all {} controls caught", caught);
  std::string out = fmt::format("{} of {} caught", caught, plural(count(), "control"));
  if (!missed.empty())
    out += fmt::format(", {} not caught ({})", missed.size(), fmt::join(missed, ", "));
  std::size_t n = 0;
  std::string reasons;
  for (const Untried& each : untried) {
    n += each.names.size();
    reasons +=
        fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", fmt::join(each.names, ", "), each.why);
  }
  if (n > 0) out += fmt::format(", {} not judged ({})", n, reasons);
  return one_line(out);
}

std::vector<ControlTally> control_tallies(const Report& report) {
  struct Seen {
    bool caught = false, missed = false;
    std::string why = "it did not run";
  };
  std::vector<ControlTally> out;
  std::map<std::string, std::map<std::string, Seen>> all;  // by scenario and control
  for (const TrialRecord& trial : report.trials) {
    if (std::ranges::find(out, trial.scenario, &ControlTally::scenario) == out.end())
      out.push_back({trial.scenario, 0, {}, {}});
    auto& controls = all[trial.scenario];
    for (const VariantRecord& variant : trial.variants)
      if (variant.role == Role::control) controls.try_emplace(variant.name);
    for (const Verdict& verdict : trial.verdicts) {
      const auto control = controls.find(verdict.variant);
      if (control == controls.end() || kind_of(verdict) != VerdictKind::control) continue;
      const VariantRecord* ran = variant_in(trial, verdict.variant);
      if (verdict.status == Status::fail && ran != nullptr && ran_out_of_memory(*ran)) {
        control->second.why = "it ran out of memory";
        continue;
      }
      control->second.caught |= verdict.status == Status::pass;
      control->second.missed |= verdict.status == Status::fail;
      if (verdict.status == Status::skip) control->second.why = verdict.why;
    }
  }
  for (ControlTally& tally : out) {
    for (const auto& [name, seen] : all[tally.scenario]) {
      if (seen.missed) {
        tally.missed.push_back(name);
      } else if (seen.caught) {
        ++tally.caught;
      } else {
        auto same = std::ranges::find(tally.untried, seen.why, &ControlTally::Untried::why);
        if (same == tally.untried.end())
          same = tally.untried.insert(same, ControlTally::Untried{seen.why, {}});
        same->names.push_back(name);
      }
    }
  }
  std::erase_if(out, [](const ControlTally& tally) { return tally.count() == 0; });
  return out;
}

std::vector<std::string> gaps(const Report& report) {
  struct Gap {
    std::string what, size, why;
    int count = 0;
  };
  std::vector<Gap> all;
  for (const TrialRecord& trial : report.trials) {
    const Course course = course_of(trial);
    if (course == Course::finished) continue;
    Gap gap{course == Course::skipped     ? "skipped"
            : course == Course::cut_short ? "cut short, not judged"
                                          : "not run",
            trial.scenario + "/" + trial.size,
            trial.skipped.empty() ? trial.not_run : trial.skipped};
    const auto same = std::ranges::find_if(all, [&](const Gap& other) {
      return other.what == gap.what && other.size == gap.size && other.why == gap.why;
    });
    ++(same == all.end() ? all.insert(all.end(), std::move(gap)) : same)->count;
  }
  std::vector<std::string> out;
  for (const Gap& gap : all)
    out.push_back(one_line(
        fmt::format("{}: {} ({}): {}", gap.what, gap.size, plural(gap.count, "trial"), gap.why)));
  return out;
}

std::vector<std::string> fits_text(const Report& report) {
  struct Row {
    std::string name;
    Bytes capacity = 0;
    std::vector<std::pair<std::string, Fit>> variants;  // the highest of all schedules
  };
  std::vector<Row> rows;
  for (const TrialRecord& trial : report.trials) {
    const std::string name = trial.scenario + "/" + trial.size;
    auto row = std::ranges::find(rows, name, &Row::name);
    if (row == rows.end()) row = rows.insert(rows.end(), Row{name});
    row->capacity = std::max(row->capacity, trial.capacity);
    for (const VariantRecord& variant : trial.variants) {
      if (!variant.fit || variant.role == Role::control) continue;
      auto known =
          std::ranges::find(row->variants, variant.name, &std::pair<std::string, Fit>::first);
      if (known == row->variants.end())
        known = row->variants.insert(known, {variant.name, *variant.fit});
      known->second.reserved = std::max(known->second.reserved, variant.fit->reserved);
    }
  }
  std::vector<std::string> out;
  for (const Row& row : rows) {
    std::vector<std::string> not_in, in;
    for (const auto& [name, fit] : row.variants)
      (fit.fits() ? in : not_in).push_back(fmt::format("{} {}", name, bytes_text(fit.reserved)));
    if (not_in.empty()) continue;
    const Fit& fit = row.variants.back().second;
    out.push_back(one_line(fmt::format(
        "{} on {} ({}){}: reserves too much: {}; fits: {}", row.name, fit.profile,
        bytes_text(fit.capacity),
        row.capacity > fit.capacity ? ", ran with " + bytes_text(row.capacity) : "",
        fmt::join(not_in, ", "), in.empty() ? "none" : fmt::format("{}", fmt::join(in, ", ")))));
  }
  return out;
}

}  // namespace tidemark
