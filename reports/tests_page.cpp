#include "reports/tests_page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "harness/record/units.h"
#include "reports/compare/pairs.h"
#include "reports/headline.h"
#include "reports/markup.h"
#include "reports/overview.h"
#include "reports/program/text.h"
#include "reports/saving.h"

namespace tidemark {
namespace {

constexpr std::size_t kClaims = 500;  // rows; report.json has all

/// A test, or a variant of a pair.
struct Row {
  const TrialRecord* trial;
  const VariantRecord* variant;  // null: the test was skipped
  std::vector<std::vector<const Verdict*>> claims;
  int failed = 0, skipped = 0;

  std::string name() const {
    const bool pair = variant != nullptr && trial->variants.size() > 1;
    return one_line(trial->scenario) +
           (pair ? fmt::format(", {} {}", name_of(variant->role), one_line(variant->name)) : "");
  }
  bool broke() const { return variant != nullptr && (failed > 0 || !variant->error.empty()); }
  std::string result() const {
    if (variant == nullptr) return "skipped: " + one_line(trial->skipped);
    if (!variant->error.empty()) return "error";
    if (failed > 0) return "failed";
    if (claims.empty()) return "ran";  // a baseline, about which nothing is claimed
    return skipped == std::ssize(claims) ? "not judged" : "passed";
  }
};

std::vector<Row> rows_of(const Report& report) {
  std::vector<Row> out;
  for (const TrialRecord& trial : report.trials) {
    if (trial.variants.empty()) out.push_back({&trial, nullptr, {}});
    const auto all = by_assertion(trial);
    for (const VariantRecord& variant : trial.variants) {
      Row row{&trial, &variant, {}};
      for (const std::vector<const Verdict*>& claim : all) {
        if (claim.front()->variant != variant.name) continue;
        const auto is = [](Status status) {
          return [status](const Verdict* one) { return one->status == status; };
        };
        row.failed += std::ranges::any_of(claim, is(Status::fail));
        row.skipped += std::ranges::all_of(claim, is(Status::skip));
        row.claims.push_back(claim);
      }
      out.push_back(std::move(row));
    }
  }
  std::ranges::stable_partition(out, &Row::broke);
  return out;
}

/// The worst of the ranks: a failed verdict, else the highest.
const Verdict& worst(const std::vector<const Verdict*>& claim) {
  return **std::ranges::max_element(claim, {}, [](const Verdict* one) {
    return std::pair(one->status == Status::fail, one->measured.value_or(0));
  });
}

bool is_limit(const Verdict& verdict) { return verdict.name.ends_with("/limit"); }

/// The limit where there is one, else the first claim that failed, else the first.
const Verdict* telling(const Row& row) {
  const Verdict* out = nullptr;
  for (const auto& claim : row.claims) {
    const Verdict& one = worst(claim);
    if (is_limit(one)) return &one;
    if (out == nullptr || (one.status == Status::fail && out->status != Status::fail)) out = &one;
  }
  return out == nullptr || out->name == "run" ? nullptr : out;
}

/// "64 MiB" as an author writes a limit; every byte of one that is no round number of units.
std::string authored(Bytes bytes) {
  constexpr std::pair<const char*, Bytes> kUnits[] = {
      {"GiB", Bytes{1} << 30}, {"MiB", Bytes{1} << 20}, {"KiB", Bytes{1} << 10}};
  for (const auto& [name, size] : kUnits)
    if (bytes >= size && bytes % size == 0) return fmt::format("{} {}", exact(bytes / size), name);
  return exact(bytes) + " bytes";
}

std::string claim_text(const Row& row) {
  const Verdict* one = telling(row);
  if (one == nullptr) return "";
  std::string out = one_line(one->name);
  if (is_limit(*one) && one->high && one->unit == "bytes" && !one->low)
    out += ": at most " + authored(static_cast<Bytes>(*one->high));
  else if (const std::string expected = expected_text(*one); !expected.empty())
    out += ": " + expected;
  if (!one->formula.empty()) out += " = " + one_line(one->formula);
  if (row.claims.size() > 1) out += fmt::format(", and {} more", row.claims.size() - 1);
  return out;
}

/// The statistic that a limit judges, else the test's own.
Statistic statistic_of(const Row& row) {
  const Verdict* one = telling(row);
  for (const Statistic s : kStatistics)
    if (one != nullptr && one->name.starts_with(fmt::format("memory/{}/", name_of(s)))) return s;
  return row.trial->statistic;
}

std::optional<Bytes> peak_of(const VariantRecord* variant, Statistic statistic) {
  return variant == nullptr ? std::nullopt : peak_of_any_step(*variant, statistic);
}

std::string figure(Bytes bytes) {
  return fmt::format("<data value=\"{}\" title=\"{} bytes\">{}</data>", bytes, exact(bytes),
                     bytes_text(bytes));
}

/// Returns the same test of another run, or null.
const VariantRecord* before_of(const Row& row, const Pairs& pairs) {
  const auto pair = std::ranges::find(pairs.trials, row.trial, &TrialPair::fresh);
  return pair == pairs.trials.end() || row.variant == nullptr
             ? nullptr
             : variant_in(*pair->base, row.variant->name);
}

std::string change_text(const Row& row, const Pairs& pairs) {
  const auto now = peak_of(row.variant, statistic_of(row)),
             before = peak_of(before_of(row, pairs), statistic_of(row));
  if (!now || !before) return "not in both runs";
  return *now == *before ? "none" : signed_bytes(*now - *before) + " bytes";
}

/// Leaves out columns that say nothing in any row.
void drop_empty_columns(std::vector<std::vector<std::string>>& rows) {
  for (std::size_t c = rows.front().size(); c-- > 0;) {
    const auto empty = [&](const auto& row) { return row[c].empty(); };
    if (!std::all_of(rows.begin() + 1, rows.end(), empty)) continue;
    for (auto& row : rows) row.erase(row.begin() + static_cast<std::ptrdiff_t>(c));
  }
}

std::string section_id(std::size_t row) { return fmt::format("test-{}", row); }

/// The peak as a part of its limit, as a bar.
std::string limit_bar(const Row& row, Bytes peak) {
  const Verdict* one = telling(row);
  if (one == nullptr || !is_limit(*one) || !one->high || *one->high <= 0) return "";
  const double share = 100 * static_cast<double>(peak) / *one->high;
  return fmt::format(
      "<span class=\"limit{}\" role=\"img\" aria-label=\"{:.0f} % of the limit\" title=\"{:.0f} % "
      "of the limit\"><i style=\"width:{:.1f}%\"></i></span>",
      share > 100 ? " over" : "", share, share, std::min(100.0, share));
}

Status status_of(const Row& row) {
  return row.broke() ? Status::fail : row.result() == "passed" ? Status::pass : Status::skip;
}

/// "2 failed, 3 passed, 1 error": of tests, in pytest's words and order.
std::string pytest_text(const std::vector<Row>& rows) {
  std::map<const TrialRecord*, int>
      worst;  // of a test's variants: 0 passed, 1 skipped, 2 failed, 3 error
  for (const Row& row : rows) {
    int& of = worst[row.trial];
    of = std::max(of, row.variant == nullptr        ? 1
                      : !row.variant->error.empty() ? 3
                      : row.failed > 0              ? 2
                                                    : 0);
  }
  std::string out;
  for (const auto& [kind, word, words] : {std::tuple{2, "failed", "failed"},
                                          {0, "passed", "passed"},
                                          {1, "skipped", "skipped"},
                                          {3, "error", "errors"}}) {
    const auto n =
        std::ranges::count(worst, kind, &std::pair<const TrialRecord* const, int>::second);
    if (n > 0) out += fmt::format("{}{} {}", out.empty() ? "" : ", ", n, n == 1 ? word : words);
  }
  return out;
}

Section tests(const std::vector<Row>& rows, const Pairs* pairs) {
  Section out{"Tests",
              {"Peaks of the worst rank over the whole test, in the statistic that its limit or "
               "claim judges."},
              {},
              {}};
  std::vector<std::string> heads{"test", "result", "peak", "of", "limit or claim"};
  if (pairs != nullptr) heads.emplace_back("change");
  std::string table;
  for (const std::string& head : heads) table += "<th scope=\"col\">" + head + "</th>";
  table = "<thead><tr>" + table + "</tr></thead>\n<tbody>";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    auto peak = peak_of(row.variant, statistic_of(row));
    if (row.broke() && peak == Bytes{0}) peak.reset();  // it ended before it was measured
    const std::string name = breakable(row.name());
    table += fmt::format(
        "<tr><td>{}</td><td data-head=\"result\"><span class=\"status {}\">{}</span></td>",
        row.broke() ? fmt::format("<a href=\"#{}\">{}</a>", section_id(i), name) : name,
        name_of(status_of(row)), markup_text(row.result()));
    const auto add = [&](const char* head, const std::string& markup) {
      table += fmt::format("<td data-head=\"{}\">{}</td>", head, markup);
    };
    add("peak", peak ? figure(*peak) + limit_bar(row, *peak) : "");
    add("of", peak ? name_of(statistic_of(row)) : "");
    add("limit or claim", breakable(claim_text(row)));
    if (pairs != nullptr) add("change", markup_text(change_text(row, *pairs)));
    table += "</tr>\n";
  }
  out.markup = "<div class=\"scroller\" tabindex=\"0\"><table class=\"cards tests\">" + table +
               "</tbody></table></div>\n";
  return out;
}

constexpr std::size_t kMostParts = 10;

/// The largest parts, and what is left of them.
std::vector<std::vector<std::string>> alive_rows(const std::optional<AliveAtPeak>& alive) {
  if (!alive) return {};
  std::vector<std::vector<std::string>> out{
      {"memory", "blocks", "kind", "module and line, alive at the highest peak"}};
  const LargestParts largest = largest_parts(*alive, kMostParts);
  for (const AlivePart& part : largest.parts)
    out.push_back(
        {figure_cell(part.bytes), std::to_string(part.count), name_of(part.kind),
         part.module + (part.module.empty() || part.site.empty() ? "" : ", ") + part.site});
  if (largest.rest > 0)
    out.push_back(
        {figure_cell(largest.rest), "", "", fmt::format("in {} more lines", largest.others)});
  return out;
}

Section failure(const Row& row, std::size_t place, const Report& report) {
  Section out{row.name()};
  out.id = section_id(place);
  if (!row.variant->error.empty()) out.text.push_back("error: " + row.variant->error);
  for (const auto& claim : row.claims) {
    const Verdict& one = worst(claim);
    if (one.status != Status::fail) continue;
    std::vector<int> ranks;
    for (const Verdict* each : claim)
      if (each->status == Status::fail) ranks.push_back(each->rank);
    if (one.name == "run") {  // an assertion of the test's own
      out.text.push_back(one.why);
      continue;
    }
    const std::string formula = formula_text(one);
    const std::string said =
        formula.empty()
            ? fmt::format("measured {}, expected {}", measured_size(one), expected_size(one))
            : fmt::format("measured {}, expected {} = {}", measured_text(one), expected_text(one),
                          formula);
    out.text.push_back(fmt::format("{}, {}: {}", one_line(one.name), ranks_text(ranks), said));
    if (!one.why.empty()) out.text.push_back(one.why);
  }
  out.text.push_back("again: " + command(report, *row.trial));
  out.rows = alive_rows(row.trial->alive);
  return out;
}

Section claims(const std::vector<Row>& rows) {
  Section out{"Every claim", {}, {}, {{"test", "claim", "result", "measured", "expected"}}};
  std::size_t left = 0;
  for (const Row& row : rows)
    for (const auto& claim : row.claims) {
      const Verdict& one = worst(claim);
      if (one.name == "run") continue;
      if (out.rows.size() > kClaims) {
        ++left;
        continue;
      }
      const std::string formula = formula_text(one), measured = measured_text(one),
                        expected = expected_text(one);
      std::vector<std::string> cells{row.name(), one_line(one.name), name_of(one.status)};
      if (formula.empty())  // else every byte tells whether the formula is right
        cells.insert(cells.end(), {sized_cell(measured, measured_size(one)),
                                   sized_cell(expected, expected_size(one))});
      else
        cells.insert(cells.end(), {measured, expected + " = " + formula});
      out.rows.push_back(std::move(cells));
    }
  if (left > 0) out.text.push_back(fmt::format("{} more are in report.json.", left));
  drop_empty_columns(out.rows);
  return out;
}

}  // namespace

