// Forms: the memory of a phase on paper. A form is the highest of a few moments, and a moment is a
// sum of named amounts. It knows nothing of the plan that the replay follows, and has no remainder.
#pragma once

#include <initializer_list>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "harness/scenario.h"

namespace tidemark {

/// One moment of a phase: `where` says which, `text` is what is alive then ("rest + 2*U + i*x").
/// `counts` are plain numbers of this moment alone (i).
struct FormMoment {
  std::string where, text;
  std::map<std::string, double> counts = {};
};

/// Symbols and how often each is alive, in the order in which they were added first.
class Alive {
 public:
  Alive() = default;
  Alive(std::initializer_list<std::pair<std::string, std::int64_t>> terms);
  void add(const std::string& symbol, std::int64_t times);
  void add(const Alive& other, std::int64_t times = 1);
  Alive operator+(const Alive& other) const;
  const std::vector<std::pair<std::string, std::int64_t>>& terms() const { return terms_; }
  std::string text() const;  // "rest + 3*U + S"

 private:
  std::vector<std::pair<std::string, std::int64_t>> terms_;
};

/// The statistics that forms are of.
inline const std::vector<Statistic> kOnPaper{Statistic::requested, Statistic::allocated,
                                             Statistic::active};

void append(std::vector<Expectation>& all, std::vector<Expectation> more);

/// The symbols of a scenario's forms with their values in one trial on one rank.
///
/// Requested bytes of a symbol are the sum of its tensors. The caching allocator
/// (c10/cuda/CUDACachingAllocator.cpp, default settings) rounds every tensor up to 512 bytes; a
/// block of more than 1 MiB may besides keep up to 1 MiB that is too little to split off
/// (should_split). No such remainder exists where the sizes of all large tensors, and of the
/// segments that they are cut from, have a common divisor above 1 MiB (passing temporaries apart).
class Vocabulary {
 public:
  /// A plain number: layers, ranks, steps.
  void count(const std::string& symbol, double number);
  /// The tensors that live and die together under this name, in requested bytes each; tensors of 0
  /// bytes take no memory. Bytes of a symbol add up over several calls.
  void tensors(const std::string& symbol, const std::vector<Bytes>& each);
  /// Adds a temporary during whose life nothing else is allocated: its own block may keep a
  /// remainder, but it leaves none to others.
  void passing(const std::string& symbol, Bytes bytes);

  /// The highest of the moments: equalities of requested bytes, and of allocated and
  /// active ones where no block keeps a remainder. Otherwise bounds [sum, sum + 1 MiB for each
  /// large tensor], if that slack is at most an eighth of the smallest large tensor in the form;
  /// if not, there is no expectation of that statistic. Throws std::invalid_argument where a text
  /// cannot be evaluated.
  std::vector<Expectation> forms(const std::string& phase, bool at_end,
                                 const std::vector<Statistic>& statistics,
                                 const std::vector<FormMoment>& moments) const;
  /// Forms of a named moment of the program (trajectory).
  std::vector<Expectation> forms_at(const std::string& moment,
                                    const std::vector<Statistic>& statistics,
                                    const FormMoment& alive) const;

 private:
  struct Amount {
    double requested = 0, rounded = 0;  // bytes; of a plain number the number
    double large = 0;                   // tensors over 1 MiB; of a plain number the number
    double passing = 0;                 // the same of temporaries alone
    Bytes smallest = 0;                 // of them, in bytes; 0: none
  };
  using Values = std::map<std::string, double>;
  Values values(const FormMoment& moment, double Amount::*member) const;
  std::optional<Expectation> highest(Statistic statistic,
                                     const std::vector<FormMoment>& moments) const;

  std::map<std::string, Amount> amounts_;
  Bytes granule_ = 0;  // common divisor of large tensors and their segments; 0: there are none
};

/// The replay's figures of a phase as expectations memory/replay/<statistic>/<phase>[/end].
Expectation replayed(Statistic statistic, const std::string& phase, bool at_end, Bytes bytes);
/// Expectations of all four statistics: peaks, and ends where they are wanted. `extents` has them
/// in the order of kStatistics (reference/memory/replay.h).
template <class Extents>
std::vector<Expectation> replayed(const std::string& phase, const Extents& extents, bool ends) {
  std::vector<Expectation> all;
  for (std::size_t i = 0; const Statistic statistic : kStatistics) {
    const auto& extent = extents[i++];
    all.push_back(replayed(statistic, phase, false, extent.peak));
    if (ends) all.push_back(replayed(statistic, phase, true, extent.end));
  }
  return all;
}

}  // namespace tidemark
