#!/usr/bin/env python3
"""The closed loop of `tidemark gpu rates`: on the virtual device it must give back the constants that the device was given, for every
shipped profile and for invented GPUs, and never say that they are of hardware. rates_loop_test.py TIDEMARK PROFILES

How near: durations there are whole ns, so each of the two times whose difference makes a rate is off by half a ns for every
operation in it. With one operation that is 1 ns of at least 290,000 (the sums on the fastest memory, 8 TB/s), with two (a copy each
way; a gather and a reduction) 2 ns of at least 590,000 (two GPUs at 900 GB/s): 3.5 in a million. CUDA's events tell a float of
milliseconds, 2**-24 of the train of four operations at most: 0.2 in a million more. Half a unit of the fifth digit is 5 in a million
at the least, and rates are written with five digits: a constant of five digits comes back as itself, and one whose rounding went
the other way would be an error of the method. Times of the host are whole ns, and so are latencies."""
import concurrent.futures
import json
import pathlib
import random
import shutil
import sys
import unittest

from command import InFolder

PROFILES = sorted(pathlib.Path(sys.argv[2]).resolve().glob("*.json"))
DENSE = ["f64", "f32", "tf32", "f16", "bf16"]
ALONE = [("dense_tflops", n) for n in DENSE] + [("memory", "gbps"), ("links", "pcie_gbps"), ("links", "pcie_latency_ns")] + [
    ("host", n + "_ns") for n in ("launch", "kernel_latency", "poll", "synchronise", "allocate", "release")]
LINKS = [("links", "nvlink_gbps"), ("links", "nvlink_latency_ns")]


