# Random operations on the BEAM, for as long as one likes: mix soak [MINUTES [SEED]]
#
# Each round runs in processes of its own, whose terms end with them, and prints its seed; `mix soak 1 SEED` replays a round. After
# a round nothing may be alive that was not before, and memory may not grow with the number of operations.

alias Tenon.Test.Kernels, as: Build

for name <- ["kinds", "members", "tensor_lists"], do: Build.build!(name, Build.source(name <> ".c"))
Code.require_file("support/nx_stand_in.exs", __DIR__)

defmodule Tenon.Soak.Kinds do
  use Tenon.Library, path: Build.path("kinds")
end

defmodule Tenon.Soak.Members do
  use Tenon.Library, path: Build.path("members")
end

defmodule Tenon.Soak.Lists do
  use Tenon.Library, path: Build.path("tensor_lists")
end

defmodule Tenon.Soak do
  alias Tenon.Soak.{Kinds, Lists}
  alias Tenon.Soak.Members.Bag
  import Tenon.Case, only: [settled: 0, eventually: 1, back_to?: 1]

  @operations [:tensors, :views, :binaries, :blobs, :shared, :kinds, :lists, :objects, :messages, :tables, :garbage]
  @per_round 20_000

  def run(minutes, seed) do
    finish = System.monotonic_time(:millisecond) + round(minutes * 60_000)
    Stream.iterate(0, &(&1 + 1)) |> Enum.reduce_while([], &round_of(&1, &2, seed, finish)) |> report()
  end

  defp round_of(index, checkpoints, seed, finish) do
    before = settled()
    numbers = for worker <- 1..2, do: {seed + index, worker}
    numbers |> Enum.map(&start/1) |> Enum.each(&await/1)
    unless eventually(fn -> back_to?(before) end), do: fail(seed + index, "not released: #{inspect(Tenon.stats())}")
    checkpoints = [resident() | checkpoints]

    IO.puts(
      "  seed #{seed + index}: #{(index + 1) * 2 * @per_round} operations, #{div(hd(checkpoints), 1_048_576)} MiB"
    )

    if System.monotonic_time(:millisecond) < finish, do: {:cont, checkpoints}, else: {:halt, checkpoints}
  end

  defp start({seed, worker}), do: spawn_monitor(fn -> work(seed, worker) end) |> Tuple.append(seed)

  defp await({pid, monitor, seed}) do
    receive do
      {:DOWN, ^monitor, :process, ^pid, :normal} -> :ok
      {:DOWN, ^monitor, :process, ^pid, reason} -> fail(seed, inspect(reason))
    end
  end

  defp fail(seed, why) do
    IO.puts("failed: #{why}\nreplay: mix soak 0 #{seed}")
    System.halt(1)
  end

  # The rounds must not rise all the way from the second quarter to the end.
  defp report(checkpoints) do
    quarter = div(length(checkpoints), 4)
    late = Enum.take(checkpoints, quarter)
    early = checkpoints |> Enum.reverse() |> Enum.drop(quarter) |> Enum.take(quarter)
    grown = if quarter > 1, do: Enum.min(late) - Enum.max(early), else: 0
    operations = length(checkpoints) * 2 * @per_round
    if grown > 10 * operations, do: fail(:none, "memory grows: #{inspect(Enum.reverse(checkpoints))}")
    IO.puts("#{length(checkpoints)} rounds, #{operations} operations: nothing was lost")
  end

  defp resident do
    Enum.each(Process.list(), &:erlang.garbage_collect/1)
    [_, pages | _] = "/proc/self/statm" |> File.read!() |> String.split()
    String.to_integer(pages) * 4096
  end

  defp work(seed, worker) do
    :rand.seed(:exsss, {seed, worker, 1})
    table = :ets.new(:soak, [:public])
    Enum.reduce(1..@per_round, [], fn step, held -> step(step, held, table) end)
  end

  defp step(step, held, table) do
    made = operate(Enum.random(@operations), held, table)
    if rem(step, 500) == 0, do: :erlang.garbage_collect()
    Enum.take([made | held], :rand.uniform(40))
  end

  defp f32(list), do: Tenon.from_list!(list, type: {:f, 32})
  defp size, do: :rand.uniform(30)
  defp some(held), do: Enum.find(held, f32([1, 2, 3]), &match?(%Tenon.Tensor{}, &1))

  defp operate(:tensors, _held, _table) do
    list = for _ <- 1..size(), do: :rand.uniform(100) * 1.0
    tensor = f32(list)
    ^list = Tenon.to_list!(tensor)
    if :rand.uniform(4) == 1, do: Tenon.release(tensor)
    tensor
  end

  defp operate(:views, held, _table) do
    tensor = Tenon.zeros!({size(), size()}, type: {:f, 64})
    {rows, columns} = tensor.shape
    {:error, %Tenon.Error{}} = Tenon.reshape(tensor, {rows * columns + 1})
    view = tensor |> Tenon.slice!([0, 0], [rows, 1]) |> Tenon.transpose!()
    _ = Tenon.to_list(some(held))
    view
  end

  defp operate(:binaries, held, _table) do
    binary = :crypto.strong_rand_bytes(4 * :rand.uniform(100))
    tensor = Tenon.from_binary!(binary, {:f, 32})
    ^binary = Tenon.to_binary!(tensor)

    case Tenon.to_binary(some(held)) do
      {:ok, made} -> made
      {:error, %Tenon.Error{}} -> tensor
    end
  end

  defp operate(:blobs, _held, _table) do
    tensor = f32([1, 2, 3, 4])
    blob = Tenon.Blob.to_blob(tensor)
    view = Tenon.Blob.from_blob(blob)
    [1.0, 2.0, 3.0, 4.0] = Tenon.to_list!(view)
    view
  end

  defp operate(:shared, _held, _table) do
    tensor = Tenon.Shared.zeros!({3}, type: {:f, 32})
    other = Tenon.Shared.attach!(Tenon.Shared.name!(tensor))
    3 = length(Tenon.to_list!(other))
    {tensor, other}
  end

  defp operate(:kinds, _held, _table) do
    number = :rand.uniform(2 ** 63)
    {:ok, ^number} = Kinds.echo_uint(number)
    {:error, %Tenon.Error{reason: {:overflow, :x}}} = Kinds.echo_uint(-number)
    binary = :binary.copy(<<7>>, size() * 10)
    {:ok, ^binary} = Kinds.echo_bytes(binary)
    binary
  end

  defp operate(:lists, _held, _table) do
    items = for _ <- 1..size(), do: f32([[1, 2], [3, 4]])
    {:ok, norms} = Lists.norms(items)
    {:error, %Tenon.Error{}} = Lists.norms([:not_a_tensor | items])
    hd(norms)
  end

  defp operate(:objects, _held, _table) do
    bag = Bag.new!([3, 4, 5])
    3 = Bag.size!(bag)
    {:ok, state} = Bag.dump(bag)
    true = Bag.equal?(Bag.load!(state), bag)
    if :rand.uniform(2) == 1, do: Bag.close(bag)
    bag
  end

  # Another process is the last that has it.
  defp operate(:messages, held, _table) do
    tensor = some(held)
    pid = spawn(fn -> receive do: (message -> Tenon.to_list(message)) end)
    send(pid, tensor)
    pid
  end

  defp operate(:tables, held, table) do
    :ets.insert(table, {:rand.uniform(20), Enum.take(held, 3)})
    :ets.lookup(table, :rand.uniform(20))
  end

  defp operate(:garbage, held, _table) do
    odd = Enum.random([nil, :x, -1, 2 ** 70, <<1::3>>, {}, {-1}, [1 | 2], %{}, make_ref(), self(), some(held)])

    for call <- [
          &Tenon.to_list/1,
          &Tenon.to_binary/1,
          &Tenon.zeros/1,
          &Tenon.from_list/1,
          &Tenon.reshape(some(held), &1)
        ] do
      try do
        call.(odd)
      rescue
        error in [ArgumentError, Tenon.Error, FunctionClauseError] -> error
      end
    end

    odd
  end
end

{minutes, seed} =
  case System.argv() do
    [minutes, seed | _] -> {elem(Float.parse(minutes), 0), String.to_integer(seed)}
    [minutes] -> {elem(Float.parse(minutes), 0), rem(System.os_time(:second), 1_000_000)}
    [] -> {10.0, rem(System.os_time(:second), 1_000_000)}
  end

Tenon.Soak.run(minutes, seed)
