alias Tenon.Test.Kernels, as: Build

Build.build!("kernels", Build.source("kernels.c"))

defmodule Tenon.IdiomTest.Kernels do
  use Tenon.Library, path: Build.path("kernels")
end

defmodule Tenon.IdiomTest do
  use Tenon.Case
  alias Tenon.IdiomTest.Kernels

  # What users of Elixir expect of a library: documentation, specs, stack traces, inspect.

  defp docs(module) do
    {:docs_v1, _, :elixir, _, _, _, entries} = Code.fetch_docs(module)
    for {{:function, name, arity}, _, [head], doc, meta} <- entries, do: {name, arity, head, doc, meta[:defaults] || 0}
  end

  test "everything that is exported is documented and has a spec; default arities are defaults" do
    for module <- [Tenon, Tenon.Blob, Tenon.Nx] do
      documented = for {name, arity, _, %{"en" => _}, defaults} <- docs(module), do: {name, arity, defaults}
      {:ok, specs} = Code.Typespec.fetch_specs(module)

      hidden = if module == Tenon.Nx, do: [available: 1, template: 1, to_argument: 2, to_result: 2], else: []

      for {name, arity} <- module.__info__(:functions) -- [{:__struct__, 0}, {:__struct__, 1} | hidden] do
        assert Enum.any?(documented, fn {n, most, defaults} -> n == name and arity in (most - defaults)..most end),
               "#{inspect(module)}.#{name}/#{arity}"
      end

      for {name, arity, _} <- documented, do: assert(List.keymember?(specs, {name, arity}, 0), "no spec of #{name}")
    end
  end

  test "functions with a ! have the names and defaults of those without" do
    all = docs(Tenon)

    for {name, arity, head, _, defaults} <- all, String.ends_with?(to_string(name), "!") do
      plain = name |> to_string() |> String.trim_trailing("!")

      {_, _, plain_head, _, ^defaults} =
        Enum.find(all, &(elem(&1, 0) == String.to_atom(plain) and elem(&1, 1) == arity))

      assert String.replace_prefix(head, "#{name}(", "#{plain}(") == plain_head
    end

    assert {_, 2, "zeros!(shape, options \\\\ [])", _, 1} = List.keyfind(all, :zeros!, 0)
  end

  defp frame(function) do
    function.()
    flunk("it did not raise")
  rescue
    error in [Tenon.Error, ArgumentError] ->
      assert byte_size(Exception.message(error)) > 0
      Enum.find_value(__STACKTRACE__, fn {module, name, arity, _} -> ours?(module) && {name, arity} end)
  end

  defp ours?(module), do: module != __MODULE__ and String.starts_with?(to_string(module), "Elixir.Tenon")

  test "a stack trace begins with the function that was called" do
    for {name, arguments} <- [
          from_binary!: [1, :u8, []],
          to_binary!: [1, []],
          zeros!: [:x, []],
          from_list!: [:x, []],
          to_list!: [1],
          slice!: [1, 1, 1, []],
          transpose!: [1, []],
          reshape!: [1, 1],
          broadcast!: [1, 1],
          squeeze!: [1, []],
          new_axis!: [1, 1],
          from_resource!: [1, 1, []],
          writable?: [1],
          copied?: [1]
        ] do
      assert frame(fn -> apply(Tenon, name, arguments) end) == {name, length(arguments)}
    end

    assert frame(fn -> Tenon.zeros!(:x) end) == {:zeros!, 2}
    assert frame(fn -> Tenon.Nx.to_nx!(1) end) == {:to_nx!, 2}
    assert frame(fn -> Kernels.add!(1, 2) end) == {:add!, 2}
    assert frame(fn -> Kernels.scale!(1, 2) end) == {:scale!, 2}
  end

  test "and so does that of an ArgumentError" do
    tensor = Tenon.zeros!({1})

    for bad <- [[nope: 1], [nope: 1, nope: 2], :nope, [{:nope, 1} | 2], List.duplicate({:type, 1}, 65)],
        {name, arguments} <- [
          from_binary: [<<1>>, :u8, bad],
          to_binary: [tensor, bad],
          zeros: [{1}, bad],
          from_list: [[1], bad],
          slice: [tensor, [0], [1], bad],
          transpose: [tensor, bad],
          squeeze: [tensor, bad],
          from_resource: [1, {X, :x}, bad]
        ],
        suffix <- ["", "!"] do
      name = String.to_atom("#{name}#{suffix}")
      assert frame(fn -> apply(Tenon, name, arguments) end) == {name, length(arguments)}
    end

    assert frame(fn -> Tenon.zeros!({1}, nope: 1) end) == {:zeros!, 2}

    for name <- [:to_nx, :to_nx!, :from_nx, :from_nx!] do
      assert frame(fn -> apply(Tenon.Nx, name, [tensor, [nope: 1]]) end) == {name, 2}
    end

    assert frame(fn -> Tenon.Blob.from_blob(%{}, nope: 1) end) == {:from_blob, 2}
    assert frame(fn -> Tenon.Blob.from_blob(1) end) == {:from_blob, 2}
    assert frame(fn -> Tenon.Blob.from_blob(%{ptr: 1}) end) == {:from_blob, 2}

    for name <- [:add_keywords, :add_keywords!], bad <- [[], [nope: 1], :nope, [x: tensor]] do
      assert frame(fn -> apply(Kernels, name, [bad]) end) == {name, 1}
    end
  end

  describe "inspect" do
    test "breaks rows where the width ends" do
      text = inspect(Tenon.from_list!([Enum.to_list(1..30), Enum.to_list(1..30)]), pretty: true, width: 40)
      lines = String.split(text, "\n")
      assert Enum.all?(lines, &(String.length(&1) <= 40))
      assert Enum.take(lines, 5) |> Enum.at(3) == "    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11,"
      assert length(lines) > 8
      wide = inspect(Tenon.from_list!([Enum.to_list(1..30)]), width: :infinity)
      assert wide =~ "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, "
    end

    test "has colours" do
      colors = [number: :red, atom: :blue]
      text = inspect(Tenon.from_list!([1.5, :nan]), syntax_colors: colors)
      assert text =~ IO.ANSI.red() <> "1.5"
      assert text =~ IO.ANSI.blue() <> ":nan"
      assert text =~ IO.ANSI.blue() <> "f32"
    end
  end

  test "reshape takes :auto" do
    tensor = Tenon.from_list!(Enum.to_list(1..6))
    assert Tenon.reshape!(tensor, {:auto, 2}).shape == {3, 2}
    assert Tenon.reshape!(tensor, [2, :auto]).shape == {2, 3}
    assert Tenon.reshape!(tensor, {:auto}).shape == {6}
    assert reason(Tenon.reshape(tensor, {:auto, :auto})) == {:badarg, :shape}
    assert reason(Tenon.reshape(tensor, {:auto, 4})) == {:badarg, :shape}
    assert reason(Tenon.reshape(tensor, {:auto, -2})) == {:badarg, :shape}
    assert_raise Tenon.Error, ~r/at most one dimension that is :auto/, fn -> Tenon.reshape!(tensor, {:auto, -1}) end

    for other <- [0, 4] do
      assert_raise Tenon.Error, ~r/the tensor's 6 elements, so :auto/, fn ->
        Tenon.reshape!(tensor, {:auto, other})
      end
    end

    assert reason(Tenon.reshape(tensor, {:automatic, 2})) == {:badarg, :shape}
    assert reason(Tenon.reshape(tensor, [:auto | 2])) == {:badarg, :shape}
    assert reason(Tenon.reshape(tensor, List.duplicate(:auto, 65))) == {:badarg, :shape}
    assert reason(Tenon.reshape(tensor, List.to_tuple(List.duplicate(:auto, 65)))) == {:badarg, :shape}
  end

  test "Nx takes tensors" do
    container = Nx.LazyContainer.Tenon.Tensor
    tensor = %{Tenon.from_list!([[true, false]]) | names: [:x, nil]}
    {template, there} = container.traverse(tensor, 0, fn template, make, 0 -> {template, make.()} end)
    assert {template.type, template.shape, template.names} == {{:u, 8}, {1, 2}, [:x, nil]}
    assert {there.type, there.shape, there.names} == {{:u, 8}, {1, 2}, [:x, nil]}
    transposed = Tenon.transpose!(Tenon.from_list!([[1, 2], [3, 4]]))
    {_, there} = container.traverse(transposed, 0, fn template, make, 0 -> {template, make.()} end)
    assert Tenon.to_list!(Tenon.Nx.from_nx!(there)) == [[1, 3], [2, 4]]
    assert_raise Tenon.Error, fn -> container.traverse(Tenon.zeros!({0}), 0, fn _, _, _ -> nil end) end

    if System.get_env("NX_PATH") do
      assert apply(Nx, :to_list, [apply(Nx, :add, [Tenon.from_list!([1, 2]), 1])]) == [2, 3]
      # As documented in Tenon.Nx.
      x = Tenon.from_list!([1, 2])
      assert apply(Nx, :shape, [apply(Nx, :concatenate, [[x, x]])]) == {4}
      assert apply(Nx, :shape, [apply(Nx, :to_tensor, [x])]) == {2}
      for name <- [:backend_copy, :backend_transfer, :serialize], do: assert(catch_error(apply(Nx, name, [x])))
      for {name, arguments} <- [shape: [x], broadcast: [1, x]], do: assert(catch_error(apply(Nx, name, arguments)))
    end
  end
end
