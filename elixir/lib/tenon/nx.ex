defmodule Tenon.Nx do
  @moduledoc """
  Converts tensors to Nx and back. Tenon does not depend on Nx: it calls only public functions of Nx, and only if Nx is
  installed. Nx needs Elixir 1.17 or newer.

  A reference to an Nx tensor does not protect its memory from `Nx.backend_deallocate/1`, nor from a backend that donates
  its buffers. Do not use these with a tensor whose memory `from_nx/2` shares.

  Nx or a backend may refuse a tensor: a template, a deallocated tensor, an expression of `defn`, or one of a backend
  without pointers. The result is then `{:error, %Tenon.Error{reason: {:badarg, argument}}}`, with the backend's message.

  Functions of Nx that compute with tensors (`Nx.add/2`, `Nx.concatenate/2`, `Nx.to_tensor/1`) and `defn` accept Tenon's
  tensors too. They use `Nx.LazyContainer`, which converts them with `to_nx(tensor, copy: :allow)`. Functions that take an
  `Nx.Container` (`Nx.backend_copy/1`, `Nx.backend_transfer/1`, `Nx.serialize/2`) or a shape (`Nx.shape/1`,
  `Nx.broadcast/2` as the shape) do not; pass `to_nx!(tensor)` to these.
  """

  import Tenon.Error, only: [value!: 1]
  alias Tenon.{Blob, Error, Options, Tensor}

  # The range of an address and of a size.
  @word 0..0xFFFFFFFFFFFFFFFF

  @doc """
  Converts a tensor to Nx, with the names of the axes that `from_nx/2` found.

  By default, whatever the default backend of Nx is, the result uses `Nx.BinaryBackend` and shares the memory, which is
  frozen from then on. `Tenon.to_binary/2` describes when that is not possible; `:copy` has the same meaning there. With
  another `backend:`, as in `Nx.from_binary/3`, that backend copies the elements, and nothing is frozen.

  `{:bool, 8}` becomes `{:u, 8}` in Nx. Nx has no empty tensors.
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

  # Another backend copies the elements in any case, so the memory need not be frozen.
  defp copy(copy, Nx.BinaryBackend), do: {:ok, copy || :never}
  defp copy(nil, _backend), do: {:ok, :always}

  defp copy(:never, _backend) do
    fail(:would_copy, {:to_nx, :backend}, "this backend copies the elements; remove copy: :never")
  end

  defp copy(copy, _backend), do: {:ok, if(copy == :allow, do: :always, else: copy)}

  # The caller may have changed the struct.
  defp name(there, tensor, rank) do
    names = Map.get(tensor, :names)
    if names?(names, rank) and rank > 0, do: call(:rename, [there, names]), else: there
  end

  defp names?(names, rank) do
    is_list(names) and not List.improper?(names) and length(names) == rank and Enum.all?(names, &is_atom/1)
  end

  defp not_empty(%{byte_size: 0}), do: fail(:badarg, {:to_nx, :tensor}, "Nx has no empty tensors")
  defp not_empty(_tensor), do: :ok

  @doc """
  Converts an Nx tensor. The names of its axes are kept in `names`.

  Without options the result uses the tensor's binary. With Nx's own backend this is the memory itself, which is kept alive
  and frozen; other backends copy.

  With `device:` (such as `:cpu` or `{:cuda, 0}`) the memory of another backend is shared through
  `Nx.to_pointer(tensor, mode: :local)`, with the tensor as its owner. Nx does not say which device a pointer belongs to,
  so the caller must; with the wrong device the address means nothing. Nx does not say how the elements are stored either.
  If the size of the memory is not exactly what the shape and the type need (Torchx keeps u16 and u32 in wider integers),
  the error is `{:size_mismatch, expected, got}`.

  A vectorized tensor is converted with `Nx.devectorize/1`, so its vectorized axes come first. Types smaller than a byte
  (u2, u4, s2, s4) are refused; widen them with `Nx.as_type/2`.
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

  @copied "; without the option :device its elements are copied"

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
    fail(:badarg, {:from_nx, :tensor}, "its backend returned a pointer without a local address and a size")
  end

  defp wrong_size(got, expected) do
    fail(
      {:size_mismatch, expected, got},
      {:from_nx, :tensor},
      "the shape and type need #{expected} bytes, but the backend's memory has #{got}: it stores the elements in its " <>
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

  # The owner is the tensor, and only its backend knows its contents.
  defp not_shared(%{argument: :owner, reason: reason}) when reason != :released do
    why = "its struct is too large to be searched for what keeps the memory alive"
    fail(rename_reason(reason, :tensor), {:from_nx, :tensor}, why <> @copied)
  end

  defp not_shared(error) do
    {:error, error} = rename({:error, error}, {:from_nx, :tensor})
    {:error, %{error | message: error.message <> @copied}}
  end

  @doc """
  Returns an `Nx.Pointer` to a tensor in C order, and its owner, which must be kept alive as long as the pointer is used.
  """
  @spec to_pointer(Tensor.t()) :: Tenon.result({struct, Tensor.t()})
  def to_pointer(tensor) do
    with :ok <- available({:to_pointer, nil}),
         # This never copies; it fails if it would have to.
         {:ok, flat} <- rename(Tenon.reshape(tensor, {-1}), {:to_pointer, nil}) do
      address = Blob.to_blob(flat).ptr
      {:ok, {struct!(Nx.Pointer, kind: :local, address: address, data_size: flat.byte_size), tensor}}
    end
  end

  @doc "Like `to_nx/2`, but returns the value or raises `Tenon.Error`."
  @spec to_nx!(Tensor.t(), keyword) :: struct
  def to_nx!(tensor, options \\ []), do: value!(to_nx(tensor, options))

  @doc "Like `from_nx/2`, but returns the value or raises `Tenon.Error`."
  @spec from_nx!(struct, keyword) :: Tensor.t()
  def from_nx!(tensor, options \\ []), do: value!(from_nx(tensor, options))

  @doc "Like `to_pointer/1`, but returns the value or raises `Tenon.Error`."
  @spec to_pointer!(Tensor.t()) :: {struct, Tensor.t()}
  def to_pointer!(tensor), do: value!(to_pointer(tensor))

  # The caller may have changed the fields of the struct; those of a new view are right.
  defp again(tensor), do: rename(Tenon.squeeze(tensor, axes: []), {:to_nx, nil})

  # With apply, so that the compiler does not look for a module that may not be installed.
  defp call(function, arguments), do: apply(Nx, function, arguments)

  # Turns what Nx and its backends raise into our error.
  defp ask(name, question) do
    {:ok, question.()}
  rescue
    error in Tenon.Error -> {:error, error}
    error -> fail(:badarg, name, "Nx refuses it: #{Options.message(error)}")
  catch
    kind, value -> fail(:badarg, name, "Nx refuses it: its backend stopped with #{kind} #{Options.show(value)}")
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

  # For Tenon.Library: converts an argument of a call. `name` finds the name for an error.
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
      do: fail(:badarg, name, "it is a vectorized tensor; pass Nx.devectorize(tensor)"),
      else: :ok
  end

  # For Tenon.Library: converts a result of a call.
  @doc false
  def to_result(tensor, name) do
    with {:error, error} <- to_nx(tensor) do
      why = error |> Error.why() |> String.replace(~r/^argument 'tensor':? /, "")

      fail(
        error.reason,
        name,
        "its result cannot be an Nx tensor: #{why}; for a Tenon.Tensor, pass one as the first tensor"
      )
    end
  end

  # Turns the error of another function of Tenon into an error of the function that was called. If `argument` is given, it
  # replaces the name that the other function has for the wrong argument.
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

  # The memory has all axes, but Nx.shape/1 leaves out the vectorized ones.
  defp nx_tensor(%{__struct__: Nx.Tensor} = tensor) do
    if vectorized?(tensor), do: ask({:from_nx, :tensor}, fn -> call(:devectorize, [tensor]) end), else: {:ok, tensor}
  end

  defp nx_tensor(other) do
    fail(:badarg, {:from_nx, :tensor}, "expected an Nx tensor, got #{Options.show(other)}")
  end

  # The caller may have changed the fields of the Nx tensor, too.
  defp described(tensor, name) do
    with {:ok, {type, shape}} <- ask(name, fn -> {call(:type, [tensor]), call(:shape, [tensor])} end) do
      cond do
        not type?(type) or not shape?(shape) ->
          fail(:badarg, name, "it is not a valid Nx tensor: its type or its shape is wrong")

        elem(type, 1) < 8 ->
          {kind, bits} = type
          wider = "pass Nx.as_type(tensor, :#{kind}8)"
          fail({:unsupported_type, type}, name, "Nx packs elements of type #{kind}#{bits} into bytes; #{wider}")

        true ->
          {:ok, type, shape}
      end
    end
  end

  defp type?(type), do: match?({kind, bits} when is_atom(kind) and bits in 1..128, type)

  # No more elements than the largest memory has bytes.
  defp shape?(shape) do
    is_tuple(shape) and tuple_size(shape) <= 64 and Enum.all?(Tuple.to_list(shape), &(&1 in @word)) and
      Tuple.product(shape) in @word
  end

  @types [s: 8, s: 16, s: 32, s: 64, u: 8, u: 16, u: 32, u: 64, f: 8, f: 16, f: 32, f: 64, bf: 16, c: 64, c: 128] ++
           [f8_e4m3fn: 8]

  defp nx_type({:bool, 8}), do: {:ok, {:u, 8}}
  defp nx_type(type) when type in @types, do: {:ok, type}
  defp nx_type(type), do: fail({:unsupported_type, type}, {:to_nx, :tensor}, "Nx has no type #{inspect(type)}")

  # `name` is {function, argument}, or a function that returns them.
  defp names(name) when is_function(name), do: name.()
  defp names(name), do: name

  defp fail(reason, name, why) do
    {function, argument} = names(name)
    {shown, argument} = with {list, item} <- argument, do: {"#{list}[#{item}]", list}, else: (name -> {name, name})
    reason = if reason == :badarg, do: {:badarg, argument}, else: reason
    why = if argument, do: "argument '#{shown}': #{why}", else: why
    {:error, %Tenon.Error{reason: reason, function: function, argument: argument, message: "#{function}(): #{why}"}}
  end
end
