"""The platform's libraries for a PyTorch wheel other than the one that the build is made for. They are compiled once and kept:

* what the wheel asks of NVIDIA's libraries and the build does not have, as refusals by name;
* for another major version of CUDA the runtime and cuBLAS, from the same sources against that version's headers;
* the operator layer, against the wheel's own headers.

Works in any Python from 3.8 on; `built` is what the build says of itself (python/built.json)."""
import concurrent.futures
import contextlib
import fcntl
import glob
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PLATFORM = os.path.dirname(HERE)
sys.path[:0] = [os.path.join(PLATFORM, "stubs"), os.path.join(PLATFORM, "driver")]
import make_stubs  # noqa: E402
import rest  # noqa: E402
import shipped  # noqa: E402
import tidemark_files  # noqa: E402

LAYER, REST = "libtidemark_operators.so", "libtidemark_rest.so.1"
HEADERS = ("<ATen/ATen.h>", "<c10/cuda/CUDACachingAllocator.h>", "<c10/cuda/CUDAStream.h>")  # that the build has precompiled
COMPILED = ("blas", "cudart", "cupti", "operators", "recorder", "stubs")
NVIDIA = re.compile(r"lib(cu|nv|nccl)\w*\.so")


class CannotPrepare(Exception):
    """One line: what is wrong, what to do."""


