// The link of a run's ranks, and who else may call it.
#include "harness/ranks/local_link.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>

namespace tidemark {
namespace {

constexpr uid_t kNobody = 65534;
constexpr Tag kTag{7, 3};

std::shared_ptr<Link> link_of(int rank) {
  setenv(kRank, std::to_string(rank).c_str(), 1);
  return local_link();
}

std::string message_of_rank_1(Link& link) {
  for (const auto end = Link::Clock::now() + std::chrono::seconds(60); Link::Clock::now() < end;
       std::this_thread::sleep_for(std::chrono::milliseconds(1)))
    if (const auto message = link.arrived(1, kTag)) return message->second;
  return "(none)";
}

/// As rank 1 of the run: whether rank 0 has closed the connection (1), or kept it for a second (2).
[[noreturn]] void call(const std::string& name) {
  sockaddr_un there{};
  there.sun_family = AF_UNIX;
  name.copy(there.sun_path + 1, sizeof there.sun_path - 1);
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  const int caller = socket(AF_UNIX, SOCK_STREAM, 0);
  const std::int32_t rank = 1;
  if (connect(caller, reinterpret_cast<const sockaddr*>(&there), size) != 0) _exit(3);
  // A connection that is closed already may refuse the number, and an end is an answer too.
  if (send(caller, &rank, sizeof rank, MSG_NOSIGNAL) != sizeof rank) _exit(1);
  const timeval second{1, 0};
  setsockopt(caller, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof second);
  char byte = 0;
  const ssize_t answer = recv(caller, &byte, 1, 0);
  _exit(answer == 0 || (answer < 0 && errno == ECONNRESET) ? 1 : 2);
}

TEST(LocalLink, HearsThisUserAlone) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  const std::string name = new_socket_name();
  setenv(kSocket, name.c_str(), 1);
  setenv(kRanks, "2", 1);
  const std::shared_ptr<Link> rank0 = link_of(0);
  const pid_t foreign = fork();
  if (foreign == 0) {
    if (setresuid(kNobody, kNobody, kNobody) != 0) _exit(4);
    call(name);
  }
  int status = 0;
  while (waitpid(foreign, &status, WNOHANG) == 0) {
    rank0->waits(kTag);  // takes those in who call
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(1, WEXITSTATUS(status)) << "1: closed, 2: kept, 3: no connection, 4: no other user";
  // The place of rank 1 is still free.
  const std::shared_ptr<Link> rank1 = link_of(1);
  rank1->send(0, kTag, "here", Link::Clock::now() + std::chrono::seconds(60));
  EXPECT_EQ("here", message_of_rank_1(*rank0));
}

}  // namespace
}  // namespace tidemark
