defmodule Tenon.Upgrade do
  @moduledoc "Replaces the NIF of a running node by another copy of it, and looks at what was made before. For a peer."

  @nif_source Path.expand("../../lib/tenon/nif.ex", __DIR__)

  def run(folder) do
    own = Tenon.from_list!(Enum.to_list(1..1000))
    held = Tenon.from_binary!(:binary.copy("01234567", 1000), :u8)
    foreign = Tenon.from_resource!(Tenon.OtherNif.source(3), Tenon.OtherNif.type())
    shown = Tenon.to_binary!(own)
    kernels = library("kernels")
    counter = kernels.counter_new!(7)
    {1, 1} = kernels.counts!()
    classes = library("classes")
    object = apply(Module.concat(classes, Counter), :new!, [3])
    given = classes.load!(4)
    store = apply(Module.concat(classes, Store), :new!, [given])
    shared = Tenon.Shared.zeros!({3})
    name = Tenon.Shared.name!(shared)
    before = Tenon.stats()
    old = load(Path.join(folder, "second"))
    # Without the old code nothing but the memory map holds the old copy of the library.
    :code.purge(Tenon.Nif)

    checks = [
      own: Tenon.to_list!(own) == Enum.to_list(1..1000),
      held: binary_part(Tenon.to_binary!(held), 0, 8) == "01234567",
      foreign: Tenon.to_list!(foreign) == [0.0, 1.0, 2.0],
      shown: shown == Tenon.to_binary!(own),
      frozen: not Tenon.writable?(own),
      views: Tenon.to_list!(Tenon.slice!(own, [5], [1])) == [6],
      other_nif: match?({:ok, _}, Tenon.OtherNif.hold(foreign.ref, 0)),
      stats: Tenon.stats().bytes == before.bytes,
      calls: Tenon.to_list!(kernels.count_up!(2)) == [0.0, 1.0],
      handle: kernels.counter_next!(counter) == 7,
      object: apply(object.__struct__, :next!, [object]) == 3,
      kept: apply(store.__struct__, :sum!, [store]) == 6.0,
      closed: Enum.map([object, store], &apply(&1.__struct__, :close, [&1])) == [:ok, :ok],
      given: Tenon.to_list!(given) == [0.0, 1.0, 2.0, 3.0],
      shared: Tenon.Shared.name!(shared) == name and not Tenon.writable?(Tenon.Shared.freeze!(shared)),
      attached: Tenon.to_list!(Tenon.Shared.attach!(name)) == [0.0, 0.0, 0.0],
      state: kernels.counts!() == {1, 2},
      purged: not :erlang.check_old_code(Tenon.Nif),
      replaced: old != version()
    ]

    Enum.each([own, held, foreign, given, shared], &Tenon.release/1)
    # Back to the first copy, and on again: no copy is counted twice.
    load(Application.app_dir(:tenon, "priv/tenon_nif"))
    :code.purge(Tenon.Nif)
    load(Path.join(folder, "second"))
    # Objects made, destroyed; memory given, released.
    ended = fn -> classes.counts!() == {2, 2, 1, 1} end
    checks ++ [made_after: Tenon.to_list!(Tenon.zeros!({2})) == [0.0, 0.0], released: released?(3000), ended: ended.()]
  end

  defp library(name) do
    path = Tenon.Test.Kernels.build!(name, Tenon.Test.Kernels.source(name <> ".c"))
    module = Module.concat(__MODULE__, Macro.camelize(name))
    Code.compile_string("defmodule #{inspect(module)} do use Tenon.Library, path: #{inspect(path)} end")
    module
  end

  # The binary `shown` went with its function's frame.
  defp released?(tries) do
    :erlang.garbage_collect()
    done = Tenon.stats() == %{live: 0, bytes: 0, deferred: 0} and elem(Tenon.OtherNif.counts(), 0) == 1

    cond do
      done -> true
      tries == 0 -> Tenon.stats()
      true -> Process.sleep(20) && released?(tries - 1)
    end
  end

  defp load(path) do
    old = version()
    unless File.exists?(path <> ".so"), do: File.cp!(Application.app_dir(:tenon, "priv/tenon_nif.so"), path <> ".so")

    source = String.replace(File.read!(@nif_source), ~s|Application.app_dir(:tenon, "priv/tenon_nif")|, inspect(path))
    Code.compiler_options(ignore_module_conflict: true)
    Code.compile_string(source)
    old
  end

  defp version, do: Tenon.Nif.module_info(:md5)
end