class Wheel:
    def __init__(self, folder, version, cuda):
        self.folder, self.lib = folder, os.path.join(folder, "lib")
        self.version, self.cuda, self.major = version, cuda, int(cuda.split(".")[0])

    def identity(self):
        """Key of a torch, from its version, commit and CUDA: wheels for several versions of Python are one."""
        with open(os.path.join(self.folder, "version.py"), "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()[:16]

    def libraries(self):
        return shipped.shipped_libraries(self.lib)


def base(soname):
    return soname.split(".so")[0]


def sources():
    """The files that a wheel's libraries are made of."""
    for folder, _, files in sorted(os.walk(PLATFORM)):
        for name in sorted(files):
            compiled = name.endswith(".cpp") and not name.endswith("_test.cpp") and os.path.relpath(folder, PLATFORM).split(os.sep)[0] in COMPILED
            if compiled or name.endswith((".h", ".py", ".json")):
                yield os.path.join(folder, name)


def key_of(wheel, built):
    """Key of everything that the result depends on."""
    key = hashlib.sha256(json.dumps([built, [[os.path.basename(p), os.path.getsize(p)] for p in wheel.libraries()]]).encode())
    for path in [os.path.join(wheel.folder, "version.py"), *sources()]:
        with open(path, "rb") as file:
            key.update(file.read())
    return key.hexdigest()[:16]


def prepare(folder, version, cuda, built, say):
    """(the folder of the libraries, [the libraries that processes need from their start]). Raises CannotPrepare."""
    wheel = Wheel(folder, version, cuda)
    if not os.path.exists(os.path.join(wheel.lib, "libtorch_cuda.so")):
        raise CannotPrepare(f"{wheel.lib} has no libtorch_cuda.so: install torch again")
    ready = os.path.join(built["virtual"], "wheels", f"torch-{version}-{wheel.identity()}")  # that came with tidemark's own wheel
    if os.path.isdir(ready):
        return ready, libraries_of(ready, built)
    cache = os.path.join(os.path.abspath(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")), "tidemark")
    begin = os.path.join(cache, f"torch-{version}")
    place = f"{begin}-{key_of(wheel, built)}"
    try:
        if why := tidemark_files.not_ours(cache):  # what lies there is code
            raise CannotPrepare(f"the cache folder cannot be used: {why}: set XDG_CACHE_HOME to a folder of yours alone")
        if not os.path.isdir(place):
            os.makedirs(cache, mode=0o700, exist_ok=True)
            with locked(begin + ".lock", say):
                if not os.path.isdir(place):
                    make(wheel, built, begin + ".new", place, say)
        return place, libraries_of(place, built)
    except OSError as error:
        raise CannotPrepare(f"the cache folder {cache} cannot be used: {error.strerror or error}: set XDG_CACHE_HOME to another folder") from error


def libraries_of(place, built):
    with open(os.path.join(place, "libraries.json"), encoding="utf-8") as file:
        return [os.path.join(place if ours else built["virtual"], name) for name, ours in json.load(file)]


@contextlib.contextmanager
def locked(path, say):
    """Held by one process at a time; ends with the process."""
    with open(path, "w", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("tidemark: waiting for another process, which prepares the virtual libraries\n")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def make(wheel, built, out, place, say):
    compiler = Compiler(wheel, built, say)
    begun = time.monotonic()
    say(f"tidemark: preparing the virtual libraries for torch {wheel.version} (CUDA {wheel.cuda}), once, in some 25 CPU seconds ... ")
    shutil.rmtree(out, ignore_errors=True)  # of a process that was killed; its name is always the same, for ccache
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        work = os.path.join(out, "work")
        os.makedirs(os.path.join(work, "rest"))
        names = compile_all(wheel, built, compiler, out, work)
        shutil.rmtree(work)
        with open(os.path.join(out, "libraries.json"), "w", encoding="utf-8") as file:
            json.dump(names, file)
        os.rename(out, place)
    except BaseException:
        compiler.give_up()
        say("failed\n")
        shutil.rmtree(out, ignore_errors=True)
        raise
    finally:
        signal.signal(signal.SIGTERM, before)
    say(f"{time.monotonic() - begun:.0f} s\n")


def table_of(wheel):
    """{soname: entry} of NVIDIA's libraries as this wheel names them: those it needs, and those that are modelled."""
    with open(os.path.join(PLATFORM, "stubs", "libraries.json"), encoding="utf-8") as file:
        known = json.load(file)
    by_base = {base(soname): (soname, entry) for part in ("libraries", "of_other_wheels") for soname, entry in known[part].items()}
    needed = {soname for library in wheel.libraries() for soname in shipped.needed(library)}
    own = {os.path.basename(path) for path in wheel.libraries() + glob.glob(os.path.join(wheel.folder, "..", "torch.libs", "*"))}
    table = {}
    for soname in sorted(needed - own):
        if base(soname) in by_base:
            table[soname] = by_base[base(soname)][1]
        elif NVIDIA.match(soname):
            table[soname] = {"prefixes": [], "status": 1, "name": "not supported"}
    return table


def compile_all(wheel, built, compiler, out, work):
    """Compiles into `out`; gives [(library, whether it is of `out`)] of what processes need from their start."""
    layer = compiler.start_layer(work)  # takes longest
    table = table_of(wheel)
    wants, _ = shipped.wanted(wheel.lib, table)
    names, rests, started = [("libtidemark_device.so.1", False)], [], []
    for soname, entry in table.items():
        functions, ready = wants.get(soname, set()), os.path.join(built["virtual"], soname)
        exports = shipped.symbols(ready, "--defined-only") if os.path.exists(ready) else None
        if "modelled" not in entry and (exports is None or missing(functions, exports, by_version=True)):
            stub = make_stubs.write_stub(work, soname, entry, functions, os.path.join(PLATFORM, "stubs", "overrides"))
            started.append((soname, entry, compiler.start_each(work, [stub])))
        elif exports is None:
            patterns = "".join(f" {prefix}*;" for prefix in entry["prefixes"])
            make_stubs.write(os.path.join(work, soname + ".map"), f"{soname} {{ global:{patterns} local: *; }};\n")
            started.append((soname, entry, [compiler.start_unit(os.path.join(work, soname + ".cpp"), files_of(entry["modelled"]), "-fvisibility=default")]))
        else:
            names.append((soname, False))
            rests.append((soname, entry, missing(functions, exports)))
    for soname, entry, objects in started:
        path = os.path.join(out, soname)
        compiler.link(path, objects, compiler.device, "-Wl,--version-script=" + os.path.join(work, soname + ".map"))
        names.append((soname, True))
        if "modelled" in entry:
            functions = set(wants.get(soname, set()))
            if base(soname) == "libcudart":  # extensions need others than PyTorch
                functions |= {(name, "") for name in rest.declared_in("libcudart", os.path.join(compiler.cuda, "cuda_runtime_api.h"))[0]}
            rests.append((soname, entry, missing(functions, shipped.symbols(path, "--defined-only"))))
    stubs = [make_stubs.write_stub(os.path.join(work, "rest"), soname, entry, functions) for soname, entry, functions in rests if functions]
    # A library without versions of its own has the functions of every version.
    compiler.link(os.path.join(out, REST), compiler.start_each(os.path.join(work, "rest"), stubs), compiler.device)
    names.append((REST, True))
    compiler.link(os.path.join(out, LAYER), layer, "-L" + wheel.lib, "-ltorch_cuda", "-lc10_cuda", "-ltorch_cpu", "-lc10", "-ldl")
    return names


def missing(functions, exports, by_version=False):
    names = {name for name, _ in exports}
    return {(name, version) for name, version in functions
            if name not in names or (by_version and version and (name, version) not in exports)}


def files_of(patterns):
    return [path for pattern in patterns for path in sorted(glob.glob(os.path.join(PLATFORM, pattern))) if not path.endswith("_test.cpp")]


class Compiler:
    def __init__(self, wheel, built, say):
        candidates = [os.environ["CXX"]] if os.environ.get("CXX") else [built["compiler"], "c++", "g++", "clang++"]
        self.compiler = next(filter(None, map(shutil.which, candidates)), None)
        if not self.compiler or not shutil.which("nm") or not shutil.which("readelf"):
            raise CannotPrepare(f"its virtual libraries are compiled once, and there is no C++ compiler with binutils ({', '.join(candidates)}): "
                                "install g++, or set CXX")
        self.cuda = cuda_headers(wheel, built)
        include = os.path.join(wheel.folder, "include")
        root = os.path.dirname(os.path.dirname(PLATFORM))
        with open(os.path.join(wheel.lib, "libc10.so"), "rb") as file:
            abi = int(re.search(rb"_ZN3c10[A-Za-z0-9_]*NSt7__cxx1112basic_string", file.read()) is not None)  # not before 2.7
        clang = re.match(r".*clang version (\d+)", subprocess.run([self.compiler, "--version"], stdout=subprocess.PIPE, universal_newlines=True, check=False).stdout)
        names = ["-fclang-abi-compat=17"] if clang and int(clang.group(1)) >= 18 else []  # of PyTorch's templates, as GCC has them
        if clang:  # a fifth less to compile
            names += ["-mllvm", "-inline-threshold=5"]
        self.plain = ["-std=c++20", "-O1", "-w", "-fPIC", "-fsigned-char", "-ffp-contract=off", "-fvisibility=hidden", *names, "-I" + root, "-isystem", self.cuda]
        # CUDA 12's package of headers lacks some: crt/ comes with its compiler's, nv/ with CCCL's, and the build has both of its own version.
        beside = [os.path.join(wheel.folder, "..", "nvidia", name, "include") for name in ("cuda_nvcc", "cuda_cccl")]
        places = [*filter(os.path.isdir, beside), built["cuda_include"], os.path.join(built["cuda_include"], "cccl")]
        self.after = [word for place in places for word in ("-idirafter", place)]
        if not any(os.path.exists(os.path.join(place, "crt", "host_defines.h")) for place in (self.cuda, *places)):
            package = "nvidia-cuda-nvcc-cu12" if wheel.major == 12 else "nvidia-cuda-crt"
            raise CannotPrepare(f"its virtual libraries need the headers of CUDA {wheel.cuda}, and these lack crt/host_defines.h: install "
                                f"{package}=={wheel.cuda}.* beside it")
        self.torch = [f"-D_GLIBCXX_USE_CXX11_ABI={abi}", "-isystem", include, "-isystem", os.path.join(include, "torch", "csrc", "api", "include")]
        self.cache = ["ccache"] if os.environ.get("CCACHE_DIR") and shutil.which("ccache") else []
        self.device = os.path.join(built["virtual"], "libtidemark_device.so.1")
        self.pool, self.futures, self.say, self.reported, self.lock = concurrent.futures.ThreadPoolExecutor(os.cpu_count()), [], say, 0, threading.Lock()

    def run(self, command):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True, check=False)
        if done.returncode != 0:
            lines = done.stdout.splitlines()
            first = next((line for line in lines if re.search(r"error|No space|cannot", line)), lines[-1] if lines else "")
            raise CannotPrepare(f"its virtual libraries cannot be compiled by {self.compiler}: {first.strip() or 'it says nothing'}")

    def start(self, source, target, *options):
        command = [*self.cache, self.compiler, *self.plain, *options, *self.after, "-c", source, "-o", target]
        self.futures.append(self.pool.submit(self.run, command))
        self.futures[-1].add_done_callback(lambda _: self.progress())
        return target, self.futures[-1]

    def start_each(self, work, files):
        visible = "-fvisibility=default"  # as in the build: a version script says what is exported
        return [self.start(path, os.path.join(work, os.path.basename(path) + ".o"), visible) for path in files]

    def start_unit(self, unit, files, *options, headers=()):
        """Many files as one: what they include costs most of the time."""
        make_stubs.write(unit, "".join(f"#include {path}\n" for path in (*headers, *(f'"{path}"' for path in files))))
        return self.start(unit, unit + ".o", *options)

    def start_layer(self, work):
        files = [path for path in files_of(["operators/*.cpp", "recorder/*.cpp", "../memory/format/*.cpp"]) if not os.path.basename(path).startswith("sweep_")]
        return [self.start_unit(os.path.join(work, "layer.cpp"), files, *self.torch, headers=HEADERS)]

    def link(self, path, started, *options):
        objects = [target for target, future in started if not future.result()]
        self.run([self.compiler, "-shared", "-o", path, "-Wl,-soname," + os.path.basename(path), *objects, *options])

    def progress(self):
        """Says each tenth of the parts that have been compiled, of those that are known; nothing once one of them has failed."""
        with self.lock:
            ended = [future for future in list(self.futures) if future.done()]
            if any(future.cancelled() or future.exception() for future in ended):
                return
            tenths = 10 * len(ended) // len(self.futures)
            if tenths > self.reported:
                self.reported = tenths
                self.say(f"{10 * tenths} % ")

    def give_up(self):
        with self.lock:
            self.reported = 10  # no part that still ends is told
        for future in self.futures:
            future.cancel()


def cuda_headers(wheel, built):
    """The folder of CUDA's headers of the wheel's major version: beside torch, of an installed toolkit, of the build."""
    beside = os.path.join(wheel.folder, "..", "nvidia")
    for folder in (os.path.join(beside, f"cu{wheel.major}", "include"), os.path.join(beside, "cuda_runtime", "include"),
                   os.path.join(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "include"), built["cuda_include"]):
        try:
            with open(os.path.join(folder, "cuda_runtime_api.h"), encoding="utf-8") as file:
                version = re.search(r"#define CUDART_VERSION +(\d+)", file.read())
        except OSError:
            continue
        if version and int(version.group(1)) // 1000 == wheel.major:
            return os.path.abspath(folder)
    raise CannotPrepare(f"its virtual libraries need the headers of CUDA {wheel.cuda}: install "
                        f"nvidia-cuda-runtime-cu{wheel.major}=={wheel.cuda}.* beside it")
