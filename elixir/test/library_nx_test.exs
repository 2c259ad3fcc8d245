alias Tenon.Test.Kernels, as: Build

Build.build!("kernels", Build.source("kernels.c"))

defmodule Tenon.LibraryNxTest.Kernels do
  use Tenon.Library, path: Build.path("kernels")
end

defmodule Tenon.LibraryNxTest do
  use ExUnit.Case, async: false

  alias Tenon.LibraryNxTest.Kernels

  defp nx(list) do
    binary = for x <- list, into: <<>>, do: <<x::float-32-native>>
    apply(Nx, :from_binary, [binary, {:f, 32}])
  end

  test "Nx in, Nx out" do
    x = nx([1, 2, 3])
    assert {:ok, y} = Kernels.add(x, x)
    assert y.__struct__ == Nx.Tensor
    assert {apply(Nx, :type, [y]), apply(Nx, :shape, [y])} == {{:f, 32}, {3}}
    assert apply(Nx, :to_binary, [y]) == apply(Nx, :to_binary, [nx([2, 4, 6])])
    assert {a, b} = Kernels.halves!(x)
    assert {apply(Nx, :shape, [a]), apply(Nx, :shape, [b])} == {{1}, {2}}
    matrix = apply(Nx, :reshape, [x, {3, 1}])
    assert apply(Nx, :shape, [Kernels.echo_tensor!(matrix)]) == {3, 1}
  end

  test "the first tensor argument says what comes out" do
    {x, y} = {nx([1, 2]), Tenon.from_list!([1, 2], type: {:f, 32})}
    assert Kernels.add!(x, y).__struct__ == Nx.Tensor
    assert Kernels.add!(y, x).__struct__ == Tenon.Tensor
    assert Kernels.given(nil, nil, nil, nil, nil, nil, nil, x) == {:ok, "nnnnnnny"}
  end

  test "types that Nx has under another name, or not at all" do
    assert {:ok, y} = Kernels.positive(nx([1, -2]))
    assert {apply(Nx, :type, [y]), apply(Nx, :to_binary, [y])} == {{:u, 8}, <<1, 0>>}
    assert {:error, %Tenon.Error{reason: {:unsupported_type, {:c, 32}}}} = Kernels.half_complex(nx([1]))
  end

  test "in a keyword list, and beside lists that are none" do
    assert Kernels.add_keywords!(x: nx([1]), y: nx([2])).__struct__ == Nx.Tensor
    assert Kernels.add_keywords!(x: Tenon.from_list!([1.0]), y: nx([2])).__struct__ == Tenon.Tensor

    for list <- [[{:a, 1} | 2], [{:a, 1}, 2], [a: 1]] do
      assert {:error, %Tenon.Error{}} = Kernels.given(nil, nil, nil, nil, nil, list, nil, nx([1]))
    end
  end

  test "vectorized tensors are refused" do
    x = %{nx([1, 2]) | vectorized_axes: [v: 2], shape: {1}}
    assert_named(Kernels.add(x, nx([1])), :add, :x, "it is a vectorized tensor; pass Nx.devectorize(tensor)")
    assert_named(Kernels.add(Tenon.from_list!([1.0]), x), :add, :y, "it is a vectorized tensor")
    assert_named(Kernels.add_keywords(x: nx([1]), y: x), :add_keywords, :y, "it is a vectorized tensor")
  end

  # As the errors of other arguments.
  defp assert_named({:error, %Tenon.Error{} = error}, function, argument, why) do
    assert {error.reason, error.function, error.argument} == {{:badarg, argument}, function, argument}
    assert error.message =~ "#{function}(): argument '#{argument}': #{why}"
  end

  test "messages name what was given as Nx does" do
    s64 = apply(Nx, :from_binary, [<<1::64, 2::64>>, {:s, 64}, [backend: Nx.BinaryBackend]])
    assert {:error, %Tenon.Error{message: message}} = Kernels.add(s64, s64)
    assert message =~ "expected f32[n], got s64[2] (Nx.Tensor)\n  dtype is s64, not f32"
    assert {:error, %Tenon.Error{message: message}} = Kernels.add(Tenon.from_list!([1, 2]), nx([1]))
    assert message =~ "expected f32[n], got s64[2] (Tenon.Tensor)"
  end

  test "a tensor that Nx refuses to show is an error" do
    template = %{nx([1]) | data: struct!(Nx.TemplateBackend)}
    refused = "Nx refuses it: cannot perform operations on a Nx.TemplateBackend tensor"
    assert_named(Kernels.add(template, nx([1])), :add, :x, refused)
    assert_named(Kernels.add_keywords(x: nx([1]), y: template), :add_keywords, :y, refused)
    none = %{nx([1]) | data: %Tenon.Test.NoBackend{}}
    assert_named(Kernels.add(nx([1]), none), :add, :y, "Nx refuses it: ")
    assert_named(Kernels.add(nx([1]), %{nx([1]) | shape: :x}), :add, :y, "it is not a valid Nx tensor")
    assert_named(Kernels.add(nx([1]), %{__struct__: Nx.Tensor}), :add, :y, "Nx refuses it: ")
    small = %{nx([1]) | type: {:u, 4}}
    assert {:error, %Tenon.Error{reason: {:unsupported_type, {:u, 4}}} = error} = Kernels.add(nx([1]), small)
    assert error.message =~ "add(): argument 'y': Nx packs elements of type u4 into bytes; make them wider first"
    assert {:error, %Tenon.Error{function: :half_complex, message: message}} = Kernels.half_complex(nx([1]))
    assert message =~ "half_complex(): its result cannot be an Nx tensor: Nx has no type {:c, 32}; for a Tenon.Tensor"
  end

  test "its binaries are not written" do
    assert {:error, %Tenon.Error{reason: :readonly}} = Kernels.scale(nx([1, 2]), 2)
    assert {:error, %Tenon.Error{reason: {:mismatch, :y}}} = Kernels.add(nx([1]), nx([1, 2]))
  end
end
