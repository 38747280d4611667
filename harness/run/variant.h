// The run of one variant on this rank, from a clean device to its record.
#pragma once

#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "harness/judge/judge.h"
#include "harness/ranks/world.h"
#include "harness/record/record.h"
#include "harness/scenario.h"

namespace tidemark {

/// The results of a run of a variant on this rank.
struct VariantRun {
  RankResult seen;
  std::vector<LossPoint> loss;
  std::vector<Ns> step_time_ns;
};

/// The extent of a run's record.
struct Recording {
  const char* purpose = "";  // "the warm-up of ": for the text that says where a rank is
  bool details = false;      // blocks, map, spans and events of the last step
  bool every_event = false;  // the allocator's events of all steps
};

/// Gives back the device memory that nothing uses any more: workspaces and the allocator's cache.
void release_device();

/// Every variant starts from the same device: nothing allocated, nothing cached, time 0, the same
/// random numbers, the same streams. Throws std::logic_error where memory of an earlier variant is
/// still alive.
void prepare_device(const Trial& trial);

/// Runs the trial's steps. Throws what the program throws.
VariantRun run_variant(const Scenario& scenario, const Trial& trial, const Variant& variant,
                       World& world, const Recording& recording = {});

/// Runs the variant in its scenario's smallest size, once a process: what a process does once (pool
/// streams, library handles) is then done before its first record, so that a record depends on its
/// trial alone.
void warm_up(const Scenario& scenario, Trial trial, const Variant& variant, World& world);

/// Runs the variant after a warm-up, and on a GPU whose schedule needs to know how long the host
/// takes once before, unrecorded.
VariantRun run_recorded(const Scenario& scenario, const Trial& trial, const Variant& variant,
                        World& world, Recording recording);

/// The text of an exception, without PyTorch's backtrace.
std::string first_line(const std::exception& error);

/// Runs `body` on every rank. Returns the errors of the ranks that threw, the same on all ranks;
/// those by themselves come first. `about` says where a rank that threw was.
std::vector<RankError> attempt(World& world, const std::function<void()>& body,
                               const std::function<std::string()>& about);

}  // namespace tidemark
