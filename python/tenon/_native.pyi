from os import PathLike
from types import ModuleType
from typing import Any, Optional, TypedDict, Union, final, type_check_only

version: str

@final
class Tensor:
    def __dlpack__(
        self,
        *,
        stream: Any = ...,
        max_version: Optional[tuple[int, int]] = ...,
        dl_device: Optional[tuple[int, int]] = ...,
        copy: Optional[bool] = ...,
    ) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

@type_check_only
class Parameter(TypedDict):
    name: Optional[str]
    kind: str
    type: str
    optional: bool
    keyword_only: bool
    default: Optional[str]
    choices: tuple[str, ...]
    handle: Optional[str]
    count: Optional[int]
    written: bool

@type_check_only
class Function:
    @property
    def name(self) -> str: ...
    @property
    def signature(self) -> str: ...
    @property
    def doc(self) -> Optional[str]: ...
    @property
    def module(self) -> str: ...
    @property
    def parameters(self) -> tuple[Parameter, ...]: ...
    @property
    def results(self) -> tuple[Parameter, ...]: ...

def open_library(path: Union[str, bytes, "PathLike[str]", "PathLike[bytes]"], /) -> ModuleType: ...
def torch_info() -> dict[str, str]: ...
def to(x: Any, framework: str, /) -> Any: ...
