defmodule Tenon.LibraryNamesTest do
  use ExUnit.Case, async: false

  # Names that signatures may have and that Elixir reserves. Each function gives its arguments as the digits of a number.

  alias Tenon.Test.Kernels, as: Build

  # Those of Elixir's reserved words that are not Python's: the core takes no others.
  @words ~w(fn end do when nil true false catch rescue after)
  @renamed ~w(fn when)

  setup_all do
    # Elixir 1.18 writes neither for modules of a test unless it is told to.
    before = for option <- [:docs, :debug_info], do: {option, Code.get_compiler_option(option)}
    Code.compiler_options(docs: true, debug_info: true)
    on_exit(fn -> Code.compiler_options(before) end)

    params = fn words -> Enum.map_join(words, ", ", &"#{&1}: int") end

    signatures = [
      "by_position(#{params.(@words)}) -> int",
      "by_name(x: int, *, #{params.(@words)}) -> int",
      "left_out(end: int = 7, *, fn: int = 8, do: int = 9) -> int",
      "both(end: int, end_: int, fn_: int, fn: int) -> int",
      "crossed(end__: int, end: int, end_: int, *, fn: int, fn_: int) -> int",
      "result(x: int) -> end: int"
      | for(word <- @words, do: "#{word}(#{word}: int, end_: int = 2) -> #{word}: int")
    ]

    entries = Enum.map_join(signatures, ", ", &~s|TENON_FUNCTION("#{&1}", digits, NULL)|)

    path =
      Build.build_text!("reserved", """
      static tenon_status digits(tenon_call *call)
      {
          int64_t number = 0;
          for (int i = 0; i < call->nargs; i++)
              number = number * 10 + tenon_arg_int(call, i);
          tenon_return_int(call, 0, number);
          return TENON_OK;
      }
      TENON_MODULE(reserved, NULL, #{entries})
      """)

    {:module, module, code, _} = create(path, rename: [fn: :c_fn, when: :c_when])
    {:ok, kernels: module, code: code, path: path}
  end

  defp create(path, options) do
    module = Module.concat(__MODULE__, "M#{System.unique_integer([:positive])}")
    quoted = quote(do: use(Tenon.Library, unquote([path: path] ++ options)))
    Module.create(module, quoted, Macro.Env.location(__ENV__))
  end

  # As a user writes it.
  defp eval(module, call), do: "#{inspect(module)}.#{call}" |> Code.eval_string() |> elem(0)

  test "of parameters, by position", %{kernels: module} do
    assert module.by_position(1, 2, 3, 4, 5, 6, 7, 8, 9, 0) == {:ok, 1_234_567_890}
    assert module.by_position!(1, 2, 3, 4, 5, 6, 7, 8, 9, 0) == 1_234_567_890
    assert {:error, error} = module.by_position(1, "2", 3, 4, 5, 6, 7, 8, 9, 0)
    assert {error.reason, error.argument} == {{:badarg, :end}, :end}
    assert error.message == "by_position(): argument 'end': expected int, got a binary"
  end

  test "of options: as the signature writes them", %{kernels: module} do
    options = "fn: 1, end: 2, do: 3, when: 4, nil: 5, true: 6, false: 7, catch: 8, rescue: 9, after: 0"
    assert eval(module, "by_name(5, #{options})") == {:ok, 51_234_567_890}
    assert eval(module, "by_name!(5, [#{options}])") == 51_234_567_890
    assert {:error, %{reason: {:badarg, :end}}} = eval(module, "by_name(5, end: :x, #{options})")
    assert_raise ArgumentError, "by_name(): missing option :fn", fn -> module.by_name(5, end: 2) end
    # One name for each.
    assert_raise ArgumentError, "by_name(): unknown option :end_", fn -> module.by_name(5, end_: 2) end
  end

  test "of what is left out", %{kernels: module} do
    assert module.left_out() == {:ok, 789}
    assert module.left_out(1) == {:ok, 189}
    assert module.left_out(1, fn: 2) == {:ok, 129}
    assert module.left_out(1, do: 3) == {:ok, 183}
  end

  test "with and without the underscore in one function", %{kernels: module} do
    assert module.both(1, 2, 3, 4) == {:ok, 1234}
    assert module.crossed(1, 2, 3, fn: 4, fn_: 5) == {:ok, 12_345}
    assert module.crossed(1, 2, 3, fn_: 4, fn: 5) == {:ok, 12_354}
    assert {:error, %{reason: {:badarg, :end_}}} = module.both(1, :x, 3, 4)
    assert {:error, %{reason: {:badarg, :end}}} = module.both(:x, 2, 3, 4)
  end

  test "of results", %{kernels: module} do
    assert module.result(3) == {:ok, 3}
  end

  test "of functions, after the dot", %{kernels: module, path: path} do
    for word <- @words -- @renamed do
      assert eval(module, "#{word}(1)") == {:ok, 12}
      assert eval(module, "#{word}(1, 3)") == {:ok, 13}
      assert eval(module, "#{word}!(4)") == 42
    end

    for word <- @renamed do
      assert apply(module, :"c_#{word}", [1, 3]) == {:ok, 13}
      hint = ~r/#{word} cannot be the name of a function in Elixir; choose one with rename: \[#{word}: :c_#{word}\]/
      others = for other <- @renamed -- [word], do: {String.to_atom(other), :"c_#{other}"}
      assert_raise CompileError, hint, fn -> create(path, rename: others) end
    end
  end

  test "in documentation and specs", %{kernels: module, code: code} do
    {:ok, {^module, [{'Docs', docs}]}} = :beam_lib.chunks(code, ['Docs'])
    {:docs_v1, _, :elixir, _, _, _, functions} = :erlang.binary_to_term(docs)
    heads = for {{:function, name, _}, _, [head], _, _} <- functions, into: %{}, do: {name, head}
    assert heads.by_position == "by_position(#{Enum.map_join(@words, ", ", &(&1 <> "_"))})"
    assert heads.left_out == ~S|left_out(end_ \\ 7, options \\ [])|
    # A name that can be a variable stays; the other gets as many as it needs.
    assert heads.both == "both(end__, end_, fn_, fn__)"
    assert heads.crossed == "crossed(end__, end___, end_, options)"
    assert heads.end == ~S|end(end__, end_ \\ 2)|
    {_, _, _, %{"en" => doc}, _} = List.keyfind(functions, {:function, :left_out, 2}, 0)
    assert doc =~ "    left_out(end: int = 7, *, fn: int = 8, do: int = 9) -> int"
    assert doc =~ "Options: `:fn`, `:do`."

    {:ok, specs} = Code.Typespec.fetch_specs(code)
    written = fn {name, _} = key, spec -> {key, Macro.to_string(Code.Typespec.spec_to_quoted(name, spec))} end
    specs = for {key, [spec]} <- specs, into: %{}, do: written.(key, spec)
    assert specs[{:left_out!, 2}] == "left_out!(integer(), fn: integer(), do: integer()) :: integer()"
    assert specs[{:end!, 1}] == "end!(integer()) :: integer()"
    for word <- @words -- @renamed, do: assert(Map.has_key?(specs, {String.to_atom(word), 2}))
  end

  test "in a file of signatures", %{kernels: module, path: path} do
    {:ok, {_, functions}} = Tenon.Nif.library_describe(path)
    file = path <> ".tenon"
    File.write!(file, Enum.map_join(functions, "\n", &elem(&1, 0)))
    {:module, other, _, _} = create(path, signatures: file, rename: [fn: :c_fn, when: :c_when])
    assert other.__info__(:functions) == module.__info__(:functions)
    assert other.crossed!(1, 2, 3, fn: 4, fn_: 5) == 12_345
  end
end
