defmodule BeamPython.Worker do
  @moduledoc """
  A Python process that a port owns. It ends with this process.

  A port's child inherits only its standard streams, so tensors travel as names. A request is a line: the name of a function
  in worker.py, and the names of its tensors. The answer is a line too: `ok`, `ok NAME` with a new tensor, or `error TEXT`.
  """
  use GenServer

  @script Path.expand("../../worker.py", __DIR__)

  @doc "Starts Python: the interpreter is `python:`, or the variable PYTHON, or python3."
  def start_link(options \\ []), do: GenServer.start_link(__MODULE__, options)

  @doc "Calls a function of worker.py with shared tensors. Returns `:ok`, `{:ok, tensor}` or `{:error, message}`."
  def call(worker, function, tensors), do: GenServer.call(worker, {:call, function, tensors}, :infinity)

  @impl true
  def init(options) do
    python = options[:python] || System.get_env("PYTHON", "python3")

    case System.find_executable(python) do
      nil ->
        {:stop, "#{python} is not installed"}

      path ->
        port = Port.open({:spawn_executable, path}, [:binary, :exit_status, {:line, 65_536}, args: ["-u", @script]])
        {:ok, %{port: port, requests: :queue.new()}}
    end
  end

  @impl true
  def handle_call({:call, function, tensors}, from, state) do
    Port.command(state.port, Enum.join([function | Enum.map(tensors, &Tenon.Shared.name!/1)], " ") <> "\n")
    # A name is valid as long as its tensor is held, so the tensors stay here until Python has answered.
    {:noreply, %{state | requests: :queue.in({from, tensors}, state.requests)}}
  end

  @impl true
  def handle_info({port, {:data, {:eol, line}}}, %{port: port} = state) do
    {{:value, {from, _tensors}}, requests} = :queue.out(state.requests)
    GenServer.reply(from, answer(line))
    {:noreply, %{state | requests: requests}}
  end

  def handle_info({port, {:exit_status, status}}, %{port: port} = state) do
    for {from, _tensors} <- :queue.to_list(state.requests) do
      GenServer.reply(from, {:error, "Python has ended with status #{status}"})
    end

    {:stop, :normal, state}
  end

  # Python holds a new tensor until the next request, so it is attached to at once.
  defp answer("ok " <> name), do: with({:error, error} <- Tenon.Shared.attach(name), do: {:error, error.message})
  defp answer("ok"), do: :ok
  defp answer("error " <> text), do: {:error, text}
end