class Rates(InFolder):
    def measure(self, gpu, out, **more):
        said = self.passes("gpu", "rates", *([] if "TIDEMARK_PLATFORM" in more else ["--device", "virtual"]), "--gpu", gpu, "--out", out, **more)
        return json.loads((self.folder / out).read_text()), said.stdout

    def odd(self, shipped, seed):
        """An invented GPU: every constant drawn, from two fifths to twice the shipped one."""
        draw = random.Random(seed)
        given = json.loads(json.dumps(shipped))
        for group, name in ALONE + LINKS:
            value = given[group][name]["value"] * draw.uniform(0.4, 2)
            given[group][name]["value"] = round(value) if name.endswith("_ns") else float(f"{value:.5g}")
        (self.folder / f"odd{seed}.json").write_text(json.dumps(given))
        return given

    def held(self, given, shipped, got, measured, kind="virtual"):
        """`measured` comes back as it was given to the device; all else is as shipped."""
        for group, figures in shipped.items():
            if group == "name":
                self.assertEqual(got["name"], f"{shipped['name']}-{kind}")
            elif group == "device":
                self.assertEqual(got[group], figures)
            else:
                self.assertEqual(list(got[group]), list(figures))
                for name, figure in figures.items():
                    if (group, name) not in measured:
                        self.assertEqual(got[group][name], figure)
                        continue
                    self.assertEqual(got[group][name]["value"], given[group][name]["value"], f"{given['name']}: {group}.{name}")
                    source = got[group][name]["source"]
                    self.assertTrue(source.startswith(f"{kind}: median of 9, quartiles "), source)
                    self.assertIn("no figure of hardware", source)
                    self.assertNotIn("measured", source)

    def test_every_shipped_profile_gives_itself_back(self):
        self.assertGreaterEqual(len(PROFILES), 5)
        folder = self.folder / "profiles"  # a profile that was measured is beside that of its GPU: none is put into it
        shutil.copytree(PROFILES[0].parent, folder)
        (folder / f"{PROFILES[0].stem}-measured.json").write_text(PROFILES[0].read_text().replace(PROFILES[0].stem, PROFILES[0].stem + "-measured"))
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for path, (got, _) in zip(PROFILES, pool.map(lambda p: self.measure(p.stem, p.stem + ".json", TIDEMARK_DEVICES="2", TIDEMARK_PROFILES=str(folder)), PROFILES)):
                given = json.loads(path.read_text())
                base = given["name"].removesuffix("-measured")
                self.held(given, json.loads(path.with_name(base + ".json").read_text()), got, ALONE + LINKS)

    def test_so_do_gpus_that_nobody_has(self):
        shipped = json.loads(next(p for p in PROFILES if p.stem == "h100-80g").read_text())
        for seed in range(3):
            given = self.odd(shipped, seed)
            got, _ = self.measure(f"odd{seed}.json", f"got{seed}.json", TIDEMARK_DEVICES=str(seed + 2))
            self.held(given, shipped, got, ALONE + LINKS)

    def test_calibrated_it_predicts_such_a_gpu(self):
        """The whole way, on a stand-in for hardware whose constants are not the shipped ones: what was measured there predicts its
        step times, and what was shipped does not."""
        self.odd(json.loads(next(p for p in PROFILES if p.stem == "h100-80g").read_text()), 0)
        common = ["run", "fsdp_prefetch/stash/smoke", "--ranks", 2, "--races", "off", "--details", "none", "--history", "off"]
        self.measure("odd0.json", "rates.json", TIDEMARK_PLATFORM="cuda", TIDEMARK_DEVICES="2")
        for words, more in (([*common, "--gpu", "odd0.json", "--schedule", "device", "--out", "hardware"], {"TIDEMARK_PLATFORM": "cuda"}),
                            ([*common, "--gpu", "rates.json", "--schedule", "calibrated", "--out", "calibrated"], {}),
                            ([*common, "--gpu", "h100-80g", "--schedule", "calibrated", "--out", "shipped"], {})):
            self.passes(*words, **more)
        off = {}
        for profile in ("calibrated", "shipped"):
            held = self.passes("gpu", "predicted", profile, "hardware", "--format", "json")
            off[profile] = json.loads(held.stdout)["step_times"]
        self.assertEqual(off["calibrated"]["count"], 2)
        self.assertLess(off["calibrated"]["largest_times_off"], 1.0001)
        self.assertGreater(off["shipped"]["median_times_off"], 1.05)

    def test_a_rehearsal_says_so_and_its_file_is_a_profile(self):
        got, said = self.measure("a100-40g", "here.json", TIDEMARK_PLATFORM="cuda")
        shipped = json.loads(next(p for p in PROFILES if p.stem == "a100-40g").read_text())
        self.held(shipped, shipped, got, ALONE, "rehearsal")
        self.assertTrue(said.startswith("rehearsal: rehearsal on the virtual device a100-40g: no figure of hardware"), said)
        self.assertIn("links.nvlink_gbps                    300       stays  this process sees one GPU\n", said)
        self.assertIn("14 of 16 constants in ", said)
        self.passes("run", "fsdp_prefetch", "--device", "virtual", "--gpu", "here.json", "--dry-run")
        again = self.passes("gpu", "rates", "--device", "virtual", "--gpu", "here.json", "--out", "again.json")
        self.held(shipped, shipped, json.loads((self.folder / "again.json").read_text()), ALONE)

    def test_no_shipped_figure_is_of_the_virtual_device(self):
        for path in PROFILES:
            profile = json.loads(path.read_text())
            self.assertEqual(profile["name"], path.stem)
            sources = [figure["source"] for group in profile.values() if isinstance(group, dict) for figure in group.values()]
            for source in sources:
                self.assertNotIn("no figure of hardware", source)
                self.assertFalse(source.startswith(("virtual:", "rehearsal:")), source)
            self.assertEqual(any(s.startswith("measured:") for s in sources), path.stem.endswith("-measured"), path.name)

    def test_what_cannot_be_measured_stays(self):
        said = self.passes("gpu", "rates", "--device", "virtual", "--capacity", 2 << 30)
        self.assertRegex(said.stdout, r"memory\.gbps +3350 +stays  too little memory is free\n")
        self.assertRegex(said.stdout, r"dense_tflops\.bf16 +989\.4 +989\.4 ")
        self.assertIn("--out FILE.json keeps them", said.stdout)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_a_mistake_is_one_line_and_its_code(self):
        (self.folder / "there.json").write_text("mine")
        unknown = json.loads(PROFILES[0].read_text())
        unknown["device"] = "NVIDIA"  # half a name is another GPU
        (self.folder / "unknown.json").write_text(json.dumps(unknown))
        (self.folder / "broken").mkdir()
        (self.folder / "broken" / "h100-80g.json").write_bytes(PROFILES[0].with_name("h100-80g.json").read_bytes())  # the device's own
        (self.folder / "broken" / "x.json").write_text("[1]")
        mpirun, broken = {"launcher": ("mpirun", "-n", "1", "--allow-run-as-root")}, {"TIDEMARK_PROFILES": str(self.folder / "broken")}
        for words, code, says, more in (
                (["--out", "there.json"], 2, "exists already", {}), (["--out", "."], 2, "is a folder", {}), (["--gpu", "nosuch"], 2, "there are: a100-40g", {}),
                (["--gpu", "unknown.json"], 77, "no profile is of this GPU, 'NVIDIA'", {}), (["extra"], 2, "extra", {}),
                (["--gpu", "unknown.json"], 3, "x.json: is not a GPU profile", broken),
                (["--capacity", "many"], 2, "--capacity many", {}), ([], 2, "start it without mpirun", mpirun), (["--capacity", str(1 << 22)], 3, "out of memory", {}),
                (["--device", "quantum"], 2, "auto, virtual, cuda", {})):
            said = self.tidemark("gpu", "rates", *([] if "quantum" in words else ["--device", "virtual"]), *words, **more)
            errors = [line for line in said.stderr.splitlines() if line.startswith("error: ")]
            self.assertEqual((said.returncode, len(errors)), (code, 1), f"{words}: {said.stdout} {said.stderr}")
            self.assertIn(says, said.stderr)
        self.assertEqual((self.folder / "there.json").read_text(), "mine")
        self.measure("h100-80g", "new.json")
        self.passes("gpu", "rates", "--device", "virtual", "--out", "there.json", "--force")
        self.assertEqual(json.loads((self.folder / "there.json").read_text())["name"], "h100-80g-virtual")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
