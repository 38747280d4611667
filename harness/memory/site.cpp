#include "harness/memory/site.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "harness/record/units.h"

namespace tidemark {

bool is_python(const StackFrame& frame) {
  return frame.file.ends_with(".py") || (frame.file.starts_with('<') && frame.line > 0);
}

namespace {

constexpr std::string_view kNamespace = "torch::autograd::";
constexpr std::string_view kTorch = "/torch/";

/// Python's own: copy.deepcopy, a thread's first frame. A program in such a folder is installed.
bool of_standard_library(const std::string& file) {
  for (const char* folder : {"/lib/python3.", "/lib64/python3."})
    if (const auto at = file.find(folder); at != file.npos)
      return file.find("-packages/", at) == file.npos;
  return false;
}

/// A file that Inductor has written, in the folder of its user or in TORCHINDUCTOR_CACHE_DIR:
/// ".../ab/cab...z.py", of a hash of 51 characters.
bool of_inductor(const std::string& file) {
  if (file.find("/torchinductor_") != file.npos) return true;
  constexpr std::size_t kName = 52 + 3;  // with ".py"
  if (file.size() < kName + 4 || !file.ends_with(".py")) return false;
  const std::string name = file.substr(file.size() - kName), folder = "/" + name.substr(1, 2) + "/";
  return name[0] == 'c' && file.compare(file.size() - kName - 4, 4, folder) == 0 &&
         std::ranges::all_of(name.substr(0, 52), [](unsigned char letter) {
           return std::islower(letter) != 0 || std::isdigit(letter) != 0;
         });
}

std::string with_slashes(std::string file) {
  std::ranges::replace(file, '\\', '/');
  return file;
}

/// Or that of Python's standard library, of `tidemark exec`, which stands around autograd.backward
/// and other functions, or what torch.compile or Python itself has written. A wheel's C++ frames
/// have the names of files without folders, and the interpreter's have C files.
bool pytorchs_own(const Snapshot& snapshot, const StackFrame& frame) {
  const std::string file = with_slashes(frame.file);
  const bool python = is_python(frame);
  const auto in = [&](const char* what) { return file.find(what) != std::string::npos; };
  const auto of = [&](const char* space) {
    const std::size_t at = frame.function.starts_with("void ") ? 5 : 0;
    return frame.function.compare(at, std::string_view(space).size(), space) == 0;
  };
  if (!python)
    return in("/torch/") || in("c10/") || in("aten/") || in("torch/csrc/") || file.empty() ||
           file == "??" || file.ends_with(".c") || of("at::") || of("c10::") || of("torch::");
  return !file_of_torch(snapshot, frame).empty() || in("/python/tidemark_") || of_inductor(file) ||
         file.starts_with("<frozen") || file.starts_with("<eval_with_key>") ||  // torch.fx's
         of_standard_library(file);
}

/// "MmBackward0" of "torch::autograd::generated::MmBackward0::apply(...)"; empty for another frame
/// and for a node that is written in Python.
std::string node_of(const StackFrame& frame) {
  std::string_view name = frame.function;
  const auto apply = name.find("::apply(");
  if (!name.starts_with(kNamespace) || apply == name.npos) return "";
  name = name.substr(kNamespace.size(), apply - kNamespace.size());
  for (const std::string_view prefix : {"generated::", "CppNode<"})
    if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
  if (name.ends_with('>')) name.remove_suffix(1);
  return name == "PyNode" ? "" : std::string(name);
}

/// " (in foreach_all_gather)": the function of FSDP's or DDP's that allocated, on whose line of the
/// program nothing is seen of it. `until`: the program's frame.
std::string in_library(const Snapshot& snapshot, const std::vector<std::uint32_t>& frames,
                       const StackFrame* until) {
  for (const std::uint32_t at : frames) {
    const StackFrame& frame = snapshot.frames[at];
    if (&frame == until) break;
    const std::string torch = file_of_torch(snapshot, frame);
    if ((torch.starts_with("distributed/") || torch.starts_with("nn/parallel/")) &&
        !frame.function.starts_with('<'))
      return one_line(" (in " + frame.function + ")");
  }
  return "";
}

std::string text(const StackFrame& frame) {
  return one_line(fmt::format("{} {}:{}", frame.function,
                              frame.file.substr(frame.file.find_last_of("/\\") + 1), frame.line));
}

}  // namespace

std::uint32_t add_frame(Snapshot& snapshot, StackFrame frame) {
  const std::string file = with_slashes(frame.file);
  for (const std::string_view known : {"_ops.py", "_tensor.py", "nn/modules/linear.py",
                                       "nn/modules/module.py", "utils/_contextlib.py"}) {
    if (!file.ends_with(known)) continue;
    std::string folder = file.substr(0, file.size() - known.size());
    if (folder.ends_with(kTorch) &&
        std::ranges::find(snapshot.torch, folder) == snapshot.torch.end())
      snapshot.torch.push_back(std::move(folder));
  }
  snapshot.frames.push_back(std::move(frame));
  return static_cast<std::uint32_t>(snapshot.frames.size() - 1);
}

std::string file_of_torch(const Snapshot& snapshot, const StackFrame& frame) {
  const std::string file = with_slashes(frame.file);
  for (const std::string& folder : snapshot.torch)
    if (file.starts_with(folder)) return file.substr(folder.size());
  constexpr std::string_view kInstalled = "-packages";
  const auto packages = file.rfind(std::string(kInstalled) + "/");
  if (packages == file.npos && !snapshot.torch.empty()) return "";
  const auto at = packages == file.npos ? file.find(kTorch) : packages + kInstalled.size();
  if (at == file.npos || file.compare(at, kTorch.size(), kTorch) != 0) return "";
  return file.substr(at + kTorch.size());
}

bool is_users_python(const Snapshot& snapshot, const StackFrame& frame) {
  return is_python(frame) && !pytorchs_own(snapshot, frame);
}

std::optional<MemoryKind> kind_of_library(const Snapshot& snapshot,
                                          const std::vector<std::uint32_t>& frames) {
  for (std::uint32_t at : frames) {
    const StackFrame& frame = snapshot.frames[at];
    const std::string torch = file_of_torch(snapshot, frame);
    const auto in = [&](const char* folder) { return torch.starts_with(folder); };
    const auto of = [&](const char* file) { return frame.file.find(file) != std::string::npos; };
    if (in("nn/parallel/distributed.py")) {
      if (frame.function.starts_with('<')) continue;  // part of the function around it
      if (frame.function == "forward") break;  // _DDPSink's, which clones the model's outputs
    }
    if (in("optim/")) {
      // A step that ran out of memory has not come to its labels.
      const bool state = frame.function == "_init_group";
      return state ? MemoryKind::optimizer_state : MemoryKind::optimizer_temporaries;
    }
    if (in("distributed/fsdp/") || in("distributed/_composable/fsdp/") ||
        in("nn/parallel/distributed.py") || in("distributed/algorithms/ddp_comm_hooks/") ||
        in("distributed/checkpoint/") || in("distributed/_state_dict_utils.py") ||
        of("/deepspeed/runtime/"))
      return MemoryKind::sharding_buffers;
    if (in("distributed/pipelining/")) {
      // Before a step it makes what each microbatch arrives in, of stages before and behind; after
      // it, one tensor of the results of all.
      if (frame.function == "_make_tensor_from_meta") return MemoryKind::receive_buffers;
      if (frame.function == "merge_chunks") return MemoryKind::outputs;
    }
    if (of("/accelerate/utils/modeling.py") && frame.function == "set_module_tensor_to_device")
      return MemoryKind::parameters;
    if (torch.empty() || in("nn/modules/")) break;  // a module, or the program itself
  }
  return {};
}

bool gathers_whole(const Snapshot& snapshot, const std::vector<std::uint32_t>& frames) {
  return std::ranges::any_of(frames, [&](std::uint32_t at) {
    const StackFrame& frame = snapshot.frames[at];
    if (frame.function != "full_tensor") return false;
    const std::string torch = file_of_torch(snapshot, frame);
    return torch.starts_with("distributed/tensor/") || torch.starts_with("distributed/_tensor/");
  });
}

const StackFrame* users_frame(const Snapshot& snapshot, std::uint32_t stack) {
  const StackFrame* inner = nullptr;  // a hook that a subclass has before every operator
  for (const std::uint32_t at : snapshot.stacks[stack]) {
    const StackFrame& frame = snapshot.frames[at];
    if (!is_users_python(snapshot, frame)) continue;
    if (frame.function != "__torch_function__" && frame.function != "__torch_dispatch__")
      return &frame;
    if (inner == nullptr) inner = &frame;
  }
  return inner;
}

std::string site_of(const Snapshot& snapshot, std::uint32_t stack) {
  const auto& frames = snapshot.stacks[stack];
  if (frames.empty()) return "(no stack was recorded)";
  const auto frame = [&](std::uint32_t at) -> const StackFrame& { return snapshot.frames[at]; };
  const auto first = [&](auto what) {
    const auto match =
        std::ranges::find_if(frames, [&](std::uint32_t at) { return what(frame(at)); });
    return match == frames.end() ? nullptr : &frame(*match);
  };
  // A node as `tidemark exec` writes it down, before the line that it runs or that made it; or an
  // operator of a scenario.
  const std::string named =
      frame(frames[0]).file == "autograd" || frame(frames[0]).file == "operator"
          ? one_line(frame(frames[0]).function)
          : "";
  if (const auto* users = users_frame(snapshot, stack))
    return text(*users) +
           (named.empty() ? in_library(snapshot, frames, users) : " (" + named + ")");
  if (!named.empty()) return named;
  if (const auto* node = first([](const StackFrame& f) { return !node_of(f).empty(); }))
    return one_line(node_of(*node));
  // It sums gradients up, and makes them the shape of an input.
  if (first(
          [](const StackFrame& f) { return f.function.starts_with("torch::autograd::Engine::"); }))
    return "autograd's engine";
  if (const auto* other = first([&](const StackFrame& f) { return !pytorchs_own(snapshot, f); }))
    return text(*other);
  const auto written_by_hand = [](const StackFrame& f) {
    return is_python(f) && !of_inductor(f.file);
  };
  if (const auto* python = first(written_by_hand)) return text(*python);
  return text(frame(frames[0]));
}

bool is_ours(const Snapshot& snapshot) { return snapshot.labelled || !snapshot.labels.empty(); }

}  // namespace tidemark
