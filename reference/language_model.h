// Training of a small language model on one process, in double precision: embedding, L blocks,
// RMSNorm, head, mean cross entropy, gradient descent. Shares nothing with the case but
// PyTorch's operators, the initial numbers and the tokens.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reference/training.h"

namespace tidemark::reference {

inline constexpr double kLanguageModelRate = 1.0 / 16;

struct LanguageModelRun {
  bool transformer = true;  // else MLP blocks
  std::int64_t layers = 1, hidden = 1, ffn = 1, heads = 1, kv_heads = 1, vocabulary = 1;
  std::int64_t sequence = 1, sequences = 1;  // of a whole batch: all microbatches
  int steps = 1;
  std::uint64_t seed = 0;
};

/// `count` tokens below `vocabulary`, a function of seed and name.
std::vector<std::int64_t> tokens(std::uint64_t seed, const std::string& name, std::int64_t count,
                                 std::int64_t vocabulary);

Trained train(const LanguageModelRun& run, Noise noise = {});

}  // namespace tidemark::reference
