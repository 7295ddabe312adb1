"""The transformers backend with the network run by OpenVINO: faster on CPUs, same vectors to 1e-5.

The network is exported once, compared with torch on texts of several lengths, and kept; tokens,
batches and pooling are those of the transformers backend.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import shutil
import sys
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import torch
import transformers

from jfinteb.eval.backends.base import EncoderOptions
from jfinteb.eval.backends.lanes import lane_count
from jfinteb.eval.backends.transformers import TransformersEncoder
from jfinteb.eval.encoder import ModelError
from jfinteb.eval.exports import EXPORTS, FILES, SEAL
from jfinteb.loaders.errors import UsageError
from jfinteb.loaders.files import sha256_of, write_whole

__all__ = ["OpenVinoEncoder"]

_LEAST_COSINE = 0.9999
_PROBES = (
    "円安",
    "景気は良くなっている。",
    "当社の連結売上高は前年同期比で8.4%増加し、営業利益は過去最高を更新した。",
    "為替相場の変動は輸出企業の業績を左右する。" * 6,
    "Net sales rose 5% year on year. " * 40,
)


class OpenVinoEncoder(TransformersEncoder):
    """As `TransformersEncoder`, for the last layer's states on a CPU."""

    backend: ClassVar[str] = "openvino"

    def __init__(self, options: EncoderOptions) -> None:
        self._openvino = _library()
        super().__init__(options)
        if self.device.type != "cpu":
            raise UsageError(f"the openvino backend runs on cpu, found --device {options.device}")
        if self.spec.layer != -1 or "first_last_avg" in self.spec.pooling:
            raise UsageError(
                "the openvino backend has the last layer's states alone; give --backend "
                "transformers for other layers"
            )
        if self.spec.dtype not in ("float32", "bfloat16"):
            raise UsageError(
                f"dtype {self.spec.dtype}: the openvino backend takes float32 or bfloat16"
            )
        self._compiled: Any = None
        self._names: list[str] = []
        self._passing: tempfile.TemporaryDirectory[str] | None = None

    @property
    def environment(self) -> dict[str, str]:
        """As for transformers, with the version of OpenVINO."""
        return {**super().environment, "openvino": self._openvino.__version__.split("-")[0]}

    def close(self) -> None:
        """Let go of the network, and of an export that is not to be kept."""
        super().close()
        if self._passing is not None:
            self._compiled = None
            self._passing.cleanup()
            self._passing = None

    def _exports(self) -> Path:
        """Where exports are kept, or a temporary folder until this is closed."""
        if self.kept is not None:
            return self.kept / EXPORTS
        if self._passing is None:
            self._passing = tempfile.TemporaryDirectory(
                prefix="jfinteb-export-", ignore_cleanup_errors=True
            )
        return Path(self._passing.name)

    def load(self) -> None:
        """Read the exported network; make and check it first where it is not there.

        Raises:
            ModelError: it cannot be exported, or its vectors are not those of torch.
        """
        if self._compiled is not None:
            return
        folder = self._exports() / self._digest()
        if _whole(folder):
            self.check_files()
        else:
            self._export(folder)
        self._names = json.loads((folder / SEAL).read_text(encoding="utf-8"))["inputs"]
        self._compiled = self._compile(folder)

    def _networks(self, count: int) -> list[Any]:
        if self._compiled is None:
            return super()._networks(count)
        return [self._compiled.create_infer_request() for _ in range(count)]

    def _states_of(self, network: Any, inputs: Mapping[str, torch.Tensor]) -> Any:
        if isinstance(network, torch.nn.Module):
            return super()._states_of(network, inputs)
        given = [inputs[name].numpy() for name in self._names]
        states = network.infer(given, share_inputs=True)[0]
        return SimpleNamespace(last_hidden_state=torch.from_numpy(states))

    def _digest(self) -> str:
        """Of all that the exported network follows from."""
        parts = (self.spec.model, self.spec.revision, self.spec.remote_code, self.environment)
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]

    def _compile(self, folder: Path) -> Any:
        hint = {"float32": "f32", "bfloat16": "bf16"}[self.spec.dtype]
        settings = {
            "INFERENCE_PRECISION_HINT": hint,
            "NUM_STREAMS": lane_count(self.device),
            "INFERENCE_NUM_THREADS": torch.get_num_threads(),
            "ENABLE_CPU_PINNING": False,  # its cores may not be ours
        }
        return self._openvino.Core().compile_model(folder / FILES[0], "CPU", settings)

    def _export(self, folder: Path) -> None:
        """Export into a folder of another name, compare, then give it its own name."""
        super().load()
        folder.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        try:
            self._openvino.save_model(self._converted(), part / FILES[0], compress_to_fp16=False)
            expected = self._probed()
            self._compiled = self._compile(part)
            cosine = _least_cosine(expected, self._probed())
            self._compiled = None
            if not cosine >= _LEAST_COSINE:
                raise ModelError(
                    f"{self.spec.model}: exported to OpenVINO its vectors have cosine {cosine:.5f} "
                    f"to torch's, expected {_LEAST_COSINE} or more; give --backend transformers"
                )
            seal: dict[str, Any] = {name: sha256_of(part / name) for name in FILES}
            seal |= {"inputs": self._names, "least_cosine": cosine}
            seal |= {"model": self.spec.model, "revision": self.spec.revision}
            now = datetime.datetime.now(datetime.timezone.utc)
            seal["made"] = now.isoformat(timespec="seconds")
            write_whole(part / SEAL, json.dumps(seal))
            shutil.rmtree(folder, ignore_errors=True)
            part.rename(folder)
        except OSError as error:
            raise ModelError(
                f"cannot keep the export of {self.spec.model} in {folder.parent} "
                f"({error.strerror or error}); give --cache another folder, or --no-cache"
            ) from error
        finally:
            shutil.rmtree(part, ignore_errors=True)
            self._loaded = None  # the exported network stands in for it

    def _converted(self) -> Any:
        """The network in OpenVINO's form, of any batch and length, from a padded example."""
        assert self._loaded is not None
        strings = [_PROBES[0], _PROBES[2]]
        inputs = self._tokens(strings, "").batch(np.arange(2), self._tokens.pad_values)
        del inputs["pooled"]
        known = self._accepted
        self._names = [name for name in inputs if known is None or name in known]
        network = _LastStates(self._loaded, self._names)
        transformers.logging.set_verbosity_error()
        try:
            with warnings.catch_warnings(), torch.no_grad():
                warnings.simplefilter("ignore")
                return self._openvino.convert_model(
                    network, example_input=tuple(inputs[name] for name in self._names)
                )
        except Exception as error:  # the converter raises what it likes
            first = str(error).strip().splitlines() or ["no message"]
            raise ModelError(
                f"{self.spec.model} cannot be exported to OpenVINO ({type(error).__name__}: "
                f"{first[0][:200]}); give --backend transformers"
            ) from error

    def _probed(self) -> Any:
        """Vectors of texts of several lengths, alone and padded."""
        (network,) = self._networks(1)
        alone = [self._forward(network, self._tokens([text], ""), np.arange(1)) for text in _PROBES]
        together = self._forward(network, self._tokens(_PROBES, ""), np.arange(len(_PROBES)))
        return torch.cat([*alone, together]).numpy()


