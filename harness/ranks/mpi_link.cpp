// Only what MPI 3.0 promises is used: tags up to 32,767, and threads that call one after the other
// (MPI_THREAD_SERIALIZED). Every message that is sent is received before MPI_Finalize.
#include "harness/ranks/mpi_link.h"

#include <mpi.h>

#include <algorithm>
#include <cstring>
#include <list>
#include <stdexcept>
#include <thread>
#include <vector>

namespace tidemark {
namespace {

constexpr int kHead = 1, kBody = 2;         // MPI's tags
constexpr std::uint64_t kPiece = 1u << 30;  // bytes of one message: MPI counts in int

struct Head {
  Tag tag;
  std::uint64_t bytes = 0;
};

struct Leaving {
  Head head;
  std::string text;
  std::vector<MPI_Request> requests;
};

class MpiLink : public Link {
 public:
  MpiLink(int rank, int size, MPI_Comm comm) : Link(rank, size), comm_(comm) {}
  ~MpiLink() override {
    MPI_Comm_free(&comm_);
    MPI_Finalize();
  }
  std::string library() const override;
  void abort(int code) override { MPI_Abort(MPI_COMM_WORLD, code); }

 private:
  bool push(int target, const Tag& tag, const std::string& text) override;
  bool flush() override;
  void pull() override;

  MPI_Comm comm_;
  std::list<Leaving> leaving_;  // buffers that MPI reads stay where they are
};

std::string MpiLink::library() const {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(text, &length);
  std::string first(text, static_cast<std::size_t>(length));
  first.resize(std::min(first.size(), first.find_first_of(",\n")));
  std::ranges::replace(first, '\t', ' ');  // MPICH's
  return first;
}

bool MpiLink::push(int target, const Tag& tag, const std::string& text) {
  Leaving& message = leaving_.emplace_back(Leaving{{tag, text.size()}, text, {}});
  MPI_Isend(&message.head, static_cast<int>(sizeof message.head), MPI_BYTE, target, kHead, comm_,
            &message.requests.emplace_back());
  for (std::uint64_t at = 0; at < text.size(); at += kPiece)
    MPI_Isend(message.text.data() + at, static_cast<int>(std::min(kPiece, text.size() - at)),
              MPI_BYTE, target, kBody, comm_, &message.requests.emplace_back());
  return flush();
}

bool MpiLink::flush() {
  std::erase_if(leaving_, [](Leaving& one) {
    int all = 0;
    MPI_Testall(static_cast<int>(one.requests.size()), one.requests.data(), &all,
                MPI_STATUSES_IGNORE);
    return all != 0;
  });
  return leaving_.empty();
}

void MpiLink::pull() {
  for (;;) {
    int there = 0;
    MPI_Status status;
    MPI_Iprobe(MPI_ANY_SOURCE, kHead, comm_, &there, &status);
    if (there == 0) return;
    Head head;
    MPI_Recv(&head, static_cast<int>(sizeof head), MPI_BYTE, status.MPI_SOURCE, kHead, comm_,
             MPI_STATUS_IGNORE);
    std::string text(head.bytes, '\0');
    for (std::uint64_t at = 0; at < head.bytes; at += kPiece) {
      MPI_Request request;
      MPI_Irecv(text.data() + at, static_cast<int>(std::min(kPiece, head.bytes - at)), MPI_BYTE,
                status.MPI_SOURCE, kBody, comm_, &request);
      int done = 0;
      for (int tries = 0; MPI_Test(&request, &done, MPI_STATUS_IGNORE), done == 0; ++tries)
        if (tries > 50) std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    file(status.MPI_SOURCE, head.tag, std::move(text));
  }
}

}  // namespace

extern "C" __attribute__((visibility("default"))) Link* tidemark_mpi_link(std::string& wrong) {
  int version = 0, subversion = 0, level = 0, rank = 0, size = 1;
  MPI_Get_version(&version, &subversion);
  if (version < 3) {
    wrong = "it is MPI " + std::to_string(version) + "." + std::to_string(subversion) +
            ", and tidemark needs MPI 3";
    return nullptr;
  }
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level);
  if (level < MPI_THREAD_SERIALIZED) {
    wrong = "it was built without threads (MPI_THREAD_SERIALIZED)";
    MPI_Finalize();
    return nullptr;
  }
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  return new MpiLink(rank, size, comm);
}

}  // namespace tidemark
