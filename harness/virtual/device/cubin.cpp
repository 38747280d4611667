#include "harness/virtual/device/cubin.h"

#include <elf.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string_view>

namespace tidemark::device {
namespace {

constexpr std::string_view kElf64 = "\177ELF\2";
constexpr std::uint16_t kCuda = 190;  // e_machine
constexpr char kLongValue = 4;        // of an entry: its value follows its length

enum Attribute : std::uint8_t {
  max_threads = 0x05,
  reqntid = 0x10,
  frame_size = 0x11,
  kparam_info = 0x17,
  cbank_param_size = 0x19,
  regcount = 0x2f,
};

/// A part that is not within the file.
struct CutOff : std::runtime_error {
  CutOff() : std::runtime_error("a part of the file is not in it") {}
};

/// `size`: bytes of the file; of code in memory, whose size nobody tells, kNotKnown.
constexpr std::size_t kNotKnown = SIZE_MAX;

class Cubin {
 public:
  Cubin(const char* elf, std::size_t size) : elf_(elf), size_(size), header_(at<Elf64_Ehdr>(0)) {}

  std::map<std::string, CompiledKernel> kernels() {
    const auto names = section(header_.e_shstrndx);
    for (std::size_t i = 0; i < header_.e_shnum; ++i) {
      const auto one = section(i);
      if (one.sh_type == SHT_SYMTAB) symbols_ = one;
    }
    for (std::size_t i = 0; i < header_.e_shnum; ++i) {
      const auto one = section(i);
      const std::string_view name = text(names, one.sh_name);
      if (const auto kernel = after(name, ".text."); !kernel.empty()) kernels_[kernel];
      if (const auto kernel = after(name, ".nv.shared."); !kernel.empty())
        shared_[kernel] = one.sh_size;
      if (name == ".nv.info") each(one, [&](auto... entry) { of_all(entry...); });
      if (const auto kernel = after(name, ".nv.info."); !kernel.empty()) {
        parameters_.clear();
        stated_ = -1;
        each(one, [&](auto... entry) { of_one(kernels_[kernel], entry...); });
        kernels_[kernel].parameters = parameters();
      }
    }
    for (auto& [name, kernel] : kernels_)
      if (const auto bytes = shared_.find(name); bytes != shared_.end())
        kernel.shared = bytes->second;
    return std::move(kernels_);
  }

 private:
  struct Parameter {
    std::size_t offset, bytes;
  };

  /// The bytes at a place of the file. Throws CutOff.
  const char* part(std::uint64_t offset, std::uint64_t bytes) const {
    if (size_ != kNotKnown && (offset > size_ || bytes > size_ - offset)) throw CutOff();
    return elf_ + offset;
  }
  template <class T>
  T at(std::uint64_t offset) const {
    return value_at<T>(part(offset, sizeof(T)));
  }
  std::string_view text(const Elf64_Shdr& table, std::uint64_t offset) const {
    const char* const begin = part(table.sh_offset + offset, 1);
    const std::size_t most =
        size_ == kNotKnown ? kNotKnown : size_ - static_cast<std::size_t>(begin - elf_);
    const std::size_t length = most == kNotKnown ? std::strlen(begin) : strnlen(begin, most);
    if (length == most) throw CutOff();
    return {begin, length};
  }
  Elf64_Shdr section(std::size_t i) const {
    return at<Elf64_Shdr>(header_.e_shoff + i * header_.e_shentsize);
  }
  static std::string after(std::string_view name, std::string_view prefix) {
    return std::string(name.starts_with(prefix) ? name.substr(prefix.size()) : "");
  }

  /// Calls `take` with attribute, value and the value's bytes.
  template <class Take>
  void each(const Elf64_Shdr& one, const Take& take) const {
    const char *next = part(one.sh_offset, one.sh_size), *const end = next + one.sh_size;
    while (end - next >= 4) {
      const bool is_long = next[0] == kLongValue;
      const std::size_t bytes = is_long ? value_at<std::uint16_t>(next + 2) : 2;
      const char* const value = is_long ? next + 4 : next + 2;
      if (static_cast<std::size_t>(end - value) < bytes) return;
      take(static_cast<std::uint8_t>(next[1]), value, bytes);
      next = value + bytes;
    }
  }

