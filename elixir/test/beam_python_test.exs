defmodule Tenon.BeamPythonTest do
  use Tenon.Case

  # examples/beam_python: the BEAM and Python on one memory.

  alias Tenon.Test.Kernels, as: Build
  alias Tenon.Test.Python

  @example Build.repository("examples/beam_python/mix.exs")

  if @example do
    @folder Path.dirname(@example)
    @moduletag Python.skip_unless_found()
    @moduletag timeout: :infinity

    setup do
      {:ok, python, package} = Python.find()
      # Python must not have the sanitizer of these tests.
      kept = for name <- ["PYTHONPATH", "LD_PRELOAD"], do: {name, System.get_env(name)}
      System.put_env("PYTHONPATH", package)
      System.delete_env("LD_PRELOAD")

      on_exit(fn ->
        for {name, value} <- kept, do: if(value, do: System.put_env(name, value), else: System.delete_env(name))
      end)

      {:ok, python: python}
    end

    test "mix run prints that the memory is the same", %{python: python} do
      # It has a build of its own, which stays, so that the next run compiles nothing.
      build = Path.join(Path.dirname(Mix.Project.build_path()), "beam_python")
      env = [{"PYTHON", python}, {"MIX_BUILD_PATH", build}, {"MIX_ENV", "dev"}, {"SANITIZE", nil}]
      {output, status} = System.cmd("mix", ["run"], cd: @folder, env: env, stderr_to_stdout: true)
      assert status == 0, output

      assert output =~ """
             filled by Python: [0.0, 1.0, 2.0, 3.0]
             made by Python: [0.0, 1.0, 4.0, 9.0]
             frozen: ValueError: output array is read-only
             same memory: true
             """
    end

    test "the benchmark measures the name beside the bytes", %{python: python} do
      {kept, arguments} = {System.get_env("PYTHON"), System.argv()}
      System.put_env("PYTHON", python)
      System.argv(["--quick"])
      output = ExUnit.CaptureIO.capture_io(fn -> Code.require_file("../bench/shared.exs", __DIR__) end)
      System.argv(arguments)
      if kept, do: System.put_env("PYTHON", kept), else: System.delete_env("PYTHON")
      assert length(Regex.scan(~r/KiB  (the name|share|the bytes)/, output)) == 9
    end

    # Compiled once, for all tests.
    defp worker do
      _ = Code.require_file("lib/beam_python/worker.ex", @folder)
      BeamPython.Worker
    end

    test "several processes call the worker at once", %{python: python} do
      worker = worker()
      {:ok, process} = worker.start_link(python: python)

      sums =
        for count <- 1..20 do
          Task.async(fn ->
            tensor = Tenon.Shared.zeros!({count})
            :ok = worker.call(process, "fill", [tensor])
            {:ok, squares} = worker.call(process, "squares", [tensor])
            Enum.sum(Tenon.to_list!(squares))
          end)
        end

      assert Enum.map(sums, &Task.await(&1, :infinity)) == for(n <- 1..20, do: (n - 1) * n * (2 * n - 1) / 6)
    end

    test "bad requests are errors, and the next call works", %{python: python} do
      worker = worker()
      {:ok, process} = worker.start_link(python: python)
      tensor = Tenon.Shared.zeros!({4})

      for function <- ["", "fill\nfill", "fill\r", "two words", <<255>>] do
        assert {:error, message} = worker.call(process, function, [tensor])
        assert message =~ "is not the name of a function"
      end

      for wrong <- [Tenon.zeros!({4}), Tenon.slice!(tensor, [0], [1]), 1] do
        assert {:error, "name(): argument 'tensor': expected a " <> _} = worker.call(process, "fill", [wrong])
      end

      assert {:error, "KeyError: 'xxx" <> _} = worker.call(process, String.duplicate("x", 200_000), [tensor])
      assert worker.call(process, "fill", [tensor]) == :ok
      assert Tenon.to_list!(tensor) == [0.0, 1.0, 2.0, 3.0]
    end

    test "a Python without Tenon is reported in one line" do
      {output, 1} = System.cmd("python3", ["-S", "-I", "worker.py"], cd: @folder, stderr_to_stdout: true)
      assert [_] = String.split(output, "\n", trim: true)
      assert output =~ ~r/ has no numpy. Install NumPy and Tenon for it, or name another Python in PYTHON/
    end

    test "the worker reports errors of Python, and its end", %{python: python} do
      worker = worker()
      {:ok, process} = worker.start_link(python: python)
      tensor = Tenon.Shared.zeros!({4})
      assert worker.call(process, "fill", [tensor]) == :ok
      assert Tenon.to_list!(tensor) == [0.0, 1.0, 2.0, 3.0]
      assert {:error, "KeyError: 'none'"} = worker.call(process, "none", [tensor])
      assert {:error, "TypeError: " <> _} = worker.call(process, "fill", [])

      # Killed while it has a request.
      {:os_pid, pid} = Port.info(:sys.get_state(process).port, :os_pid)
      {_, 0} = System.cmd("kill", ["-STOP", "#{pid}"])
      call = Task.async(fn -> worker.call(process, "double", [tensor]) end)
      Build.until(fn -> not :queue.is_empty(:sys.get_state(process).requests) end)
      {_, 0} = System.cmd("kill", ["-KILL", "#{pid}"])
      assert {:error, "Python has ended with status 137"} = Task.await(call, :infinity)
      assert Tenon.to_list!(tensor) == [0.0, 1.0, 2.0, 3.0]

      assert {:error, "Python has ended"} = worker.call(process, "double", [tensor])

      Process.flag(:trap_exit, true)
      assert {:error, "no-such-python is not installed"} = worker.start_link(python: "no-such-python")
    end
  end
end
