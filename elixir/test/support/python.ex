defmodule Tenon.Test.Python do
  @moduledoc false
  # A Python with the package `tenon`, for tests that need another process: TENON_PYTHON and TENON_PACKAGE name them,
  # otherwise those that the repository's own build has.

  alias Tenon.Test.Kernels, as: Build

  @doc "`{:ok, python, package}`, or `{:error, why}`: why there is no such Python here."
  def find do
    python = System.get_env("TENON_PYTHON") || Build.repository(".venv/bin/python") || System.find_executable("python3")
    package = System.get_env("TENON_PACKAGE") || Build.repository("build/dev/package")

    cond do
      python == nil -> {:error, "there is no Python; install python3"}
      package == nil -> {:error, "Python's package is not built; build the target tenon_probes"}
      true -> try_import(python, package)
    end
  end

  # The package may be of another Python, or older than this folder.
  defp try_import(python, package) do
    case System.cmd(python, ["-c", "import numpy, tenon; tenon.attach"],
           env: [{"PYTHONPATH", package}],
           stderr_to_stdout: true
         ) do
      {_, 0} ->
        {:ok, python, package}

      {output, _} ->
        {:error, "#{python} cannot import the package: #{output |> String.split("\n", trim: true) |> List.last()}"}
    end
  rescue
    error in ErlangError -> {:error, "#{python} does not run: #{inspect(error.original)}"}
  end

  @doc "`[]`, or the tags that skip a test and say why."
  def skip_unless_found, do: with({:error, why} <- find(), do: [skip: why], else: (_ -> []))

  @doc "Starts a program, which reads lines and answers each with a line. It ends when the port is closed."
  def start!(program) do
    {:ok, python, package} = find()

    Port.open({:spawn_executable, python}, [
      :binary,
      :use_stdio,
      {:line, 10_000},
      {:args, ["-u", "-c", program]},
      {:env, [{'PYTHONPATH', String.to_charlist(package)}]}
    ])
  end

  def line!(port) do
    receive do
      {^port, {:data, {:eol, line}}} -> line
    after
      60_000 -> raise "Python does not answer"
    end
  end

  def ask!(port, line) do
    Port.command(port, line <> "\n")
    line!(port)
  end

  @doc "Closes its standard input and waits until the process has ended."
  def stop!(port) do
    {:os_pid, pid} = Port.info(port, :os_pid)
    Port.close(port)
    Build.until(fn -> not File.exists?("/proc/#{pid}/fd/0") end)
  end
end
