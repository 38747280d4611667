"""The accuracy table of `ci/peers --accuracy`: peaks of training steps that were recorded on GPUs (reports/measured), beside what `tidemark exec`
measures and what estimators say that are installed from PyPI. An estimator gets the model and the shapes of the step, as its documentation asks for
them; one that cannot say a step is named so.

    python3 ci/accuracy.py --estimate STEP FILE     below tidemark exec: what the estimators say, as JSON"""
import gzip
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from environments import ROOT, environment, run, wheels

MEASURED = ROOT / "reports/measured"
# Recorded by others (step.py makes the events again), and by tidemark on an H100 (record.py).
STEPS = {**{f"medium_{length}": length for length in (128, 256, 512, 1024)},
         **{name: None for name in ("llama_bf16", "llama_checkpointed", "gpt2_autocast", "bert_fp16_scaler")}}
PACKAGES = {"torch-kitsune": "0.7.0", "torch-preflight": "0.5.0", "llm-analysis": "0.2.2", "accelerate": "1.15.0", "transformers": "5.17.0"}
BESIDE = ("psutil", "pyyaml", "fire", "pandas", "scipy", "rich", "safetensors", "huggingface-hub>=1.5,<2", "packaging", "tqdm", "regex", "tokenizers", "requests", "httpx", "typer",
          "libcst")


def python_with_estimators():
    """That of TIDEMARK_PEERS_PYTHON, or of an environment that is made once in TIDEMARK_WHEELS."""
    given = os.environ.get("TIDEMARK_PEERS_PYTHON")
    return given or environment(wheels() / "estimators", "2.11.0", install)


def install(_python, pip):
    run(*pip, "--no-deps", *(f"{name}=={version}" for name, version in PACKAGES.items()))  # two want another torch, or older packages
    run(*pip, *BESIDE)


def recorded(step, tidemark):
    """Bytes allocated at the highest, on the GPU."""
    if STEPS[step] is None:
        with gzip.open(MEASURED / f"h100-80g/{step}.json.gz") as file:
            return max(allocated for allocated, _ in json.load(file)["source"]["peaks"])
    shown = subprocess.run([tidemark, "snapshot", "show", "--format", "json", MEASURED / f"{step}_training.json.gz"], capture_output=True, check=True)
    return json.loads(shown.stdout)["devices"][0]["peak"]["allocated"]


def command(step, folder):
    """The program of the step, and the flags of exec."""
    length = STEPS[step]
    if length is None:
        return ["--gpu", "h100-80g", "--schedule", "lagging"], [MEASURED / "record.py", "--one", step, "--out", folder]
    return ["--gpu", "a100-80g"], [MEASURED / "step.py", "--training", "--out", Path(folder, "x.pickle"), "--context", str(length), *(["--autocast"] if length > 256 else [])]


def measured(step, tidemark, python):
    """(bytes requested or allocated at the highest, seconds): the recordings of others have requested bytes."""
    with tempfile.TemporaryDirectory() as folder:
        flags, program = command(step, folder)
        out, begun = Path(folder, "out.json"), time.monotonic()
        subprocess.run([tidemark, "exec", *flags, "--out", out, "--", python, *program], check=True, capture_output=True, env={**os.environ, "TIDEMARK_UNKNOWN": "nan"})
        device = json.loads(out.read_text())["trials"][0]["program"]["ranks"][0]["devices"][0]
        return device["requested" if STEPS[step] else "allocated"], time.monotonic() - begun


