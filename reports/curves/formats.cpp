// The table of formats, and the logs of trainers.
#include "reports/curves/formats.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace tidemark {
namespace {

constexpr std::size_t kLooked = 1 << 16;  // bytes in which a format shows

/// Lines of a trainer's log that hold numbers: the text before the step, and what parts a field
/// "name: value" from the one before it.
struct LogPattern {
  std::string_view step;
  char between;
};
constexpr LogPattern kTorchtitan{"step:", ' '},  // "step: 10  loss:  7.9823  grad_norm: 1.2  ..."
    kMegatron{" iteration ", '|'};  // " iteration  10/  100 | ... | lm loss: 7.982300E+00 | ..."

/// Without the colours of a terminal.
std::string plain(std::string_view line) {
  std::string out;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\x1b')
      i = std::min(line.find('m', i), line.size());
    else
      out += line[i];
  }
  return out;
}

std::string_view word_at(std::string_view text, std::size_t from) {
  from = std::min(text.find_first_not_of(' ', from), text.size());
  return text.substr(from, text.find_first_of(" |/\r", from) - from);
}

/// Empty where the line is another message.
Record fields_of(const LogPattern& pattern, std::string_view coloured) {
  const std::string line = plain(coloured);
  const auto mark = line.find(pattern.step);
  if (mark == std::string::npos) return {};
  const std::size_t from = mark + pattern.step.size();
  const std::string_view step = word_at(line, from);
  if (step.empty() || step.find_first_not_of("0123456789") != std::string_view::npos) return {};
  // torchtitan logs validation in lines of their own.
  const bool validates = std::string_view(line).substr(0, mark).ends_with("validate ");
  Record record{{"step", std::string(step)}};
  for (auto colon = line.find(':', from); colon != std::string::npos;
       colon = line.find(':', colon + 1)) {
    auto begin = line.rfind(pattern.between, colon);
    begin = begin == std::string::npos ? from : std::max(begin + 1, from);
    begin = std::min(line.find_first_not_of(' ', begin), colon);
    record.emplace_back((validates ? "validate " : "") + line.substr(begin, colon - begin),
                        word_at(line, colon + 1));
  }
  return record.size() > 1 ? record : Record{};
}

template <const LogPattern& pattern>
bool fits_log(std::string_view text, std::string_view first) {
  if (first.starts_with('{')) return false;
  bool any = false;
  each_line(text.substr(0, kLooked), [&](std::string_view line, const std::string&) {
    any = any || std::ranges::any_of(fields_of(pattern, line), [](const auto& field) {
            return field.first.find("loss") != std::string::npos;
          });
  });
  return any;
}

template <const LogPattern& pattern>
void read_log(std::string_view text, Points& points) {
  each_line(text, [&](std::string_view line, const std::string& place) {
    const Record record = fields_of(pattern, line);
    if (!record.empty()) points.add(record, place);
  });
}

bool opens_json(std::string_view first) { return first.starts_with('{') || first.starts_with('['); }

/// A line that is an object of its own, with more after it, is the first of many.
bool fits_lines(std::string_view text, std::string_view first) {
  return first.starts_with('{') && text.size() > text.find(first) + first.size() + 1 &&
         nlohmann::json::accept(with_quoted_numbers(first));
}

/// A tab parts words like any white space, but in a header, whose names may hold spaces.
bool fits_csv(std::string_view, std::string_view first) {
  const bool header =
      !first.empty() && std::string_view("+-.0123456789").find(first[0]) == std::string_view::npos;
  return first.find_first_of(header ? ",;\t" : ",;") != std::string_view::npos;
}

}  // namespace

const std::vector<CurveFormat>& curve_format_table() {
  static const std::vector<CurveFormat> all{
      {"tensorboard", [](auto text, auto) { return holds_events(text); }, read_events},
      {"report",
       [](auto text, auto) {
         return text.substr(0, 4096).find("\"tidemark/report\"") != std::string_view::npos;
       },
       read_report},
      {"torchtitan", fits_log<kTorchtitan>, read_log<kTorchtitan>},
      {"megatron", fits_log<kMegatron>, read_log<kMegatron>},
      {"jsonl", fits_lines, read_json_lines},
      {"json", [](auto, auto first) { return opens_json(first); }, read_json_value},
      {"csv", fits_csv, [](auto text, Points& points) { read_table(text, points, true); }},
      {"text", [](auto, auto) { return true; },
       [](auto text, Points& points) { read_table(text, points, false); }}};
  return all;
}

void each_line(std::string_view text,
               const std::function<void(std::string_view line, const std::string& place)>& use) {
  int number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find('\n', at), text.size());
    use(text.substr(at, end - at), "line " + std::to_string(++number));
    at = end + 1;
  }
}

}  // namespace tidemark
