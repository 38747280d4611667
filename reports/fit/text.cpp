#include "reports/fit/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "harness/record/units.h"
#include "reports/fit/advice.h"
#include "reports/table.h"

namespace tidemark {
namespace {

std::string gib(Bytes bytes) {
  constexpr double kGiB = 1 << 30, kMiB = 1 << 20;
  return bytes < (Bytes{1} << 30) ? fmt::format("{:.1f} MiB", static_cast<double>(bytes) / kMiB)
                                  : fmt::format("{:.2f} GiB", static_cast<double>(bytes) / kGiB);
}

const FitVariable* searched_of(const FitRecord& record) {
  for (const FitVariable& each : record.variables)
    if (each.searched) return &each;
  return nullptr;
}

std::int64_t place_of(const FitVariable& variable, const std::string& value) {
  return std::ranges::find(variable.values, value) - variable.values.begin();
}

/// The answer with the largest value of a GPU; of two equal ones the one with the lower peak.
const FitAnswer* best_of(const FitRecord& record, const std::string& gpu) {
  const FitVariable* searched = searched_of(record);
  const FitAnswer* best = nullptr;
  const auto rank = [&](const FitAnswer& a) {
    const bool fits = a.verdict == "fits";
    const std::int64_t value =
        fits && searched != nullptr ? place_of(*searched, a.largest) : std::int64_t{0};
    const Bytes room = fits ? a.most() - a.run->reserved : -a.missing.value_or(Bytes{1} << 60);
    return std::tuple(fits, value, room);
  };
  for (const FitAnswer& each : record.answers)
    if (each.gpu == gpu && (best == nullptr || rank(each) > rank(*best))) best = &each;
  return best;
}

/// Tokens of a step for each GiB that is reserved.
std::string tokens_text(const FitRun& run) {
  return run.tokens > 0 && run.reserved > 0
             ? fmt::format("{:.0f}", static_cast<double>(run.tokens) * (1 << 30) /
                                         static_cast<double>(run.reserved))
             : "";
}

std::string next_text(const FitAnswer& answer) {
  if (answer.next.empty() || !answer.missing) return "";
  return fmt::format("; {} {}{}", answer.next,
                     *answer.missing > 0 ? fmt::format("needs {} more", gib(*answer.missing))
                                         : "runs out of memory at that size, and reserves no more "
                                           "than that with room to spare",
                     answer.because.empty() ? "" : ": " + answer.because);
}

/// "14.42 GiB", or "the 6.49 GiB that the program allows itself (memory fraction)".
std::string most_text(const FitAnswer& answer) {
  return answer.most() == answer.capacity
             ? gib(answer.capacity)
             : fmt::format("the {} that the program allows itself (memory fraction)",
                           gib(answer.most()));
}

std::string line_of(const FitRecord& record, const FitAnswer& answer) {
  FitValues values = answer.values;
  const FitVariable* searched = searched_of(record);
  if (searched != nullptr && !answer.largest.empty()) values[searched->name] = answer.largest;
  std::string what = values_text(values);
  if (!what.empty()) what += " on ";
  what += answer.gpu;
  if (answer.verdict == "fits") {
    std::string line =
        fmt::format("{}: {} of {}", what, gib(answer.run->reserved), most_text(answer));
    if (answer.run->outside > 0)
      line += fmt::format(", {} of them outside PyTorch's allocator", gib(answer.run->outside));
    if (answer.run->retries > 0)
      line += fmt::format(", with {}", plural(answer.run->retries, "retry", "retries"));
    if (searched != nullptr && answer.largest == searched->values.back())
      line += fmt::format("; no larger {} was asked for", searched->name);
    return line + next_text(answer) + (answer.why.empty() ? "" : "; " + answer.why);
  }
  if (answer.verdict == "does not fit" && answer.missing)
    return fmt::format("nothing fits {}: the nearest, {}, needs {} more than {}{}", answer.gpu,
                       values_text(answer.run->values), gib(*answer.missing), most_text(answer),
                       answer.because.empty() ? "" : ": " + answer.because);
  return fmt::format("{}: {}{}", what, answer.verdict, answer.why.empty() ? "" : ": " + answer.why);
}

}  // namespace

std::string values_text(const FitValues& values) {
  std::vector<std::string> parts;
  for (const auto& [name, value] : values) parts.push_back(name + " " + value);
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string grown_most(const FitRun* from, const FitRun& to) {
  if (!to.alive || (from != nullptr && !from->alive)) return "";
  using Key = std::tuple<std::string, std::string>;
  std::map<Key, Bytes> parts;
  for (const AlivePart& part : to.alive->parts)
    parts[{name_of(part.kind), part.site}] += part.bytes;
  if (from != nullptr)
    for (const AlivePart& part : from->alive->parts)
      parts[{name_of(part.kind), part.site}] -= part.bytes;
  const auto most = std::ranges::max_element(parts, {}, [](const auto& one) { return one.second; });
  if (most == parts.end() || most->second <= 0) return "";
  const auto& [kind, site] = most->first;
  return site.empty() ? kind : kind + ", " + site;
}

std::string kinds_text(const FitRun& run) {
  if (!run.alive || run.alive->active == 0) return "not known";
  std::map<std::string, Bytes> sums;
  for (const AlivePart& part : run.alive->parts) sums[name_of(part.kind)] += part.bytes;
  std::vector<std::pair<Bytes, std::string>> kinds;
  for (const auto& [kind, bytes] : sums) kinds.emplace_back(bytes, kind);
  std::ranges::sort(kinds, std::greater<>());
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < std::min<std::size_t>(3, kinds.size()); ++i)
    parts.push_back(fmt::format(
        "{} {:.0f} %", kinds[i].second,
        100 * static_cast<double>(kinds[i].first) / static_cast<double>(run.alive->active)));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string answer_lines(const FitRecord& record) {
  std::string out;
  const FitGpu* cheapest = nullptr;
  for (const FitGpu& gpu : record.gpus) {
    const FitAnswer* best = best_of(record, gpu.name);
    if (best == nullptr) continue;
    out += line_of(record, *best) + "\n";
    if (best->verdict == "fits" && gpu.price &&
        (cheapest == nullptr || *gpu.price < *cheapest->price))
      cheapest = &gpu;
  }
  if (cheapest != nullptr)
    out += fmt::format("cheapest GPU that fits, of those with a price: {}, {} an hour\n",
                       cheapest->name, *cheapest->price);
  return out;
}

std::string short_answer(const FitRecord& record) {
  const FitVariable* searched = searched_of(record);
  std::string fitting, none;
  for (const FitGpu& gpu : record.gpus) {
    const FitAnswer* best = best_of(record, gpu.name);
    if (best == nullptr) continue;
    if (best->verdict != "fits") {
      none += (none.empty() ? best->verdict + " on " : ", ") + gpu.name;
      continue;
    }
    const std::string value = searched == nullptr ? "fits" : best->largest;
    const std::string name = fitting.empty() && searched != nullptr ? searched->name + " " : "";
    fitting += (fitting.empty() ? "" : ", ") + name + value + " on " + gpu.name;
  }
  return fitting + (fitting.empty() || none.empty() ? "" : "; ") + none;
}

std::vector<std::vector<std::string>> fit_rows(const FitRecord& record) {
  const FitVariable* searched = searched_of(record);
  std::vector<std::vector<std::string>> rows{{}};
  for (const FitVariable& each : record.variables)
    if (!each.searched) rows[0].push_back(each.name);
  for (const char* name : {"GPU", "answer", "peak reserved", "left", "worst", "retries",
                           "virtual step", "tokens a GiB", "alive at the peak"})
    rows[0].push_back(name);
  for (const FitAnswer& answer : record.answers) {
    std::vector<std::string>& row = rows.emplace_back();
    for (const FitVariable& each : record.variables)
      if (!each.searched) row.push_back(answer.values.at(each.name));
    row.push_back(answer.gpu);
    const bool fits = answer.verdict == "fits";
    row.push_back(!fits                 ? answer.verdict
                  : searched == nullptr ? "fits"
                                        : searched->name + " " + answer.largest);
    if (!answer.run) continue;
    const FitRun& run = *answer.run;
    const Bytes left = answer.most() - run.reserved;
    row.insert(row.end(),
               {gib(run.reserved), left < 0 ? "-" + gib(-left) : gib(left), run.worst,
                std::to_string(run.retries), run.step_ns > 0 ? duration(run.step_ns) : "",
                tokens_text(run), kinds_text(run)});
  }
  return rows;
}

std::string fit_text(const FitRecord& record) {
  std::string out = answer_lines(record) + "\n" + table_text(fit_rows(record)) + "\n";
  if (record.advice) out += "What would help " + advice_text(*record.advice) + "\n";
  for (const std::string& note : record.notes) out += note + "\n";
  return out;
}

}  // namespace tidemark
