// Network between the processes of a job: ZeroMQ sockets, whatever launcher started them. The
// unique id holds the address of its creator, which introduces the ranks to each other.
#pragma once

#include <nccl.h>
#include <sys/types.h>

#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "harness/virtual/nccl/message.h"

namespace tidemark::nccl {

struct ZeroMq;

/// Place of the creator's address in a unique id, and its greatest length.
inline constexpr std::size_t address_at = 40, address_size = NCCL_UNIQUE_ID_BYTES - address_at;

/// The process itself, as a number of the network.
inline constexpr int here = 0;

class Network {
 public:
  /// `arrived` takes each message, on any thread. Throws Failure where ZeroMQ is not installed, or
  /// there is no socket.
  explicit Network(std::function<void(MessagePtr)> arrived);
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  /// Tells every process that shares the unique id which rank is here (Kind::hello). Returns the
  /// number of the id's creator, which the greetings of the other ranks depend on. Throws Failure.
  int greet(const Header& hello, const ncclUniqueId& id);
  /// Takes the message over; never waits for the receiver.
  void send(int process, const Header& header, const Payload& payload);
  /// Whether the process has ended, and what it sent before has come.
  bool has_ended(int process);
  std::string name_of(int process) const;
  /// Waits until partners that live have what was sent. Nothing is sent from then on.
  void close();
  /// This process's address for a unique id.
  const std::string& address() const { return address_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Partner {
    std::string address;
    void* socket = nullptr;               // made with the first message
    Clock::time_point probed{}, ended{};  // ended: when that was first seen
  };

  int number_of(const std::string& address);
  void send_locked(int process, const Header& header, const Payload& payload);
  void introduce(const Header& greeting, const std::string& address);
  void receive();
  MessagePtr receive_one();

  const ZeroMq& zmq_;
  const std::function<void(MessagePtr)> arrived_;
  const pid_t pid_;
  const std::string address_;
  void* library_ = nullptr;
  void* listening_ = nullptr;
  std::thread receiving_;

  mutable std::mutex mutex_;  // of what follows
  bool closed_ = false;
  std::vector<Partner> partners_;  // by number; the first is this process
  std::map<CommId, std::vector<std::pair<Header, std::string>>> greetings_;  // of our unique ids
};

}  // namespace tidemark::nccl