class Step:
    """The model of a step and its shapes; and what trains it: a batch, its loss, an optimizer."""

    def __init__(self, name):
        import torch

        self.step = name
        self.checkpointed, length = name == "llama_checkpointed", STEPS[name]
        if length is not None:
            sys.path.insert(0, str(MEASURED))
            sys.argv = ["step.py"]
            import step

            self.model, self.batch, self.length = step.Model(length), step.BATCH, length
            self.optimizer, self.clip = step.AdamW, None
            self.loss = lambda model, tokens: step.cross_entropy(model(tokens), tokens)
            self.mixed = torch.bfloat16 if length > 256 else None
            self.layers, self.heads, self.width, self.hidden, self.vocabulary, self.groups = step.LAYERS, step.HEADS, step.WIDTH, step.HIDDEN, step.VOCABULARY, step.HEADS
        else:
            sys.path.insert(0, str(MEASURED))
            from programs import PROGRAMS, language

            kept = {}

            def keep(model, batch, loss, optimizer, mixed=None, clip=None, **_more):
                kept.update(model=model, batch=batch, mixed=mixed, clip=clip, loss=loss, optimizer=optimizer)
                return ()

            language.trained = keep
            list(PROGRAMS[name][0]())
            self.model, (self.batch, self.length), self.mixed = kept["model"], kept["batch"].shape, kept["mixed"]
            self.clip, self.loss = kept["clip"], kept["loss"]
            self.optimizer = lambda parameters: type(kept["optimizer"])(parameters, fused=kept["optimizer"].defaults["fused"])
            config = self.model.config
            self.layers, self.heads, self.width, self.vocabulary = config.num_hidden_layers, config.num_attention_heads, config.hidden_size, config.vocab_size
            self.hidden, self.groups = getattr(config, "intermediate_size", None) or 4 * self.width, getattr(config, "num_key_value_heads", None) or self.heads
        self.fused_attention = length is None  # step.py writes it out
        self.dtype = next(self.model.parameters()).dtype
        self.name = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}[self.mixed or self.dtype]
        self.elements = sum(parameter.numel() for parameter in self.model.parameters())
        self.bytes = sum(parameter.numel() * parameter.element_size() for parameter in self.model.parameters())


def of_kitsune(step):
    from kitsune import predict_memory

    prediction = predict_memory(step.model, (step.length,), step.batch, step.dtype, "adamw", True)
    return prediction.param_bytes + prediction.gradient_bytes + prediction.optimizer_bytes + prediction.activation_bytes + prediction.overhead_bytes


def of_preflight(step):
    import torch
    from torch_preflight import VRAMGuard

    precision = "amp" if step.mixed else "fp32" if step.name == "fp32" else "pure-bf16"
    guard = VRAMGuard(step.model, optimizer=torch.optim.AdamW(step.model.parameters()), batch_size=step.batch, seq_len=step.length, precision=precision,
                      gradient_checkpointing=step.checkpointed, flash_attention=step.fused_attention, verify=False, max_vram="1000GB")
    guard.__enter__()
    return guard.report.total - getattr(guard.report.breakdown, "cuda_context", 0)


def of_accelerate(step):
    from accelerate.commands.estimate import estimate_training_usage

    kind = "float32" if step.name == "fp32" else "bfloat16"
    return max(estimate_training_usage(4 * step.elements, kind).values())


def of_llm_analysis(step):
    from llm_analysis.analysis import ActivationRecomputation, LLMAnalysis
    from llm_analysis.config import ModelConfig, get_dtype_config_by_name, get_gpu_config_by_name

    model = ModelConfig(name="step", num_layers=step.layers, n_head=step.heads, hidden_dim=step.width, vocab_size=step.vocabulary, max_seq_len=step.length,
                        num_key_value_heads=step.groups, ffn_embed_dim=step.hidden, expansion_ratio=step.hidden / step.width)
    analysis = LLMAnalysis(model, get_gpu_config_by_name("a100-sxm-80gb"), get_dtype_config_by_name("w16a16e16"))  # it knows no 32 bits
    recompute = ActivationRecomputation.FULL if step.checkpointed else ActivationRecomputation.NONE
    prediction = analysis.training(batch_size_per_gpu=step.batch, total_num_tokens=step.batch * step.length, seq_len=step.length, activation_recomputation=recompute)
    return prediction["weight_memory_per_gpu"] + prediction["gradient_memory_per_gpu"] + prediction["optimizer_state_memory_per_gpu"] + prediction["activation_memory_per_gpu"]


def of_deepspeed(step):
    """The formula of deepspeed.runtime.zero.stage_1_and_2.estimate_zero2_model_states_mem_needs for one GPU, with its factor 1.5 for buffers, on the
    device: 4 bytes an element, and 16 over the GPUs (0.19.8; its wheel is built only beside a torch of the CPU, so it is written out here)."""
    return 4 * step.elements + 16 * step.elements


