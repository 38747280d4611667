#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "harness/record/made.h"
#include "harness/record/units.h"
#include "reports/cause.h"
#include "reports/compare/pairs.h"
#include "reports/headline.h"
#include "reports/markup.h"
#include "reports/renderings.h"
#include "reports/saving.h"
#include "reports/stills.h"

namespace tidemark {
namespace {

constexpr std::size_t kListed = 20;  // errors, and groups of failures

std::string text(const std::string& value) { return markup_text(value); }

std::string element(const char* tag, const char* kind, const std::string& content) {
  return fmt::format("<{0} class=\"{1}\">{2}</{0}>", tag, kind, content);
}

std::string status(Status kind, const std::string& words) {
  return fmt::format("<span class=\"status {}\">{}</span>", name_of(kind), text(words));
}

std::string sentence(std::string line, const char* kind = "gap") {
  const std::string first = line.substr(0, line.find(':'));  // a name stays as it is
  if (first.find_first_of("_/") == std::string::npos)
    line[0] = static_cast<char>(std::toupper(line[0]));
  return element("p", kind, text(line) + ".");
}

/// A term and its definition; nothing where there is none.
std::string entry(const std::string& term, const std::string& html) {
  return html.empty() ? "" : fmt::format("<dt>{}</dt><dd>{}</dd>\n", text(term), html);
}

std::string code_html(const std::string& value) {
  return value.empty() ? "" : "<code>" + text(value) + "</code>";
}

std::string command_line(const std::string& value) {
  return element("div", "command", code_html(value));
}

/// The section's heading, and what follows it.
std::string section(const char* id, const char* title, const std::string& html) {
  return html.empty() ? ""
                      : fmt::format(
                            "<section id=\"{0}\" aria-labelledby=\"{0}-title\">\n<h2 "
                            "id=\"{0}-title\">{1}</h2>\n{2}</section>\n",
                            id, title, html);
}

/// Fail before skip before pass.
Status worse_of(Status a, Status b) {
  for (const Status one : {Status::fail, Status::skip})
    if (a == one || b == one) return one;
  return Status::pass;
}

std::string base_text(const Report& base, const Changes* changes, bool columns) {
  return element("p", "gap base",
                 fmt::format("<b>Compared with run {}</b> of {}: {}.{}{}", text(base.run.id),
                             text(base.run.started), text(headline(base)),
                             columns ? " Columns named “before” hold its figures." : "",
                             changes == nullptr ? "" : " " + text(changes->summary) + "."));
}

std::string top(const Report& report, const Changes* changes) {
  const RunRecord& run = report.run;
  std::string facts = counts_text(report);
  for (const std::string& fact :
       {run.profile, run.torch.empty() ? "" : "torch " + run.torch, run.started})
    if (!fact.empty()) facts += " · " + fact;
  std::string out =
      fmt::format("<header class=\"top\">\n<h1 class=\"{}\" tabindex=\"-1\">{}</h1>\n",
                  name_of(worse_of(headline_status(report),
                                   changes == nullptr ? Status::pass : changes->status)),
                  text(headline(report) +
                       (changes == nullptr ? "" : "; against the other run: " + changes->result))) +
      element("p", "facts", text(facts)) + "\n";
  return out + "</header>\n";
}

/// What a reader must know of the figures.
std::string notes(const Report& report, const Report* base, const Changes* changes, bool columns) {
  const RunRecord& run = report.run;
  std::string out = "<div id=\"notes\">\n";
  for (const auto& lines : {run.faults, gaps(report), fits_text(report)})
    for (const std::string& line : lines) out += sentence(line) + "\n";
  if (!run.sharing.empty()) out += sentence(run.sharing, "gap sharing") + "\n";
  if (run.device_kind == "virtual")
    out += element("p", "virtual",
                   "<b>Virtual device.</b> Memory is that of PyTorch’s own CUDA allocator, exact "
                   "to the byte. "
                   "Step times are on a virtual clock: they compare variants and do not predict "
                   "hardware.") +
           "\n";
  if (base != nullptr) out += base_text(*base, changes, columns) + "\n";
  return out +
         "<p class=\"quiet files\">Beside this page: <a href=\"report.json\">report.json</a> "
         "(the record), <a href=\"summary.md\">summary.md</a>, <a "
         "href=\"junit.xml\">junit.xml</a>, <a href=\"benchmark.json\">benchmark.json</a>.</p>"
         "\n</div>\n";
}

/// "6 MiB: 6,291,456 bytes": the unit that people read first.
std::string sized(const Verdict& verdict, std::optional<double> value, const std::string& exact) {
  if (!value || verdict.unit != "bytes" || std::abs(*value) < 1024) return text(exact);
  return text(bytes_text(static_cast<Bytes>(*value)) + ": " + exact);
}

std::string failure_html(const Report& report, const Failure& failure) {
  const Verdict& v = *failure.verdict;
  return "<li>" +
         element(
             "p", "note",
             status(Status::fail, "failed") +
                 fmt::format(" <b>{}</b>, {}, {}, {}", text(v.name), text(failure.trial->name()),
                             text(v.variant), ranks_text(failure.ranks))) +
         "<dl>" + entry("Explanation", text(v.why)) +
         entry("Measured", sized(v, v.measured, measured_text(v))) +
         entry("Expected", sized(v, v.low == v.high ? v.low : std::nullopt, expected_text(v))) +
         entry("Formula", code_html(formula_text(v))) +
         entry("Run it again", command_line(command(report, *failure.trial))) + "</dl></li>\n";
}

std::string each_failed(const Report& report) {
  std::string out;
  const auto broken = breakdowns(report);
  for (std::size_t i = 0; i < std::min(broken.size(), kListed); ++i) {
    const Breakdown& one = broken[i];
    out += "<li>" + element("p", "note",
                            status(Status::fail, "error") +
                                text(fmt::format(" {} / {}, {} under {}: {}", one.trial->scenario,
                                                 one.trial->size, fmt::join(one.variants, ", "),
                                                 fmt::join(one.schedules, ", "), one.brief)));
    if (one.variant->error != one.brief)
      out += "<details><summary>The full text</summary>" +
             element("p", "quiet", text(one.variant->error)) + "</details>";
    out += "</li>\n";
  }
  const auto groups = failure_groups(report);
  for (std::size_t i = 0; i < std::min(groups.size(), kListed); ++i) {
    const auto& all = groups[i].failures;
    const std::size_t whole = all.size() > kWhole ? 1 : all.size();
    for (std::size_t k = 0; k < whole; ++k) out += failure_html(report, all[k]);
    if (whole < all.size())
      out +=
          element("li", "note",
                  text(fmt::format(
                      "{} more failed in {}{}",
                      plural(count_of(std::span(all).subspan(whole)), "verdict"), groups[i].variant,
                      groups[i].why.empty() ? "." : " for this reason: " + groups[i].why)));
  }
  if (out.empty()) return "";
  return "<ul class=\"plain\">\n" + out +
         "</ul>\n<p><a href=\"#/-/assertions?status=fail\">Every verdict that failed</a></p>\n";
}

/// If every variant ran out of memory: that cause, with what would be enough; the list is folded.
std::string failed(const Report& report) {
  const std::string full = all_out_of_memory(report);
  if (full.empty()) return each_failed(report);
  return element("p", "note", status(Status::fail, "error") + " " + text(full) + ".") +
         "<details><summary>Where each stopped</summary>" + each_failed(report) + "</details>\n";
}

/// In a unit, with every byte as its tooltip.
std::string figure(const char* head, const ByteUnit& unit, std::optional<Bytes> value,
                   const std::string& more = "") {
  if (!value) return "<td class=\"figure quiet\">–</td>";
  return fmt::format(
      "<td class=\"figure\" data-head=\"{}\"><data value=\"{}\" title=\"{} bytes\">{} "
      "{}</data>{}</td>",
      head, *value, exact(*value), unit(*value), unit.name, more);
}

std::string by_text(const char* of, Bytes now, Bytes before) {
  if (now == before) return "";
  return fmt::format(
      "<div>{}{}{}<small>{:+.3g} %</small></div>", of, now > before ? "+" : "−",
      bytes_text(std::abs(now - before)),
      before == 0 ? 100 : 100 * static_cast<double>(now - before) / static_cast<double>(before));
}

/// What changed of the fix's peak and of the baseline's.
std::string change(const Saving& now, const Saving& before) {
  std::string out = by_text("", now.after, before.after);
  if (now.before && before.before) out += by_text("baseline ", *now.before, *before.before);
  return out.empty() ? "<td class=\"quiet\" data-head=\"change\">none</td>"
                     : "<td class=\"figure changed\" data-head=\"change\">" + out + "</td>";
}

/// Figures beside those of this run: another run's, and those of the nights before.
struct Beside {
  Pairs pairs;
  bool other = false;
  const Nights* nights = nullptr;
};

std::string saving_cells(const Saving& one, const Beside& beside, const TrialRecord& trial) {
  const ByteUnit unit = saving_unit(std::max(one.before.value_or(0), one.after));
  std::string out = "<td class=\"fix\">" + text(one.fix) + "</td>" +
                    figure("peak of baseline", unit, one.before) +
                    figure("peak of fix", unit, one.after,
                           nights_html(beside.nights, trial, one.fix, one.statistic)) +
                    "<td class=\"saved\" data-head=\"saved\">" +
                    (one.judged ? status(*one.judged, saved_text(one)) : text(saved_text(one))) +
                    "</td><td class=\"price\" data-head=\"price\">" + text(price_text(one)) +
                    "</td>";
  if (!beside.other) return out;
  const auto pair = std::ranges::find(beside.pairs.trials, &trial, &TrialPair::fresh);
  if (pair != beside.pairs.trials.end())
    for (const Saving& other : savings_of(*pair->base))
      if (other.fix == one.fix)
        return out + figure("before: peak of fix", unit, other.after) + change(one, other);
  return out + "<td class=\"quiet\" colspan=\"2\">not there</td>";
}

std::string group_rows(const Overview& overview, const std::string& link,
                       const std::string& controls, const Beside& beside) {
  const TrialRecord *telling = telling_trial(overview), &first = *overview.trials[0];
  const std::vector<Saving> all = telling == nullptr ? std::vector<Saving>() : savings_of(*telling);
  const std::string about =
      telling == nullptr
          ? overview.detail()
          : fmt::format("{} peak under {}", name_of(telling->statistic), telling->schedule);
  const GroupOutcome outcome = outcome_of({&overview});
  const std::string span = fmt::format(" rowspan=\"{}\"", std::max<std::size_t>(1, all.size()));
  std::string out = fmt::format(
      "<tr><th scope=\"row\"{0}><a href=\"{1}\">{2}</a> / {3}<small>{4}</small></th>"
      "<td{0}>{5}{6}</td>",
      span, link, text(first.scenario), text(first.size), text(about),
      status(outcome.status, outcome.text),
      controls.empty() ? "" : "<small>" + text(controls) + "</small>");
  for (const Saving& one : all)
    out += (&one == &all.front() ? "" : "<tr>") + saving_cells(one, beside, *telling) + "</tr>\n";
  return all.empty()
             ? out + fmt::format("<td class=\"quiet\" colspan=\"{}\">No fix ran.</td></tr>\n",
                                 beside.other ? 7 : 5)
             : out;
}

/// True for a group of size smoke, where nothing failed, nothing was skipped, and all ran.
bool smoke_passed(const Overview& group) {
  return group.trials[0]->size == "smoke" && outcome_of({&group}).status == Status::pass;
}

/// "5 scenarios of size smoke, 34,000 verdicts: as predicted".
std::string smoke_text(const std::vector<Overview>& groups) {
  std::set<std::string> names;
  std::int64_t verdicts = 0;
  for (const Overview& group : groups)
    for (const TrialRecord* trial : group.trials)
      names.insert(trial->scenario), verdicts += std::ssize(trial->verdicts);
  return fmt::format("{} of size smoke, {}: as predicted", plural(std::ssize(names), "scenario"),
                     plural(verdicts, "verdict"));
}

std::string scenarios(const Report& report, const Beside& beside) {
  std::vector<Overview> groups = overviews(report);
  if (groups.empty()) return "";
  std::map<const TrialRecord*, int> place;  // among the groups of a scenario, as main.js counts
  std::map<std::string, int> count;
  for (const Overview& group : groups) place[group.trials[0]] = count[group.trials[0]->scenario]++;
  std::ranges::stable_partition(
      groups, [](const Overview& group) { return group.trials[0]->size == "seed"; });
  std::ranges::stable_partition(groups, [](const Overview& group) {
    return std::ranges::any_of(group.trials, [](const TrialRecord* trial) {
      return std::ranges::any_of(trial->variants, &std::string::empty, &VariantRecord::not_run);
    });
  });
  std::map<std::string, std::string> controls;
  for (const ControlTally& tally : control_tallies(report)) controls[tally.scenario] = tally.text();
  const auto small = std::ranges::stable_partition(
      groups, [](const Overview& group) { return !smoke_passed(group); });
  std::vector<Overview> folded(small.begin(), small.end());
  if (folded.size() > 1 && folded.size() < groups.size())
    groups.erase(small.begin(), small.end());
  else
    folded.clear();
  std::string head;
  std::string out = fmt::format(
      "<p class=\"lede\">The highest peak of a step on the worst rank, in the scenario’s own "
      "statistic "
      "and under the schedule in which a fix saves most. A mark says whether the saving is as "
      "predicted.{}</p>\n",
      beside.nights == nullptr || beside.nights->peaks.empty()
          ? ""
          : " The line below a fix’s peak has its last nights.");
  for (const char* name : {"scenario / size", "result", "fix"})
    head += fmt::format("<th scope=\"col\">{}</th>", name);
  for (const char* name : {"peak of baseline", "peak of fix"})
    head += fmt::format("<th scope=\"col\" class=\"figure\">{}</th>", name);
  head += "<th scope=\"col\">saved</th><th scope=\"col\">price</th>";
  if (beside.other)
    head +=
        "<th scope=\"col\" class=\"figure\">before: peak of fix</th><th scope=\"col\" "
        "class=\"figure\">change</th>";
  std::set<std::string> named_scenarios;  // scenarios with their controls in a row
  const auto table = [&](const std::vector<Overview>& some, const char* label) {
    std::string rows;
    for (const Overview& group : some) {
      const std::string& name = group.trials[0]->scenario;
      rows += group_rows(
          group, fmt::format("#/{}?trial={}", percent_encoded(name, "_-"), place[group.trials[0]]),
          named_scenarios.insert(name).second ? controls[name] : "", beside);
    }
    return fmt::format(
        "<div class=\"scroller\" tabindex=\"0\" role=\"region\" aria-label=\"{}\"><table "
        "class=\"scenarios\">\n<thead><tr>{}</tr></thead>\n<tbody>\n{}</tbody></table></div>\n",
        label, head, rows);
  };
  out += table(groups, "Savings of every scenario");
  if (!folded.empty())
    out += fmt::format("<details class=\"folded\"><summary>{}</summary>\n{}</details>\n",
                       text(smoke_text(folded)), table(folded, "Savings at size smoke"));
  return out;
}

std::string provenance(const RunRecord& run) {
  std::string device = run.device_kind;
  if (!run.profile.empty()) device += ", " + run.profile;
  if (run.capacity_bytes > 0) device += ", " + bytes_text(run.capacity_bytes);
  std::string out;
  if (!run.argv.empty())
    out += entry("Command", command_line(fmt::format("{}", fmt::join(run.argv, " "))));
  for (const auto& [term, value] :
       {std::pair<const char*, std::string>{"Run", run.id},
        {"Started", run.started},
        {"Took", run.duration_ns > 0 ? duration(run.duration_ns) + " on the host’s clock" : ""},
        {"Device", device},
        {"Compared with", run.device_kind == "virtual"
                              ? "recordings of PyTorch’s allocator on real GPUs, event by "
                                "event (reports/measured/README.md)"
                              : ""},
        {"Host", run.host},
        {"tidemark", run.tidemark},
        {"Commit", run.git},
        {"torch", run.torch},
        {"NCCL", run.nccl},
        {"MPI", run.mpi}})
    out += entry(term, text(value));
  for (const auto& [name, value] : telling_variables(run)) out += entry(name, code_html(value));
  return out.empty() ? "" : "<dl class=\"provenance\">\n" + out + "</dl>\n";
}

}  // namespace

std::string page_overview(const Report& report, const Report* base, const Changes* changes,
                          const Nights* nights) {
  Beside beside{base == nullptr ? Pairs{} : pair_trials(*base, report), false, nights};
  beside.other = !beside.pairs.trials.empty();  // a run without a trial in common has no figures
  std::string effect, lists;  // what changed by how much, and each figure that did
  if (changes != nullptr) {
    for (const Section& one : changes->sections) effect += section_html(one);
    for (const Section& one : changes->lists) lists += section_html(one);
  }
  return top(report, changes) + section("failed", "What failed", failed(report)) + effect +
         notes(report, base, changes, beside.other) +
         section("scenarios", "Scenarios", scenarios(report, beside)) + lists + stills(report) +
         section("provenance", "Provenance", provenance(report.run));
}

}  // namespace tidemark
