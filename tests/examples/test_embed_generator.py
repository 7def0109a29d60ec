"""The example library that builds its own kernels with the generator: built from outside, tested, broken on purpose."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "embed_generator"
NAME = "tilewright-codegen"
NEEDED = ("nvidia.cu13", "scikit_build_core", "cmake", "ninja", "pip")


def _there(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not all(map(_there, NEEDED)), reason="needs the compiler: pip install tilewright[compiler]"),
]


@dataclass(frozen=True)
class Installed:
    """The generator alone in a folder of its own, and a Python that finds it there.

    Python is that of an empty environment: where this package is installed as editable, the tests' own would find the
    source tree. What else is installed comes from the tests' environment, as a path, so that nothing is hooked in.
    """

    folder: Path
    python: Path

    def run(self, *command: str | Path, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join([str(self.python.parent), str(Path(sys.executable).parent), os.environ["PATH"]])
        environment = {**os.environ, "PATH": path, "PYTHONPATH": self.path(), **variables}
        words = [str(word) for word in command]
        return subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True, check=False)

    def path(self, *first: Path) -> str:
        """Where Python looks, after some folders."""
        return os.pathsep.join([*map(str, first), str(self.folder), sysconfig.get_paths()["purelib"]])

    def pip(self, *words: str | Path, cwd: Path) -> None:
        done = self.run(self.python, "-m", "pip", "--disable-pip-version-check", *words, cwd=cwd)
        assert done.returncode == 0, done.stdout + done.stderr

    def configure(self, source: Path, build: Path, **variables: str) -> subprocess.CompletedProcess[str]:
        """CMake without scikit-build-core, which would set the module path."""
        modules = self.run(self.python, "-m", "tilewright_codegen", "cmake-dir", cwd=source).stdout.strip()
        assert modules.startswith(str(self.folder))
        flags = [f"-DCMAKE_MODULE_PATH={modules}", f"-DPython_EXECUTABLE={self.python}", "-G", "Ninja"]
        return self.run("cmake", "-S", source, "-B", build, *flags, cwd=source, **variables)


@pytest.fixture(scope="module")
def generator(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    folder = tmp_path_factory.mktemp("generator")
    venv.create(folder / "python", symlinks=True)
    installed = Installed(folder / "site", folder / "python" / "bin" / "python")
    wheels = folder / "wheels"
    installed.pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", wheels, ROOT / "codegen", cwd=folder)
    found = ["--no-deps", "--no-index", "--find-links", wheels]
    installed.pip("install", *found, "--target", installed.folder, NAME, cwd=folder)
    return installed


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return Path(shutil.copytree(EXAMPLE, tmp_path / "source"))


def test_the_generator_alone_needs_no_torch(generator: Installed, tmp_path: Path) -> None:
    code = "import sys; sys.modules['torch'] = None; from tilewright_codegen.cli import main; main()"
    done = generator.run(generator.python, "-c", code, "validate", "--specs", EXAMPLE / "specs", cwd=tmp_path)
    assert done.stdout.endswith("3 archs, 3 rules, 3 tiles: 0 errors, 0 warnings\n"), done.stdout + done.stderr
    version = generator.run(generator.python, "-m", "tilewright_codegen", "--version", cwd=tmp_path)
    assert version.returncode == 0, version.stderr


def test_the_wheel_is_built_and_its_tests_pass(generator: Installed, source: Path, tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    generator.pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", wheels, source, cwd=tmp_path)
    (wheel,) = wheels.glob("embedded-0.1.0-py3-none-*.whl")
    site = tmp_path / "site"
    generator.pip("install", "--quiet", "--no-deps", "--target", site, wheel, cwd=tmp_path)
    # Another family of namespaces, nothing of Tilewright inside.
    assert b"tilewright::" not in (site / "embedded" / "_embedded.so").read_bytes()
    flags = ["-q", "-rs", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", source, source / "tests"]
    done = generator.run(generator.python, "-m", "pytest", *flags, cwd=tmp_path, PYTHONPATH=generator.path(site))
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"\b(4 passed, 3 skipped|6 passed, 1 skipped)\b", done.stdout), done.stdout


def test_a_changed_rule_compiles_no_kernel(generator: Installed, source: Path, tmp_path: Path) -> None:
    build = tmp_path / "build"
    done = generator.configure(source, build, EMBEDDED_ARCHS="90+PTX")
    assert done.returncode == 0, done.stdout + done.stderr
    first = generator.run("ninja", "-C", build, cwd=tmp_path)
    assert "_embedded.so: compute_90, sm_90; 6 tiles, as asked for" in first.stdout, first.stdout + first.stderr
    assert first.stdout.count("Building CUDA object") == 3
    rules = source / "specs" / "families" / "dense_gemm" / "tile.yaml"
    rules.write_text(rules.read_text().replace("M <= 8", "M <= 4"))
    second = generator.run("ninja", "-C", build, cwd=tmp_path)
    assert (second.returncode, second.stdout.count("Building CUDA object")) == (0, 0), second.stdout
    assert "Building CXX object" in second.stdout
    # A kernel that the specs know nothing of, in one of their files.
    (kernel,) = build.glob("generated/dense_gemm/Tile_8x32_32.cu")
    kernel.write_text(kernel.read_text().replace("Tile_8x32_32", "Tile_32x32_32"))
    broken = generator.run("ninja", "-C", build, cwd=tmp_path)
    assert broken.returncode != 0


@pytest.mark.parametrize(
    ("archs", "file", "old", "new", "message"),
    [
        ("8.0a;90", "", "", "", "arch token '8.0a': there is no target sm_80a for sm80; ask for 80"),
        ("100f", "", "", "", "arch token '100f': no arch of the specs has cc 10.0; expected one of 80, 90 or"),
        ("80", "include/embedded/dense_gemm/args.h", "", "", "args.h: not found; the kernels of family 'dense_gemm'"),
        (
            "80",
            "specs/families/dense_gemm/tile.yaml",
            "otherwise, tile",
            "otherwise, tle",
            "tile.yaml:19:30: E301: .*'tle'",
        ),
        ("80", "CMakeLists.txt", "NAMESPACE embedded", "NAMESPACE a::b", "'a::b' is no namespace"),
        ("80", "CMakeLists.txt", "NAMESPACE embedded", "NAMSPACE embedded", "'NAMSPACE' is not understood"),
        (
            "80",
            "CMakeLists.txt",
            '  SPECS "${CMAKE_CURRENT_SOURCE_DIR}/specs"\n',
            "",
            "SPECS, the folder of the specs,",
        ),
    ],
)
def test_mistakes_are_named(
    archs: str, file: str, old: str, new: str, message: str, generator: Installed, source: Path, tmp_path: Path
) -> None:
    if file and not old:
        (source / file).unlink()
    elif file:
        text = (source / file).read_text()
        assert old in text
        (source / file).write_text(text.replace(old, new))
    done = generator.configure(source, tmp_path / "build", EMBEDDED_ARCHS=archs)
    assert done.returncode != 0
    assert re.search(message, re.sub(r"\s+", " ", done.stderr)), done.stderr
    assert "Traceback" not in done.stderr


def test_a_tile_that_is_not_the_kernels_is_a_compile_error(generator: Installed, source: Path, tmp_path: Path) -> None:
    tiles = source / "specs" / "families" / "dense_gemm" / "tiles.yaml"
    tiles.write_text(tiles.read_text().replace("5280", "5284"))
    assert generator.configure(source, tmp_path / "build", EMBEDDED_ARCHS="80").returncode == 0
    done = generator.run("ninja", "-C", tmp_path / "build", cwd=tmp_path)
    assert done.returncode != 0
    assert "specs/families/dense_gemm/tiles.yaml" in done.stdout


def test_a_missing_compiler_is_named_with_its_remedy(generator: Installed, source: Path, tmp_path: Path) -> None:
    bare = tmp_path / "python"  # has no packages, and so no nvcc
    bare.write_text(f'#!/bin/sh\nexec {generator.python} -I -S "$@"\n')
    bare.chmod(0o755)
    modules = generator.folder / "tilewright_codegen" / "_data" / "cmake"
    flags = ["-G", "Ninja", f"-DCMAKE_MODULE_PATH={modules}", f"-DPython_EXECUTABLE={bare}"]
    words = ["env", "-u", "CUDACXX", "cmake", "-S", source, "-B", tmp_path / "build", *flags]
    done = generator.run(*words, cwd=tmp_path)
    assert done.returncode != 0
    text = re.sub(r"\s+", " ", done.stderr)
    assert f"No CUDA compiler: {bare} has no nvidia-cuda-nvcc. Install the build requirements of pyproject.toml" in text
