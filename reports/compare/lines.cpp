#include "reports/compare/lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "harness/record/scan.h"

namespace tidemark {
namespace {

/// A line of a program, as "forward model.py:9" names it.
struct CodeLine {
  std::string function, file;
  std::int64_t number = 0;
  std::string text;                 // empty: not known
  Bytes bytes = 0;                  // alive of it
  std::size_t symbol = 0;           // equal of lines with the same function and text; 0: no text
  const CodeLine* other = nullptr;  // its pair
  auto key() const { return std::tie(file, number, function); }
  std::string name() const { return fmt::format("{} {}:{}", function, file, number); }
};

/// The line of a site, without the node of autograd that may follow it: "(MmBackward0)".
std::optional<CodeLine> line_of(std::string_view site) {
  if (site.ends_with(')')) site = site.substr(0, site.rfind(" ("));
  const std::size_t space = site.find(' '), colon = site.rfind(':');
  if (space == std::string_view::npos || colon == std::string_view::npos || colon < space)
    return std::nullopt;
  Scan scan(site.substr(colon + 1));
  const auto number = scan.number(9);
  if (!number || *number < 1 || !scan.done()) return std::nullopt;
  CodeLine out;
  out.function = site.substr(0, space);
  out.file = site.substr(space + 1, colon - space - 1);
  out.number = *number;
  return out;
}

using CodeLines = std::vector<CodeLine*>;

/// All lines, by file and number.
std::vector<CodeLine> lines_in(const AliveAtPeak& alive) {
  std::map<std::tuple<std::string, std::int64_t, std::string>, CodeLine> all;
  for (const AlivePart& part : alive.parts)
    if (auto line = line_of(part.site)) {
      line->text = part.source;
      CodeLine& kept =
          all.try_emplace({line->file, line->number, line->function}, *line).first->second;
      kept.bytes += part.bytes;
    }
  std::vector<CodeLine> out;
  for (auto& [key, line] : all) out.push_back(std::move(line));
  return out;
}

/// Those that have no pair yet, by file.
std::map<std::string, CodeLines> open_by_file(std::vector<CodeLine>& lines) {
  std::map<std::string, CodeLines> out;
  for (CodeLine& line : lines)
    if (line.other == nullptr) out[line.file].push_back(&line);
  return out;
}

void join(CodeLine& a, CodeLine& b) { a.other = &b, b.other = &a; }

bool are_equal(const CodeLine& a, const CodeLine& b) {
  return a.symbol > 0 && a.symbol == b.symbol;
}

void give_symbols(std::vector<CodeLine>& before, std::vector<CodeLine>& after) {
  std::map<std::pair<std::string, std::string>, std::size_t> symbols;
  for (std::vector<CodeLine>* lines : {&before, &after})
    for (CodeLine& line : *lines)
      if (!line.text.empty())
        line.symbol =
            symbols.try_emplace({line.function, line.text}, symbols.size() + 1).first->second;
}

/// How far the lines of `b` have moved: the median over lines that both files have equally often.
std::int64_t shift_of(const CodeLines& a, const CodeLines& b) {
  std::map<std::size_t, std::pair<CodeLines, CodeLines>> by_symbol;
  for (CodeLine* line : a) by_symbol[line->symbol].first.push_back(line);
  for (CodeLine* line : b) by_symbol[line->symbol].second.push_back(line);
  std::vector<std::int64_t> shifts;
  for (const auto& [symbol, lines] : by_symbol)
    if (symbol > 0 && lines.first.size() == lines.second.size())
      for (std::size_t i = 0; i < lines.first.size(); ++i)
        shifts.push_back(lines.second[i]->number - lines.first[i]->number);
  if (shifts.empty()) return 0;
  const auto middle = shifts.begin() + std::ssize(shifts) / 2;
  std::ranges::nth_element(shifts, middle);
  return *middle;
}

/// Pairs as many equal lines as the order of both files allows; of equal choices the one whose
/// lines have as many bytes, or have moved as the others.
void pair_in_order(const CodeLines& a, const CodeLines& b) {
  constexpr std::int64_t kPair = 1 << 24;  // worth of a pair: above all that can be lost by moves
  constexpr std::int64_t kFar = 1 << 10;
  const std::size_t rows = a.size() + 1, columns = b.size() + 1;
  const std::int64_t shift = shift_of(a, b);
  std::vector<std::int64_t> best(rows * columns);
  const auto at = [&](std::size_t i, std::size_t k) -> std::int64_t& {
    return best[i * columns + k];
  };
  const auto worth = [&](std::size_t i, std::size_t k) -> std::int64_t {
    if (!are_equal(*a[i], *b[k])) return -1;
    return kPair + (a[i]->bytes == b[k]->bytes ? 2 * kFar : 0) -
           std::min(std::abs(b[k]->number - a[i]->number - shift), kFar);
  };
  for (std::size_t i = a.size(); i-- > 0;)
    for (std::size_t k = b.size(); k-- > 0;) {
      at(i, k) = std::max(at(i + 1, k), at(i, k + 1));
      if (const std::int64_t one = worth(i, k); one > 0)
        at(i, k) = std::max(at(i, k), at(i + 1, k + 1) + one);
    }
  for (std::size_t i = 0, k = 0; i < a.size() && k < b.size();) {
    const std::int64_t one = worth(i, k);
    if (one > 0 && at(i, k) == at(i + 1, k + 1) + one)
      join(*a[i++], *b[k++]);
    else if (at(i, k) == at(i + 1, k))
      ++i;
    else
      ++k;
  }
}

/// Pairs files of one name, then those with most lines in common: a file that was renamed.
std::vector<std::pair<CodeLines, CodeLines>> file_pairs(std::vector<CodeLine>& before,
                                                        std::vector<CodeLine>& after) {
  std::map<std::string, CodeLines> a = open_by_file(before), b = open_by_file(after);
  std::vector<std::pair<CodeLines, CodeLines>> out;
  for (auto& [name, lines] : a)
    if (const auto match = b.find(name); match != b.end()) {
      out.emplace_back(std::move(lines), std::move(match->second));
      b.erase(match);
    }
  for (const auto& [lines, others] : out) a.erase(lines.front()->file);
  for (auto& [name, lines] : a) {
    auto most = b.end();
    std::ptrdiff_t common = 0;
    for (auto one = b.begin(); one != b.end(); ++one) {
      const auto count = std::ranges::count_if(lines, [&](const CodeLine* line) {
        return std::ranges::any_of(one->second,
                                   [&](const CodeLine* x) { return are_equal(*line, *x); });
      });
      if (count > common) common = count, most = one;
    }
    if (most == b.end()) continue;
    out.emplace_back(std::move(lines), std::move(most->second));
    b.erase(most);
  }
  return out;
}

/// Pairs what is left by function and text, wherever it stands: a function that was moved.
void pair_anywhere(std::vector<CodeLine>& before, std::vector<CodeLine>& after) {
  for (CodeLine& a : before)
    for (CodeLine& b : after)
      if (a.other == nullptr && b.other == nullptr && are_equal(a, b)) join(a, b);
}

/// Pairs lines whose text has changed: those between the same pairs, where both files have as many
/// of a function.
void pair_changed(const CodeLines& a, const CodeLines& b) {
  using Gap = std::tuple<const CodeLine*, std::string>;  // the pair before it, and the function
  std::map<Gap, std::pair<CodeLines, CodeLines>> gaps;
  const CodeLine* before = nullptr;
  for (CodeLine* line : a) {
    if (line->other != nullptr)
      before = line;
    else if (line->symbol > 0)
      gaps[{before, line->function}].first.push_back(line);
  }
  before = nullptr;
  for (CodeLine* line : b) {
    if (line->other != nullptr)
      before = line->other;
    else if (line->symbol > 0)
      gaps[{before, line->function}].second.push_back(line);
  }
  for (const auto& [gap, lines] : gaps)
    if (lines.first.size() == lines.second.size())
      for (std::size_t i = 0; i < lines.first.size(); ++i) join(*lines.first[i], *lines.second[i]);
}

}  // namespace

AliveAtPeak at_lines_of(AliveAtPeak before, const AliveAtPeak& after) {
  constexpr std::size_t kMost = 1 << 22;  // comparisons of two lines; no program has so many
  std::vector<CodeLine> old_lines = lines_in(before), new_lines = lines_in(after);
  if (old_lines.empty() || new_lines.size() > kMost / old_lines.size()) return before;
  give_symbols(old_lines, new_lines);
  for (CodeLine& a : old_lines)
    for (CodeLine& b : new_lines)
      if ((a.text.empty() || b.text.empty()) && a.key() == b.key()) join(a, b);
  const auto both = file_pairs(old_lines, new_lines);
  for (const auto& [a, b] : both) pair_in_order(a, b);
  pair_anywhere(old_lines, new_lines);
  for (const auto& [a, b] : both) pair_changed(a, b);
  std::set<std::string> taken;
  for (const CodeLine& line : new_lines) taken.insert(line.name());
  std::map<std::string, std::string> names;
  for (const CodeLine& line : old_lines) {
    std::string& name = names[line.name()];
    name = line.other != nullptr ? line.other->name() : line.name();
    if (line.other == nullptr && taken.contains(name)) name += " as it was";  // another one now
  }
  for (AlivePart& part : before.parts)
    if (const auto line = line_of(part.site))
      part.site.replace(0, line->name().size(), names.at(line->name()));
  return before;
}

}  // namespace tidemark
