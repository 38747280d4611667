#include "reports/trace.h"

#include <fmt/format.h>
#include <zlib.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

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

std::string gzip(const std::string& bytes) {
  z_stream stream{};
  constexpr int kWithGzipHeader = 15 + 16;  // a header without name and time
  if (deflateInit2(&stream, 6, Z_DEFLATED, kWithGzipHeader, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
    throw std::runtime_error("zlib cannot start: out of memory?");
  }
  std::string out(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int result = deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  if (result != Z_STREAM_END) throw std::runtime_error("zlib cannot compress a trace");
  return out;
}

std::optional<std::string> gunzip(std::string_view packed, std::size_t most) {
  z_stream stream{};
  if (inflateInit2(&stream, 15 + 16) != Z_OK) throw std::runtime_error("zlib cannot start");
  const auto end = [](z_stream* of) { inflateEnd(of); };
  const std::unique_ptr<z_stream, decltype(end)> ends(&stream, end);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  std::string out, part(1 << 20, '\0');
  int result = Z_OK;
  while (result == Z_OK && out.size() <= most) {
    stream.next_out = reinterpret_cast<Bytef*>(part.data());
    stream.avail_out = static_cast<uInt>(part.size());
    result = inflate(&stream, Z_NO_FLUSH);
    out.append(part, 0, part.size() - stream.avail_out);
  }
  if (result != Z_STREAM_END && out.size() <= most) return std::nullopt;
  return out;
}

std::string json_quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

}  // namespace tidemark
