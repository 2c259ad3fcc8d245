defmodule Tenon.LibraryReleaseTest do
  use ExUnit.Case, async: false

  # A project as a user has it: C functions, the :tenon compiler, and an application that calls one when it starts.
  @files %{
    "lib/sample.ex" => """
    defmodule Sample do
      use Tenon.Library, otp_app: :sample, path: "priv/kernels.so"
    end

    defmodule Sample.Application do
      use Application

      def start(_type, _arguments) do
        IO.puts(inspect({:code.get_mode(), Sample.answer()}))
        System.halt(0)
      end
    end
    """,
    "c_src/kernels.c" => """
    #include <tenon/function.h>
    #include "answer.h"
    static tenon_status answer(tenon_call *call)
    {
        tenon_return_int(call, 0, ANSWER);
        return TENON_OK;
    }
    TENON_MODULE(kernels, "It knows.", TENON_FUNCTION("answer() -> int", answer, "The answer."))
    """,
    "c_src/answer.h" => "#define ANSWER 42\n",
    "mix.exs" => """
    defmodule Sample.MixProject do
      use Mix.Project

      def project do
        [
          app: :sample,
          version: "1.0.0",
          compilers: [:tenon] ++ Mix.compilers(),
          tenon: [cflags: ["-O1", "-Werror"]],
          deps: [{:tenon, path: #{inspect(Path.expand("..", __DIR__))}}]
        ]
      end

      def application, do: [mod: {Sample.Application, []}]
    end
    """
  }

  @priv "_build/prod/lib/sample/priv"

  setup_all do
    folder = Path.join(System.tmp_dir!(), "tenon-sample-#{System.pid()}")
    on_exit(fn -> File.rm_rf!(folder) end)
    {:ok, folder: folder}
  end

  # A project that was never compiled. Tenon itself, on which it depends, is compiled once.
  setup %{folder: folder} do
    for built <- ["_build/prod/lib/sample", "_build/prod/rel"], do: File.rm_rf!(Path.join(folder, built))
    for own <- Path.wildcard(Path.join(folder, "*")), Path.basename(own) != "_build", do: File.rm_rf!(own)
    for {name, text} <- @files, do: write!(folder, name, text)
    :ok
  end

  defp write!(folder, name, text) do
    path = Path.join(folder, name)
    File.mkdir_p!(Path.dirname(path))
    File.write!(path, text)
  end

  defp mix(folder, arguments) do
    env = [{"MIX_ENV", "prod"}, {"MIX_BUILD_PATH", nil}, {"CFLAGS", "-O0"}]
    System.cmd("mix", arguments, cd: folder, env: env, stderr_to_stdout: true)
  end

  defp mix!(folder, arguments) do
    {output, status} = mix(folder, arguments)
    assert status == 0, output
    output
  end

  defp started(release) do
    {output, 0} = System.cmd(Path.join(release, "bin/sample"), ["start"], stderr_to_stdout: true)
    output
  end

  @tag timeout: 600_000
  test "from C files to a release that is moved", %{folder: folder} do
    priv = Path.join(folder, @priv)
    assert mix!(folder, ["compile"]) =~ "cc c_src/kernels.c -o _build/prod/lib/sample/priv/kernels.so"
    refute mix!(folder, ["compile"]) =~ "kernels.c"

    # What goes leaves nothing.
    write!(folder, "c_src/more.c", @files["c_src/kernels.c"])

    write!(folder, "c_src/plus.cpp", """
    #include <tenon/function.hpp>
    TENON_CPP_MODULE(plus, "It knows.", TENON_CPP("answer() -> int", [] { return 42; }, "The answer."))
    """)

    assert mix!(folder, ["compile"]) =~ "c++ c_src/plus.cpp -o _build/prod/lib/sample/priv/plus.so"
    assert Enum.sort(File.ls!(priv)) == ["kernels.so", "more.so", "plus.so"]
    File.rm!(Path.join(folder, "c_src/more.c"))
    File.rm!(Path.join(folder, "c_src/plus.cpp"))
    mix!(folder, ["compile"])
    assert File.ls!(priv) == ["kernels.so"]

    # What has changed is built again; a mistake leaves what there was.
    write!(folder, "c_src/answer.h", "#define ANSWER 43\n")
    assert mix!(folder, ["compile"]) =~ "kernels.c"
    write!(folder, "c_src/answer.h", "#define ANSWER forty\n")
    assert {output, 1} = mix(folder, ["compile"])
    assert output =~ "forty" and output =~ "priv/kernels.so was not built: "
    assert File.ls!(priv) == ["kernels.so"]
    write!(folder, "c_src/answer.h", "#define ANSWER 44\n")

    mix!(folder, ["release"])
    release = Path.join(folder, "moved")
    File.rename!(Path.join(folder, "_build/prod/rel/sample"), release)
    assert started(release) == "{:embedded, {:ok, 44}}\n"

    # Without its library it boots all the same.
    library = Path.join(release, "lib/sample-1.0.0/priv/kernels.so")
    File.rm!(library)
    assert started(release) =~ "#{library}: No such file or directory"
    mix!(folder, ["clean"])
    refute File.exists?(Path.join(priv, "kernels.so"))
  end

  @tag timeout: 600_000
  test "beside files that the project has in priv", %{folder: folder} do
    write!(folder, "priv/data/table.txt", "one")
    mix!(folder, ["compile"])
    assert File.read!(Path.join(folder, "#{@priv}/data/table.txt")) == "one"
    assert File.regular?(Path.join(folder, "#{@priv}/kernels.so"))
    write!(folder, "priv/data/table.txt", "another")
    refute mix!(folder, ["compile"]) =~ "kernels.c"
    assert File.read!(Path.join(folder, "#{@priv}/data/table.txt")) == "another"

    # A link, as Mix makes it without this compiler.
    File.rm_rf!(Path.join(folder, @priv))
    File.ln_s!("../../../../priv", Path.join(folder, @priv))
    assert mix!(folder, ["compile"]) =~ "kernels.c"
    assert Path.wildcard(Path.join(folder, "priv/**/*")) |> Enum.map(&Path.basename/1) == ["data", "table.txt"]

    mix!(folder, ["release"])
    release = Path.join(folder, "_build/prod/rel/sample")
    assert File.read!(Path.join(release, "lib/sample-1.0.0/priv/data/table.txt")) == "another"
    assert started(release) == "{:embedded, {:ok, 42}}\n"

    # A library of the same name there would take its place.
    write!(folder, "priv/kernels.so", "prebuilt")
    assert {output, 1} = mix(folder, ["compile"])
    assert output =~ "priv/kernels.so would replace #{@priv}/kernels.so, which is built here; remove or rename it"
    assert File.read!(Path.join(folder, "priv/kernels.so")) == "prebuilt"
  end

  @tag timeout: 600_000
  test "headers elsewhere, files of others, and wrong options", %{folder: folder} do
    File.rm_rf!(Path.join(folder, "c_src"))
    write!(folder, "native/n.c", @files["c_src/kernels.c"])
    write!(folder, "native/answer.h", ~s(#include "deep/er.h"\n))
    write!(folder, "native/deep/er.h", "#define ANSWER 1\n")
    File.rm_rf!(Path.join(folder, "lib"))

    configure = fn text ->
      mix = @files["mix.exs"] |> String.replace(~r/, mod: .*|\[mod: .*?\]$/m, "[]")
      write!(folder, "mix.exs", String.replace(mix, ~s(cflags: ["-O1", "-Werror"]), text))
    end

    configure.(~s(libraries: [n: ["native/n.c"], m: ["native/n.c"]]))
    assert mix!(folder, ["compile"]) =~ "priv/n.so"
    refute mix!(folder, ["compile"]) =~ "priv/n.so"
    write!(folder, "native/deep/er.h", "#define ANSWER 2\n")
    assert mix!(folder, ["compile"]) =~ "priv/n.so"

    # Of this name, but not what was built.
    write!(folder, "#{@priv}/m.so", "other")
    configure.(~s(libraries: [n: ["native/n.c"]]))
    mix!(folder, ["compile"])
    assert File.read!(Path.join(folder, "#{@priv}/m.so")) == "other"

    libraries = [~s(libraries: [n: "a.c"]), ~s(libraries: ["../evil": ["a.c"]])]

    for wrong <- [~s(cflag: ["-O2"]), ~s(cflags: "-O2") | libraries] do
      configure.(wrong)
      assert {output, 1} = mix(folder, ["compile"])
      assert output =~ "** (Mix) tenon: expected [cflags:"
    end
  end
end
