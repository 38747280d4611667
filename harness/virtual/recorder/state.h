// The record of a program's process while it is written.
#pragma once

#include <cstdint>
#include <string>

#include "harness/virtual/recorder/python_stacks.h"
#include "harness/virtual/recorder/uses.h"
#include "harness/virtual/recorder/writer.h"

namespace tidemark::recorder {

/// Nanoseconds since 1970.
std::int64_t system_ns();

/// No thread waits for Python's lock while it holds the follower's.
class State : public Writer {
 public:
  State(const std::string& path, History history);

  PythonStacks& stacks() { return stacks_; }
  /// True if PyTorch's allocator can be asked about the device, which the driver has.
  bool has_memory(std::size_t device) { return following() == this && total_of(device) > 0; }

  /// The name of the parameter at the address; nullptr: there is none.
  const std::string* parameter_at(std::uint64_t address) const;
  void gather(std::uint64_t output, std::uint64_t shard, std::int64_t bytes);
  /// The block at the address is used so; read at 0: every block may be.
  void use(std::uint64_t address, BlockUse use);
  /// The calling thread's operator overwrites the tensor at the address. If that is the last block
  /// that the thread has allocated, outside modules, it is computed from what the operator reads: a
  /// conversion allocates its result before it calls the operator that reads.
  void overwritten(std::uint64_t address);
  /// The calling thread's operator writes the tensor at the address, of that place in a list.
  /// `overwrites`: nothing is left of what was in its block.
  void written(std::uint64_t address, int place, bool overwrites);
  void labelled(std::uint64_t address, std::string_view kind) { uses_.labelled(address, kind); }
  bool is_of_gradient(std::uint64_t address) { return uses_.is_of_gradient(address); }
  /// The block around the address was allocated in a forward, or computed from one that was.
  bool is_of_forward(std::uint64_t address) { return uses_.is_of_forward(address); }
  std::int64_t born(std::uint64_t address) const { return uses_.born(address); }
  /// The program has ended: what is freed from here on says only whether the collector frees it.
  void program_ends() { ended_ = true; }
  bool has_ended() const { return ended_; }
  /// Returns the number of the step or repetition that it is part of.
  std::int64_t phase(const std::string& name);
  void phase_end(const std::string& name);

 private:
  std::int64_t now_ns() override;
  Place place_now() override;
  Books books(std::size_t device) override;
  std::int64_t total_of(std::size_t device) override;
  bool before_event(const AllocatorEntry& entry) override;
  void on_allocated(std::uint64_t address) override;
  void write_use(std::uint64_t address, BlockUse use);
  void write_computed(std::uint64_t address, std::uint64_t source);
  /// From what the operators of this thread have read of gradients.
  void write_computed_from_gradients(std::uint64_t address, int place);

  PythonStacks stacks_{names()};
  std::int64_t step_ = 1, repetition_ = 1;
  bool stepped_ = false, has_optimizer_ = false;
  Number backward_ = 0;                         // the stack that called the backward that runs
  std::array<std::uint64_t, kDevices> read_{};  // changes of all devices when its books were read
  Uses uses_;
  bool in_forward_ = false, outside_ = false;  // of what is allocated now
  bool ended_ = false;
};

}  // namespace tidemark::recorder
