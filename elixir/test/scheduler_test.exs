alias Tenon.Test.Kernels, as: Build

Build.build!("kernels", Build.source("kernels.c"))

defmodule Tenon.SchedulerTest.Kernels do
  use Tenon.Library, path: Build.path("kernels")
end

defmodule Tenon.SchedulerTest do
  use Tenon.Case
  alias Tenon.OtherNif
  alias Tenon.SchedulerTest.Kernels

  # No scheduler is held by a release: while the deleter waits, every scheduler goes on running processes.

  test "a slow deleter holds up nobody" do
    {deleted, on_scheduler, _} = OtherNif.counts()
    tensor = Tenon.from_resource!(OtherNif.source(1, gate: true), OtherNif.type())
    OtherNif.close_gate()
    on_exit(&OtherNif.open_gate/0)
    Tenon.release(tensor)

    # Each scheduler answers while the deleter has not ended.
    answers =
      for scheduler <- 1..System.schedulers_online() do
        parent = self()
        :erlang.spawn_opt(fn -> send(parent, {scheduler, OtherNif.counts()}) end, [{:scheduler, scheduler}])
        receive do: ({^scheduler, counts} -> counts)
      end

    assert Enum.all?(answers, &(elem(&1, 0) == deleted))
    OtherNif.open_gate()
    assert eventually(fn -> elem(OtherNif.counts(), 0) == deleted + 1 end)
    assert elem(OtherNif.counts(), 1) == on_scheduler
    assert on_scheduler == 0
  end

  test "owners with binaries, held binaries and large blocks go to the reaper" do
    # A deleter that waits keeps the reaper busy, so that what comes behind it waits where it can be counted.
    before = Tenon.stats()
    OtherNif.close_gate()
    on_exit(&OtherNif.open_gate/0)
    tensor = Tenon.from_resource!(OtherNif.source(1, gate: true), OtherNif.type())
    binary = large(1_000_000)
    blob = %{Tenon.Blob.to_blob(tensor) | owner: nil}

    handles = [
      tensor,
      Tenon.from_binary!(binary, :u8),
      Tenon.Blob.from_blob(blob, owner: {binary}).tensor,
      Tenon.zeros!({16 * 1024 * 1024}, type: :u8)
    ]

    small = Tenon.zeros!({16})
    Tenon.release(tensor)
    # The runtime calls the destructor of its memory when this process waits, and that of others at once.
    Process.sleep(20)
    Enum.each(handles, &Tenon.release/1)
    assert eventually(fn -> Tenon.stats().deferred == before.deferred + length(handles) - 1 end)
    OtherNif.open_gate()
    Tenon.release(small)
    assert eventually(fn -> back_to?(before) end)
  end

  test "long work moves to a dirty scheduler" do
    # A process on a dirty scheduler says so to whoever asks for its status.
    for work <- [
          fn -> Tenon.from_binary!(large(64 * 1024 * 1024), :u8, copy: :always) end,
          fn -> Tenon.to_list!(Tenon.zeros!({2_000_000})) end,
          fn -> Tenon.from_list!(List.duplicate(1, 2_000_000)) end,
          fn -> Tenon.to_binary!(Tenon.zeros!({64 * 1024 * 1024}, type: :u8), copy: :always) end
        ] do
      tracer = self()
      pid = spawn(fn -> receive do: (:go -> work.()) end)
      reference = Process.monitor(pid)
      :erlang.trace(pid, true, [:running, :exiting, {:tracer, tracer}])
      send(pid, :go)
      assert_receive {:DOWN, ^reference, _, _, :normal}, 60_000
      assert_receive {:trace, ^pid, :in, {Tenon.Nif, _, _}}, 60_000
    end
  end

  # A percent of a time slice is 40 reductions; the runtime itself counts one for a call.
  test "work on a normal scheduler is reported to it" do
    list = Enum.to_list(1..4096)
    nested = for _ <- 1..64, do: Enum.to_list(1..64)
    binary = large(256 * 1024)
    tensor = Tenon.zeros!({4096})
    large = Tenon.zeros!({64 * 1024})
    blob = %{Tenon.Blob.to_blob(tensor) | owner: nil}
    owner = [make_ref() | Enum.to_list(1..4400)]

    for {name, least, work} <- [
          {:from_list, 1000, fn -> Tenon.from_list!(list) end},
          {:from_list, 1000, fn -> Tenon.from_list!(nested) end},
          {:from_list, 1000, fn -> Tenon.from_list(List.replace_at(list, 4095, :x), type: :u16) end},
          {:to_list, 1000, fn -> Tenon.to_list!(tensor) end},
          {:from_binary, 400, fn -> Tenon.from_binary!(binary, :u8, copy: :always) end},
          {:to_binary, 400, fn -> Tenon.to_binary!(large, copy: :always) end},
          {:zeros, 400, fn -> Tenon.zeros!({64 * 1024}) end},
          {:from_blob, 100, fn -> Tenon.Blob.from_blob(blob, owner: owner) end}
        ] do
      assert reductions(work) >= least, "#{name}"
    end

    # By the clock, and from the second time on for sure.
    ints = Enum.to_list(1..4000)
    for _ <- 1..40, do: Kernels.echo_ints(ints)
    assert reductions(fn -> Kernels.echo_ints(ints) end) >= 40
  end

  defp reductions(work) do
    in_process(fn ->
      # The garbage of the preparations is not part of the work.
      :erlang.garbage_collect()
      {:reductions, before} = Process.info(self(), :reductions)
      work.()
      {:reductions, now} = Process.info(self(), :reductions)
      now - before
    end)
  end

  test "parallel loops have threads on a dirty scheduler only" do
    code = """
    #include <pthread.h>
    #include <unistd.h>

    struct loop {
        int64_t *ids;
        int64_t serial;
        _Atomic int threads;
    };

    /* Each part waits until a second thread has begun one, for a minute. Without threads there is one part. */
    static tenon_status note(void *context, int64_t begin, int64_t end)
    {
        static _Thread_local int64_t met;
        struct loop *loop = context;
        if (met != loop->serial)
            loop->threads++;
        met = loop->serial;
        for (int i = 0; i < 60000 && loop->threads < 2 && end - begin < 64; i++)
            usleep(1000);
        for (int64_t i = begin; i < end; i++)
            loop->ids[i] = (int64_t)pthread_self();
        return TENON_OK;
    }

    static tenon_status threads(tenon_call *call)
    {
        static _Atomic int64_t serials;
        struct loop loop = {.ids = tenon_result_data(call, 0, int64_t), .serial = ++serials};
        return tenon_parallel_for(call, 64, 1, note, &loop);
    }

    TENON_MODULE(loops, NULL,
        TENON_FUNCTION_FLAGS("dirty() -> i64[64]", threads, NULL, TENON_RELEASE_LOCK),
        TENON_FUNCTION_FLAGS("normal() -> i64[64]", threads, NULL, TENON_KEEP_LOCK))
    """

    path = Build.build_text!("loops", code)
    Code.eval_string("defmodule Tenon.SchedulerTest.Loops do\n  use Tenon.Library, path: #{inspect(path)}\nend")
    loops = Tenon.SchedulerTest.Loops
    count = fn tensor -> tensor |> Tenon.to_list!() |> Enum.uniq() |> length() end

    assert count.(apply(loops, :normal!, [])) == 1
    dirty = count.(apply(loops, :dirty!, []))
    if System.schedulers_online() > 1 and openmp?(), do: assert(dirty > 1), else: assert(dirty == 1)
    # Several at once: one of them has the threads.
    counts =
      1..4
      |> Enum.map(fn _ -> Task.async(fn -> count.(apply(loops, :dirty!, [])) end) end)
      |> Task.await_many(:infinity)

    assert Enum.all?(counts, &(&1 >= 1))
  end

  defp openmp?, do: File.read!("/proc/self/maps") =~ ~r/lib(g|i)?omp/

  test "+sssdcpu gives dirty schedulers the stack that a function needs" do
    path =
      Build.build_text!("stack", """
      #include <string.h>
      static tenon_status deep(tenon_call *call)
      {
          volatile char locals[400 * 1024];
          memset((void *)locals, 1, sizeof locals);
          tenon_return_int(call, 0, locals[0] + locals[sizeof locals - 1]);
          return TENON_OK;
      }
      TENON_MODULE(stack, "", TENON_FUNCTION("deep() -> int", deep, ""))
      """)

    paths = Enum.flat_map(:code.get_path(), &['-pa', &1])
    {:ok, peer, _} = :peer.start_link(%{connection: :standard_io, args: ['+sssdcpu', '256' | paths]})
    {:ok, _} = :peer.call(peer, :application, :ensure_all_started, [:elixir], :infinity)
    options = inspect(path: path, schedulers: [deep: :dirty])
    code = "defmodule Tenon.SchedulerTest.Stack do use Tenon.Library, #{options} end"
    :peer.call(peer, Code, :compile_string, [code], :infinity)
    assert :peer.call(peer, Tenon.SchedulerTest.Stack, :deep, [], :infinity) == {:ok, 2}
    :peer.stop(peer)
  end

  # Since OTP 27 a NIF cannot see that a binary starts inside a byte before it has copied all of it, unless it knows the
  # size from elsewhere.
  @sees_bits System.otp_release() < "27"

  test "bits that start inside a byte are copied elsewhere" do
    size = 8_000_000
    <<_::1, bits::binary-size(size), _::bits>> = large(size + 8)
    blob = %{ptr: 4096, shape: {1}, dtype: :u8, device: {:cuda, 0}}

    for work <- [
          fn -> Tenon.from_binary!(bits, :u8) end,
          fn -> assert reason(Tenon.from_binary(bits, :u8, copy: :never)) == :would_copy end,
          fn -> Kernels.is_dirty({bits, :u8, {size}}) end
        ] do
      refute copies_here?(work, size)
    end

    if @sees_bits do
      for work <- [
            fn -> Tenon.Blob.from_blob(blob, owner: [bits, bits]) end,
            fn -> assert {:size_mismatch, 5, ^size} = reason(Kernels.is_dirty({bits, :u8, {5}})) end,
            fn -> assert Kernels.is_dirty_for_text(bits) == {:ok, true} end,
            fn -> assert reason(Kernels.echo_enum(bits)) == {:badarg, :x} end
          ] do
        refute copies_here?(work, size)
      end
    end

    assert copies_here?(fn -> :erlang.crc32(bits) end, size)
  end

  # Whether the work makes a normal scheduler allocate so much temporary memory.
  defp copies_here?(work, size) do
    temporary_bytes()
    in_process(work)
    temporary_bytes() >= size
  end

  # The most that a normal scheduler has had in large blocks since the last question. Other threads have the instance 0.
  defp temporary_bytes do
    most =
      for {:instance, number, sizes} when number > 0 <- :erlang.system_info({:allocator, :temp_alloc}) do
        {:carriers_size, _now, most, _ever} = List.keyfind(sizes[:sbcs], :carriers_size, 0)
        most
      end

    Enum.max(most)
  end
end
