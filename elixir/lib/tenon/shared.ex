defmodule Tenon.Shared do
  @moduledoc """
  Tensors in memory that several operating system processes share: two BEAMs, or a BEAM and Python. Linux only.

  One process makes a tensor and sends its name, a short string, over any channel. Another process of the same user
  attaches to it. Both use the same memory; nothing is copied.

      iex> tensor = Tenon.Shared.zeros!({3}, type: :s32)
      iex> name = Tenon.Shared.name!(tensor)
      iex> attached = Tenon.Shared.attach!(name)
      iex> {attached.type, attached.shape, Tenon.writable?(attached)}
      {{:s, 32}, {3}, true}
      iex> Tenon.to_list!(attached) == Tenon.to_list!(tensor)
      true

  In Python, `tenon.attach(name)` does the same, and `tenon.shared_zeros`, `tenon.share` and `shared_name` are the other side of
  `zeros/2`, `share/1` and `name/1`. The results are tensors like any other: the functions of `Tenon`, `Tenon.Nx` and
  `Tenon.Library` accept them.

  ## Who may write

  Everyone who attaches may write, until the memory is frozen. `share/1` makes memory that is frozen from the start, and
  `freeze/1` freezes it later; both are permanent. A process that attached before `freeze/1` may still write.

  The rule that memory has either several readers or one writer (see `Tenon`) holds inside one BEAM and for one tensor. It
  cannot hold between processes, nor between a tensor and what `attach/2` makes from its name in the same BEAM. Agree on
  who writes when, for example by sending the name only after the last write.

  A binary never changes, so a binary can only refer to memory that no process can write to: that of `share/1`, and that
  of `attach/2` with `immutable: true`. `Tenon.to_binary/2` and `Tenon.Nx.to_nx/2` copy other shared memory if they are
  called with `copy: :allow`, and refuse it with `:would_copy` otherwise.

  ## How long memory lives

  The memory is an anonymous file: it has no path, and it is freed when the last process has released it or has ended, even
  if it was killed. A name is valid as long as the process that made it holds the tensor, so keep the tensor until the other
  process says that it has attached: in the state of a process, or by calling `Tenon.release/1` after the answer. A variable
  that is not used again does not keep it, because it is garbage from its last use on.

  Each tensor has one file descriptor. A process that makes them in a loop collects its garbage after 256 of them, or earlier
  if they are large; `Tenon.release/1` closes the descriptor without waiting for that.

  ## Errors

    * `{:shared, :invalid}`: the string is not a name, or the header of the memory is invalid; `{:shared, :version}`: the
      other process has a Tenon that is not compatible
    * `{:system, :enoent}`: the other process has ended or has released the tensor, or is in another PID namespace (a
      container)
    * `{:system, :eacces}`: it belongs to another user
    * `{:system, :enosys}`: this is not Linux; other names of the system's errors, such as `{:system, :emfile}`, are possible
    * `{:unsupported_type, type}`: Elixir has no tensors of this type, such as Python's `i4`
  """

  import Tenon.Error, only: [value!: 1]
  alias Tenon.{Memory, Nif, Options, Tensor}

  @doc """
  Makes a tensor of zeros that other processes can attach to and write to. `:type` is `{:f, 32}` by default.

  All its memory is allocated at once, so that a later write cannot fail.
  """
  @spec zeros(tuple | [integer], keyword) :: Tenon.result(Tensor.t())
  def zeros(shape, options \\ []) do
    [type: type] = Options.read!(options, type: {:f, 32})
    Memory.charge(Nif.shared_zeros(shape, type))
  end

  @doc """
  Copies a tensor into shared memory, which is frozen. This is the only copy. Nx tensors are accepted too.

  ## Examples

      iex> shared = Tenon.Shared.share!(Tenon.from_list!([1, 2, 3]))
      iex> {Tenon.to_list!(shared), Tenon.writable?(shared)}
      {[1, 2, 3], false}
  """
  @spec share(Tensor.t() | struct) :: Tenon.result(Tensor.t())
  def share(%{__struct__: Nx.Tensor} = tensor) do
    with {:ok, own} <- Tenon.Nx.from_nx(tensor), do: share(own)
  end

  def share(tensor), do: Memory.charge(Nif.shared_share(tensor))

  @doc """
  Freezes the memory, permanently, for this process and for every process that attaches from now on. Views of the tensor
  are frozen with it. A process that attached before may still write. Freezing frozen memory does nothing.

  The error is `:busy` while a call uses the tensor or one of its views, or an object keeps it.

  ## Examples

      iex> tensor = Tenon.Shared.zeros!({2})
      iex> Tenon.writable?(Tenon.Shared.freeze!(tensor))
      false
  """
  @spec freeze(Tensor.t()) :: Tenon.result(Tensor.t())
  def freeze(tensor), do: Nif.shared_freeze(tensor)

  @doc """
  Returns the name of a shared tensor, for `attach/2` or for `tenon.attach` in Python.

  The name is ASCII without spaces and shorter than 96 bytes. A view has no name.
  """
  @spec name(Tensor.t()) :: Tenon.result(String.t())
  def name(tensor), do: Nif.shared_name(tensor)

  @doc """
  Makes a tensor on the memory of a shared tensor of another process.

  With `immutable: true` the caller promises that the memory was frozen before anyone else attached to it, as that of
  `share/1` is, so that binaries may refer to it. The memory must be frozen already.

  ## Examples

      iex> {:error, error} = Tenon.Shared.attach("not a name")
      iex> error.reason
      {:shared, :invalid}
  """
  @spec attach(String.t(), keyword) :: Tenon.result(Tensor.t())
  def attach(name, options \\ []) do
    [immutable: immutable] = Options.read!(options, immutable: false)
    Memory.charge(Nif.shared_attach(name, immutable))
  end

  @doc "Like `zeros/2`, but returns the value or raises `Tenon.Error`."
  @spec zeros!(tuple | [integer], keyword) :: Tensor.t()
  def zeros!(shape, options \\ []), do: value!(zeros(shape, options))

  @doc "Like `share/1`, but returns the value or raises `Tenon.Error`."
  @spec share!(Tensor.t() | struct) :: Tensor.t()
  def share!(tensor), do: value!(share(tensor))

  @doc "Like `freeze/1`, but returns the value or raises `Tenon.Error`."
  @spec freeze!(Tensor.t()) :: Tensor.t()
  def freeze!(tensor), do: value!(freeze(tensor))

  @doc "Like `name/1`, but returns the value or raises `Tenon.Error`."
  @spec name!(Tensor.t()) :: String.t()
  def name!(tensor), do: value!(name(tensor))

  @doc "Like `attach/2`, but returns the value or raises `Tenon.Error`."
  @spec attach!(String.t(), keyword) :: Tensor.t()
  def attach!(name, options \\ []), do: value!(attach(name, options))
end
