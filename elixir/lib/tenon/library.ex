defmodule Tenon.Library do
  @moduledoc """
  The functions of a C library as an Elixir module.

      defmodule Kernels do
        use Tenon.Library, otp_app: :my_app, path: "priv/kernels.so"
      end

      {:ok, z} = Kernels.saxpy(2.0, x, y)
      z = Kernels.saxpy!(2.0, x, y)

  The library is a shared object that needs only `tenon/function.h`: Python loads the same compiled file. When the module
  is compiled, its signatures (docs/signatures.md) become function heads, specs and documentation, and its classes become
  modules. Every call is checked against them.

  ## Options
    * `:path` — the library (required). It is relative to the application's folder with `:otp_app`, and otherwise to the
      source file.
    * `:otp_app` — the application that contains the library, usually in its `priv`.
    * `:signatures` — a text file with the signatures, for a library that cannot be opened at compile time (a cross
      build). `python -m tenon describe kernels.so` prints it. The file is searched where `:path` is, and beside the
      source file.
    * `:rename` — `[module_info: :info]`: other names for functions whose names are not possible in Elixir. The name of a
      method is `"KDTree.query"`, and that of a constructor is the name of its class.
    * `:schedulers` — `[matmul: :dirty, dot: :normal]`: the schedulers that functions run on. By default, unless the
      library says otherwise, a function runs on the caller's scheduler if its arguments and results have less than
      32 KiB, and on a dirty scheduler otherwise.

  ## Arguments and results
  | signature | an argument | a result |
  |---|---|---|
  | `f32[n]` | a `Tenon.Tensor`, an Nx tensor, `{binary, type, shape}` | a `Tenon.Tensor`, or an Nx tensor if the first tensor argument is one |
  | `int`, `bool`, `str` | a 64-bit integer, a boolean, a string | the same |
  | `float` | a number, `:nan`, `:infinity`, `:neg_infinity` | a float or one of these atoms |
  | `uint` | an integer from 0 to 2^64 - 1 | the same |
  | `complex` | `{re, im}`, a number, or a struct with the fields `re` and `im`, such as the `Complex` of Nx | `{re, im}` |
  | `1\\|2\\|4` | one of these integers | |
  | `'mean'\\|'sum'` | `:mean` or `"mean"` | `:mean` |
  | `bytes` | a binary, which is not copied | a binary |
  | `dtype` | a type as in Nx: `{:f, 32}` or `:f32` | |
  | `ints`, `floats`, `strs` | a list | a list |
  | `[f32[n]]` | a list of such tensors | a list of `Tenon.Tensor`s, or of Nx tensors |
  | `handle('Index')` | a reference that another function of the library returned | a reference |
  | `handle('KDTree')` if `KDTree` is a class | a `%Spatial.KDTree{}` | a `%Spatial.KDTree{}` |

  Entries of one name are one function, which calls the first one that fits the arguments; if none does, the reason is
  `{:mismatch, nil}`, and the message lists why.

  A `?` after a type allows nil. Defaults become defaults; parameters after a `*` are passed last, as a keyword list. A
  function returns `:ok`, `{:ok, result}` or `{:ok, {result, …}}`. It returns `{:error, %Tenon.Error{}}` if the arguments
  do not match (`{:mismatch, :x}`, `{:badarg, :x}`, `:readonly`, `:overlap`, `:busy`, …), if it fails
  (`{:failed, :einval}`), or if the library could not be opened (`{:library, why}`). Its variant with a `!` returns the
  result, or raises. An unknown or missing option raises `ArgumentError` in both. Messages name the expected types as
  the signature does and the given types as Nx does: `i64` in a signature is `s64` in Nx.

  ## Classes
  A class of the library becomes a module inside the module of the library. A lower-case name gets a capital letter:

      # class KDTree
      # KDTree(points: f32[n, d] c keep, leaf: int = 16)
      # KDTree.query(self, x: f32[m, d] c, k: int = 1) -> rows: i64[m, k], distance: f32[m, k]
      # KDTree.points(self) -> f32[?, ?] of(self)
      # KDTree.__len__(self) -> int
      tree = Spatial.KDTree.new!(points)
      {:ok, {rows, distance}} = Spatial.KDTree.query(tree, x, 3)
      Spatial.KDTree.size!(tree)
      :ok = Spatial.KDTree.close(tree)

  `new` is the constructor, and `inspect/1` shows the text of `__repr__`, or that the object is closed or in a call. Static
  methods and properties are functions of the module: `Spatial.KDTree.load(path)`, `Spatial.KDTree.size(tree)`. A constant is
  a function without arguments whose name is in lower case, and returns its value: `Spatial.KDTree.leaf()` is `KDTree.LEAF`.
  The special methods have these names:

  | in the signature | in Elixir |
  |---|---|
  | `__len__`, `__hash__`, `__call__` | `size/1`, `hash/1`, `call` |
  | `__getitem__`, `__setitem__` | `at/2`, `put_at/3` |
  | `__contains__`, `__eq__` | `contains?/2` and `equal?/2`, which return a boolean, or raise `Tenon.Error` |
  | `__iter__`, `__next__` | `iter/1` and `next/1`, which ends with the reason `{:failed, :ebounds}` |
  | `__getstate__` | `dump/1`, whose binary `load/1` takes |

  Objects of classes with `__iter__`, `__next__` or `__getitem__` are enumerable: `Enum.map(tree, …)`. `==` compares
  references, as for all terms.

  Objects are ordinary terms: any process may use them. An object is destroyed once, on a thread of Tenon, after the last
  reference is gone or after `close/1`.

  Calls on one object run one after the other, unless the library says that they may run at the same time. A process that
  calls an object that is in another call waits, and no scheduler waits with it. `close/1` waits for the calls that run.
  Calls on a closed object return the reason `:released`.

  ## Memory that outlives a call
    * An argument that is `keep` stays in use as long as the library keeps it: it can be read, and writing to it is the
      error `:busy`. A binary is kept without a copy if it has more than 64 bytes and its address is aligned for its type;
      otherwise the library gets a copy.
    * A result that is `own` is memory of the library, which is released once, when the last tensor and the last binary
      are gone. `Tenon.to_binary/2` does not copy it.
    * A result `of(self)` shows the memory of the object and keeps the object alive, even after `close/1`. It cannot be
      written to unless it is `rw`. Later calls on the object may change it, so a binary of it is always a copy:
      `Tenon.to_binary/2` needs `copy: :allow`, and otherwise returns the error `:would_copy`.
    * A result `of(x)` is a view of the argument, and can be written to if the argument can be. Of a binary that the
      runtime would move (see `keep`) it is a copy.

  ## Checks
  If the environment variable `TENON_CHECK` is `1`, `true`, `yes` or `on` when the VM starts, every call on the CPU is
  checked. A function that writes outside its results, or to an argument that is not `rw`, returns
  `{:failed, :efailed}`. A result of which no byte changed is a warning.

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

  alias Tenon.{Memory, Nif, Options}
  import Bitwise

  @typedoc "A tensor argument of a function."
  @type tensor :: Tenon.Tensor.t() | {binary(), term(), tuple() | list()} | struct()
  @typedoc "A float, as an argument or a result of a function."
  @type float_or_atom :: number() | :nan | :infinity | :neg_infinity
  @typedoc "An object of a library. It is destroyed once, when there are no references to it."
  @type handle :: reference()
  @typedoc "A complex number: its real and its imaginary part."
  @type complex :: {float_or_atom(), float_or_atom()}

  @doc false
  defmacro __using__(opts) do
    quote bind_quoted: [opts: opts] do
      require Tenon.Error
      library = Tenon.Library.Compiler.compile(opts, __ENV__)

      for resource <- library.resources, do: @external_resource(resource)
      if library.doc && Module.get_attribute(__MODULE__, :moduledoc) == nil, do: @moduledoc(library.doc)

      @on_load :__tenon_load__
      @tenon_library library.info

      @doc false
      def __tenon_library__, do: @tenon_library

      @doc false
      def __tenon_load__, do: Tenon.Library.__load__(__MODULE__, @tenon_library)

      Tenon.Library.__functions__(library.functions, __MODULE__)
      Tenon.Library.__constants__(library.constants)

      for class <- library.classes do
        defmodule class.module do
          @moduledoc class.doc
          defstruct [:ref]
          @typedoc "An object. It is destroyed once, when it is closed or when there are no references to it."
          @type t :: %__MODULE__{ref: reference()}

          Tenon.Library.__functions__(class.functions, class.library)
          Tenon.Library.__constants__(class.constants)

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

          if class.enumerable do
            defimpl Enumerable do
              @enumeration Map.put(class.enumerable, :module, class.module)
              def reduce(object, acc, fun), do: Tenon.Library.Enumeration.reduce(@enumeration, object, acc, fun)
              def count(object), do: Tenon.Library.Enumeration.count(@enumeration, object, __MODULE__)
              def member?(object, value), do: Tenon.Library.Enumeration.member?(@enumeration, object, value, __MODULE__)
              def slice(_object), do: {:error, __MODULE__}
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
        unless function.predicate? do
          for {arguments, result} <- function.specs do
            @spec unquote(function.name)(unquote_splicing(arguments)) :: unquote(result)
          end

          for clause <- function.clauses do
            @doc function.doc
            def unquote(function.name)(unquote_splicing(clause.head)) do
              Tenon.Error.result!(Tenon.Library.__call_first__(unquote(library), unquote(clause.calls)))
            end
          end
        end

        for {arguments, result} <- function.bang_specs do
          @spec unquote(function.bang)(unquote_splicing(arguments)) :: unquote(result)
        end

        for clause <- function.clauses do
          @doc function.bang_doc
          def unquote(function.bang)(unquote_splicing(clause.head)) do
            Tenon.Error.value!(Tenon.Library.__call_first__(unquote(library), unquote(clause.calls)))
          end
        end
      end
    end
  end

  # Only one entry of the library can be meant, or those of an overloaded function are tried.
  @doc false
  defmacro __call_first__(library, [{key, arguments}]) do
    quote(do: Tenon.Library.__call__(unquote(library), unquote(key), unquote(arguments)))
  end

  defmacro __call_first__(library, calls) do
    quote(do: Tenon.Library.Overloads.call(unquote(library), unquote(calls)))
  end

  @doc false
  defmacro __constants__(constants) do
    quote bind_quoted: [constants: constants] do
      for constant <- constants do
        @doc constant.doc
        @spec unquote(constant.name)() :: unquote(constant.type)
        def unquote(constant.name)(), do: unquote(constant.value)
      end
    end
  end

  # -------------------------------------------------------------------------------------------------------- calling

  # Instead of the number of tries.
  @just_bound -1

  @doc false
  def __call__(module, key, arguments, tries \\ 0) do
    case Nif.call(module, key, arguments) do
      :unbound when tries == @just_bound -> old_code(module)
      :unbound -> with :ok <- bind(module), do: __call__(module, key, arguments, @just_bound)
      {:charge, _, _} = result -> Memory.charge(result)
      :nx -> call_with_nx(module, key, arguments)
      :waiting -> wait(tries, fn -> __call__(module, key, arguments, tries + 1) end)
      {:warn, messages, result} -> warn(messages, result)
      result -> result
    end
  end

  # An object is in a call of another process. Only this process waits. Short calls end within a few turns of the
  # scheduler; during a long one, asking again all the time would keep a scheduler busy.
  @turns 20
  defp wait(tries, again) do
    if tries < @turns, do: :erlang.yield(), else: Process.sleep(1)
    again.()
  end

  # From the checked mode.
  defp warn(messages, result) do
    messages |> Enum.reverse() |> Enum.each(&IO.warn(&1, []))
    Memory.charge(result)
  end

  # Opening failed. If the reason was Tenon's own NIF, it may be loaded now: when a release boots, a module that is loaded
  # later may be ready earlier. The modules of classes may be called before that of their library is loaded.
  defp bind(module) do
    case failure(module) do
      %Tenon.Error{reason: {:library, why}} = error when why != :nif -> {:error, error}
      _ -> reload(module)
    end
  end

  # Only the functions of the module that is loaded now can be bound. Old code has its own, which are bound if its library
  # could be opened when it was loaded, and as long as the NIF is not replaced.
  defp old_code(module) do
    message =
      "#{inspect(module)} was loaded again with other functions, and this process still runs its old code, which is not " <>
        "bound to a library; call the module by its name, or start the process again"

    {:error, %Tenon.Error{reason: {:library, :signature}, message: message}}
  end

  @doc false
  def __close__(module, key, object, class, tries \\ 0) do
    case Nif.close(module, key, object, class) do
      :unbound when tries == @just_bound -> old_code(module)
      :unbound -> with :ok <- bind(module), do: __close__(module, key, object, class, @just_bound)
      :waiting -> wait(tries, fn -> __close__(module, key, object, class, tries + 1) end)
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

  # An argument, the items of a list of tensors, or the values of options.
  defp values([{key, value} | rest]) when is_atom(key), do: values(value) ++ values(rest)
  defp values([item | rest]), do: [item | values(rest)]
  defp values(argument), do: [argument]

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

  defp convert([_ | _] = list, place, name), do: convert_items(list, place, name, [])

  defp convert(other, _place, _name), do: {:ok, other}

  # The items of a list of tensors. The end of an improper list is left to the NIF, which refuses it.
  defp convert_items([item | rest], place, name, done) do
    if is_struct(item, Nx.Tensor) do
      item_name = fn place ->
        {function, argument} = name.(place)
        {function, {argument, length(done)}}
      end

      with {:ok, converted} <- convert(item, place, item_name), do: convert_items(rest, place, name, [converted | done])
    else
      convert_items(rest, place, name, [item | done])
    end
  end

  defp convert_items([], _place, _name, done), do: {:ok, Enum.reverse(done)}
  defp convert_items(improper, _place, _name, done), do: {:ok, Enum.reverse(done, improper)}

  defp to_nx(%Tenon.Tensor{} = tensor, name), do: Tenon.Nx.to_result(tensor, name)

  defp to_nx(values, name) when is_tuple(values) do
    converted = values |> Tuple.to_list() |> Enum.map(&to_nx(&1, name))

    with nil <- Enum.find(converted, &match?({:error, _}, &1)) do
      {:ok, converted |> Enum.map(&elem(&1, 1)) |> List.to_tuple()}
    end
  end

  defp to_nx([%Tenon.Tensor{} | _] = list, name) do
    with {:ok, values} <- to_nx(List.to_tuple(list), name), do: {:ok, Tuple.to_list(values)}
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
    __opened__(fn -> Nif.library_open(module, {info.id, run_path(info), info.functions}) end)
  rescue
    error ->
      why = if match?(%UndefinedFunctionError{module: Nif}, error), do: :nif, else: :unreadable
      {:error, %Tenon.Error{reason: {:library, why}, message: Exception.message(error)}}
  end

  # Another process opens a library, or calls the `load` of this one. Only this process waits.
  @doc false
  def __opened__(open) do
    with :waiting <- open.() do
      Process.sleep(1)
      __opened__(open)
    end
  end

  defp run_path(%{otp_app: nil, path: path}), do: path
  defp run_path(%{otp_app: app, path: path}), do: Application.app_dir(app, path)
end
