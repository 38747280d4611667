#include "harness/virtual/device/known_bytes.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace tidemark::device {

std::vector<KnownBytes::Part> KnownBytes::parts(std::uintptr_t begin, std::uintptr_t end) const {
  if (shared_.empty()) return {{{begin, end}}};
  std::vector<Part> all;
  auto at = shared_.upper_bound(begin);
  if (at != shared_.begin()) --at;
  for (; at != shared_.end() && at->first < end; ++at) {
    const std::uintptr_t first = std::max(begin, at->first),
                         last = std::min(end, at->first + at->second.bytes);
    if (first >= last) continue;
    if (begin < first) all.push_back({{begin, first}});
    all.push_back({{first, last}, at->first, &at->second});
    begin = last;
  }
  if (begin < end) all.push_back({{begin, end}});
  return all;
}

void KnownBytes::add(std::uintptr_t begin, std::uintptr_t end) {
  for (const auto& [range, at, shared] : parts(begin, end)) {
    if (!shared)
      own_.add(range.begin, range.end);
    else if (trusts_shared_)
      std::memset(shared->known + (range.begin - at), 1, range.end - range.begin);
  }
}

void KnownBytes::remove(std::uintptr_t begin, std::uintptr_t end) {
  for (const auto& [range, at, shared] : parts(begin, end)) {
    if (!shared) {
      own_.remove(range.begin, range.end);
      continue;
    }
    // Whole pages go back to the system: most of a model is not known.
    const std::uint64_t first = range.begin - at, last = range.end - at;
    const std::uint64_t page_first = std::min(last, round_up(first, kPage)),
                        page_last = std::max(page_first, last / kPage * kPage);
    std::memset(shared->known + first, 0, page_first - first);
    if (page_first < page_last)
      fallocate(shared->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                static_cast<off_t>(shared->place + page_first),
                static_cast<off_t>(page_last - page_first));
    std::memset(shared->known + page_last, 0, last - page_last);
  }
}

bool KnownBytes::covers(std::uintptr_t begin, std::uintptr_t end) const {
  return std::ranges::all_of(parts(begin, end), [&](const Part& part) {
    const auto& [range, at, shared] = part;
    if (!shared) return own_.covers(range.begin, range.end);
    return trusts_shared_ &&
           std::memchr(shared->known + (range.begin - at), 0, range.end - range.begin) == nullptr;
  });
}

std::vector<ByteSet::Range> KnownBytes::within(std::uintptr_t begin, std::uintptr_t end) const {
  std::vector<ByteSet::Range> ranges;
  for (const auto& [range, at, shared] : parts(begin, end)) {
    if (!shared) {
      const auto own = own_.within(range.begin, range.end);
      ranges.insert(ranges.end(), own.begin(), own.end());
      continue;
    }
    if (!trusts_shared_) continue;
    const unsigned char* const known = shared->known;
    for (std::uint64_t i = range.begin - at; i < range.end - at;) {
      // Pages without anything known are not touched.
      const off_t written = lseek(shared->file, static_cast<off_t>(shared->place + i), SEEK_DATA);
      if (written < 0) break;
      i = std::max(i, static_cast<std::uint64_t>(written) - shared->place);
      if (i >= range.end - at) break;
      if (!known[i]) {
        const std::uint64_t page = std::min(round_up(i + 1, kPage), range.end - at);
        const void* next = std::memchr(known + i, 1, page - i);
        if (!next) {
          i = page;
          continue;
        }
        i = static_cast<std::uint64_t>(static_cast<const unsigned char*>(next) - known);
      }
      const void* gap = std::memchr(known + i, 0, range.end - at - i);
      const std::uint64_t stop =
          gap ? static_cast<std::uint64_t>(static_cast<const unsigned char*>(gap) - known)
              : range.end - at;
      ranges.push_back({at + i, at + stop});
      i = stop;
    }
  }
  return ranges;
}

bool KnownBytes::share(std::uintptr_t begin, std::size_t bytes, int file, std::uint64_t place) {
  if (shared_.contains(begin)) return true;
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file,
                  static_cast<off_t>(place));
  if (at == MAP_FAILED) return false;
  const auto already = own_.within(begin, begin + bytes);
  own_.remove(begin, begin + bytes);
  shared_.emplace(begin, Shared{bytes, static_cast<unsigned char*>(at), file, place});
  for (const auto& [first, last] : already) add(first, last);
  return true;
}

void KnownBytes::unshare(std::uintptr_t begin) {
  const auto shared = shared_.find(begin);
  if (shared == shared_.end()) return;
  munmap(shared->second.known, shared->second.bytes);
  shared_.erase(shared);
}

}  // namespace tidemark::device
