defmodule Tenon.PackageTest do
  use ExUnit.Case

  # The folder, copied to where Tenon's repository is not, builds by itself, also into a release that is moved.

  @moduletag timeout: :infinity
  @root Path.expand("..", __DIR__)

  setup_all do
    work = Path.join(System.tmp_dir!(), "tenon_package_#{System.pid()}")
    copy = Path.join(work, "a copy")
    File.mkdir_p!(copy)
    on_exit(fn -> File.rm_rf!(work) end)

    for name <- ~w(c_src include lib Makefile mix.exs .formatter.exs) do
      File.cp_r!(Path.join(@root, name), Path.join(copy, name))
    end

    run!(copy, "mix", ["release", "--quiet", "--path", Path.join(work, "release")])
    File.rename!(Path.join(work, "release"), Path.join(work, "moved"))
    File.rename!(copy, copy <> "_gone")
    {:ok, release: Path.join(work, "moved")}
  end

  defp run!(folder, command, arguments) do
    # The build of the tests is not the copy's.
    env = [{"MIX_ENV", "prod"}, {"MIX_BUILD_PATH", nil}, {"CFLAGS", "-O1"}, {"LDFLAGS", nil}, {"LD_PRELOAD", nil}]
    env = [{"SANITIZE", nil} | env]
    {text, status} = System.cmd(command, arguments, cd: folder, env: env, stderr_to_stdout: true)
    assert status == 0, text
    text
  end

  test "a moved release loads the NIF and has the headers", %{release: release} do
    code = "IO.inspect({Tenon.to_list!(Tenon.zeros!({2})), File.ls!(Path.join(Tenon.include_dir(), ~s(tenon)))})"
    text = run!(release, Path.join(release, "bin/tenon"), ["eval", code])
    assert text =~ ~s({[0.0, 0.0], [)
    assert text =~ "function.h"
    assert text =~ "nif.h"
  end

  test "a file in any folder of the core is part of the bundle" do
    core = Path.expand("../core", @root)

    makes_bundle? = fn file ->
      {text, 0} = System.cmd("make", ["-n", "bundle", "-W", file], cd: @root, stderr_to_stdout: true)
      text =~ "tools/bundle"
    end

    if File.dir?(core) do
      {_, 0} = System.cmd("make", ["-s", "bundle"], cd: @root)

      for file <- ["src/exchange/tensor.c", "src/system/hash.c", "src/system/system.h", "include/tenon/host.h"] do
        assert makes_bundle?.(Path.join("../core", file)), file
      end

      refute makes_bundle?.("mix.exs")
    end
  end

  test "what was built with other flags is built again" do
    work = Path.join(System.tmp_dir!(), "tenon_flags_#{System.pid()}")
    on_exit(fn -> File.rm_rf!(work) end)
    object = Path.join(work, "obj/error.o")
    erts = Path.join([:code.root_dir(), "erts-#{:erlang.system_info(:version)}", "include"])

    build = fn flags, sanitize ->
      env = [{"MIX_APP_PATH", work}, {"ERTS_INCLUDE", erts}, {"CFLAGS", flags}, {"SANITIZE", sanitize}]
      assert {"", 0} = System.cmd("make", ["-s", object], cd: @root, env: env, stderr_to_stdout: true)
      File.read!(object)
    end

    flags = ~S(-O1 -DNAME='"x y"')
    build.(flags, nil)
    File.write!(object, "as it was")
    assert build.(flags, nil) == "as it was"
    refute build.("-O1", nil) =~ "__asan"
    assert build.("-O1", "address") =~ "__asan"
  end

  test "the library shows nothing but its entry" do
    library = Application.app_dir(:tenon, "priv/tenon_nif.so")
    {text, 0} = System.cmd("nm", ["-D", "--defined-only", library])
    symbols = text |> String.split("\n", trim: true) |> Enum.map(&List.last(String.split(&1)))
    assert Enum.reject(symbols, &String.starts_with?(&1, ["__asan", "__odr_asan", "_init", "_fini"])) == ["nif_init"]
  end

  test "the library needs no semaphore without a name, which macOS does not have" do
    library = Application.app_dir(:tenon, "priv/tenon_nif.so")
    {text, 0} = System.cmd("nm", ["-D", "--undefined-only", library])
    refute text =~ ~r/ sem_/
  end
end
