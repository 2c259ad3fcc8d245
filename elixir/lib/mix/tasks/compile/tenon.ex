defmodule Mix.Tasks.Compile.Tenon do
  @shortdoc "Builds libraries of Tenon functions"
  @moduledoc """
  Builds each `c_src/NAME.c` and `c_src/NAME.cpp` of a project as `priv/NAME.so` in its build folder, for `Tenon.Library`.

      def project do
        [
          app: :my_app,
          compilers: [:tenon] ++ Mix.compilers(),
          tenon: [cflags: ["-O3", "-march=native"]],
          …
        ]
      end

  The options in `:tenon` are all optional:

    * `:cflags` — options of the C compiler; `["-O3"]` by default.
    * `:ldflags` — options after the sources, such as `["-lm"]`.
    * `:libraries` — `[kernels: ["c_src/a.c", "c_src/b.c"]]`, instead of one library for each file.

  The compiler is `$CC`, or `cc`; if a source is C++ (`.cpp`, `.cc` or `.cxx`), it is `$CXX`, or `c++`, with `-std=c++17`. A
  library is built again if its sources, the options, the headers of Tenon, or the headers in `c_src`, in the folders of the
  sources or in their subfolders have changed. It is removed if its sources are gone,
  unless another program has written it since.

  Nothing is written into the project itself. If the project has a folder `priv`, Mix usually makes the `priv` of the build
  a link to it. With this compiler it is a real folder, into which Mix copies new files whenever it compiles.
  """
  use Mix.Task.Compiler

  @recursive true

  @impl true
  def run(args) do
    options = options()
    libraries = libraries(options)
    if libraries != [], do: own_priv!()
    Enum.each(libraries, &refuse_source!/1)
    before = read_manifest()
    built = if "--force" in args, do: %{}, else: before
    stale = for {target, sources} <- libraries, built[target] != state(target, sources, options), do: {target, sources}
    gone = Map.drop(before, Enum.map(libraries, &elem(&1, 0)))
    remove(gone)

    if stale == [] and gone == %{} do
      {:noop, []}
    else
      Enum.each(stale, &build(&1, options))
      write_manifest(for {target, sources} <- libraries, do: {target, state(target, sources, options)})
      {:ok, []}
    end
  end

  # A link would lead into the project. If there is a folder instead, Mix copies into it.
  defp own_priv! do
    if match?({:ok, _}, File.read_link(priv())), do: File.rm!(priv())
    File.mkdir_p!(priv())
    Mix.Project.build_structure()
  end

  defp refuse_source!({target, _sources}) do
    source = Path.join("priv", Path.basename(target))

    if File.exists?(source) do
      Mix.raise("#{source} would replace #{Path.relative_to_cwd(target)}, which is built here; remove or rename it")
    end
  end

  @impl true
  def manifests, do: [manifest()]

  @impl true
  def clean do
    for {target, _} <- libraries(options()), do: File.rm(target)
    remove(read_manifest())
    File.rm(manifest())
    :ok
  end

  defp priv, do: Path.join(Mix.Project.app_path(), "priv")

  defp manifest, do: Path.join(Mix.Project.manifest_path(), "compile.tenon")

  defp read_manifest do
    with {:ok, binary} <- File.read(manifest()), do: Map.new(:erlang.binary_to_term(binary)), else: (_ -> %{})
  end

  defp write_manifest(states) do
    File.mkdir_p!(Path.dirname(manifest()))
    File.write!(manifest(), :erlang.term_to_binary(states))
  end

  # By content, because file times are only whole seconds.
  defp state(target, sources, options) do
    folders = Enum.uniq(["c_src" | Enum.map(sources, &Path.dirname/1)])
    headers = Enum.flat_map(folders ++ [Tenon.include_dir()], &Path.wildcard(Path.join(&1, "**/*.{h,hpp}")))
    files = sources ++ headers
    {:erlang.md5(:erlang.term_to_binary({options, Enum.map(files, &content/1)})), content(target)}
  end

  defp content(file), do: with({:ok, bytes} <- File.read(file), do: :erlang.md5(bytes))

  # Only files that are still as this compiler wrote them.
  defp remove(states), do: for({target, {_, content}} <- states, content(target) == content, do: File.rm(target))

  defp options do
    options = Keyword.get(Mix.Project.config(), :tenon, [])
    check(Keyword.keyword?(options) and Keyword.keys(options) -- [:cflags, :ldflags, :libraries] == [], options)
    check(strings?(options[:cflags] || []) and strings?(options[:ldflags] || []), options)
    libraries = options[:libraries] || []
    check(Keyword.keyword?(libraries) and Enum.all?(libraries, &library?/1), options)
    options
  end

  defp check(true, _options), do: :ok

  defp check(false, options) do
    Mix.raise("""
    tenon: expected [cflags: ["-O3"], ldflags: ["-lm"], libraries: [name: ["c_src/a.c"]]] in mix.exs, or some of it, \
    got #{inspect(options)}\
    """)
  end

  defp strings?(list), do: is_list(list) and Enum.all?(list, &is_binary/1)
  defp library?({name, sources}), do: Atom.to_string(name) =~ ~r/^\w[\w.-]*$/ and strings?(sources)

  defp libraries(options) do
    case options[:libraries] do
      nil ->
        for source <- Path.wildcard("c_src/*.{c,cpp}"), do: {target(Path.rootname(Path.basename(source))), [source]}

      libraries ->
        for {name, sources} <- libraries, do: {target(name), sources}
    end
  end

  defp target(name), do: Path.join(priv(), "#{name}.so")

  defp build({target, sources}, options) do
    cpp? = Enum.any?(sources, &(Path.extname(&1) in [".cpp", ".cc", ".cxx"]))
    cc = if cpp?, do: System.get_env("CXX") || "c++", else: System.get_env("CC") || "cc"
    # Renamed in one step, so that a process that opens the file sees either the old or the new library.
    new = target <> ".new"
    fixed = ["-shared", "-fPIC", "-fvisibility=hidden", "-I", Tenon.include_dir(), "-I", "c_src"]
    fixed = if cpp?, do: ["-std=c++17" | fixed], else: fixed
    arguments = Keyword.get(options, :cflags, ["-O3"]) ++ fixed ++ sources ++ ["-o", new]
    arguments = arguments ++ Keyword.get(options, :ldflags, [])
    name = Path.relative_to_cwd(target)
    Mix.shell().info("#{cc} #{Enum.join(sources, " ")} -o #{name}")

    case System.cmd(cc, arguments, into: IO.stream(), stderr_to_stdout: true) do
      {_, 0} ->
        File.rename!(new, target)

      {_, status} ->
        File.rm(new)
        Mix.raise("#{name} was not built: #{cc} failed with status #{status}")
    end
  end
end
