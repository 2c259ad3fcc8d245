defmodule Tenon.TutorialTest do
  use ExUnit.Case

  import ExUnit.CaptureIO
  alias Tenon.Test.Kernels, as: Build

  # The tree of docs/tutorial.md, from its blocks of C; tools/check-docs runs the other parts of that page.

  @page Build.repository("docs/tutorial.md")

  if @page do
    test "the program of the tutorial prints what it says" do
      folder = Path.dirname(Build.path("spatial"))
      text = File.read!(@page)

      for [block, file] <- Regex.scan(~r{^```c\n(/\* (\S+) \*/.*?)^```}ms, text, capture: :all_but_first),
          do: File.write!(Path.join(folder, file), block)

      all = Path.join(folder, "all.c")
      File.write!(all, for(file <- ~w(module tree query more), do: ~s(#include "#{file}.c"\n)))
      library = Build.build!("spatial", all)

      [program, expected] = Regex.run(~r/^```elixir\n(.*?)^```\n```text\n(.*?)^```/ms, text, capture: :all_but_first)
      program = String.replace(program, ~s("spatial.so"), inspect(library))
      assert capture_io(fn -> Code.eval_string(program) end) == expected
    end
  end
end
