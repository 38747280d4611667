#include "harness/cli/numbers.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <stdexcept>
#include <utility>

#include "harness/print.h"
#include "reports/numbers/numbers.h"
#include "reports/write.h"

namespace tidemark {
namespace {

const char* type_name(at::ScalarType type) {
  if (type == at::kDouble) return "F64";
  if (type == at::kFloat) return "F32";
  if (type == at::kBFloat16) return "BF16";
  throw std::runtime_error(
      fmt::format("--numbers: has no name for elements of {}", toString(type)));
}

double largest(const std::vector<double>& all) {
  return all.empty() ? 0 : *std::ranges::max_element(all);
}

std::vector<ShardNumbers> raw(const std::vector<Shard>& shards) {
  std::vector<ShardNumbers> all;
  for (const Shard& shard : shards) {
    const at::Tensor values = shard.values.contiguous();
    all.push_back({{shard.name,
                    type_name(values.scalar_type()),
                    values.sizes().vec(),
                    {static_cast<const char*>(values.const_data_ptr()), values.nbytes()}},
                   shard.offset});
  }
  return all;
}

}  // namespace

NumbersFiles::NumbersFiles(std::filesystem::path folder, std::string device, int ranks, Bytes most)
    : folder_(std::move(folder)), device_(std::move(device)), most_(most), left_(most / ranks) {}

void NumbersFiles::save(const TrialRecord& trial, const Variant& variant, int rank,
                        const Numbers& numbers, const Oracle& oracle) {
  if (full_) return;
  NumbersLog log{rank_place(trial, variant.name, rank)};
  Bytes bytes = 0;
  for (const auto* shards : {&numbers.gradients, &numbers.parameters})
    for (const Shard& shard : *shards) bytes += static_cast<Bytes>(shard.values.nbytes());
  full_ = bytes > left_;
  if (full_) {
    print(stderr,
          "note: --numbers: those of {} and of all that follows are left out: the ranks "
          "together write at most {} MiB (fewer trials, or a smaller size)\n",
          log.name(), most_ >> 20);
    return;
  }
  left_ -= bytes;
  log.role = variant.role;
  log.device = device_;
  log.arithmetic = arithmetic_.text;
  log.exact = arithmetic_.exact;
  log.tolerance = largest(oracle.gradient_tolerance);
  const double of = std::max(log.tolerance, std::numeric_limits<double>::min());
  log.loss_condition = largest(oracle.loss_tolerance) / of;
  log.parameter_condition =
      largest(oracle.plain_parameter_tolerance.empty() ? oracle.parameter_tolerance
                                                       : oracle.plain_parameter_tolerance) /
      of;
  log.why = oracle.why;
  for (const LossPoint& point : numbers.loss)
    log.loss.push_back(point.value.value_or(std::numeric_limits<double>::quiet_NaN()));
  log.gradients = raw(numbers.gradients);
  log.parameters = raw(numbers.parameters);
  write_files(folder_, {{numbers_path(trial, variant.name, rank).string(), numbers_file(log)}});
}

}  // namespace tidemark
