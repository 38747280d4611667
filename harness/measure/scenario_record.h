// The record of a scenario's rank: events of the allocator with the kind of each block, the
// operator that allocated it and the tensor that lay on it, in the file of a program's record
// (harness/memory/format/format.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "harness/record/memory_kind.h"
#include "harness/virtual/recorder/writer.h"

namespace tidemark {

class ScenarioRecord : public recorder::Writer {
 public:
  /// Follows `device`, of which nothing may be allocated, until destroyed. One at a time in a
  /// process. `all`: of all steps, not the bounded part (recorder::Bound).
  ScenarioRecord(int device, bool all);
  ~ScenarioRecord() override;

  /// `last`: it is kept whole.
  void step(int number, bool last);
  void phase(const std::string& name);
  void phase_end(const std::string& name);
  /// The record until now (its reader: harness/memory/process_record.h).
  std::string bytes();

 private:
  friend void on_returned(const at::Tensor&);
  friend void change_category(const at::Tensor&, MemoryKind);
  std::int64_t now_ns() override;
  Place place_now() override;
  void on_allocated(std::uint64_t address) override;
  Stream stream_of(void* stream) override;
  void name_workspaces();
  void settle_now() { settle(static_cast<std::size_t>(device_)); }

  int device_;
  std::uint64_t streams_ = 0;  // but for the default one, which is number 0
};

/// Tells the record that follows of a tensor that an operator has returned: the first one on a
/// block is what the block is for.
void on_returned(const at::Tensor& tensor);

/// The tensor's memory counts as `kind` from now on.
void change_category(const at::Tensor& tensor, MemoryKind kind);

/// The kind of new allocations, and the unit of the program that they are of ("layers.3"; empty:
/// of none); process-wide, because the autograd threads work for the thread that waits for them.
MemoryKind current_category();
void set_current_category(MemoryKind kind);
std::string current_unit();
void set_current_unit(const std::string& unit);

}  // namespace tidemark