class _LastStates(torch.nn.Module):
    """A network with positional inputs and one output, as an exporter wants it."""

    def __init__(self, network: torch.nn.Module, names: list[str]) -> None:
        super().__init__()
        self.network = network
        self._names = names

    def forward(self, *inputs: torch.Tensor) -> Any:
        given = dict(zip(self._names, inputs, strict=True))
        return self.network(**given).last_hidden_state


def _whole(folder: Path) -> bool:
    """Whether an export is what was checked."""
    try:
        seal = json.loads((folder / SEAL).read_text(encoding="utf-8"))
        sums = all(seal[name] == sha256_of(folder / name) for name in FILES)
        return sums and isinstance(seal["inputs"], list)
    except (OSError, ValueError, LookupError, TypeError):
        return False


def _least_cosine(one: Any, two: Any) -> float:
    one, two = one.astype(np.float64), two.astype(np.float64)
    lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(two, axis=1)
    return float((np.einsum("ij,ij->i", one, two) / lengths).min())


def _library() -> Any:
    """OpenVINO, without the telemetry that its converter would send."""
    sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
    try:
        import openvino  # type: ignore[import-untyped,unused-ignore]
    except ModuleNotFoundError as error:
        raise UsageError(
            "the openvino backend needs OpenVINO; pip install 'jfinteb[openvino]'"
        ) from error
    return openvino
