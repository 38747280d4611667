#include "harness/memory/edit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <set>
#include <stdexcept>
#include <unordered_map>
#include <unordered_set>

#include "harness/memory/walk.h"
#include "harness/record/one_line.h"

namespace tidemark {
namespace {

using What = AllocatorRequest::What;

[[noreturn]] void refuse(const std::string& text) {
  throw std::runtime_error(
      fmt::format("--edit '{}' is not FILE:LINE xFACTOR or FILE:LINE until backward, as in "
                  "'model.py:88 x0.5'",
                  one_line(text)));
}

template <class Number>
bool read(const std::string& text, Number& number) {
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && at == end;
}

bool is_in(const std::string& path, const std::string& file) {
  return path.ends_with(file) && (path.size() == file.size() || file.starts_with('/') ||
                                  path[path.size() - file.size() - 1] == '/' ||
                                  path[path.size() - file.size() - 1] == '\\');
}

/// Stacks that come through the line. Throws where none does.
std::unordered_set<std::uint32_t> stacks_of(const Edit& edit, const Snapshot& s,
                                            const std::vector<AllocatorRequest>& requests) {
  std::unordered_set<std::uint32_t> out, seen;
  std::map<std::int64_t, int> lines;  // of the file
  for (const AllocatorRequest& one : requests) {
    if (one.what != What::take || !seen.insert(one.stack).second) continue;
    for (const std::uint32_t at : s.stacks[one.stack]) {
      const StackFrame& frame = s.frames[at];
      if (!is_in(frame.file, edit.file)) continue;
      ++lines[frame.line];
      if (frame.line == edit.line) out.insert(one.stack);
    }
  }
  if (!out.empty()) return out;
  if (lines.empty())
    throw SnapshotError(fmt::format("has no allocation that comes through {} (--edit '{}')",
                                    one_line(edit.file), one_line(edit.text)));
  std::vector<std::int64_t> near;
  for (const auto& [line, count] : lines) near.push_back(line);
  std::ranges::stable_sort(near, {}, [&](std::int64_t line) { return std::abs(line - edit.line); });
  near.resize(std::min<std::size_t>(near.size(), 8));
  std::ranges::sort(near);
  throw SnapshotError(
      fmt::format("has no allocation that comes through {}:{}, but through its lines {} (--edit)",
                  one_line(edit.file), edit.line, fmt::join(near, ", ")));
}

/// Events with which the backwards of a device begin, ascending.
std::vector<std::size_t> backwards(const Snapshot& s, std::size_t device) {
  std::set<ProgramPhase::Moment> begins;
  for (const ProgramPhase& phase : s.phases)
    if (static_cast<std::size_t>(phase.device) == device && phase.name == "backward")
      begins.insert(phase.begin);
  std::vector<std::size_t> out;
  if (begins.erase(ProgramPhase::Moment()) > 0) out.push_back(0);
  for (TraceWalk walk(s.traces[device]); walk.next();)
    if (walk.moved() && begins.erase(walk.moment()) > 0) out.push_back(walk.place() + 1);
  return out;
}

void give_back_early(const Edit& edit, const Snapshot& s, std::size_t device,
                     const std::unordered_set<std::uint32_t>& stacks, Workload& workload) {
  const std::vector<std::size_t> begins = backwards(s, device);
  if (begins.empty())
    throw SnapshotError(fmt::format("shows no backward (--edit '{}')", one_line(edit.text)));
  std::unordered_map<std::size_t, std::size_t> early;  // of a block: the backward's first event
  for (const AllocatorRequest& one : workload.requests) {
    if (one.what != What::take || !stacks.contains(one.stack)) continue;
    const auto next = std::ranges::lower_bound(begins, one.event);
    if (next != begins.end()) early[one.block] = *next;
  }
  // A block that is freed before that is left as it is.
  for (const AllocatorRequest& one : workload.requests)
    if (one.what == What::free || one.what == What::come_back)
      if (const auto at = early.find(one.block); at != early.end() && one.event < at->second)
        early.erase(at);
  std::vector<AllocatorRequest> given;
  std::vector<AllocatorRequest> kept;
  for (AllocatorRequest& one : workload.requests) {
    const auto at = one.block == SIZE_MAX ? early.end() : early.find(one.block);
    if (at != early.end() && one.what == What::take) {
      given.push_back(one);
      given.back().what = What::come_back, given.back().event = at->second;
    }
    if (at == early.end() || one.what == What::take) kept.push_back(one);
  }
  std::ranges::stable_sort(given, {}, &AllocatorRequest::event);
  std::vector<AllocatorRequest> all;
  all.reserve(kept.size() + given.size());
  std::ranges::merge(given, kept, std::back_inserter(all), {}, &AllocatorRequest::event,
                     &AllocatorRequest::event);
  workload.requests = std::move(all);
}

}  // namespace

Edit parse_edit(const std::string& text) {
  const std::size_t space = text.find(' ');
  const std::size_t colon = text.rfind(':', space);
  if (space == std::string::npos || colon == std::string::npos || colon == 0) refuse(text);
  Edit out{.text = text, .file = text.substr(0, colon)};
  if (!read(text.substr(colon + 1, space - colon - 1), out.line) || out.line < 1) refuse(text);
  const std::string change = text.substr(space + 1);
  out.until_backward = change == "until backward";
  if (out.until_backward) return out;
  const bool is_factor = change.starts_with('x') && read(change.substr(1), out.factor);
  if (!is_factor || !std::isfinite(out.factor) || out.factor <= 0 || out.factor > 1000)
    refuse(text);
  return out;
}

Edited apply(const Edit& edit, const Snapshot& snapshot, std::size_t device, Workload& workload) {
  const auto stacks = stacks_of(edit, snapshot, workload.requests);
  Edited out;
  for (AllocatorRequest& one : workload.requests) {
    const bool asks = one.what == What::take || one.what == What::refused;
    if (!asks || !stacks.contains(one.stack)) continue;
    if (one.what == What::take) ++out.blocks, out.bytes += one.bytes;
    const double bytes = std::ceil(static_cast<double>(one.bytes) * edit.factor);
    one.bytes = std::max<Bytes>(1, static_cast<Bytes>(std::min(bytes, 1e15)));
  }
  if (edit.until_backward) give_back_early(edit, snapshot, device, stacks, workload);
  return out;
}

}  // namespace tidemark
