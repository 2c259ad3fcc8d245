defmodule Mix.Tasks.Compile.Tenon do
  @shortdoc "Builds libraries of Tenon functions"
  @moduledoc """
  Builds each `c_src/NAME.c` of a project into `priv/NAME.so`, for `Tenon.Library`.

      def project do
        [
          app: :my_app,
          compilers: [:tenon] ++ Mix.compilers(),
          tenon: [cflags: ["-O3", "-march=native"]],
          …
        ]
      end

  The options under `:tenon`, none of which is needed:

    * `:cflags` — for the C compiler; `["-O3"]` by default.
    * `:ldflags` — behind the sources, such as `["-lm"]`.
    * `:libraries` — `[kernels: ["c_src/a.c", "c_src/b.c"]]`, instead of one library for each file.

  The compiler is `$CC`, or `cc`. What is newer than its sources, the headers beside them and `tenon/function.h` is not
  built again.
  """
  use Mix.Task.Compiler

  @recursive true

  @impl true
  def run(args) do
    options = options()
    force? = "--force" in args
    stale = for {target, sources} <- libraries(options), force? or stale?(target, sources), do: {target, sources}

    if stale == [] do
      {:noop, []}
    else
      File.mkdir_p!("priv")
      Enum.each(stale, &build(&1, options))
      # Modules that are compiled next look for them under _build, where priv may not be linked yet.
      Mix.Project.build_structure()
      {:ok, []}
    end
  end

  @impl true
  def clean do
    for {target, _} <- libraries(options()), do: File.rm(target)
    :ok
  end

  defp options, do: Keyword.get(Mix.Project.config(), :tenon, [])

  defp libraries(options) do
    case options[:libraries] do
      nil -> for source <- Path.wildcard("c_src/*.c"), do: {target(Path.basename(source, ".c")), [source]}
      libraries -> for {name, sources} <- libraries, do: {target(name), sources}
    end
  end

  defp target(name), do: Path.join("priv", "#{name}.so")

  defp stale?(target, sources) do
    headers = Path.wildcard("c_src/*.h") ++ [Path.join(Tenon.include_dir(), "tenon/function.h")]
    Mix.Utils.stale?(sources ++ headers ++ [Mix.Project.project_file()], [target])
  end

  defp build({target, sources}, options) do
    cc = System.get_env("CC") || "cc"
    # In one step to its name: who opens the file while it is built sees the old one or the new one.
    new = target <> ".new"
    fixed = ["-shared", "-fPIC", "-fvisibility=hidden", "-I", Tenon.include_dir(), "-I", "c_src"]
    arguments = Keyword.get(options, :cflags, ["-O3"]) ++ fixed ++ sources ++ ["-o", new]
    arguments = arguments ++ Keyword.get(options, :ldflags, [])
    Mix.shell().info("#{cc} #{Enum.join(sources, " ")} -o #{target}")

    case System.cmd(cc, arguments, into: IO.stream(), stderr_to_stdout: true) do
      {_, 0} ->
        File.rename!(new, target)

      {_, status} ->
        File.rm(new)
        Mix.raise("#{target} did not build: #{cc} ended with #{status}")
    end
  end
end
