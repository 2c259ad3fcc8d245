if path = System.get_env("NX_PATH"), do: Code.append_path(Path.join(path, "ebin"))
ExUnit.start()
