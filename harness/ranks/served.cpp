#include "harness/ranks/served.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>

namespace tidemark {
namespace {

std::string order(const std::vector<std::string>& argv) {
  std::array<char, 4096> folder{};
  std::string text = getcwd(folder.data(), folder.size()) != nullptr ? folder.data() : "/";
  const auto add = [&](const std::string& word) { text += '\0', text += word; };
  add(std::to_string(argv.size()));
  for (const std::string& word : argv) add(word);
  for (char** each = environ; *each != nullptr; ++each) add(*each);
  text += '\0';
  return std::to_string(text.size()) + "\n" + text;
}

/// Sends the text, with the files 0, 1 and 2 beside its first byte.
bool send_order(int connection, const std::string& text) {
  iovec part{const_cast<char*>(text.data()), 1};
  const int files[] = {0, 1, 2};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof files)> control{};
  msghdr message{};
  message.msg_iov = &part, message.msg_iovlen = 1;
  message.msg_control = control.data(), message.msg_controllen = control.size();
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET, header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof files);
  std::memcpy(CMSG_DATA(header), files, sizeof files);
  if (sendmsg(connection, &message, MSG_NOSIGNAL) != 1) return false;
  for (std::size_t sent = 1; sent < text.size();) {
    const ssize_t more = send(connection, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (more <= 0) return false;
    sent += static_cast<std::size_t>(more);
  }
  return true;
}

}  // namespace

void run_served(const std::string& socket_name, const std::vector<std::string>& argv) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (socket_name.size() >= sizeof address.sun_path) return;
  std::memcpy(address.sun_path, socket_name.c_str(), socket_name.size() + 1);
  const int connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connection < 0) return;
  std::string answer;
  if (connect(connection, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
      send_order(connection, order(argv))) {
    std::array<char, 64> some{};
    for (ssize_t size = 0; (size = read(connection, some.data(), some.size())) > 0;)
      answer.append(some.data(), static_cast<std::size_t>(size));
    if (answer.empty()) answer = "code 3";  // the server has ended, and the program with it
  }
  close(connection);
  const int number =
      std::atoi(answer.c_str() + std::min<std::size_t>(answer.size(), answer.find(' ')));
  if (answer.starts_with("code ")) _exit(number);
  if (!answer.starts_with("signal ")) return;
  signal(number, SIG_DFL);
  raise(number);
  _exit(128 + number);
}

}  // namespace tidemark
