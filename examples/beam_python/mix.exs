defmodule BeamPython.MixProject do
  use Mix.Project

  def project do
    [
      app: :beam_python,
      version: "0.1.0",
      elixir: "~> 1.14",
      # `mix run` runs the demonstration.
      aliases: [run: "run -e BeamPython.main()"],
      deps: [{:tenon, path: "../../elixir"}]
    ]
  end
end
