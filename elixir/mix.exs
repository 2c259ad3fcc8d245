defmodule Mix.Tasks.Compile.TenonNif do
  @moduledoc false
  use Mix.Task.Compiler

  @impl true
  def run(_args) do
    app = Mix.Project.app_path()
    if app =~ ~r/\s/, do: through_link(app, &make/1), else: make(app)
  end

  # Make has no names with spaces.
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
    env = [{"MIX_APP_PATH", app}, {"ERTS_INCLUDE", erts}]

    case System.cmd(System.get_env("MAKE", "make"), ["-s", "-j2"], env: env, into: IO.stream(), stderr_to_stdout: true) do
      {_, 0} ->
        Mix.Project.build_structure()
        {:ok, []}

      {_, status} ->
        Mix.raise("the NIF did not build: make ended with #{status}")
    end
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
      package: package(),
      deps: []
    ]
  end

  def application, do: [extra_applications: [:logger]]

  defp elixirc_paths(:test), do: ["lib", "test/support"]
  defp elixirc_paths(_env), do: ["lib"]

  defp package do
    [
      licenses: ["MIT"],
      links: %{},
      files: ~w(c_src include lib Makefile mix.exs README.md tour.livemd .formatter.exs)
    ]
  end
end
