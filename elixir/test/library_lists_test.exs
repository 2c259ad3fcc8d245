alias Tenon.Test.Kernels, as: Build

Build.build!("tensor_lists", Build.source("tensor_lists.c"))

defmodule Tenon.LibraryListsTest.Lists do
  use Tenon.Library, path: Build.path("tensor_lists")
end

defmodule Tenon.LibraryListsTest do
  use Tenon.Case
  alias Tenon.LibraryListsTest.Lists

  defp f32(list), do: Tenon.from_list!(list, type: {:f, 32})
  defp message({:error, %Tenon.Error{message: message}}), do: message
  defp nx(list), do: apply(Nx, :from_binary, [for(x <- list, into: <<>>, do: <<x::float-32-native>>), {:f, 32}])

  test "a list of tensors is a list, and a result for each item too" do
    assert {:ok, [a, b]} = Lists.norms([f32([[1, 2], [3, 4]]), f32([[3, 4]])])
    assert {a.type, a.shape, b.shape} == {{:f, 64}, {2}, {1}}
    assert {Tenon.to_list!(a), Tenon.to_list!(b)} == {[5.0, 25.0], [25.0]}
    assert Lists.norms([]) == {:ok, []}
  end

  test "items are tensors and binaries, without a copy" do
    binary = for x <- 1..100, into: <<>>, do: <<x::float-32-native>>
    tensor = Tenon.from_binary!(binary, {:f, 32})
    assert {:ok, {5050.0, 1, false}} = Lists.total([{binary, {:f, 32}, {100}}])
    assert {:ok, {10100.0, 2, false}} = Lists.total([{binary, :f32, [10, 10]}, tensor])
    assert Lists.same_memory([tensor], tensor) == {:ok, true}
    assert Lists.same_memory([{binary, :f32, {100}}], {binary, :f32, {100}}) == {:ok, true}
  end

  test "items that are written to" do
    {x, y} = {f32([1, 2]), f32([[3], [4]])}
    assert Lists.sgd([x, y], [f32([1, 1]), f32([2, 2])], 0.5) == :ok
    assert {Tenon.to_list!(x), Tenon.to_list!(y)} == {[0.5, 1.5], [[2.0], [3.0]]}
    # The same memory may be read twice, but not be written twice.
    assert Lists.sgd([x], [y], 0) == :ok
    z = f32([1])
    assert reason(Lists.sgd([x, y, x], [z, z, z], 1)) == :overlap
    assert message(Lists.sgd([x, y, x], [z, z, z], 1)) =~ "argument 'params[0]' shares memory with argument 'params[2]'"
    assert reason(Lists.sgd([x], [x], 1)) == :overlap
    assert message(Lists.sgd([x, {<<0::64>>, :f32, {2}}], [y, y], 1)) =~ "argument 'params[1]' is read-only"
    binary = Tenon.to_binary!(y)
    assert reason(Lists.sgd([x, y], [x, x], 1)) == :readonly
    assert byte_size(binary) == 8
    assert Lists.sgd([x], [], 1) |> reason() == {:failed, :einval}
    # Nothing is left in use.
    assert Lists.sgd([x], [y], 1) == :ok
  end

  test "parts of one tensor are one storage" do
    matrix = Tenon.zeros!({4, 100})
    rows = for i <- 0..3, do: Tenon.slice!(matrix, [i, 0], [1, 100])
    ones = Tenon.from_binary!(:binary.copy(<<1.0::float-32-native>>, 100), :f32)
    assert Lists.sgd(rows, [ones, ones, ones, ones], -1) == :ok
    assert Tenon.to_list!(matrix) == List.duplicate(List.duplicate(1.0, 100), 4)
  end

  test "tensors on devices are on one device, in lists too, and results cannot be made there" do
    [x, y, z] =
      for id <- [1, 1, 2], do: Tenon.Blob.from_blob(%{ptr: 4096, shape: {2}, dtype: :f32, device: {:cuda, id}})

    assert Lists.device_of(x, y) == {:ok, 1}
    assert Lists.device_of(nil, z, zs: [z, z]) == {:ok, 2}
    assert {:error, error} = Lists.device_of(x, z)
    assert {error.reason, error.argument} == {{:device_mismatch, {:cuda, 1}, {:cuda, 2}}, :y}
    assert {:error, error} = Lists.device_of(x, nil, zs: [y, z])
    assert {error.reason, error.argument} == {{:device_mismatch, {:cuda, 1}, {:cuda, 2}}, :zs}
    assert error.message =~ "device_of(): argument 'zs[1]'"
    assert {:error, error} = Lists.made_there(x)
    assert error.message =~ "this host makes results on the CPU only"
    assert reason(Tenon.Shared.share(x)) == {:device_mismatch, :cpu, {:cuda, 1}}
  end

  test "lists that the function makes" do
    assert {:ok, parts} = Lists.split(f32([1, 2, 3, 4, 5]), 2)
    assert Enum.map(parts, &Tenon.to_list!/1) == [[1.0, 2.0], [3.0, 4.0], [5.0]]
    assert Lists.split(f32([]), 2) == {:ok, []}
    assert {:ok, parts} = Lists.split(Tenon.zeros!({1000}), 1)
    assert length(parts) == 1000
    assert reason(Lists.split(f32([1, 2, 3]), 1, true)) == {:failed, :einval}
  end

  test "nil and options" do
    assert {:ok, {-1.0, 0, false}} = Lists.total(nil)
    assert {:ok, {0.0, 0, false}} = Lists.total([])
    assert {:ok, {3.0, 2, false}} = Lists.total([f32([1]), f32([2])], ys: [f32([1, 2])])
    assert message(Lists.total([], ys: [f32([1, 2]), f32([1])])) =~ "argument 'ys[1]': dimension 0 is 1, but n = 2"
  end

  test "errors name the item, and their atoms the argument" do
    x = f32([[1, 2]])
    released = f32([[1, 2]])
    Tenon.release(released)

    for {item, reason, text} <- [
          {f32([1, 2]), {:mismatch, :xs}, "argument 'xs[3]': expected f32[_, d], got f32[2] (Tenon.Tensor)"},
          {f32([[1]]), {:mismatch, :xs}, "argument 'xs[3]': dimension 1 is 1, but d = 2 from argument 'xs[0]'"},
          {7, {:badarg, :xs}, "argument 'xs[3]': expected f32[_, d] c, got an integer"},
          {[x], {:badarg, :xs}, "argument 'xs[3]': expected f32[_, d] c, got a list"},
          {nil, {:badarg, :xs}, "argument 'xs[3]': expected f32[_, d] c, got nil"},
          {%{}, {:badarg, :xs}, "argument 'xs[3]': expected f32[_, d] c, got a map"},
          {"text", {:badarg, :xs}, "argument 'xs[3]': expected f32[_, d] c, got a binary"},
          {released, :released, "argument 'xs[3]' was released"},
          {{<<0>>, :f32, {1, 2}}, {:size_mismatch, 8, 1}, "argument 'xs[3]': the shape takes 8 bytes"},
          {{<<0>>, :f33, {1, 2}}, {:unsupported_type, :f33}, "'xs[3]'"},
          {{<<0>>, :f32, :none}, {:badarg, :xs}, "'xs[3]'"},
          {%{x | ref: make_ref()}, :stale, "argument 'xs[3]' is not a live tensor"}
        ] do
      result = Lists.norms([x, x, x, item])
      assert reason(result) == reason
      assert message(result) =~ text
      assert {:error, %{function: :norms, argument: :xs}} = result
    end
  end

  test "what is not a list" do
    x = f32([[1, 2]])

    for {argument, text} <- [
          {x, "expected [f32[_, d] c], got Tenon.Tensor"},
          {%{}, "expected [f32[_, d] c], got a map"},
          {"xs", "expected [f32[_, d] c], got a binary"},
          {{x, x}, "expected [f32[_, d] c], got a tuple"},
          {nil, "expected [f32[_, d] c], got nil"},
          {[x | x], "expected [f32[_, d] c], got an improper list"},
          {1..2, "expected [f32[_, d] c], got Range"}
        ] do
      assert reason(Lists.norms(argument)) == {:badarg, :xs}
      assert message(Lists.norms(argument)) == "norms(): argument 'xs': " <> text
    end

    assert message(Lists.norms('text')) == "norms(): argument 'xs[0]': expected f32[_, d] c, got an integer"
    assert reason(Lists.total(a: 1)) == {:badarg, :xs}
  end

  test "an item that is in use" do
    {x, y} = {f32([1]), f32([2])}
    task = Task.async(fn -> Lists.write_until_stopped!([y], x) end)
    assert Build.until(fn -> match?({:error, _}, Lists.total([f32([1]), y])) end) == :ok
    assert message(Lists.total([f32([1]), y])) =~ "total(): argument 'xs[1]' is in use"
    assert reason(Lists.sgd([y], [f32([1])], 1)) == :busy
    # It is read there, so it can be read here.
    assert {:ok, {1.0, 1, _}} = Lists.total([x])
    assert Lists.stop() == :ok
    assert Task.await(task, :infinity) == :ok
    assert {:ok, {2.0, 1, _}} = Lists.total([y])
  end

  test "many items run on a dirty scheduler, and so do large ones" do
    x = f32([1])
    assert {:ok, {100_000.0, 100_000, true}} = Lists.total(List.duplicate(x, 100_000))
    assert {:ok, {100.0, 100, false}} = Lists.total(List.duplicate(x, 100))
    assert {:ok, {+0.0, 1, true}} = Lists.total([Tenon.zeros!({10_000})])
    many = for _ <- 1..2000, do: f32([1])
    assert {:ok, {2000.0, 2000, true}} = Lists.total(many)
    assert Lists.sgd(many, many, 1) |> reason() == :overlap
    assert Lists.sgd(many, List.duplicate(x, 2000), 1) == :ok
    assert {:ok, results} = Lists.norms(List.duplicate(f32([[1, 2]]), 2000))
    assert Enum.all?(results, &(Tenon.to_list!(&1) == [5.0]))
    assert message(Lists.total(many ++ [1])) =~ "argument 'xs[2000]': expected f32[*_] c, got an integer"
  end

  test "Nx tensors in lists" do
    x = apply(Nx, :reshape, [nx([3, 4]), {1, 2}])
    assert {:ok, [a, b]} = Lists.norms([x, f32([[1, 2]])])
    assert {a.__struct__, b.__struct__} == {Nx.Tensor, Nx.Tensor}
    assert apply(Nx, :to_binary, [a]) == <<25.0::float-64-native>>
    assert {:ok, [a, _]} = Lists.norms([f32([[1, 2]]), x])
    assert a.__struct__ == Tenon.Tensor
    assert {:ok, [part | _]} = Lists.split(nx([1, 2, 3]), 1)
    assert part.__struct__ == Nx.Tensor
    assert {:ok, {3.0, 1, false}} = Lists.total([nx([1, 2])], ys: [nx([1])])

    assert message(Lists.norms([f32([[1, 2]]), nx([1, 2])])) =~
             "argument 'xs[1]': expected f32[_, d], got f32[2] (Nx.Tensor)"

    vectorized = %{nx([1, 2]) | vectorized_axes: [v: 2], shape: {1}}
    assert {:error, error} = Lists.norms([x, vectorized])
    assert {error.reason, error.argument} == {{:badarg, :xs}, :xs}
    assert error.message =~ "norms(): argument 'xs[1]': it is a vectorized tensor"
    assert message(Lists.norms([x | x])) =~ "got an improper list"
  end

  test "heads, specs and signatures from a file" do
    {:ok, signature} = Tenon.Signature.parse("norms(xs: [f32[_, d] c]?, *, k: int) -> [f64[_]] for xs, [f32[?]]")
    assert [%{kind: :tensors, optional: true, default: {:ok, nil}}, %{kind: :int}] = signature.params
    assert [%{kind: :tensors}, %{kind: :tensors}] = signature.results
    assert {:error, _} = Tenon.Signature.parse("norms(xs: [f32[_, d] c)")
  end
end