def of_mem_tracker(step):
    """Two steps with fake tensors. Those of a loss scaler are left out, since it reads a value."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.distributed._tools.mem_tracker import MemTracker

    sys.path.insert(0, str(MEASURED))
    from programs import trained

    known, mode = Step(step.step), FakeTensorMode(allow_non_fake_inputs=True)
    model, fakes = known.model.cuda().train(), {}
    for tensors in [kept for module in model.modules() for kept in (module._parameters, module._buffers)]:
        for name, tensor in tensors.items():
            if tensor is not None and id(tensor) not in fakes:  # a parameter may be that of two modules
                fakes[id(tensor)] = tensor, mode.from_tensor(tensor)
            tensors[name] = None if tensor is None else fakes[id(tensor)][1]
    with mode:
        optimizer, tracker = known.optimizer(model.parameters()), MemTracker()
        tokens = torch.zeros(known.batch, known.length, dtype=torch.int64, device="cuda")
        tracker.track_external(model, optimizer, tokens)
        with tracker:
            for _ in trained(model, tokens, known.loss, optimizer, steps=2, mixed=known.mixed, clip=known.clip):
                tracker.reset_mod_stats()
        return tracker.get_tracker_snapshot("peak")[torch.device("cuda", 0)]["Total"]


ESTIMATORS = {"MemTracker": of_mem_tracker, "torch-kitsune": of_kitsune, "torch-preflight": of_preflight, "llm-analysis": of_llm_analysis, "DeepSpeed's formula": of_deepspeed,
              "accelerate's formula": of_accelerate}


def estimate(step, file):
    made, answers = Step(step), {}
    for name, estimator in ESTIMATORS.items():
        begun = time.monotonic()
        try:
            answers[name] = {"bytes": int(estimator(made)), "seconds": time.monotonic() - begun}
        except Exception as error:
            answers[name] = {"cannot": f"{type(error).__name__}: {error}".splitlines()[0][:120]}
    Path(file).write_text(json.dumps(answers))


def versions(python):
    """Of the packages that this Python has."""
    code = "import importlib.metadata, json; print(json.dumps({one.metadata['Name']: one.version for one in importlib.metadata.distributions()}))"
    installed = json.loads(subprocess.run([python, "-c", code], capture_output=True, check=True, text=True).stdout)
    return {package: installed.get(package) for package in PACKAGES}


def table(tidemark, python, steps):
    """Prints the table. Returns the exit code: 1 if a step did not run."""
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        for step in steps:
            print(f"{step} ...", file=sys.stderr, flush=True)
            truth, (ours, seconds) = recorded(step, tidemark), measured(step, tidemark, python)
            file, begun = Path(folder, "said.json"), time.monotonic()
            subprocess.run([tidemark, "exec", "--capacity", "1TiB", "--", python, __file__, "--estimate", step, file], check=True, capture_output=True,
                           env={**os.environ, "TIDEMARK_UNKNOWN": "nan"})
            rows[step] = {"truth": truth, "process": time.monotonic() - begun,
                           "said": {"tidemark exec": {"bytes": ours, "seconds": seconds}, **json.loads(file.read_text())}}
    print("| step | bytes on the GPU | " + " | ".join(["tidemark exec", *ESTIMATORS]) + " |\n|---|---:|" + "---:|" * (1 + len(ESTIMATORS)))
    for step, one in rows.items():
        cells = [f"{100 * (answer['bytes'] / one['truth'] - 1):+.2f} %" if "bytes" in answer else "cannot" for answer in one["said"].values()]
        print(f"| {step} | {one['truth']:,} | " + " | ".join(cells) + " |")
    for label, of in (("median of the absolute errors", statistics.median), ("largest", max)):
        cells = []
        for name in ["tidemark exec", *ESTIMATORS]:
            errors = [abs(100 * (one["said"][name]["bytes"] / one["truth"] - 1)) for one in rows.values() if "bytes" in one["said"][name]]
            cells.append(f"{of(errors):.2f} %" if errors else "")
        print(f"| {label} | | " + " | ".join(cells) + " |")
    seconds = [statistics.median([one["said"][name]["seconds"] for one in rows.values() if "seconds" in one["said"][name]] or [0]) for name in ["tidemark exec", *ESTIMATORS]]
    print("| seconds, median; of the estimators without the import of torch | | " + " | ".join(f"{one:.2f}" for one in seconds) + " |")
    for step, one in rows.items():
        for name, answer in one["said"].items():
            if "cannot" in answer:
                print(f"{step}: {name}: {answer['cannot']}")
    print("versions: " + ", ".join(f"{name} {version or 'is not installed'}" for name, version in versions(python).items()))
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] != ["--estimate"]:
        sys.exit("error: accuracy.py: start ci/peers --accuracy")
    estimate(*sys.argv[2:])
