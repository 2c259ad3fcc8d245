defmodule Tenon.Library.Compiler do
  @moduledoc false
  # For Tenon.Library: reads the signatures of a library when a module is compiled, and makes heads, specs and documentation
  # of them.

  alias Tenon.{Nif, Options, Signature}
  alias Tenon.Library.Overloads
  import Bitwise

  @options [:path, :otp_app, :signatures, :rename, :schedulers]

  # What `use Tenon.Library` defines: the functions, the classes, and the information that the module has at run time.
  @doc false
  def compile(opts, env) do
    if Module.get_attribute(env.module, :on_load, []) != [] do
      fail(
        env,
        "use Tenon.Library needs the @on_load of the module: use one library per module, and no @on_load of your own"
      )
    end

    check!(opts, Keyword.keyword?(opts), "a keyword list of options")
    unknown = Keyword.keys(opts) -- @options
    if unknown != [], do: raise(ArgumentError, "use Tenon.Library: unknown option #{Options.show(hd(unknown))}")
    path = opts[:path] || raise ArgumentError, "use Tenon.Library: the option :path is missing"
    check!(path, is_binary(path), "a string as :path")
    check!(opts[:otp_app], is_atom(opts[:otp_app]), "an atom as :otp_app")
    check!(opts[:signatures], opts[:signatures] == nil or is_binary(opts[:signatures]), "a string as :signatures")
    rename = Keyword.get(opts, :rename, [])
    check!(rename, Keyword.keyword?(rename) and Enum.all?(rename, &is_atom(elem(&1, 1))), "[name: :other] as :rename")
    schedulers = Keyword.get(opts, :schedulers, [])
    check!(schedulers, Keyword.keyword?(schedulers), "[name: :dirty] as :schedulers")
    {source, doc, entries} = signatures(opts, path, env)
    modules = class_modules(entries, env)
    {constants, signatures} = entries |> Enum.reject(&(&1.role == :class)) |> Enum.split_with(&(&1.role == :constant))

    signatures = Enum.map(signatures, &with_modules(&1, modules))
    names = Enum.map(signatures, &String.to_atom(&1.name))
    known = names ++ Enum.map(constants, &String.to_atom(&1.name))

    for {name, _} <- rename ++ schedulers, name not in known do
      fail(env, "there is no function #{name} in #{source}")
    end

    functions = for s <- signatures, do: with_structs({s.text, scheduler(schedulers, s.name, env)}, s.results)
    id = :erlang.phash2(functions, 1 <<< 32)
    params = for s <- signatures, do: for(p <- s.params, do: String.to_atom(p.name))

    definitions =
      for({signature, index} <- Enum.with_index(signatures)) do
        definition(signature, elixir_name(signature, names, rename, env), (id <<< 20) + index)
      end
      |> overloaded()

    constants = for c <- constants, do: constant(c, elixir_name(c, names, rename, env))
    {functions_only, members} = Enum.split_with(definitions, &(&1.class == nil))
    {own_constants, class_constants} = Enum.split_with(constants, &(&1.class == nil))
    check_names(functions_only ++ own_constants, "", env)

    %{
      resources: [source],
      doc: doc,
      functions: functions_only,
      constants: own_constants,
      classes: for(c <- entries, c.role == :class, do: class(c, modules, members, class_constants, id <<< 20, env)),
      info: %{
        id: id,
        otp_app: opts[:otp_app],
        path: info_path(opts, path, env),
        functions: functions,
        names: Enum.zip(names, params)
      }
    }
  end

  # The modules of the classes, by their names. A module's name begins with a capital letter.
  defp class_modules(entries, env) do
    modules = for s <- entries, s.role == :class, do: {s.name, Module.concat(env.module, Macro.camelize(s.name))}

    for {module, [_, _ | _]} <- Enum.group_by(modules, &elem(&1, 1)) do
      fail(env, "two classes would have the module #{inspect(module)}")
    end

    Map.new(modules)
  end

  defp with_modules(signature, modules) do
    add = fn item -> Map.put(item, :module, modules[item.handle]) end
    %{signature | params: Enum.map(signature.params, add), results: Enum.map(signature.results, add)}
  end

  # For the NIF: the module of each result that is an object, if there are any.
  defp with_structs({text, scheduler}, results) do
    modules = Enum.map(results, & &1.module)
    if Enum.any?(modules), do: {text, scheduler, modules}, else: {text, scheduler}
  end

  # `close` and `__repr__` have no signature of their own in Elixir.
  defp class(class, modules, members, constants, key, env) do
    enumerable = enumerable(class.name, members, modules)
    members = Enum.filter(members, &(&1.class == class.name))
    constants = Enum.filter(constants, &(&1.class == class.name))
    {repr, functions} = Enum.split_with(members, &(&1.name == :__repr__))
    module = modules[class.name]
    check_names([%{name: :close} | functions] ++ constants, " of #{inspect(module)}", env)

    %{
      module: module,
      library: env.module,
      name: class.name,
      key: key,
      doc: class.doc || "Objects of the class `#{class.name}`.",
      repr: with([%{key: key}] <- repr, do: key, else: (_ -> nil)),
      functions: functions,
      constants: constants,
      enumerable: enumerable
    }
  end

  # The functions that Enumerable calls, or nil. As in Python, an object that has neither `__iter__` nor `__next__` is
  # enumerable if it has `__getitem__`.
  defp enumerable(class, members, modules) do
    find = fn class, method -> Enum.find(members, %{name: nil}, &(&1.class == class and &1.method == method)) end
    name = &find.(class, &1).name

    iter =
      with %{name: iter, result_handle: iterator} <- find.(class, "__iter__"),
           do: {iter, modules[iterator], find.(iterator, "__next__").name}

    if match?({_, _, _}, iter) or name.("__next__") || name.("__getitem__") do
      %{
        iter: if(is_tuple(iter), do: iter),
        next: name.("__next__"),
        at: name.("__getitem__"),
        size: name.("__len__"),
        contains: name.("__contains__")
      }
    end
  end

  defp check_names(definitions, of, env) do
    for {name, [_, _ | _]} <- Enum.group_by(definitions, & &1.name),
        do: fail(env, "two functions#{of} are called #{name}")
  end

  defp check!(_value, true, _expected), do: :ok

  defp check!(value, false, expected),
    do: raise(ArgumentError, "use Tenon.Library: expected #{expected}, got #{Options.show(value)}")

  defp info_path(opts, path, env), do: if(opts[:otp_app], do: path, else: beside(path, env))

  defp beside(path, env), do: Path.expand(path, Path.dirname(env.file))

  # While the application is being compiled, its folder in _build may be incomplete.
  defp candidates(nil, path, env), do: [beside(path, env)]

  defp candidates(app, path, env) do
    built = with {:error, _} <- lib_dir(app), do: []
    Enum.uniq(Enum.map(built, &Path.join(&1, path)) ++ [Path.expand(path), beside(path, env)])
  end

  defp lib_dir(app) do
    case :code.lib_dir(app) do
      {:error, _} = error -> error
      folder -> [List.to_string(folder)]
    end
  end

  defp find(opts, path, env) do
    paths = candidates(opts[:otp_app], path, env)
    {Enum.find(paths, hd(paths), &File.regular?/1), paths}
  end

  # {the file with the signatures, the library's documentation, the signatures}
  defp signatures(opts, path, env) do
    {source, paths} = find(opts, opts[:signatures] || path, env)
    read = if opts[:signatures], do: read_signatures(source), else: describe(source)

    case read do
      {:ok, doc, signatures} ->
        {source, doc, signatures}

      {:error, message} ->
        searched = if length(paths) > 1 and not File.regular?(source), do: " (searched #{several(paths)})", else: ""
        fail(env, message <> searched)
    end
  end

  defp read_signatures(source) do
    with {:ok, text} <- File.read(source),
         {:ok, _, _} = read <- Signature.parse_file(text) do
      read
    else
      {:error, message} when is_binary(message) -> {:error, "#{source}: #{message}"}
      {:error, reason} -> {:error, "#{source}: #{:file.format_error(reason)}"}
    end
  end

  defp describe(source) do
    with {:ok, {doc, functions}} <- Tenon.Library.__opened__(fn -> Nif.library_describe(source) end) do
      if Enum.all?(functions, fn {text, _, _} -> String.valid?(text) end) do
        {:ok, doc && valid(doc), for({text, doc, read} <- functions, do: signature(text, doc, read))}
      else
        {:error, "#{source}: the signature is not UTF-8"}
      end
    else
      {:error, %{reason: {:library, :unreadable}, message: message}} ->
        {:error,
         "#{message}; build it before this module is compiled (compilers: [:tenon | …] does that), or name a file " <>
           "with its signatures (signatures:)"}

      {:error, error} ->
        {:error, error.message}
    end
  end

  defp signature(text, doc, read), do: %{Signature.described(text, read) | doc: doc && valid(doc)}

  defp several(paths), do: Enum.join(paths, ", ")

  defp valid(text), do: if(String.valid?(text), do: text, else: for(<<c <- text>>, c < 128, into: "", do: <<c>>))

  defp scheduler(schedulers, name, env) do
    case Keyword.get(schedulers, String.to_atom(name), :auto) do
      scheduler when scheduler in [:auto, :normal, :dirty] -> scheduler
      other -> fail(env, "schedulers: #{name}: expected :normal, :dirty or :auto, got #{Options.show(other)}")
    end
  end

  # Elixir reads a head and a spec of `when` as guards, and its formatter cannot write a spec of `fn`.
  @impossible ~w(module_info unquote unquote_splicing fn when _)

  @special %{
    "__call__" => "call",
    "__contains__" => "contains?",
    "__eq__" => "equal?",
    "__getitem__" => "at",
    "__getstate__" => "dump",
    "__hash__" => "hash",
    "__iter__" => "iter",
    "__len__" => "size",
    "__next__" => "next",
    "__setitem__" => "put_at"
  }

  defp elixir_name(%{role: role, name: name} = signature, names, rename, env)
       when role in [:method, :static, :property] do
    case method(signature) do
      "__repr__" -> :__repr__
      method -> elixir_name(name, Map.get(@special, method, method), names, rename, env)
    end
  end

  # A function of Elixir begins with a lower-case letter.
  defp elixir_name(%{role: :constant, name: name} = signature, names, rename, env),
    do: elixir_name(name, String.downcase(method(signature) || name), names, rename, env)

  defp elixir_name(%{role: :constructor, name: name}, names, rename, env),
    do: elixir_name(name, "new", names, rename, env)

  defp elixir_name(%{name: name}, names, rename, env), do: elixir_name(name, name, names, rename, env)

  defp elixir_name(name, default, names, rename, env) do
    renamed = to_string(Keyword.get(rename, String.to_atom(name), default))

    if renamed in @impossible or String.starts_with?(renamed, "__") or not (renamed =~ ~r/^[a-z_]\w*\??$/) do
      fail(
        env,
        "#{renamed} cannot be the name of a function in Elixir; choose one with " <>
          "rename: [#{key(name)} :#{suggestion(default, names)}]"
      )
    end

    String.to_atom(renamed)
  end

  # The name after the "Class.", or nil.
  defp method(%{class: class, name: name}),
    do: if(class != name && class, do: String.replace_prefix(name, class <> ".", ""))

  defp key(name), do: if(name =~ ~r/^[A-Z]|\./, do: "\"#{name}\":", else: "#{name}:")

  defp suggestion(name, names) do
    plain = Macro.underscore(name)
    if name in @impossible or String.to_atom(plain) in names, do: "c_#{plain}", else: plain
  end

  defp fail(env, message), do: raise(CompileError, file: env.file, line: env.line, description: message)

  # ------------------------------------------------------------------------------------------------- heads and specs

  defp constant(%{results: [%{default: {:ok, value}} = item]} = signature, name) do
    %{
      class: signature.class,
      name: name,
      value: Macro.escape(value),
      type: result_type(item),
      doc: Enum.join([signature.doc || "", "", "    #{signature.text}"], "\n")
    }
  end

  defp definition(signature, name, key) do
    {keywords, positional} = Enum.split_with(signature.params, & &1.keyword_only)
    variables = positional |> Enum.map(& &1.name) |> variables()
    vars = Enum.map(variables, &var/1)
    head = Enum.zip_with(vars, positional, fn var, param -> with_default(var, param.default) end)
    types = Enum.map(positional, &argument_type/1)
    required = Enum.count(positional, &(&1.default == nil))

    {vars, head, types, required} =
      if keywords == [] do
        {vars, head, types, required}
      else
        options = var(variable("options", variables))
        needed? = Enum.any?(keywords, &(&1.default == nil))
        # A required parameter cannot follow an optional one.
        omitted? = not needed? or required < length(positional)
        default = if omitted?, do: {:ok, []}

        {vars ++ [options], head ++ [with_default(options, default)], types ++ [keyword_type(keywords)],
         if(omitted?, do: required, else: required + 1)}
      end

    value = value_type(signature.results)
    error = quote(do: {:error, Tenon.Error.t()})

    result =
      if value == :ok, do: quote(do: :ok | unquote(error)), else: quote(do: {:ok, unquote(value)} | unquote(error))

    arguments = for arity <- required..length(types), do: Enum.take(types, arity)

    # Names with a question mark return the value itself, as elsewhere in Elixir.
    predicate? = String.ends_with?(Atom.to_string(name), "?")

    %{
      class: signature.class,
      entry: signature.name,
      converts?: signature.text =~ ~r/\bconvert\b/,
      arities: required..length(types),
      method: method(signature),
      result_handle: with([%{handle: handle}] <- signature.results, do: handle, else: (_ -> nil)),
      predicate?: predicate?,
      name: name,
      bang: if(predicate?, do: name, else: :"#{Atom.to_string(name)}!"),
      key: key,
      vars: vars,
      head: head,
      specs: for(types <- arguments, do: {types, result}),
      bang_specs: for(types <- arguments, do: {types, value}),
      doc: Enum.join([signature.doc || "", "", "    #{signature.text}", options_doc(keywords)], "\n"),
      bang_doc:
        if(predicate?,
          do: Enum.join([signature.doc || "", "", "    #{signature.text}", "", "Raises `Tenon.Error`."], "\n"),
          else:
            "Like `#{Atom.to_string(name)}/#{length(types)}`, but returns the result itself, or raises `Tenon.Error`."
        )
    }
  end

  # The clauses of a function: the parameters, and the calls that are tried, each with its key and its arguments. Entries of
  # one name are one function.
  defp overloaded(definitions) do
    definitions
    |> Enum.group_by(& &1.entry)
    |> Enum.map(fn {_, group} -> group end)
    |> Enum.sort_by(&hd(&1).key)
    |> Enum.map(fn
      [one] -> Map.put(one, :clauses, [%{head: one.head, calls: [{one.key, {:{}, [], one.vars}}]}])
      group -> overload(group)
    end)
  end

  defp overload([first | _] = group) do
    arities = group |> Enum.flat_map(&Enum.to_list(&1.arities)) |> Enum.uniq() |> Enum.sort()

    clauses =
      for arity <- arities do
        [one | _] = entries = Enum.filter(group, &(arity in &1.arities))
        vars = Enum.take(one.vars, arity)
        calls = for entry <- entries, do: {entry.key, {:{}, [], vars ++ defaults(entry, arity)}}
        %{head: vars, calls: exact(calls, entries) ++ calls}
      end

    %{
      first
      | doc: Enum.map_join(group, "\n\n", & &1.doc),
        specs: Enum.map(arities, &union(group, :specs, &1)),
        bang_specs: Enum.map(arities, &union(group, :bang_specs, &1))
    }
    |> Map.put(:clauses, clauses)
  end

  # If several entries are tried and one converts its arguments, all are tried without conversion first. A parameter that is
  # only called "convert" costs these tries too.
  defp exact([_, _ | _] = calls, entries) do
    if Enum.any?(entries, & &1.converts?),
      do: for({key, arguments} <- calls, do: {key ||| Overloads.exact(), arguments}),
      else: []
  end

  defp exact(_calls, _entries), do: []

  defp defaults(entry, arity), do: for({:\\, _, [_var, value]} <- Enum.drop(entry.head, arity), do: value)

  # One spec for all entries: Dialyzer ignores several ones that overlap.
  defp union(group, specs, arity) do
    found = for entry <- group, {types, _} = spec <- Map.fetch!(entry, specs), length(types) == arity, do: spec
    types = found |> Enum.map(&elem(&1, 0)) |> Enum.zip_with(&alternatives/1)
    {types, found |> Enum.map(&elem(&1, 1)) |> alternatives()}
  end

  defp options_doc([]), do: ""
  defp options_doc(keywords), do: "\nOptions: " <> Enum.map_join(keywords, ", ", &"`:#{&1.name}`") <> "."

  defp with_default(var, nil), do: var
  defp with_default(var, {:ok, value}), do: {:\\, [], [var, Macro.escape(value)]}

  @reserved ~w(true false nil when and or not in fn do end catch rescue after else)

  # The variables for parameters with these names. A name that can be a variable is not changed.
  defp variables(names) do
    {variables, _taken} =
      Enum.map_reduce(names, names, fn name, taken ->
        variable = variable(name, taken -- [name])
        {variable, [variable | taken]}
      end)

    variables
  end

  # A variable is not a reserved word, and begins with a lower-case letter.
  defp variable(name, taken) do
    plain = name |> String.trim_leading("_") |> Macro.underscore()
    unused(if(plain =~ ~r/^[a-z]/, do: plain, else: "arg" <> plain), taken)
  end

  defp unused(name, taken), do: if(name in @reserved or name in taken, do: unused(name <> "_", taken), else: name)

  defp var(name), do: Macro.var(String.to_atom(name), nil)

  defp keyword_type(keywords) do
    options = for param <- keywords, do: {String.to_atom(param.name), argument_type(param)}
    quote(do: [unquote(Enum.reduce(Enum.reverse(options), &quote(do: unquote(&1) | unquote(&2))))])
  end

  defp argument_type(%{optional: true} = item), do: quote(do: unquote(argument_type(%{item | optional: false})) | nil)
  defp argument_type(%{kind: :tensor}), do: quote(do: Tenon.Library.tensor())
  defp argument_type(%{kind: :tensors}), do: quote(do: [Tenon.Library.tensor()])
  defp argument_type(%{kind: :enum} = item), do: quote(do: unquote(result_type(item)) | String.t())

  defp argument_type(%{kind: :complex}),
    do: quote(do: Tenon.Library.complex() | Tenon.Library.float_or_atom() | struct())

  defp argument_type(%{kind: :dtype}), do: quote(do: Tenon.type())
  defp argument_type(item), do: result_type(item)

  defp value_type([]), do: :ok
  defp value_type([item]), do: result_type(item)
  defp value_type(items), do: {:{}, [], Enum.map(items, &result_type/1)}

  defp result_type(%{optional: true} = item), do: quote(do: unquote(result_type(%{item | optional: false})) | nil)
  defp result_type(%{kind: :tensor}), do: quote(do: Tenon.Tensor.t() | struct())
  defp result_type(%{kind: :tensors}), do: quote(do: [Tenon.Tensor.t() | struct()])
  defp result_type(%{kind: :int, choices: [_ | _] = choices}), do: alternatives(choices)
  defp result_type(%{kind: :int}), do: quote(do: integer())
  defp result_type(%{kind: :uint}), do: quote(do: non_neg_integer())
  defp result_type(%{kind: :complex}), do: quote(do: Tenon.Library.complex())
  defp result_type(%{kind: :bytes}), do: quote(do: binary())
  defp result_type(%{kind: :ints}), do: quote(do: [integer()])
  defp result_type(%{kind: :floats}), do: quote(do: [Tenon.Library.float_or_atom()])
  defp result_type(%{kind: :strs}), do: quote(do: [String.t()])
  defp result_type(%{kind: :float}), do: quote(do: Tenon.Library.float_or_atom())
  defp result_type(%{kind: :bool}), do: quote(do: boolean())
  defp result_type(%{kind: :str}), do: quote(do: String.t())
  defp result_type(%{kind: :handle, module: nil}), do: quote(do: Tenon.Library.handle())
  defp result_type(%{kind: :handle, module: module}), do: quote(do: unquote(module).t())

  defp result_type(%{kind: :enum, choices: choices}) do
    choices
    |> Enum.map(&if(is_atom(Signature.choice(&1)), do: Signature.choice(&1), else: quote(do: String.t())))
    |> alternatives()
  end

  defp alternatives(types),
    do: types |> Enum.uniq() |> Enum.reverse() |> Enum.reduce(&quote(do: unquote(&1) | unquote(&2)))
end
