#include "harness/ranks/mpi_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <optional>

#include "harness/errors.h"
#include "harness/ranks/launcher.h"
#include "harness/ranks/mpi_link.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

[[noreturn]] void refuse(const std::string& why) { throw Unavailable(why, 3); }

// The families that the launcher's variables name. srun with PMIx may have started either.
std::vector<const MpiFamily*> of_the_launcher() {
  const auto& families = mpi_families();
  if (!variable("OMPI_COMM_WORLD_SIZE").empty()) return {&families[0]};
  if (variable("PMIX_RANK").empty()) return {&families[1]};
  return {&families[0], &families[1]};
}

std::vector<fs::path> places(const MpiFamily& family) {
  if (const std::string given = variable("TIDEMARK_LIBMPI"); !given.empty()) return {given};
  std::vector<fs::path> candidates(family.sonames.begin(), family.sonames.end());
  const std::string path = variable("PATH");
  for (std::size_t at = 0; at <= path.size();) {
    const std::size_t end = std::min(path.find(':', at), path.size());
    for (const char* launcher : {"mpirun", "mpiexec"}) {
      std::error_code none;
      const fs::path program = fs::canonical(fs::path(path.substr(at, end - at)) / launcher, none);
      for (const char* folder : {"lib", "lib64"})
        for (const char* soname : family.sonames)
          if (const fs::path file = program.parent_path().parent_path() / folder / soname;
              !none && fs::exists(file))
            candidates.push_back(file);
    }
    at = end + 1;
  }
  return candidates;
}

std::string version_of(void* library) {
  char text[8192] = {};  // MPI_MAX_LIBRARY_VERSION_STRING of MPICH, the longest
  int length = 0;
  using Version = int(char*, int*);
  if (auto* ask = reinterpret_cast<Version*>(dlsym(library, "MPI_Get_library_version")))
    ask(text, &length);
  const std::string all = text;
  return length > 0 ? all.substr(0, all.find_first_of(",\n")) : "unknown";
}

// Open MPI 1.10 was installed under a name of MPICH's.
bool belongs(const MpiFamily& family, const std::string& version) {
  const bool open_mpi = version.find(mpi_families()[0].word) != version.npos;
  return &family == &mpi_families()[0] ? open_mpi
                                       : !open_mpi && version.find(family.word) != version.npos;
}

// The first that is of the family; in `tried`, what was found instead.
void* load(const MpiFamily& family, std::string& tried) {
  for (const fs::path& place : places(family)) {
    void* library = dlopen(place.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (library == nullptr) {
      if (!variable("TIDEMARK_LIBMPI").empty()) tried += fmt::format("; {}", dlerror());
      continue;
    }
    if (const std::string version = version_of(library); belongs(family, version))
      return library;
    else
      tried += fmt::format("; {} is {}", place.string(), version);
    dlclose(library);
  }
  return nullptr;
}

std::shared_ptr<Link> make(const MpiFamily& family, void* library) {
  const fs::path adapter =
      fs::read_symlink("/proc/self/exe").parent_path() / "mpi" / (std::string(family.name) + ".so");
  void* loaded = dlopen(adapter.c_str(), RTLD_NOW);
  if (loaded == nullptr)
    refuse(
        fmt::format("the launcher is one of {}, and this build of tidemark has no {}: build it "
                    "where mpi.h of {} is installed, or start it without a launcher ({})",
                    family.members, adapter.filename().string(), family.name, dlerror()));
  std::string wrong;
  const auto make_link = reinterpret_cast<MakeMpiLink*>(dlsym(loaded, kMakeMpiLink));
  std::shared_ptr<Link> link(make_link(wrong));
  if (!link) refuse(fmt::format("{} cannot be used: {}", version_of(library), wrong));
  if (const auto launcher = find_launcher(); launcher && launcher->size > link->size())
    refuse(
        fmt::format("the launcher started {} ranks that {} cannot connect: use its own mpirun, "
                    "or srun --mpi=pmix",
                    launcher->size, link->library()));
  return link;
}

}  // namespace

const std::vector<MpiFamily>& mpi_families() {
  static const std::vector<MpiFamily> families{
      {"openmpi", "Open MPI's", "Open MPI", {"libmpi.so.40"}},
      {"mpich", "MPICH's family", "MPI", {"libmpi.so.12", "libmpich.so.12", "libmpi_cray.so.12"}},
  };
  return families;
}

std::shared_ptr<Link> mpi_link() {
  setenv("TIDEMARK_NCCL_WAITS", "1", 0);           // as in launch.cpp
  setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);  // ranks that wait let the others run
  // Open MPI 5 maps memory that PMIx shares at an address of its own choice, which the virtual
  // device may have reserved; messages do as well.
  setenv("PMIX_MCA_gds", "hash", 0);
  std::string tried;
  const auto wanted = of_the_launcher();
  for (const MpiFamily* family : wanted)
    if (void* library = load(*family, tried)) return make(*family, library);
  refuse(
      fmt::format("a launcher of MPI ({}) has started this process, and no library of it is "
                  "found{}: set TIDEMARK_LIBMPI to its libmpi.so, or start tidemark without a "
                  "launcher",
                  wanted.front()->members, tried));
}

}  // namespace tidemark
