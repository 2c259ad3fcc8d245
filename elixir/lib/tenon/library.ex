defmodule Tenon.Library do
  @moduledoc """
  The functions of a C library as an Elixir module.

      defmodule Kernels do
        use Tenon.Library, otp_app: :my_app, path: "priv/kernels.so"
      end

      {:ok, z} = Kernels.saxpy(2.0, x, y)
      z = Kernels.saxpy!(2.0, x, y)

  The library is a shared object that needs only `tenon/function.h`: Python loads the same compiled file. When the module
  is compiled, its signatures (docs/signatures.md) become function heads, specs and documentation. Every call is checked
  against them.

  ## Options
    * `:path` — the library (required). It is relative to the application's folder with `:otp_app`, and otherwise to the
      source file.
    * `:otp_app` — the application that contains the library, usually in its `priv`.
    * `:signatures` — a text file with the signatures, for a library that cannot be opened at compile time (a cross
      build). `python -m tenon describe kernels.so` prints it. The file is searched where `:path` is, and beside the
      source file.
    * `:rename` — `[module_info: :info]`: other names for functions whose names are not possible in Elixir.
    * `:schedulers` — `[matmul: :dirty, dot: :normal]`: the schedulers that functions run on. By default, unless the
      library says otherwise, a function runs on the caller's scheduler if its arguments and results have less than
      32 KiB, and on a dirty scheduler otherwise.

  ## Arguments and results
  | signature | an argument | a result |
  |---|---|---|
  | `f32[n]` | a `Tenon.Tensor`, an Nx tensor, `{binary, type, shape}` | a `Tenon.Tensor`, or an Nx tensor if the first tensor argument is one |
  | `int`, `bool`, `str` | a 64-bit integer, a boolean, a string | the same |
  | `float` | a number, `:nan`, `:infinity`, `:neg_infinity` | a float or one of these atoms |
  | `'mean'\\|'sum'` | `:mean` or `"mean"` | `:mean` |
  | `ints`, `floats` | a list | |
  | `handle('Index')` | a reference that another function of the library returned | a reference |

  A `?` after a type allows nil. Defaults become defaults; parameters after a `*` are passed last, as a keyword list. A
  function returns `:ok`, `{:ok, result}` or `{:ok, {result, …}}`. It returns `{:error, %Tenon.Error{}}` if the arguments
  do not match (`{:mismatch, :x}`, `{:badarg, :x}`, `:readonly`, `:overlap`, `:busy`, …), if it fails
  (`{:failed, :einval}`), or if the library could not be opened (`{:library, why}`). Its variant with a `!` returns the
  result, or raises. An unknown or missing option raises `ArgumentError` in both. Messages name the expected types as
  the signature does and the given types as Nx does: `i64` in a signature is `s64` in Nx.

  ## Names
  Functions, options and errors have the names of the signature, even if these are reserved words of Elixir:

      # cut(x: f32[n], *, end: int, fn: str = 'mean') -> f32[?]
      Kernels.cut(x, end: 3)

  But a variable cannot be called `end`. If the name of a parameter is a reserved word, the function's head and
  documentation append an underscore: `end_`, or `end__` if another parameter is called `end_`. After a dot a reserved
  word is a valid function name: `Kernels.end(x)`. Only functions called `fn` and `when` need `:rename`.

  ## Stacks
  Dirty schedulers have small stacks: 40 kilowords (320 KiB) by default, while a normal scheduler has 128 kilowords
  (1 MiB). Calls with large arguments run on a dirty scheduler, so every function must work with the smaller stack. A
  function with 400 KiB of local variables works with small tensors, and crashes the VM with large ones. Use
  `tenon_scratch` for such memory, or start the VM with larger stacks, in kilowords:

      elixir --erl "+sssdcpu 256" …

  or `+sssdcpu 256` in the `vm.args` of a release.

  ## Loading
  The library is opened when the module is loaded. If that fails, the module is loaded nevertheless, and each call returns
  the reason, so that a release boots without its library. A library is opened in place and never closed; two modules
  can share one. If a new build replaces the file, as linkers, `mv` and `File.rename/2` do, a module that is loaded again
  uses the new library, and the old functions still work. Do not write into the file of an open library, as `cp` and
  `File.cp/2` do: that damages the code in use, and calling a function may crash the VM.
  """

  alias Tenon.{Memory, Nif, Options, Signature}
  import Bitwise

  @typedoc "A tensor argument of a function."
  @type tensor :: Tenon.Tensor.t() | {binary(), term(), tuple() | list()} | struct()
  @typedoc "A float, as an argument or a result of a function."
  @type float_or_atom :: number() | :nan | :infinity | :neg_infinity
  @typedoc "An object of a library. It is destroyed once, when there are no references to it."
  @type handle :: reference()

  @doc false
  defmacro __using__(opts) do
    quote bind_quoted: [opts: opts] do
      require Tenon.Error
      library = Tenon.Library.__compile__(opts, __ENV__)

      for resource <- library.resources, do: @external_resource(resource)
      if library.doc && Module.get_attribute(__MODULE__, :moduledoc) == nil, do: @moduledoc(library.doc)

      @on_load :__tenon_load__
      @tenon_library library.info

      @doc false
      def __tenon_library__, do: @tenon_library

      @doc false
      def __tenon_load__, do: Tenon.Library.__load__(__MODULE__, @tenon_library)

      Tenon.Library.__functions__(library.functions, __MODULE__)

      for class <- library.classes do
        defmodule class.module do
          @moduledoc class.doc
          defstruct [:ref]
          @typedoc "An object. It is destroyed once, when it is closed or when there are no references to it."
          @type t :: %__MODULE__{ref: reference()}

          Tenon.Library.__functions__(class.functions, class.library)

          @doc """
          Closes the object. Calls that run end first, and later ones return the reason `:released`. Closing it again does
          nothing.
          """
          @spec close(t()) :: :ok | {:error, Tenon.Error.t()}
          def close(object) do
            Tenon.Library.__close__(unquote(class.library), unquote(class.key), object, unquote(class.name))
          end

          defimpl Inspect do
            def inspect(object, _options) do
              Tenon.Library.__inspect__(unquote(class.library), unquote(class.repr), object)
            end
          end
        end
      end
    end
  end

  # Defines functions that call those of the library of `library`.
  @doc false
  defmacro __functions__(functions, library) do
    quote bind_quoted: [functions: functions, library: library] do
      for function <- functions do
        @doc function.doc
        for {arguments, result} <- function.specs do
          @spec unquote(function.name)(unquote_splicing(arguments)) :: unquote(result)
        end

        def unquote(function.name)(unquote_splicing(function.head)) do
          Tenon.Error.result!(
            Tenon.Library.__call__(unquote(library), unquote(function.key), {unquote_splicing(function.vars)})
          )
        end

        @doc function.bang_doc
        for {arguments, result} <- function.bang_specs do
          @spec unquote(function.bang)(unquote_splicing(arguments)) :: unquote(result)
        end

        def unquote(function.bang)(unquote_splicing(function.head)) do
          Tenon.Error.value!(
            Tenon.Library.__call__(unquote(library), unquote(function.key), {unquote_splicing(function.vars)})
          )
        end
      end
    end
  end

  # -------------------------------------------------------------------------------------------------------- calling

  @doc false
  def __call__(module, key, arguments, tries \\ 0) do
    case Nif.call(module, key, arguments) do
      :unbound -> with :ok <- bind(module), do: __call__(module, key, arguments)
      {:charge, _, _} = result -> Memory.charge(result)
      :nx -> call_with_nx(module, key, arguments)
      :waiting -> wait(tries) && __call__(module, key, arguments, tries + 1)
      {:warn, messages, result} -> warn(messages) && Memory.charge(result)
      result -> result
    end
  end

  # An object is in a call of another process. Only this process waits. Short calls end within a few turns of the
  # scheduler; during a long one, asking again all the time would keep a scheduler busy.
  @turns 20
  defp wait(tries) when tries < @turns, do: :erlang.yield()
  defp wait(_tries), do: Process.sleep(1)

  # From the checked mode.
  defp warn(messages), do: messages |> Enum.reverse() |> Enum.each(&IO.warn(&1, []))

  # Opening failed. If the reason was Tenon's own NIF, it may be loaded now: when a release boots, a module that is loaded
  # later may be ready earlier. The modules of classes may be called before that of their library is loaded.
  defp bind(module) do
    case failure(module) do
      %Tenon.Error{reason: {:library, why}} = error when why != :nif -> {:error, error}
      _ -> reload(module)
    end
  end

  @doc false
  def __close__(module, key, object, class, tries \\ 0) do
    case Nif.close(module, key, object, class) do
      :unbound -> with :ok <- bind(module), do: __close__(module, key, object, class)
      :waiting -> wait(tries) && __close__(module, key, object, class, tries + 1)
      result -> result
    end
  end

  # Never waits and never fails, because it is also used to report errors. `key` is that of `__repr__`, or nil.
  @doc false
  def __inspect__(module, key, object) do
    text =
      case key && Nif.call(module, key, {object}) do
        {:ok, text} -> text
        {:error, %{reason: :released}} -> "closed"
        :waiting -> "in a call"
        _ -> inspect(object.ref)
      end

    "##{inspect(object.__struct__)}<#{text}>"
  end

  # Only public functions of Nx are called, and only if the caller passes Nx tensors.
  defp call_with_nx(module, key, arguments) do
    arguments = Tuple.to_list(arguments)
    first = arguments |> Enum.flat_map(&values/1) |> Enum.find(&tensor?/1)

    name = &name(module, key, &1)

    with :ok <- Tenon.Nx.available(fn -> name.(nil) end),
         {:ok, converted} <- from_nx(Enum.with_index(arguments), name),
         {:ok, value} when is_struct(first, Nx.Tensor) <- __call__(module, key, List.to_tuple(converted)) do
      to_nx(value, fn -> name.(nil) end)
    end
  end

  # {function, argument}, for errors only. `argument` is a position, or the name of an option.
  defp name(module, key, argument) do
    {function, params} = Enum.at(module.__tenon_library__().names, key &&& 0xFFFFF)
    {function, if(is_integer(argument), do: Enum.at(params, argument), else: argument)}
  end

  defp values(argument), do: if(Keyword.keyword?(argument), do: Keyword.values(argument), else: [argument])

  defp tensor?(argument), do: is_struct(argument, Nx.Tensor) or is_struct(argument, Tenon.Tensor) or binary?(argument)
  defp binary?(argument), do: is_tuple(argument) and tuple_size(argument) == 3

  defp from_nx([], _name), do: {:ok, []}

  defp from_nx([{argument, place} | rest], name) do
    with {:ok, one} <- convert(argument, place, name),
         {:ok, others} <- from_nx(rest, name) do
      {:ok, [one | others]}
    end
  end

  defp convert(tensor, place, name) when is_struct(tensor, Nx.Tensor) do
    Tenon.Nx.to_argument(tensor, fn -> name.(place) end)
  end

  defp convert([{_, _} | _] = options, _place, name) do
    if Keyword.keyword?(options) do
      {names, values} = Enum.unzip(options)
      with {:ok, values} <- from_nx(Enum.zip(values, names), name), do: {:ok, Enum.zip(names, values)}
    else
      {:ok, options}
    end
  end

  defp convert(other, _place, _name), do: {:ok, other}

  defp to_nx(%Tenon.Tensor{} = tensor, name), do: Tenon.Nx.to_result(tensor, name)

  defp to_nx(values, name) when is_tuple(values) do
    converted = values |> Tuple.to_list() |> Enum.map(&to_nx(&1, name))

    with nil <- Enum.find(converted, &match?({:error, _}, &1)) do
      {:ok, converted |> Enum.map(&elem(&1, 1)) |> List.to_tuple()}
    end
  end

  defp to_nx(other, _name), do: {:ok, other}

  # -------------------------------------------------------------------------------------------------------- loading

  @doc """
  Opens the library of a module again, if the file was missing or wrong when the module was loaded, or has changed.
  Running functions continue in the old library. If the new file is wrong, the old library stays in use.
  """
  @spec reload(module()) :: :ok | {:error, Tenon.Error.t()}
  def reload(module) do
    unless is_atom(module) and Code.ensure_loaded?(module) and function_exported?(module, :__tenon_load__, 0) do
      raise ArgumentError, "reload(): expected a module that uses Tenon.Library, got #{Options.show(module)}"
    end

    module.__tenon_load__()
    with %Tenon.Error{} = error <- failure(module), do: {:error, error}, else: (nil -> :ok)
  end

  defp failure(module), do: :persistent_term.get({__MODULE__, module}, nil)

  # An on_load function must not fail, because that would stop a release at boot.
  @doc false
  def __load__(module, info) do
    key = {__MODULE__, module}

    case open(module, info) do
      {:error, error} -> :persistent_term.put(key, error)
      :ok -> if failure(module), do: :persistent_term.erase(key)
    end

    :ok
  end

  defp open(module, info) do
    Nif.library_open(module, {info.id, run_path(info), info.functions})
  rescue
    error ->
      why = if match?(%UndefinedFunctionError{module: Nif}, error), do: :nif, else: :unreadable
      {:error, %Tenon.Error{reason: {:library, why}, message: Exception.message(error)}}
  end

  defp run_path(%{otp_app: nil, path: path}), do: path
  defp run_path(%{otp_app: app, path: path}), do: Application.app_dir(app, path)

  # ------------------------------------------------------------------------------------------------------ compiling

  @options [:path, :otp_app, :signatures, :rename, :schedulers]

  @doc false
  def __compile__(opts, env) do
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
    signatures = for s <- entries, s.role != :class, do: with_modules(s, modules)
    names = Enum.map(signatures, &String.to_atom(&1.name))

    for {name, _} <- rename ++ schedulers, name not in names do
      fail(env, "there is no function #{name} in #{source}")
    end

    functions = for s <- signatures, do: with_structs({s.text, scheduler(schedulers, s.name, env)}, s.results)
    id = :erlang.phash2(functions, 1 <<< 32)
    params = for s <- signatures, do: for(p <- s.params, do: String.to_atom(p.name))

    definitions =
      for {signature, index} <- Enum.with_index(signatures) do
        definition(signature, elixir_name(signature, names, rename, env), (id <<< 20) + index)
      end

    {functions_only, members} = Enum.split_with(definitions, &(&1.class == nil))
    check_names(functions_only, "", env)

    %{
      resources: [source],
      doc: doc,
      functions: functions_only,
      classes: for(c <- entries, c.role == :class, do: class(c, modules, members, id <<< 20, env)),
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
  defp with_structs(function, results) do
    modules = Enum.map(results, & &1.module)
    if Enum.any?(modules), do: Tuple.append(function, modules), else: function
  end

  # `close` and `__repr__` have no signature of their own in Elixir.
  defp class(class, modules, members, key, env) do
    {repr, functions} = members |> Enum.filter(&(&1.class == class.name)) |> Enum.split_with(&(&1.name == :__repr__))
    module = modules[class.name]
    check_names([%{name: :close} | functions], " of #{inspect(module)}", env)

    %{
      module: module,
      library: env.module,
      name: class.name,
      key: key,
      doc: class.doc || "Objects of the class `#{class.name}`.",
      repr: with([%{key: key}] <- repr, do: key, else: (_ -> nil)),
      functions: functions
    }
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
    with {:ok, {doc, functions}} <- Nif.library_describe(source) do
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

  defp elixir_name(%{role: :method, name: name, class: class}, names, rename, env) do
    case String.replace_prefix(name, class <> ".", "") do
      "__repr__" -> :__repr__
      "__len__" -> elixir_name(name, "size", names, rename, env)
      "__getitem__" -> elixir_name(name, "at", names, rename, env)
      method -> elixir_name(name, method, names, rename, env)
    end
  end

  defp elixir_name(%{role: :constructor, name: name}, names, rename, env),
    do: elixir_name(name, "new", names, rename, env)

  defp elixir_name(%{name: name}, names, rename, env), do: elixir_name(name, name, names, rename, env)

  defp elixir_name(name, default, names, rename, env) do
    renamed = to_string(Keyword.get(rename, String.to_atom(name), default))

    if renamed in @impossible or String.starts_with?(renamed, "__") or not (renamed =~ ~r/^[a-z_]\w*$/) do
      fail(
        env,
        "#{renamed} cannot be the name of a function in Elixir; choose one with " <>
          "rename: [#{key(name)} :#{suggestion(default, names)}]"
      )
    end

    String.to_atom(renamed)
  end

  defp key(name), do: if(name =~ ~r/^[A-Z]|\./, do: "\"#{name}\":", else: "#{name}:")

  defp suggestion(name, names) do
    plain = Macro.underscore(name)
    if name in @impossible or String.to_atom(plain) in names, do: "c_#{plain}", else: plain
  end

  defp fail(env, message), do: raise(CompileError, file: env.file, line: env.line, description: message)

  # ------------------------------------------------------------------------------------------------- heads and specs

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

    %{
      class: signature.class,
      name: name,
      bang: :"#{Atom.to_string(name)}!",
      key: key,
      vars: vars,
      head: head,
      specs: for(types <- arguments, do: {types, result}),
      bang_specs: for(types <- arguments, do: {types, value}),
      doc: Enum.join([signature.doc || "", "", "    #{signature.text}", options_doc(keywords)], "\n"),
      bang_doc:
        "Like `#{Atom.to_string(name)}/#{length(types)}`, but returns the result itself, or raises `Tenon.Error`."
    }
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
  defp argument_type(%{kind: :enum} = item), do: quote(do: unquote(result_type(item)) | String.t())
  defp argument_type(%{kind: :ints}), do: quote(do: [integer()])
  defp argument_type(%{kind: :floats}), do: quote(do: [Tenon.Library.float_or_atom()])
  defp argument_type(item), do: result_type(item)

  defp value_type([]), do: :ok
  defp value_type([item]), do: result_type(item)
  defp value_type(items), do: {:{}, [], Enum.map(items, &result_type/1)}

  defp result_type(%{optional: true} = item), do: quote(do: unquote(result_type(%{item | optional: false})) | nil)
  defp result_type(%{kind: :tensor}), do: quote(do: Tenon.Tensor.t() | struct())
  defp result_type(%{kind: :int}), do: quote(do: integer())
  defp result_type(%{kind: :float}), do: quote(do: Tenon.Library.float_or_atom())
  defp result_type(%{kind: :bool}), do: quote(do: boolean())
  defp result_type(%{kind: :str}), do: quote(do: String.t())
  defp result_type(%{kind: :handle, module: nil}), do: quote(do: Tenon.Library.handle())
  defp result_type(%{kind: :handle, module: module}), do: quote(do: unquote(module).t())

  defp result_type(%{kind: :enum, choices: choices}) do
    choices
    |> Enum.map(&if(is_atom(Signature.choice(&1)), do: Signature.choice(&1), else: quote(do: String.t())))
    |> Enum.uniq()
    |> Enum.reverse()
    |> Enum.reduce(&quote(do: unquote(&1) | unquote(&2)))
  end
end
