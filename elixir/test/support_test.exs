defmodule Tenon.SupportTest do
  use ExUnit.Case

  # The tests' own helpers.

  alias Tenon.Test.Kernels, as: Build

  test "one library may be built by several tests at the same time" do
    paths = Task.await_many(for(_ <- 1..8, do: Task.async(fn -> Build.build_text!("race", code()) end)), 60_000)
    assert Enum.uniq(paths) == [Build.path("race")]
    assert {:ok, {_, [{"one() -> int", _, {"one", :function, nil, [], [_]}}]}} = Tenon.Nif.library_describe(hd(paths))
    assert Path.wildcard(Build.path("race") <> ".*.new") == []
  end

  defp code do
    """
    static tenon_status one(tenon_call *call) { tenon_return_int(call, 0, 1); return TENON_OK; }
    TENON_MODULE(race, "", TENON_FUNCTION("one() -> int", one, ""))
    """
  end

  test "Nx is the one that NX_PATH names, and the stand-in is not part of the build" do
    case System.get_env("NX_PATH") do
      nil -> assert Code.ensure_loaded?(Nx)
      path -> assert String.starts_with?(to_string(:code.which(Nx)), Path.join(path, "ebin"))
    end

    refute File.exists?(Application.app_dir(:tenon, "ebin/Elixir.Nx.beam"))
  end
end
