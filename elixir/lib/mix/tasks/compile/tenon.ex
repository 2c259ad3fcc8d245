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

  The compiler is `$CC`, or `cc`. A library is built again where its sources, the headers beside them,
  `tenon/function.h` or the options have changed, and removed where its sources are gone.
  """
  use Mix.Task.Compiler

  @recursive true

  @impl true
  def run(args) do
    options = options()
    libraries = libraries(options)
    built = if "--force" in args, do: %{}, else: read_manifest()
    stale = for {target, sources} <- libraries, built[target] != state(target, sources, options), do: {target, sources}
    gone = Map.keys(read_manifest()) -- Enum.map(libraries, &elem(&1, 0))
    Enum.each(gone, &File.rm/1)

    if stale == [] and gone == [] do
      {:noop, []}
    else
      File.mkdir_p!("priv")
      Enum.each(stale, &build(&1, options))
      write_manifest(for {target, sources} <- libraries, do: {target, state(target, sources, options)})
      # Modules that are compiled next look for them under _build, where priv may not be linked yet.
      Mix.Project.build_structure()
      {:ok, []}
    end
  end

  @impl true
  def manifests, do: [manifest()]

  @impl true
  def clean do
    for {target, _} <- libraries(options()), do: File.rm(target)
    Enum.each(Map.keys(read_manifest()), &File.rm/1)
    File.rm(manifest())
    :ok
  end

  defp manifest, do: Path.join(Mix.Project.manifest_path(), "compile.tenon")

  defp read_manifest do
    with {:ok, binary} <- File.read(manifest()), do: Map.new(:erlang.binary_to_term(binary)), else: (_ -> %{})
  end

  defp write_manifest(states) do
    File.mkdir_p!(Path.dirname(manifest()))
    File.write!(manifest(), :erlang.term_to_binary(states))
  end

  # By content: the times of files are whole seconds here, and priv is shared by the environments.
  defp state(target, sources, options) do
    headers = Path.wildcard("c_src/*.h") ++ [Path.join(Tenon.include_dir(), "tenon/function.h")]
    :erlang.md5(:erlang.term_to_binary({options, for(file <- [target | sources] ++ headers, do: File.read(file))}))
  end

  defp options, do: Keyword.get(Mix.Project.config(), :tenon, [])

  defp libraries(options) do
    case options[:libraries] do
      nil -> for source <- Path.wildcard("c_src/*.c"), do: {target(Path.basename(source, ".c")), [source]}
      libraries -> for {name, sources} <- libraries, do: {target(name), sources}
    end
  end

  defp target(name), do: Path.join("priv", "#{name}.so")

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
