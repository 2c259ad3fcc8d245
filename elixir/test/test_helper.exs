# NX_PATH names a built Nx (…/lib/nx, which has ebin). Its dependencies are in the folders beside it.
case System.get_env("NX_PATH") do
  nil ->
    Code.require_file("support/nx_stand_in.exs", __DIR__)

  path ->
    unless File.exists?(Path.join(path, "ebin/nx.app")), do: raise("NX_PATH=#{path} is not a built Nx: no ebin/nx.app")
    for ebin <- Path.wildcard(Path.join(Path.dirname(path), "*/ebin")), do: Code.append_path(ebin)
    {:ok, _} = Application.ensure_all_started(:nx)
end

ExUnit.start()
