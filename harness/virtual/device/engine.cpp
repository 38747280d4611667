#include "harness/virtual/device/engine.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

#include "harness/memory/format/format.h"
#include "harness/virtual/device/immortal.h"
#include "harness/virtual/device/memory.h"
#include "harness/virtual/device/race_detector.h"
#include "harness/virtual/device/setting_words.h"

namespace tidemark::device {
namespace {

constexpr std::uintptr_t kFirstHandle = 0x10000;

const char* environment(const char* name) {
  const char* value = std::getenv(name);
  return value && *value ? value : nullptr;
}

[[noreturn]] void refuse(const char* name, const char* expected) {
  throw std::runtime_error(std::string(name) + "=" + std::getenv(name) + ": " + expected);
}

std::uint64_t number(const char* name, std::uint64_t otherwise, std::int64_t least,
                     std::int64_t most, const char* expected) {
  const char* text = environment(name);
  if (!text) return otherwise;
  char* end = nullptr;
  const std::uint64_t value = std::strtoull(text, &end, 10);
  if (*end || value < static_cast<std::uint64_t>(least) || value > static_cast<std::uint64_t>(most))
    refuse(name, expected);
  return value;
}

/// The value, which is one of `words`; `otherwise` without the variable.
std::string_view choice(const char* name, const auto& words, const char* otherwise,
                        const char* expected) {
  const char* text = environment(name);
  const std::string_view value = text ? text : otherwise;
  if (std::find(words.begin(), words.end(), value) == words.end()) refuse(name, expected);
  return value;
}

// TIDEMARK_DEVICES, and CUDA_VISIBLE_DEVICES as far as it can matter: empty or -1 hides all, a list
// of k names k devices.
int visible_devices() {
  const auto asked =
      static_cast<int>(number("TIDEMARK_DEVICES", 1, 0, kMostDevices, kDevicesExpected.c_str()));
  const char* list = std::getenv("CUDA_VISIBLE_DEVICES");
  if (!list) return asked;
  if (!*list || std::strcmp(list, "-1") == 0 || std::strcmp(list, "NoDevFiles") == 0) return 0;
  const auto commas = std::count(list, list + std::strlen(list), ',');
  const int named = 1 + static_cast<int>(std::min<std::ptrdiff_t>(commas, recorder::kDevices - 1));
  return environment("TIDEMARK_DEVICES") ? std::min(asked, named) : named;
}

thread_local std::vector<Stream*> per_thread_streams;

}  // namespace

int& current_device() {
  thread_local int device = 0;
  return device;
}

Engine& engine() { return immortal<Engine>(); }

Engine::Engine() {
  try {
    const char* gpu = environment("TIDEMARK_GPU");
    profile = load_profile(gpu ? gpu : "h100-80g");
    if (const char* name = environment("TIDEMARK_SCHEDULE"); name && !set_schedule(name))
      refuse("TIDEMARK_SCHEDULE", "expected instant, calibrated, lagging or random");
    if (const char* text = environment("TIDEMARK_SEED")) seed = std::strtoull(text, nullptr, 10);
    capacity_override = number("TIDEMARK_CAPACITY", 0, 1, kMostBytes, "expected bytes, above 0");
    if (environment("TIDEMARK_RESERVE"))
      reserve = number("TIDEMARK_RESERVE", 0, 0, kMostBytes, "expected bytes, or 0");
    const std::string_view mode = choice("TIDEMARK_MODE", kModeWords, "shapes", kModeExpected);
    data = mode == "math" ? Data::all : mode == "known" ? Data::known : Data::none;
    known_limit =
        number("TIDEMARK_KNOWN_LIMIT", kKnownLimit, 0, kMostBytes, "expected bytes, or 0");
    unknown_accepted =
        choice("TIDEMARK_UNKNOWN", kUnknownWords, "refuse", kUnknownExpected) == "nan";
    if (const char* text = environment("CUDA_SCALE_LAUNCH_QUEUES"))
      for (const auto& [word, size] : {std::pair{"0.25x", kLaunchQueue / 4},
                                       {"0.5x", kLaunchQueue / 2},
                                       {"2x", kLaunchQueue * 2},
                                       {"4x", kLaunchQueue * 4}})
        if (std::string_view(text) == word) launch_queue = size;  // CUDA ignores all others
    const char* placement = environment("TIDEMARK_PLACEMENT");
    devices = visible_devices();
    for (int d = 0; d < devices; ++d) {
      add_stream(d, 0, 0, false).legacy = true;
      memory.push_back(new DeviceMemory(d, devices, placement ? placement : "linux"));
    }
    set_memory();
  } catch (const std::exception& e) {
    const bool memory_ended = dynamic_cast<const std::bad_alloc*>(&e) != nullptr;
    error = memory_ended ? "the host has no memory left" : e.what();
    devices = 0;
    std::fprintf(stderr, "tidemark: no virtual device: %s\n", error.c_str());
    break_context(cudaErrorInitializationError);
  }
}

void Engine::set_memory() {
  for (DeviceMemory* one : memory) {
    one->capacity = capacity_override ? capacity_override : profile.memory_bytes;
    const bool known = reserve || capacity_override;  // a program can have what the user says
    one->outside = reserve ? *reserve : known ? 0 : profile.outside();
    one->for_nccl = known ? 0 : static_cast<std::size_t>(profile.nccl_bytes);
    if (one->outside >= one->capacity)
      throw std::runtime_error("TIDEMARK_RESERVE=" + std::to_string(one->outside) +
                               " leaves nothing of " + std::to_string(one->capacity) + " bytes");
  }
}

bool Engine::set_schedule(std::string_view name) {
  const auto match = std::find(kScheduleWords.begin(), kScheduleWords.end(), name);
  if (match == kScheduleWords.end()) return false;
  schedule = static_cast<Schedule>(match - kScheduleWords.begin());
  return true;
}

const char* Engine::schedule_name() const {
  return kScheduleWords[static_cast<std::size_t>(schedule)];
}

// By the number of the draw alone (splitmix64), in whole numbers: the same on every machine.
Ns Engine::drawn(Ns duration) {
  if (schedule != Schedule::random) return duration;
  std::uint64_t x = (seed + 1) * 0x9e3779b97f4a7c15u + ++draws * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  x ^= x >> 31;
  const unsigned shape = x % 16;
  const auto fraction = static_cast<Ns>((x >> 8) % 256);
  if (shape == 0) return 0;
  // Octaves of equal weight, a sixteenth of the operations beyond all the others.
  const unsigned octave =
      shape == 15 ? 12 : static_cast<unsigned>((x >> 20) % 11);  // 6 is the profile's
  return ((duration << octave) >> 6) * (256 + fraction) / 256;
}

Stream* Engine::find(StreamHandle handle) {
  const auto value = reinterpret_cast<std::uintptr_t>(handle);
  const auto device = static_cast<std::size_t>(current_device());
  if (value <= 1) return devices > 0 ? &streams[device] : nullptr;
  if (value == 2) {
    if (devices == 0) return nullptr;
    per_thread_streams.resize(static_cast<std::size_t>(devices));
    Stream*& mine = per_thread_streams[device];
    if (!mine) {
      mine = &add_stream(current_device(), 0, 0, true);
      mine->handle = handle;
    }
    return mine;
  }
  const std::uintptr_t index = (value - kFirstHandle) / 16;
  if (value < kFirstHandle || value % 16 != 0 || index >= streams.size()) return nullptr;
  Stream& s = streams[index];
  return s.destroyed || s.handle != handle ? nullptr : &s;
}

Stream& Engine::add_stream(int device, int priority, unsigned flags, bool blocking) {
  Stream s;
  s.index = static_cast<std::uint32_t>(streams.size());
  s.device = device;
  s.priority = priority;
  s.flags = flags;
  s.blocking = blocking;
  s.handle = reinterpret_cast<StreamHandle>(kFirstHandle + 16ull * s.index);
  Stream& made = streams.emplace_back(std::move(s));
  if (blocking) blocking_streams.push_back(&made);
  return made;
}

void Engine::order_after(Stream& s, const Mark& after) {
  s.clock.merge(after.clock);
  s.tail = std::max(s.tail, after.time);
}

void Engine::apply_default_stream_rules(Stream& s) {
  if (s.legacy) {
    for (const Stream* other : blocking_streams) {
      if (other->device != s.device) continue;
      s.clock.merge(other->clock);
      s.tail = std::max(s.tail, other->tail);
    }
  } else if (s.blocking) {
    const Stream& other = legacy(s.device);
    s.clock.merge(other.clock);
    s.tail = std::max(s.tail, other.tail);
  }
}

void Engine::await_queue(const Stream& s) {
  if (s.launched >= launch_queue) now = std::max(now, s.queue[s.launched % launch_queue]);
}

void Engine::launched(Stream& s) {
  if (s.queue.size() < launch_queue)
    s.queue.push_back(s.tail);
  else
    s.queue[s.launched % launch_queue] = s.tail;
  ++s.launched;
}

Ns Engine::append(Stream& s, Ns duration, std::string_view name, Kind kind, const Work& work) {
  await_queue(s);
  const Ns start = put(s, duration, name, kind, work);
  launched(s);
  return start;
}

Ns Engine::put(Stream& s, Ns duration, std::string_view name, Kind kind, const Work& work) {
  apply_default_stream_rules(s);
  const Ns start = std::max(s.tail, now);
  s.tail = start + drawn(duration);
  s.clock.raise(s.index, ++s.count);
  ++appended;
  if (s.number == 0 && !s.legacy) s.number = ++numbered;
  if (race::is_on()) race::appended(s.index);
  unready_polls = 0;
  if (tracing || profiled.load(std::memory_order_relaxed) != 0)
    trace_entry(s,
                {trace_names.of(name), s.index, start, s.tail, now, kind, s.count,
                 trace_names.of(current_operator())},
                work);
  return start;
}

void Engine::trace_entry(const Stream& s, const TraceEntry& entry, const Work& work) {
  if (tracing && trace_most != 0 && trace.size() >= trace_most) {
    trace_left_out += trace.size();
    trace.clear();
  }
  if (tracing) trace.push_back(entry);
  note_operation(entry, s.device, s.legacy ? 0 : s.index, work);
}

std::string Engine::name_of(std::uint32_t index) {
  if (index == kHostLane) return "host";
  Stream& s = streams[index];
  std::string text = "default stream";
  if (!s.legacy) {
    if (s.number == 0) s.number = ++numbered;
    text = "stream " + std::to_string(s.number);
    if (s.priority < 0) text += " (high priority)";
  }
  return devices > 1 ? text + " of device " + std::to_string(s.device) : text;
}

void Engine::forget_numbers() {
  numbered = 0;
  for (Stream& s : streams) s.number = 0;
}

Mark Engine::mark(Stream& s) {
  apply_default_stream_rules(s);
  return {s.clock, s.tail};
}

Mark Engine::mark_all(int device) {
  Mark all;
  for (const Stream& s : streams) {
    if (device >= 0 && s.device != device) continue;
    all.clock.merge(s.clock);
    all.time = std::max(all.time, s.tail);
  }
  return all;
}

bool Engine::is_done(const Mark& m) const {
  switch (schedule) {
    case Schedule::instant:
      return true;
    case Schedule::calibrated:
    case Schedule::random:
      return m.time <= now;
    case Schedule::lagging:
      return done.covers(m.clock);
  }
  return false;
}

void Engine::complete(const Mark& m) {
  now = std::max(now, m.time);
  learn(m);
}

void Engine::learn(const Mark& m) {
  done.merge(m.clock);
  if (schedule == Schedule::lagging) ++news;
  if (race::is_on()) race::host_learned(m.clock);
}

}  // namespace tidemark::device
