// The files that `run --numbers` writes: a file a variant and rank (reports/numbers/).
#pragma once

#include <filesystem>
#include <string>

#include "harness/device/arithmetic.h"
#include "harness/judge/parity.h"
#include "harness/scenario.h"

namespace tidemark {

class NumbersFiles {
 public:
  static constexpr Bytes kMost = Bytes{1} << 30;

  /// Writer into the folder of a run. All ranks of a run together write at most `most` bytes.
  NumbersFiles(std::filesystem::path folder, std::string device, int ranks, Bytes most = kMost);
  /// Nothing more from the first on that would be too much, which a note on stderr names. Throws
  /// std::runtime_error in one line where it cannot be written.
  void save(const TrialRecord& trial, const Variant& variant, int rank, const Numbers& numbers,
            const Oracle& oracle);

 private:
  std::filesystem::path folder_;
  std::string device_;
  Arithmetic arithmetic_ = arithmetic();
  Bytes most_, left_;  // left: for this rank
  bool full_ = false;
};

}  // namespace tidemark
