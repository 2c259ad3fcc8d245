defmodule Tenon.TermsTest do
  # Random terms into every function of the NIF, as if another module had called it: nothing may crash, and nothing may be lost.
  # TENON_TERMS is the number of calls, and TENON_SEED the seed.
  use Tenon.Case
  alias Tenon.Test.Kernels, as: Build

  defmodule Kernels do
    use Tenon.Library, path: Build.build!("kernels", Build.source("kernels.c"))
  end

  defmodule Lists do
    use Tenon.Library, path: Build.build!("tensor_lists", Build.source("tensor_lists.c"))
  end

  defmodule Members do
    use Tenon.Library, path: Build.build!("members", Build.source("members.c"))
  end

  defmodule Classes do
    use Tenon.Library, path: Build.build!("classes", Build.source("classes.c"))
  end

  # They wait for another thread, break a rule on purpose, or allocate as much as they are told.
  @left_out [:occupy, :rest, :add_slowly, :write_until_stopped, :hold_written, :hold_read, :hold_both, :let_go, :stop] ++
              [:past_the_end, :load_badly, :count_up, :fail_late, :is_dirty_for_result, :load, :__load__, :__struct__] ++
              [:wait]
  @atoms [
           nil,
           true,
           false,
           :f32,
           :s64,
           :c64,
           :bool,
           :none,
           :float,
           :cpu,
           :cuda,
           :infinity,
           :nan,
           :always,
           :never,
           :allow
         ] ++
           [:"", :größe, Tenon.Tensor, Kernels, Members, :no_such_atom, :opaque]
  @integers [0, 1, -1, 2, 3, 4, 63, 64, 65, 255, 256, 4096, 2 ** 60, 2 ** 63 - 1, 2 ** 63, 2 ** 64] ++
              [-(2 ** 63), -(2 ** 63) - 1, 2 ** 200]

  test "random terms" do
    seed = String.to_integer(System.get_env("TENON_SEED", "38"))
    calls = String.to_integer(System.get_env("TENON_TERMS", "20000"))
    before = settled()

    in_process(fn ->
      :rand.seed(:exsss, seed)
      Enum.reduce(1..calls, [], &step(&1, &2, seed))
    end)

    assert eventually(fn -> back_to?(before) end), "seed #{seed}: #{inspect(Tenon.stats())}"
  end

  defp step(number, held, seed) do
    {function, arguments} = call = if :rand.uniform(2) == 1, do: nif_call(held), else: library_call(held)

    result =
      try do
        function.(arguments)
      rescue
        # A wrong number of arguments, or a term that Tenon's own Elixir code never passes.
        error in [ArgumentError, FunctionClauseError, Tenon.Error, Protocol.UndefinedError] -> {:raised, error}
      end

    unless expected?(result), do: flunk("seed #{seed}, call #{number}: #{inspect(call)} gave #{inspect(result)}")
    if keep?(result), do: Enum.take([result | held], 30), else: held
  end

  # A broadcast tensor may have more elements than fit in a list, and errors contain the terms that they are about.
  defp keep?({:ok, %Tenon.Tensor{shape: shape}}), do: Tuple.product(shape) < 100_000
  defp keep?(result), do: :erts_debug.flat_size(result) < 200

  defp expected?({:error, %Tenon.Error{message: message, reason: reason}}) do
    String.valid?(message) and message != "" and reason != nil
  end

  defp expected?(_), do: true

  defp nif_call(held) do
    {name, arity} = pick(for {name, _} = each <- Tenon.Nif.__info__(:functions), name not in [:load], do: each)
    arguments = for _ <- 1..arity//1, do: term(held, 3)
    {&apply(Tenon.Nif, name, &1), safe(name, arguments)}
  end

  # An address is trusted, so it is that of a tensor, with its size and with the tensor among the owners.
  defp safe(:from_blob, [_, _, owner, known]) do
    tensor = Tenon.zeros!({4}, type: :u8)
    {:ok, {ptr, shape, strides, dtype, device, _}} = Tenon.Nif.to_blob(tensor)
    shape = pick([shape, {2}, {5}, [4], {2, 2}, :x])
    strides = pick([nil, strides, [1], [0], [-1], [2 ** 62]])
    dtype = pick([dtype, :int, :x, 1])
    fields = {ptr, shape, strides, dtype, pick([device, :cuda, :x]), 4, pick([true, false, 1]), pick([nil, 1, 3])}
    [fields, true, [tensor | owner], known]
  end

  defp safe(_name, arguments), do: arguments

  defp library_call(held) do
    module = pick([Kernels, Lists, Members, Classes, Members.Bag, Classes.Store, Classes.Counter])
    {name, arity} = pick(for {name, _} = each <- module.__info__(:functions), plain(name) not in @left_out, do: each)
    {&apply(module, name, &1), for(_ <- 1..arity//1, do: term(held, 2))}
  end

  # dot!/2 is dot/2.
  defp plain(name), do: name |> Atom.to_string() |> String.trim_trailing("!") |> String.to_existing_atom()

  defp pick(list), do: Enum.random(list)

  defp term(held, depth) do
    case :rand.uniform(if depth == 0, do: 9, else: 15) do
      1 -> pick(@atoms)
      2 -> pick(@integers)
      3 -> :rand.uniform(6)
      4 -> pick([0.0, -1.5, 1.0e308, 5.0e-324])
      5 -> pick(["", "text", <<0>>, <<255, 254>>, <<1::3>>, :binary.copy("ab", 40), :binary.copy(<<0>>, 40_000)])
      6 -> pick([self(), make_ref(), &term/2, %{}])
      7 -> tensor()
      8 -> pick([{{:f, 32}, :x}, {:f, 32}, {:s, 64}, {:u, 8}, {:c, 64}, {:bf, 16}, {:f, 7}])
      9 -> pick([nil | held])
      10 -> changed(tensor(), held, depth)
      11 -> for _ <- 1..count(depth, 70)//1, do: term(held, depth - 1)
      12 -> List.to_tuple(for _ <- 1..count(depth, 65)//1, do: term(held, depth - 1))
      13 -> %{term(held, 0) => term(held, depth - 1)}
      14 -> [term(held, depth - 1) | term(held, 0)]
      15 -> sizes()
    end
  end

  # Lists and tuples as shapes, axes and places have them.
  defp sizes do
    sizes = for _ <- 1..pick([0, 1, 2, 3, 4, 64, 65, 70])//1, do: pick([0, 1, 1, 2, 3, -1, 2 ** 60])
    pick([sizes, List.to_tuple(sizes)])
  end

  defp count(depth, most), do: pick([0, 1, 2, 3, if(depth == 1, do: most, else: 4)])

  defp tensor do
    tensor =
      Tenon.zeros!(pick([{}, {0}, {3}, {2, 3}, {1, 2, 3, 4}, {3000}]), type: pick([:f32, :f64, :u8, :s64, :bool]))

    if :rand.uniform(10) == 1, do: Tenon.release(tensor)
    tensor
  end

  # Only the reference inside counts.
  defp changed(tensor, held, depth) do
    Map.put(tensor, pick([:ref, :shape, :type, :strides, :byte_size, :no_such_key]), term(held, depth - 1))
  end
end
