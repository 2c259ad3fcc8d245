defmodule Tenon.PackageTest do
  use ExUnit.Case

  alias Tenon.Test.Kernels, as: Build

  # The files of the Hex package, copied to where Tenon's repository is not, build by themselves. The project of the README
  # uses them, and becomes a release that is moved.

  @moduletag timeout: :infinity
  @root Path.expand("..", __DIR__)

  setup_all do
    work = Path.join(System.tmp_dir!(), "tenon_package_#{System.pid()}")
    File.mkdir_p!(work)
    on_exit(fn -> File.rm_rf!(work) end)
    files = package_files(work)

    # As the README says it: the package is in ../tenon/elixir.
    folder = Path.join(work, "a copy")
    for file <- files, do: write!(Path.join([folder, "tenon/elixir", file]), File.read!(Path.join(@root, file)))
    example = Path.join(folder, "example")
    outputs = follow(File.read!(Path.join(@root, "README.md")), example)

    run!(example, "mix", ["release", "--quiet", "--path", Path.join(work, "release")])
    File.rename!(Path.join(work, "release"), Path.join(work, "moved"))
    File.rename!(folder, folder <> "_gone")
    {:ok, release: Path.join(work, "moved"), files: files, outputs: outputs, gone: folder <> "_gone"}
  end

  # Hex itself may not be installed. This finds files as its task does.
  @hex_build """
  defmodule Mix.Tasks.Hex.Build do
    use Mix.Task

    def run(_) do
      for pattern <- Mix.Project.config()[:package][:files] do
        found = Path.wildcard(pattern)
        if found == [], do: Mix.raise("Missing files: " <> pattern)
        inside = Enum.flat_map(found, &if(File.dir?(&1), do: Path.wildcard(&1 <> "/**"), else: [&1]))
        for file <- inside, File.regular?(file), do: IO.puts("file: " <> file)
      end
    end
  end
  """

  defp package_files(work) do
    {task, make, calls} = {Path.join(work, "hex.exs"), Path.join(work, "make"), Path.join(work, "calls")}
    File.write!(task, @hex_build)
    # The real one, and a note that it was called.
    File.write!(make, ~s(#!/bin/sh\necho "$@" >>'#{calls}'\nexec make "$@"\n))
    File.chmod!(make, 0o755)
    arguments = ["-r", task, "-S", "mix", "hex.build"]
    {text, status} = System.cmd("elixir", arguments, cd: @root, env: [{"MAKE", make}], stderr_to_stdout: true)
    assert status == 0, text
    assert File.read!(calls) == "-s bundle\n"
    for [_, file] <- Regex.scan(~r/^file: (.*)$/m, text), do: file
  end

  # Does what a document says: writes the blocks that name a file, and runs those of sh. The result is what each of them
  # printed, beside the block of text that follows it.
  defp follow(text, folder) do
    blocks = Regex.scan(~r/^```(\w+)\n(.*?)^```/ms, text, capture: :all_but_first)

    Enum.flat_map(Enum.zip(blocks, tl(blocks) ++ [["", ""]]), fn
      {["sh", command], [_, expected]} ->
        [{run!(folder, "sh", ["-euc", command]), expected}]

      {["text", _], _} ->
        []

      {[_, block], _} ->
        [_, file] = Regex.run(~r{^(?:# |/\* )(\S+)}, block)
        write!(Path.join(folder, file), block)
        []
    end)
  end

  defp write!(file, text) do
    File.mkdir_p!(Path.dirname(file))
    File.write!(file, text)
  end

  defp run!(folder, command, arguments) do
    # The build of the tests is not the copy's.
    env = [{"MIX_ENV", "prod"}, {"MIX_BUILD_PATH", nil}, {"CFLAGS", "-O1"}, {"LDFLAGS", nil}, {"LD_PRELOAD", nil}]
    env = [{"SANITIZE", nil} | env]
    {text, status} = System.cmd(command, arguments, cd: folder, env: env, stderr_to_stdout: true)
    assert status == 0, text
    text
  end

  test "the package has what it needs, and nothing that was built", %{files: files} do
    for file <-
          ~w(LICENSE README.md tour.livemd docs/signatures.md Makefile mix.exs include/tenon/nif.h lib/tenon.ex) ++
            ~w(lib/mix/tasks/compile/tenon.ex c_src/nif.c c_src/nif.h) ++
            ~w(c_src/vendor/tenon.c c_src/vendor/tenon.h c_src/vendor/tenon_function.h) ++
            ~w(c_src/vendor/function.hpp c_src/vendor/stl.hpp c_src/vendor/cpp/bind.hpp) do
      assert file in files
    end

    assert length(files) == length(Enum.uniq(files))
    text = ~w(.c .ex .exs .h .hpp .livemd .md)
    assert Enum.reject(files, &(Path.extname(&1) in text)) |> Enum.sort() == ["LICENSE", "Makefile"]

    if repository = Build.repository("LICENSE") do
      assert File.read!(Path.join(@root, "LICENSE")) == File.read!(repository)
      assert File.read!(Path.join(@root, "docs/signatures.md")) == File.read!(Build.repository("docs/signatures.md"))
    end
  end

  test "the README opens with the dependency, and its examples print what they say", %{outputs: outputs} do
    text = File.read!(Path.join(@root, "README.md"))
    [first] = Regex.run(~r/^```.*?^```/ms, text)
    assert first =~ "```elixir\n# mix.exs\n" and first =~ ~s(deps: [{:tenon, path: "../tenon/elixir"}])
    assert [_, _, _] = outputs
    for {printed, expected} <- outputs, do: assert(String.ends_with?(printed, expected), printed)
  end

  test "what was built there is in the build", %{gone: gone} do
    built = Path.wildcard(Path.join(gone, "**/*.{so,o}"))

    assert Enum.map(built, &Path.basename/1) |> Enum.filter(&(&1 =~ ".so")) |> Enum.sort() == [
             "kernels.so",
             "series.so",
             "tenon_nif.so"
           ]

    for file <- built, do: assert(file =~ "/example/_build/prod/")
  end

  test "a moved release loads the NIF and its library, and has the headers", %{release: release} do
    code = "IO.inspect({Tenon.to_list!(Tenon.zeros!({2})), File.ls!(Path.join(Tenon.include_dir(), ~s(tenon)))})"
    text = run!(release, Path.join(release, "bin/example"), ["eval", code])
    assert text =~ ~s({[0.0, 0.0], [)
    assert text =~ "function.h"
    assert text =~ "nif.h"
    code = "x = Tenon.from_list!([1, 2], type: {:f, 32}); IO.inspect(Tenon.to_list!(Kernels.saxpy!(2, x, x)))"
    assert run!(release, Path.join(release, "bin/example"), ["eval", code]) =~ "[3.0, 6.0]"
  end

  if Build.repository("core/src") && System.find_executable("python3") do
    # A copy of what the NIF is built from.
    defp copy_core! do
      copy = Path.join(System.tmp_dir!(), "tenon_core_#{System.pid()}")
      on_exit(fn -> File.rm_rf!(copy) end)

      for part <-
            ~w(LICENSE tools/bundle core/include core/src python/include python/src frameworks docs/signatures.md) ++
              ~w(elixir/Makefile elixir/c_src elixir/include),
          source = Build.repository(part) do
        File.mkdir_p!(Path.dirname(Path.join(copy, part)))
        File.cp_r!(source, Path.join(copy, part))
      end

      copy
    end

    # A compiler that only says what it is called with.
    @compiler """
    #!/bin/sh
    echo "$@"
    while [ $# -gt 1 ]; do
        [ "$1" != -o ] || : >"$2"
        shift
    done
    """

    test "a file in any folder of the core is part of the NIF" do
      copy = copy_core!()
      compiler = Path.join(copy, "cc")
      File.write!(compiler, @compiler)
      File.chmod!(compiler, 0o755)

      build = fn ->
        # The times of files are those of the kernel's clock, which ticks.
        Process.sleep(20)
        env = [{"CC", compiler}, {"MIX_APP_PATH", Path.join(copy, "app")}, {"ERTS_INCLUDE", "/no/where"}]
        {text, status} = System.cmd("make", ["-s"], cd: Path.join(copy, "elixir"), env: env, stderr_to_stdout: true)
        assert status == 0, text
        text
      end

      links? = &(&1 =~ "-c c_src/vendor/tenon.c" and &1 =~ ~r(-o \S*/priv/tenon_nif.so))
      vendored = fn -> File.read!(Path.join(copy, "elixir/c_src/vendor/tenon.c")) end
      assert links?.(build.())
      assert build.() == ""
      refute vendored.() =~ "tenon__deep"

      for file <- ["src/tensor/tensor.c", "src/library/hash.c", "src/system/internal.h", "include/tenon/host.h"] do
        {_, 0} = System.cmd("touch", [Path.join([copy, "core", file])])
        assert links?.(build.()), file
      end

      # Two folders deep: a new one, a changed one, one that is moved with its old time, and one that is gone.
      deep = Path.join(copy, "core/src/tensor/one/two/deep.c")
      File.mkdir_p!(Path.dirname(deep))

      for line <- ["int tenon__deep(void) { return 1; }", "int tenon__deep(void) { return 2; }"] do
        File.write!(deep, "int tenon__deep(void);\n#{line}\n")
        assert links?.(build.())
        assert vendored.() =~ line
      end

      File.rename!(deep, Path.join(copy, "core/src/tensor/one/two/moved.c"))
      assert links?.(build.())
      assert vendored.() =~ "moved.c"
      File.rm!(Path.join(copy, "core/src/tensor/one/two/moved.c"))
      assert links?.(build.())
      refute vendored.() =~ "tenon__deep"
      assert build.() == ""

      assert Enum.sort(File.ls!(Path.join(copy, "elixir/c_src/vendor"))) ==
               ~w(cpp function.hpp sources stl.hpp tenon.c tenon.h tenon_function.h)
    end
  end

  test "what was built with other flags is built again" do
    work = Path.join(System.tmp_dir!(), "tenon_flags_#{System.pid()}")
    on_exit(fn -> File.rm_rf!(work) end)
    object = Path.join(work, "obj/error.o")
    erts = Path.join([:code.root_dir(), "erts-#{:erlang.system_info(:version)}", "include"])

    build = fn flags, sanitize ->
      env = [{"MIX_APP_PATH", work}, {"ERTS_INCLUDE", erts}, {"CFLAGS", flags}, {"SANITIZE", sanitize}]
      assert {"", 0} = System.cmd("make", ["-s", object], cd: @root, env: env, stderr_to_stdout: true)
      File.read!(object)
    end

    flags = ~S(-O1 -DNAME='"x y"')
    build.(flags, nil)
    File.write!(object, "as it was")
    assert build.(flags, nil) == "as it was"
    refute build.("-O1", nil) =~ "__asan"
    assert build.("-O1", "address") =~ "__asan"
  end

  test "the library shows nothing but its entry" do
    library = Application.app_dir(:tenon, "priv/tenon_nif.so")
    {text, 0} = System.cmd("nm", ["-D", "--defined-only", library])
    symbols = text |> String.split("\n", trim: true) |> Enum.map(&List.last(String.split(&1)))
    assert Enum.reject(symbols, &String.starts_with?(&1, ["__asan", "__odr_asan", "_init", "_fini"])) == ["nif_init"]
  end

  test "the library needs no semaphore without a name, which macOS does not have" do
    library = Application.app_dir(:tenon, "priv/tenon_nif.so")
    {text, 0} = System.cmd("nm", ["-D", "--undefined-only", library])
    refute text =~ ~r/ sem_/
  end
end
