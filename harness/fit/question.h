// Question of one combination of listed values on one GPU: the runs that it needs, and its answer.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "harness/fit/options.h"
#include "harness/fit/runs.h"
#include "harness/fit/search.h"

namespace tidemark {

/// All runs until now, and the second ones of the same.
class Store {
 public:
  void add(const FitRun& run);
  /// nullptr: it has not run.
  const FitRun* find(const FitValues& values, const std::string& gpu, Bytes capacity) const;
  const FitRun* second(const FitValues& values, const std::string& gpu, Bytes capacity) const;
  std::vector<FitRun> all() const;

 private:
  using Key = std::tuple<std::string, std::string, Bytes>;
  std::map<Key, std::vector<FitRun>> runs_;
};

class Question {
 public:
  /// `room` is the profile on which runs with room to spare count for this GPU too.
  Question(FitValues listed, const Gpu& gpu, std::string room, const FitVariable* searched)
      : listed_(std::move(listed)), gpu_(gpu), room_(std::move(room)), searched_(searched) {}

  /// The runs that it needs next; none: it is answered.
  std::vector<Wanted> next(const Store& store) const;
  /// Holds the largest value that fits against a run at the GPU's own size: the runs that this
  /// needs, or none. A program that does something else there is searched at that size from then
  /// on.
  std::vector<Wanted> check(const Store& store);
  /// This search begins with the answer of `other`, the same combination on another chip.
  void follow(const Question& other) { other_ = &other; }
  bool fits(const Store& store) const { return largest(known(store)) >= 0; }
  const std::string& gpu() const { return gpu_.memory.name; }
  const std::string& room() const { return room_; }
  bool adapts() const { return adapts_; }
  void adapt() { adapts_ = true; }
  FitAnswer answer(const Store& store) const;
  /// Sentences about how the answer came about.
  std::vector<std::string> notes(const Store& store) const;

 private:
  FitValues values_at(std::int64_t place) const;
  std::int64_t count() const;
  Bytes capacity(const Store& store) const;
  Bytes limit(const Store& store) const;  // that the program allows itself; 0: none
  Bytes most(const Store& store) const;   // that limit, or the capacity
  const FitRun* with_room(const Store& store, std::int64_t place) const;
  const FitRun* real(const Store& store, std::int64_t place) const;
  const FitRun* run_of(const Store& store, std::int64_t place) const;  // real, or else with_room
  Seen seen(const Store& store, std::int64_t place) const;
  Known known(const Store& store) const;
  /// True if so many values were refused with the same line, and none has run, that the others
  /// would be too.
  bool given_up(const Store& store, const Known& seen) const;
  static std::int64_t miss(const Known& all);  // the first above all that fit; -1: none
  void tell_miss(FitAnswer& answer, const Store& store, const Known& seen) const;

  FitValues listed_;
  const Gpu& gpu_;
  std::string room_;
  const FitVariable* searched_;  // nullptr: nothing is
  const Question* other_ = nullptr;
  bool adapts_ = false;   // the program does something else on a GPU of this size
  bool differs_ = false;  // two runs of the same have other peaks
};

}  // namespace tidemark
