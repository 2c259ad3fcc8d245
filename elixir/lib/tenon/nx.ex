defmodule Tenon.Nx do
  @moduledoc """
  To Nx and from it, without depending on it: only Nx's public functions are called, and only where it is there.

  Nx needs Elixir 1.17 or newer.

  Holding an Nx tensor does not protect its memory from `Nx.backend_deallocate/1`, nor from a backend that donates its
  buffers: whoever takes a pointer by `from_nx/2` keeps away from these.

  What Nx or a backend refuses (a template, a tensor that was deallocated or is an expression of `defn`, a backend
  without pointers) is `{:error, %Tenon.Error{reason: {:badarg, argument}}}`, with the backend's own message.

  Nx's functions that compute with tensors (`Nx.add/2`, `Nx.concatenate/2`, `Nx.to_tensor/1`) and `defn` take our tensors
  too, through `Nx.LazyContainer`: as `to_nx(tensor, copy: :allow)` gives them. Those that take an `Nx.Container`
  (`Nx.backend_copy/1`, `Nx.backend_transfer/1`, `Nx.serialize/2`) and those that take a shape (`Nx.shape/1`,
  `Nx.broadcast/2` as the shape) do not: give these `to_nx!(tensor)`.
  """

  import Tenon.Error, only: [value!: 1]
  alias Tenon.{Blob, Error, Options, Tensor}

  # What an address and a size can be.
  @word 0..0xFFFFFFFFFFFFFFFF

  @doc """
  The tensor as one of Nx, with the names of axes that `from_nx/2` found.

  With `Nx.BinaryBackend`, the default whatever Nx's own default is, it shows the same memory, frozen from then on:
  `Tenon.to_binary/2` says when that cannot be, and takes the same `:copy`. With another `backend:`, as in
  `Nx.from_binary/3`, that backend copies the elements, and nothing is frozen.

  A `{:bool, 8}` is a `{:u, 8}` in Nx. Nx has no tensors without elements.
  """
  @spec to_nx(Tensor.t(), keyword) :: Tenon.result(struct)
  def to_nx(tensor, options \\ []) do
    options = Options.read!(options, copy: nil, backend: Nx.BinaryBackend)

    with :ok <- available({:to_nx, nil}),
         {:ok, plain} <- again(tensor),
         {:ok, type} <- nx_type(plain.type),
         :ok <- not_empty(plain),
         {:ok, copy} <- copy(options[:copy], options[:backend]),
         {:ok, binary} <- rename(Tenon.to_binary(plain, copy: copy), {:to_nx, nil}) do
      made =
        ask({:to_nx, :backend}, fn ->
          call(:reshape, [call(:from_binary, [binary, type, [backend: options[:backend]]]), plain.shape])
        end)

      with {:ok, there} <- made, do: ask({:to_nx, :tensor}, fn -> name(there, tensor, tuple_size(plain.shape)) end)
    end
  end

  # Another backend has a copy of its own in any case, so what it copies from need not be frozen.
  defp copy(copy, Nx.BinaryBackend), do: {:ok, copy || :never}
  defp copy(nil, _backend), do: {:ok, :always}

  defp copy(:never, _backend) do
    fail(:would_copy, {:to_nx, :backend}, "this backend copies the elements; leave copy: :never out")
  end

  defp copy(copy, _backend), do: {:ok, if(copy == :allow, do: :always, else: copy)}

  # Anyone may have changed the struct.
  defp name(there, tensor, rank) do
    names = Map.get(tensor, :names)
    if names?(names, rank) and rank > 0, do: call(:rename, [there, names]), else: there
  end

  defp names?(names, rank) do
    is_list(names) and not List.improper?(names) and length(names) == rank and Enum.all?(names, &is_atom/1)
  end

  defp not_empty(%{byte_size: 0}), do: fail(:badarg, {:to_nx, :tensor}, "Nx has no tensors without elements")
  defp not_empty(_tensor), do: :ok

  @doc """
  An Nx tensor as one of ours. Its names of axes are kept in `names`.

  Without options its binary is taken: with Nx's own backend that is the memory itself, held and frozen; others copy it.

  With `device:` (such as `:cpu` or `{:cuda, 0}`) the memory of another backend is shared through
  `Nx.to_pointer(tensor, mode: :local)`, with the tensor as its owner. Nx does not say on which device a pointer is, so
  the caller has to: with the wrong one the address means nothing. Nor does it say how the elements are stored: memory
  that is not exactly as large as the shape and the type need (Torchx keeps u16 and u32 in wider integers) is
  `{:size_mismatch, expected, got}`.

  A vectorized tensor comes as `Nx.devectorize/1` gives it: its vectorized axes first. Types of less than a byte
  (u2, u4, s2, s4) are refused: `Nx.as_type/2` makes them wider.
  """
  @spec from_nx(struct, keyword) :: Tenon.result(Tensor.t())
  def from_nx(tensor, options \\ []) do
    options = Options.read!(options, device: nil)

    with :ok <- available({:from_nx, nil}),
         {:ok, tensor} <- nx_tensor(tensor),
         {:ok, type, shape} <- described(tensor, {:from_nx, :tensor}),
         {:ok, made} <- take(tensor, type, shape, options[:device]) do
      names = Map.get(tensor, :names)
      {:ok, if(names?(names, tuple_size(shape)) and Enum.any?(names), do: %{made | names: names}, else: made)}
    end
  end

  @copied "; without device: its elements are copied"

  defp take(tensor, type, shape, nil) do
    with {:ok, binary} <- ask({:from_nx, :tensor}, fn -> call(:to_binary, [tensor]) end) do
      rename(Tenon.from_binary(binary, type, shape: shape), {:from_nx, :tensor})
    end
  end

  defp take(tensor, type, shape, device) do
    with {:ok, pointer} <- ask({:from_nx, :tensor}, fn -> call(:to_pointer, [tensor, [mode: :local]]) end),
         :ok <- local(pointer) do
      expected = div(Tuple.product(shape) * elem(type, 1), 8)

      if pointer.data_size == expected,
        do: share(pointer, tensor, type, shape, device),
        else: wrong_size(pointer.data_size, expected)
    end
  end

  defp local(%{kind: :local, address: address, data_size: size}) when address in @word and size in @word, do: :ok

  defp local(_pointer) do
    fail(:badarg, {:from_nx, :tensor}, "its backend gave a pointer without a local address and a size")
  end

  defp wrong_size(got, expected) do
    fail(
      {:size_mismatch, expected, got},
      {:from_nx, :tensor},
      "the shape and type need #{expected} bytes, and the backend's memory has #{got}: it stores the elements in its " <>
        "own way" <> @copied
    )
  end

  defp share(pointer, tensor, type, shape, device) do
    blob = %{ptr: pointer.address, shape: shape, dtype: type, device: device}
    {:ok, Blob.from_blob(blob, owner: tensor, data_size: pointer.data_size).tensor}
  rescue
    error in Tenon.Error -> not_shared(error)
  end

  defp not_shared(%{argument: :device} = error), do: rename({:error, error}, {:from_nx, :device})

  # The owner is the tensor, and only its backend knows what is inside.
  defp not_shared(%{argument: :owner, reason: reason}) when reason != :released do
    why = "its struct has functions inside, or more than 1,000,000 words, so it cannot be held"
    fail(rename_reason(reason, :tensor), {:from_nx, :tensor}, why <> @copied)
  end

  defp not_shared(error) do
    {:error, error} = rename({:error, error}, {:from_nx, :tensor})
    {:error, %{error | message: error.message <> @copied}}
  end

  @doc """
  An `Nx.Pointer` to a tensor in C order, and its owner, which must be kept as long as the pointer is used.
  """
  @spec to_pointer(Tensor.t()) :: Tenon.result({struct, Tensor.t()})
  def to_pointer(tensor) do
    with :ok <- available({:to_pointer, nil}),
         # Nothing moves: where it would have to, this says so.
         {:ok, flat} <- rename(Tenon.reshape(tensor, {-1}), {:to_pointer, nil}) do
      address = Blob.to_blob(flat).ptr
      {:ok, {struct!(Nx.Pointer, kind: :local, address: address, data_size: flat.byte_size), tensor}}
    end
  end

  @doc "As `to_nx/2`, but returns the value or raises `Tenon.Error`."
  @spec to_nx!(Tensor.t(), keyword) :: struct
  def to_nx!(tensor, options \\ []), do: value!(to_nx(tensor, options))

  @doc "As `from_nx/2`, but returns the value or raises `Tenon.Error`."
  @spec from_nx!(struct, keyword) :: Tensor.t()
  def from_nx!(tensor, options \\ []), do: value!(from_nx(tensor, options))

  @doc "As `to_pointer/1`, but returns the value or raises `Tenon.Error`."
  @spec to_pointer!(Tensor.t()) :: {struct, Tensor.t()}
  def to_pointer!(tensor), do: value!(to_pointer(tensor))

  # Anyone may have changed the struct's fields; those of a view are right.
  defp again(tensor), do: rename(Tenon.squeeze(tensor, axes: []), {:to_nx, nil})

  # By apply, so that the compiler does not look for a module that need not be there.
  defp call(function, arguments), do: apply(Nx, function, arguments)

  # What Nx and its backends raise, as an error of ours.
  defp ask(name, question) do
    {:ok, question.()}
  rescue
    error in Tenon.Error -> {:error, error}
    error -> fail(:badarg, name, "Nx refuses it: #{Options.message(error)}")
  catch
    kind, value -> fail(:badarg, name, "Nx refuses it: its backend ended with #{kind} #{Options.show(value)}")
  end

  @doc false
  def available(name) do
    if Code.ensure_loaded?(Nx),
      do: :ok,
      else: fail({:library, :nx}, name, "Nx is not installed; add it to the dependencies")
  end

  defp vectorized?(tensor), do: Map.get(tensor, :vectorized_axes, []) != []

  # For Nx.LazyContainer.
  @doc false
  def template(tensor) do
    with {:ok, plain} <- again(tensor),
         {:ok, type} <- nx_type(plain.type),
         :ok <- not_empty(plain) do
      template = call(:template, [plain.shape, type])
      {:ok, name(template, tensor, tuple_size(plain.shape))}
    end
  end

  # For Tenon.Library: an argument of a call, whose error says what it was.
  @doc false
  def to_argument(tensor, name) do
    with :ok <- not_vectorized(tensor, name),
         {:ok, type, shape} <- described(tensor, name),
         {:ok, binary} <- ask(name, fn -> call(:to_binary, [tensor]) end) do
      {:ok, {binary, type, shape, Nx.Tensor}}
    end
  end

  # A function is called once, not once for each element of the vectorized axes.
  defp not_vectorized(tensor, name) do
    if vectorized?(tensor),
      do: fail(:badarg, name, "it is a vectorized tensor; pass Nx.devectorize(tensor), whose shape has all axes"),
      else: :ok
  end

  # And a result.
  @doc false
  def to_result(tensor, name) do
    with {:error, error} <- to_nx(tensor) do
      why = error |> Error.why() |> String.replace(~r/^argument 'tensor':? /, "")
      fail(error.reason, name, "its result cannot be an Nx tensor: #{why}; for a Tenon.Tensor, pass one as the first tensor")
    end
  end

  # The error of another function of Tenon's, as one of the function that was called. With an argument it is the one that
  # was wrong, whatever the other function calls it.
  defp rename({:error, error}, {function, argument}) do
    {:error, rename_argument(%{error | function: function, message: Error.why(error)}, function, argument)}
  end

  defp rename(result, _name), do: result

  defp rename_argument(error, function, nil), do: %{error | message: "#{function}(): #{error.message}"}

  defp rename_argument(error, function, argument) do
    why = String.replace(error.message, ~r/^argument '\w+'/, "")
    why = if why == error.message, do: ": " <> why, else: why
    message = "#{function}(): argument '#{argument}'#{why}"
    %{error | reason: rename_reason(error.reason, argument), argument: argument, message: message}
  end

  defp rename_reason({kind, _}, argument) when kind in [:badarg, :overflow], do: {kind, argument}
  defp rename_reason(reason, _argument), do: reason

  # The memory has all axes; Nx.shape/1 leaves the vectorized ones out.
  defp nx_tensor(%{__struct__: Nx.Tensor} = tensor) do
    if vectorized?(tensor), do: ask({:from_nx, :tensor}, fn -> call(:devectorize, [tensor]) end), else: {:ok, tensor}
  end

  defp nx_tensor(other) do
    fail(:badarg, {:from_nx, :tensor}, "expected an Nx tensor, got #{Options.show(other)}")
  end

  # Anyone may have changed its fields too.
  defp described(tensor, name) do
    with {:ok, {type, shape}} <- ask(name, fn -> {call(:type, [tensor]), call(:shape, [tensor])} end) do
      cond do
        not type?(type) or not shape?(shape) ->
          fail(:badarg, name, "it is not a whole Nx tensor: its type or its shape is not one of Nx's")

        elem(type, 1) < 8 ->
          {kind, bits} = type
          wider = "make them wider first: Nx.as_type(tensor, :#{kind}8)"
          fail({:unsupported_type, type}, name, "Nx packs elements of type #{kind}#{bits} into bytes; #{wider}")

        true ->
          {:ok, type, shape}
      end
    end
  end

  defp type?(type), do: match?({kind, bits} when is_atom(kind) and bits in 1..128, type)

  # As many elements as the bytes of the largest memory.
  defp shape?(shape) do
    is_tuple(shape) and tuple_size(shape) <= 64 and Enum.all?(Tuple.to_list(shape), &(&1 in @word)) and
      Tuple.product(shape) in @word
  end

  @types [s: 8, s: 16, s: 32, s: 64, u: 8, u: 16, u: 32, u: 64, f: 8, f: 16, f: 32, f: 64, bf: 16, c: 64, c: 128] ++
           [f8_e4m3fn: 8]

  defp nx_type({:bool, 8}), do: {:ok, {:u, 8}}
  defp nx_type(type) when type in @types, do: {:ok, type}
  defp nx_type(type), do: fail({:unsupported_type, type}, {:to_nx, :tensor}, "Nx has no type #{inspect(type)}")

  # The name is {function, argument}, or a function that finds them out.
  defp names(name) when is_function(name), do: name.()
  defp names(name), do: name

  defp fail(reason, name, why) do
    {function, argument} = names(name)
    reason = if reason == :badarg, do: {:badarg, argument}, else: reason
    why = if argument, do: "argument '#{argument}': #{why}", else: why
    {:error, %Tenon.Error{reason: reason, function: function, argument: argument, message: "#{function}(): #{why}"}}
  end
end
