// A snapshot as JSON (newer viewers load it) and as a trace for Perfetto.
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "reports/snapshot/analysis.h"

namespace tidemark {
namespace {

constexpr std::size_t kMostText = std::size_t{4} << 30;

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

/// Stacks are written out wherever they are used, as the format wants it; what a hostile file makes
/// of that has an end.
void limit(const std::string& out) {
  if (out.size() > kMostText)
    throw SnapshotError("becomes more than 4 GiB of text: its stacks are too long");
}

class AsJson {
 public:
  explicit AsJson(const Snapshot& snapshot) : s_(snapshot) {
    for (const auto& stack : s_.stacks) {
      std::string text = "[";
      for (std::uint32_t at : stack) {
        const StackFrame& f = s_.frames[at];
        text += fmt::format("{}{{\"filename\":{},\"line\":{},\"name\":{}}}",
                            text.size() > 1 ? "," : "", quoted(f.file), f.line, quoted(f.function));
      }
      stacks_.push_back(text + "]");
    }
  }

  std::string run() {
    out_ = "{\"segments\":[";
    each(s_.segments, [&](const SnapshotSegment& s) { segment(s); });
    out_ += "],\n\"device_traces\":[";
    each(s_.traces, [&](const auto& trace) {
      out_ += "[";
      each(trace, [&](const TraceEvent& e) { event(e); });
      out_ += "]";
    });
    out_ += "],\n\"allocator_settings\":{";
    each(s_.settings,
         [&](const auto& pair) { out_ += quoted(pair.first) + ":" + quoted(pair.second); });
    return out_ + "},\n\"external_annotations\":[]}\n";
  }

 private:
  template <class Items, class Write>
  void each(const Items& items, Write write) {
    const char* comma = "\n";
    for (const auto& item : items) {
      out_ += comma;
      write(item);
      comma = ",\n";
      limit(out_);
    }
  }

  void segment(const SnapshotSegment& s) {
    std::int64_t allocated = 0, active = 0, requested = 0;
    for (const SnapshotBlock& b : s.blocks) {
      if (b.state == BlockState::allocated) allocated += b.size;
      if (b.state != BlockState::inactive) active += b.size, requested += b.requested;
    }
    out_ += fmt::format(
        "{{\"device\":{},\"address\":{},\"total_size\":{},\"allocated_size\":{},\"active_size\":{},"
        "\"requested_size\":{},\"stream\":{},\"segment_type\":{},\"segment_pool_id\":[{},{}],"
        "\"is_expandable\":{},\"frames\":{},\"blocks\":[",
        s.device, s.address, s.total_size, allocated, active, requested, s.stream, quoted(s.type),
        s.pool[0], s.pool[1], s.expandable, stacks_[s.stack]);
    each(s.blocks, [&](const SnapshotBlock& b) {
      out_ += fmt::format(
          "{{\"address\":{},\"size\":{},\"requested_size\":{},\"state\":\"{}\",\"frames\":{}}}",
          b.address, b.size, b.requested, name_of(b.state), stacks_[b.stack]);
    });
    out_ += "]}";
  }

  void event(const TraceEvent& e) {
    const bool oom = e.action == Action::oom;
    out_ += fmt::format(
        "{{\"action\":\"{}\",\"{}\":{},\"size\":{},\"stream\":{},\"time_us\":{},\"frames\":{}}}",
        name_of(e.action), oom ? "device_free" : "addr", oom ? e.device_free : e.address, e.size,
        e.stream, e.time_us, stacks_[e.stack]);
  }

  const Snapshot& s_;
  std::vector<std::string> stacks_;
  std::string out_;
};

class Perfetto {
 public:
  explicit Perfetto(const Snapshot& snapshot) : s_(snapshot) {}

  std::string run() {
    for (const DeviceSummary& d : analyse(s_)) device(d);
    return "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[" + out_ + "\n]}\n";
  }

 private:
  void add(const std::string& event) {
    out_ += out_.empty() ? "\n" : ",\n";
    out_ += event;
    limit(out_);
  }

  void counters(std::size_t pid, std::int64_t time, const Holdings& h) {
    for (const auto& [name, value] :
         {std::pair{"allocated", h.allocated}, {"active", h.active}, {"reserved", h.reserved}})
      add(fmt::format(R"({{"name":"{}","ph":"C","ts":{},"pid":{},"args":{{"bytes":{}}}}})", name,
                      time, pid, value));
  }

  void device(const DeviceSummary& d) {
    add(fmt::format(
        R"({{"name":"process_name","ph":"M","pid":{0},"args":{{"name":"device {0}"}}}})",
        d.device));
    if (d.events == 0) return counters(d.device, 0, d.end);
    const auto& trace = s_.traces[d.device];
    std::map<std::int64_t, std::pair<std::size_t, std::uint32_t>> open;  // address: slice, stack
    for (std::size_t i = 0; i < trace.size(); ++i) {
      const TraceEvent& e = trace[i];
      counters(d.device, e.time_us, d.curve[i]);
      if (e.action == Action::alloc) {
        open[e.address] = {i, e.stack};
        slice('b', d.device, i, e.stack, e);
      } else if (e.action == Action::free_completed) {
        const auto found = open.find(e.address);
        if (found == open.end()) continue;
        slice('e', d.device, found->second.first, found->second.second, e);
        open.erase(found);
      } else if (e.action == Action::oom) {
        add(fmt::format(
            R"({{"name":"out of memory: {} bytes","ph":"i","s":"p","ts":{},"pid":{},"tid":0}})",
            e.size, e.time_us, d.device));
      }
    }
    for (const auto& [address, slice_of] : open)
      slice('e', d.device, slice_of.first, slice_of.second, trace.back());
  }

  void slice(char phase, std::size_t pid, std::size_t id, std::uint32_t stack,
             const TraceEvent& e) {
    std::string event = fmt::format(
        R"({{"name":{},"cat":"allocation","ph":"{}","id":"{}.{}","ts":{},"pid":{},"tid":0)",
        quoted(site_of(s_, stack)), phase, pid, id, e.time_us, pid);
    if (phase == 'b')
      event += fmt::format(R"(,"args":{{"bytes":{},"address":"{:#x}","stream":{}}})", e.size,
                           e.address, e.stream);
    add(event + "}");
  }

  const Snapshot& s_;
  std::string out_;
};

}  // namespace

std::string snapshot_json(const Snapshot& snapshot) { return AsJson(snapshot).run(); }
std::string perfetto(const Snapshot& snapshot) { return Perfetto(snapshot).run(); }

}  // namespace tidemark
