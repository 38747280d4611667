#include "reports/trace.h"

#include <fmt/format.h>

#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "harness/record/json.h"
#include "harness/record/number.h"

namespace tidemark {
namespace {

std::string microseconds(Ns ns) {
  return fmt::format("{}{}.{:03}", ns < 0 ? "-" : "", std::abs(ns / 1000), std::abs(ns % 1000));
}

void add_rank(const RankRecord& rank, std::vector<std::string>& events) {
  events.push_back(fmt::format(
      R"({{"name":"process_name","ph":"M","pid":{0},"args":{{"name":"rank {0}"}}}})", rank.rank));
  for (std::size_t lane = 0; lane < rank.spans.streams.size(); ++lane)
    events.push_back(
        fmt::format(R"({{"name":"thread_name","ph":"M","pid":{},"tid":{},"args":{{"name":{}}}}})",
                    rank.rank, lane + 1, json_quoted(rank.spans.streams[lane])));
  for (const Span& s : rank.spans.all)
    events.push_back(fmt::format(
        R"({{"name":{},"cat":"{}","ph":"X","ts":{},"dur":{},"pid":{},"tid":{},"args":{{"ahead_ns":{}}}}})",
        json_quoted(rank.spans.names.at(s.name)), name_of(s.kind), microseconds(s.begin),
        microseconds(s.end - s.begin), rank.rank, s.stream + 1, s.begin - s.enqueued));
  const Ns end = rank.timeline.empty() ? 0 : rank.timeline.back().time;
  for (std::size_t i = 0; i < rank.phase_starts.size(); ++i) {
    const auto& [name, start] = rank.phase_starts[i];
    const Ns next =
        i + 1 < rank.phase_starts.size() ? rank.phase_starts[i + 1].second : std::max(start, end);
    events.push_back(
        fmt::format(R"({{"name":{},"cat":"phase","ph":"X","ts":{},"dur":{},"pid":{},"tid":0}})",
                    json_quoted(name), microseconds(start), microseconds(next - start), rank.rank));
  }
  for (const Sample& s : rank.timeline) {
    for (const auto& [name, value] :
         {std::pair{"allocated", s.allocated}, {"active", s.active}, {"reserved", s.reserved}}) {
      events.push_back(
          fmt::format(R"({{"name":"{0}","ph":"C","ts":{1},"pid":{2},"args":{{"bytes":{3}}}}})",
                      name, microseconds(s.time), rank.rank, value));
    }
  }
}

}  // namespace

std::string chrome_trace(const VariantRecord& variant) {
  std::vector<std::string> events;
  for (const RankRecord& rank : variant.ranks) add_rank(rank, events);
  return fmt::format("{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n{}\n]}}\n",
                     fmt::join(events, ",\n"));
}

std::string loss_lines(const VariantRecord& variant) {
  std::string out;
  for (const LossPoint& point : variant.loss) {
    if (!point.value) continue;
    out += fmt::format("{} {}\n", point.step, decimal(*point.value));
  }
  return out;
}

}  // namespace tidemark
