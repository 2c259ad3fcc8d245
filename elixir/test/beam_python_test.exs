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

    test "the worker reports errors of Python, and its end", %{python: python} do
      [{worker, _} | _] = Code.require_file("lib/beam_python/worker.ex", @folder)
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
      assert {:error, "Python has ended with status 137"} = Task.await(call)
      assert Tenon.to_list!(tensor) == [0.0, 1.0, 2.0, 3.0]

      Process.flag(:trap_exit, true)
      assert {:error, "no-such-python is not installed"} = worker.start_link(python: "no-such-python")
    end
  end
end
