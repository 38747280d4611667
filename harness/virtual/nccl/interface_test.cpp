// The choice of the network interface, among those that this machine has.
#include "harness/virtual/nccl/interface.h"

#include <gtest/gtest.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <cstdlib>
#include <cstring>
#include <string>

namespace tidemark::nccl {
namespace {

class Interfaces : public ::testing::Test {
 protected:
  void SetUp() override {
    ifaddrs* all = nullptr;
    ASSERT_EQ(getifaddrs(&all), 0);
    for (const ifaddrs* each = all; each != nullptr && name_.empty(); each = each->ifa_next) {
      if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != AF_INET) continue;
      if (!(each->ifa_flags & IFF_UP) || (each->ifa_flags & IFF_LOOPBACK)) continue;
      name_ = each->ifa_name;
      std::memcpy(ip_.data(), &reinterpret_cast<const sockaddr_in*>(each->ifa_addr)->sin_addr, 4);
    }
    freeifaddrs(all);
    if (name_.empty()) GTEST_SKIP() << "this machine has no IPv4 address but loopback's";
  }
  void TearDown() override {
    unsetenv("NCCL_SOCKET_IFNAME");
    unsetenv("NCCL_SOCKET_FAMILY");
  }
  static Interface chosen(const std::string& list, const char* family = "AF_INET") {
    setenv("NCCL_SOCKET_IFNAME", list.c_str(), 1);
    setenv("NCCL_SOCKET_FAMILY", family, 1);
    return choose_interface();
  }
  void expect_taken(const std::string& list) {
    const Interface choice = chosen(list);
    EXPECT_EQ(choice.lack, Lack::nothing) << list;
    EXPECT_EQ(choice.family, 4) << list;
    EXPECT_EQ(choice.ip, ip_) << list;
  }
  static void expect_none(const std::string& list) {
    EXPECT_EQ(chosen(list).lack, Lack::named) << list;
    EXPECT_EQ(chosen(list).family, 0) << list;
  }

  std::string name_;
  std::array<std::uint8_t, 16> ip_{};
};

TEST_F(Interfaces, AreChosenAsNcclChoosesThem) {
  expect_taken(name_);
  expect_taken(name_.substr(0, 2));
  expect_taken("nosuch," + name_ + ":4000");
  expect_taken("=" + name_);
  expect_taken("=nosuch," + name_);
  expect_taken("^nosuch,lo");
  expect_none("nosuch");
  expect_none("lo");
  expect_none("=" + name_.substr(0, 2));
  EXPECT_NE(chosen("^" + name_).ip, ip_);
  EXPECT_NE(chosen(name_, "AF_INET6").family, 4);
}

}  // namespace
}  // namespace tidemark::nccl
