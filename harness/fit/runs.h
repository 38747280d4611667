// Runs of a program under `tidemark exec`, several at a time, each once.
#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "harness/fit/options.h"
#include "harness/fit/server.h"
#include "harness/ranks/processes.h"

namespace tidemark {

/// One run that is wanted.
struct Wanted {
  FitValues values;
  std::string gpu;
  Bytes capacity = 0;
  bool room = false;
  bool again = false;                              // also if the cache has it
  std::map<std::string, std::string> environment;  // of this run
  std::vector<std::string> program;                // of this run; empty: the command's
  std::vector<std::string> changes;                // of tidemark_changes.py, by name
  std::string label;
  bool operator==(const Wanted&) const = default;
};

/// More memory than any GPU has.
inline constexpr Bytes kRoom = Bytes{1} << 40;

inline Wanted run_with_room(const FitValues& values, const std::string& gpu) {
  Wanted one;
  one.values = values, one.gpu = gpu, one.capacity = kRoom, one.room = true;
  return one;
}
inline Wanted run_at_size(const FitValues& values, const std::string& gpu, Bytes capacity) {
  Wanted one;
  one.values = values, one.gpu = gpu, one.capacity = capacity;
  return one;
}

class Runs {
 public:
  /// `version` names this tidemark, `torch` the torch of the program.
  Runs(const FitOptions& fit, std::string version, std::string torch);
  Runs(const Runs&) = delete;
  Runs& operator=(const Runs&) = delete;

  /// Runs all, as many at a time as there are jobs, and returns the results in the same order;
  /// after Ctrl-C only those that have ended, and `interrupted` is the signal. Throws UsageError if
  /// a run says that the command itself is wrong, and std::runtime_error if tidemark failed.
  std::vector<FitRun> run(const std::vector<Wanted>& wanted);

  /// How far the caller is, for the line of progress: "2 of 4 answers".
  void stage(std::string text) { stage_ = std::move(text); }
  int interrupted() const { return interrupted_; }
  std::size_t count() const { return count_; }    // that have run now
  std::size_t cached() const { return cached_; }  // that the cache had
  std::size_t copies() const { return copies_; }  // of a process that had imported torch

 private:
  struct Place;
  /// A folder that goes with what is in it.
  struct Scratch {
    std::filesystem::path path;
    ~Scratch();
  };
  /// Runs them as jobs, and says of those that did not end by themselves how they did.
  ProcessesEnd submit(const std::vector<Start>& starts, const std::filesystem::path& notes);
  /// Starts the server of torch, if the program can have one.
  void begin();

  const FitOptions& fit_;
  std::string version_, torch_;
  Scratch folder_;  // goes after the server, which writes into it
  std::size_t count_ = 0, cached_ = 0, copies_ = 0;
  bool begun_ = false, has_cache_ = false;
  Server server_;
  int interrupted_ = 0;
  std::string stage_;
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
  double said_ = 0;  // seconds from then on at which progress was a line of a log
};

}  // namespace tidemark
