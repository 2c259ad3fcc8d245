alias Tenon.Test.Kernels, as: Build

Build.build!("kernels", Build.source("kernels.c"))
Build.build!("classes", Build.source("classes.c"))

defmodule Tenon.SharedTest.Kernels do
  use Tenon.Library, path: Build.path("kernels")
end

defmodule Tenon.SharedTest.Classes do
  use Tenon.Library, path: Build.path("classes")
end

defmodule Tenon.SharedTest do
  use Tenon.Case
  doctest Tenon.Shared

  alias Tenon.Shared
  alias Tenon.SharedTest.{Classes, Kernels}
  alias Tenon.Test.Python

  @without_python Python.skip_unless_found()

  defp f32(list), do: Tenon.from_list!(list, type: :f32)
  # Writes through a function in C.
  defp write!(tensor, list), do: :ok = Kernels.swap!(tensor, f32(list))

  defp message({:error, %Tenon.Error{message: message}}), do: message

  defp use_until_frozen(use) do
    case use.() do
      {:error, %Tenon.Error{reason: reason}} when reason != :busy -> reason
      _ -> use_until_frozen(use)
    end
  end

  defp descriptors, do: length(File.ls!("/proc/#{System.pid()}/fd"))

  defp mappings do
    "/proc/#{System.pid()}/maps" |> File.read!() |> String.split("\n") |> Enum.count(&(&1 =~ "memfd:tenon"))
  end

  # A second BEAM. Functions run there from strings, because this test's functions are not loaded there.
  defp start_peer(options \\ %{}) do
    paths = Enum.flat_map(:code.get_path(), &['-pa', &1])
    {:ok, peer, _} = :peer.start_link(Map.merge(%{connection: :standard_io, args: paths}, options))
    {:ok, _} = :peer.call(peer, :application, :ensure_all_started, [:elixir], :infinity)
    peer
  end

  defp on_peer(peer, code) do
    {value, _} = :peer.call(peer, Code, :eval_string, [code], :infinity)
    value
  end

  describe "zeros and attach" do
    test "are two tensors on one memory" do
      tensor = Shared.zeros!({2, 3}, type: {:s, 32})
      assert {tensor.type, tensor.shape, tensor.byte_size} == {{:s, 32}, {2, 3}, 24}
      assert Tenon.to_list!(tensor) == [[0, 0, 0], [0, 0, 0]]
      assert rem(address(tensor), 64) == 0
      assert Shared.zeros!([3]).type == {:f, 32}

      one = Shared.zeros!({4})
      other = Shared.attach!(Shared.name!(one))
      assert address(one) != address(other)
      write!(one, [1, 2, 3, 4])
      assert Tenon.to_list!(other) == [1.0, 2.0, 3.0, 4.0]
      :ok = Kernels.scale!(other, 2)
      assert Tenon.to_list!(one) == [2.0, 4.0, 6.0, 8.0]
    end

    test "of no elements, and of no dimensions" do
      for shape <- [{0}, {2, 0, 3}, {}] do
        tensor = Shared.zeros!(shape, type: :u8)
        assert Shared.attach!(Shared.name!(tensor)).shape == shape
        refute Tenon.writable?(Shared.freeze!(tensor))
      end
    end

    test "the tensor keeps the memory, also that of an owner that is gone" do
      {attached, name} =
        in_process(fn ->
          tensor = Shared.zeros!({1000})
          name = Shared.name!(tensor)
          attached = Shared.attach!(name)
          # A variable keeps its tensor only until its last use.
          Tenon.release(tensor)
          {attached, name}
        end)

      settled()
      assert reason(Shared.attach(name)) == {:system, :enoent}
      assert Tenon.to_list!(Tenon.slice!(attached, [999], [1])) == [0.0]
      again = Shared.attach!(Shared.name!(attached))
      Tenon.release(attached)
      assert reason(Shared.name(attached)) == :released
      settled()
      assert Tenon.to_list!(Tenon.slice!(again, [0], [1])) == [0.0]
    end

    test "a view alone keeps it" do
      view = in_process(fn -> Tenon.slice!(Shared.zeros!({1000}), [500], [2]) end)
      settled()
      assert Tenon.to_list!(view) == [0.0, 0.0]
    end
  end

  test "share copies once and freezes; binaries refer to the memory" do
    source = Tenon.transpose!(f32([[1, 2], [3, 4]]))
    shared = Shared.share!(source)
    assert Tenon.to_list!(shared) == [[1.0, 3.0], [2.0, 4.0]]
    refute Tenon.writable?(shared)
    assert reason(Kernels.scale(Tenon.reshape!(shared, {4}), 2)) == :readonly
    assert Tenon.writable?(source)

    large = Shared.share!(Tenon.from_binary!(large(), :u8))
    binary = Tenon.to_binary!(large)
    assert binary == large()
    assert address(Tenon.from_binary!(binary, :u8, copy: :never)) == address(large)
    assert {:ok, ^large} = Shared.freeze(large)
    Tenon.release(large)
    settled()
    assert binary == large()

    attached = Shared.attach!(Shared.name!(shared))
    assert reason(Tenon.to_binary(attached)) == :would_copy
    assert message(Tenon.to_binary(attached)) =~ "other processes may write to its memory"
    assert Tenon.to_binary!(attached, copy: :allow) == Tenon.to_binary!(shared)
    promised = Shared.attach!(Shared.name!(shared), immutable: true)
    assert Tenon.to_binary!(promised) == Tenon.to_binary!(shared)
  end

  describe "freeze" do
    test "makes it read-only here and for all who attach afterwards" do
      tensor = Shared.zeros!({3})
      name = Shared.name!(tensor)
      before = Shared.attach!(name)
      write!(tensor, [1, 2, 3])
      assert {:ok, ^tensor} = Shared.freeze(tensor)
      refute Tenon.writable?(tensor)
      assert reason(Kernels.scale(tensor, 2)) == :readonly
      assert reason(Kernels.scale(Tenon.slice!(tensor, [0], [1]), 2)) == :readonly
      attached = Shared.attach!(name)
      refute Tenon.writable?(attached)
      assert reason(Kernels.scale(attached, 2)) == :readonly
      assert Tenon.to_list!(Kernels.add!(attached, tensor)) == [2.0, 4.0, 6.0]
      assert {:ok, ^tensor} = Shared.freeze(tensor)
      assert {:ok, ^attached} = Shared.freeze(attached)
      # Whoever attached before may still write, so a binary cannot refer to the memory.
      :ok = Kernels.scale!(before, 2)
      assert Tenon.to_list!(tensor) == [2.0, 4.0, 6.0]
      assert reason(Tenon.to_binary(tensor)) == :would_copy
      assert byte_size(Tenon.to_binary!(tensor, copy: :always)) == 12
    end

    test "freezes the views too, whichever process has them" do
      tensor = Shared.zeros!({3})
      view = Tenon.slice!(tensor, [0], [2])
      :ok = Kernels.scale!(view, 2)
      assert {:ok, _} = Shared.freeze(tensor)
      refute Tenon.writable?(view)
      assert reason(Kernels.scale(view, 2)) == :readonly
      assert in_process(fn -> reason(Kernels.scale(view, 2)) end) == :readonly
    end

    test "while other processes write, make views and read" do
      for _ <- 1..20 do
        tensor = Shared.zeros!({1000})

        uses = [
          fn -> Kernels.scale(tensor, 1) end,
          fn -> Kernels.scale(Tenon.slice!(tensor, [0], [10]), 1) end,
          fn -> with {:ok, _} <- Tenon.to_list(tensor), do: Kernels.scale(tensor, 1) end
        ]

        tasks = for use <- uses, do: Task.async(fn -> use_until_frozen(use) end)
        Build.until(fn -> match?({:ok, _}, Shared.freeze(tensor)) end)
        for task <- tasks, do: assert(Task.await(task, :infinity) == :readonly)
        refute Tenon.writable?(tensor)
      end
    end

    test "is :busy while a call uses it, or an object keeps it" do
      tensor = Shared.zeros!({3})
      task = Task.async(fn -> Kernels.hold_read(tensor) end)
      Build.until(fn -> Kernels.is_holding!() end)
      assert reason(Shared.freeze(tensor)) == :busy
      Kernels.let_go!()
      assert Task.await(task, :infinity) == :ok

      store = Classes.Store.new!(tensor)
      assert reason(Shared.freeze(tensor)) == :busy
      assert Classes.Store.sum!(store) == 0.0
      :ok = Classes.Store.close(store)
      # Tenon's own thread destroys the object.
      Build.until(fn -> match?({:ok, _}, Shared.freeze(tensor)) end)
      store = Classes.Store.new!(tensor)
      assert Classes.Store.address!(store) == address(tensor)
      :ok = Classes.Store.close(store)
    end

    test "a tensor made from its address shares the state" do
      tensor = Shared.zeros!({3})
      %{tensor: alias} = Tenon.Blob.from_blob(%{Tenon.Blob.to_blob(tensor) | owner: nil}, owner: tensor)
      :ok = Kernels.scale!(alias, 2)
      assert {:ok, _} = Shared.freeze(tensor)
      assert reason(Kernels.scale(alias, 2)) == :readonly
    end
  end

  describe "bad input" do
    test "of zeros, share, freeze and name" do
      assert reason(Shared.zeros({-1})) == {:badarg, :shape}
      assert reason(Shared.zeros(:x)) == {:badarg, :shape}
      assert reason(Shared.zeros({2}, type: :x)) == {:unsupported_type, :x}
      assert reason(Shared.zeros({2 ** 62, 2 ** 62})) in [{:overflow, :shape}, {:badarg, :shape}]
      assert reason(Shared.zeros({2 ** 60}, type: :u8)) == {:failed, :no_memory}
      assert_raise ArgumentError, ~r/unknown option :typ/, fn -> Shared.zeros({1}, typ: :u8) end
      plain = Tenon.zeros!({4})
      shared = Shared.zeros!({4})

      for function <- [&Shared.freeze/1, &Shared.name/1] do
        assert reason(function.(plain)) == {:badarg, :tensor}
        assert message(function.(plain)) =~ "expected a shared tensor, from Tenon.Shared"
        assert message(function.(Tenon.slice!(shared, [0], [2]))) =~ "got a view of one"
      end

      for function <- [&Shared.freeze/1, &Shared.name/1, &Shared.share/1] do
        assert reason(function.(:x)) == {:badarg, :tensor}
        assert reason(function.(%{plain | ref: make_ref()})) == :stale
      end

      assert_raise Tenon.Error, fn -> Shared.name!(plain) end
      assert_raise Tenon.Error, fn -> Shared.freeze!(plain) end
      assert_raise Tenon.Error, fn -> Shared.share!(:x) end
      assert_raise Tenon.Error, fn -> Shared.zeros!({-1}) end
      assert_raise Tenon.Error, fn -> Shared.attach!("") end
      before = descriptors()
      task = Task.async(fn -> Kernels.hold_written(plain) end)
      Build.until(fn -> Kernels.is_holding!() end)
      assert reason(Shared.share(plain)) == :busy
      Kernels.let_go!()
      assert Task.await(task, :infinity) == :ok
      assert descriptors() <= before
    end

    test "of attach" do
      tensor = Shared.zeros!({4})
      name = Shared.name!(tensor)
      assert name =~ ~r/^tenon-shared:1:#{System.pid()}:\d+:[0-9a-f]{32}$/
      [_, _, pid, fd, id] = String.split(name, ":")

      for hostile <- [
            "",
            "tenon-shared",
            "tenon-shared:0:#{pid}:#{fd}:#{id}",
            "tenon-shared:1:0:#{fd}:#{id}",
            "tenon-shared:1:-1:#{fd}:#{id}",
            "tenon-shared:1:self:#{fd}:#{id}",
            "tenon-shared:1:#{pid}:../../../etc/passwd:#{id}",
            "tenon-shared:1:#{pid}:99999999999999999999:#{id}",
            name <> "0",
            name <> "\n",
            name <> "\0",
            name <> "\0../..",
            " " <> name,
            "\0" <> name,
            String.upcase(name),
            binary_part(name, 0, byte_size(name) - 1),
            <<255, 254>>,
            String.duplicate("x", 1_000_000),
            String.duplicate("é%s%n", 20)
          ] do
        {:error, error} = Shared.attach(hostile)
        assert {error.reason, error.function, error.argument} == {{:shared, :invalid}, :attach, :name}, hostile
        assert String.valid?(error.message) and byte_size(error.message) < 600
      end

      assert reason(Shared.attach("tenon-shared:2:#{pid}:#{fd}:#{id}")) == {:shared, :version}
      flipped = if String.starts_with?(id, "0"), do: "1", else: "0"
      wrong_id = flipped <> binary_part(id, 1, 31)

      for {pid, fd, id} <- [{pid, fd, wrong_id}, {pid, "0", id}, {pid, "999999", id}, {"2147483647", fd, id}] do
        assert reason(Shared.attach("tenon-shared:1:#{pid}:#{fd}:#{id}")) == {:system, :enoent}
      end

      # Root may look into every process, but process 1 has no such tensor.
      assert reason(Shared.attach("tenon-shared:1:1:#{fd}:#{id}")) in [{:system, :eacces}, {:system, :enoent}]

      for wrong <- [nil, :name, 1, 'tenon-shared', <<1::3>>, tensor] do
        assert reason(Shared.attach(wrong)) == {:badarg, :name}
      end

      assert reason(Shared.attach(name, immutable: 1)) == {:badarg, :immutable}
      assert reason(Shared.attach(name, immutable: true)) == {:badarg, :immutable}
      assert message(Shared.attach(name, immutable: true)) =~ "frozen"
      assert_raise ArgumentError, ~r/unknown option/, fn -> Shared.attach(name, copy: :never) end
      Tenon.release(tensor)
    end
  end

  describe "nothing is left" do
    test "after 1,000 attaches, neither a descriptor nor a mapping" do
      tensor = Shared.zeros!({16})
      name = Shared.name!(tensor)
      settled()
      before = {descriptors(), mappings()}

      in_process(fn ->
        for _ <- 1..1000, do: Shared.attach!(name)
        for _ <- 1..100, do: {:error, _} = Shared.attach(name, immutable: true)
        for _ <- 1..100, do: Tenon.release(Shared.attach!(name))
        for _ <- 1..100, do: Tenon.release(Shared.share!(f32([1, 2])))
      end)

      assert eventually(fn -> {descriptors(), mappings()} == before end)
      assert Tenon.to_list!(Tenon.slice!(tensor, [0], [1])) == [0.0]
    end

    test "of garbage: a process that only drops tensors has at most some hundreds of descriptors" do
      name = Shared.name!(tensor = Shared.zeros!({16}))
      before = descriptors()
      parent = self()

      drop = fn ->
        for _ <- 1..900, do: Shared.attach!(name).shape
        send(parent, :dropped)
        receive do: (:end -> :ok)
      end

      # With such a heap the runtime itself sees no reason to collect garbage.
      pid = :erlang.spawn_opt(drop, [:link, min_heap_size: 10_000_000])
      assert_receive :dropped, 60_000
      # What was collected is closed by another thread.
      Build.until(fn -> descriptors() - before < 600 end)
      send(pid, :end)
      Tenon.release(tensor)
    end

    test "if there are no more descriptors, the error has the system's name" do
      # The shell lowers the limit of the second BEAM.
      erl = to_charlist(System.find_executable("erl"))
      exec = {'/bin/sh', ['-c', 'ulimit -n 100; exec "$0" "$@"', erl]}
      peer = start_peer(%{exec: exec})

      code = """
      Enum.reduce_while(1..200, [], fn _, kept ->
        case Tenon.Shared.zeros({1}) do
          {:ok, tensor} -> {:cont, [tensor | kept]}
          {:error, error} -> {:halt, error.reason}
        end
      end)
      """

      assert on_peer(peer, code) == {:system, :emfile}
      :peer.stop(peer)
    end
  end

  test "a second BEAM reads and writes the memory, and keeps it after its owner has ended" do
    peer = start_peer()
    tensor = Shared.zeros!({4})
    write!(tensor, [1, 2, 3, 4])
    read = "Tenon.to_list!(Tenon.Shared.attach!(#{inspect(Shared.name!(tensor))}))"
    assert on_peer(peer, read) == [1.0, 2.0, 3.0, 4.0]
    Tenon.release(tensor)

    # Its tensor is held by a process there.
    theirs =
      on_peer(peer, """
      parent = self()
      spawn(fn ->
        tensor = Tenon.Shared.zeros!({4}, type: :s64)
        send(parent, Tenon.Shared.name!(tensor))
        receive do: (:end -> tensor)
      end)
      receive do: (name -> name)
      """)

    attached = Shared.attach!(theirs)
    :peer.stop(peer)
    Build.until(fn -> match?({:error, %{reason: {:system, :enoent}}}, Shared.attach(theirs)) end)
    assert message(Shared.attach(theirs)) =~ "does not hold this tensor"
    assert Tenon.to_list!(attached) == [0, 0, 0, 0]
    assert Tenon.writable?(attached)
  end

  describe "Python" do
    @program """
    import sys, tenon, numpy as np
    held = []
    for line in sys.stdin:
        command, _, name = line.strip().partition(" ")
        if command == "scale":
            array = np.from_dlpack(tenon.attach(name))
            array *= 2
            print(array.tolist())
        elif command == "share":
            held = [tenon.share(np.arange(1000, dtype="float32"))]
            print(held[0].shared_name)
        elif command == "drop":
            held = []
            print("ok")
        elif command == "write":
            try:
                np.asarray(tenon.attach(name))[0] = 1
                print("written")
            except ValueError as error:
                print("refused")
    """

    @describetag @without_python

    test "writes to memory that Elixir made" do
      python = Python.start!(@program)
      tensor = Shared.zeros!({3})
      write!(tensor, [1, 2, 3])
      assert Python.ask!(python, "scale " <> Shared.name!(tensor)) == "[2.0, 4.0, 6.0]"
      assert Tenon.to_list!(tensor) == [2.0, 4.0, 6.0]
      Shared.freeze!(tensor)
      assert Python.ask!(python, "write " <> Shared.name!(tensor)) == "refused"
      Tenon.release(tensor)
      Python.stop!(python)
    end

    test "shares memory with Elixir; the memory stays after Python has ended" do
      python = Python.start!(@program)
      name = Python.ask!(python, "share")
      tensor = Shared.attach!(name, immutable: true)
      refute Tenon.writable?(tensor)
      assert tensor.shape == {1000}
      assert reason(Kernels.scale(tensor, 2)) == :readonly
      assert "ok" = Python.ask!(python, "drop")
      assert reason(Shared.attach(name)) == {:system, :enoent}
      Python.stop!(python)
      assert reason(Shared.attach(name)) == {:system, :enoent}
      binary = Tenon.to_binary!(tensor)
      assert address(Tenon.from_binary!(binary, :f32, copy: :never)) == address(tensor)
      assert <<_::999-unit(32), 999.0::float-32-native>> = binary
    end

    # Each header is in a file of Python; its first line of output is a list of names.
    @hostile """
    import fcntl, os, struct, sys
    def name(change, size=8192, seals=6):
        fd = os.memfd_create("hostile", os.MFD_ALLOW_SEALING)
        header = bytearray(4096)
        struct.pack_into("<8sII16sBBHiQQQ", header, 0, b"TENONSHM", 1, 4096, bytes(16), 2, 32, 1, 1, 0, 4096, 16)
        struct.pack_into("<q", header, 64, 4)
        struct.pack_into("<q", header, 576, 1)
        change(header)
        os.ftruncate(fd, size)
        os.pwrite(fd, bytes(header[:size]), 0)
        if seals: fcntl.fcntl(fd, 1033, seals)
        return f"tenon-shared:1:{os.getpid()}:{fd}:{'0' * 32}"
    def put(form, at, *values): return lambda header: struct.pack_into(form, header, at, *values)
    r, w = os.pipe()
    print(name(lambda header: None), name(put("<I", 8, 2)), name(put("<Q", 48, 4097)), name(put("<BBH", 32, 2, 32, 4)),
          name(put("<q", 64, 1 << 60)), name(put("<q", 576, -5)), name(put("<i", 36, 65)), name(put("<B", 0, 0)),
          name(lambda header: None, seals=0), name(lambda header: None, size=100), name(put("<B", 16, 1)),
          f"tenon-shared:1:{os.getpid()}:{r}:{'0' * 32}", f"tenon-shared:1:{os.getpid()}:{w}:{'0' * 32}",
          f"tenon-shared:1:{os.getpid()}:{os.open('/', os.O_RDONLY)}:{'0' * 32}")
    sys.stdin.read()
    """

    test "cannot mislead Elixir with a header" do
      python = Python.start!(@hostile)
      before = descriptors()
      [good, version, misaligned | rest] = String.split(Python.line!(python))
      {invalid, gone} = Enum.split(rest, 5)
      assert Tenon.to_list!(Shared.attach!(good)) == [0.0, 0.0, 0.0, 0.0]
      assert reason(Shared.attach(version)) == {:shared, :version}
      assert {:misaligned, 4, _} = reason(Shared.attach(misaligned))
      for name <- invalid, do: assert(reason(Shared.attach(name)) == {:shared, :invalid})
      for name <- gone, do: assert(reason(Shared.attach(name)) == {:system, :enoent})
      assert eventually(fn -> descriptors() <= before end)
      Python.stop!(python)
    end
  end

  test "several schedulers make, attach, view and freeze one tensor" do
    for _ <- 1..20 do
      tensor = Shared.zeros!({64})
      name = Shared.name!(tensor)

      results =
        1..8
        |> Enum.map(fn i ->
          Task.async(fn ->
            case rem(i, 4) do
              0 -> Shared.freeze(tensor)
              1 -> Tenon.slice(tensor, [i], [2])
              2 -> Shared.attach(name)
              3 -> Kernels.scale(tensor, 2)
            end
          end)
        end)
        |> Task.await_many(60_000)

      for result <- results do
        assert result == :ok or match?({:ok, _}, result) or reason(result) in [:busy, :readonly]
      end

      for {:ok, view} <- results, view.shape == {2}, do: Tenon.release(view)
      assert {:ok, _} = Shared.freeze(tensor)
      assert reason(Kernels.scale(tensor, 2)) == :readonly
    end
  end

  test "long allocations and copies, and each attach, run on a dirty scheduler" do
    size = 4 * 1024 * 1024
    tensor = Tenon.zeros!({size}, type: :u8)
    shared = Shared.zeros!({size}, type: :u8)
    name = Shared.name!(shared)

    for work <- [
          fn -> Shared.zeros!({size}, type: :u8) end,
          fn -> Shared.share!(tensor) end,
          fn -> Shared.attach!(name) end,
          fn -> Shared.freeze!(shared) end
        ] do
      parent = self()
      pid = spawn(fn -> receive do: (:go -> work.()) end)
      reference = Process.monitor(pid)
      :erlang.trace(pid, true, [:running, :exiting, {:tracer, parent}])
      send(pid, :go)
      assert_receive {:DOWN, ^reference, _, _, :normal}, 60_000
      assert_receive {:trace, ^pid, :in, {Tenon.Nif, _, _}}, 60_000
    end
  end

  test "Nx: share takes an Nx tensor, and to_nx shares frozen memory" do
    nx = Tenon.Nx.to_nx!(Tenon.from_binary!(large(), :u8, shape: {2, 2048}))
    shared = Shared.share!(nx)
    assert {shared.type, shared.shape} == {{:u, 8}, {2, 2048}}
    there = Tenon.Nx.to_nx!(shared)
    assert address(Tenon.Nx.from_nx!(there)) == address(shared)
    attached = Shared.attach!(Shared.name!(shared))
    assert reason(Tenon.Nx.to_nx(attached)) == :would_copy
    assert Nx.to_binary(Tenon.Nx.to_nx!(attached, copy: :allow)) == large()
    promised = Shared.attach!(Shared.name!(shared), immutable: true)
    assert address(Tenon.Nx.from_nx!(Tenon.Nx.to_nx!(promised))) == address(promised)
    Tenon.release(shared)
  end

  test "a function that fails with TENON_ESYSTEM" do
    assert reason(Kernels.fail(14, "x")) == {:failed, :esystem}
  end

  test "the limit on the size of files is an error, and does not end the VM" do
    code = """
    small = Tenon.Shared.zeros!({8})
    most = 256 * 1024 * 1024 - 4096
    # Nothing is allocated.
    large = Tenon.broadcast!(Tenon.zeros!({1}, type: :u8), {most + 1})

    for {:error, error} <- [Tenon.Shared.zeros({most + 1}, type: :u8), Tenon.Shared.share(large)] do
      IO.puts(inspect(error.reason) <> " " <> error.message)
    end

    IO.inspect(Tenon.to_list!(Tenon.Shared.freeze!(small)) == List.duplicate(0.0, 8))
    """

    ebin = Path.join(Application.app_dir(:tenon), "ebin")
    # The VM itself ends under a limit that is much lower. The unit is 1,024 bytes in bash.
    command = ~s(ulimit -f #{256 * 1024} && exec elixir -pa "$1" -e "$2")
    {output, status} = System.cmd("bash", ["-c", command, "-", ebin, code], stderr_to_stdout: true)
    assert {status, output} == {0, output}
    assert [zeros, share, "true", ""] = String.split(output, "\n")

    for {line, function} <- [{zeros, "zeros"}, {share, "share"}] do
      assert line =~ "{:system, :efbig} #{function}(): allocating the memory: shared memory counts as a file"
      assert line =~ "is 268435456 bytes; raise it (ulimit -f)"
    end
  end
end