bool is_of_tests(const Report& report) {
  return !report.trials.empty() && std::ranges::all_of(report.trials, [](const TrialRecord& trial) {
    return trial.size == "test";
  });
}

TextMaker tests_page(const Report& report, const Report* base, const Changes* changes) {
  const std::vector<Row> rows = rows_of(report);
  const bool whole = report.run.ended.empty() && report.count(Course::not_run) == 0 &&
                     report.count(Course::cut_short) == 0;
  Document out{"tests", whole ? pytest_text(rows) : headline(report), headline_status(report), {}};
  if (changes != nullptr) {
    out.headline += "; against the other run: " + changes->result;
    if (changes->status == Status::fail) out.status = Status::fail;
  }
  std::string facts = counts_text(report);
  for (const std::string& fact :
       {report.run.profile, report.run.torch.empty() ? "" : "torch " + report.run.torch,
        report.run.started})
    if (!fact.empty()) facts += " · " + fact;
  out.sections.push_back({"", {facts}});
  const std::optional<Pairs> pairs =
      base == nullptr ? std::nullopt : std::optional(pair_trials(*base, report));
  out.sections.push_back(tests(rows, pairs ? &*pairs : nullptr));
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (rows[i].broke()) out.sections.push_back(failure(rows[i], i, report));
  if (changes != nullptr) {
    out.sections.insert(out.sections.end(), changes->sections.begin(), changes->sections.end());
    out.sections.insert(out.sections.end(), changes->lists.begin(), changes->lists.end());
  }
  if (Section all = claims(rows); all.rows.size() > 1) out.sections.push_back(std::move(all));
  return page_of(std::move(out));
}

}  // namespace tidemark
