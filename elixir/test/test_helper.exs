# NX_PATH names a built Nx (…/lib/nx, which has ebin). Its dependencies are in the folders beside it.
case System.get_env("NX_PATH") do
  nil ->
    Code.require_file("support/nx_stand_in.exs", __DIR__)

  path ->
    unless File.exists?(Path.join(path, "ebin/nx.app")), do: raise("NX_PATH=#{path} is not a built Nx: no ebin/nx.app")
    for ebin <- Path.wildcard(Path.join(Path.dirname(path), "*/ebin")), do: Code.append_path(ebin)
    {:ok, _} = Application.ensure_all_started(:nx)
end

# What is compiled goes to the build or to a temporary folder, and never beside the sources.
ExUnit.after_suite(fn _ ->
  root = Path.expand("..", __DIR__)

  found =
    for file <- Path.wildcard(Path.join(root, "**/*.{so,o,a,dylib}"), match_dot: true), do: Path.relative_to(file, root)

  case Enum.reject(found, &String.starts_with?(&1, "_build/")) do
    [] -> :ok
    files -> raise "the tests built into the source tree: #{Enum.join(files, ", ")}"
  end
end)

# A loaded machine may take long for any test.
ExUnit.start(timeout: 600_000)
