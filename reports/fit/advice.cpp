#include "reports/fit/advice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "harness/record/units.h"
#include "reports/fit/text.h"
#include "reports/table.h"

namespace tidemark {
namespace {

std::string saved_text(Bytes bytes) {
  return (bytes < 0 ? "-" : "") + bytes_text(bytes < 0 ? -bytes : bytes);
}

std::string time_text(const FitRun& base, const FitRun& run) {
  if (base.step_ns <= 0 || run.step_ns <= 0) return "not measured";
  return fmt::format("{:.2f}x",
                     static_cast<double>(run.step_ns) / static_cast<double>(base.step_ns));
}

bool has_effect(const AdviceRow& row) {
  return row.outcome == "does not run" || row.reserved_saved != 0 || row.allocated_saved != 0;
}

std::string without_effect(const Advice& advice) {
  std::vector<std::string> out;
  for (const AdviceRow& row : advice.rows)
    if (!has_effect(row))
      out.push_back(row.change +
                    (row.outcome == "nothing to change" ? " (nothing to change)" : ""));
  return out.empty() ? "" : fmt::format("Without an effect: {}.", fmt::join(out, "; "));
}

std::string known(const std::string& fits) { return fits.empty() ? "not known" : fits; }

}  // namespace

std::vector<std::vector<std::string>> advice_rows(const Advice& advice) {
  const FitRun& base = advice.run;
  std::vector<std::vector<std::string>> rows{{"change", "how", "peak reserved", "saves",
                                              "of allocated", "virtual step", "collectives",
                                              "fits " + advice.gpu, "values"}};
  rows.push_back({"the program as it is", "exact", bytes_text(base.reserved), "", "",
                  base.step_ns > 0 ? duration(base.step_ns) : "not measured",
                  std::to_string(base.collectives), known(advice.fits), ""});
  for (const AdviceRow& row : advice.rows) {
    if (!has_effect(row)) continue;
    if (row.outcome == "does not run")
      rows.push_back({row.change, "exact", row.outcome, "", "", "", "", "", row.why});
    else if (!row.run)
      rows.push_back({row.change, row.how, "not run", "", saved_text(row.allocated_saved),
                      "not run", "not run", "not run", row.values});
    else
      rows.push_back({row.change, row.how, bytes_text(row.run->reserved),
                      saved_text(row.reserved_saved), saved_text(row.allocated_saved),
                      time_text(base, *row.run), std::to_string(row.run->collectives),
                      known(row.fits), row.values});
  }
  return rows;
}

std::vector<std::string> advice_lines(const Advice& advice) {
  std::vector<std::string> out;
  const AdviceRow* best = nullptr;
  for (const AdviceRow& row : advice.rows)
    if (row.run && row.reserved_saved > 0 &&
        (best == nullptr || row.reserved_saved > best->reserved_saved))
      best = &row;
  std::string where = values_text(advice.values);
  if (!where.empty()) where += ": ";
  out.push_back(
      where + (best == nullptr
                   ? "no change that was tried saves reserved memory"
                   : fmt::format("{} saves {} of {}{}", best->change,
                                 bytes_text(best->reserved_saved), bytes_text(advice.run.reserved),
                                 best->fits == "yes" ? ", and then fits " + advice.gpu : "")));
  for (const AdviceRow& row : advice.rows)
    if (!row.run)
      out.push_back(fmt::format("Computed from the record, not run: {}: {} less at this peak ({}).",
                                row.change, bytes_text(row.allocated_saved), row.why));
  if (const std::string none = without_effect(advice); !none.empty()) out.push_back(none);
  return out;
}

std::string advice_text(const Advice& advice) {
  const std::vector<std::string> lines = advice_lines(advice);
  return fmt::format("{}\n\n{}\n{}\n", lines.front(), table_text(advice_rows(advice)),
                     fmt::join(lines.begin() + 1, lines.end(), "\n"));
}

}  // namespace tidemark
