defmodule Tenon.LibraryLoadingTest do
  use ExUnit.Case, async: false

  alias Tenon.Test.Kernels, as: Build

  # A library with one function, which gives a number.
  defp answer!(name, number, signature \\ "answer() -> int", first \\ "") do
    Build.build_text!(name, """
    #{first}
    static tenon_status answer(tenon_call *call) { tenon_return_int(call, 0, #{number}); return TENON_OK; }
    TENON_MODULE(#{name}, "It knows.", TENON_FUNCTION("#{signature}", answer, "The answer."))
    """)
  end

  defp unique(prefix), do: "#{prefix}_#{System.unique_integer([:positive])}"

  # Defines a module that uses a library; what was defined before under its name goes.
  defp define!(module, options) do
    quoted = quote(do: use(Tenon.Library, unquote(Macro.escape(options))))

    ExUnit.CaptureIO.capture_io(:stderr, fn ->
      Module.create(module, quoted, Macro.Env.location(__ENV__))
    end)

    module
  end

  defp new_module, do: Module.concat(__MODULE__, "M#{System.unique_integer([:positive])}")

  defp compile_error(options) do
    assert_raise(CompileError, fn -> define!(new_module(), options) end) |> Exception.message()
  end

  # What a module with these functions calls its first one by.
  defp id(functions), do: :erlang.phash2(functions, 0x100000000)
  defp key(functions), do: Bitwise.bsl(id(functions), 20)

  defp why({:error, %Tenon.Error{reason: {:library, why}}}), do: why
  defp message({:error, %Tenon.Error{message: message}}), do: message

  describe "a library that was built again" do
    test "is a new one for a module that is loaded again" do
      name = unique("again")
      path = answer!(name, 1)
      module = define!(new_module(), path: path)
      assert module.answer!() == 1
      answer!(name, 2)
      assert module.answer!() == 1
      define!(module, path: path)
      assert module.answer!() == 2
      answer!(name, 3)
      assert Tenon.Library.reload(module) == :ok
      assert module.answer!() == 3
      # The content counts, not when it was built.
      answer!(name, 1)
      assert Tenon.Library.reload(module) == :ok
      assert module.answer!() == 1
    end

    test "by several processes at once, while others call" do
      {one, two} = {answer!(unique("one"), 1), answer!(unique("two"), 2)}
      path = Build.path(unique("either"))
      File.cp!(one, path)
      module = define!(new_module(), path: path)

      write = fn source ->
        File.cp!(source, "#{path}.new")
        File.rename!("#{path}.new", path)
      end

      loads = for _ <- 1..8, do: Task.async(fn -> for _ <- 1..20, do: assert(Tenon.Library.reload(module) == :ok) end)
      calls = for _ <- 1..8, do: Task.async(fn -> for _ <- 1..500, do: assert(module.answer!() in [1, 2]) end)
      for source <- [two, one, two, one, two], do: write.(source)
      Task.await_many(loads ++ calls, 60_000)
      assert Tenon.Library.reload(module) == :ok
      assert module.answer!() == 2
    end

    test "with another signature is refused, showing both" do
      name = unique("other")
      path = answer!(name, 1)
      module = define!(new_module(), path: path)
      answer!(name, 2, "answer() -> int?")
      assert {:error, error} = Tenon.Library.reload(module)
      assert error.reason == {:library, :signature}
      assert error.message =~ "the module: answer() -> int\n"
      assert error.message =~ "the library: answer() -> int?"
      # What works goes on.
      assert module.answer!() == 1
      answer!(name, 2, "question() -> int")
      assert {:error, error} = Tenon.Library.reload(module)
      assert error.message =~ "the library has no function 'answer'"
      answer!(name, 3, " answer ( )\\t->int ")
      assert Tenon.Library.reload(module) == :ok
      assert module.answer!() == 3
    end

    test "old code of a module goes on with what it was compiled with" do
      name = unique("old")
      module = define!(new_module(), path: answer!(name, 1))
      key = key([{"answer() -> int", :auto}])
      assert Tenon.Nif.call(module, key, {}) == {:ok, 1}
      define!(module, path: answer!(name, 2, "answer(x: int = 0) -> int"))
      assert module.answer!() == 2
      assert Tenon.Nif.call(module, key, {}) == {:ok, 1}
    end
  end

  test "old code that never had a library is an error" do
    module = define!(new_module(), path: answer!(unique("old"), 1))
    # As the code of a module with other functions would call it, whose library was missing when it was loaded.
    old_key = Bitwise.bsl(module.__tenon_library__().id + 1, 20)

    for call <- [
          fn -> Tenon.Library.__call__(module, old_key, {}) end,
          fn -> Tenon.Library.__close__(module, old_key, %{ref: make_ref()}, "Class") end
        ] do
      task = Task.async(call)
      {:ok, result} = Task.yield(task, 60_000) || Task.shutdown(task, :brutal_kill) || flunk("it never ends")
      assert why(result) == :signature
      assert message(result) =~ "#{inspect(module)} was loaded again with other functions"
    end

    assert module.answer!() == 1
  end

  test "a NIF that is loaded again knows its libraries and handles" do
    module = define!(new_module(), path: Build.build!("kernels", Build.source("kernels.c")))
    counter = module.counter_new!(7)

    for number <- 7..9 do
      :code.purge(Tenon.Nif)
      {:module, Tenon.Nif} = :code.load_file(Tenon.Nif)
      :code.purge(Tenon.Nif)
      assert module.counter_next!(counter) == number
    end
  end

  describe "a library that is not there" do
    test "when the module is loaded: each call says so" do
      path = answer!(unique("gone"), 1)
      kept = File.read!(path)
      file = path <> ".tenon"
      File.write!(file, "answer() -> int\n")
      File.rm!(path)
      module = define!(new_module(), path: path, signatures: file)
      assert why(module.answer()) == :unreadable
      assert message(module.answer()) == "#{path}: No such file or directory"
      assert_raise Tenon.Error, fn -> module.answer!() end
      File.write!(path, kept)
      assert why(module.answer()) == :unreadable
      assert Tenon.Library.reload(module) == :ok
      assert module.answer!() == 1
      # And gone again, or replaced by half of one: what is open goes on.
      File.rm!(path)
      File.write!(path, binary_part(kept, 0, 1000))
      assert why(Tenon.Library.reload(module)) == :invalid
      File.rm!(path)
      assert why(Tenon.Library.reload(module)) == :unreadable
      assert module.answer!() == 1
    end

    test "when the application is not known" do
      file = Build.path("unknown") <> ".tenon"
      File.write!(file, "answer() -> int\n")
      module = define!(new_module(), otp_app: :no_such_app, path: "priv/x.so", signatures: file)
      assert why(module.answer()) == :unreadable
      assert message(module.answer()) =~ "no_such_app"
    end

    test "while the module is compiled: an error that says what to do" do
      assert compile_error(path: "/no/such.so") =~ "/no/such.so: No such file or directory; build it before"
      assert compile_error(path: "x.so", otp_app: :tenon) =~ "searched"
      assert compile_error(path: "x.so", signatures: "no.tenon") =~ "no such file or directory"
    end

    test "and the NIF comes later: the first call opens it" do
      # As a module whose on_load could not reach the NIF: it is bound to nothing.
      functions = [{"answer() -> int", :auto}]
      info = %{id: id(functions), otp_app: nil, path: answer!(unique("later"), 5), functions: functions}
      code = quote(do: def(__tenon_load__, do: Tenon.Library.__load__(__MODULE__, unquote(Macro.escape(info)))))
      {:module, late, _, _} = Module.create(new_module(), code, Macro.Env.location(__ENV__))
      assert Tenon.Nif.call(late, key(functions), {}) == :unbound
      assert Tenon.Library.__call__(late, key(functions), {}) == {:ok, 5}
      assert Tenon.Nif.call(late, key(functions), {}) == {:ok, 5}
    end

    test "and the NIF could not be loaded then: a call tries again" do
      functions = [{"answer() -> int", :auto}]
      info = %{id: id(functions), otp_app: nil, path: answer!(unique("mended"), 6), functions: functions}
      code = quote(do: def(__tenon_load__, do: Tenon.Library.__load__(__MODULE__, unquote(Macro.escape(info)))))
      {:module, late, _, _} = Module.create(new_module(), code, Macro.Env.location(__ENV__))
      :persistent_term.put({Tenon.Library, late}, %Tenon.Error{reason: {:library, :nif}, message: "not yet"})
      assert Tenon.Library.__call__(late, key(functions), {}) == {:ok, 6}
    end
  end

  describe "a file that is no library" do
    test "does not end the VM" do
      path = answer!(unique("cut"), 1)
      whole = File.read!(path)

      for {bytes, words} <- [
            {"", "the file is empty"},
            {"text", "it is not an ELF file"},
            {binary_part(whole, 0, 100), "the file is truncated"},
            {binary_part(whole, 0, div(byte_size(whole), 2)), "the file is truncated"}
          ] do
        File.write!(path, bytes)
        assert {:error, error} = Tenon.Nif.library_describe(path)
        assert error.reason == {:library, :invalid}
        assert error.message =~ words
      end

      assert {:error, error} = Tenon.Nif.library_describe(Path.dirname(path))
      assert error.reason == {:library, :unreadable}
      {_, 0} = System.cmd("mkfifo", [path <> ".pipe"])
      assert why(Tenon.Nif.library_describe(path <> ".pipe")) == :unreadable
    end

    test "or has no functions of Tenon's" do
      path = Build.build_text!(unique("plain"), "int nothing(void); int nothing(void) { return 1; }")
      assert compile_error(path: path) =~ "it is not a library of Tenon functions"
      path = answer!(unique("wrong"), 1, "answer(x: f32[n) -> int")
      assert compile_error(path: path) =~ "the signature of function 0: "
      path = answer!(unique("callable"), 1, "answer(f: callable('() -> int')) -> int")

      assert compile_error(path: path) =~
               "the signature of function 0: a callable is not possible here, because a NIF cannot call functions of Elixir"

      path =
        Build.build_text!(unique("null"), """
        TENON__EXPORT const tenon_module *tenon_module_v1(void);
        const tenon_module *tenon_module_v1(void) { return NULL; }
        """)

      assert compile_error(path: path) =~ "tenon_module_v1() returned NULL"
    end

    test "or needs a later version of the ABI" do
      later = "#undef TENON_ABI_MINOR\n#define TENON_ABI_MINOR 7\n"
      path = answer!(unique("later"), 1, "answer() -> int", later)

      assert compile_error(path: path) =~
               "it needs version 1.7 of the function ABI, but this host has 1.0; use a newer host, or compile it with"
    end

    test "or whose load fails" do
      path =
        Build.build_text!(unique("load"), """
        #include <stdlib.h>
        static tenon_status f(tenon_call *call) { (void)call; return TENON_OK; }
        static tenon_status load(tenon_call *call, void **state)
        {
            *state = NULL;
            return getenv("TENON_TEST_LOAD") ? TENON_OK : tenon_fail(call, TENON_EINVAL, "not today");
        }
        TENON_MODULE_STATE(loads, "", load, NULL, TENON_FUNCTION("f()", f, NULL))
        """)

      module = define!(new_module(), path: path)
      assert why(module.f()) == :load
      assert message(module.f()) == "#{path}: load(): not today"
    end

    test "or whose load makes a result" do
      path =
        Build.build_text!(unique("load_result"), """
        static tenon_status f(tenon_call *call) { (void)call; return TENON_OK; }
        static tenon_status load(tenon_call *call, void **state)
        {
            *state = NULL;
            return call->host->result_alloc(call, 0, TENON_F32, 0, NULL) ? TENON_OK : TENON_EFAILED;
        }
        TENON_MODULE_STATE(loads, "", load, NULL, TENON_FUNCTION("f()", f, NULL))
        """)

      module = define!(new_module(), path: path)
      assert message(module.f()) =~ "load has no results"
    end
  end

  test "a load that takes long holds up only those that need it" do
    folder = Path.join(System.tmp_dir!(), unique("tenon_load"))
    File.mkdir_p!(folder)
    on_exit(fn -> File.rm_rf!(folder) end)

    path =
      Build.build_text!(unique("slow_load"), """
      #include <stdio.h>
      #include <time.h>
      #include <unistd.h>
      static int loads;
      static tenon_status count(tenon_call *call) { tenon_return_int(call, 0, loads); return TENON_OK; }
      static tenon_status load(tenon_call *call, void **state)
      {
          struct timespec pause = {0, 1000000};
          (void)call;
          *state = NULL;
          loads++;
          fclose(fopen("#{folder}/started", "w"));
          while (access("#{folder}/go_on", F_OK))
              nanosleep(&pause, NULL);
          return TENON_OK;
      }
      TENON_MODULE_STATE(slow, "", load, NULL, TENON_FUNCTION("count() -> int", count, NULL))
      """)

    # More than the VM has schedulers for files.
    functions = [{"count() -> int", :auto}]
    modules = for _ <- 1..(2 * :erlang.system_info(:dirty_io_schedulers)), do: new_module()

    open = fn module ->
      Tenon.Library.__load__(module, %{id: id(functions), path: path, otp_app: nil, functions: functions})
    end

    tasks = for module <- modules, do: Task.async(fn -> open.(module) end)
    # Looking for the file needs such a scheduler.
    Build.until(fn -> File.exists?(folder <> "/started") end)
    Process.sleep(50)
    other = Task.async(fn -> define!(new_module(), path: answer!(unique("other"), 3)).answer!() end)
    answered = Task.yield(other, 60_000)
    # Otherwise the VM could not end either. This needs no scheduler of the VM for files.
    :os.cmd('touch #{folder}/go_on')
    assert answered == {:ok, 3}
    Enum.each(tasks, &Task.await(&1, :infinity))
    for module <- modules, do: assert(Tenon.Nif.call(module, key(functions), {}) == {:ok, 1})
  end

  test "reload takes modules that use Tenon.Library only" do
    for module <- [Enum, NoSuchModule, 1, nil, "x", Bitwise.bsl(1, 1_000_000)] do
      assert_raise ArgumentError, ~r/^reload\(\): expected a module that uses Tenon.Library, got /, fn ->
        Tenon.Library.reload(module)
      end
    end
  end

  describe "a library is opened in place" do
    # The files of a folder that the VM has mapped, those that are gone too: a name for each inode.
    defp mapped(folder) do
      rows = for line <- File.stream!("/proc/self/maps", [], :line), do: String.split(line, ~r/\s+/, parts: 6)
      found = for [_, _, _, _, inode, name] <- rows, String.starts_with?(name, folder <> "/"), do: {inode, name}
      found |> Enum.uniq() |> Enum.map(fn {_, name} -> name |> String.trim() |> String.replace(" (deleted)", "") end)
    end

    defp folder!(name) do
      folder = Build.path(unique(name)) <> ".d"
      File.mkdir_p!(folder)
      folder
    end

    test "once, and without a copy" do
      folder = folder!("place")
      path = Path.join(folder, "kernels.so")
      File.cp!(answer!(unique("place"), 1), path)
      module = define!(new_module(), path: path)
      define!(new_module(), path: path)
      assert mapped(folder) == [path]
      File.cp!(answer!(unique("newer"), 2), path <> ".new")
      File.rename!(path <> ".new", path)
      assert Tenon.Library.reload(module) == :ok
      assert module.answer!() == 2
      assert mapped(folder) == [path, path]
      assert File.ls!(folder) == ["kernels.so"]
    end

    test "so that it finds what is beside it" do
      folder = folder!("origin")
      File.mkdir_p!(Path.join(folder, "lib"))

      for {name, number} <- [{"lib/libhelper.so", 42}, {"libhelper.so", -1}] do
        built = Build.build_text!(unique("helper"), "int helper(void); int helper(void) { return #{number}; }")
        File.cp!(built, Path.join(folder, name))
      end

      source = Path.join(folder, "dependent.c")

      File.write!(source, """
      #include <tenon/function.h>
      extern int helper(void);
      static tenon_status answer(tenon_call *call) { tenon_return_int(call, 0, helper()); return TENON_OK; }
      TENON_MODULE(dependent, NULL, TENON_FUNCTION("answer() -> int", answer, NULL))
      """)

      path = Path.join(folder, "dependent.so")
      include = Application.app_dir(:tenon, "priv/include")
      rpath = "-Wl,-rpath,$ORIGIN/lib:#{folder}"
      command = ["-shared", "-fPIC", "-I", include, source, "-o", path, "-L#{folder}", "-lhelper", rpath]
      {_, 0} = System.cmd(System.get_env("CC", "cc"), command)
      assert define!(new_module(), path: path).answer!() == 42
    end

    test "and refused if it was written again while it was open" do
      folder = folder!("again")
      path = Path.join(folder, "kernels.so")
      File.cp!(answer!("rewritten", 1), path)
      newer = File.read!(answer!("rewritten", 2))
      module = define!(new_module(), path: path)
      assert module.answer!() == 1
      # Into the same inode, without cutting it off: what is open stays open.
      {:ok, file} = :file.open(path, [:read, :write, :binary])
      assert :file.write(file, newer) == :ok
      :file.close(file)
      assert {:error, error} = Tenon.Library.reload(module)
      assert why({:error, error}) == :unreadable
      assert Exception.message(error) =~ "it was overwritten while it was open"
      File.rm!(path)
      File.write!(path, newer)
      assert Tenon.Library.reload(module) == :ok
      assert module.answer!() == 2
      assert File.ls!(folder) == ["kernels.so"]
    end
  end

  # Tenon's modules in a folder where nothing else is: neither its NIF, nor Nx.
  defp alone(name, code) do
    folder = Path.join(Build.path(name) <> ".d", "tenon")
    ebin = Path.join(folder, "ebin")
    File.mkdir_p!(ebin)

    for file <- Path.wildcard(Application.app_dir(:tenon, "ebin/*Tenon*")),
        do: File.cp!(file, Path.join(ebin, Path.basename(file)))

    File.cp!(Application.app_dir(:tenon, "ebin/tenon.app"), Path.join(ebin, "tenon.app"))
    script = Path.join(folder, "script.exs")
    File.write!(script, code)
    run = fn -> System.cmd("elixir", ["-pa", ebin, script], stderr_to_stdout: true) end
    {run, folder}
  end

  test "without the NIF every call says so, and without Nx those that need it" do
    path = Build.build!("kernels", Build.source("kernels.c"))
    file = path <> ".alone"
    File.write!(file, "scale(x: f32[n] c rw, by: float)\n")

    {run, folder} =
      alone("alone", """
      defmodule K do
        use Tenon.Library, path: #{inspect(path)}, signatures: #{inspect(file)}
      end

      nx = K.scale(%{__struct__: Nx.Tensor}, 2)
      IO.inspect(for {:error, error} <- [Tenon.zeros({1}), nx, Tenon.Library.reload(K)], do: error.reason)
      """)

    assert {"[library: :nif, library: :nif, library: :nif]\n", 0} = run.()
    File.ln_s!(Application.app_dir(:tenon, "priv"), Path.join(folder, "priv"))
    assert {"[library: :nx]\n", 0} = run.()
    # In a folder of another name the application is not found.
    renamed = folder <> "_renamed"
    File.rename!(folder, renamed)
    arguments = ["-pa", Path.join(renamed, "ebin"), Path.join(renamed, "script.exs")]
    {output, 0} = System.cmd("elixir", arguments, stderr_to_stdout: true)
    assert output == "[library: :nif, library: :nif, library: :nif]\n"
  end

  describe "names" do
    defp named!(signatures) do
      entries = Enum.map_join(signatures, ", ", &~s|TENON_FUNCTION("#{&1}", f, NULL)|)

      Build.build_text!(unique("names"), """
      static tenon_status f(tenon_call *call) { (void)call; return TENON_OK; }
      TENON_MODULE(names, "", #{entries})
      """)
    end

    test "that cannot be are refused, with a way out" do
      for {signature, hint} <- [
            {"module_info()", "rename: [module_info: :c_module_info]"},
            {"FooBar()", ~s|rename: ["FooBar": :foo_bar]|},
            {"_()", "rename: [_: :c__]"},
            {"unquote(x: int)", "rename: [unquote: :c_unquote]"}
          ] do
        assert compile_error(path: named!([signature])) =~ hint
      end

      for name <- [:__tenon_load__, :__info__] do
        assert compile_error(path: named!(["f()"]), rename: [f: name]) =~ "#{name} cannot be the name"
      end

      assert compile_error(path: named!(["Gemm()", "gemm()"])) =~ ~s|rename: ["Gemm": :c_gemm]|
      module = define!(new_module(), path: named!(["module_info()", "plain()"]), rename: [module_info: :info])
      assert module.info() == :ok
      assert module.info!() == :ok
      assert module.plain() == :ok
    end

    test "of options must be there" do
      path = named!(["f()"])
      assert compile_error(path: path, rename: [g: :h]) =~ "there is no function g"
      assert compile_error(path: path, schedulers: [g: :dirty]) =~ "there is no function g"
      assert compile_error(path: path, schedulers: [f: :fast]) =~ "expected :normal, :dirty or :auto"
      assert compile_error(path: named!(["f()", "g()"]), rename: [f: :g]) =~ "two functions are called g"
      assert_raise ArgumentError, ~r/unknown option :pth/, fn -> define!(new_module(), pth: path) end

      for options <- [[rename: %{f: :g}], [rename: [f: "g"]], [schedulers: [:f]], [otp_app: "x"], [signatures: :x]] do
        assert_raise ArgumentError, ~r/expected .* as :/, fn -> define!(new_module(), [path: path] ++ options) end
      end

      assert_raise ArgumentError, ~r/a string as :path/, fn -> define!(new_module(), path: :x) end
      assert_raise ArgumentError, ~r/:path is missing/, fn -> define!(new_module(), []) end
    end

    test "beside another @on_load" do
      options = [path: named!(["f()"])]

      for first <- [quote(do: use(Tenon.Library, unquote(options))), quote(do: @on_load(:start))] do
        code =
          quote(
            do:
              (
                unquote(first)
                use(Tenon.Library, unquote(options))
              )
          )

        error = assert_raise CompileError, fn -> Module.create(new_module(), code, Macro.Env.location(__ENV__)) end
        assert error.description =~ "needs the @on_load of the module"
      end
    end

    test "twice" do
    end
  end

  describe "signatures from a file" do
    test "as describe prints them" do
      path = answer!(unique("described"), 42, "answer(x: int = 1,\\n  y: 'a b'|'c' = 'a b') -> int")
      file = path <> ".tenon"

      File.write!(file, """
      # kernels 1.0
      # It knows.
      # Much.

      # The answer.
      # All of it.
      answer(x: int = 1, y: 'a b'|'c' = 'a b') -> int
      """)

      module = define!(new_module(), path: path, signatures: file)
      assert module.answer() == {:ok, 42}
      assert module.answer(1, :c) == {:ok, 42}
      resources = for {:external_resource, files} <- module.module_info(:attributes), file <- files, do: file
      assert resources == [file]
      File.write!(file, "answer() -> int\n")
      assert why(define!(new_module(), path: path, signatures: file).answer()) == :signature
      File.write!(file, <<"answer() -> int\n# ", 0xFF>>)
      assert compile_error(path: path, signatures: file) =~ "it is not UTF-8"
      File.write!(file, "answer( -> int\n")
      assert compile_error(path: path, signatures: file) =~ "the signature answer( -> int: "
    end

    test "are what the library has" do
      path = Build.build!("kernels", Build.source("kernels.c"))
      {:ok, {_doc, functions}} = Tenon.Nif.library_describe(path)

      text =
        Enum.map_join(functions, "\n", fn {signature, doc, _} ->
          "# #{doc}\n#{Tenon.Signature.one_line(signature)}\n"
        end)

      file = path <> ".tenon"
      File.write!(file, text)
      module = define!(new_module(), path: path, signatures: file)
      assert module.__info__(:functions) == define!(new_module(), path: path).__info__(:functions)
      assert module.echo_enum!(:größe) == :größe
    end
  end

  if Build.repository("examples/functions/kernels.c") do
    test "the library of the examples, as Python has it" do
      path = Build.build!("example", Build.repository("examples/functions/kernels.c"))
      module = define!(new_module(), path: path)
      x = Tenon.from_list!([1, 2, 3], type: {:f, 32})
      y = Tenon.from_list!([4, 5, 6], type: {:f, 32})
      assert Tenon.to_list!(module.saxpy!(2.0, x, y)) == [6.0, 9.0, 12.0]
      assert module.dot(x, y) == {:ok, 32.0}
      assert module.scale(y, 2) == :ok
      assert {:ok, {z, 3.0}} = module.normalize(x, :max)
      assert {:ok, {_, 6.0}} = module.normalize(x)
      assert Tenon.to_list!(z) |> List.last() == 1.0
      assert module.normalize(Tenon.zeros!({2}, type: {:f, 32})) |> message() == "normalize(): the sum of x is 0"
      a = Tenon.from_list!([[1, 2], [3, 4]], type: {:f, 64})
      assert Tenon.to_list!(module.matmul!(a, Tenon.transpose!(a))) == [[5.0, 11.0], [11.0, 25.0]]
      assert Tenon.to_list!(module.nonzero!(Tenon.from_list!([0, 1, 0, 2], type: {:f, 32}))) == [1, 3]
    end
  end

  if Build.repository("python/tests/functions/lies.c") do
    defp reason({:error, %Tenon.Error{reason: reason}}), do: reason
    defp said({:error, %Tenon.Error{} = error}), do: {error.reason, error.message}

    test "functions that are wrong about themselves" do
      lies = define!(new_module(), path: Build.build!("lies", Build.repository("python/tests/functions/lies.c")))
      x = Tenon.from_list!([1, 2], type: {:f, 32})
      for what <- 0..21, do: assert({what, {:failed, :efailed}} == {what, reason(lies.ask(what, x))})
      assert {:ok, _} = lies.ask(99, x)
      for what <- 0..18, do: assert({:failed, _} = reason(lies.slots(what)))
      assert {:ok, {%Tenon.Tensor{shape: {3}}, 1, ""}} = lies.slots(99)
      assert reason(lies.status(1)) == {:failed, :einval}
      assert reason(lies.status(-7)) == {:failed, -7}
      assert {{:failed, :einval}, "ok_after_fail(): the first message stays"} == said(lies.ok_after_fail())
      assert reason(lies.fail_with_ok()) == {:failed, :efailed}

      assert said(lies.fail_without_text()) ==
               {{:failed, :einval}, "fail_without_text(): it failed with TENON_EINVAL and gave no reason"}

      assert byte_size(message(lies.fail_at_length())) in 900..1100
      assert message(lies.fail_in_no_utf8()) == "fail_in_no_utf8(): before ?? after"

      for name <- [:no_int, :no_float, :no_bool, :no_str, :no_enum, :no_handle, :no_second, :null_handle] do
        assert {name, {:failed, :efailed}} == {name, reason(apply(lies, name, []))}
      end

      assert message(lies.no_int()) == "no_int(): the function returned without setting result 0"
      assert reason(lies.no_open(3)) == {:failed, :efailed}
      assert lies.choice(1) == {:ok, :b}
      assert message(lies.choice(2)) == "choice(): the function set result 0 to choice 2, but there are only 2"
      assert reason(lies.choice(-1)) == {:failed, :efailed}
      assert message(lies.no_utf8()) == "no_utf8(): the function set result 0 to a string that is not UTF-8"
      before = lies.number_destroyed!()
      assert reason(lies.two_handles()) == {:failed, :efailed}
      assert reason(lies.handle_then_fail()) == {:failed, :einval}
      assert {:ok, _} = lies.static_handle()
      Build.until(fn -> lies.number_destroyed!() == before + 2 end)
      assert reason(lies.made_then_fail(x)) == {:failed, :ebounds}
      assert said(lies.shape_fails(x)) == {{:failed, :einval}, "shape_fails(): no shape"}
      assert reason(lies.shape_silent(x)) == {:failed, :efailed}
      assert lies.number_of_surprises!() == 0
    end
  end
end
