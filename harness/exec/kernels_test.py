"""Arguments that kernels of Triton write, by python/tidemark_kernels.py. testing/kernels.ttir is what Triton 3.6 made of three kernels: a sum, a product of matrices
with pointers that move in a loop, and one with branches, a while loop and an atomic addition."""
import re
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "python"))
from tidemark_kernels import read_only  # noqa: E402


def check(expected, code, what):
    assert read_only(code) == expected, f"{what}\n{code}"


def function(*lines):
    arguments = ", ".join(f'%{name}: !tt.ptr<f32> {{tt.divisibility = 16 : i32}} loc("{name}"(#loc))' for name in "abc")
    body = "\n".join(f"    {line} loc(#loc3)" for line in (*lines, "tt.return"))
    return f"module {{\n  tt.func public @kernel({arguments}) attributes {{noinline = false}} {{\n{body}\n  }} loc(#loc)\n}} loc(#loc)\n"


def test_kernels():
    total, product, branches = re.split(r"(?m)^(?=module)", (HERE / "testing" / "kernels.ttir").read_text())[-3:]
    check([True, True, False, True], total, "x, y, out, n")
    check([True, True, False, True, True, True, False], product, "a, b, c, and numbers, of which sc is in the places that are written")
    check([True, True, False, True, True], branches, "x and y by a choice, out, flag, n")
    # What is written through a pointer of the loop.
    check([True, False, True, True, True, False, True], product.replace("tt.store %pc_18", "tt.store %acc#1"), "b is written after the loop")
    check([False, False, False, True, False], branches.replace("tt.store %3", "tt.store %4"), "x or y is written, at a place that n is a part of")
    check(None, product.replace("tt.load %pa_19", "tt.descriptor_load %pa_19"), "an operation that is not recognised")
    check(None, branches + branches, "two functions")
    check(None, "", "nothing")
    exchange = ("%0:2 = scf.for %i = %x to %y step %z iter_args(%p = %a, %q = %b) -> (!tt.ptr<f32>, !tt.ptr<f32>)  : i32 {",
                "scf.yield %q, %p : !tt.ptr<f32>, !tt.ptr<f32>", "}")
    check([False, False, True], function(*exchange, "tt.store %0#0, %v : !tt.ptr<f32>"), "pointers that a loop exchanges")
    check([True, True, False], function(*exchange, "%1 = tt.load %0#0 : !tt.ptr<f32>", "%2 = tt.addptr %c, %1 : !tt.ptr<f32>, i32", "tt.store %2, %v : !tt.ptr<f32>"),
          "a place that is read from memory")
    check([False, True, False], function("%0 = scf.if %w -> (!tt.ptr<f32>) {", "scf.yield %a : !tt.ptr<f32>", "} else {", "scf.yield %c : !tt.ptr<f32>", "}",
                                         "tt.atomic_cas acq_rel, gpu, %0, %v, %v : (!tt.ptr<f32>, f32, f32) -> f32"), "either branch")
    pure = 'tt.extern_elementwise %v {libname = "", libpath = "", pure = true, symbol = "__nv_exp"} : (f32) -> f32'
    check([True] * 3, function(f"%0 = {pure}"), "a pure function")
    check(None, function(f"%0 = {pure}".replace("true", "false")), "one that is not")
    check(None, function("tt.call @other(%a) : (!tt.ptr<f32>) -> ()"), "a call")
