from tenon._native import Function

def handler(platform: str = "cpu", capturable: bool = False) -> object: ...  # a capsule
def probe(
    major: int, minor: int, with_api: bool, platform: str = "cpu", capturable: bool = False, /
) -> tuple[int, int, int]: ...  # (major, minor, traits)
def register(function: Function, fn: str, /) -> str: ...
def capturable(function: Function, /) -> bool: ...
