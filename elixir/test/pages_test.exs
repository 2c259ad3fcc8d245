defmodule Tenon.PagesTest do
  use ExUnit.Case

  import ExUnit.CaptureIO
  alias Tenon.Test.Kernels, as: Build

  # The programs in Elixir of the documentation, with the library of the block `kernels.c` or `kernels.cpp` of the same
  # page. tools/check-docs runs the other parts of these pages.

  for name <- ["README.md", "docs/index.md", "docs/start.md", "docs/cpp.md", "docs/frameworks/elixir.md"],
      page = Build.repository(name) do
    test "the program of #{name} prints what it says" do
      text = File.read!(unquote(page))
      library = build!(text, unquote(Path.basename(Path.rootname(name))))
      [program, expected] = Regex.run(~r/^```elixir\n(.*?)^```\n```text\n(.*?)^```/ms, text, capture: :all_but_first)
      # Each page has its own module of this name.
      program = String.replace(program, "kernels.so", library)
      assert capture_io(fn -> Code.eval_string(program) end) == expected
    after
      purge(Kernels)
    end
  end

  defp build!(text, name) do
    [suffix, block] = Regex.run(~r{^```(c|cpp)\n(/[*/] kernels\.\1\b.*?)^```}ms, text, capture: :all_but_first)
    source = Path.join(Path.dirname(Build.path(name)), "#{name}.#{suffix}")
    File.write!(source, block)
    Build.build!(name, source)
  end

  defp purge(module) do
    :code.purge(module)
    :code.delete(module)
    :code.purge(module)
  end
end
