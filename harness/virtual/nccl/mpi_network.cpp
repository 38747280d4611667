// All traffic of all communicators uses two reserved tags of MPI_COMM_WORLD (a communicator of its
// own would have to be made by all processes together, and sub-groups know nothing of each other).
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "harness/virtual/nccl/failure.h"
#include "harness/virtual/nccl/network.h"

namespace tidemark::nccl {
namespace {

constexpr int head_tag = 0x7d6b0001, body_tag = 0x7d6b0002;  // Open MPI allows tags up to 2^31 - 1
constexpr std::size_t inline_limit = 3584;  // with its header within a shared-memory eager message
constexpr std::size_t chunk_limit = std::size_t{1} << 30;  // MPI counts are ints

bool finished(std::vector<MPI_Request>& requests) {
  int flag = 0;
  MPI_Testall(static_cast<int>(requests.size()), requests.data(), &flag, MPI_STATUSES_IGNORE);
  return flag != 0;
}

class MpiNetwork : public Network {
 public:
  MpiNetwork(const MpiWorld& world, Inbox inbox) : world_(world), inbox_(std::move(inbox)) {
    // MPI_Finalize deletes MPI_COMM_SELF's attributes first: the standard's way to hear of it.
    int key = MPI_KEYVAL_INVALID;
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, before_finalize, &key, nullptr);
    MPI_Comm_set_attr(MPI_COMM_SELF, key, this);
  }

  int own() const override { return world_.rank; }
  int greet(const Header& hello, const ncclUniqueId& id) override;
  void send(int process, const Header& header, const Payload& payload) override;
  void progress() override;
  std::string name_of(int process) const override { return fmt::format("process {}", process); }

 private:
  struct Arriving {
    MessagePtr message;
    std::vector<MPI_Request> requests;
  };
  struct Leaving {
    std::vector<std::byte> head;
    Payload payload;
    std::vector<MPI_Request> requests;
  };

  static int before_finalize(MPI_Comm, int, void* network, void*) {
    auto* self = static_cast<MpiNetwork*>(network);
    std::lock_guard lock(self->mutex_);
    self->closed_ = true;  // no more MPI calls
    return MPI_SUCCESS;
  }
  bool receive_one();
  void advance();
  void deliver_alone();

  const MpiWorld world_;
  const Inbox inbox_;
  std::mutex mutex_;
  std::condition_variable something_leaves_;
  bool closed_ = false, proxy_runs_ = false;
  std::deque<Arriving> arriving_;
  std::deque<Leaving> leaving_;
};

int MpiNetwork::greet(const Header& hello, const ncclUniqueId&) {
  for (int process = 0; process < world_.size; ++process) {
    if (process != own()) send(process, hello, {});
  }
  inbox_.arrived(std::make_shared<Message>(Message{hello, {}, true, -1}));
  return own();
}

// Header and payload of a message go out under the lock: the receiver matches bodies to headers by
// their order.
void MpiNetwork::send(int process, const Header& header, const Payload& payload) {
  std::lock_guard lock(mutex_);
  if (closed_) return;
  bool inlined = payload.size <= inline_limit;
  Leaving& message = leaving_.emplace_back();
  message.head.resize(sizeof header + (inlined ? payload.size : 0));
  std::memcpy(message.head.data(), &header, sizeof header);
  if (inlined && payload.size > 0)
    std::memcpy(message.head.data() + sizeof header, payload.data.get(), payload.size);
  MPI_Isend(message.head.data(), static_cast<int>(message.head.size()), MPI_BYTE, process, head_tag,
            MPI_COMM_WORLD, &message.requests.emplace_back());
  if (!inlined) {
    message.payload = payload;
    for (std::size_t at = 0; at < payload.size; at += chunk_limit) {
      MPI_Isend(payload.data.get() + at, static_cast<int>(std::min(chunk_limit, payload.size - at)),
                MPI_BYTE, process, body_tag, MPI_COMM_WORLD, &message.requests.emplace_back());
    }
  }
  if (finished(message.requests)) {
    leaving_.pop_back();
    return;
  }
  if (!proxy_runs_) {
    proxy_runs_ = true;
    std::thread(&MpiNetwork::deliver_alone, this).detach();
  }
  something_leaves_.notify_one();
}

// A large message leaves only while its sender calls MPI, but the sender is free to go on with
// something else. This thread sleeps whenever nothing is under way.
void MpiNetwork::deliver_alone() {
  std::unique_lock lock(mutex_);
  while (!closed_) {
    something_leaves_.wait(lock, [this] { return closed_ || !leaving_.empty(); });
    if (!closed_) advance();
    bool idle = leaving_.empty();
    lock.unlock();
    if (!idle) std::this_thread::sleep_for(std::chrono::microseconds(300));
    lock.lock();
  }
}

void MpiNetwork::progress() {
  std::lock_guard lock(mutex_);
  if (!closed_) advance();
}

void MpiNetwork::advance() {
  for (int i = 0; i < 64 && receive_one(); ++i) {
  }
  std::erase_if(arriving_, [this](Arriving& one) {
    if (!finished(one.requests)) return false;
    inbox_.completed(one.message);
    return true;
  });
  std::erase_if(leaving_, [](Leaving& one) { return finished(one.requests); });
}

bool MpiNetwork::receive_one() {
  int flag = 0;
  MPI_Message probed;
  MPI_Status status;
  MPI_Improbe(MPI_ANY_SOURCE, head_tag, MPI_COMM_WORLD, &flag, &probed, &status);
  if (flag == 0) return false;
  int size = 0;
  MPI_Get_count(&status, MPI_BYTE, &size);
  std::vector<std::byte> head(static_cast<std::size_t>(size));
  MPI_Mrecv(head.data(), size, MPI_BYTE, &probed, MPI_STATUS_IGNORE);

  auto message = std::make_shared<Message>();
  std::memcpy(&message->header, head.data(), sizeof(Header));
  std::size_t bytes = message->header.bytes;
  if (head.size() > sizeof(Header)) {
    message->payload = Payload::copy_of(head.data() + sizeof(Header), bytes);
  } else if (bytes > 0) {
    message->payload = Payload::allocate(bytes);
    message->complete = false;
    Arriving& arriving = arriving_.emplace_back(Arriving{message, {}});
    for (std::size_t at = 0; at < bytes; at += chunk_limit) {
      MPI_Irecv(message->payload.data.get() + at,
                static_cast<int>(std::min(chunk_limit, bytes - at)), MPI_BYTE, status.MPI_SOURCE,
                body_tag, MPI_COMM_WORLD, &arriving.requests.emplace_back());
    }
  }
  inbox_.arrived(std::move(message));
  return true;
}

}  // namespace

std::unique_ptr<Network> make_mpi_network(const MpiWorld& world, Inbox inbox) {
  return std::make_unique<MpiNetwork>(world, std::move(inbox));
}

}  // namespace tidemark::nccl
