#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "harness/virtual/device/control.h"
#include "harness/virtual/device/engine.h"
#include "harness/virtual/device/names.h"

using namespace tidemark::device;

void tidemark_device_trace(int on) {
  Engine& e = engine();
  std::lock_guard lock(e.mutex);
  e.tracing = on != 0;
  if (on) e.trace.clear();
}

size_t tidemark_device_read_trace(char* text, size_t size) {
  Engine& e = engine();
  std::lock_guard lock(e.mutex);
  std::string all;
  for (const TraceEntry& t : e.trace) {
    const nlohmann::ordered_json line = {{"name", readable(t.name)},
                                         {"stream", t.stream},
                                         {"start", t.start},
                                         {"end", t.end},
                                         {"host", t.host}};
    all += line.dump() + "\n";
  }
  return give_text(all, text, size);
}
