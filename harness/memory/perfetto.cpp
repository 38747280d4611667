// A snapshot as a trace for Perfetto.
#include <fmt/format.h>

#include <map>

#include "harness/memory/analysis.h"
#include "harness/memory/site.h"
#include "harness/record/json.h"

namespace tidemark {
namespace {

class Perfetto {
 public:
  Perfetto(const Snapshot& snapshot, const Put& put) : s_(snapshot), out_(put) {}

  void run() {
    out_ += "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[";
    for (const DeviceSummary& d : analyse(s_)) device(d);
    out_ += "\n]}\n";
    out_.finish();
  }

 private:
  void add(const std::string& event) {
    out_ += comma_;
    out_ += event;
    comma_ = ",\n";
    limit_text(out_.size());
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
      const AllocatorEvent& e = trace[i];
      counters(d.device, e.time / 1000, d.curve[i]);
      if (e.action == AllocatorAction::alloc) {
        open[e.address] = {i, e.stack};
        slice('b', d.device, i, e.stack, e);
      } else if (e.action == AllocatorAction::free_completed) {
        const auto opened = open.find(e.address);
        if (opened == open.end()) continue;
        slice('e', d.device, opened->second.first, opened->second.second, e);
        open.erase(opened);
      } else if (e.action == AllocatorAction::oom) {
        add(fmt::format(
            R"({{"name":"out of memory: {} bytes","ph":"i","s":"p","ts":{},"pid":{},"tid":0}})",
            e.size, e.time / 1000, d.device));
      }
    }
    for (const auto& [address, slice_of] : open)
      slice('e', d.device, slice_of.first, slice_of.second, trace.back());
  }

  void slice(char phase, std::size_t pid, std::size_t id, std::uint32_t stack,
             const AllocatorEvent& e) {
    std::string event = fmt::format(
        R"({{"name":{},"cat":"allocation","ph":"{}","id":"{}.{}","ts":{},"pid":{},"tid":0)",
        json_quoted(site_of(s_, stack)), phase, pid, id, e.time / 1000, pid);
    if (phase == 'b')
      event += fmt::format(R"(,"args":{{"bytes":{},"address":"{:#x}","stream":{}}})", e.size,
                           e.address, e.stream);
    add(event + "}");
  }

  const Snapshot& s_;
  GrowingText out_;
  const char* comma_ = "\n";  // before the next event
};

}  // namespace

void write_perfetto(const Snapshot& snapshot, const Put& put) { Perfetto(snapshot, put).run(); }

std::string perfetto(const Snapshot& snapshot) {
  return whole([&](const Put& put) { write_perfetto(snapshot, put); });
}

}  // namespace tidemark
