#include "harness/virtual/device/cubin.h"

#include <elf.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
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

class Cubin {
 public:
  explicit Cubin(const char* elf) : elf_(elf), header_(value_at<Elf64_Ehdr>(elf)) {}

  std::map<std::string, CompiledKernel> kernels() {
    const auto names = section(header_.e_shstrndx);
    for (std::size_t i = 0; i < header_.e_shnum; ++i) {
      const auto one = section(i);
      if (one.sh_type == SHT_SYMTAB) symbols_ = one;
    }
    for (std::size_t i = 0; i < header_.e_shnum; ++i) {
      const auto one = section(i);
      const std::string_view name = elf_ + names.sh_offset + one.sh_name;
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

  Elf64_Shdr section(std::size_t i) const {
    return value_at<Elf64_Shdr>(elf_ + header_.e_shoff + i * header_.e_shentsize);
  }
  static std::string after(std::string_view name, std::string_view prefix) {
    return std::string(name.starts_with(prefix) ? name.substr(prefix.size()) : "");
  }

  /// Calls `take` with attribute, value and the value's bytes.
  template <class Take>
  void each(const Elf64_Shdr& one, const Take& take) const {
    const char *at = elf_ + one.sh_offset, *const end = at + one.sh_size;
    while (at + 4 <= end) {
      const bool is_long = at[0] == kLongValue;
      const std::size_t bytes = is_long ? value_at<std::uint16_t>(at + 2) : 2;
      const char* const value = is_long ? at + 4 : at + 2;
      if (value + bytes > end) return;
      take(static_cast<std::uint8_t>(at[1]), value, bytes);
      at = value + bytes;
    }
  }

  void of_all(std::uint8_t attribute, const char* value, std::size_t bytes) {
    if (bytes != 8 || (attribute != regcount && attribute != frame_size)) return;
    const auto symbol = value_at<Elf64_Sym>(elf_ + symbols_.sh_offset +
                                            value_at<std::uint32_t>(value) * sizeof(Elf64_Sym));
    const auto figure = value_at<std::uint32_t>(value + 4);
    auto& kernel = kernels_[elf_ + section(symbols_.sh_link).sh_offset + symbol.st_name];
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
  return Cubin(elf).kernels();
}

bool is_whole(std::string_view file) {
  if (!file.starts_with(kElf64)) return true;
  if (file.size() < sizeof(Elf64_Ehdr)) return false;
  if (!is_cubin(file.data())) return true;
  const auto header = value_at<Elf64_Ehdr>(file.data());
  const auto inside = [&](std::uint64_t offset, std::uint64_t bytes) {
    return offset <= file.size() && bytes <= file.size() - offset;
  };
  if (!inside(header.e_shoff, std::uint64_t{header.e_shnum} * header.e_shentsize)) return false;
  for (std::size_t i = 0; i < header.e_shnum; ++i) {
    const auto one = value_at<Elf64_Shdr>(file.data() + header.e_shoff + i * header.e_shentsize);
    if (one.sh_type != SHT_NOBITS && !inside(one.sh_offset, one.sh_size)) return false;
  }
  return true;
}

}  // namespace tidemark::device
