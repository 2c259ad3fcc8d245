defmodule Tenon.Test.Kernels do
  @moduledoc false
  # Builds libraries of C functions for the tests, in a temporary folder that goes with this process.

  @doc "Compiles a file to a library of this name, and gives its path."
  def build!(name, source), do: compile!(name, [source])

  @doc "The same for C code, to which the include is added."
  def build_text!(name, code) do
    source = "#{path(name)}.#{System.unique_integer([:positive])}.c"
    File.write!(source, "#include <tenon/function.h>\n" <> code)
    compile!(name, [source])
  end

  def path(name) do
    folder = Path.join(System.tmp_dir!(), "tenon-test-#{System.pid()}")
    if File.mkdir(folder) == :ok, do: System.at_exit(fn _ -> File.rm_rf!(folder) end)
    Path.join(folder, name <> ".so")
  end

  @doc "A file of Tenon's repository, or nil: this folder may be a copy elsewhere."
  def repository(path) do
    file = Path.expand(Path.join("../../..", path), __DIR__)
    if File.exists?(file), do: file
  end

  @doc "Waits until something holds that other threads bring about."
  def until(check, left \\ 12_000) do
    cond do
      check.() -> :ok
      left == 0 -> raise "it never came"
      true -> Process.sleep(5) && until(check, left - 1)
    end
  end

  def source(name), do: Path.join(__DIR__, name)

  defp compile!(name, sources) do
    out = path(name)
    # Beside it, and then to its name: an open library is not written, and several tests may build the same one at once.
    new = "#{out}.#{System.unique_integer([:positive])}.new"
    cpp? = Enum.any?(sources, &String.ends_with?(&1, ".cpp"))
    cc = if cpp?, do: System.get_env("CXX") || "c++", else: System.get_env("CC") || "cc"
    standard = if cpp?, do: ["-std=c++17"], else: []

    arguments =
      standard ++ ["-O2", "-shared", "-fPIC", "-Wall", "-Werror", "-I", Tenon.include_dir()] ++ sources ++ ["-o", new]

    {output, status} = System.cmd(cc, arguments, stderr_to_stdout: true)
    if status != 0, do: raise("#{name}: #{output}")
    File.rename!(new, out)
    out
  end
end
