defmodule Tenon.Test.Client do
  @moduledoc false
  # What users write, for Dialyzer: it must find nothing here. tools/check-dialyzer runs it.

  defmodule Kernels do
    @moduledoc false
    use Tenon.Library, path: "kernels.so", signatures: "kernels.txt"
  end

  @spec tensors() :: [Tenon.Tensor.t()]
  def tensors do
    {:ok, zeros} = Tenon.zeros({2, 3}, type: :f32)
    {:ok, list} = Tenon.from_list([[1, 2], [3, 4]])
    {:ok, binary} = Tenon.to_binary(list, copy: :allow)
    {:ok, tensor} = Tenon.from_binary(binary, {:s, 64}, shape: [2, 2])
    {:ok, [_ | _]} = Tenon.to_list(zeros)
    [_ | _] = Tenon.to_list!(zeros)
    true = Tenon.writable?(zeros)
    false = Tenon.copied?(zeros)
    [zeros, tensor, Tenon.slice!(Tenon.transpose!(list), [0, 0], [1, 1]), Tenon.reshape!(list, {4})]
  end

  @spec sum(Tenon.Tensor.t()) :: {:ok, number} | {:error, :busy | :gone | String.t()}
  def sum(tensor) do
    case Tenon.to_binary(tensor) do
      {:ok, binary} -> {:ok, byte_size(binary)}
      {:error, %Tenon.Error{reason: :busy}} -> {:error, :busy}
      {:error, %Tenon.Error{reason: {:not_local, _node}}} -> {:error, :gone}
      {:error, error} -> {:error, Exception.message(error)}
    end
  end

  @spec blob(Tenon.Tensor.t()) :: Tenon.Tensor.t()
  def blob(tensor) do
    %Tenon.Blob{ptr: ptr, shape: shape} = Tenon.Blob.to_blob(tensor)
    %Tenon.BlobView{tensor: shared} = Tenon.Blob.from_blob(%{ptr: ptr, shape: shape, dtype: :f32}, owner: tensor)
    %Tenon.Tensor{} = plain = Tenon.Blob.from_blob(Tenon.Blob.to_blob(shared))
    :ok = Tenon.release(shared)
    %{live: live} = Tenon.stats()
    if live > 0, do: plain, else: tensor
  end

  @spec share(Tenon.Tensor.t()) :: {:ok, Tenon.Tensor.t()} | {:error, :gone | :not_a_name | :system}
  def share(tensor) do
    {:ok, name} = Tenon.Shared.name(Tenon.Shared.share!(tensor))
    {:ok, zeros} = Tenon.Shared.zeros({2}, type: :u8)
    %Tenon.Tensor{} = Tenon.Shared.freeze!(zeros)

    case Tenon.Shared.attach(name, immutable: true) do
      {:ok, attached} -> {:ok, attached}
      {:error, %Tenon.Error{reason: {:system, :enoent}}} -> {:error, :gone}
      {:error, %Tenon.Error{reason: {:shared, :invalid}}} -> {:error, :not_a_name}
      {:error, _} -> {:error, :system}
    end
  end

  @spec call(Tenon.Tensor.t()) :: Tenon.Tensor.t() | struct()
  def call(x) do
    {:ok, _} = Kernels.saxpy(2, x, {<<0::32>>, :f32, {1}})
    :ok = Kernels.scale(x, 2.0)

    case Kernels.saxpy(2.0, x, x) do
      {:ok, z} -> z
      {:error, %Tenon.Error{reason: {:mismatch, _}}} -> Kernels.saxpy!(1, x, x)
    end
  end

  @spec count() :: {:ok | :closed, integer}
  def count do
    {:ok, %Kernels.Counter{} = counter} = Kernels.Counter.new(3)
    sum = Kernels.add!(counter, Kernels.Counter.new!())
    :ok = Kernels.Counter.close(counter)

    case Kernels.Counter.next(sum, 2) do
      {:ok, value} -> {:ok, value + Kernels.Counter.size!(sum)}
      {:error, %Tenon.Error{reason: :released}} -> {:closed, 0}
    end
  end

  @spec kinds(Tenon.Tensor.t()) :: {non_neg_integer(), binary(), [String.t()], float()}
  def kinds(x) do
    {:ok, _} = Kernels.kinds(1, {1.0, :nan})
    {uint, {_re, _im}, bytes, [_ | _], [_ | _], strs} = Kernels.kinds!(1, 2.0, <<1>>, d: ["a"], e: {:f, 32}, k: 4)
    {:ok, [_ | _]} = Kernels.norms([x, {<<0::64>>, :f32, {1, 2}}])
    {:ok, counter} = Kernels.Counter.make(Kernels.limit())
    true = Kernels.Counter.contains?(counter, Kernels.Counter.value!(counter))
    {uint, bytes, strs, Enum.sum(counter) + Kernels.Counter.most()}
  end
end
