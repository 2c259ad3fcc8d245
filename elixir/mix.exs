defmodule Mix.Tasks.Compile.TenonNif do
  @moduledoc false
  use Mix.Task.Compiler

  @impl true
  def run(_args) do
    app = Mix.Project.app_path()
    if app =~ ~r/\s/, do: through_link(app, &make/1), else: make(app)
  end

  # Make cannot handle names with spaces.
  defp through_link(app, make) do
    link = Path.join(System.tmp_dir!(), "tenon-build-#{System.pid()}")
    File.mkdir_p!(app)
    File.ln_s!(app, link)

    try do
      make.(link)
    after
      File.rm!(link)
    end
  end

  defp make(app) do
    erts = Path.join([:code.root_dir(), "erts-#{:erlang.system_info(:version)}", "include"])
    make!(["-j2"], [{"MIX_APP_PATH", app}, {"ERTS_INCLUDE", erts}])
    Mix.Project.build_structure()
    {:ok, []}
  end

  def make!(arguments, env) do
    options = [env: env, into: IO.stream(), stderr_to_stdout: true]
    {_, status} = System.cmd(System.get_env("MAKE", "make"), ["-s" | arguments], options)
    if status != 0, do: Mix.raise("Tenon's NIF was not built: make failed with status #{status}")
  end

  @impl true
  def clean do
    app = Mix.Project.app_path()
    Enum.each(["priv", "obj"], &File.rm_rf!(Path.join(app, &1)))
  end
end

defmodule Tenon.MixProject do
  use Mix.Project

  def project do
    [
      app: :tenon,
      version: "0.2.0",
      elixir: "~> 1.14",
      description: "Tensors and C functions on the BEAM without copying",
      compilers: [:tenon_nif] ++ Mix.compilers(),
      elixirc_paths: elixirc_paths(Mix.env()),
      start_permanent: false,
      # Tests define modules with implementations of Inspect.
      consolidate_protocols: Mix.env() != :test,
      package: package(),
      aliases: aliases(),
      deps: []
    ]
  end

  def application, do: [extra_applications: [:logger]]

  defp elixirc_paths(:test), do: ["lib", "test/support"]
  defp elixirc_paths(_env), do: ["lib"]

  # The package contains the core, as the files that `make bundle` writes.
  defp package do
    [
      licenses: ["MIT"],
      links: %{},
      files:
        ~w(c_src/*.c c_src/*.h c_src/vendor/tenon.c c_src/vendor/tenon.h c_src/vendor/tenon_function.h include lib) ++
          ~w(c_src/vendor/function.hpp c_src/vendor/stl.hpp c_src/vendor/cpp/*.hpp) ++
          ~w(docs/signatures.md tour.livemd LICENSE Makefile README.md mix.exs .formatter.exs)
    ]
  end

  defp aliases do
    hex = for task <- ["hex.build", "hex.publish"], do: {String.to_atom(task), [&bundle/1, task]}
    [{:soak, &soak/1} | hex]
  end

  # The arguments are the minutes, and the seed of a round.
  defp soak(args), do: Mix.Task.run("run", ["test/soak.exs" | args])

  defp bundle(_args), do: Mix.Tasks.Compile.TenonNif.make!(["bundle"], [])
end
