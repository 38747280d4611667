#include "reports/numbers/numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "harness/record/file.h"
#include "harness/record/meaning.h"
#include "harness/record/number.h"
#include "harness/record/units.h"
#include "reports/curves/precision.h"
#include "reports/write.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFormat = "tidemark/numbers 1";
constexpr const char* kLoss = "loss";
constexpr const char* kFolder = "numbers";
constexpr const char* kExtension = ".safetensors";

/// Texts that the header has as they are, each under a key of its own.
constexpr std::pair<const char*, std::string NumbersLog::*> kTexts[] = {
    {"trial", &NumbersLog::trial},   {"schedule", &NumbersLog::schedule},
    {"params", &NumbersLog::params}, {"variant", &NumbersLog::variant},
    {"device", &NumbersLog::device}, {"arithmetic", &NumbersLog::arithmetic},
    {"why", &NumbersLog::why}};
constexpr std::pair<const char*, double NumbersLog::*> kFigures[] = {
    {"tolerance", &NumbersLog::tolerance},
    {"loss_condition", &NumbersLog::loss_condition},
    {"parameter_condition", &NumbersLog::parameter_condition}};

template <class Value>
Value read(const char* bytes) {
  Value value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

void add(std::vector<StoredTensor>& tensors, const std::string& part,
         const std::vector<ShardNumbers>& shards) {
  for (const ShardNumbers& each : shards) {
    if (each.size() == 0) continue;
    tensors.push_back(each);  // all but the offset, which its name holds
    tensors.back().name =
        fmt::format("{}/{}[{}:{}]", part, each.name, each.offset, each.offset + each.size());
  }
}

/// "NAME[BEGIN:END]"
ShardNumbers shard(std::string_view name, StoredTensor&& tensor) {
  const auto fail = [&] {
    throw std::runtime_error(
        fmt::format("'{}' is not named PART/NAME[BEGIN:END] by its elements", tensor.name));
  };
  const auto open = name.rfind('['), colon = name.rfind(':');
  if (open == std::string_view::npos || colon == std::string_view::npos || colon < open ||
      !name.ends_with(']'))
    fail();
  const auto number = [&](std::string_view digits) {
    std::int64_t value = -1;
    const auto end = digits.data() + digits.size();
    const auto parsed = std::from_chars(digits.data(), end, value);
    if (parsed.ec != std::errc() || parsed.ptr != end || value < 0) fail();
    return value;
  };
  const auto begin = number(name.substr(open + 1, colon - open - 1)),
             end = number(name.substr(colon + 1, name.size() - colon - 2));
  if (end - begin != tensor.size()) fail();
  tensor.name = name.substr(0, open);
  return {std::move(tensor), begin};
}

NumbersLog of(Safetensors&& file) {
  const auto text = [&](const std::string& key) {
    const auto entry = file.metadata.find(key);
    if (entry == file.metadata.end())
      throw std::runtime_error(fmt::format("its header lacks '{}'", key));
    return entry->second;
  };
  const auto number = [&](const std::string& key) {
    const auto value = parse_number(text(key));
    if (!value || !(*value >= 0))
      throw std::runtime_error(
          fmt::format("{1}: '{0}' is not a non-negative number", text(key), key));
    return *value;
  };
  if (const auto entry = file.metadata.find("format");
      entry == file.metadata.end() || entry->second != kFormat)
    throw std::runtime_error(fmt::format("is not '{}': give what `run --numbers` wrote", kFormat));
  NumbersLog log;
  for (const auto& [key, field] : kTexts) log.*field = text(key);
  for (const auto& [key, field] : kFigures) log.*field = number(key);
  const auto rank = whole(number("rank"));
  if (!rank || *rank > 1'000'000)
    throw std::runtime_error(fmt::format("'{}' is not a rank", text("rank")));
  log.rank = static_cast<int>(*rank);
  const std::string role = text("role");
  const auto roles = words(Role());
  const auto match = std::ranges::find(roles, role);
  if (match == roles.end()) throw std::runtime_error(fmt::format("'{}' is not a role", role));
  log.role = static_cast<Role>(match - roles.begin());
  log.exact = text("exact") == "true";
  for (StoredTensor& tensor : file.tensors) {
    const std::string name = tensor.name;
    if (name == kLoss) {
      if (tensor.dtype != "F64") throw std::runtime_error("its losses are not F64");
      for (std::int64_t i = 0; i < tensor.size(); ++i)
        log.loss.push_back(read<double>(tensor.bytes.data() + 8 * i));
      continue;
    }
    const auto slash = name.find('/');
    const std::string part = name.substr(0, slash);
    if (slash == std::string::npos || (part != "gradients" && part != "parameters"))
      throw std::runtime_error(
          fmt::format("'{}' is neither of losses, gradients nor parameters", name));
    (part == "gradients" ? log.gradients : log.parameters)
        .push_back(shard(std::string_view(name).substr(slash + 1), std::move(tensor)));
  }
  return log;
}

}  // namespace

double ShardNumbers::operator[](std::int64_t element) const {
  const std::int64_t each = element_bytes(dtype);
  const char* at = bytes.data() + element * each;
  if (each == 8) return read<double>(at);
  if (each == 4) return static_cast<double>(read<float>(at));
  return static_cast<double>(
      std::bit_cast<float>(static_cast<std::uint32_t>(read<std::uint16_t>(at)) << 16));
}

double ulps_apart(double a, double b, std::string_view dtype) {
  if (a == b) return 0;
  return ulps_between(a, b,
                      dtype == "F64"    ? Precision::fp64
                      : dtype == "BF16" ? Precision::bf16
                                        : Precision::fp32);
}

std::string numbers_file(const NumbersLog& log) {
  Safetensors file;
  file.metadata = {{"format", kFormat},
                   {"role", name_of(log.role)},
                   {"rank", std::to_string(log.rank)},
                   {"exact", log.exact ? "true" : "false"}};
  for (const auto& [key, field] : kTexts) file.metadata[key] = log.*field;
  for (const auto& [key, field] : kFigures) file.metadata[key] = fmt::format("{}", log.*field);
  std::string loss(log.loss.size() * sizeof(double), '\0');
  std::memcpy(loss.data(), log.loss.data(), loss.size());
  file.tensors.push_back(
      {kLoss, "F64", {static_cast<std::int64_t>(log.loss.size())}, std::move(loss)});
  add(file.tensors, "gradients", log.gradients);
  add(file.tensors, "parameters", log.parameters);
  return safetensors_text(file);
}

NumbersLog parse_numbers(std::string_view text, const std::string& where) {
  Safetensors file = parse_safetensors(text, where);
  try {
    return of(std::move(file));
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(one_line(fmt::format("{}: {}", where, error.what())));
  }
}

fs::path numbers_path(const TrialRecord& trial, const std::string& variant, int rank) {
  return fs::path(kFolder) / trial_folder(trial) /
         (path_component(fmt::format("{}_rank{}", variant, rank)) + kExtension);
}

std::vector<NumbersLog> read_numbers(const fs::path& folder) {
  const std::vector<fs::path> files = files_below(folder / kFolder, kExtension);
  if (files.empty())
    throw std::runtime_error(fmt::format(
        "{}: has no numbers: give a run's folder, of mode math with --numbers", folder.string()));
  std::vector<NumbersLog> logs;
  for (const auto& file : files) logs.push_back(parse_numbers(read_bytes(file), file.string()));
  return logs;
}

}  // namespace tidemark
