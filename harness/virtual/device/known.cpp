#include "harness/virtual/device/known.h"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "harness/virtual/device/control.h"
#include "harness/virtual/device/engine.h"
#include "harness/virtual/device/immortal.h"
#include "harness/virtual/device/known_bytes.h"
#include "harness/virtual/device/memory.h"
#include "harness/virtual/device/memory_use.h"
#include "harness/virtual/device/refusal.h"
#include "harness/virtual/device/shared.h"

namespace tidemark::device {

namespace {

struct Known {
  std::mutex mutex;  // the engine's may be held; nothing is called while it is
  KnownBytes bytes;
  std::map<std::uintptr_t, std::uintptr_t> blocks;  // of the caching allocator: end by begin
};
Known& known() { return immortal<Known>(); }

std::uintptr_t place_of(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

// Reads memory that may not be there: how many bytes came.
std::size_t read_safely(const void* from, void* to, std::size_t bytes) {
  const iovec local{to, bytes}, remote{const_cast<void*>(from), bytes};
  const ssize_t got = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
  return got < 0 ? 0 : static_cast<std::size_t>(got);
}

// The block of the caching allocator around the address, or the allocation of the program.
bool block_around(std::uintptr_t address, std::uintptr_t* begin, std::uintptr_t* end) {
  {
    Known& k = known();
    const std::lock_guard lock(k.mutex);
    const auto after = k.blocks.upper_bound(address);
    if (after != k.blocks.begin() && std::prev(after)->second > address) {
      *begin = std::prev(after)->first;
      *end = std::prev(after)->second;
      return true;
    }
  }
  std::size_t bytes = 0;
  if (allocation_of(reinterpret_cast<const void*>(address), begin, &bytes) != cudaSuccess)
    return false;
  *end = *begin + bytes;
  return true;
}

}  // namespace

std::uint64_t known_limit() { return engine().known_limit; }

void mark_known(const void* address, std::size_t bytes, bool is) {
  Known& k = known();
  const std::lock_guard lock(k.mutex);
  if (is)
    k.bytes.add(place_of(address), place_of(address) + bytes);
  else
    k.bytes.remove(place_of(address), place_of(address) + bytes);
}

bool is_known(const void* address, std::size_t bytes) {
  Known& k = known();
  const std::lock_guard lock(k.mutex);
  return k.bytes.covers(place_of(address), place_of(address) + bytes);
}

void copy_known(void* to, const void* from, std::size_t bytes) {
  const std::uintptr_t begin = place_of(from), target = place_of(to);
  if (begin == target) return;
  Known& k = known();
  const std::lock_guard lock(k.mutex);
  auto parts = k.bytes.within(begin, begin + bytes);
  if (begin < target + bytes && target < begin + bytes) parts.clear();  // undefined in CUDA
  k.bytes.remove(target, target + bytes);
  for (const ByteSet::Range& part : parts) {
    const std::uintptr_t place = target + (part.begin - begin);
    std::memcpy(reinterpret_cast<void*>(place), reinterpret_cast<const void*>(part.begin),
                part.end - part.begin);
    k.bytes.add(place, place + (part.end - part.begin));
  }
}

bool share_known(std::uintptr_t begin, std::size_t bytes, int file, std::uint64_t place) {
  Known& k = known();
  const std::lock_guard lock(k.mutex);
  return k.bytes.share(begin, bytes, file, kFilePart + place);
}

void unshare_known(std::uintptr_t begin) {
  Known& k = known();
  const std::lock_guard lock(k.mutex);
  k.bytes.unshare(begin);
}

namespace {

using Words = std::set<std::uintptr_t>;

/// Adds the words of a parameter; false where the place cannot be read.
bool add_words(const void* place, std::size_t bytes, Words& words) {
  std::vector<std::uintptr_t> read(bytes / sizeof(std::uintptr_t));
  read.resize(read_safely(place, read.data(), read.size() * sizeof read[0]) / sizeof read[0]);
  words.insert(read.begin(), read.end());
  return !read.empty();
}

// If the code does not say how many arguments a launch has, and how long they are, the words behind
// the arguments are looked at as well: that forgets too much rather than too little. A kernel's
// arguments have at most 4 KiB (32,764 bytes from compute capability 7.0 on, of which nothing here
// has made use).
Words words_of(void** arguments) {
  constexpr std::size_t kMostArguments = 64, kMostBytes = 4096;
  std::array<void*, kMostArguments> places{};
  const std::size_t count = read_safely(arguments, places.data(), sizeof places) / sizeof places[0];
  Words words;
  for (std::size_t i = 0; i < count && places[i]; ++i)
    if (!add_words(places[i], kMostBytes, words)) break;
  return words;
}

Words words_of(void** arguments, const std::vector<std::size_t>& parameters,
               const std::vector<bool>& reads_only) {
  Words words;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (i >= reads_only.size() || !reads_only[i]) add_words(arguments[i], parameters[i], words);
  return words;
}

void say_of_all(std::string_view operation) {
  say_once(std::string(operation) +
           " is called outside the operators of the layer: nothing on the device is known any "
           "more (mode known)");
}

}  // namespace

Blocks blocks_of(std::string_view kernel, void** arguments,
                 const std::optional<std::vector<std::size_t>>& parameters,
                 const std::vector<bool>& reads_only) {
  Blocks blocks;
  if (!arguments && !(parameters && parameters->empty())) {
    say_of_all(kernel);
    return {{0, ~std::uintptr_t{0}}};
  }
  for (const std::uintptr_t pointer :
       parameters ? words_of(arguments, *parameters, reads_only) : words_of(arguments)) {
    std::uintptr_t begin = 0, end = 0;
    if (device_of(reinterpret_cast<const void*>(pointer)) >= 0 &&
        block_around(pointer, &begin, &end))
      blocks.emplace_back(begin, end);
  }
  static std::once_flag once;
  std::call_once(once, [&] {
    say_once("kernel " + kernel_name(kernel) +
             " is launched outside the operators of the layer: the memory that its arguments "
             "point to is unknown (mode known) if it may write there, as that of further such "
             "kernels");
  });
  return blocks;
}

void note_reads(void** arguments, const std::optional<std::vector<std::size_t>>& parameters) {
  if (!arguments && !(parameters && parameters->empty())) return note_read(nullptr);
  for (const std::uintptr_t pointer :
       parameters ? words_of(arguments, *parameters, {}) : words_of(arguments))
    if (const auto* memory = reinterpret_cast<const void*>(pointer); device_of(memory) >= 0)
      note_read(memory);
}

void forget(const Blocks& blocks) {
  Known& k = known();
  const std::lock_guard lock(k.mutex);
  for (const auto& [begin, end] : blocks) k.bytes.remove(begin, end);
}

void distrust_shared() {
  Known& k = known();
  const std::lock_guard lock(k.mutex);
  k.bytes.distrust_shared();
}

void forget_all(std::string_view operation) {
  settle_if_deferring();
  say_of_all(operation);
  forget({{0, ~std::uintptr_t{0}}});
  distrust_shared();
}

}  // namespace tidemark::device

using namespace tidemark::device;

void tidemark_device_mark_known(const void* address, uint64_t bytes, int is) {
  mark_known(address, bytes, is != 0);
}
int tidemark_device_is_known(const void* address, uint64_t bytes) {
  settle_if_deferring(nullptr);
  return is_known(address, bytes);
}
void tidemark_device_copy_known(void* to, const void* from, uint64_t bytes) {
  copy_known(to, from, bytes);
}
uint64_t tidemark_device_known_bytes(void) {
  Known& k = known();
  const std::lock_guard lock(k.mutex);
  return k.bytes.bytes();
}
uint64_t tidemark_device_known_limit(void) { return known_limit(); }
void tidemark_device_set_known_limit(uint64_t bytes) { engine().known_limit = bytes; }
void tidemark_device_new_block(const void* address, uint64_t bytes) {
  Known& k = known();
  const std::lock_guard lock(k.mutex);
  const std::uintptr_t begin = place_of(address);
  k.bytes.remove(begin, begin + bytes);
  if (bytes > 0)
    k.blocks[begin] = begin + bytes;
  else
    k.blocks.erase(begin);
}
