# Everything that a user can call, again and again, while the n-th allocation of the NIF fails, for every n.
#
#   tools/check-elixir faults
#
# A call must end as usual or with an error that says there is no memory, and lose nothing.

alias Tenon.Test.Kernels, as: Build

for name <- ["kernels", "kinds", "members", "tensor_lists", "classes"],
    do: Build.build!(name, Build.source(name <> ".c"))

Code.require_file("../support/nx_stand_in.exs", __DIR__)

defmodule Tenon.Faults do
  @on_load :load
  def load, do: :erlang.load_nif(String.to_charlist(System.fetch_env!("TENON_FAULTS_CONTROL")), 0)
  def find(_path), do: :erlang.nif_error(:not_loaded)
  def arm(_n), do: :erlang.nif_error(:not_loaded)
  def disarm, do: :erlang.nif_error(:not_loaded)
  def held, do: :erlang.nif_error(:not_loaded)
end

for name <- ["kernels", "kinds", "members", "tensor_lists", "classes"] do
  defmodule Module.concat(Tenon.Faults, Macro.camelize(name)) do
    use Tenon.Library, path: Build.path(name)
  end
end

defmodule Tenon.Faults.Sweep do
  alias Tenon.Faults
  alias Tenon.Faults.{Classes, Kernels, Kinds, TensorLists}
  alias Tenon.Faults.Classes.{Counter, Store}
  alias Tenon.Faults.Members.Bag
  alias Tenon.Test.Kernels, as: Build
  import Tenon.Case, only: [eventually: 1, back_to?: 1, settled: 0]

  def run do
    :ok = Faults.find(String.to_charlist(Application.app_dir(:tenon, "priv/tenon_nif.so")))
    failures = for {name, operation} <- operations(), do: sweep(name, operation)
    if Process.get(:failed), do: System.halt(1)
    if Enum.sum(failures) < 300, do: raise("only #{Enum.sum(failures)} failures: is the NIF linked with wrap.c?")
    IO.puts("#{length(failures)} operations, #{Enum.sum(failures)} failures: nothing was lost")
  end

  # Once as usual first: what is made only once is made then.
  defp sweep(name, operation) do
    {:done, _} = attempt(operation, 0)
    {:done, _} = attempt(operation, 0)
    sweep(name, operation, 1, 0)
  end

  defp sweep(name, operation, n, failures) do
    before = {settled(), Faults.held()}
    {result, calls} = attempt(operation, n)
    unless result == :done or says_memory?(result), do: fail(name, n, "it ended with #{inspect(result)}")
    unless name == :libraries or eventually(fn -> nothing_more?(before) end), do: fail(name, n, lost(before))
    failures = failures + if(result == :done, do: 0, else: 1)
    if calls < n, do: failures, else: sweep(name, operation, n + 1, failures)
  end

  defp nothing_more?({stats, held}), do: back_to?(stats) and Faults.held() <= held

  defp lost({stats, held}),
    do: "not released: #{inspect(Tenon.stats())} and #{Faults.held()} blocks, before #{inspect(stats)} and #{held}"

  defp fail(name, n, why) do
    IO.puts("failed: #{name}, allocation #{n}: #{why}")
    Process.put(:failed, true)
  end

  # In a process whose terms end with it.
  defp attempt(operation, n) do
    caller = self()

    {_, monitor} =
      spawn_monitor(fn ->
        Faults.arm(n)

        result =
          try do
            operation.()
            :done
          rescue
            error -> error
          end

        send(caller, {:result, result, Faults.disarm()})
      end)

    receive do: ({:DOWN, ^monitor, :process, _, reason} -> reason == :normal || fail(:process, n, inspect(reason)))
    receive do: ({:result, result, calls} -> {result, calls})
  end

  defp says_memory?(%MatchError{term: {:error, error}}), do: says_memory?(error)
  defp says_memory?(%Tenon.Error{reason: {:failed, :no_memory}}), do: true
  defp says_memory?(%Tenon.Error{reason: {:library, _}, message: message}), do: message =~ "memory"
  defp says_memory?(_), do: false

  defp f32(list), do: Tenon.from_list!(list, type: {:f, 32})
  defp some(size), do: Tenon.zeros!({size}, type: {:f, 32})

  defp operations do
    tensors() ++ exchange() ++ calls() ++ classes() ++ libraries()
  end

  defp tensors do
    [
      zeros: fn -> for size <- [0, 3, 100_000], do: Tenon.zeros!({size}, type: {:f, 64}) end,
      lists: fn -> [[1.0, 2.0], [3.0, 4.0]] = [[1, 2], [3, 4]] |> f32() |> Tenon.to_list!() end,
      long_lists: fn -> 20_000 = Enum.to_list(1..20_000) |> f32() |> Tenon.to_list!() |> length() end,
      binaries: fn ->
        for size <- [8, 400, 400_000] do
          binary = :binary.copy(<<1, 2, 3, 4>>, div(size, 4))
          ^binary = binary |> Tenon.from_binary!({:f, 32}) |> Tenon.to_binary!()
          ^binary = binary |> Tenon.from_binary!({:u, 8}, copy: :always) |> Tenon.to_binary!(copy: :always)
        end
      end,
      views: fn ->
        x = Tenon.zeros!({4, 6, 1}, type: {:s, 16})
        y = x |> Tenon.slice!([0, 1, 0], [2, 2, 1], strides: [2, 2, 1]) |> Tenon.transpose!() |> Tenon.squeeze!()
        _ = y |> Tenon.new_axis!(0) |> Tenon.broadcast!({3, 2, 2}) |> Tenon.to_binary!(copy: :always)
        _ = x |> Tenon.reshape!({24}) |> Tenon.release()
        _ = Tenon.to_list!(x)
      end
    ]
  end

  defp exchange do
    [
      blobs: fn ->
        for size <- [4, 40_000] do
          x = some(size)
          view = x |> Tenon.Blob.to_blob() |> Tenon.Blob.from_blob()
          _ = Tenon.to_list!(view)
        end
      end,
      owners: fn ->
        x = some(4)
        blob = %{Tenon.Blob.to_blob(x) | owner: {x, [self(), %{x: x}]}}
        _ = blob |> Tenon.Blob.from_blob() |> Tenon.to_list!()
      end,
      resources: fn ->
        source = Tenon.OtherNif.source(10)
        _ = source |> Tenon.from_resource!(Tenon.OtherNif.type()) |> Tenon.to_list!()
      end,
      shared: fn ->
        x = Tenon.Shared.zeros!({3}, type: {:f, 32})
        y = Tenon.Shared.attach!(Tenon.Shared.name!(x))
        [[0.0, 0.0, 0.0], _] = for each <- [y, x], do: Tenon.to_list!(each)
        z = [1, 2] |> f32() |> Tenon.Shared.share!() |> Tenon.Shared.freeze!()
        other = z |> Tenon.Shared.name!() |> Tenon.Shared.attach!()
        [[1.0, 2.0], _] = for each <- [other, z], do: Tenon.to_list!(each)
      end
    ]
  end

  defp calls do
    [
      numbers: fn ->
        1 = Kernels.echo_int!(1)
        2.0 = Kernels.echo_float!(2)
        {:error, %{reason: {:badarg, :x}}} = checked(Kernels.echo_int(:x))
        {1.0, -2.0} = Kinds.echo_complex!({1, -2})
        7 = Kinds.echo_uint!(7)
      end,
      texts: fn ->
        long = String.duplicate("text ", 20_000)
        ^long = Kernels.echo_str!(long)
        ["a", ^long] = Kinds.echo_strs!(["a", long])
        ^long = Kinds.echo_bytes!(long)
        {[1, 2], [3.0]} = Kinds.echo_lists!([1, 2], [3])
      end,
      long_lists: fn -> 5000 = Enum.to_list(1..5000) |> Kernels.echo_ints!() |> Tenon.to_list!() |> length() end,
      tensor_calls: fn ->
        x = some(100)
        :ok = done(Kernels.scale(x, 2.0))
        _ = Kernels.add!(x, {:binary.copy(<<0>>, 400), :f32, {100}})
        _ = Kernels.halves!(x)
        _ = Kernels.count_up!(100_000)
        _ = Kinds.add!(x, some(1))
        _ = Kinds.total!(x)
        {:error, %{reason: :overlap}} = checked(Kernels.swap(x, x))
        {:error, %{reason: {:failed, _}}} = checked(Kernels.fail_late(100_000))
      end,
      nx_calls: fn ->
        x = Tenon.Test.Backend.tensor(some(4), {:f, 32}, {4})
        %Nx.Tensor{} = Kernels.add!(x, some(4))
      end,
      tensor_lists: fn ->
        xs = for _ <- 1..20, do: f32([[1, 2], [3, 4]])
        20 = length(TensorLists.norms!(xs))
        10 = length(TensorLists.split!(some(100), 10))
        {:error, %{}} = checked(TensorLists.norms([:no | xs]))
        {:error, %{}} = checked(TensorLists.split(some(100), 10, true))
      end
    ]
  end

  defp classes do
    [
      objects: fn ->
        bag = Bag.new!([3, 4, 5])
        {:ok, state} = done(Bag.dump(bag))
        true = Bag.equal?(Bag.load!(state), bag)
        # Enumerable makes a cursor by a function that raises.
        [3, 4, 5] = Enum.to_list(bag)
        :ok = done(Bag.close(bag))
      end,
      handles: fn ->
        counter = Counter.new!(3)
        twin = Classes.twin!(counter)
        :ok = done(Classes.add(counter, twin))
        nil = Classes.twin!(nil)
        plain = Classes.plain_new!(4)
        4 = Classes.plain_get!(plain)
      end,
      keep: fn ->
        for x <- [f32([1, 2, 3]), {<<0::96>>, :f32, {3}}, {:binary.copy(<<0>>, 4000), :f32, {1000}}] do
          store = Store.new!(x)
          _ = Store.sum!(store)
          _ = store |> Store.own!() |> Tenon.to_list!()
          _ = store |> Store.own_rw!() |> Tenon.to_list!()
          :ok = done(Store.close(store))
        end
      end,
      own: fn ->
        _ = 10 |> Classes.load!() |> Tenon.to_list!()
        _ = Classes.columns!() |> Tenon.to_list!()
        {:error, %{}} = checked(Classes.load(10, true))
        [3.0, 4.0] = f32([1, 2, 3, 4]) |> Classes.tail!(2) |> Tenon.to_list!()
        _ = Classes.tail!({:binary.copy(<<0>>, 4000), :f32, {1000}}, 999)
      end
    ]
  end

  # The file is another one each time: a library is opened once, and stays.
  defp libraries do
    copy = fn ->
      path = Build.path("copy#{System.unique_integer([:positive])}")
      File.cp!(Build.path("members"), path)
      path
    end

    [
      libraries: fn ->
        path = copy.()
        {:ok, {_, functions}} = Tenon.Nif.library_describe(path)
        bound = for {signature, _, _} <- functions, signature =~ "(", do: {signature, :auto}
        module = :"Elixir.Copy#{System.unique_integer([:positive])}"
        :ok = done(Tenon.Nif.library_open(module, {1, path, bound}))
      end
    ]
  end

  # The error that is expected, unless it is that of the fault.
  defp checked({:error, error} = result) do
    if says_memory?(error), do: raise(error)
    result
  end

  defp done({:error, error}), do: raise(error)
  defp done(result), do: result
end

Tenon.Faults.Sweep.run()
