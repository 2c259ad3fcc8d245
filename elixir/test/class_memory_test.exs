defmodule Tenon.ClassMemoryTest do
  # Not async: the library counts what it gives.
  use ExUnit.Case

  alias Tenon.Test.Kernels, as: Build

  defmodule Classes do
    use Tenon.Library, path: Build.build!("classes", Build.source("classes.c"))
  end

  alias Classes.Store

  import Tenon.Case, only: [address: 1, eventually: 1, in_process: 1, reason: 1, settled: 0]

  setup do
    before = {Classes.counts!(), settled()}

    on_exit(fn ->
      assert eventually(fn ->
               {made, destroyed, _, _} = Classes.counts!()
               made == destroyed and Tenon.Case.back_to?(elem(before, 1))
             end)
    end)

    {:ok, before: elem(before, 0)}
  end

  defp destroyed(before), do: elem(Classes.counts!(), 1) - elem(before, 1)
  defp released(before), do: elem(Classes.counts!(), 3) - elem(before, 3)

  defp floats(count), do: for(n <- 0..(count - 1), into: <<>>, do: <<n * 1.0::float-32-native>>)

  describe "a kept argument" do
    test "is the tensor's memory, which cannot be written to meanwhile" do
      x = Tenon.from_list!([1, 2, 3], type: :f32)
      store = Store.new!(x)
      assert Store.address!(store) == address(x)
      assert Store.sum!(store) == 6.0
      assert reason(Classes.scale(x)) == :busy
      assert Classes.tail!(x, 1) |> Tenon.to_list!() == [2.0, 3.0]
      assert reason(Classes.scale(Tenon.slice!(x, [0], [1]))) == :busy
      :ok = Store.close(store)
      assert eventually(fn -> Classes.scale(x) == :ok end)
      assert Tenon.to_list!(x) == [2.0, 4.0, 6.0]
    end

    test "outlives the tensor and its process" do
      store = in_process(fn -> Store.new!(Tenon.from_list!([1, 2, 3], type: :f32)) end)
      released = Tenon.from_list!([4, 5], type: :f32)
      other = Store.new!(released)
      :ok = Tenon.release(released)
      :erlang.garbage_collect()
      assert Store.sum!(store) == 6.0
      assert Store.sum!(other) == 9.0
    end

    test "each call keeps a share of its own" do
      x = Tenon.from_list!([1, 2, 3], type: :f32)
      [a, b] = for _ <- 1..2, do: Store.new!(x)
      :ok = Store.close(a)
      assert eventually(fn -> Store.close(a) == :ok end)
      assert reason(Classes.scale(x)) == :busy
      :ok = Store.close(b)
      assert eventually(fn -> Classes.scale(x) == :ok end)
    end

    test "can be released by a thread that the VM does not know", %{before: before} do
      x = Tenon.from_list!([1, 2, 3], type: :f32)
      store = Store.new!(x)
      :ok = Store.drop(store)
      assert Store.address!(store) == 0
      assert eventually(fn -> released(before) == 1 end)
      assert Classes.scale(x) == :ok
      # The last reference of all.
      in_process(fn -> Store.drop!(Store.new!(Tenon.zeros!({1000}, type: :f32))) end)
      in_process(fn -> Store.drop!(Store.new!({floats(1000), :f32, {1000}})) end)
      assert eventually(fn -> released(before) == 3 end)
    end

    test "of a large binary is its bytes, of a small or unaligned one a copy" do
      binary = floats(1000)
      held = Tenon.from_binary!(binary, :f32)
      store = Store.new!({binary, :f32, {1000}})
      assert Store.address!(store) == address(held)
      assert Store.sum!(store) == 499_500.0

      small = in_process(fn -> Store.new!({floats(4), :f32, {4}}) end)
      <<_, unaligned::binary>> = <<0, floats(1000)::binary>>
      bytes = Store.new!({unaligned, :f32, {1000}})
      <<_::3, bits::binary>> = <<0::3, floats(1000)::binary>>
      moved = Store.new!({bits, :f32, {1000}})
      empty = Store.new!({"", :f32, {0}})
      for process <- Process.list(), do: :erlang.garbage_collect(process)
      assert Store.sum!(small) == 6.0
      assert Store.sum!(bytes) == 499_500.0
      assert Store.sum!(moved) == 499_500.0
      assert Store.sum!(empty) == 0.0
      assert Store.sum!(Store.new!(nil)) == 0.0
      assert Store.address!(Store.new!()) == 0
    end

    test "cannot be in memory that the same call writes to" do
      whole = Tenon.zeros!({8}, type: :f32)
      {x, y} = {Tenon.slice!(whole, [0], [4]), Tenon.slice!(whole, [4], [4])}
      assert {:error, error} = Classes.keep_other(x, y)
      assert error.message =~ "keep_other(): cannot keep argument 'x': another argument"
      assert Classes.keep_other(Tenon.zeros!({4}, type: :f32), y) == :ok
    end

    test "may come after others, which may be nil" do
      ones = Tenon.from_list!([1, 1, 1], type: :f32)
      assert Classes.keep_second!(Tenon.zeros!({8}, type: :f32), ones) == 3.0
      assert Classes.keep_second!(nil, ones) == 3.0
    end
  end

  describe "a result that the library owns" do
    test "is released once, when the last tensor and binary are gone", %{before: before} do
      tensor = Classes.load!(100)
      assert {tensor.type, tensor.shape} == {{:f, 32}, {100}}
      view = Tenon.slice!(tensor, [0], [50])
      binary = Tenon.to_binary!(tensor, copy: :never)
      assert binary == floats(100)
      address = address(tensor)
      assert address(Tenon.from_binary!(binary, :f32)) == address
      :ok = Tenon.release(tensor)
      assert Tenon.to_list!(view) == Enum.map(0..49, &(&1 / 1))
      assert released(before) == 0
      :ok = Tenon.release(view)
      :erlang.garbage_collect()
      assert :erlang.crc32(binary) == :erlang.crc32(floats(100))
      assert released(before) == 0
    end

    test "is gone with its process", %{before: before} do
      in_process(fn ->
        for _ <- 1..50, do: Classes.load!(100)
        Tenon.to_binary!(Classes.load!(100)) |> byte_size()
      end)

      assert eventually(fn -> released(before) == 51 end)
    end

    test "can be written to until a binary refers to it" do
      tensor = Classes.load!(3)
      assert Classes.scale(tensor) == :ok
      assert Tenon.to_list!(tensor) == [0.0, 2.0, 4.0]
      assert Tenon.to_binary!(tensor) == <<0.0::float-32-native, 2.0::float-32-native, 4.0::float-32-native>>
      assert reason(Classes.scale(tensor)) == :readonly
    end

    test "may be empty, or have strides" do
      assert Tenon.to_list!(Classes.load!(0)) == []
      assert Tenon.to_list!(Classes.columns!()) == [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]
      assert Classes.columns!().strides == [1, 3]
    end

    test "is released if the call fails later", %{before: before} do
      assert {:error, %{message: "load(): it failed later"}} = Classes.load(10, true)
      assert released(before) == 1
    end

    test "given wrongly fails the call", %{before: before} do
      for {how, message} <- [{0, "release"}, {1, "64 bits|too large|overflow"}, {2, "gave shape"}, {3, "result"}] do
        assert {:error, %Tenon.Error{} = error} = Classes.load_badly(how)
        assert error.message =~ ~r/^load_badly\(\): .*(#{message})/s
      end

      assert released(before) == 0
    end

    test "costs its process what it takes", %{before: before} do
      in_process(fn -> for _ <- 1..500, do: Classes.load!(100_000) && :ok end)
      assert eventually(fn -> released(before) == 500 end)
    end
  end

  describe "a result of(self)" do
    test "shows the object's memory, and keeps the object alive", %{before: before} do
      store = Store.new!()
      own = Store.own!(store)
      assert Tenon.to_list!(own) == Enum.map(0..15, &(&1 / 1))
      assert address(own) == address(Store.own!(store))
      assert reason(Classes.scale(own)) == :readonly
      # The object may change its memory, so binaries are copies.
      assert reason(Tenon.to_binary(own)) == :would_copy
      assert reason(Tenon.to_binary(own, copy: :never)) == :would_copy
      assert <<first::float-32-native, _::binary>> = Tenon.to_binary!(own, copy: :allow)
      assert first == 0.0
      :ok = Store.close(store)
      Process.sleep(20)
      assert destroyed(before) == 0
      assert Enum.sum(Tenon.to_list!(own)) == 120.0
      assert reason(Store.own(store)) == :released
    end

    test "goes with the last tensor, wherever it is", %{before: before} do
      own = in_process(fn -> Store.own!(Store.new!()) end)
      :erlang.garbage_collect()
      assert destroyed(before) == 0
      assert Enum.sum(Tenon.to_list!(own)) == 120.0
      :ok = Tenon.release(own)
      assert eventually(fn -> destroyed(before) == 1 end)
    end

    test "with rw can be written to, by one call at a time" do
      store = Store.new!()
      own = Store.own_rw!(store)
      assert Classes.scale(own) == :ok
      assert Enum.sum(Tenon.to_list!(Store.own!(store))) == 240.0
      # Another object keeps a view of the same memory.
      keeper = Store.new!(Store.own!(store))
      assert reason(Classes.scale(own)) == :busy
      assert Store.sum!(keeper) == 240.0
      :ok = Store.close(keeper)
      assert eventually(fn -> Classes.scale(own) == :ok end)
    end
  end

  describe "a result of(x)" do
    test "is a view of the tensor" do
      x = Tenon.from_list!([1, 2, 3, 4], type: :f32)
      tail = Classes.tail!(x, 2)
      assert address(tail) == address(x) + 8
      :ok = Tenon.release(x)
      :erlang.garbage_collect()
      assert Tenon.to_list!(tail) == [3.0, 4.0]
      assert Classes.scale(tail) == :ok
      assert Tenon.to_list!(Classes.tail!(tail, 1)) == [8.0]
    end

    test "cannot be written to if the argument cannot" do
      x = Tenon.from_list!([1, 2, 3, 4], type: :f32)
      _binary = Tenon.to_binary!(x)
      assert reason(Classes.scale(Classes.tail!(x, 2))) == :readonly
    end

    test "of a large binary is its bytes, of a small or unaligned one a copy" do
      binary = floats(1000)
      tail = Classes.tail!({binary, :f32, {1000}}, 500)
      assert address(tail) == address(Tenon.from_binary!(binary, :f32)) + 2000
      assert Tenon.to_binary!(tail, copy: :never) == binary_part(binary, 2000, 2000)
      refute Tenon.copied?(tail)
      assert reason(Classes.scale(tail)) == :readonly

      <<_, unaligned::binary>> = <<0, binary::binary>>
      <<_::3, bits::binary>> = <<0::3, binary::binary>>

      for {binary, count} <- [{floats(4), 4}, {unaligned, 1000}, {bits, 1000}] do
        tail = Classes.tail!({binary, :f32, {count}}, 1)
        assert Tenon.copied?(tail)
        :erlang.garbage_collect()
        assert Tenon.to_list!(tail) == Enum.map(1..(count - 1), &(&1 / 1))
        assert reason(Classes.scale(tail)) == :readonly
      end

      assert Tenon.to_list!(Classes.tail!({"", :f32, {0}}, 0)) == []
    end

    test "must be inside the argument" do
      x = Tenon.from_list!([1, 2, 3, 4], type: :f32)
      assert {:error, error} = Classes.tail(Tenon.slice!(x, [1], [2]), -1)
      assert error.message == "tail(): result 0 is not inside the memory of argument 'x'"
    end
  end

  describe "Nx" do
    defp nx(binary), do: apply(Nx, :from_binary, [binary, {:f, 32}])

    test "tensors are kept, and results are Nx tensors" do
      store = Store.new!(nx(floats(1000)))
      assert Store.sum!(store) == 499_500.0
      assert %{__struct__: Nx.Tensor} = tail = Classes.tail!(nx(floats(1000)), 998)
      assert apply(Nx, :to_binary, [tail]) == <<998.0::float-32-native, 999.0::float-32-native>>
    end
  end

  describe "TENON_CHECK=1" do
    test "finds writes past the end, results that were not written, and conversions" do
      script = Build.path("checked") <> ".exs"

      File.write!(script, """
      defmodule Checked do
        use Tenon.Library, path: #{inspect(Build.path("classes"))}
      end

      x = Tenon.from_list!([1, 2, 3], type: :f32)
      {:error, error} = Checked.past_the_end(x)
      IO.puts(error.message)
      {:ok, _} = Checked.nothing(x)
      :ok = Checked.converted(x)
      IO.inspect(Checked.Store.sum!(Checked.Store.new!(x)))
      """)

      arguments = ["-pa", Application.app_dir(:tenon, "ebin"), script]
      {output, 0} = System.cmd("elixir", arguments, env: [{"TENON_CHECK", "1"}], stderr_to_stdout: true)
      assert output =~ "past_the_end(): result 0: the function wrote past the end of its memory: byte 12"
      assert output =~ "nothing(): result 0: no byte of it changed"
      assert output =~ "converted(): argument 'x' was converted to f64[n] c convert, a copy of 24 bytes"
      assert output =~ "6.0\n"
    end
  end
end
