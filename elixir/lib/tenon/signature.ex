defmodule Tenon.Signature do
  @moduledoc """
  The parts of a function's signature that Elixir needs: names, kinds and defaults.

      iex> {:ok, signature} = Tenon.Signature.parse("norm(x: f32[n] c, by: 'sum'|'max' = 'sum') -> float")
      iex> for p <- signature.params, do: {p.name, p.kind, p.default}
      [{"x", :tensor, nil}, {"by", :enum, {:ok, :sum}}]

  `Tenon.Library` gets this from the library itself when a module is compiled. `parse/1` and `parse_file/1` are for
  libraries that cannot be opened at compile time, as in a cross build. They read only what the head of a function needs.
  The complete signature is checked when the library is opened.
  """

  alias Tenon.Options

  @enforce_keys [:text, :name, :params, :results]
  defstruct [:text, :name, :params, :results, :doc, :class, role: :function]

  @typedoc """
  A parameter or a result. `default` is `nil` if the argument is required. A `?` after the type allows nil, and makes nil
  the default. `handle` is the name of a handle or of a class.
  """
  @type item :: %{
          name: String.t() | nil,
          kind:
            :tensor
            | :int
            | :uint
            | :float
            | :complex
            | :bool
            | :str
            | :bytes
            | :strs
            | :enum
            | :dtype
            | :ints
            | :floats
            | :tensors
            | :handle,
          optional: boolean(),
          keyword_only: boolean(),
          default: nil | {:ok, term()},
          choices: [String.t()] | [integer()],
          handle: String.t() | nil
        }

  @typedoc """
  A signature, or an entry `class Name`. The name of the method `query` of the class `KDTree` is `"KDTree.query"`. The
  first parameter of a method or a property is the object, and so is the result of a constructor. The result of a constant
  has its value as `default`.
  """
  @type t :: %__MODULE__{
          text: String.t(),
          name: String.t(),
          role: :function | :class | :constructor | :method | :static | :property | :constant,
          class: String.t() | nil,
          params: [item()],
          results: [item()],
          doc: String.t() | nil
        }

  # The limits in bytes and digits. Parsing that many bytes takes a few milliseconds, and no type holds more digits.
  @most 65_536
  @most_digits 1000

  @token ~r/\s*('[^']*'|"[^"]*"|->|[A-Za-z_]\w*|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|\S)/u

  @doc """
  Reads one signature of a library with these classes. A function with the name of a class is its constructor.

      iex> Tenon.Signature.parse("f(x: )")
      {:error, "the signature f(x: ): a type is missing"}
      iex> {:ok, signature} = Tenon.Signature.parse("Tree(points: f32[n, d] c keep)", ["Tree"])
      iex> signature.role
      :constructor
  """
  @spec parse(String.t(), [String.t()]) :: {:ok, t()} | {:error, String.t()}
  def parse(text, classes \\ [])

  def parse(text, _classes) when is_binary(text) and byte_size(text) > @most do
    {:error, "a signature has at most #{@most} bytes, but this one has #{byte_size(text)}"}
  end

  def parse(text, classes) when is_binary(text) do
    if String.valid?(text), do: parse_line(one_line(text), classes), else: {:error, "the signature is not UTF-8"}
  end

  # As c_src/library.c describes it.
  @doc false
  def described(text, {name, role, class, params, results}) do
    params = Enum.map(params, &with_choice/1)
    %__MODULE__{text: one_line(text), name: name, role: role, class: class, params: params, results: results}
  end

  defp with_choice(%{kind: :enum, default: {:ok, text}} = item) when text != nil,
    do: %{item | default: {:ok, choice(text)}}

  defp with_choice(item), do: item

  defp parse_line(text, classes) do
    tokens = for [_, token] <- Regex.scan(@token, text), do: token
    {:ok, tokens |> signature(text) |> construct(classes)}
  catch
    what when is_binary(what) -> {:error, "the signature #{Options.cut(text, 1000)}: #{Options.cut(what, 1000)}"}
  end

  @doc """
  Reads the output of `python -m tenon describe`. Each line is empty, a comment that starts with `#`, or a signature.
  Comments directly above a signature are its documentation. Comments at the beginning, followed by an empty line, are the
  library's name and documentation.

      iex> {:ok, doc, [f]} = Tenon.Signature.parse_file("# kernels\\n# All of them.\\n\\n# One.\\nf(n: int)\\n")
      iex> {doc, f.doc, f.name}
      {"All of them.", "One.", "f"}
  """
  @spec parse_file(String.t()) :: {:ok, String.t() | nil, [t()]} | {:error, String.t()}
  def parse_file(text) when is_binary(text) do
    if String.valid?(text), do: parse_lines(text), else: {:error, "it is not UTF-8"}
  end

  defp parse_lines(text) do
    {signatures, comments, doc} =
      text
      |> String.split(~r/\r?\n/)
      |> Enum.reduce({[], [], nil}, fn line, {signatures, comments, doc} ->
        case String.trim(line) do
          "" -> {signatures, [], doc || module_doc(signatures, comments)}
          "#" <> comment -> {signatures, [String.replace_prefix(comment, " ", "") | comments], doc}
          line -> {[{line, lines(comments)} | signatures], [], doc}
        end
      end)

    doc = doc || module_doc(signatures, comments)
    classes = for {line, _doc} <- signatures, [_, name] <- [Regex.run(~r/^class\s+([A-Za-z_]\w*)$/, line)], do: name

    Enum.reduce_while(signatures, {:ok, presence(doc), []}, fn {line, doc}, {:ok, module_doc, done} ->
      case parse(line, classes) do
        {:ok, signature} -> {:cont, {:ok, module_doc, [%{signature | doc: presence(doc)} | done]}}
        error -> {:halt, error}
      end
    end)
  end

  # The first line is the library's name and version.
  defp module_doc([], [_ | _] = comments), do: comments |> Enum.drop(-1) |> lines()
  defp module_doc(_signatures, _comments), do: nil

  defp lines(comments), do: comments |> Enum.reverse() |> Enum.join("\n")

  defp presence(text) when text in [nil, ""], do: nil
  defp presence(text), do: text

  @doc "Replaces white space outside of strings by one space, so that signatures can be compared."
  @spec one_line(String.t()) :: String.t()
  def one_line(text) do
    ~r/('[^']*'|"[^"]*")|\s+/
    |> Regex.replace(text, fn _, string -> if string == "", do: " ", else: string end)
    |> String.trim()
  end

  # entry = "class" Name | signature
  defp signature(["class", name], text) do
    %__MODULE__{text: text, name: name!(name), role: :class, class: name, params: [], results: []}
  end

  # signature = [Name "."] name "(" ["self" [","]] [params] ")" ["->" results] ["where" …]
  defp signature([class, ".", method, "(", "self", next | rest], text) when next in [",", ")"] do
    self = %{object(class) | name: "self"}
    rest = if next == ")", do: [next | rest], else: rest
    signature = function("#{name!(class)}.#{name!(method)}", rest, text)
    %{signature | role: :method, class: class, params: [self | signature.params]}
  end

  defp signature([class, ".", method, "(" | rest], text) do
    %{function("#{name!(class)}.#{name!(method)}", rest, text) | role: :static, class: class}
  end

  # property = Name "." name ":" result
  defp signature([class, ".", property, ":" | rest], text) do
    name = "#{name!(class)}.#{name!(property)}"
    self = %{object(class) | name: "self"}
    %__MODULE__{text: text, name: name, role: :property, class: class, params: [self], results: result(nil, rest, [])}
  end

  # constant = [Name "."] name "=" literal
  defp signature([class, ".", constant, "=" | rest], text),
    do: %{constant("#{name!(class)}.#{name!(constant)}", rest, text) | class: class}

  defp signature([name, "=" | rest], text), do: constant(name!(name), rest, text)
  defp signature([name, "(" | rest], text), do: function(name!(name), rest, text)
  defp signature(_tokens, _text), do: throw("expected name(…)")

  defp constant(name, tokens, text) do
    item = tokens |> constant_kind() |> item(false)
    result = %{item | name: name, default: default(tokens, item)}
    %__MODULE__{text: text, name: name, role: :constant, params: [], results: [result]}
  end

  defp constant_kind([token]) when token in ["True", "False"], do: :bool
  defp constant_kind(["'" <> _]), do: :str
  defp constant_kind(["\"" <> _]), do: :str
  defp constant_kind(tokens), do: if(Enum.any?(tokens, &(&1 =~ ~r/[.eE]/)), do: :float, else: :int)

  defp construct(%{role: :function, name: name} = signature, classes) do
    cond do
      name not in classes -> signature
      signature.results != [] -> throw("a constructor is written without ->: its result is the object")
      true -> %{signature | role: :constructor, class: name, results: [object(name)]}
    end
  end

  defp construct(signature, _classes), do: signature

  defp object(class), do: %{item(:handle, false) | handle: class}

  defp function(name, rest, text) do
    {params, rest} = params(rest, false, [])

    results =
      case rest do
        ["->" | rest] -> results(rest, [])
        ["where" | _] -> []
        [] -> []
        _ -> throw("expected -> or 'where' after the )")
      end

    %__MODULE__{text: text, name: name, params: params, results: results}
  end

  defp params([")" | rest], _keyword_only, done), do: {Enum.reverse(done), rest}
  defp params(["*", "," | rest], false, done), do: params(rest, true, done)

  defp params([name, ":" | rest], keyword_only, done) do
    {type, rest} = until(rest, [",", ")", "="], 0, [])
    item = %{type(type) | name: name!(name), keyword_only: keyword_only}
    {default, rest} = if match?(["=" | _], rest), do: until(tl(rest), [",", ")"], 0, []), else: {nil, rest}
    item = %{item | default: default(default, item)}
    params(after_comma(rest), keyword_only, [item | done])
  end

  defp params(_tokens, _keyword_only, _done), do: throw("expected parameters such as x: f32[n], and a )")

  defp after_comma(["," | rest]), do: rest
  defp after_comma(rest), do: rest

  defp results([name, ":" | rest], done), do: result(name!(name), rest, done)
  defp results(rest, done), do: result(nil, rest, done)

  defp result(name, tokens, done) do
    {type, rest} = until(tokens, [",", "where"], 0, [])
    done = [%{type(type) | name: name} | done]
    if match?(["," | _], rest), do: results(tl(rest), done), else: Enum.reverse(done)
  end

  # The tokens before the first of `ends` that is outside of brackets.
  defp until([], _ends, _depth, done), do: {Enum.reverse(done), []}

  defp until([token | rest] = tokens, ends, depth, done) do
    cond do
      depth == 0 and token in ends -> {Enum.reverse(done), tokens}
      token in ["(", "["] -> until(rest, ends, depth + 1, [token | done])
      token in [")", "]"] -> until(rest, ends, depth - 1, [token | done])
      true -> until(rest, ends, depth, [token | done])
    end
  end

  @scalars %{
    "int" => :int,
    "uint" => :uint,
    "float" => :float,
    "complex" => :complex,
    "bytes" => :bytes,
    "strs" => :strs,
    "dtype" => :dtype,
    "bool" => :bool,
    "str" => :str,
    "ints" => :ints,
    "floats" => :floats,
    "handle" => :handle
  }

  defp type([]), do: throw("a type is missing")

  defp type(["'" <> _ | _] = tokens), do: enum(tokens)
  defp type(["\"" <> _ | _] = tokens), do: enum(tokens)

  defp type(["callable", "(" | _]),
    do: throw("a callable is not possible in Elixir, because a NIF cannot call functions of Elixir while it runs")

  # [f32[n] c] is a list of tensors; "for xs" may follow in a result.
  defp type(["[" | _] = tokens) do
    {_, rest} = shape(tokens, 0)
    item(:tensors, match?(["?" | _], rest))
  end

  defp type([word | rest] = tokens) do
    if word == "-" or word =~ ~r/^\d+$/, do: integer_choices(tokens), else: word_type(word, rest, tokens)
  end

  # 1|2|4
  defp integer_choices(tokens) do
    {optional, tokens} = if List.last(tokens) == "?", do: {true, Enum.drop(tokens, -1)}, else: {false, tokens}
    %{item(:int, optional) | choices: integers(tokens, [])}
  end

  defp integers(tokens, done) do
    case number(tokens, :int) do
      {integer, []} when is_integer(integer) -> Enum.reverse([integer | done])
      {integer, ["|" | rest]} when is_integer(integer) -> integers(rest, [integer | done])
      _ -> throw("#{Enum.join(tokens, " ")} is not a choice of integers")
    end
  end

  defp word_type(word, rest, tokens) do
    kind = @scalars[word]
    # bool[n] and bool|u8[n] are tensors, ints[3] is not.
    tensor? = kind == nil or (kind not in [:ints, :floats] and match?([next | _] when next in ["[", "|"], rest))

    if tensor? do
      {_, rest} = until(tokens, ["["], 0, [])
      if rest == [], do: throw("#{Enum.join(tokens, " ")} is not a type")
      {_, rest} = shape(rest, 0)
      item(:tensor, match?(["?" | _], rest))
    else
      %{item(kind, List.last(tokens) == "?") | handle: if(kind == :handle, do: handle(rest))}
    end
  end

  defp handle(["(", name, ")" | _]), do: if(string?(name), do: unquoted(name), else: throw("#{name} is not a string"))
  defp handle(_tokens), do: throw("expected handle('Name')")

  defp shape(["[" | rest], depth), do: shape(rest, depth + 1)
  defp shape(["]" | rest], 1), do: {:ok, rest}
  defp shape(["]" | rest], depth), do: shape(rest, depth - 1)
  defp shape([_ | rest], depth), do: shape(rest, depth)
  defp shape([], _depth), do: throw("a ] is missing")

  defp enum(tokens) do
    choices = for token <- tokens, string?(token), do: unquoted(token)
    %{item(:enum, List.last(tokens) == "?") | choices: choices}
  end

  defp item(kind, optional) do
    %{name: nil, kind: kind, optional: optional, keyword_only: false, default: nil, choices: [], handle: nil}
  end

  defp default(nil, %{optional: true}), do: {:ok, nil}
  defp default(nil, _item), do: nil
  defp default(["None"], _item), do: {:ok, nil}
  defp default(["True"], _item), do: {:ok, true}
  defp default(["False"], _item), do: {:ok, false}

  defp default([open | rest], %{kind: :strs}) when open in ["(", "["],
    do: {:ok, for(token <- rest, string?(token), do: unquoted(token))}

  defp default([open | rest], item) when open in ["(", "["], do: {:ok, numbers(rest, item.kind, [])}
  defp default(tokens, %{kind: :complex}), do: {:ok, complex(tokens)}

  defp default([token], %{kind: kind}) when kind in [:enum, :str, :dtype] do
    if string?(token), do: {:ok, literal(kind, unquoted(token))}, else: throw("#{token} is not a string")
  end

  defp default(tokens, item) do
    {number, rest} = number(tokens, item.kind)
    if rest == [], do: {:ok, number}, else: throw("#{Enum.join(tokens, " ")} is not a default")
  end

  # A choice is an atom, unless it is too long.
  defp literal(:enum, text), do: choice(text)
  defp literal(:dtype, text), do: choice(text)
  defp literal(:str, text), do: text

  @doc "A choice as functions return it: an atom, or a string if it is too long for an atom."
  @spec choice(String.t()) :: atom() | String.t()
  def choice(text), do: if(String.length(text) <= 255, do: String.to_atom(text), else: text)

  # 1.5, 2j, 1+2j
  defp complex(tokens) do
    {first, rest} = number(tokens, :float)

    case rest do
      [] -> {first, 0.0}
      ["j"] -> {0.0, first}
      [sign | rest] when sign in ["+", "-"] -> {first, imaginary(if(sign == "-", do: ["-" | rest], else: rest))}
      _ -> throw("#{Enum.join(tokens, " ")} is not a complex number")
    end
  end

  defp imaginary(tokens) do
    case number(tokens, :float) do
      {imaginary, ["j"]} -> imaginary
      _ -> throw("#{Enum.join(tokens, " ")} is not an imaginary number")
    end
  end

  defp numbers([close], _kind, done) when close in [")", "]"], do: Enum.reverse(done)

  defp numbers(tokens, kind, done) do
    {number, rest} = number(tokens, kind)
    numbers(after_comma(rest), kind, [number | done])
  end

  defp number(["-" | rest], kind) do
    case number(rest, kind) do
      {:infinity, rest} -> {:neg_infinity, rest}
      {number, rest} -> {-number, rest}
    end
  end

  defp number([token | _], _kind) when byte_size(token) > @most_digits,
    do: throw("a number has more than #{@most_digits} digits")

  defp number([token | rest], kind) do
    case Integer.parse(token) do
      {whole, ""} when kind not in [:float, :floats] -> {whole, rest}
      _ -> {float(token), rest}
    end
  end

  defp number([], _kind), do: throw("a number is missing")

  # Accepts the forms of C and Python, such as .5, 1. and 1e5, and 1e400, which is infinite.
  defp float(token) do
    with [_, whole, fraction, exponent] <- Regex.run(~r/^(\d*)\.?(\d*)((?:[eE][-+]?\d+)?)$/, token),
         true <- whole <> fraction != "" do
      String.to_float("#{digits(whole)}.#{digits(fraction)}#{exponent}")
    else
      _ -> throw("#{token} is not a number")
    end
  rescue
    ArgumentError -> :infinity
  end

  defp digits(""), do: "0"
  defp digits(text), do: text

  defp string?(token), do: String.starts_with?(token, ["'", "\""]) and byte_size(token) >= 2
  defp unquoted(token), do: binary_part(token, 1, byte_size(token) - 2)

  defp name!(name) do
    if name =~ ~r/^[A-Za-z_]\w*$/, do: name, else: throw("#{name} is not a name")
  end
end
