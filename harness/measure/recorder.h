// The recorder of one variant on one rank: where a program says which phase begins, which loss and
// gradients it has. Reading costs no host synchronisation and no device memory, so that measuring
// changes nothing that is measured.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "harness/record/record.h"
#include "harness/scenario.h"

namespace tidemark {

/// The kind of new allocations of this thread (and of the autograd threads while it waits), and the
/// unit of the program that they are of ("units.3"; empty: as around it), until the end of scope.
class CategoryScope {
 public:
  explicit CategoryScope(MemoryKind kind, const std::string& unit = "");
  ~CategoryScope();
  CategoryScope(const CategoryScope&) = delete;
  CategoryScope& operator=(const CategoryScope&) = delete;

 private:
  MemoryKind before_;
  std::string unit_before_;
};

/// The unit of new allocations. Their kind is as around it.
class UnitScope {
 public:
  explicit UnitScope(const std::string& unit);

 private:
  CategoryScope scope_;
};

class Recorder {
 public:
  /// `closely`: blocks, map, spans and events of the last step, too; `every_event`: the events of
  /// all steps besides. What is measured does not depend on it.
  explicit Recorder(const Trial& trial, bool closely = true, bool every_event = false);
  ~Recorder();

  // Calls of a program.
  void phase(const std::string& name);   // the phase before ends here
  void moment(const std::string& name);  // residency now; named once a step
  void call(const std::string& op, const std::string& unit);
  /// Calls and bytes of the collectives since the program began, by operation; said once a step.
  void collectives(const std::map<std::string, std::int64_t>& calls,
                   const std::map<std::string, std::int64_t>& bytes);
  void loss(const at::Tensor& value);  // one element; copied to pinned memory without waiting
  void gradients(const std::vector<Shard>& shards);  // kept of step 0 only, likewise

  // Calls of the runner.
  void begin_step(int index);
  void end_step();
  /// Synchronises and reads: the record of this rank, losses, kept gradients.
  void finish();
  RankRecord record;
  std::vector<LossPoint> losses;
  std::vector<Ns> step_time_ns;
  std::vector<Shard> first_gradients;  // CPU

 private:
  struct State;
  void close_phase();
  std::unique_ptr<State> state_;
};

}  // namespace tidemark
