"""The array types of signatures: jaxtyping's where it is installed, harmless stand-ins where it is not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int, Int8, UInt8
else:
    try:
        from jaxtyping import Bool, Float, Int, Int8, UInt8
    except ImportError:

        class _Unchecked:
            """`Float[Tensor, "batch dim"]` is then just `Tensor`."""

            def __class_getitem__(cls, item: Any) -> Any:
                return item[0]

        Bool = Float = Int = Int8 = UInt8 = _Unchecked

__all__ = ["Bool", "Float", "Int", "Int8", "Tensor", "UInt8"]
