// Choice of the sharded units of a model that are frozen (their parameters require no gradient),
// and which reduce their gradients in which backward.
#pragma once

#include <cstdint>
#include <vector>

namespace tidemark {

/// Of a chain of layers; `adapters`: all of them, each with a trained unit behind it (LoRA).
enum class FreezingPattern { even, all_but_last, adapters, prefix, suffix, all_but_first, odd };

/// Whether each unit is frozen.
std::vector<bool> frozen_units(FreezingPattern pattern, std::int64_t layers);
/// From now on the first frozen unit is trained and the first trained one frozen.
void thaw(std::vector<bool>& frozen);

enum class NoSync { never, but_last, every_second };  // `every_second` of the trained units
/// Whether each unit reduces its gradients in a backward, the last one of its step or not.
std::vector<bool> synced_units(const std::vector<bool>& frozen, NoSync no_sync, bool last);

}  // namespace tidemark
