#include "reports/fit/page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include "harness/record/units.h"
#include "harness/virtual/device/text.h"
#include "reports/fit/advice.h"
#include "reports/fit/text.h"
#include "reports/html.h"
#include "reports/kind_bars.h"
#include "reports/markup.h"
#include "reports/program/finding.h"
#include "reports/program/provenance.h"
#include "reports/renderings.h"
#include "reports/table.h"

namespace tidemark {
namespace {

/// The listed values of a run: all but that of `searched`.
std::string listed_of(const FitRun& run, const FitVariable* searched) {
  std::string text;
  for (const auto& [name, value] : run.values)
    if (searched == nullptr || name != searched->name)
      text += (text.empty() ? "" : ", ") + name + " " + value;
  return text;
}

double number_of(const std::string& value) {
  double number = 0;
  std::from_chars(value.data(), value.data() + value.size(), number);
  return number;
}

/// The largest searched value that an answer names: what fits, and the next one that does not.
double farthest(const FitRecord& record) {
  double out = 0;
  for (const FitAnswer& answer : record.answers)
    out = std::max({out, number_of(answer.largest), number_of(answer.next)});
  return out;
}

/// A line for each combination, and one for the capacity of each GPU, as far as the answers go.
std::vector<Chart> curves(const FitRecord& record, const FitVariable* searched) {
  if (searched == nullptr) return {};
  Chart chart{
      "Peak of reserved memory over " + searched->name, searched->name, "reserved", true, {}};
  std::map<std::string, Line> lines;
  std::set<double> places;
  const double last = farthest(record);
  for (const FitRun& run : record.runs) {
    if (!run.room || run.exit_code != 0 || !run.unknown.empty() || run.ooms > 0) continue;
    std::string name = listed_of(run, searched);
    name += (name.empty() ? "" : ", ") + ("as " + run.gpu);
    const double place = number_of(run.values.at(searched->name));
    if (last > 0 && place > last) continue;
    places.insert(place);
    Line& line = lines.try_emplace(name, Line{name, {}}).first->second;
    line.points.emplace_back(place, static_cast<double>(run.reserved));
  }
  if (places.size() < 2) return {};
  for (auto& [name, line] : lines) {
    std::ranges::sort(line.points);
    chart.lines.push_back(line);
  }
  std::set<std::string> drawn;
  for (const FitAnswer& answer : record.answers) {
    if (!drawn.insert(answer.gpu).second) continue;
    const auto level = static_cast<double>(answer.most());
    chart.lines.push_back({fmt::format("{} has {}", answer.gpu, bytes_text(answer.most())),
                           {{*places.begin(), level}, {*places.rbegin(), level}},
                           {},
                           true});
  }
  return {chart};
}

const FitRun* run_of(const FitRecord& record, const std::string& room, const FitValues& values) {
  const auto match = std::ranges::find_if(record.runs, [&](const FitRun& run) {
    return run.room && run.gpu == room && run.values == values;
  });
  return match == record.runs.end() ? nullptr : &*match;
}

/// True if the values of a run with room fit the GPU of an answer: as they ran there, or as the
/// answer of their combination says of them.
bool fits(const FitRecord& record, const FitAnswer& of_gpu, const FitRun& room) {
  if (room.reserved <= of_gpu.most()) return true;
  if (room.allocated > of_gpu.most()) return false;
  for (const FitRun& run : record.runs)
    if (!run.room && run.gpu == of_gpu.gpu && run.values == room.values)
      return run.ooms == 0 && run.exit_code == 0;
  for (const FitAnswer& answer : record.answers) {
    if (answer.gpu != of_gpu.gpu || answer.verdict != "fits" || answer.largest.empty()) continue;
    for (const FitVariable& each : record.variables) {
      if (!each.searched) continue;
      FitValues listed = room.values;
      const std::string value = listed.at(each.name);
      listed.erase(each.name);
      const auto place = [&](const std::string& one) {
        return std::ranges::find(each.values, one) - each.values.begin();
      };
      if (listed == answer.values) return place(value) <= place(answer.largest);
    }
  }
  return false;
}

std::string cell(const FitRecord& record, const FitAnswer& answer, const FitRun* run) {
  if (run == nullptr) return "<td class=\"quiet\">not run</td>";
  if (run->exit_code != 0 || !run->unknown.empty())
    return fmt::format("<td class=\"quiet\">{}</td>", run->ooms > 0 ? "out of memory" : "refused");
  const double share = static_cast<double>(run->reserved) / static_cast<double>(answer.most());
  const bool over = !fits(record, answer, *run);
  return fmt::format(
      "<td class=\"figure{}\" title=\"{} bytes, {:.1f} % of the capacity\" "
      "style=\"background:color-mix(in srgb, var(--{}) {}%, transparent)\"><data "
      "value=\"{}\">{}</data></td>",
      over ? " over" : "", exact(run->reserved), 100 * share, over ? "fail" : "pass",
      static_cast<int>(12 + 38 * std::min(1.0, share)), run->reserved, bytes_text(run->reserved));
}

/// Tables of exactly two variables, one for each GPU, with the share of it that each combination
/// takes. The variable with more values goes down; values without a run are left out.
std::vector<Picture> maps(const FitRecord& record) {
  if (record.variables.size() != 2) return {};
  const auto seen = [&](const FitVariable& variable, const std::string& room) {
    std::vector<std::string> out;
    for (const std::string& value : variable.values)
      if (std::ranges::any_of(record.runs, [&](const FitRun& run) {
            return run.room && run.gpu == room && run.values.at(variable.name) == value;
          }))
        out.push_back(value);
    return out;
  };
  std::vector<Picture> out;
  std::set<std::string> drawn;
  for (const FitAnswer& answer : record.answers) {
    if (!drawn.insert(answer.gpu).second) continue;
    const FitVariable *down = &record.variables[0], *across = &record.variables[1];
    std::vector<std::string> values = seen(*down, answer.room),
                             columns = seen(*across, answer.room);
    if (values.size() < columns.size()) std::swap(down, across), std::swap(values, columns);
    std::string table = fmt::format("<th scope=\"col\">{} \\ {}</th>", markup_text(down->name),
                                    markup_text(across->name));
    for (const std::string& column : columns)
      table += fmt::format("<th scope=\"col\" class=\"figure\">{}</th>", markup_text(column));
    table = "<thead><tr>" + table + "</tr></thead><tbody>";
    for (const std::string& value : values) {
      table += fmt::format("<tr><th scope=\"row\">{}</th>", markup_text(value));
      for (const std::string& column : columns)
        table += cell(record, answer,
                      run_of(record, answer.room, {{down->name, value}, {across->name, column}}));
      table += "</tr>\n";
    }
    out.push_back(
        {"Peak of reserved memory on " + answer.gpu, "",
         fmt::format("<div class=\"scroller\" tabindex=\"0\"><table "
                     "class=\"heat\">{}</tbody></table></div><p class=\"quiet\">The "
                     "allocator can have {}. The figures are those with room to spare; red "
                     "ones do not fit, others fit, if need be with a retry.</p>",
                     table, bytes_text(answer.capacity))});
  }
  return out;
}

/// A bar for each answer with a run, in the colours of the kinds.
std::vector<Picture> alive(const FitRecord& record, const FitVariable* searched) {
  std::vector<KindBar> bars;
  for (const FitAnswer& answer : record.answers) {
    if (!answer.run || !answer.run->alive) continue;
    std::string name = listed_of(*answer.run, searched);
    if (searched != nullptr)
      name +=
          (name.empty() ? "" : ", ") + searched->name + " " + answer.run->values.at(searched->name);
    bars.push_back({name, answer.gpu + ": " + answer.verdict, &*answer.run->alive});
  }
  return kind_bars("What is alive at the highest peak, by kind", bars);
}

/// "torch 2.11.0, tidemark 1.0.0, virtual a100-40g and h100-80g, 2026-11-30".
std::string made_with(const FitRecord& record) {
  const RunRecord& run = record.run;
  std::vector<std::string> out, gpus;
  for (const FitGpu& gpu : record.gpus) gpus.push_back(gpu.name);
  if (!run.torch.empty()) out.push_back("torch " + run.torch);
  out.push_back(version_text(run));
  out.push_back(fmt::format("virtual {}", fmt::join(gpus, " and ")));
  if (!run.started.empty()) out.push_back(run.started.substr(0, run.started.find('T')));
  return one_line(fmt::format("{}", fmt::join(out, ", ")));
}

/// The page for an issue: its heading, how it was made, and the answers with their table.
std::string markdown_of(const Document& page, const std::vector<std::string>& lines,
                        const std::vector<std::vector<std::string>>& rows) {
  std::string out = "# " + markdown_text(page.headline) + "\n\n" + markdown_text(page.facts[0]) +
                    "\n\n" + markdown_code(page.facts[1]) + "\n\n";
  for (const std::string& line : lines) out += "- " + markdown_text(line) + "\n";
  return out + "\n" + markdown_table(rows);
}

}  // namespace

std::string fit_page(const FitRecord& record) {
  const FitVariable* searched = nullptr;
  for (const FitVariable& each : record.variables)
    if (each.searched) searched = &each;
  const bool fits =
      std::ranges::any_of(record.answers, [](const FitAnswer& a) { return a.verdict == "fits"; });
  Document page;
  page.command = "fit";
  page.status = fits ? Status::pass : Status::fail;
  std::vector<std::string> lines;
  TextIn in(answer_lines(record));
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  page.headline =
      script_of(record.program) + ": " + (lines.empty() ? "nothing has run" : short_answer(record));
  page.facts = {made_with(record), command_of(record.run, "fit", record.program)};
  const auto rows = fit_rows(record);
  page.markdown = markdown_of(page, lines, rows);
  page.sections.push_back({"", lines, curves(record, searched), {}, {}, maps(record)});
  page.sections.push_back({"Combinations", {}, {}, rows, {}, alive(record, searched)});
  if (record.advice)
    page.sections.push_back(
        {"What would help", advice_lines(*record.advice), {}, advice_rows(*record.advice)});
  page.sections.push_back({"How it was found", record.notes, {}, {}});
  return html(page);
}

}  // namespace tidemark
