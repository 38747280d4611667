// The record of a program's process while it is written.
#pragma once

#include <cstdint>
#include <string>

#include "harness/virtual/recorder/python_stacks.h"
#include "harness/virtual/recorder/writer.h"

namespace tidemark::recorder {

/// No thread waits for Python's lock while it holds the follower's.
class State : public Writer {
 public:
  State(const std::string& path, History history);

  PythonStacks& stacks() { return stacks_; }

  /// The name of the parameter at the address; nullptr: there is none.
  const std::string* parameter_at(std::uint64_t address) const;
  void gather(std::uint64_t output, std::uint64_t shard, std::int64_t bytes);
  /// Returns the number of the step or repetition that it is part of.
  std::int64_t phase(const std::string& name);
  void phase_end(const std::string& name);

 private:
  std::int64_t now_ns() override;
  Place place_now() override;

  PythonStacks stacks_{names()};
  std::int64_t step_ = 1, repetition_ = 1;
  bool stepped_ = false, has_optimizer_ = false;
  Number backward_ = 0;  // the stack that called the backward that runs
};

}  // namespace tidemark::recorder
