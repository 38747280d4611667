#include "reports/fit/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "harness/record/units.h"
#include "harness/virtual/device/text.h"
#include "reports/fit/advice.h"
#include "reports/fit/text.h"
#include "reports/html.h"

namespace tidemark {
namespace {

using nlohmann::ordered_json;

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

/// A line for each combination, and one for the capacity of each GPU.
std::vector<Chart> curves(const FitRecord& record, const FitVariable* searched) {
  if (searched == nullptr) return {};
  Chart chart{
      "Peak of reserved memory over " + searched->name, searched->name, "reserved", true, {}};
  std::map<std::string, Line> lines;
  std::set<double> places;
  for (const FitRun& run : record.runs) {
    if (!run.room || run.exit_code != 0 || !run.unknown.empty() || run.ooms > 0) continue;
    std::string name = listed_of(run, searched);
    name += (name.empty() ? "" : ", ") + ("as " + run.gpu);
    const double place = number_of(run.values.at(searched->name));
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
    const auto level = static_cast<double>(answer.capacity);
    chart.lines.push_back({fmt::format("{} has {}", answer.gpu, bytes_text(answer.capacity)),
                           {{*places.begin(), level}, {*places.rbegin(), level}}});
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
  if (room.reserved <= of_gpu.capacity) return true;
  if (room.allocated > of_gpu.capacity) return false;
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

/// Tables of exactly two variables, one for each GPU, with the share of it that each combination
/// takes.
std::vector<Picture> maps(const FitRecord& record) {
  if (record.variables.size() != 2) return {};
  const FitVariable &down = record.variables[0], &across = record.variables[1];
  std::vector<std::string> columns;
  for (const std::string& value : across.values)
    if (std::ranges::any_of(record.runs,
                            [&](const FitRun& run) { return run.values.at(across.name) == value; }))
      columns.push_back(value);
  std::vector<Picture> out;
  std::set<std::string> drawn;
  for (const FitAnswer& answer : record.answers) {
    if (!drawn.insert(answer.gpu).second) continue;
    ordered_json rows = ordered_json::array();
    for (const std::string& value : down.values) {
      ordered_json cells = ordered_json::array();
      for (const std::string& column : columns) {
        const FitRun* run =
            run_of(record, answer.room, {{down.name, value}, {across.name, column}});
        if (run == nullptr)
          cells.push_back(nullptr);
        else if (run->exit_code != 0 || !run->unknown.empty())
          cells.push_back({{"text", run->ooms > 0 ? "out of memory" : "refused"}});
        else
          cells.push_back(
              {{"bytes", run->reserved},
               {"share", static_cast<double>(run->reserved) / static_cast<double>(answer.capacity)},
               {"fits", fits(record, answer, *run)}});
      }
      rows.push_back({{"name", value}, {"cells", cells}});
    }
    const ordered_json data{{"kind", "heat"},     {"x", across.name},
                            {"y", down.name},     {"capacity", answer.capacity},
                            {"columns", columns}, {"rows", rows}};
    out.push_back({"Peak of reserved memory on " + answer.gpu, data.dump()});
  }
  return out;
}

/// A bar for each answer with a run.
std::vector<Picture> alive(const FitRecord& record, const FitVariable* searched) {
  std::vector<std::string> kinds;
  ordered_json rows = ordered_json::array();
  for (const bool fill : {false, true})
    for (const FitAnswer& answer : record.answers) {
      if (!answer.run || !answer.run->alive) continue;
      std::map<std::string, Bytes> sums;
      for (const AlivePart& part : answer.run->alive->parts) sums[name_of(part.kind)] += part.bytes;
      for (const auto& [kind, sum] : sums)
        if (std::ranges::find(kinds, kind) == kinds.end()) kinds.push_back(kind);
      if (!fill) continue;
      std::vector<Bytes> parts;
      for (const std::string& kind : kinds) parts.push_back(sums[kind]);
      std::string name = listed_of(*answer.run, searched);
      if (searched != nullptr)
        name += (name.empty() ? "" : ", ") + searched->name + " " +
                answer.run->values.at(searched->name);
      rows.push_back(
          {{"name", name}, {"what", answer.gpu + ": " + answer.verdict}, {"parts", parts}});
    }
  if (rows.empty()) return {};
  return {{"What is alive at the highest peak, by kind",
           ordered_json{{"kind", "bars"}, {"kinds", kinds}, {"rows", rows}}.dump()}};
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
  page.headline = lines.empty() ? "nothing has run" : lines.front();
  if (!lines.empty()) lines.erase(lines.begin());
  page.sections.push_back({"", lines, curves(record, searched), {}, {}, maps(record)});
  page.sections.push_back({"Combinations", {}, {}, fit_rows(record), {}, alive(record, searched)});
  if (record.advice)
    page.sections.push_back(
        {"What would help", advice_lines(*record.advice), {}, advice_rows(*record.advice)});
  page.sections.push_back({"How it was found", record.notes, {}, {}});
  return html(page);
}

}  // namespace tidemark
