"""What is built with, what is read and what is asked of the network: found in the sources, not promised."""

from __future__ import annotations

import ast
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from .support import ROOT, run_python

PACKAGES = ("python/tilewright", "codegen")
CODE = [p for folder in PACKAGES for p in sorted((ROOT / folder).rglob("*.py"))]
LOCK = ROOT / ".github" / "build-requirements.txt"
UNSAFE = {
    "pickle", "cPickle", "dill", "cloudpickle", "shelve", "marshal", "joblib", "urllib", "requests", "httpx", "aiohttp",
    "http", "socket", "ftplib", "smtplib", "xmlrpc", "telnetlib", "websockets", "huggingface_hub",
}  # fmt: skip
UNSAFE_CALLS = {"eval", "exec", "compile", "__import__"}
LOCAL_IMPORTS = {"python/tilewright/_library.py"}
"""Where __import__ names a package of our own."""


def nodes(file: Path) -> Iterator[ast.AST]:
    return ast.walk(ast.parse(file.read_text("utf-8"), str(file)))


def name_of(node: ast.expr) -> str:
    """`yaml.load` for the expression of that text."""
    if isinstance(node, ast.Attribute):
        return f"{name_of(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


@pytest.mark.parametrize("file", CODE, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_no_pickle_no_network_and_no_text_run_as_code(file: Path) -> None:
    for node in nodes(file):
        if isinstance(node, ast.Import):
            assert not {a.name.split(".")[0] for a in node.names} & UNSAFE, file
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            assert node.module.split(".")[0] not in UNSAFE, file
        elif isinstance(node, ast.Call):
            called = name_of(node.func)
            if called in UNSAFE_CALLS:
                assert called == "__import__" and file.relative_to(ROOT).as_posix() in LOCAL_IMPORTS, (file, called)
            assert called not in ("torch.load", "os.system", "os.popen", "numpy.load", "np.load"), (file, called)
            assert not any(k.arg == "shell" for k in node.keywords), (file, called)
            assert not any(k.arg in ("allow_pickle", "trust_remote_code") for k in node.keywords), (file, called)


def test_yaml_is_read_by_events_or_the_safe_loader_only() -> None:
    """Objects are never constructed from tags."""
    for file in [*CODE, *sorted((ROOT / "scripts").glob("*.py")), *sorted((ROOT / "tests").rglob("*.py"))]:
        for node in nodes(file):
            if isinstance(node, ast.Call):
                called = name_of(node.func)
                assert called not in ("yaml.load", "yaml.load_all", "yaml.unsafe_load", "yaml.full_load"), (
                    file,
                    called,
                )
    loader = (ROOT / "codegen/loader.py").read_text()
    assert "yaml.parse(" in loader and "SafeLoader" in loader and "safe_load" not in loader


HOSTILE = (
    "!!python/object/apply:os.system ['touch {}']\n",
    "a: !!python/object/new:os.system ['touch {}']\n",
    "a: !!python/name:os.system\nb: &a [*a]\n",
)


@pytest.mark.parametrize("text", HOSTILE)
def test_tags_that_run_code_are_findings(text: str, tmp_path: Path) -> None:
    from tilewright_codegen.diagnostics import Sink
    from tilewright_codegen.loader import load_documents

    witness = tmp_path / "witness"
    (tmp_path / "a.yaml").write_text(text.format(witness))
    sink = Sink()
    load_documents(tmp_path / "a.yaml", "a.yaml", sink)
    assert "E105" in {d.code for d in sink.diagnostics}
    assert not witness.exists()


def test_checkpoints_of_pickles_are_refused(tmp_path: Path) -> None:
    import tilewright

    (tmp_path / "pytorch_model.bin").write_bytes(b"\x80\x04N.")
    with pytest.raises(ValueError, match="pickled checkpoints are not opened"):
        tilewright.checkpoint.load(__import__("torch").nn.Linear(2, 2), tmp_path / "pytorch_model.bin")


def test_nothing_asks_the_network_at_import_or_run() -> None:
    """With every socket refused: import, the ops, explain, validate, the command."""
    code = (
        "import socket\n"
        "def refuse(*a, **k): raise OSError('the network was asked')\n"
        "for name in ('connect', 'connect_ex', 'sendto', 'bind'): setattr(socket.socket, name, refuse)\n"
        "socket.getaddrinfo = socket.create_connection = socket.gethostbyname = refuse\n"
        "import torch, tilewright\n"
        "p, s = tilewright.quantize_4bit(torch.eye(64))\n"
        "tilewright.gemm_4bit(torch.eye(64), p, s); tilewright.explain(1, 64, 64, arch='sm90')\n"
        "from tilewright._doctor import examine\n"
        "examine()\n"
        "from click.testing import CliRunner\n"
        "from tilewright_codegen.cli import main\n"
        "CliRunner().invoke(main, ['matrix'])\n"
        "print('quiet')\n"
    )
    assert socket.socket.connect is not None
    done = run_python(code)
    assert done.stdout.split()[-1:] == ["quiet"], done.stderr


def test_no_file_names_a_place_to_fetch_from() -> None:
    """Addresses in the code are those of documents, in text that people read."""
    fetched = re.compile(r"(?:urlopen|wget|curl|git clone|hf_hub_download|load_state_dict_from_url)")
    for file in CODE:
        assert not fetched.search(file.read_text("utf-8")), file


def locked() -> dict[str, tuple[str, int]]:
    """Name -> version and number of hashes."""
    text = LOCK.read_text().replace("\\\n", "")
    found = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            requirement, *hashes = line.split("--hash=sha256:")
            name, version = requirement.strip().split("==")
            assert all(re.fullmatch(r"[0-9a-f]{64}\s*", h) for h in hashes)
            found[name] = version, len(hashes)
    return found


def test_wheels_are_built_with_pinned_and_hashed_requirements() -> None:
    """The lock fulfils every build requirement, names each at one version, and the builds use it."""
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        from build_requirements import PYPROJECT, build_requirements
    finally:
        sys.path.pop(0)
    found = locked()
    assert all(count >= 1 for _, count in found.values())
    for text in build_requirements(PYPROJECT.read_text("utf-8")):
        wanted = Requirement(text)
        assert wanted.specifier.contains(found[wanted.name.lower()][0]), text
    assert "--require-hashes --only-binary=:all: -r {project}/.github/build-requirements.txt" in PYPROJECT.read_text()


def test_a_lock_of_two_machines_is_of_one_version() -> None:
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        import lock_build_requirements as script
    finally:
        sys.path.pop(0)
    one, other = {"a": ("1", "0" * 64), "b": ("2", "1" * 64)}, {"a": ("1", "2" * 64)}
    text = script.lock({"x86_64": one, "aarch64": other})
    zeros, twos, ones = "0" * 64, "2" * 64, "1" * 64
    assert text.endswith(
        f"a==1 \\\n    --hash=sha256:{zeros} \\\n    --hash=sha256:{twos}\nb==2 \\\n    --hash=sha256:{ones}\n"
    )
    with pytest.raises(SystemExit, match="a: 1, 3 on x86_64, aarch64"):
        script.lock({"x86_64": one, "aarch64": {"a": ("3", "0" * 64)}})


def test_actions_are_pinned_to_commits_and_get_no_more_rights_than_they_state() -> None:
    for file in (ROOT / ".github").rglob("*.yml"):
        text = file.read_text("utf-8")
        for used in re.findall(r"uses: (\S+)", text):
            assert used.startswith(("./", "$/")) or re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", used), (file, used)
        if file.parent.name == "workflows":
            assert "permissions:" in text, file


def test_there_is_a_policy_and_a_bill_of_materials() -> None:
    policy = (ROOT / "SECURITY.md").read_text("utf-8")
    for word in ("privately", "safetensors", "bill of materials"):
        assert word in policy
    assert (ROOT / "scripts/make_sbom.py").is_file()
    assert "make_sbom.py" in (ROOT / ".github/workflows/release.yml").read_text()


def test_the_sources_are_in_git_and_hold_no_binary_code() -> None:
    done = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip("not a git checkout")
    wrong = [
        f for f in done.stdout.splitlines() if f.endswith((".so", ".cubin", ".fatbin", ".pkl", ".pt", ".bin", ".o"))
    ]
    assert wrong == []
