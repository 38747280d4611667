#include "harness/virtual/device/image.h"

#include <elf.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "harness/virtual/device/cubin.h"

namespace tidemark::device {
namespace {

// Argument of __cudaRegisterFatBinary.
struct Wrapper {
  std::uint32_t magic, version;
  const void* container;
  const void* rest;
};
constexpr std::uint32_t kWrapper = 0x466243b1;

struct Container {
  std::uint32_t magic;
  std::uint16_t version, header_bytes;
  std::uint64_t bytes;  // of the entries that follow
};
constexpr std::uint32_t kContainer = 0xba55ed50;

struct Entry {
  std::uint16_t kind, version;
  std::uint32_t header_bytes;
  std::uint64_t bytes;  // of the code that follows
  std::uint32_t compressed, options;
  std::uint16_t minor, major;  // of the format, not of the device
  std::uint32_t capability;
  std::uint32_t name_offset, name_bytes;
  std::uint64_t flags;
};
constexpr std::uint16_t kPtx = 1, kElf = 2;
// Set for the sm_90a, sm_100a, sm_103a, sm_120a and sm_121a code of the torch 2.11.0 wheel, not set
// for sm_75 to sm_120.
constexpr std::uint64_t kOneArchitecture = 0x100000;

bool machine_code_runs(int code, bool one_architecture, int device) {
  return one_architecture ? code == device : code / 10 == device / 10 && code <= device;
}

Image choose_entry(const char* at, int device) {
  const auto head = value_at<Container>(at);
  Image machine, compiled;
  at += head.header_bytes;
  for (std::uint64_t left = head.bytes; left >= sizeof(Entry);) {
    const auto entry = value_at<Entry>(at);
    if (entry.header_bytes < sizeof(Entry)) break;  // not a format that is known here
    if (entry.header_bytes > left || entry.bytes > left - entry.header_bytes) break;
    const int code = static_cast<int>(entry.capability);
    const bool alone = entry.flags & kOneArchitecture;
    if (entry.kind == kElf && machine_code_runs(code, alone, device))
      machine = std::max(machine, Image{code, code});
    if (entry.kind == kPtx && (alone ? code == device : code <= device))
      compiled = std::max(compiled, Image{device, code});
    at += entry.header_bytes + entry.bytes;
    left -= entry.header_bytes + entry.bytes;
  }
  return machine.binary ? machine : compiled;
}

// The capability stands in e_flags: in the low byte, in ABI version 8 in the second one.
Image choose_cubin(const char* elf, int device) {
  const auto header = value_at<Elf64_Ehdr>(elf);
  const bool new_abi = header.e_ident[EI_ABIVERSION] >= 8;
  const int code = static_cast<int>(header.e_flags >> (new_abi ? 8 : 0) & 0xff);
  const bool alone = header.e_flags & (new_abi ? 0x8 : 0x800);
  return machine_code_runs(code, alone, device) ? Image{code, code} : Image{};
}

Image choose_ptx(std::string_view text, int device) {
  constexpr std::string_view key = ".target sm_";
  const std::size_t at = text.find(key);
  if (at == std::string_view::npos) return {device, device};
  char* end = nullptr;
  const int code = static_cast<int>(std::strtol(text.data() + at + key.size(), &end, 10));
  return (*end == 'a' ? code == device : code <= device) ? Image{device, code} : Image{};
}

}  // namespace

Image choose_image(const void* code, int capability) {
  if (!code) return {capability, capability};
  const auto* text = static_cast<const char*>(code);
  const auto magic = value_at<std::uint32_t>(text);
  if (magic == kWrapper) return choose_image(value_at<Wrapper>(text).container, capability);
  if (magic == kContainer) return choose_entry(text, capability);
  if (is_cubin(text)) return choose_cubin(text, capability);
  if (std::strncmp(text, "//", 2) == 0 || std::strncmp(text, ".version", 8) == 0)
    return choose_ptx(text, capability);
  return {capability, capability};
}

bool is_code_file(std::string_view file) {
  if (file.size() < sizeof(std::uint32_t)) return false;
  const auto magic = value_at<std::uint32_t>(file.data());
  if (magic == kWrapper) return false;
  if (magic != kContainer) return is_whole(file);
  if (file.size() < sizeof(Container)) return false;
  const auto head = value_at<Container>(file.data());
  return head.header_bytes <= file.size() && head.bytes <= file.size() - head.header_bytes;
}

}  // namespace tidemark::device
