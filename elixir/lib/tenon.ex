defmodule Tenon do
  @moduledoc """
  Tensors on memory that is shared, not copied.

      iex> tensor = Tenon.from_binary!(<<1.0::float-32-native, 2.0::float-32-native>>, {:f, 32})
      iex> Tenon.to_list!(tensor)
      [1.0, 2.0]

  Functions and types have the same names as in Nx. A function that can fail returns `{:ok, value}` or
  `{:error, %Tenon.Error{}}`; its variant with `!` returns the value or raises the error. Unknown options raise
  `ArgumentError`.

  ## Who may write

  At any time memory has either several readers or one writer. If a function written in C (see `Tenon.Library`) writes to
  a tensor that is in use, the error is `:busy`, and so is using a tensor while it is written to. Memory that a binary
  refers to is frozen permanently, because a binary never changes: the memory of `from_binary/3` from the start, other
  memory from the first `to_binary/2` that does not copy. Writing to frozen memory is the error `:readonly`.

  ## How long memory lives

  Every term that refers to memory keeps it alive: a tensor, a view or a binary, even in ETS or in another process.
  `release/1` drops one tensor before the garbage collector does.

  The runtime collects the garbage of a process sooner if the process is charged for more memory. Memory that Tenon
  allocates is a binary of the runtime, which charges it to the process that makes it. Foreign memory cannot be charged.
  Instead, a process that has made tensors on 32 MB of memory since its last collection collects its garbage before it
  gets the next one.

  A process that *receives* a tensor, in a message, as the result of a `Task` or from ETS, is not charged for it: for its
  collector the tensor is only a few words. If such a process has a large heap of its own, the tensors that it has
  dropped stay until its next collection, which may be hundreds of tensors later. There are three ways to bound its
  memory:

    * It calls `release/1` for each tensor that it no longer needs.
    * It calls `:erlang.garbage_collect/0` after a number of tensors, or hibernates.
    * It receives the binary of `to_binary/2` instead, for which it is charged, and makes a tensor from it with
      `from_binary/3`. Neither copies if there are more than 64 bytes; the tensor is frozen.

  The functions that release foreign memory run on one thread of Tenon, one after the other. A slow one delays the
  functions after it, but never a scheduler. After such a collection the process waits while more than 8 of them are
  pending: at most one second, and only as long as one of them ends every 50 ms. It does not wait for slower functions, so
  a process that makes such memory in a loop must check `stats/0`.

  If a process is killed in a dirty NIF, for example in a long function of a `Tenon.Library`, the NIF continues, and the
  memory that the process referred to lives at least until the NIF ends. The runtime may then free it only when the
  scheduler on which the process ended has other work, which can take long on an idle system. `stats/0`, and a process
  that has made tensors on another 32 MB, wake all schedulers, which then free it.
  """

  import Tenon.Error, only: [value!: 1]
  alias Tenon.{Memory, Nif, Options, Tensor}

  @type type :: {atom, pos_integer} | atom
  @type result(value) :: {:ok, value} | {:error, Tenon.Error.t()}

  @doc """
  Makes a tensor on the bytes of a binary, and keeps the binary alive. The tensor is frozen.

  Options:

    * `:shape` - a tuple or list; by default the tensor has one dimension
    * `:copy` - `:allow` (the default), `:never`, or `:always`, which gives writable memory.
      The runtime copies binaries of at most 64 bytes and those that do not start at a byte, and a copy is also needed if
      the address is not aligned for the type; `copied?/1` says whether there was one.

  ## Examples

      iex> Tenon.from_binary!(<<1, 2, 3, 4, 5, 6>>, :u8, shape: {2, 3})
      #Tenon.Tensor<
        u8[2][3]
        [
          [1, 2, 3],
          [4, 5, 6]
        ]
      >

      iex> {:error, error} = Tenon.from_binary(<<1, 2, 3>>, {:f, 32}, shape: {2})
      iex> error.reason
      {:size_mismatch, 8, 3}
  """
  @spec from_binary(binary, type, keyword) :: result(Tensor.t())
  def from_binary(binary, type, options \\ []) do
    [shape: shape, copy: copy] = Options.read!(options, shape: nil, copy: :allow)
    Memory.charge(Nif.from_binary(binary, first_bytes(binary), type, shape, copy))
  end

  # To inspect bits that start inside a byte, the runtime copies them. So the NIF inspects a small part of a large binary
  # first, which it may copy on this scheduler.
  defp first_bytes(binary) when is_binary(binary) and byte_size(binary) > 32 * 1024, do: binary_part(binary, 0, 65)
  defp first_bytes(_binary), do: nil

  @doc """
  Returns the elements as a binary, in C order.

  With `copy: :never`, the default, the binary refers to the tensor's memory, which is frozen from then on. If that is not
  possible, the error is `:not_contiguous`, or `:would_copy` for foreign memory. `copy: :allow` copies in these cases, and
  `copy: :always` copies in any case and freezes nothing.

  ## Examples

      iex> tensor = Tenon.from_list!([[1, 2], [3, 4]], type: :u8)
      iex> Tenon.to_binary!(tensor)
      <<1, 2, 3, 4>>
      iex> Tenon.writable?(tensor)
      false
      iex> {:error, error} = tensor |> Tenon.transpose!() |> Tenon.to_binary()
      iex> error.reason
      :not_contiguous
  """
  @spec to_binary(Tensor.t(), keyword) :: result(binary)
  def to_binary(tensor, options \\ [])
  def to_binary(tensor, []), do: Nif.to_binary(tensor, :never)
  def to_binary(tensor, options), do: Nif.to_binary(tensor, Options.read!(options, copy: :never)[:copy])

  @doc """
  Makes a tensor of zeros, in new memory. `:type` is `{:f, 32}` by default.

  ## Examples

      iex> Tenon.to_list!(Tenon.zeros!({2, 2}, type: :s64))
      [[0, 0], [0, 0]]
  """
  @spec zeros(tuple | [integer], keyword) :: result(Tensor.t())
  def zeros(shape, options \\ []) do
    [type: type] = Options.read!(options, type: {:f, 32})
    Memory.charge(Nif.zeros(shape, type))
  end

  @doc """
  Makes a tensor from the numbers in nested lists.

  By default `:type` is `{:c, 64}` if there is a complex number, `{:f, 32}` if there is a float or the list is empty,
  `{:bool, 8}` for `true` and `false`, and `{:s, 64}` otherwise. Integers are accepted for floats; they are rounded to the
  nearest `{:f, 64}` first, which matters only beyond 2^53 and for narrower floats. `:nan`, `:infinity` and
  `:neg_infinity` are floats, `{re, im}` is a complex number. A number that the type cannot hold is an error.

  ## Examples

      iex> Tenon.to_list!(Tenon.from_list!([1, 2.5, :nan]))
      [1.0, 2.5, :nan]

      iex> {:error, error} = Tenon.from_list([1, 300], type: :u8)
      iex> error.reason
      {:badarg, :list}
  """
  @spec from_list(list | number, keyword) :: result(Tensor.t())
  def from_list(list, options \\ []) do
    [type: type] = Options.read!(options, type: nil)
    Memory.charge(Nif.from_list(list, type))
  end

  @doc """
  Returns the elements as nested lists, or the element itself if the tensor has no dimensions. 2^28 elements or more are
  an error.

  ## Examples

      iex> Tenon.to_list(Tenon.from_list!([1, 2]))
      {:ok, [1, 2]}
  """
  @spec to_list(Tensor.t()) :: result(list | number | atom | tuple)
  def to_list(tensor), do: Nif.to_list(tensor)

  @doc """
  Returns a part of a tensor, without copying: along each axis, the elements from `starts` to `starts + lengths - 1`, or
  with `:strides` every n-th of them.

  ## Examples

      iex> tensor = Tenon.from_list!([[1, 2, 3], [4, 5, 6]])
      iex> Tenon.to_list!(Tenon.slice!(tensor, [0, 1], [2, 2]))
      [[2, 3], [5, 6]]
      iex> Tenon.to_list!(Tenon.slice!(tensor, [0, 0], [1, 3], strides: [1, 2]))
      [[1, 3]]
  """
  @spec slice(Tensor.t(), [integer], [integer], keyword) :: result(Tensor.t())
  def slice(tensor, starts, lengths, options \\ []) do
    [strides: strides] = Options.read!(options, strides: nil)
    Nif.slice(tensor, starts, lengths, strides)
  end

  @doc """
  Permutes the axes, without copying. Without `:axes` it reverses them.

  ## Examples

      iex> Tenon.to_list!(Tenon.transpose!(Tenon.from_list!([[1, 2], [3, 4]])))
      [[1, 3], [2, 4]]
  """
  @spec transpose(Tensor.t(), keyword) :: result(Tensor.t())
  def transpose(tensor, options \\ []) do
    [axes: axes] = Options.read!(options, axes: nil)
    Nif.transpose(tensor, axes)
  end

  @doc """
  Returns the same elements, in C order, with another shape, without copying. If that is not possible, the error is
  `:not_contiguous`. One dimension may be `:auto` (or -1); its size follows from the others.

  ## Examples

      iex> Tenon.to_list!(Tenon.reshape!(Tenon.from_list!([1, 2, 3, 4]), {2, :auto}))
      [[1, 2], [3, 4]]
  """
  @spec reshape(Tensor.t(), tuple | [integer | :auto]) :: result(Tensor.t())
  def reshape(tensor, shape), do: Nif.reshape(tensor, shape)

  @doc """
  Repeats axes of size 1, and adds new ones in front, without copying.

  ## Examples

      iex> Tenon.to_list!(Tenon.broadcast!(Tenon.from_list!([1, 2]), {2, 2}))
      [[1, 2], [1, 2]]
  """
  @spec broadcast(Tensor.t(), tuple | [integer]) :: result(Tensor.t())
  def broadcast(tensor, shape), do: Nif.broadcast(tensor, shape)

  @doc """
  Removes the axes of size 1 that `:axes` lists, or all of them.

  ## Examples

      iex> Tenon.squeeze!(Tenon.zeros!({1, 3, 1})).shape
      {3}
  """
  @spec squeeze(Tensor.t(), keyword) :: result(Tensor.t())
  def squeeze(tensor, options \\ []) do
    [axes: axes] = Options.read!(options, axes: nil)
    Nif.squeeze(tensor, axes)
  end

  @doc """
  Adds an axis of size 1 at position `axis`, which may count from the end.

  ## Examples

      iex> Tenon.new_axis!(Tenon.zeros!({3}), -1).shape
      {3, 1}
  """
  @spec new_axis(Tensor.t(), integer) :: result(Tensor.t())
  def new_axis(tensor, axis), do: Nif.new_axis(tensor, axis)

  @doc "Returns whether the memory is writable, that is, neither frozen nor read-only. Raises `Tenon.Error`."
  @spec writable?(Tensor.t()) :: boolean
  def writable?(tensor), do: value!(Nif.writable(tensor))

  @doc "Returns whether `from_binary/3` copied the binary, on request or because it had to. Raises `Tenon.Error`."
  @spec copied?(Tensor.t()) :: boolean
  def copied?(tensor), do: value!(Nif.copied(tensor))

  @doc """
  Releases this tensor: using it afterwards is an error, even in other processes. The memory is freed after its last user:
  other views, binaries, and running calls. Releasing a tensor twice is allowed.
  """
  @spec release(Tensor.t()) :: :ok | {:error, Tenon.Error.t()}
  def release(tensor), do: Nif.release(tensor)

  @doc """
  Returns the number of live tensors, the bytes that Tenon has allocated for them, and the number of pending releases.

  A binary of `to_binary/2` may keep memory alive after its last tensor is gone. From 1 KiB on, that memory belongs to the
  runtime (`:erlang.memory(:binary)`) and is not counted here.

  The memory of a process that was killed in a dirty NIF counts until the runtime frees it. This function wakes the
  schedulers that have to do that, so a later call does not count it.
  """
  @spec stats() :: %{live: integer, bytes: integer, deferred: integer}
  def stats do
    Memory.wake_schedulers()
    with {:error, error} <- Nif.stats(), do: raise(error)
  end

  @doc "Returns the include folder for the C compiler, with `tenon/function.h` for functions and `tenon/nif.h` for other NIFs."
  @spec include_dir() :: String.t()
  def include_dir, do: Application.app_dir(:tenon, "priv/include")

  @doc """
  Makes a tensor on the memory of another NIF's resource, without copying. That NIF must support `tenon/nif.h`.

  `type` names the resource's type as its NIF opened it: `{Module, :name}`. With `immutable: true` the caller promises
  that the bytes never change, so that `to_binary/2` need not copy.
  """
  @spec from_resource(reference, {module, atom}, keyword) :: result(Tensor.t())
  def from_resource(resource, type, options \\ []) do
    [immutable: immutable] = Options.read!(options, immutable: false)
    {module, name} = if match?({_, _}, type), do: type, else: {type, nil}
    Memory.charge(Nif.from_resource(resource, module, name, immutable))
  end

  @doc "Like `from_binary/3`, but returns the value or raises `Tenon.Error`."
  @spec from_binary!(binary, type, keyword) :: Tensor.t()
  def from_binary!(binary, type, options \\ []), do: value!(from_binary(binary, type, options))

  @doc "Like `to_binary/2`, but returns the value or raises `Tenon.Error`."
  @spec to_binary!(Tensor.t(), keyword) :: binary
  def to_binary!(tensor, options \\ []), do: value!(to_binary(tensor, options))

  @doc "Like `zeros/2`, but returns the value or raises `Tenon.Error`."
  @spec zeros!(tuple | [integer], keyword) :: Tensor.t()
  def zeros!(shape, options \\ []), do: value!(zeros(shape, options))

  @doc "Like `from_list/2`, but returns the value or raises `Tenon.Error`."
  @spec from_list!(list | number, keyword) :: Tensor.t()
  def from_list!(list, options \\ []), do: value!(from_list(list, options))

  @doc "Like `to_list/1`, but returns the value or raises `Tenon.Error`."
  @spec to_list!(Tensor.t()) :: list | number | atom | tuple
  def to_list!(tensor), do: value!(to_list(tensor))

  @doc "Like `slice/4`, but returns the value or raises `Tenon.Error`."
  @spec slice!(Tensor.t(), [integer], [integer], keyword) :: Tensor.t()
  def slice!(tensor, starts, lengths, options \\ []), do: value!(slice(tensor, starts, lengths, options))

  @doc "Like `transpose/2`, but returns the value or raises `Tenon.Error`."
  @spec transpose!(Tensor.t(), keyword) :: Tensor.t()
  def transpose!(tensor, options \\ []), do: value!(transpose(tensor, options))

  @doc "Like `reshape/2`, but returns the value or raises `Tenon.Error`."
  @spec reshape!(Tensor.t(), tuple | [integer | :auto]) :: Tensor.t()
  def reshape!(tensor, shape), do: value!(reshape(tensor, shape))

  @doc "Like `broadcast/2`, but returns the value or raises `Tenon.Error`."
  @spec broadcast!(Tensor.t(), tuple | [integer]) :: Tensor.t()
  def broadcast!(tensor, shape), do: value!(broadcast(tensor, shape))

  @doc "Like `squeeze/2`, but returns the value or raises `Tenon.Error`."
  @spec squeeze!(Tensor.t(), keyword) :: Tensor.t()
  def squeeze!(tensor, options \\ []), do: value!(squeeze(tensor, options))

  @doc "Like `new_axis/2`, but returns the value or raises `Tenon.Error`."
  @spec new_axis!(Tensor.t(), integer) :: Tensor.t()
  def new_axis!(tensor, axis), do: value!(new_axis(tensor, axis))

  @doc "Like `from_resource/3`, but returns the value or raises `Tenon.Error`."
  @spec from_resource!(reference, {module, atom}, keyword) :: Tensor.t()
  def from_resource!(resource, type, options \\ []), do: value!(from_resource(resource, type, options))
end
