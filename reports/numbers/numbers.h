// The numbers of a variant on one rank, to the bit, by which two machines are compared: losses,
// gradients of step 0, parameters at the end, and their tolerances against the reference.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "reports/numbers/safetensors.h"
#include "reports/rank_place.h"

namespace tidemark {

/// Elements [offset, offset + size()) of a parameter, flattened, or of its gradient.
struct ShardNumbers : StoredTensor {
  std::int64_t offset = 0;
  double operator[](std::int64_t element) const;  // within the shard
};

struct NumbersLog : RankPlace {
  Role role = Role::baseline;
  std::string device;      // "virtual h100-80g"
  std::string arithmetic;  // what computed them: where it is the same text, the bits are the same
  bool exact = false;      // whether that always gives the same bits
  /// Tolerance against the reference, which is the same on every machine: |numbers - reference| /
  /// |reference| is at most this, Euclidean norms, a shard at a time; of the loss (a step at a
  /// time) and of parameters times their condition.
  double tolerance = 0, loss_condition = 1, parameter_condition = 1;
  std::string why;
  std::vector<double> loss;  // by step
  std::vector<ShardNumbers> gradients, parameters;
};

/// Representable numbers of the type between two of them; 0 where equal, infinite where one is
/// none.
double ulps_apart(double a, double b, std::string_view dtype);

/// As a safetensors file: tensors "loss", "gradients/NAME[BEGIN:END]", "parameters/...", the rest
/// as its metadata. Shards without an element are left out.
std::string numbers_file(const NumbersLog& log);
/// Throws std::runtime_error ("where: ...") for what numbers_file did not write.
NumbersLog parse_numbers(std::string_view text, const std::string& where);

/// Path of the file in a run's folder.
std::filesystem::path numbers_path(const TrialRecord& trial, const std::string& variant, int rank);
/// All of a run's folder (`run --numbers`), in the order of their paths. Throws std::runtime_error
/// in one line; a folder without any is an error.
std::vector<NumbersLog> read_numbers(const std::filesystem::path& folder);

}  // namespace tidemark
