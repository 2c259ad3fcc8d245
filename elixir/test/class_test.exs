defmodule Tenon.ClassTest do
  # Not async: the library counts what is alive.
  use ExUnit.Case

  alias Tenon.Test.Kernels, as: Build

  defmodule Classes do
    use Tenon.Library, path: Build.build!("classes", Build.source("classes.c"))
  end

  defmodule Twice do
    use Tenon.Library, path: Build.path("classes")
  end

  alias Classes.{Counter, Free}

  import Tenon.Case, only: [eventually: 1, reason: 1]

  @code Build.path("classes_code")

  setup do
    {made, destroyed, _, _} = before = Classes.counts!()
    assert made == destroyed

    on_exit(fn ->
      assert eventually(fn -> match?({made, made, _, _}, Classes.counts!()) end)
    end)

    {:ok, before: before}
  end

  # How many objects were destroyed since the test began.
  defp destroyed(before), do: elem(Classes.counts!(), 1) - elem(before, 1)

  describe "a class" do
    test "is a module with a struct, new, methods, size and at" do
      assert {:ok, %Counter{ref: ref} = counter} = Counter.new(3)
      assert is_reference(ref)
      assert Counter.next(counter) == {:ok, 3}
      assert Counter.next!(counter) == 4
      assert Counter.size(counter) == {:ok, 5}
      assert Counter.size!(counter) == 5
      assert Counter.at!(counter, 4) == 16
      assert reason(Counter.at(counter, 5)) == {:failed, :ebounds}
      assert Counter.next!(Counter.new!()) == 0
      assert {:error, %{reason: {:failed, :einval}, message: "Counter(): start is negative"}} = Counter.new(-1)
      refute function_exported?(Classes, :Counter, 1)
      refute function_exported?(Counter, :__repr__, 1)
      assert Classes.BareClass.__struct__() == %Classes.BareClass{ref: nil}
      refute function_exported?(Classes.BareClass, :new, 0)
    end

    test "objects are arguments and results of functions" do
      counter = Counter.new!(7)
      assert %Counter{} = twin = Classes.twin!(counter)
      assert Counter.size!(twin) == 7
      assert Classes.twin!(nil) == nil
      assert Classes.add(counter, twin) == :ok
      assert Classes.add(counter, counter) == :ok
      assert Counter.size!(counter) == 28
    end

    test "two modules share the objects of a library" do
      assert Twice.Counter.next!(Counter.new!(2)) == 2
      assert %Twice.Counter{} = counter = Twice.Counter.new!(5)
      assert Counter.close(counter) == :ok
      assert reason(Twice.Counter.next(counter)) == :released
    end

    test "handles of version 1.0 are references" do
      assert {:ok, plain} = Classes.plain_new(4)
      assert is_reference(plain)
      assert Classes.plain_get!(plain) == 4
      assert reason(Classes.plain_get(Counter.new!())) == {:badarg, :plain}
      assert {:error, error} = Counter.next(%Counter{ref: plain})
      assert error.message == "Counter.next(): argument 'self': expected Counter, got a handle 'Plain' of classes"
    end

    test "another object, or no object, is an error" do
      for {wrong, what} <- [
            {Free.new!(), "an object of the class Free of classes"},
            {3, "an integer"},
            {nil, "nil"},
            {%{}, "a map"},
            {make_ref(), "a reference"},
            {%Counter{}, "Tenon.ClassTest.Classes.Counter"},
            {Tenon.zeros!({2}), "Tenon.Tensor"},
            {Counter.new!().ref, "a reference"}
          ] do
        assert {:error, %Tenon.Error{} = error} = Counter.next(wrong)
        assert {error.reason, error.function, error.argument} == {{:badarg, :self}, :"Counter.next", :self}
        assert error.message == "Counter.next(): argument 'self': expected Counter, got #{what}"
        assert {:error, %Tenon.Error{reason: {:badarg, :self}} = error} = Counter.close(wrong)
        assert error.message == "Counter.close(): argument 'self': expected Counter, got #{what}"
        assert reason(Classes.add(Counter.new!(), wrong)) == {:badarg, :b}
      end

      assert {:error, error} = Counter.next(%Counter{ref: make_ref()})
      assert {error.reason, error.argument} == {:stale, :self}
      assert error.message =~ "Counter.next(): argument 'self' is not a live object"
      assert reason(Counter.close(%Counter{ref: make_ref()})) == :stale

      encoded = :erlang.term_to_binary(Counter.new!())
      own = Atom.to_string(node())
      tags = [<<100, byte_size(own)::16, own::binary>>, <<119, byte_size(own), own::binary>>]
      elsewhere = :erlang.binary_to_term(:binary.replace(encoded, tags, <<119, 3, "a@b">>))

      for {result, function} <- [{Counter.next(elsewhere), "next"}, {Counter.close(elsewhere), "close"}] do
        assert reason(result) == {:not_local, :a@b}
        message = "Counter.#{function}(): argument 'self' belongs to the node a@b; only that node can call it"
        assert elem(result, 1).message == message
      end
    end

    test "documentation and specs come from the signatures" do
      before = for option <- [:docs, :debug_info], do: {option, Code.get_compiler_option(option)}
      Code.compiler_options(docs: true, debug_info: true)
      on_exit(fn -> Code.compiler_options(before) end)
      path = Build.path("classes")
      code = "defmodule Tenon.ClassTest.Documented do use Tenon.Library, path: #{inspect(path)} end"
      modules = Code.compile_string(code, @code)
      {_, binary} = List.keyfind(modules, Tenon.ClassTest.Documented.Counter, 0)
      {:ok, {_, [{_, docs}]}} = :beam_lib.chunks(binary, [~c"Docs"])
      {:docs_v1, _, :elixir, _, %{"en" => "Counts."}, _, functions} = :erlang.binary_to_term(docs)
      docs = for {{:function, name, arity}, _, _, %{"en" => doc}, _} <- functions, do: {{name, arity}, doc}
      assert {{:new, 1}, "Makes a counter.\n\n    Counter(start: int = 0)\n"} in docs
      assert Enum.any?(docs, &match?({{:close, 1}, "Closes the object." <> _}, &1))

      {:ok, specs} = Code.Typespec.fetch_specs(binary)
      shown = for {{name, _}, [spec]} <- specs, do: name |> Code.Typespec.spec_to_quoted(spec) |> Macro.to_string()
      assert "at(t(), integer()) :: {:ok, integer()} | {:error, Tenon.Error.t()}" in shown
      assert "new!(integer()) :: t()" in shown
      assert "close(t()) :: :ok | {:error, Tenon.Error.t()}" in shown
    end

    test "inspect uses __repr__, and never waits" do
      counter = Counter.new!(3)
      assert inspect(counter) == "#Tenon.ClassTest.Classes.Counter<at 3>"
      task = Task.async(fn -> Counter.wait!(counter) end)
      Build.until(fn -> Classes.waits!() == 1 end)
      assert inspect(counter) == "#Tenon.ClassTest.Classes.Counter<in a call>"
      Classes.end_waits!()
      assert Task.await(task, :infinity) == 3
      :ok = Counter.close(counter)
      assert inspect(counter) == "#Tenon.ClassTest.Classes.Counter<closed>"
      assert inspect(Free.new!()) =~ ~r/^#Tenon.ClassTest.Classes.Free<#Reference<[\d.]+>>$/
      assert inspect(%Counter{}) == "#Tenon.ClassTest.Classes.Counter<nil>"
    end

    test "names that Elixir does not have can be changed" do
      compile = fn options, entries ->
        path =
          Build.build_text!("class_names#{System.unique_integer([:positive])}", """
          static tenon_status f(tenon_call *call) { (void)call; return TENON_OK; }
          TENON_MODULE(names, NULL, #{entries})
          """)

        Code.eval_string("defmodule Tenon.ClassTest.Names do use Tenon.Library, path: #{inspect(path)}#{options} end")
      end

      fails = fn entries -> Exception.message(assert_raise(CompileError, fn -> compile.("", entries) end)) end
      class = "TENON_CLASS(\"A\", NULL), "
      assert fails.(class <> "TENON_FUNCTION(\"A.fn(self)\", f, NULL)") =~ "rename: [\"A.fn\": :c_fn]"
      two = class <> "TENON_FUNCTION(\"A.size(self)\", f, NULL), TENON_FUNCTION(\"A.__len__(self) -> int\", f, NULL)"
      assert fails.(two) =~ "two functions of Tenon.ClassTest.Names.A are called size"

      assert fails.(class <> "TENON_CLASS(\"a\", NULL), TENON_FUNCTION(\"A()\", f, NULL)") =~
               "two classes would have the module Tenon.ClassTest.Names.A"

      compile.(", rename: [\"A.size\": :bytes]", two)
      assert function_exported?(Tenon.ClassTest.Names.A, :bytes, 1)
      assert function_exported?(Tenon.ClassTest.Names.A, :size, 1)
    after
      purge([Tenon.ClassTest.Names, Tenon.ClassTest.Names.A])
    end

    test "a class's module works before the library's module is loaded" do
      folder = Build.path("late") <> ".d"
      File.mkdir_p!(folder)
      path = inspect(Build.path("classes"))

      for {module, binary} <-
            Code.compile_string("defmodule Tenon.ClassTest.Late do use Tenon.Library, path: #{path} end") do
        File.write!(Path.join(folder, "#{module}.beam"), binary)
      end

      code = "IO.inspect(Tenon.ClassTest.Late.Counter.next!(Tenon.ClassTest.Late.Counter.new!(6)))"
      arguments = ["-pa", Application.app_dir(:tenon, "ebin"), "-pa", folder, "-e", code]
      assert System.cmd("elixir", arguments, stderr_to_stdout: true) == {"6\n", 0}
    end
  end

  defp purge(modules) do
    for module <- modules do
      :code.purge(module)
      :code.delete(module)
      :code.purge(module)
    end
  end

  describe "close" do
    test "destroys the object once, and the object is released", %{before: before} do
      counter = Counter.new!()
      assert Counter.close(counter) == :ok
      assert eventually(fn -> destroyed(before) == 1 end)
      assert Counter.close(counter) == :ok

      for call <- [&Counter.next/1, &Counter.size/1, &Counter.rest(&1, 1), &Counter.at(&1, 0)] do
        assert {:error, %Tenon.Error{reason: :released, message: message}} = call.(counter)
        assert message =~ ~r/^Counter\.\w+\(\): this Counter is closed$/
      end

      for {name, arguments} <- [a: [counter, Counter.new!()], b: [Counter.new!(), counter], a: [counter, counter]] do
        assert {:error, error} = apply(Classes, :add, arguments)
        assert error.reason == :released and error.argument == name
        assert error.message == "add(): argument '#{name}': this Counter is closed"
      end

      assert_raise Tenon.Error, "Counter.next(): this Counter is closed", fn -> Counter.next!(counter) end
    end

    test "waits for a running call", %{before: before} do
      for class <- [Counter, Free] do
        object = class.new!(9)
        task = Task.async(fn -> class.wait(object) end)
        Build.until(fn -> Classes.waits!() == 1 end)
        closers = for _ <- 1..4, do: Task.async(fn -> {class.close(object), Classes.waits!()} end)
        Process.sleep(20)
        Classes.end_waits!()
        assert Enum.map(closers, &Task.await(&1, :infinity)) == [{:ok, 0}, {:ok, 0}, {:ok, 0}, {:ok, 0}]
        assert Task.await(task, :infinity) == {:ok, 9}
        assert reason(class.rest(object, 1)) == :released
      end

      assert eventually(fn -> destroyed(before) == 2 end)
    end

    test "while 16 processes call", %{before: before} do
      for class <- [Counter, Free], _ <- 1..20 do
        object = class.new!()

        tasks =
          for i <- 1..16 do
            Task.async(fn ->
              if i == 8, do: class.close(object), else: Enum.map(1..20, fn _ -> reason_or_ok(class.most(object)) end)
            end)
          end

        results = tasks |> Enum.map(&Task.await(&1, :infinity)) |> List.flatten() |> Enum.uniq()
        assert results -- [:ok, :released] == []
      end

      assert eventually(fn -> destroyed(before) == 40 end)
    end
  end

  defp reason_or_ok({:ok, _}), do: :ok
  defp reason_or_ok(error), do: reason(error)

  describe "calls on one object" do
    test "run one after the other, from 16 processes" do
      counter = Counter.new!()
      tasks = for _ <- 1..16, do: Task.async(fn -> for _ <- 1..200, do: Counter.next!(counter) end)
      values = tasks |> Enum.flat_map(&Task.await(&1, 60_000)) |> Enum.sort()
      assert values == Enum.to_list(0..3199)
      assert Counter.most!(counter) == 1
    end

    test "on normal and dirty schedulers" do
      counter = Counter.new!()
      rests = for _ <- 1..4, do: Task.async(fn -> Counter.rest!(counter, 20) end)
      nexts = for _ <- 1..4, do: Task.async(fn -> for _ <- 1..20, do: Counter.next!(counter) end)
      Enum.each(rests ++ nexts, &Task.await(&1, 60_000))
      assert Counter.most!(counter) == 1
      assert Counter.size!(counter) == 80
    end

    test "run at the same time if the class is concurrent" do
      free = Free.new!()
      tasks = for _ <- 1..2, do: Task.async(fn -> Free.wait!(free) end)
      Build.until(fn -> Classes.waits!() == 2 end)
      Classes.end_waits!()
      Enum.each(tasks, &Task.await(&1, :infinity))
      assert Free.most!(free) == 2
    end

    test "with several objects do not wait for each other for ever" do
      [a, b, c] = for _ <- 1..3, do: Counter.new!(1)

      calls = [
        fn -> Classes.add!(a, b) end,
        fn -> Classes.add!(b, a) end,
        fn -> Classes.add!(b, c) end,
        fn -> Classes.add!(c, a) end,
        fn -> Classes.add!(a, a) end,
        fn -> Classes.add_slowly!(a: c, b: b) end,
        fn -> Classes.add_slowly!(b: c, a: a) end
      ]

      tasks = for call <- calls, _ <- 1..3, do: Task.async(fn -> for _ <- 1..30, do: call.() end)
      Enum.each(tasks, &Task.await(&1, 60_000))
      assert Enum.map([a, b, c], &Counter.most!/1) == [1, 1, 1]
    end

    test "no scheduler waits" do
      counter = Counter.new!()
      running = Task.async(fn -> Counter.wait!(counter) end)
      Build.until(fn -> Classes.waits!() == 1 end)
      waiting = for _ <- 1..(4 * System.schedulers_online()), do: Task.async(fn -> Counter.next!(counter) end)
      # Other processes get their turns meanwhile, on all schedulers.
      others = for _ <- 1..(4 * System.schedulers_online()), do: Task.async(fn -> Process.sleep(5) end)
      Enum.each(others, &Task.await(&1, :infinity))
      assert Enum.all?([running | waiting], &Process.alive?(&1.pid))
      Classes.end_waits!()
      Enum.each([running | waiting], &Task.await(&1, 60_000))
    end

    test "a process that dies in a call leaves the object usable", %{before: before} do
      counter = Counter.new!(5)
      runner = spawn(fn -> Counter.wait!(counter) end)
      Build.until(fn -> Classes.waits!() == 1 end)
      waiters = for _ <- 1..4, do: spawn(fn -> Counter.rest!(counter, 1) end)
      for pid <- [runner | waiters], do: Process.exit(pid, :kill)
      Classes.end_waits!()
      assert Counter.next!(counter) == 5
      assert destroyed(before) == 0

      # The last reference is in the call of a process that dies.
      pid =
        spawn(fn ->
          mine = Counter.new!(1)
          Counter.wait!(mine)
        end)

      Build.until(fn -> Classes.waits!() == 1 end)
      Process.exit(pid, :kill)
      Classes.end_waits!()
      assert eventually(fn -> destroyed(before) == 1 end)
      assert Counter.close(counter) == :ok
    end
  end

  test "the VM ends with objects alive, kept memory and a running call" do
    script = Build.path("ending") <> ".exs"

    File.write!(script, """
    defmodule Ending do
      use Tenon.Library, path: #{inspect(Build.path("classes"))}
    end

    counter = Ending.Counter.new!()
    store = Ending.Store.new!(Ending.load!(1000))
    :persistent_term.put(:alive, [counter, store, Ending.Store.own!(store)])
    spawn(fn -> Enum.find(Stream.repeatedly(fn -> Ending.Counter.rest(counter, 300) end), &match?({:error, _}, &1)) end)
    Enum.find(Stream.repeatedly(fn -> Ending.resting!() end), &(&1 == 1))
    for _ <- 1..4, do: spawn(fn -> Ending.Counter.close(counter) end)
    Process.sleep(20)
    IO.puts("ends")
    """)

    arguments = ["-pa", Application.app_dir(:tenon, "ebin"), script]
    assert System.cmd("elixir", arguments, stderr_to_stdout: true) == {"ends\n", 0}
  end

  test "100,000 objects made and dropped", %{before: before} do
    Tenon.Case.in_process(fn -> for _ <- 1..100_000, do: Counter.new!() && :ok end)
    assert eventually(fn -> destroyed(before) == 100_000 end)
  end

  test "names" do
    x = Tenon.zeros!({3, 2}, type: :f64)
    assert Classes.by_name!(x) == {3, 2, 64}
    assert {:error, error} = Classes.no_name(Tenon.zeros!({3}, type: :f32))
    assert error.message =~ "no_name(): " and error.message =~ "'m'"
  end

  test "a signature file describes the same classes" do
    path = Build.path("classes")
    {:ok, {doc, entries}} = Tenon.Nif.library_describe(path)

    text =
      Enum.map_join(entries, "\n\n", fn {text, doc, _} ->
        Enum.join(if(doc, do: ["# " <> doc], else: []) ++ [text], "\n")
      end)

    {:ok, ^doc, parsed} = Tenon.Signature.parse_file("# classes\n# #{doc}\n\n" <> text)
    described = for {text, doc, read} <- entries, do: %{Tenon.Signature.described(text, read) | doc: doc}
    assert parsed === described
    assert Enum.map(parsed, & &1.role) |> Enum.frequencies() == %{class: 4, constructor: 3, function: 21, method: 15}

    file = Build.path("classes") <> ".txt"
    File.write!(file, text)

    Code.eval_string("""
    defmodule Tenon.ClassTest.FromFile do
      use Tenon.Library, path: #{inspect(path)}, signatures: #{inspect(file)}
    end
    """)

    counter = apply(Tenon.ClassTest.FromFile.Counter, :new!, [3])
    assert apply(Tenon.ClassTest.FromFile.Counter, :size!, [counter]) == 3
  end
end
