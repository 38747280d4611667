// Settings of a scenario's random_test.cpp for the suite in cases/random_test.cpp: trials at
// parameters drawn at random, of which every verdict has to hold.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "harness/testing/trials.h"

namespace tidemark::testing {

struct RandomTrials {
  const char* scenario;
  unsigned seed;
  /// Parameters that fit the trial's ranks and steps, in its mode.
  std::function<Params(Draw& draw, const Trial& trial)> params;
  int most_steps = 4;  // at least 2

  struct Part {
    int trials = 0;
    /// Least mean number of passed verdicts in a trial, by how their names begin.
    std::map<std::string, double> at_least = {};
    Mode mode = Mode::shapes;
    int races = 1;         // are looked for in every so many trials; 0: in none
    bool controls = true;  // run too
  };
  Part alone;  // any rank of up to `most_ranks`, by itself, without its partners
  int most_ranks = 8;
  Part together = {};  // all processes
  int processes = 1;   // at least, of `together`

  /// Moments (the first letters of Expectation::where) of which each is the highest in some trial,
  /// among `on_paper` random ones and these.
  std::vector<std::string> highest = {};
  int on_paper = 0;
  std::vector<Trial> besides = {};
};

/// Defined by the scenario's random_test.cpp.
RandomTrials random_trials();

}  // namespace tidemark::testing
