"""Random arguments for operators, good and bad ones, by their schema."""

from operators import torch


def random_tensor(chance):
    shape = [chance.choice((0, 1, 2, 3, 3, 3, 4)) for _ in range(chance.choice((0, 1, 1, 1, 1, 2, 2, 3, 9)))]
    rare = [torch.int32, torch.bool, torch.bfloat16, torch.complex64]
    dtype = chance.choice([torch.float32, torch.float64] * 6 + rare)
    x = torch.tensor([chance.randrange(-9, 9) for _ in range(torch.Size(shape).numel())]).reshape(shape).to(dtype)
    how = chance.randrange(12)
    if how == 0 and x.dim() > 1:
        return x.transpose(0, 1)
    if how == 1 and x.dim() > 0:
        return x[..., :1].expand(shape) if x.numel() else x
    if how == 2 and dtype == torch.float32:
        return torch.imag(torch.complex(x, x).conj())  # negated on reading
    if how == 3 and x.numel():
        return torch.cat([x.flatten(), x.flatten()])[1 : 1 + x.numel()].reshape(shape)  # in the middle of its storage
    return x


def random_argument(chance, type_name):
    if type_name.startswith("Optional["):
        return None if chance.random() < 0.5 else random_argument(chance, type_name[9:-1])
    made = {
        "Tensor": lambda: random_tensor(chance),
        "int": lambda: chance.choice((-1, 0, 1, 2, 3, 3, 5, 2**62)),
        "float": lambda: chance.choice((0.0, -1.5, 3.0, 1e300)),
        "bool": lambda: chance.random() < 0.5,
        "str": lambda: chance.choice(("", "a", "b", "mean", 'a "sum"', "it's", "ñ\n\\", "median")),
        "List[int]": lambda: [chance.randrange(9) for _ in range(chance.choice((0, 1, 2, 2, 3, 3)))],
        "List[float]": lambda: [chance.random() for _ in range(chance.choice((0, 1, 2, 2)))],
    }
    return made[type_name]()


def random_arguments(chance, schema):
    args, kwargs, shared = [], {}, None
    for argument in schema.arguments:
        if argument.has_default_value() and chance.random() < 0.3:
            break
        value = random_argument(chance, str(argument.type))
        if isinstance(value, torch.Tensor):  # often of one shape and dtype, or most calls would be refused
            shared = value if shared is None else shared
            if chance.random() < 0.6:
                value = shared.clone()
        if argument.kwarg_only:
            kwargs[argument.name] = value
        else:
            args.append(value)
    for argument in schema.arguments:
        if argument.kwarg_only and not argument.has_default_value() and argument.name not in kwargs:
            kwargs[argument.name] = random_argument(chance, str(argument.type))
    return args, kwargs


def copied(value):
    """With the same strides."""
    if not isinstance(value, torch.Tensor):
        return value
    copy = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype)
    if value.numel() and value.stride() and min(value.stride()) == 0:
        return value.clone()[..., :1].expand(value.shape) if value.dim() else value.clone()
    return copy.copy_(value)


def same(x, y):
    return (x.dtype, x.shape, x.stride(), x.device) == (y.dtype, y.shape, y.stride(), y.device)
