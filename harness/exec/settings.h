// Settings that `tidemark exec` gives the Python modules in a program's processes
// (python/tidemark_settings.py), and that `fit` and the pytest plugin give `exec`: one JSON object
// in one variable.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace tidemark {

struct ExecSettings {
  std::string layer, torch;  // the operator layer's library; the version that it is for
  int history = 0;           // 1: events are recorded, those of steps that repeat once; 2: all
  int alone = -1;            // the process is this rank of --as-rank
  std::vector<int> present;  // all ranks of --as-rank
  std::string partners;      // the folder of tidemark_partners.py
  std::vector<std::string> changes;  // of tidemark_changes.py, by name
  std::string changed;               // the file in which it says what it has changed
  std::string steady;                // the folder of tidemark_steady.py
  bool steady_ends = false;          // that module ends the program when its steps repeat
  std::string cause;                 // the file for the cause of a run without a result (cause.h)
  std::string serves;  // the process is tidemark_server.py: the file of its environment
  std::string server;  // the socket of such a process, which runs the program

  /// Those in the variable of this process. Throws UsageError where it is not such an object.
  static ExecSettings given();
  /// The variable's name and value.
  std::pair<std::string, std::string> variable() const;
};

}  // namespace tidemark
