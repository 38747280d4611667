// ZeroMQ's functions, loaded with the first use: a process without partners need not have the
// library.
#pragma once

#include <zmq.h>

#include "harness/virtual/device/symbol.h"

namespace tidemark::nccl {

/// Throws Failure where the library is not installed, or has no such function.
device::Symbol find_zeromq(const char* name);

struct ZeroMq {
  decltype(&zmq_ctx_new) ctx_new = find_zeromq("zmq_ctx_new");
  decltype(&zmq_ctx_shutdown) ctx_shutdown = find_zeromq("zmq_ctx_shutdown");
  decltype(&zmq_ctx_term) ctx_term = find_zeromq("zmq_ctx_term");
  decltype(&zmq_socket) socket = find_zeromq("zmq_socket");
  decltype(&zmq_close) close = find_zeromq("zmq_close");
  decltype(&zmq_has) has = find_zeromq("zmq_has");
  decltype(&zmq_curve_keypair) curve_keypair = find_zeromq("zmq_curve_keypair");
  decltype(&zmq_z85_decode) z85_decode = find_zeromq("zmq_z85_decode");
  decltype(&zmq_getsockopt) getsockopt = find_zeromq("zmq_getsockopt");
  decltype(&zmq_setsockopt) setsockopt = find_zeromq("zmq_setsockopt");
  decltype(&zmq_bind) bind = find_zeromq("zmq_bind");
  decltype(&zmq_connect) connect = find_zeromq("zmq_connect");
  decltype(&zmq_msg_init) msg_init = find_zeromq("zmq_msg_init");
  decltype(&zmq_msg_init_data) msg_init_data = find_zeromq("zmq_msg_init_data");
  decltype(&zmq_msg_send) msg_send = find_zeromq("zmq_msg_send");
  decltype(&zmq_msg_recv) msg_recv = find_zeromq("zmq_msg_recv");
  decltype(&zmq_msg_close) msg_close = find_zeromq("zmq_msg_close");
  decltype(&zmq_msg_data) msg_data = find_zeromq("zmq_msg_data");
  decltype(&zmq_msg_size) msg_size = find_zeromq("zmq_msg_size");
  decltype(&zmq_msg_more) msg_more = find_zeromq("zmq_msg_more");
  decltype(&zmq_errno) error = find_zeromq("zmq_errno");
  decltype(&zmq_strerror) strerror = find_zeromq("zmq_strerror");
};

/// Throws Failure as find_zeromq does.
const ZeroMq& zeromq();

}  // namespace tidemark::nccl
