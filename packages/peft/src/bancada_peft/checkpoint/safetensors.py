"""Tensors in a safetensors file: a JSON header and raw bytes, no code. Written and read with torch alone.

The format: 8 bytes, the header's length N as a little-endian integer; N bytes of JSON, for each tensor its dtype, shape
and the begin and end of its bytes after the header; then the bytes, in row-major order, little-endian, without gaps.
"""

from __future__ import annotations

import ctypes
import json
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

_DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_MOST_HEADER = 100_000_000  # the format's own limit, so that a broken length does not fill the memory


def write(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Writes tensors, whole or not at all: a file of another name is filled first and then renamed.

    Raises:
        ValueError: a tensor of a type that the format does not have.
    """
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    parts: list[bytes] = []
    end = 0
    for name, tensor in sorted(tensors.items()):
        if tensor.dtype not in _NAMES:
            raise ValueError(f"{name}: dtype {tensor.dtype}; allowed are {', '.join(map(str, _NAMES))}")
        data = _bytes(tensor)
        header[name] = {
            "dtype": _NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [end, end + len(data)],
        }
        parts.append(data)
        end += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    partial = path.with_name(f"{path.name}.partial")
    partial.write_bytes(b"".join([len(text).to_bytes(8, "little"), text, *parts]))
    partial.replace(path)


def read(path: Path) -> dict[str, Tensor]:
    """The tensors of a file.

    Raises:
        ValueError: anything but a whole safetensors file: a length, a type, a shape or an offset that does not fit.
    """
    content = bytearray(path.read_bytes())
    if len(content) < 8:
        raise ValueError(f"{path}: {len(content)} bytes; not a safetensors file")
    size = int.from_bytes(content[:8], "little")
    if size > min(_MOST_HEADER, len(content) - 8):
        raise ValueError(
            f"{path}: a header of {size} bytes in a file of {len(content)}; not a safetensors file, or cut"
        )
    try:
        header = json.loads(content[8 : 8 + size])
    except ValueError:
        raise ValueError(f"{path}: its header is no JSON; not a safetensors file") from None
    if not isinstance(header, dict):
        raise ValueError(f"{path}: its header is no JSON object; not a safetensors file")
    entries = {name: entry for name, entry in header.items() if name != "__metadata__"}
    found: dict[str, Tensor] = {}
    covered: list[tuple[int, int]] = []
    for name, entry in entries.items():
        dtype, shape, begin, end = _entry(path, name, entry, len(content) - 8 - size)
        covered.append((begin, end))
        count = math.prod(shape)
        data = (
            torch.frombuffer(content, dtype=torch.uint8, count=end - begin, offset=8 + size + begin) if count else None
        )
        # A clone: torch asks for aligned bytes, and the file's do not have to be.
        found[name] = torch.empty(shape, dtype=dtype) if data is None else data.clone().view(dtype).reshape(shape)
    _without_gaps(path, covered, len(content) - 8 - size)
    return found


def _entry(path: Path, name: str, entry: Any, size: int) -> tuple[torch.dtype, list[int], int, int]:
    try:
        dtype, shape, (begin, end) = _DTYPES[entry["dtype"]], entry["shape"], entry["data_offsets"]
        whole = all(isinstance(number, int) and number >= 0 for number in (*shape, begin, end))
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"{path}: {name!r} is described as {entry!r}, which is not understood") from None
    if not whole or not begin <= end <= size or end - begin != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"{path}: {name!r} is described as {entry!r}, which does not fit the {size} bytes of data")
    return dtype, list(shape), begin, end


def _without_gaps(path: Path, covered: list[tuple[int, int]], size: int) -> None:
    at = 0
    for begin, end in sorted(covered):
        if begin != at:
            raise ValueError(f"{path}: its tensors overlap or leave a gap at byte {min(begin, at)} of the data")
        at = end
    if at != size:
        raise ValueError(f"{path}: {size} bytes of data, of which the header describes {at}")


def _bytes(tensor: Tensor) -> bytes:
    if sys.byteorder == "big":
        raise ValueError("safetensors files are written on little-endian machines only")
    flat = tensor.detach().cpu().contiguous()
    return ctypes.string_at(flat.data_ptr(), flat.numel() * flat.element_size()) if flat.numel() else b""
