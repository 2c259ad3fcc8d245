defmodule Tenon.Test.Python do
  @moduledoc false
  # A Python with the package `tenon`, for tests that need another process: PYTHON and TENON_PACKAGE name them,
  # otherwise they are those of the repository's own build.

  alias Tenon.Test.Kernels, as: Build

  @doc "`{:ok, python, package}`, or `{:error, why}`: why there is no such Python here."
  def find do
    name = System.get_env("PYTHON") || Build.repository(".venv/bin/python") || "python3"
    python = System.find_executable(name)
    package = System.get_env("TENON_PACKAGE") || Build.repository("build/dev/package")

    cond do
      python == nil -> {:error, "#{name} is not installed"}
      package == nil -> {:error, "Python's package is not built; build the target tenon_probes"}
      true -> try_import(python, package)
    end
  end

  # The package may be of another Python, or older than this folder.
  defp try_import(python, package) do
    case System.cmd(python, ["-c", "import numpy, tenon; tenon.attach"],
           env: [{"PYTHONPATH", package}, {"LD_PRELOAD", nil}],
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

  @doc "`[]`, or the tags that skip a test, after a line that says why."
  def skip_unless_found do
    with {:error, why} <- find() do
      IO.puts("skipped, the tests with Python: #{why}")
      [skip: why]
    else
      _ -> []
    end
  end

  @doc "Starts a program, which reads lines and answers each with a line. It ends when the port is closed."
  def start!(program) do
    {:ok, python, package} = find()

    Port.open({:spawn_executable, python}, [
      :binary,
      :use_stdio,
      {:line, 10_000},
      {:args, ["-u", "-c", program]},
      # Without the sanitizer, if these tests have one.
      {:env, [{'PYTHONPATH', String.to_charlist(package)}, {'LD_PRELOAD', false}]}
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