  void of_all(std::uint8_t attribute, const char* value, std::size_t bytes) {
    if (bytes != 8 || (attribute != regcount && attribute != frame_size)) return;
    const auto symbol =
        at<Elf64_Sym>(symbols_.sh_offset + value_at<std::uint32_t>(value) * sizeof(Elf64_Sym));
    const auto figure = value_at<std::uint32_t>(value + 4);
    auto& kernel = kernels_[std::string(text(section(symbols_.sh_link), symbol.st_name))];
    if (attribute == regcount)
      kernel.registers = static_cast<int>(figure);
    else
      kernel.local = figure;
  }

  void of_one(CompiledKernel& kernel, std::uint8_t attribute, const char* value,
              std::size_t bytes) {
    if (attribute == cbank_param_size && bytes == 2) stated_ = value_at<std::uint16_t>(value);
    if (attribute == kparam_info && bytes == 12) {
      const std::size_t number = value_at<std::uint16_t>(value + 4);
      parameters_.resize(std::max(parameters_.size(), number + 1));
      parameters_[number] = {value_at<std::uint16_t>(value + 6),
                             value_at<std::uint32_t>(value + 8) >> 18};
    }
    if ((attribute == reqntid || attribute == max_threads) && bytes == 12)
      kernel.max_threads =
          static_cast<int>(value_at<std::uint32_t>(value) * value_at<std::uint32_t>(value + 4) *
                           value_at<std::uint32_t>(value + 8));
  }

  std::optional<std::vector<std::size_t>> parameters() const {
    std::size_t end = 0;
    std::vector<std::size_t> sizes;
    for (const Parameter& one : parameters_) {
      sizes.push_back(one.bytes);
      end = std::max(end, one.offset + one.bytes);
    }
    if (static_cast<std::int64_t>(end) != std::max<std::int64_t>(stated_, 0)) return {};
    return sizes;
  }

  const char* elf_;
  std::size_t size_;
  Elf64_Ehdr header_;
  Elf64_Shdr symbols_{};
  std::map<std::string, CompiledKernel> kernels_;
  std::map<std::string, std::size_t> shared_;
  std::vector<Parameter> parameters_;  // of one kernel
  std::int64_t stated_ = -1;           // bytes of all of them
};

}  // namespace

bool is_cubin(const char* code) {
  return kElf64.compare(0, kElf64.npos, code, kElf64.size()) == 0 &&
         value_at<Elf64_Ehdr>(code).e_machine == kCuda;
}

std::optional<std::map<std::string, CompiledKernel>> kernels_of(const void* code) {
  const auto* const elf = static_cast<const char*>(code);
  if (!is_cubin(elf)) return {};
  return Cubin(elf, kNotKnown).kernels();
}

bool is_whole(std::string_view file) {
  if (!file.starts_with(kElf64)) return true;
  if (file.size() < sizeof(Elf64_Ehdr)) return false;
  if (!is_cubin(file.data())) return true;
  try {
    Cubin(file.data(), file.size()).kernels();
  } catch (const CutOff&) {
    return false;
  }
  const auto header = value_at<Elf64_Ehdr>(file.data());
  const auto inside = [&](std::uint64_t offset, std::uint64_t bytes) {
    return offset <= file.size() && bytes <= file.size() - offset;
  };
  for (std::size_t i = 0; i < header.e_shnum; ++i) {
    const auto one = value_at<Elf64_Shdr>(file.data() + header.e_shoff + i * header.e_shentsize);
    if (one.sh_type != SHT_NOBITS && !inside(one.sh_offset, one.sh_size)) return false;
  }
  return true;
}

}  // namespace tidemark::device
