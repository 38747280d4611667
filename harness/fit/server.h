// A process that has imported torch once, of which the runs of `tidemark fit` are copies.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

namespace tidemark {

class Server {
 public:
  Server() = default;
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Starts it for programs of this Python under `tidemark exec` with these flags, and waits until
  /// it answers. `folder` gets its socket and its output. Where it cannot start there is none.
  void start(const std::string& python, const std::vector<std::string>& flags,
             const std::filesystem::path& folder);
  /// Its socket; empty: there is none.
  const std::string& socket() const { return socket_; }

 private:
  pid_t process_ = 0;
  std::string socket_;
};

/// The Python of a program `python3 file.py ...` or `python3 -m module ...`; empty for any other,
/// whose processes a server cannot take the place of.
std::string served_python(const std::vector<std::string>& program);

}  // namespace tidemark
