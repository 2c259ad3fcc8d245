defmodule Tenon do
  @moduledoc """
  Tensors on memory that is shared, not copied.

      iex> tensor = Tenon.from_binary!(<<1.0::float-32-native, 2.0::float-32-native>>, {:f, 32})
      iex> Tenon.to_list!(tensor)
      [1.0, 2.0]

  The verbs and the names of types are Nx's. What can fail returns `{:ok, value}` or `{:error, %Tenon.Error{}}`, and has
  a twin with `!` that returns the value or raises the error. Unknown options raise `ArgumentError`.

  ## Who may write

  Memory has at any time several readers or one writer. A function written in C (see `Tenon.Library`) that wants to
  write a tensor gets `:busy` where others use it, and they get `:busy` while it writes. Memory that a binary shows is
  frozen for ever, since a binary never changes: that of `from_binary/3` from the start, other memory from the first
  `to_binary/2` on that does not copy. Then whoever wants to write gets `:readonly`.

  ## How long memory lives

  Any term that has to do with it keeps it: a tensor, a view, a binary, also in ETS or in another process. `release/1`
  gives up one handle before the garbage collector does.

  The garbage of a process is collected sooner the more memory it is charged for. Memory that Tenon allocates is a binary
  of the runtime, and is charged to the process that makes it. Foreign memory cannot be charged: a process that has made
  tensors on 32 MB of memory since its last collection collects its garbage before it gets the next one.

  A process that *receives* a tensor, in a message, as the result of a `Task` or from ETS, is not charged for it: for its
  collector the tensor is a few words. If such a process has a large heap of its own, the tensors that it has dropped
  stay until its next collection, which may be hundreds of tensors later. It keeps its memory bounded in one of these
  ways:

    * It calls `release/1` for each tensor when it no longer needs it.
    * It calls `:erlang.garbage_collect/0` after every so many tensors, or hibernates.
    * It receives the binary of `to_binary/2` instead, for which it is charged, and makes a tensor of it with
      `from_binary/3`. Neither copies from 65 bytes on; the tensor is frozen.

  The functions that release foreign memory run on one thread of Tenon's, one after the other: a slow one delays those
  behind it, and never a scheduler. After such a collection the process waits while more than 8 of them are due, up to a
  second, unless none ends within 50 ms. Functions that take longer than that are not waited for: whoever makes such
  memory in a loop has to look at `stats/0` to bound it.
  """

  import Tenon.Error, only: [value!: 1]
  alias Tenon.{Memory, Nif, Options, Tensor}

  @type type :: {atom, pos_integer} | atom
  @type result(value) :: {:ok, value} | {:error, Tenon.Error.t()}

  @doc """
  A tensor on the bytes of a binary, which it holds. It is frozen.

  Options:

    * `:shape` - a tuple or list; one dimension without it
    * `:copy` - `:allow` (the default), `:never`, or `:always`, which gives memory that may be written.
      The runtime copies binaries of 64 bytes or less and those that do not start at a byte, and an address that is not
      aligned for the type needs a copy too; `copied?/1` tells.

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
    options = Options.read!(options, shape: nil, copy: :allow)
    Memory.charge(Nif.from_binary(binary, first_bytes(binary), type, options[:shape], options[:copy]))
  end

  # The runtime shows bits that start inside a byte by copying them. So the NIF looks at a part first, which it may copy
  # here, and not at all of a large binary.
  defp first_bytes(binary) when is_binary(binary) and byte_size(binary) > 32 * 1024, do: binary_part(binary, 0, 65)
  defp first_bytes(_binary), do: nil

  @doc """
  The elements as a binary, in C order.

  With `copy: :never`, the default, it shows the tensor's memory, which is frozen from then on; where that cannot be the
  error is `:not_contiguous`, or `:would_copy` for memory of somebody else's. `copy: :allow` copies then, and
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
  A tensor of zeros, in memory of its own. `:type` is `{:f, 32}` unless given.

  ## Examples

      iex> Tenon.to_list!(Tenon.zeros!({2, 2}, type: :s64))
      [[0, 0], [0, 0]]
  """
  @spec zeros(tuple | [integer], keyword) :: result(Tensor.t())
  def zeros(shape, options \\ []) do
    options = Options.read!(options, type: {:f, 32})
    Memory.charge(Nif.zeros(shape, options[:type]))
  end

  @doc """
  A tensor of the numbers in nested lists.

  Without `:type` it is `{:f, 32}` where there is a float or nothing at all, `{:c, 64}` where there is a complex number,
  `{:bool, 8}` for `true` and `false`, else `{:s, 64}`. Integers are taken for floats: for the nearest `{:f, 64}` first,
  which matters beyond 2^53 and for narrower floats only. `:nan`, `:infinity` and `:neg_infinity` are floats, `{re, im}`
  is a complex number. What the type cannot hold is an error.

  ## Examples

      iex> Tenon.to_list!(Tenon.from_list!([1, 2.5, :nan]))
      [1.0, 2.5, :nan]

      iex> {:error, error} = Tenon.from_list([1, 300], type: :u8)
      iex> error.reason
      {:badarg, :list}
  """
  @spec from_list(list | number, keyword) :: result(Tensor.t())
  def from_list(list, options \\ []) do
    options = Options.read!(options, type: nil)
    Memory.charge(Nif.from_list(list, options[:type]))
  end

  @doc """
  The elements as nested lists; the one of a tensor without dimensions as it is. No list is made for 2^28 elements or
  more.

  ## Examples

      iex> Tenon.to_list(Tenon.from_list!([1, 2]))
      {:ok, [1, 2]}
  """
  @spec to_list(Tensor.t()) :: result(list | number | atom | tuple)
  def to_list(tensor), do: Nif.to_list(tensor)

  @doc """
  A part of a tensor, without copying: `lengths` elements from `starts` on along each axis, and of these each one that
  `:strides` names.

  ## Examples

      iex> tensor = Tenon.from_list!([[1, 2, 3], [4, 5, 6]])
      iex> Tenon.to_list!(Tenon.slice!(tensor, [0, 1], [2, 2]))
      [[2, 3], [5, 6]]
      iex> Tenon.to_list!(Tenon.slice!(tensor, [0, 0], [1, 3], strides: [1, 2]))
      [[1, 3]]
  """
  @spec slice(Tensor.t(), [integer], [integer], keyword) :: result(Tensor.t())
  def slice(tensor, starts, lengths, options \\ []) do
    options = Options.read!(options, strides: nil)
    Nif.slice(tensor, starts, lengths, options[:strides])
  end

  @doc """
  The axes in another order, without copying; reversed where `:axes` is not given.

  ## Examples

      iex> Tenon.to_list!(Tenon.transpose!(Tenon.from_list!([[1, 2], [3, 4]])))
      [[1, 3], [2, 4]]
  """
  @spec transpose(Tensor.t(), keyword) :: result(Tensor.t())
  def transpose(tensor, options \\ []) do
    options = Options.read!(options, axes: nil)
    Nif.transpose(tensor, options[:axes])
  end

  @doc """
  The same elements in C order under another shape, without copying: `:not_contiguous` where that cannot be. One
  dimension may be `:auto` (or -1): what is left.

  ## Examples

      iex> Tenon.to_list!(Tenon.reshape!(Tenon.from_list!([1, 2, 3, 4]), {2, :auto}))
      [[1, 2], [3, 4]]
  """
  @spec reshape(Tensor.t(), tuple | [integer | :auto]) :: result(Tensor.t())
  def reshape(tensor, shape), do: Nif.reshape(tensor, shape)

  @doc """
  Axes of size 1, and new ones in front, repeated without copying.

  ## Examples

      iex> Tenon.to_list!(Tenon.broadcast!(Tenon.from_list!([1, 2]), {2, 2}))
      [[1, 2], [1, 2]]
  """
  @spec broadcast(Tensor.t(), tuple | [integer]) :: result(Tensor.t())
  def broadcast(tensor, shape), do: Nif.broadcast(tensor, shape)

  @doc """
  Without the axes of size 1 that `:axes` names, or without all of them.

  ## Examples

      iex> Tenon.squeeze!(Tenon.zeros!({1, 3, 1})).shape
      {3}
  """
  @spec squeeze(Tensor.t(), keyword) :: result(Tensor.t())
  def squeeze(tensor, options \\ []) do
    options = Options.read!(options, axes: nil)
    Nif.squeeze(tensor, options[:axes])
  end

  @doc """
  With a new axis of size 1 at `axis`, which may count from the end.

  ## Examples

      iex> Tenon.new_axis!(Tenon.zeros!({3}), -1).shape
      {3, 1}
  """
  @spec new_axis(Tensor.t(), integer) :: result(Tensor.t())
  def new_axis(tensor, axis), do: Nif.new_axis(tensor, axis)

  @doc "Whether the memory may be written at all: it is neither frozen nor read-only. Raises `Tenon.Error`."
  @spec writable?(Tensor.t()) :: boolean
  def writable?(tensor), do: value!(Nif.writable(tensor))

  @doc "Whether `from_binary/3` copied the binary, as it was told or as it had to. Raises `Tenon.Error`."
  @spec copied?(Tensor.t()) :: boolean
  def copied?(tensor), do: value!(Nif.copied(tensor))

  @doc """
  Gives this handle up: from now on it is an error to use it, also in other processes. The memory goes with its last
  user: other views, binaries, and calls that are under way. Doing it twice is no error.
  """
  @spec release(Tensor.t()) :: :ok | {:error, Tenon.Error.t()}
  def release(tensor), do: Nif.release(tensor)

  @doc """
  Tensors that are alive, the bytes that Tenon has allocated for them, and releases that wait for their thread.

  A binary of `to_binary/2` may keep memory of which no tensor is alive any more: from 1 KiB on that is the runtime's own
  (`:erlang.memory(:binary)`), and not counted here.
  """
  @spec stats() :: %{live: integer, bytes: integer, deferred: integer}
  def stats, do: with({:error, error} <- Nif.stats(), do: raise(error))

  @doc "The folder to compile with (`-I`): has `tenon/function.h` for functions and `tenon/nif.h` for other NIFs."
  @spec include_dir() :: String.t()
  def include_dir, do: Application.app_dir(:tenon, "priv/include")

  @doc """
  The tensor of another NIF's resource, without copying, where that NIF answers the request of `tenon/nif.h`.

  `type` names the resource's type as its NIF opened it: `{Module, :name}`. With `immutable: true` the caller says that
  nobody ever changes the bytes, so that `to_binary/2` need not copy.
  """
  @spec from_resource(reference, {module, atom}, keyword) :: result(Tensor.t())
  def from_resource(resource, type, options \\ []) do
    options = Options.read!(options, immutable: false)
    {module, name} = if match?({_, _}, type), do: type, else: {type, nil}
    Memory.charge(Nif.from_resource(resource, module, name, options[:immutable]))
  end

  @doc "As `from_binary/3`, but returns the value or raises `Tenon.Error`."
  @spec from_binary!(binary, type, keyword) :: Tensor.t()
  def from_binary!(binary, type, options \\ []), do: value!(from_binary(binary, type, options))

  @doc "As `to_binary/2`, but returns the value or raises `Tenon.Error`."
  @spec to_binary!(Tensor.t(), keyword) :: binary
  def to_binary!(tensor, options \\ []), do: value!(to_binary(tensor, options))

  @doc "As `zeros/2`, but returns the value or raises `Tenon.Error`."
  @spec zeros!(tuple | [integer], keyword) :: Tensor.t()
  def zeros!(shape, options \\ []), do: value!(zeros(shape, options))

  @doc "As `from_list/2`, but returns the value or raises `Tenon.Error`."
  @spec from_list!(list | number, keyword) :: Tensor.t()
  def from_list!(list, options \\ []), do: value!(from_list(list, options))

  @doc "As `to_list/1`, but returns the value or raises `Tenon.Error`."
  @spec to_list!(Tensor.t()) :: list | number | atom | tuple
  def to_list!(tensor), do: value!(to_list(tensor))

  @doc "As `slice/4`, but returns the value or raises `Tenon.Error`."
  @spec slice!(Tensor.t(), [integer], [integer], keyword) :: Tensor.t()
  def slice!(tensor, starts, lengths, options \\ []), do: value!(slice(tensor, starts, lengths, options))

  @doc "As `transpose/2`, but returns the value or raises `Tenon.Error`."
  @spec transpose!(Tensor.t(), keyword) :: Tensor.t()
  def transpose!(tensor, options \\ []), do: value!(transpose(tensor, options))

  @doc "As `reshape/2`, but returns the value or raises `Tenon.Error`."
  @spec reshape!(Tensor.t(), tuple | [integer | :auto]) :: Tensor.t()
  def reshape!(tensor, shape), do: value!(reshape(tensor, shape))

  @doc "As `broadcast/2`, but returns the value or raises `Tenon.Error`."
  @spec broadcast!(Tensor.t(), tuple | [integer]) :: Tensor.t()
  def broadcast!(tensor, shape), do: value!(broadcast(tensor, shape))

  @doc "As `squeeze/2`, but returns the value or raises `Tenon.Error`."
  @spec squeeze!(Tensor.t(), keyword) :: Tensor.t()
  def squeeze!(tensor, options \\ []), do: value!(squeeze(tensor, options))

  @doc "As `new_axis/2`, but returns the value or raises `Tenon.Error`."
  @spec new_axis!(Tensor.t(), integer) :: Tensor.t()
  def new_axis!(tensor, axis), do: value!(new_axis(tensor, axis))

  @doc "As `from_resource/3`, but returns the value or raises `Tenon.Error`."
  @spec from_resource!(reference, {module, atom}, keyword) :: Tensor.t()
  def from_resource!(resource, type, options \\ []), do: value!(from_resource(resource, type, options))
end
