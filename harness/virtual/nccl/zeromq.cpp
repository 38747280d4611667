#include "harness/virtual/nccl/zeromq.h"

#include <dlfcn.h>

#include <cstdlib>

#include "harness/virtual/nccl/failure.h"

namespace tidemark::nccl {
namespace {

template <typename Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) fail(ncclSystemError, "libzmq.so.5 has no {}", name);
}

ZeroMq load() {
  const char* named = std::getenv("TIDEMARK_LIBZMQ");
  void* library = dlopen(named == nullptr ? "libzmq.so.5" : named, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    fail(ncclSystemError,
         "ranks that MPI did not start meet over ZeroMQ, and libzmq.so.5 cannot be loaded ({}): "
         "install the package libzmq5, or pyzmq",
         dlerror());
  }
  ZeroMq all{};
  find(library, "zmq_ctx_new", all.ctx_new);
  find(library, "zmq_ctx_shutdown", all.ctx_shutdown);
  find(library, "zmq_ctx_term", all.ctx_term);
  find(library, "zmq_socket", all.socket);
  find(library, "zmq_close", all.close);
  find(library, "zmq_setsockopt", all.setsockopt);
  find(library, "zmq_bind", all.bind);
  find(library, "zmq_connect", all.connect);
  find(library, "zmq_msg_init", all.msg_init);
  find(library, "zmq_msg_init_data", all.msg_init_data);
  find(library, "zmq_msg_send", all.msg_send);
  find(library, "zmq_msg_recv", all.msg_recv);
  find(library, "zmq_msg_close", all.msg_close);
  find(library, "zmq_msg_data", all.msg_data);
  find(library, "zmq_msg_size", all.msg_size);
  find(library, "zmq_msg_more", all.msg_more);
  find(library, "zmq_errno", all.error);
  find(library, "zmq_strerror", all.strerror);
  return all;
}

}  // namespace

const ZeroMq& zeromq() {
  static const ZeroMq all = load();
  return all;
}

}  // namespace tidemark::nccl
