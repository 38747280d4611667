// ZeroMQ's functions, loaded with the first use: a process without partners need not have the
// library.
#pragma once

#include <zmq.h>

namespace tidemark::nccl {

struct ZeroMq {
  decltype(&zmq_ctx_new) ctx_new;
  decltype(&zmq_ctx_shutdown) ctx_shutdown;
  decltype(&zmq_ctx_term) ctx_term;
  decltype(&zmq_socket) socket;
  decltype(&zmq_close) close;
  decltype(&zmq_setsockopt) setsockopt;
  decltype(&zmq_bind) bind;
  decltype(&zmq_connect) connect;
  decltype(&zmq_msg_init) msg_init;
  decltype(&zmq_msg_init_data) msg_init_data;
  decltype(&zmq_msg_send) msg_send;
  decltype(&zmq_msg_recv) msg_recv;
  decltype(&zmq_msg_close) msg_close;
  decltype(&zmq_msg_data) msg_data;
  decltype(&zmq_msg_size) msg_size;
  decltype(&zmq_msg_more) msg_more;
  decltype(&zmq_errno) error;
  decltype(&zmq_strerror) strerror;
};

/// Throws Failure where the library is not installed.
const ZeroMq& zeromq();

}  // namespace tidemark::nccl
